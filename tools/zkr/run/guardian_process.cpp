#include "tools/zkr/run/guardian_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "tools/guardian/guardian.hpp"
#include "tools/guardian/orders.hpp"

namespace zkr {
namespace {

constexpr int claim_number = STDERR_FILENO + 1;

/// Nobody is to wait for the end of what we have open because of it. The claim gets that number.
void keep_only(int socket, int claim) {
  ::dup2(socket, STDIN_FILENO);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  if (claim >= 0) ::dup2(claim, claim_number);
  ::close_range(claim >= 0 ? claim_number + 1 : claim_number, ~0U, 0);
}

/// Too high to be anybody's limit of anything. 0: there are no random numbers.
std::uint64_t random_limit() {
  constexpr std::uint64_t highest_bit = std::uint64_t{1} << 61U;
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) return 0;
  return highest_bit | (number & (highest_bit - 1));
}

std::string word_of(const std::string& mark) { return mark.substr(mark.find('=') + 1); }

/// Forks with all signals blocked: no signal but KILL is to end the child.
pid_t fork_deaf() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t number = ::fork();
  if (number != 0) ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return number;
}

}  // namespace

std::string mark_entry(const std::string& mark) {
  const char* outer = std::getenv("ZKR_IDS");
  return std::string(guardian::mark_variable) + (outer != nullptr ? std::string(outer) + " " : "") + word_of(mark);
}

std::optional<GuardianProcess> GuardianProcess::start(const std::string& mark, const std::optional<Cgroup>& cgroup,
                                                      int claim) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return std::nullopt;
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  const pid_t number = fork_deaf();
  if (number < 0) return std::nullopt;
  if (number == 0) {
    keep_only(theirs.get(), claim);
    ::prctl(PR_SET_NAME, "lease-guardian");  // `pkill zkr` is for the others.
    ::_exit(guardian::guard(STDIN_FILENO, claim >= 0 ? claim_number : -1));
  }
  GuardianProcess started(number, random_limit(), std::move(ours));
  started.tell("limit " + std::to_string(started.limit()));
  started.tell("mark " + std::string(guardian::mark_variable) + word_of(mark));
  if (cgroup) started.tell("cgroup " + cgroup->path());
  return started;
}

void GuardianProcess::tell(const std::string& line) const {
  const std::string text = line + "\n";
  if (::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    // It is gone: the lease ends with its session then.
  }
}

void GuardianProcess::end() const {
  tell("farewell");
  // It may be stopped, so it is killed as well; if it has been waited for, its number may be another process's.
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(number_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  ::kill(number_, SIGKILL);
  while (::waitpid(number_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace zkr
