#include "tools/zkr/run/caller.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace zkr {
namespace {

std::vector<int> open_descriptors() {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir("/proc/self/fd"), &::closedir);
  if (!list) return {0, 1, 2};
  for (const dirent* entry = nullptr; (entry = ::readdir(list.get())) != nullptr;) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != ::dirfd(list.get())) found.push_back(number);
  }
  return found;
}

}  // namespace

Caller::Caller() : descriptors_(open_descriptors()) {
  occupy_standard_descriptors();
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    ignored_[static_cast<std::size_t>(signal)] =
        ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }
  ::signal(SIGCHLD, SIG_DFL);  // If it is ignored, nobody hears how a child has ended.
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &mask_);
  terminal_ = Descriptor(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  termios state{};
  if (in_foreground() && ::tcgetattr(terminal_.get(), &state) == 0) terminal_state_ = state;
}

bool Caller::in_foreground() const { return terminal_ && ::tcgetpgrp(terminal_.get()) == ::getpgrp(); }

void Caller::restore_terminal() const {
  if (terminal_state_ && in_foreground()) ::tcsetattr(terminal_.get(), TCSADRAIN, &*terminal_state_);
}

void Caller::let_go_descriptors(bool keep_errors) {
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int number : descriptors_) {
    if (number == STDERR_FILENO && keep_errors) continue;
    if (number <= STDERR_FILENO) ::dup3(nothing.get(), number, O_CLOEXEC);
    if (number > STDERR_FILENO) ::close(number);
  }
  descriptors_.clear();
}

void Caller::restore_dispositions() const {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    action.sa_handler = ignored_[static_cast<std::size_t>(signal)] ? SIG_IGN : SIG_DFL;
    ::sigaction(signal, &action, nullptr);  // Fails for those that nobody may set.
  }
}

void Caller::restore_mask() const { ::sigprocmask(SIG_SETMASK, &mask_, nullptr); }

}  // namespace zkr
