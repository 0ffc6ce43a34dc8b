// Nothing that was acknowledged may be lost, whatever happens: see simulated_replicas.hpp.
//
// ZKRECIPES_RUNS=number: so many random histories. ZKRECIPES_SEED=number: the seed of the first one; each has the next.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/recipes/replication/simulated_replicas.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::uint64_t histories = 400;
constexpr int steps = 3000;

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ReplicaSimulation, NothingAcknowledgedIsLost) {
  const std::uint64_t runs = number_of("ZKRECIPES_RUNS", histories);
  const std::uint64_t first = number_of("ZKRECIPES_SEED", 1);
  std::size_t acknowledged = 0;
  std::int64_t epochs = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    simulated::World world(seed);
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i)
      world.step();
    if (::testing::Test::HasFailure()) FAIL() << "ZKRECIPES_SEED=" << seed << " ZKRECIPES_RUNS=1\n" << world.story();
    acknowledged += world.acknowledged();
    epochs += world.epochs();
  }
  // It is about something: on the average run there are several primaries, and entries.
  if (runs < 100) return;
  EXPECT_GT(acknowledged, runs / 2);
  EXPECT_GT(epochs, static_cast<std::int64_t>(runs) * 2);
}

}  // namespace
}  // namespace zkrecipes::detail
