#include "contender.hpp"

#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <numeric>
#include <random>

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

std::vector<std::size_t> order_of_round(int round, std::size_t contenders) {
  std::vector<std::size_t> order(contenders);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(static_cast<unsigned>(round) + 1);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

Stopwatch::Stopwatch(std::chrono::milliseconds duration)
    : begin_(Clock::now()), end_(begin_ + duration), cpu_begin_(cpu_time_of_this_process()) {}

Sample Stopwatch::stop(std::int64_t cycles) const {
  return {.cycles = cycles,
          .wall = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin_),
          .cpu = cpu_time_of_this_process() - cpu_begin_};
}

}  // namespace bench
