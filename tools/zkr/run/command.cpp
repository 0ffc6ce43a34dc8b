#include "tools/zkr/run/command.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

namespace zkr {
namespace {

constexpr std::array<std::string_view, 2> process_numbers{"LISTEN_PID", "WATCHDOG_PID"};
constexpr std::size_t digits = 10;

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

/// All that the child needs, made before the fork: after it, it must not allocate.
struct Plan {
  const Command& command;
  const Caller& caller;
  Environment& environment;
  std::vector<std::string> files;
  std::vector<char*> words;        // The command's.
  std::vector<char*> shell_words;  // "/bin/sh", the file, and the command's further words.
  std::string shell = "/bin/sh";
  int cgroup_door;
  int input;
  std::uint64_t limit;
  Instant too_late;
  int trouble;
  int lost = -1;
  pid_t keeper = ::getpid();
  bool in_our_group;
};

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words)
    pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// As execvp(): what is no program is a shell script. Returns only with an error.
int execute(Plan& plan) {
  char** environment = plan.environment.for_process(::getpid());
  int worst = ENOENT;
  for (const std::string& file : plan.files) {
    ::execve(file.c_str(), plan.words.data(), environment);
    if (errno == ENOEXEC) {
      plan.shell_words[1] = const_cast<char*>(file.c_str());
      ::execve(plan.shell.c_str(), plan.shell_words.data(), environment);
    }
    if (errno != ENOENT && errno != ENOTDIR) worst = errno;
    if (worst != ENOENT && worst != EACCES) break;
  }
  return worst;
}

/// dup2() would leave one that has the number already to be closed.
void pass_on_as(int number, int descriptor) {
  if (descriptor == number) ::fcntl(descriptor, F_SETFD, 0);
  if (descriptor != number) ::dup2(descriptor, number);
}

/// A caller's limit may be lower than the mark: then the environment alone tells whose the process is.
void mark_by_limit(std::uint64_t limit) {
  rlimit locks{};
  if (limit == 0 || ::getrlimit(RLIMIT_LOCKS, &locks) != 0) return;
  locks.rlim_cur = limit;
  ::setrlimit(RLIMIT_LOCKS, &locks);
}

[[noreturn]] void become_command(Plan& plan) {
  if (plan.command.after_fork) plan.command.after_fork();
  // A keeper that died before this cannot have been noticed: then somebody else is our parent.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.keeper) ::_exit(127);
  if (!plan.in_our_group) ::setpgid(0, 0);
  if (plan.cgroup_door >= 0 && ::write(plan.cgroup_door, "0", 1) != 1) {
    // The walk of the tree finds it all the same.
  }
  mark_by_limit(plan.limit);
  if (plan.input >= 0) pass_on_as(STDIN_FILENO, plan.input);
  if (plan.lost >= 0) pass_on_as(*plan.command.lost_descriptor, plan.lost);
  plan.caller.restore_dispositions();
  plan.caller.restore_mask();
  const int error = BootClock::now() < plan.too_late ? execute(plan) : ETIME;
  if (::write(plan.trouble, &error, sizeof error) < 0) {
    // The exit code says it as well.
  }
  ::_exit(error == ENOENT ? 127 : 126);
}

/// The same, by a number that is not in the way of those that the command is to find.
Descriptor moved_above(int lowest, Descriptor descriptor) {
  return Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, lowest));
}

std::vector<char*> shell_words(const Plan& plan) {
  std::vector<char*> words{const_cast<char*>(plan.shell.c_str()), nullptr};
  words.insert(words.end(), plan.words.begin() + 1, plan.words.end());
  return words;
}

}  // namespace

Environment::Environment(char** inherited, const std::vector<std::string>& changes, pid_t front) {
  const auto replaced = [&](std::string_view entry) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const std::string& change) { return name_of(change) == name_of(entry); });
  };
  for (char** entry = inherited; *entry != nullptr; ++entry) {
    if (!replaced(*entry)) entries_.emplace_back(*entry);
  }
  std::copy_if(changes.begin(), changes.end(), std::back_inserter(entries_),
               [](const std::string& change) { return change.find('=') != std::string::npos; });
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (const std::string_view name : process_numbers) {
      if (entries_[i] != std::string(name) + "=" + std::to_string(front)) continue;
      entries_[i] = std::string(name) + "=" + std::string(digits, '\0');
      numbers_.push_back(i);
    }
  }
  pointers_ = pointers_to(entries_);
}

char** Environment::for_process(pid_t command) {
  std::array<char, digits + 1> text{};
  std::size_t begin = digits;
  for (pid_t left = command; left > 0; left /= 10)
    text[--begin] = static_cast<char>('0' + left % 10);
  for (const std::size_t index : numbers_)
    std::memcpy(std::strchr(pointers_[index], '=') + 1, &text[begin], digits + 1 - begin);
  return pointers_.data();
}

std::vector<std::string> candidates(const std::string& word, const char* search_path) {
  if (word.find('/') != std::string::npos || word.empty()) return {word};
  std::vector<std::string> files;
  const std::string folders = search_path != nullptr ? search_path : "/bin:/usr/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    std::string file = end == begin ? "." : folders.substr(begin, end - begin);
    file += '/';
    file += word;
    files.push_back(std::move(file));
    begin = end + 1;
  }
  return files;
}

int why_not_runnable(const std::string& word, const char* search_path) {
  int worst = ENOENT;
  for (const std::string& file : candidates(word, search_path)) {
    struct stat found {};
    if (::stat(file.c_str(), &found) == 0) {
      if (S_ISREG(found.st_mode) && ::faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS) == 0) return 0;
      worst = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      worst = errno;
    }
  }
  return worst;
}

Started start(const Command& command, const Caller& caller, Environment& environment, int cgroup_door, int input,
              std::uint64_t limit, Instant too_late) {
  std::array<int, 2> trouble{-1, -1};
  std::array<int, 2> lost{-1, -1};
  if (::pipe2(trouble.data(), O_CLOEXEC | O_NONBLOCK) != 0) return {};
  Started started;
  started.trouble = Descriptor(trouble[0]);
  started.in_our_group = caller.in_foreground();
  const Descriptor tell_trouble = moved_above(command.lost_descriptor.value_or(0) + 1, Descriptor(trouble[1]));
  if (command.lost_descriptor && ::pipe2(lost.data(), O_CLOEXEC) != 0) return started;
  const Descriptor tell_lost(lost[0]);
  started.unlost = Descriptor(lost[1]);
  Plan plan{.command = command,
            .caller = caller,
            .environment = environment,
            .files = candidates(command.words.at(0), std::getenv("PATH")),
            .words = pointers_to(command.words),
            .shell_words = {},
            .cgroup_door = cgroup_door,
            .input = input,
            .limit = limit,
            .too_late = too_late,
            .trouble = tell_trouble.get(),
            .lost = lost[0],
            .in_our_group = started.in_our_group};
  plan.shell_words = shell_words(plan);
  started.number = ::fork();
  if (started.number == 0) become_command(plan);
  if (started.number < 0) return started;
  if (!started.in_our_group) ::setpgid(started.number, started.number);  // Whoever of us is first.
  started.process = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, started.number, 0)));
  return started;
}

}  // namespace zkr
