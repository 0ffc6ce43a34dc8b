#include "tools/zkr/run/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>

namespace zkr {
namespace {

/// A descriptor is open for each level. What lies deeper is reached when what lies above it is dead.
constexpr int deepest_level = 200;

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = ::read(descriptor, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(size));
  return text;
}

using Visit = std::function<void(const PinnedProcess&, const PinnedProcess::Status&)>;

/// Its parent is this process, or is still the one in whose list it was.
bool is_ours(const PinnedProcess::Status& status, const PinnedProcess& lister) {
  if (status.parent == ::getpid()) return true;
  return status.parent == lister.number() && lister.lives();
}

/// Each living one: its children are listed before it is visited, and visited after it.
void walk(const PinnedProcess& parent, const std::vector<pid_t>& children, int level, const Visit& visit) {
  for (const pid_t number : children) {
    const PinnedProcess child(number);
    const auto status = child.status();
    if (!status || status->state == 'Z' || status->state == 'X' || !is_ours(*status, parent)) continue;
    const std::vector<pid_t> grandchildren = level < deepest_level ? child.children() : std::vector<pid_t>();
    visit(child, *status);
    walk(child, grandchildren, level + 1, visit);
  }
}

std::vector<pid_t> our_children(const std::set<pid_t>& spared) {
  std::vector<pid_t> children = PinnedProcess(::getpid()).children();
  std::erase_if(children, [&](pid_t child) { return spared.contains(child); });
  return children;
}

void walk_below_us(const std::set<pid_t>& spared, const Visit& visit) {
  walk(PinnedProcess(::getpid()), our_children(spared), 0, visit);
}

bool stopped(char state) { return state == 'T' || state == 't'; }

/// A text of "stat" behind the name, which may hold anything, ')' as well. Empty: there is none.
std::string behind_name(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos ? "" : stat.substr(name_end + 1);
}

}  // namespace

PinnedProcess::PinnedProcess(pid_t number)
    : number_(number),
      directory_(::open(("/proc/" + std::to_string(number)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

PinnedProcess::~PinnedProcess() {
  if (directory_ >= 0) ::close(directory_);
}

std::string PinnedProcess::read(const std::string& name) const {
  const int file = ::openat(directory_, name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text = read_all(file);
  ::close(file);
  return text;
}

std::optional<PinnedProcess::Status> PinnedProcess::status() const {
  const std::string text = behind_name(read("stat"));
  if (text.empty()) return std::nullopt;
  std::istringstream fields(text);
  Status status;
  fields >> status.state >> status.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field)
    fields >> skipped;
  fields >> status.started;
  if (status.state == 'Z') status.state = state_of_other_threads();
  return status;
}

char PinnedProcess::state_of_other_threads() const {
  for (const std::string& task : tasks()) {
    const std::string text = behind_name(read("task/" + task + "/stat"));
    if (text.size() > 1 && text[1] != 'Z' && text[1] != 'X') return text[1];
  }
  return 'Z';
}

bool PinnedProcess::lives() const {
  const auto now = status();
  return now && now->state != 'Z' && now->state != 'X';
}

std::vector<std::string> PinnedProcess::tasks() const {
  std::vector<std::string> found;
  const int folder = ::openat(directory_, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return found;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(folder), &::closedir);
  for (const dirent* task = nullptr; (task = ::readdir(list.get())) != nullptr;) {
    if (task->d_name[0] != '.') found.emplace_back(task->d_name);
  }
  return found;
}

std::vector<pid_t> PinnedProcess::children() const {
  std::vector<pid_t> found;
  for (const std::string& task : tasks()) {
    std::istringstream numbers(read("task/" + task + "/children"));
    for (pid_t number = 0; numbers >> number;)
      found.push_back(number);
  }
  return found;
}

int PinnedProcess::signal(int signal) const {
  return ::syscall(SYS_pidfd_send_signal, directory_, signal, nullptr, 0) == 0 ? 0 : errno;
}

bool ProcessTree::can_be_seen() {
  const std::string own = std::to_string(::getpid());
  std::array<char, 32> self{};  // Of the namespace that /proc was mounted in.
  const ssize_t size = ::readlink("/proc/self", self.data(), self.size());
  if (size < 0 || own != std::string(self.data(), static_cast<std::size_t>(size))) return false;
  return ::access(("/proc/self/task/" + own + "/children").c_str(), R_OK) == 0;
}

bool ProcessTree::empty() const { return our_children(spared_).empty(); }

void ProcessTree::signal(int signal) {
  walk_below_us(spared_, [signal](const PinnedProcess& process, const PinnedProcess::Status& status) {
    process.signal(signal);
    if (stopped(status.state)) process.signal(SIGCONT);
  });
}

std::vector<pid_t> ProcessTree::kill() {
  constexpr int most_walks = 20;  // The caller reaps, and comes again.
  std::set<pid_t> killed;
  std::vector<pid_t> refused;
  bool found_more = true;
  for (int i = 0; i < most_walks && found_more; ++i) {
    found_more = false;
    walk_below_us(spared_, [&](const PinnedProcess& process, const PinnedProcess::Status&) {
      if (!killed.insert(process.number()).second) return;
      found_more = true;
      if (process.signal(SIGKILL) == EPERM) refused.push_back(process.number());
    });
  }
  return refused;
}

void ProcessTree::freeze() {
  bool found_more = true;
  while (found_more) {
    found_more = false;
    walk_below_us(spared_, [&](const PinnedProcess& process, const PinnedProcess::Status& status) {
      if (stopped(status.state) || !frozen_.emplace(process.number(), status.started).second) return;
      found_more = process.signal(SIGSTOP) == 0 || found_more;
    });
  }
}

void ProcessTree::thaw() {
  walk_below_us(spared_, [&](const PinnedProcess& process, const PinnedProcess::Status& status) {
    const auto found = frozen_.find(process.number());
    if (found != frozen_.end() && found->second == status.started) process.signal(SIGCONT);
  });
  frozen_.clear();
}

bool reap(const std::function<void(const ChildNews&)>& tell) {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (info.si_pid == 0) return true;
    tell({.number = info.si_pid, .code = info.si_code, .status = info.si_status});
  }
}

}  // namespace zkr
