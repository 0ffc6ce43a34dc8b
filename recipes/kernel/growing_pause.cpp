#include "recipes/kernel/growing_pause.hpp"

#include <random>

#include <zkclient/retry.hpp>

#include "zkclient/detail/recipe_random.hpp"

namespace zkrecipes::detail {

namespace {

constexpr int most_doublings = 30;

}  // namespace

GrowingPause::Duration GrowingPause::next() {
  thread_local std::minstd_rand random{static_cast<std::uint32_t>(zkclient::detail::random_seed())};
  const double share = std::uniform_real_distribution<double>(0.0, 1.0)(random);
  const zkclient::RetryPolicy policy{.initial = first_, .max = bound_, .max_attempts = most_doublings + 2};
  if (failures_ <= most_doublings) ++failures_;
  return *policy.pause(failures_, Duration::max(), share);
}

}  // namespace zkrecipes::detail
