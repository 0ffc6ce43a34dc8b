#include "recipes/values/node_memory.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace zkrecipes::detail {
namespace {

constexpr NodeMemory::Clock::time_point now{};

std::map<std::string, SeenNode> one_node() { return {{"/a", SeenNode{true, "1", 4, 17, {}}}}; }

TEST(NodeMemory, RemembersTheLastTransactionForAnInstant) {
  NodeMemory memory;
  EXPECT_FALSE(memory.recall("/a", now));
  memory.keep(one_node(), now);
  EXPECT_EQ(memory.recall("/a", now)->version, 4);
  EXPECT_FALSE(memory.recall("/b", now));
  EXPECT_FALSE(memory.recall("/a", now + NodeMemory::trust));
  memory.keep({}, now);
  EXPECT_FALSE(memory.recall("/a", now));
  memory.keep(one_node(), now);
  memory.forget();
  EXPECT_FALSE(memory.recall("/a", now));
}

TEST(NodeMemory, LetsOthersInNowAndThen) {
  NodeMemory memory;
  unsigned remembered = 0;
  for (unsigned i = 0; i < 10 * NodeMemory::in_a_row; ++i) {
    memory.keep(one_node(), now);
    if (memory.recall("/a", now)) ++remembered;
  }
  EXPECT_EQ(remembered, 10 * (NodeMemory::in_a_row - 1));
}

}  // namespace
}  // namespace zkrecipes::detail
