#include "zktesting/detail/guard.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstring>

#include "zktesting/error.hpp"

extern char** environ;

namespace zktesting::detail {
namespace {

// "$@" is the program. It gets no descriptor of the shell but 3, the FIFO, whose hang-up tells the
// owner that it has ended; it is opened before the fork, or a program that is killed at once would
// never have had it, and for reading too, so that the open cannot wait for an owner that has died.
// `read` and `wait` are built in, so nothing reaps the program in between.
constexpr const char* script = R"(
dir=$1
shift
cd /
child=
while read -r word; do
  case $word in
    start) exec 3<>"$dir/alive"
      "$@" </dev/null >>"$dir/log" 2>&1 &
      child=$!
      exec 3>&-
      echo "$child" ;;
    reap) wait "$child"
      echo "$?"
      child= ;;
  esac
done
if [ -n "$child" ]; then
  kill -KILL "$child"
  wait "$child"
fi
command -p rm -rf "$dir"
)";

constexpr auto reply_timeout = std::chrono::seconds(30);

class SpawnSettings {
 public:
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

/// A descriptor above the standard ones, whatever this process has closed.
UniqueFd above_stdio(UniqueFd fd) {
  if (fd.get() > STDERR_FILENO) {
    return fd;
  }
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

}  // namespace

Guard::Guard(std::filesystem::path directory, const std::vector<std::string>& command)
    : directory_(std::move(directory)), owner_(::getpid()) {
  const std::string fifo = directory_ / "alive";
  if (::mkfifo(fifo.c_str(), 0600) != 0) {
    throw Error(errno_text("cannot create " + fifo));
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(errno_text("socketpair"));
  }
  socket_ = above_stdio(UniqueFd(ends[0]));
  const UniqueFd theirs = above_stdio(UniqueFd(ends[1]));
  spawn(command, theirs.get());
}

void Guard::spawn(const std::vector<std::string>& command, int stdio) {
  SpawnSettings settings;
  ::posix_spawn_file_actions_adddup2(&settings.actions, stdio, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.actions, stdio, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&settings.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // Descriptors of other libraries may lack close-on-exec; a server that holds a test's socket
  // would keep the connection open.
  ::posix_spawn_file_actions_addclosefrom_np(&settings.actions, STDERR_FILENO + 1);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&settings.attributes, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &signals);
  ::posix_spawnattr_setflags(&settings.attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> words{"/bin/sh", "-c", script, "zktesting-guard", directory_};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  for (auto& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const int error =
      ::posix_spawn(&shell_, "/bin/sh", &settings.actions, &settings.attributes, arguments.data(), environ);
  if (error != 0) {
    shell_ = -1;
    throw Error(errno_text("cannot start /bin/sh", error));
  }
}

Guard::~Guard() {
  socket_.reset();
  // In a forked child the shell is our parent's affair.
  if (shell_ > 0 && ::getpid() == owner_) {
    while (::waitpid(shell_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void Guard::launch() {
  alive_.reset(::open((directory_ / "alive").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!alive_) {
    throw Error(errno_text("cannot open " + (directory_ / "alive").string()));
  }
  child_ = ask("start\n");
}

void Guard::signal(int number) {
  // A zombie may be signalled: only `wait_for_exit` lets the shell reap it, and forgets it then.
  if (child_ > 0 && ::getpid() == owner_ && ::kill(child_, number) != 0 && errno != ESRCH) {
    throw Error(errno_text(fmt::format("cannot send signal {} to process {}", number, child_)));
  }
}

bool Guard::wait_for_exit(Deadline deadline) {
  if (child_ == 0) {
    return true;
  }
  // Linux reports a hang-up only after there was a writer since our open(): so not before the
  // start.
  pollfd poll{alive_.get(), 0, 0};
  int rc = 0;
  do {
    rc = ::poll(&poll, 1, poll_timeout(deadline));
  } while (rc < 0 && errno == EINTR);
  if (rc <= 0) {
    return false;
  }
  exit_status_ = ask("reap\n");
  child_ = 0;
  return true;
}

int Guard::ask(const char* command) {
  const Deadline deadline = Clock::now() + reply_timeout;
  const auto size = std::strlen(command);
  if (::send(socket_.get(), command, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
    child_ = 0;
    throw Error(errno_text("the process that guards the server is gone"));
  }
  std::string answer;
  while (!answer.ends_with('\n')) {
    pollfd poll{socket_.get(), POLLIN, 0};
    char byte = 0;
    const int rc = ::poll(&poll, 1, poll_timeout(deadline));
    if (rc < 0 && errno == EINTR) {
      continue;
    }
    if (rc <= 0 || ::recv(socket_.get(), &byte, 1, 0) != 1) {
      child_ = 0;
      throw Error("the process that guards the server does not answer");
    }
    answer += byte;
  }
  int value = 0;
  std::from_chars(answer.data(), answer.data() + answer.size(), value);
  return value;
}

}  // namespace zktesting::detail
