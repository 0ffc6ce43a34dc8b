#include "process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

extern char** environ;

namespace tour {
namespace {

[[noreturn]] void fail(const char* what, int error) { throw std::system_error(error, std::generic_category(), what); }

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      fail("pipe", errno);
    }
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  UniqueFd read;
  UniqueFd write;
};

struct SpawnSettings {
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

}  // namespace

Process::Process(const std::vector<std::string>& arguments) {
  Pipe input;
  Pipe output;
  SpawnSettings settings;
  ::posix_spawn_file_actions_adddup2(&settings.actions, input.read.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.actions, output.write.get(), STDOUT_FILENO);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&settings.attributes, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &signals);
  ::posix_spawnattr_setpgroup(&settings.attributes, 0);
  ::posix_spawnattr_setflags(&settings.attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> words{"tour"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const int error =
      ::posix_spawn(&pid_, "/proc/self/exe", &settings.actions, &settings.attributes, pointers.data(), environ);
  if (error != 0) {
    pid_ = 0;
    fail("cannot start a worker process", error);
  }
  input_ = std::move(input.write);
  output_ = std::move(output.read);
}

Process::~Process() {
  if (pid_ != 0) {
    ::kill(pid_, SIGKILL);
    wait();
  }
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), input_(std::move(other.input_)), output_(std::move(other.output_)) {}

void Process::send(std::string_view text) const {
  // SIGPIPE is ignored here. The texts are a few bytes, for which a pipe always has room.
  [[maybe_unused]] const auto ignored = ::write(input_.get(), text.data(), text.size());
}

void Process::pause() const {
  signal(SIGSTOP);
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  while (::waitid(P_PID, id, &info, WSTOPPED | WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

void Process::resume() const { signal(SIGCONT); }

void Process::kill() const { signal(SIGKILL); }

void Process::signal(int number) const {
  // Only wait() reaps the process, so until then the id cannot belong to another process.
  if (pid_ != 0 && ::kill(pid_, number) != 0) {
    fail("kill", errno);
  }
}

int Process::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace tour
