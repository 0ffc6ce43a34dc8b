#include "tools/zkr/run/descriptor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

namespace zkr {

BootTimer::BootTimer() : timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {}

void BootTimer::set(std::optional<Instant> instant) {
  // A timer that has fired and is set to the same instant must fire again, so only "never" is remembered.
  if (!instant && !set_to_) return;
  set_to_ = instant;
  itimerspec when{};
  if (instant) {
    const auto nanoseconds = std::max<std::int64_t>(1, instant->time_since_epoch().count());  // Zero would disarm it.
    when.it_value = {.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void wait_for_any(std::initializer_list<int> descriptors, int writable) {
  std::vector<pollfd> polled;
  for (const int descriptor : descriptors)
    polled.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});  // poll() skips negative ones.
  polled.push_back({.fd = writable, .events = POLLOUT, .revents = 0});
  ::poll(polled.data(), polled.size(), -1);
}

bool readable_now(int descriptor) {
  pollfd polled{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) == 1;
}

void drain(int descriptor) {
  char buffer[512];
  while (::read(descriptor, buffer, sizeof buffer) > 0) {
  }
}

void occupy_standard_descriptors() {
  constexpr int ways[] = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    const bool closed = ::fcntl(number, F_GETFD) < 0;
    if (closed) ::open("/dev/null", ways[number] | O_CLOEXEC);  // It gets the lowest number that is free: this one.
  }
}

Descriptor file_with(const std::string& bytes) {
  Descriptor file(::memfd_create("zkr-input", MFD_CLOEXEC));
  for (std::size_t written = 0; file && written < bytes.size();) {
    const ssize_t size = ::write(file.get(), bytes.data() + written, bytes.size() - written);
    if (size <= 0) throw std::system_error(errno, std::generic_category(), "a file in memory");
    written += static_cast<std::size_t>(size);
  }
  if (!file || ::lseek(file.get(), 0, SEEK_SET) != 0)
    throw std::system_error(errno, std::generic_category(), "a file in memory");
  return file;
}

Descriptor signal_descriptor(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals)
    sigaddset(&set, signal);
  return Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Descriptor all_signals_descriptor() {
  sigset_t set;
  sigfillset(&set);
  return Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace zkr
