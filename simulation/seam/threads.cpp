// libc's threads, mutexes and conditions, as the world's threads see them.
//
// A mutex stays a real one: a thread of the world tries it, and blocks in the world while it is taken. A condition
// variable's waits are the world's own. Neither may be shared with threads outside the world, which wake nobody in it.

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>

#include "simulation/kernel/kernel.hpp"
#include "simulation/seam/anchors.hpp"
#include "simulation/seam/real.hpp"

using zktesting::simulated::ClientProcess;
using zktesting::simulated::Deadline;
using zktesting::simulated::Kernel;
using zktesting::simulated::Nanos;
using zktesting::simulated::Thread;

namespace {

Nanos nanos(const timespec& time) { return std::chrono::seconds(time.tv_sec) + Nanos(time.tv_nsec); }

/// When the world's clock shows what `clock` of the calling thread's host will show as `time`.
Deadline world_time(clockid_t clock, const timespec& time) {
  Kernel& kernel = *Kernel::instance();
  const auto host = Kernel::current()->process->host;
  const Nanos now = clock == CLOCK_REALTIME ? kernel.realtime(host) : kernel.monotonic(host);
  return {kernel.world_time_of(host, nanos(time) - now), clock == CLOCK_REALTIME};
}

// An unlocked object stays unlocked for at least this attempt, because no other thread runs.
template <typename Attempt>
int take(const void* object, std::optional<Deadline> deadline, Attempt attempt) {
  Kernel& kernel = *Kernel::instance();
  kernel.step();
  for (;;) {
    const int result = attempt();
    if (result != EBUSY && result != EAGAIN) return result;
    if (!kernel.block(object, deadline)) return ETIMEDOUT;
  }
}

int take_mutex(pthread_mutex_t* mutex, std::optional<Deadline> deadline = std::nullopt) {
  return take(mutex, deadline, [mutex] { return ZKR_REAL(pthread_mutex_trylock)(mutex); });
}
int give_back(pthread_mutex_t* mutex) {
  const int result = ZKR_REAL(pthread_mutex_unlock)(mutex);
  Kernel::instance()->wake(mutex);
  return result;
}

/// By which its deadlines are meant: glibc keeps that in a bit.
clockid_t clock_of(const pthread_cond_t* condition) {
  return (condition->__data.__wrefs & 2U) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int wait_on(pthread_cond_t* condition, pthread_mutex_t* mutex, std::optional<Deadline> deadline) {
  Kernel& kernel = *Kernel::instance();
  give_back(mutex);
  const bool signalled = kernel.block(condition, deadline);
  take_mutex(mutex);
  return signalled ? 0 : ETIMEDOUT;
}

/// What is being initialised, and by a thread of which process. Without a guard of its own.
std::map<const void*, const ClientProcess*>* running_once_ = nullptr;
std::map<const void*, const ClientProcess*>& running_once() {
  if (running_once_ == nullptr) running_once_ = new std::map<const void*, const ClientProcess*>();
  return *running_once_;
}

/// Waits until nobody initialises it.
void wait_for_once(const void* object) {
  for (auto found = running_once().find(object); found != running_once().end(); found = running_once().find(object)) {
    if (found->second->dead) {
      std::fputs("simulation: a process was killed while it initialised a static, which another one needs now\n",
                 stderr);
      std::abort();
    }
    Kernel::instance()->block(object, std::nullopt);
  }
}

}  // namespace

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument) {
  const Thread* self = Kernel::current();
  if (self == nullptr) return ZKR_REAL(pthread_create)(thread, attributes, routine, argument);
  Kernel& kernel = *Kernel::instance();
  Thread& made = kernel.start_thread(*self->process, [routine, argument] { return routine(argument); });
  *thread = made.real;
  if (attributes != nullptr) {
    int state = 0;
    pthread_attr_getdetachstate(attributes, &state);
    made.detached = state == PTHREAD_CREATE_DETACHED;
  }
  made.blocked_signals = self->blocked_signals;
  kernel.step();
  return 0;
}

// Threads of the world share a real one, which has one name and one mask: that of none of them. No signal is sent in the
// world.
int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_setname_np)(thread, name);
  return 0;
}
int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  Thread* self = Kernel::current();
  if (self == nullptr) return ZKR_REAL(pthread_sigmask)(how, set, before);
  sigset_t& blocked = self->blocked_signals;
  const sigset_t now = blocked;
  if (before != nullptr) *before = now;
  if (set == nullptr) return 0;
  switch (how) {
    case SIG_SETMASK: blocked = *set; return 0;
    case SIG_BLOCK: return sigorset(&blocked, &now, set);
    case SIG_UNBLOCK:
      for (int signal = 1; signal < NSIG; ++signal) {
        if (sigismember(set, signal) == 1) sigdelset(&blocked, signal);
      }
      return 0;
    default: return EINVAL;
  }
}

int pthread_join(pthread_t thread, void** result) {
  Thread* other = Kernel::current() == nullptr ? nullptr : Kernel::instance()->find(thread);
  if (other == nullptr) return ZKR_REAL(pthread_join)(thread, result);
  Kernel::instance()->join(*other);
  if (result != nullptr) *result = other->result;
  return 0;
}

int sigprocmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(sigprocmask)(how, set, before);
  const int error = pthread_sigmask(how, set, before);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

void pthread_exit(void* result) {
  if (Thread* self = Kernel::current()) Kernel::instance()->leave(*self, result);
  ZKR_REAL(pthread_exit)(result);
  __builtin_unreachable();
}

int pthread_detach(pthread_t thread) {
  Thread* other = Kernel::current() == nullptr ? nullptr : Kernel::instance()->find(thread);
  if (other == nullptr) return ZKR_REAL(pthread_detach)(thread);
  other->detached = true;  // The world joins it when it ends itself.
  return 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_mutex_lock)(mutex);
  return take_mutex(mutex);
}
int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_mutex_timedlock)(mutex, until);
  return take_mutex(mutex, world_time(CLOCK_REALTIME, *until));
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_mutex_clocklock)(mutex, clock, until);
  return take_mutex(mutex, world_time(clock, *until));
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_mutex_unlock)(mutex);
  return give_back(mutex);
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_rwlock_rdlock)(lock);
  return take(lock, std::nullopt, [lock] { return ZKR_REAL(pthread_rwlock_tryrdlock)(lock); });
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_rwlock_wrlock)(lock);
  return take(lock, std::nullopt, [lock] { return ZKR_REAL(pthread_rwlock_trywrlock)(lock); });
}
int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_rwlock_timedrdlock)(lock, until);
  return take(lock, world_time(CLOCK_REALTIME, *until), [lock] { return ZKR_REAL(pthread_rwlock_tryrdlock)(lock); });
}
int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_rwlock_timedwrlock)(lock, until);
  return take(lock, world_time(CLOCK_REALTIME, *until), [lock] { return ZKR_REAL(pthread_rwlock_trywrlock)(lock); });
}
int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_rwlock_clockrdlock)(lock, clock, until);
  return take(lock, world_time(clock, *until), [lock] { return ZKR_REAL(pthread_rwlock_tryrdlock)(lock); });
}
int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_rwlock_clockwrlock)(lock, clock, until);
  return take(lock, world_time(clock, *until), [lock] { return ZKR_REAL(pthread_rwlock_trywrlock)(lock); });
}
int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  const int result = ZKR_REAL(pthread_rwlock_unlock)(lock);
  if (Kernel::current() != nullptr) Kernel::instance()->wake(lock);
  return result;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_cond_wait)(condition, mutex);
  return wait_on(condition, mutex, std::nullopt);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_cond_timedwait)(condition, mutex, until);
  return wait_on(condition, mutex, world_time(clock_of(condition), *until));
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
  return wait_on(condition, mutex, world_time(clock, *until));
}
int pthread_cond_signal(pthread_cond_t* condition) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_cond_signal)(condition);
  Kernel::instance()->wake(condition, 1);
  Kernel::instance()->step();
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_cond_broadcast)(condition);
  Kernel::instance()->wake(condition);
  Kernel::instance()->step();
  return 0;
}

int sem_wait(sem_t* semaphore) {
  if (Kernel::current() == nullptr) return ZKR_REAL(sem_wait)(semaphore);
  return take(semaphore, std::nullopt, [semaphore] { return sem_trywait(semaphore) == 0 ? 0 : errno; });
}
int sem_timedwait(sem_t* semaphore, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(sem_timedwait)(semaphore, until);
  const int error = take(semaphore, world_time(CLOCK_REALTIME, *until),
                         [semaphore] { return sem_trywait(semaphore) == 0 ? 0 : errno; });
  if (error == 0) return 0;
  errno = error;
  return -1;
}
int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
  if (Kernel::current() == nullptr) return ZKR_REAL(sem_clockwait)(semaphore, clock, until);
  const int error =
      take(semaphore, world_time(clock, *until), [semaphore] { return sem_trywait(semaphore) == 0 ? 0 : errno; });
  if (error == 0) return 0;
  errno = error;
  return -1;
}
int sem_post(sem_t* semaphore) noexcept {
  const int result = ZKR_REAL(sem_post)(semaphore);
  if (Kernel::current() != nullptr) Kernel::instance()->wake(semaphore);
  return result;
}

pid_t fork() noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(fork)();
  std::fputs("simulation: a process of the simulated world cannot fork\n", stderr);
  errno = ENOSYS;
  return -1;
}

// A second caller would wait in libc, with the turn, for the first one, which has none.
int pthread_once(pthread_once_t* control, void (*routine)()) {
  if (Kernel::current() == nullptr) return ZKR_REAL(pthread_once)(control, routine);
  Kernel& kernel = *Kernel::instance();
  wait_for_once(control);
  running_once()[control] = Kernel::current()->process;
  const int result = ZKR_REAL(pthread_once)(control, routine);
  running_once().erase(control);
  kernel.wake(control);
  return result;
}

int sched_yield() noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(sched_yield)();
  Kernel::instance()->yield_to_all();
  return 0;
}

// std::atomic::wait(), std::latch and the like go by the system call itself. Callers pass as many arguments as it takes, and
// AddressSanitizer must not see that six are looked at.
__attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  const long a = va_arg(list, long);
  const long b = va_arg(list, long);
  const long c = va_arg(list, long);
  const long d = va_arg(list, long);
  const long e = va_arg(list, long);
  const long f = va_arg(list, long);
  va_end(list);
  if (Kernel::current() == nullptr || number != SYS_futex) return ZKR_REAL(syscall)(number, a, b, c, d, e, f);
  Kernel& kernel = *Kernel::instance();
  // NOLINTBEGIN(performance-no-int-to-ptr): a system call gets its pointers as numbers.
  auto* const word = reinterpret_cast<int*>(a);
  const auto* const limit = reinterpret_cast<const timespec*>(d);
  // NOLINTEND(performance-no-int-to-ptr)
  switch (static_cast<int>(b) & FUTEX_CMD_MASK) {
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: {
      const int woken = kernel.wake(word, c > INT_MAX ? -1 : static_cast<int>(c));
      kernel.step();
      return woken;
    }
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: {
      if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != static_cast<int>(c)) {
        errno = EAGAIN;
        return -1;
      }
      std::optional<Deadline> deadline;
      if (limit != nullptr) {
        const bool relative = (static_cast<int>(b) & FUTEX_CMD_MASK) == FUTEX_WAIT;
        const bool wall = (static_cast<int>(b) & FUTEX_CLOCK_REALTIME) != 0;
        deadline = relative ? Deadline(kernel.world_time_of(Kernel::current()->process->host, nanos(*limit)))
                            : world_time(wall ? CLOCK_REALTIME : CLOCK_MONOTONIC, *limit);
      }
      if (kernel.block(word, deadline)) return 0;
      errno = ETIMEDOUT;
      return -1;
    }
    default: return ZKR_REAL(syscall)(number, a, b, c, d, e, f);
  }
}

}  // extern "C"

// A static's initialisation may block in the world; then a second thread must block in the world, too. The compiler knows
// these functions by name, so ours get their names by the assembler.
int zkr_guard_acquire(std::uint64_t* guard) __asm__("__cxa_guard_acquire");
void zkr_guard_release(std::uint64_t* guard) __asm__("__cxa_guard_release");
void zkr_guard_abort(std::uint64_t* guard) __asm__("__cxa_guard_abort");

namespace {

using Acquire = int (*)(std::uint64_t*);
using Leave = void (*)(std::uint64_t*);

void leave_static(Leave real, std::uint64_t* guard) {
  real(guard);
  if (Kernel::current() == nullptr) return;
  running_once().erase(guard);
  Kernel::instance()->wake(guard);
}

}  // namespace

int zkr_guard_acquire(std::uint64_t* guard) {
  const auto real = ZKR_REAL_AS(Acquire, __cxa_guard_acquire);
  if (Kernel::current() == nullptr) return real(guard);
  wait_for_once(guard);
  const int ours = real(guard);
  if (ours != 0) running_once()[guard] = Kernel::current()->process;
  return ours;
}
void zkr_guard_release(std::uint64_t* guard) { leave_static(ZKR_REAL_AS(Leave, __cxa_guard_release), guard); }
void zkr_guard_abort(std::uint64_t* guard) { leave_static(ZKR_REAL_AS(Leave, __cxa_guard_abort), guard); }

void zktesting::simulated::anchor_threads() {}
