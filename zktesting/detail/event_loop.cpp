#include "zktesting/detail/event_loop.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>

#include "zktesting/error.hpp"

namespace zktesting::detail {
namespace {

constexpr std::uint32_t mask(EventLoop::Event event) {
  return event == EventLoop::Event::readable ? EPOLLIN : EPOLLOUT;
}

constexpr std::uint64_t pack(int fd, std::uint32_t generation) {
  return std::uint64_t{generation} << 32U | static_cast<std::uint32_t>(fd);
}

bool control(int epoll, int operation, int fd, std::uint32_t generation, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = pack(fd, generation);
  return ::epoll_ctl(epoll, operation, fd, &event) == 0;
}

// The thread inherits what the one that starts it blocks: there is no moment in which it takes a signal of the program.
class SignalBlock {
 public:
  SignalBlock() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
      ::sigdelset(&all, own);
    ::pthread_sigmask(SIG_SETMASK, &all, &former_);
  }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;
  ~SignalBlock() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

 private:
  sigset_t former_{};
};

}  // namespace

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_ || !control(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), next_generation_++, EPOLLIN)) {
    throw Error(errno_text("an event loop needs descriptors"));
  }
  const SignalBlock block;
  thread_ = std::thread([this] { serve(); });
}

EventLoop::~EventLoop() {
  post([this] { ending_ = true; });
  thread_.join();
}

void EventLoop::post(Task task) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(task));
  if (posted_.size() > 1) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void EventLoop::serve() {
  std::array<epoll_event, 64> events{};
  while (!ending_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const auto fd = static_cast<int>(event.data.u64 & 0xffffffffU);
      if (fd == wake_.get()) {
        run_posted();
      } else {
        dispatch(fd, static_cast<std::uint32_t>(event.data.u64 >> 32U), event.events);
      }
    }
    run_due();
  }
}

void EventLoop::run_posted() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = ::read(wake_.get(), &count, sizeof count);
  std::deque<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) {
    task();
    task = nullptr;
  }
}

void EventLoop::run_due() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto first = timers_.extract(timers_.begin());
    due_.erase(first.key().second);
    first.mapped()();
  }
}

int EventLoop::timeout_ms() const { return timers_.empty() ? -1 : poll_timeout(timers_.begin()->first.first); }

void EventLoop::await(int fd, Event event, Task task) {
  const auto [entry, is_new] = watched_.try_emplace(fd, Watched{next_generation_});
  if (is_new) ++next_generation_;
  Watched& watched = entry->second;
  watched.tasks[static_cast<std::size_t>(event)] = std::move(task);
  const std::uint32_t events = watched.listened | mask(event);
  if (events == watched.listened) return;
  const int operation = watched.listened == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (!control(epoll_.get(), operation, fd, watched.generation, events)) throw Error(errno_text("epoll_ctl"));
  watched.listened = events;
}

// An event that no coroutine waits for is told once, and then not listened to: so reading again and again costs no call
// of the system but the reads.
void EventLoop::dispatch(int fd, std::uint32_t generation, std::uint32_t events) {
  bool waited_for = false;
  for (const Event event : {Event::readable, Event::writable}) {
    const auto found = watched_.find(fd);
    if (found == watched_.end() || found->second.generation != generation) return;
    if ((events & (mask(event) | EPOLLERR | EPOLLHUP)) == 0) continue;
    const Task task = std::exchange(found->second.tasks[static_cast<std::size_t>(event)], nullptr);
    if (!task) continue;
    waited_for = true;
    task();
  }
  if (waited_for) return;
  Watched& watched = watched_.find(fd)->second;
  control(epoll_.get(), EPOLL_CTL_DEL, fd, generation, 0);
  watched.listened = 0;
  for (const Event event : {Event::readable, Event::writable}) {
    if (watched.tasks[static_cast<std::size_t>(event)]) watched.listened |= mask(event);
  }
  if (watched.listened != 0) control(epoll_.get(), EPOLL_CTL_ADD, fd, generation, watched.listened);
}

void EventLoop::forget(int fd) {
  const auto watched = watched_.extract(fd);
  if (!watched.empty() && watched.mapped().listened != 0) control(epoll_.get(), EPOLL_CTL_DEL, fd, 0, 0);
}

EventLoop::TimerId EventLoop::at(Clock::time_point due, Task task) {
  const TimerId timer = ++next_timer_;
  timers_.emplace(std::pair(due, timer), std::move(task));
  due_.emplace(timer, due);
  return timer;
}

void EventLoop::cancel(TimerId timer) {
  const auto due = due_.extract(timer);
  if (!due.empty()) timers_.erase({due.mapped(), timer});
}

}  // namespace zktesting::detail
