#include "simulation/kernel/kernel.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "simulation/kernel/descriptors.hpp"
#include "simulation/seam/real.hpp"

extern "C" void __asan_init() __attribute__((weak));  // Is it linked?

namespace zktesting::simulated {
namespace {

constexpr int most_idle_turns = 200'000;
constexpr std::uint64_t steps_of_a_run = 50'000;  // Over which change points are spread.
constexpr Nanos shortest_step{50};
constexpr Nanos longest_step{1500};

Kernel* instance_ = nullptr;
thread_local Thread* current_ = nullptr;

long real_syscall(long number, void* address, long what, long value) {
  using Call = long (*)(long, ...);
  return ZKR_REAL_AS(Call, syscall)(number, address, what, value, nullptr, nullptr, 0);
}

}  // namespace

Thread* Kernel::current() { return current_; }
Kernel* Kernel::instance() { return instance_; }

InsideKernel::InsideKernel() : before_(current_) { current_ = nullptr; }
InsideKernel::~InsideKernel() { current_ = before_; }

Kernel::Kernel(std::uint64_t seed, const ScheduleOptions& schedule)
    : events_(seed), network_(events_), schedule_(schedule), descriptors_(std::make_unique<Descriptors>(*this)) {
  for (int i = 0; i < schedule_.change_points; ++i)
    change_points_.push_back(random().below(steps_of_a_run));
  std::sort(change_points_.begin(), change_points_.end());
  driver_process_ = &add_process("the test", 0);
  threads_.push_back(std::make_unique<Thread>());
  driver_ = threads_.back().get();
  driver_->process = driver_process_;
  driver_->priority = ~std::uint64_t{0};
  ::pthread_sigmask(SIG_SETMASK, nullptr, &driver_->blocked_signals);
  handing_over_.emplace(*driver_);
  holder_ = driver_;
  instance_ = this;
  const auto watch = [](void* kernel) -> void* {
    static_cast<Kernel*>(kernel)->watch_turns();
    return nullptr;
  };
  ZKR_REAL(pthread_create)(&watch_, nullptr, watch, this);
  current_ = driver_;
}

Kernel::~Kernel() { end(); }

void Kernel::end() {
  if (instance_ != this) return;
  for (const auto& process : processes_) {
    if (process.get() != driver_process_) kill(*process);
  }
  current_ = nullptr;
  descriptors_->close_all(*driver_process_);
  for (const auto& thread : threads_) {
    if (thread.get() == driver_ || thread->state == Thread::State::finished) continue;
    Turns::end(*thread);
  }
  // What is joined gives its stack to the next thread, and AddressSanitizer believes that the killed one is still on it.
  // It reads its turn once more before it ends, perhaps when static objects are gone already.
  static auto& never_joined = *new std::vector<std::unique_ptr<Thread>>;
  for (auto& thread : threads_) {
    if (thread.get() == driver_ || thread->joined) continue;
    if (thread->state != Thread::State::finished && &__asan_init != nullptr) {
      never_joined.push_back(std::move(thread));
    } else {
      ZKR_REAL(pthread_join)(thread->real, nullptr);
    }
  }
  std::atomic_ref(watch_ends_).store(1);
  real_syscall(SYS_futex, &watch_ends_, FUTEX_WAKE_PRIVATE, 1);
  ZKR_REAL(pthread_join)(watch_, nullptr);
  instance_ = nullptr;
  events_.clear();
  network_.lose_all();
}

// A turn that does not end is a call that blocks outside the world, or a loop: without a word a test would hang.
void Kernel::watch_turns() {
  constexpr timespec look_every{.tv_sec = 30, .tv_nsec = 0};
  using Call = long (*)(long, ...);
  std::uint64_t seen = 0;
  bool told = false;
  while (std::atomic_ref(watch_ends_).load() == 0) {
    ZKR_REAL_AS(Call, syscall)(SYS_futex, &watch_ends_, FUTEX_WAIT_PRIVATE, 0, &look_every, nullptr, 0);
    const std::uint64_t now = std::atomic_ref(turns_).load(std::memory_order_relaxed);
    const Thread* const holder = std::atomic_ref(holder_).load(std::memory_order_relaxed);
    if (now == seen && holder != driver_ && told) std::abort();
    told = false;
    if (now == seen && holder != driver_) {
      std::fprintf(
          stderr,
          "simulation: a thread of \"%s\" has had its turn for 30 s: it loops, or is in a call that the simulated "
          "world does not know; it has 30 s more\n",
          holder->process->name.c_str());
      told = true;
    }
    seen = now;
  }
}

// --- Processes -----------------------------------------------------------------------------------

ClientProcess& Kernel::add_process(const std::string& name, Host host) {
  processes_.push_back(std::make_unique<ClientProcess>());
  ClientProcess& process = *processes_.back();
  process.pid = ++pids_;
  process.name = name;
  process.host = host;
  return process;
}

bool Kernel::runs(const ClientProcess& process) const {
  return !process.dead && std::any_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
    return thread->process == &process && thread->state != Thread::State::finished;
  });
}

Thread& Kernel::start_thread(ClientProcess& process, std::function<void*()> body) {
  threads_.push_back(std::make_unique<Thread>());
  Thread& thread = *threads_.back();
  thread.number = static_cast<int>(threads_.size()) - 1;
  thread.process = &process;
  thread.body = std::move(body);
  thread.priority = random().next() >> 1;
  // Its last act: the destructors of thread_locals have run by then, in its turn. glibc gives what a killed thread had by
  // its keys to one that gets its stack, be it of the world or not.
  static const pthread_key_t last_act = [] {
    pthread_key_t key{};
    ::pthread_key_create(&key, [](void* ended) {
      if (current_ == ended) instance_->finish_thread(*static_cast<Thread*>(ended));
    });
    return key;
  }();
  const auto run = [](void* started) -> void* {
    auto& self = *static_cast<Thread*>(started);
    Turns::await_first(self);
    current_ = &self;
    ::pthread_setspecific(last_act, &self);
    instance_->handing_over_->go_home(self);
    instance_->leave(self, self.body());
    return self.result;
  };
  const int error = ZKR_REAL(pthread_create)(&thread.real, nullptr, run, &thread);
  if (error != 0) {
    std::fprintf(stderr, "simulation: no more threads can be started: error %d\n", error);
    std::abort();
  }
  ready_.push_back(&thread);
  return thread;
}

void Kernel::kill(ClientProcess& process) {
  if (process.dead) return;
  process.dead = true;
  std::erase_if(ready_, [&](const Thread* thread) { return thread->process == &process; });
  for (const auto& thread : threads_) {
    if (thread->process != &process || thread->state == Thread::State::finished) continue;
    if (thread->timer) events_.cancel(*thread->timer);
    thread->timer.reset();
    if (thread->waits_for != nullptr) stop_waiting(*thread);
    thread->waits_for = nullptr;
  }
  descriptors_->close_all(process);
  if (current_ != nullptr && current_->process == &process) give_turn(current_);  // It has killed itself.
}

// --- Turns ---------------------------------------------------------------------------------------

void Kernel::hand_over(Thread* from, Thread& to) {
  std::atomic_ref(turns_).store(turns_ + 1, std::memory_order_relaxed);
  std::atomic_ref(holder_).store(&to, std::memory_order_relaxed);
  trace(static_cast<std::uint64_t>(to.number) << 48 ^ static_cast<std::uint64_t>(events_.now().count()));
  handing_over_->give(from, to);
}

Thread* Kernel::choose() {
  std::vector<Thread*>::iterator chosen = ready_.end();
  if (schedule_.change_points > 0) {
    for (auto it = ready_.begin(); it != ready_.end(); ++it) {
      if ((*it)->process->paused) continue;
      if (chosen == ready_.end() || (*it)->priority > (*chosen)->priority) chosen = it;
    }
  } else {
    const auto can_run = [](const Thread* thread) { return !thread->process->paused; };
    const auto count = std::count_if(ready_.begin(), ready_.end(), can_run);
    if (count > 0) {
      auto skip = random().below(static_cast<std::uint64_t>(count));
      chosen = std::find_if(ready_.begin(), ready_.end(),
                            [&](const Thread* thread) { return can_run(thread) && skip-- == 0; });
    }
  }
  if (chosen == ready_.end()) return nullptr;
  Thread* thread = *chosen;
  ready_.erase(chosen);
  return thread;
}

void Kernel::give_turn(Thread* leaving) {
  Thread* next = nullptr;
  {
    const InsideKernel inside;
    for (;;) {
      events_.run_until(events_.now());
      next = choose();
      if (next != nullptr) break;
      if (!events_.run_next()) stuck();
    }
  }
  hand_over(leaving, *next);
}

void Kernel::make_ready(Thread& thread) {
  thread.state = Thread::State::ready;
  thread.waits_for = nullptr;
  ready_.push_back(&thread);
}

void Kernel::lower_at_change_point(Thread& thread) {
  while (!change_points_.empty() && change_points_.front() <= steps_) {
    change_points_.erase(change_points_.begin());
    thread.priority = change_points_.size();  // Below all that were drawn.
  }
}

void Kernel::step() {
  Thread& self = *current_;
  ++steps_;
  events_.pass(Nanos(random().between(shortest_step.count(), longest_step.count())));
  if (schedule_.stall_one_in != 0 && &self != driver_ && random().one_in(schedule_.stall_one_in)) {
    block(nullptr, events_.now() + Nanos(random().between(1000, schedule_.longest_stall.count())));
    return;
  }
  const bool events_due = events_.next() && *events_.next() <= events_.now();
  if (ready_.empty() && !events_due) return;
  if (schedule_.change_points > 0) {
    lower_at_change_point(self);
    yield();
  } else if (schedule_.preempt_one_in != 0 && random().one_in(schedule_.preempt_one_in)) {
    yield();
  } else if (events_due) {
    run_due_events(self);
  }
}

// One of them may kill or pause the process whose thread has the turn.
void Kernel::run_due_events(Thread& self) {
  {
    const InsideKernel inside;
    events_.run_until(events_.now());
  }
  if (self.process->dead) give_turn(&self);
  if (self.process->paused) yield();
}

void Kernel::yield_to_all() {
  Thread& self = *current_;
  if (schedule_.change_points > 0) self.priority = 0;
  if (++self.idle_turns > most_idle_turns) {
    std::fprintf(
        stderr,
        "simulation: a thread of \"%s\" is busy waiting: it has given up %d turns and waited for nothing. Only "
        "waits that block let the time pass.\n",
        self.process->name.c_str(), most_idle_turns);
    std::abort();
  }
  step();
  yield();
}

void Kernel::yield() {
  Thread& self = *current_;
  if (!self.process->dead) ready_.push_back(&self);
  give_turn(&self);
}

bool Kernel::block(const void* object, std::optional<Deadline> deadline) {
  Thread& self = *current_;
  self.state = Thread::State::blocked;
  self.waits_for = object;
  self.timed_out = false;
  self.idle_turns = 0;
  if (object != nullptr) blocked_[object].push_back(&self);
  if (deadline) arm(self, *deadline);
  // The test itself waits, without a limit, for something that a process holds: perhaps one that was killed or paused.
  if (&self == driver_ && !deadline) expect_end_of_wait();
  give_turn(&self);
  return !self.timed_out;
}

void Kernel::expect_end_of_wait() {
  driver_->timer = events_.after(std::chrono::hours(1), [] {
    std::fputs("simulation: the test has waited for an hour for a mutex, a condition or a thread of a process\n",
               stderr);
    std::abort();
  });
}

void Kernel::arm(Thread& thread, Deadline deadline) {
  thread.timer_counts_sleep = deadline.counts_sleep;
  thread.timer = events_.at(deadline.at, [this, &thread] {
    thread.timer.reset();
    thread.timed_out = true;
    if (thread.waits_for != nullptr) stop_waiting(thread);
    make_ready(thread);
  });
}

void Kernel::stop_waiting(Thread& thread) {
  const auto found = blocked_.find(thread.waits_for);
  if (found == blocked_.end()) return;
  std::erase(found->second, &thread);
  if (found->second.empty()) blocked_.erase(found);
}

void Kernel::delay_timers(const ClientProcess& process, Nanos time) {
  if (process.dead) return;
  for (const auto& thread : threads_) {
    if (thread->process != &process || !thread->timer || thread->timer_counts_sleep) continue;
    const Nanos due = thread->timer->at;
    events_.cancel(*thread->timer);
    arm(*thread, due + time);
  }
  descriptors_->delay_timers(process, time);
}

int Kernel::wake(const void* object, int most) {
  const auto found = blocked_.find(object);
  if (found == blocked_.end()) return 0;
  int woken = 0;
  while (!found->second.empty() && woken != most) {
    Thread& thread = *found->second.front();
    found->second.pop_front();
    if (thread.timer) events_.cancel(*thread.timer);
    thread.timer.reset();
    make_ready(thread);
    ++woken;
  }
  if (found->second.empty()) blocked_.erase(found);
  return woken;
}

void Kernel::leave(Thread& thread, void* result) {
  thread.result = result;
  handing_over_->leave_home(thread);
}

void Kernel::finish_thread(Thread& thread) {
  handing_over_->leave_home(thread);  // One that was cancelled has not left.
  thread.state = Thread::State::finished;
  wake(&thread);
  current_ = nullptr;
  give_turn(nullptr);
}

Thread* Kernel::find(pthread_t real) {
  for (const auto& thread : threads_) {
    if (thread.get() != driver_ && !thread->joined && ::pthread_equal(thread->real, real) != 0) return thread.get();
  }
  return nullptr;
}

void Kernel::join(Thread& thread) {
  while (thread.state != Thread::State::finished) {
    if (thread.process->dead) {
      std::fprintf(stderr, "simulation: a thread of \"%s\", which was killed, is joined: that would never end\n",
                   thread.process->name.c_str());
      std::abort();
    }
    block(&thread, std::nullopt);
  }
  ZKR_REAL(pthread_join)(thread.real, nullptr);
  thread.joined = true;
}

void Kernel::stuck() const {
  std::fprintf(stderr, "simulation: every thread waits, and nothing will happen any more:\n");
  for (const auto& thread : threads_) {
    if (thread->state == Thread::State::blocked)
      std::fprintf(stderr, "  thread %d of \"%s\"\n", thread->number, thread->process->name.c_str());
  }
  std::abort();
}

// --- Clocks --------------------------------------------------------------------------------------

namespace {

constexpr Nanos began_at = std::chrono::hours(24);                          // What the monotonic clocks showed.
constexpr Nanos epoch = std::chrono::seconds(std::int64_t{1'700'000'000});  // What the wall clocks showed.

Nanos drifted(Nanos time, double drift) {
  return time + Nanos(static_cast<std::int64_t>(static_cast<double>(time.count()) * drift));
}

}  // namespace

Nanos Kernel::boottime(Host host) const {
  const auto found = clocks_.find(host);
  if (found == clocks_.end()) return began_at + events_.now();
  const HostClock& clock = found->second;
  return began_at + clock.since + clock.gained + drifted(events_.now() - clock.since, clock.drift);
}
void Kernel::set_drift(Host host, double share) {
  const Nanos gained = boottime(host) - began_at - events_.now();
  HostClock& clock = clocks_[host];
  clock.gained = gained;
  clock.since = events_.now();
  clock.drift = std::clamp(share, -0.001, 0.001);
}
Nanos Kernel::monotonic(Host host) const {
  const auto found = clocks_.find(host);
  return boottime(host) - (found == clocks_.end() ? Nanos{} : found->second.asleep);
}
Nanos Kernel::realtime(Host host) const {
  const auto found = clocks_.find(host);
  return boottime(host) - began_at + epoch + (found == clocks_.end() ? Nanos{} : found->second.wall_ahead);
}
Nanos Kernel::world_time_of(Host host, Nanos time_until) const {
  const auto found = clocks_.find(host);
  const double drift = found == clocks_.end() ? 0 : found->second.drift;
  const Nanos pause = std::max(Nanos{}, time_until);
  return events_.now() + Nanos(static_cast<std::int64_t>(static_cast<double>(pause.count()) / (1 + drift)));
}

}  // namespace zktesting::simulated
