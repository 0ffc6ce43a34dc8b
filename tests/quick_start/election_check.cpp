// election_check <program>: what others see of the election in docs/quick_start.md. Each time the server has done what
// the program asked for, its answer is held back, so that the program cannot go on while the check looks.

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <zkclient/client.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

extern char** environ;

namespace {

using namespace std::chrono_literals;
using zkrecipes::Leader;
using zktesting::RequestType;

constexpr auto patience = 30s;

void require(bool condition, const char* expectation) {
  if (!condition) throw std::runtime_error(expectation);
}

pid_t start(char** arguments) {
  pid_t program = 0;
  const int error = ::posix_spawnp(&program, arguments[0], nullptr, nullptr, arguments, environ);
  if (error != 0) throw std::system_error(error, std::generic_category(), arguments[0]);
  return program;
}

int exit_code_of(pid_t program) {
  int status = 0;
  while (::waitpid(program, &status, 0) < 0 && errno == EINTR)
    continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_found(const zkrecipes::LeaderElection& election) {
  try {
    (void)election.wait_for_leader({}, {.deadline = 200ms});
    return true;
  } catch (const zkclient::Error& error) {
    if (error.errc() != zkclient::Errc::deadline_exceeded) throw;
    return false;
  }
}

// Publications are transactions, and so are proofs: after which of them others see what is asked of each.
void look_at(zktesting::Proxy& proxy, const zkrecipes::LeaderElection& election, zktesting::HeldReply held) {
  bool proclaimed_before = false;
  for (;;) {
    require(held.wait(patience), "it goes on until it is ready");
    const std::optional<Leader> leader = election.leader();
    require(leader.has_value(), "it leads");
    if (leader->ready) break;
    proclaimed_before = proclaimed_before || leader->value == "http://127.0.0.1:8080";
    require(!is_found(election), "wait_for_leader() does not find it before ready()");
    held = proxy.hold_next_reply(RequestType::multi);  // Lets the one before go on.
  }
  require(proclaimed_before, "it proclaims its address first");
  const Leader found = election.wait_for_leader({}, {.deadline = patience});
  require(found.value == "http://127.0.0.1:8080", "wait_for_leader() finds it, with its address");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: election_check <program>\n");
    return 2;
  }
  try {
    const zktesting::Server server;
    zktesting::Proxy proxy(server.connect_string());
    const zkclient::Client client(server.connect_string());
    const zkrecipes::LeaderElection election(client, "/election");
    zktesting::HeldReply first = proxy.hold_next_reply(RequestType::multi);
    ::setenv("ZKRECIPES_SERVER", proxy.connect_string().c_str(), 1);
    const pid_t program = start(argv + 1);
    look_at(proxy, election, std::move(first));
    require(exit_code_of(program) == EXIT_SUCCESS, "it ends well");
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "election_check: not so: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
