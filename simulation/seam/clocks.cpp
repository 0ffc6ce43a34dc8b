// libc's clocks, pauses and random numbers, as the world's threads see them.

#include <sys/random.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "simulation/kernel/kernel.hpp"
#include "simulation/seam/anchors.hpp"
#include "simulation/seam/real.hpp"

// jemalloc's own. Is it linked?
extern "C" int mallctl(const char*, void*, size_t*, void*, size_t) __attribute__((weak));

using zktesting::simulated::Deadline;
using zktesting::simulated::Kernel;
using zktesting::simulated::Nanos;

namespace {

Nanos shown(clockid_t clock) {
  Kernel& kernel = *Kernel::instance();
  const auto host = Kernel::current()->process->host;
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return kernel.realtime(host);
    case CLOCK_BOOTTIME: return kernel.boottime(host);
    default: return kernel.monotonic(host);
  }
}
timespec to_timespec(Nanos time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
}
Nanos nanos(const timespec& time) { return std::chrono::seconds(time.tv_sec) + Nanos(time.tv_nsec); }

int pause(Nanos time, bool counts_sleep = false) {
  Kernel& kernel = *Kernel::instance();
  kernel.block(nullptr, Deadline(kernel.world_time_of(Kernel::current()->process->host, time), counts_sleep));
  return 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const bool processor_time = clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
  if (Kernel::current() == nullptr || processor_time) return ZKR_REAL(clock_gettime)(clock, time);
  Kernel::instance()->step();  // So a loop that waits for a time comes to its end.
  *time = to_timespec(shown(clock));
  return 0;
}
int gettimeofday(timeval* time, void* zone) noexcept {
  using Real = int (*)(timeval*, void*);
  if (Kernel::current() == nullptr) return ZKR_REAL_AS(Real, gettimeofday)(time, zone);
  const timespec now = to_timespec(shown(CLOCK_REALTIME));
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}
time_t time(time_t* to) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(time)(to);
  const time_t now = to_timespec(shown(CLOCK_REALTIME)).tv_sec;
  if (to != nullptr) *to = now;
  return now;
}

int nanosleep(const timespec* time, timespec* rest) {
  if (Kernel::current() == nullptr) return ZKR_REAL(nanosleep)(time, rest);
  return pause(nanos(*time));
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (Kernel::current() == nullptr) return ZKR_REAL(clock_nanosleep)(clock, flags, time, rest);
  return pause((flags & TIMER_ABSTIME) != 0 ? nanos(*time) - shown(clock) : nanos(*time), clock != CLOCK_MONOTONIC);
}
int usleep(useconds_t time) {
  if (Kernel::current() == nullptr) return ZKR_REAL(usleep)(time);
  return pause(std::chrono::microseconds(time));
}
unsigned sleep(unsigned time) {
  if (Kernel::current() == nullptr) return ZKR_REAL(sleep)(time);
  pause(std::chrono::seconds(time));
  return 0;
}

int getentropy(void* to, size_t size) {
  if (Kernel::current() == nullptr) return ZKR_REAL(getentropy)(to, size);
  for (auto* at = static_cast<unsigned char*>(to); size > 0; --size)
    *at++ = static_cast<unsigned char>(Kernel::instance()->random().next());
  return 0;
}
ssize_t getrandom(void* to, size_t size, unsigned flags) {
  if (Kernel::current() == nullptr) return ZKR_REAL(getrandom)(to, size, flags);
  getentropy(to, size);
  return static_cast<ssize_t>(size);
}
long random() noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(random)();
  return static_cast<long>(Kernel::instance()->random().next() & 0x7FFFFFFF);
}
double drand48() noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(drand48)();
  return static_cast<double>(Kernel::instance()->random().next() >> 11) * 0x1p-53;
}
pid_t getpid() noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(getpid)();
  return Kernel::current()->process->pid;
}
int gethostname(char* to, size_t size) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(gethostname)(to, size);
  const std::string name = "host-" + std::to_string(Kernel::current()->process->host);
  std::strncpy(to, name.c_str(), size);
  return 0;
}

}  // extern "C"

// std::random_device, which may ask the processor.
unsigned zkr_random_device(void* device) __asm__("_ZNSt13random_device9_M_getvalEv");
unsigned zkr_random_device(void* device) {
  using Real = unsigned (*)(void*);
  if (Kernel::current() == nullptr) return ZKR_REAL_AS(Real, _ZNSt13random_device9_M_getvalEv)(device);
  return static_cast<unsigned>(Kernel::instance()->random().next());
}

void zktesting::simulated::expect_seam_to_be_seen() {
  using Clock = int (*)(clockid_t, timespec*);
  const Clock ours = &::clock_gettime;
  const Clock real = ZKR_REAL(clock_gettime);
  if (::dlsym(RTLD_DEFAULT, "clock_gettime") != reinterpret_cast<void*>(ours) || real == nullptr || real == ours) {
    std::fputs(
        "simulation: shared libraries do not see this program's clock_gettime() and the like. It must be linked "
        "dynamically, without --exclude-libs and without a version script that hides them.\n",
        stderr);
    std::abort();
  }
  if (&::mallctl != nullptr || ::dlsym(RTLD_DEFAULT, "mallctl") != nullptr) {
    std::fputs(
        "simulation: this program allocates with jemalloc, whose mutexes would be the world's: a killed process that "
        "was allocating would keep one for ever. It must be linked without jemalloc.\n",
        stderr);
    std::abort();
  }
}

void zktesting::simulated::anchor_clocks() {}
