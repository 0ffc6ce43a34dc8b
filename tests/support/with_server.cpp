// with_server <program> [argument...]: runs a program with ZKRECIPES_SERVER set to a ZooKeeper of its
// own (if it is not set already) and returns its exit code. For tests of whole programs.

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <zktesting/environment.hpp>

extern char** environ;

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: with_server <program> [argument...]\n");
    return 2;
  }
  try {
    const auto& server = zktesting::SharedServer::instance();
    ::setenv("ZKRECIPES_SERVER", server.connect_string().c_str(), 1);
    pid_t program = 0;
    const int error = ::posix_spawnp(&program, argv[1], nullptr, nullptr, argv + 1, environ);
    if (error != 0) {
      std::fprintf(stderr, "with_server: cannot start %s (error %d)\n", argv[1], error);
      return EXIT_FAILURE;
    }
    int status = 0;
    while (::waitpid(program, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "with_server: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
