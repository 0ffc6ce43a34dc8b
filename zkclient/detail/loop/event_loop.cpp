#include "zkclient/detail/loop/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>
#include <optional>
#include <string>

#include <zkclient/error.hpp>

#ifdef __GLIBC_PREREQ
#define ZKR_HAS_EPOLL_PWAIT2 __GLIBC_PREREQ(2, 35)
#endif

namespace zkclient::detail {
namespace {

constexpr std::uint64_t wake_key = 0;
constexpr std::uint64_t boot_timer_key = 1;
constexpr int most_tasks = 256;  // Before the descriptors get their turn.
using Events = std::array<epoll_event, 64>;

thread_local EventLoop* current_loop = nullptr;

bool add(int epoll, int fd, std::uint32_t events, std::uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return fd != -1 && ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// A pause may be shorter than a millisecond, in which epoll_wait() counts. That is rounded up: a timer that fired too
// early would be set again. `precisely` becomes false if the kernel is older than Linux 5.11, or a sandbox refuses it.
int wait_for(int epoll, Events& events, std::optional<std::chrono::nanoseconds> time,
             [[maybe_unused]] bool& precisely) {
  const int size = static_cast<int>(events.size());
#if ZKR_HAS_EPOLL_PWAIT2
  if (precisely) {
    timespec limit{};
    if (time) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*time);
      limit.tv_sec = seconds.count();
      limit.tv_nsec = (*time - seconds).count();
    }
    const int count = ::epoll_pwait2(epoll, events.data(), size, time ? &limit : nullptr, nullptr);
    if (count >= 0 || errno == EINTR) return count;
    precisely = false;
  }
#endif
  const int limit = time ? static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*time).count()) : -1;
  return ::epoll_wait(epoll, events.data(), size, limit);
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      boot_timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  // Each write to the eventfd is a new edge, so it need not be read.
  if (add(epoll_, wake_, EPOLLIN | EPOLLET, wake_key) && add(epoll_, boot_timer_, EPOLLIN, boot_timer_key)) return;
  const int error = errno;
  for (const int fd : {epoll_, wake_, boot_timer_}) {
    if (fd != -1) ::close(fd);
  }
  throw Error(Errc::system_error, "runtime", "",
              std::string("the event loop needs descriptors: ") + std::strerror(error));
}

EventLoop::~EventLoop() {
  for (const int fd : {epoll_, wake_, boot_timer_})
    ::close(fd);
}

// Not inlined: a coroutine that is resumed on another thread must not go by the address of this one's variable.
[[gnu::noinline]] EventLoop* EventLoop::current() noexcept { return current_loop; }

bool EventLoop::post(Task task) {
  if (current() == this) {
    if (closed_) return false;
    defer(std::move(task));
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    foreign_.push_back(std::move(task));
    foreign_waiting_ = true;
  }
  wake();
  return true;
}

void EventLoop::wake() noexcept {
  if (!sleeps_.exchange(false)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

void EventLoop::defer(Task task) {
  if (foreign_waiting_) take_foreign();  // Tasks that were posted before come before.
  tasks_.push_back(std::move(task));
}

void EventLoop::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake();
}

void EventLoop::take_foreign() {
  const std::lock_guard lock(mutex_);
  foreign_waiting_ = false;
  if (tasks_.empty()) {
    tasks_.swap(foreign_);
    return;
  }
  std::move(foreign_.begin(), foreign_.end(), std::back_inserter(tasks_));
  foreign_.clear();
}

bool EventLoop::idle() const noexcept {
  return tasks_.empty() && ready_.empty() && timers_.empty() && boot_timers_.empty() && descriptors_.empty();
}

bool EventLoop::run() {
  current_loop = this;
  bool ended = false;
  for (interrupted_ = false; !interrupted_ && !ended;) {
    run_tasks();
    if (interrupted_) break;
    run_timers();
    if (interrupted_) break;
    if (!foreign_waiting_ && idle()) {
      const std::lock_guard lock(mutex_);
      ended = closed_ && foreign_.empty();
    }
    if (!ended) wait();
  }
  current_loop = nullptr;
  return ended;
}

void EventLoop::run_ready() {
  while (!ready_.empty()) {
    const std::coroutine_handle<> next = ready_.front();
    ready_.pop_front();
    next.resume();
  }
}

void EventLoop::run_tasks() {
  run_ready();
  for (int turn = 0; turn < most_tasks && !interrupted_; ++turn) {
    if (foreign_waiting_) take_foreign();
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    task = nullptr;  // Its captures go before anything else happens.
    run_ready();
  }
}

void EventLoop::run_timers() {
  if (timers_.empty() && boot_timers_.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  while (!interrupted_) {
    Task task = timers_.take_due(now);
    if (!task) break;
    task();
    task = nullptr;
    run_ready();
  }
}

// Nothing: until something happens.
std::optional<std::chrono::nanoseconds> EventLoop::time_to_wait() {
  using std::chrono::nanoseconds;
  if (!tasks_.empty() || interrupted_) return nanoseconds::zero();
  if (timers_.empty()) return std::nullopt;
  const auto left = timers_.next() - std::chrono::steady_clock::now();
  return std::clamp<nanoseconds>(left, nanoseconds::zero(), std::chrono::hours(1));
}

void EventLoop::set_boot_timer() {
  const BootClock::time_point due = boot_timers_.next();
  if (due == boot_timer_due_) return;
  boot_timer_due_ = due;
  itimerspec when{};  // Zeroes disarm it.
  if (due != BootClock::time_point::max()) {
    const auto since = std::max<std::chrono::nanoseconds>(due.time_since_epoch(), std::chrono::nanoseconds(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    when.it_value.tv_sec = seconds.count();
    when.it_value.tv_nsec = (since - seconds).count();
  }
  ::timerfd_settime(boot_timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void EventLoop::wait() {
  set_boot_timer();
  Events events;
  auto left = time_to_wait();
  if (left != std::chrono::nanoseconds::zero()) {
    sleeps_ = true;
    // Since we looked, perhaps without a wake-up.
    if (foreign_waiting_ || (closed_ && idle())) left = std::chrono::nanoseconds::zero();
  }
  const int count = wait_for(epoll_, events, left, waits_precisely_);
  sleeps_ = false;
  for (int i = 0; i < count; ++i)
    dispatch(events[static_cast<std::size_t>(i)].data.u64, events[static_cast<std::size_t>(i)].events);
}

// An event whose turn does not come, because the loop was interrupted, is told again.
void EventLoop::dispatch(std::uint64_t key, std::uint32_t events) {
  if (interrupted_ || key == wake_key) return;
  if (key == boot_timer_key) {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t count = ::read(boot_timer_, &expirations, sizeof expirations);
    boot_timer_due_ = BootClock::time_point::max();
    const auto now = BootClock::now();
    while (Task task = boot_timers_.take_due(now)) {
      task();
      task = nullptr;
      run_ready();
    }
    return;
  }
  const auto found = descriptors_.find(key);
  if (found == descriptors_.end()) return;  // Closed by an event before it.
  Descriptor& descriptor = *found->second;
  const bool trouble = (events & (EPOLLERR | EPOLLHUP)) != 0;
  const bool readable = (descriptor.events_ & EPOLLIN) != 0 && ((events & EPOLLIN) != 0 || trouble);
  const bool writable = (descriptor.events_ & EPOLLOUT) != 0 && ((events & EPOLLOUT) != 0 || trouble);
  if (!readable && !writable) return;
  descriptor.on_ready_(readable, writable);
  run_ready();
}

bool EventLoop::listen(Descriptor& descriptor, std::uint32_t events) noexcept {
  if (events == descriptor.events_) return true;
  epoll_event event{};
  event.events = events;
  event.data.u64 = descriptor.key_;
  const int operation = descriptor.events_ == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_, operation, descriptor.fd_, &event) != 0) return false;
  if (descriptor.events_ == 0) descriptors_.insert_or_assign(descriptor.key_, &descriptor);
  if (events == 0) descriptors_.erase(descriptor.key_);
  descriptor.events_ = events;
  return true;
}

// A key of its own for each descriptor that is opened: an event may be told late, of one that was closed.
void Descriptor::open(int fd) noexcept {
  close();
  fd_ = fd;
  key_ = loop_->next_key_++;
}

void Descriptor::close() noexcept {
  if (fd_ == -1) return;
  listen_for(false, false);
  ::close(std::exchange(fd_, -1));
}

bool Descriptor::listen_for(bool read, bool write) noexcept {
  const std::uint32_t events = (read ? std::uint32_t{EPOLLIN} : 0U) | (write ? std::uint32_t{EPOLLOUT} : 0U);
  return fd_ != -1 && loop_->listen(*this, events);
}

bool Descriptor::listens_for_write() const noexcept { return (events_ & EPOLLOUT) != 0; }

}  // namespace zkclient::detail
