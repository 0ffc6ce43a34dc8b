#include "contender.hpp"

#include <sys/resource.h>
#include <sys/time.h>

namespace bench {
namespace {

std::chrono::microseconds to_microseconds(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

std::chrono::microseconds cpu_time_of_this_process() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return to_microseconds(usage.ru_utime) + to_microseconds(usage.ru_stime);
}

}  // namespace

Stopwatch::Stopwatch(std::chrono::milliseconds duration)
    : begin_(Clock::now()), end_(begin_ + duration), cpu_begin_(cpu_time_of_this_process()) {}

Sample Stopwatch::stop(std::int64_t cycles) const {
  return {.cycles = cycles,
          .wall = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin_),
          .cpu = cpu_time_of_this_process() - cpu_begin_};
}

}  // namespace bench
