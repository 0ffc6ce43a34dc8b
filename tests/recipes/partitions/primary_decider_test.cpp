#include "recipes/partitions/primary_decider.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace zkrecipes::detail {
namespace {

TEST(PrimaryDecider, KeepsWhoIsThere) {
  const std::vector<Member> members = {{"a"}, {"b"}, {"c"}};
  for (const char* id : {"a", "b", "c"})
    EXPECT_EQ(keep_primary({"role", id}, members), id);
  EXPECT_EQ(keep_primary({"role", "a"}, {}), "");
  EXPECT_EQ(keep_primary({"role", ""}, {{"b"}}), "b");
  std::set<std::string> chosen;
  for (int i = 0; i < 50; ++i)
    chosen.insert(keep_primary({"role-" + std::to_string(i), "gone"}, members));
  EXPECT_EQ(chosen.size(), 3U) << "roles are shared out";
}

TEST(PrimaryDecider, WritesWhatIsNewOrMissing) {
  const std::vector<RoleNode> roles = {{"a", "x", 3}, {"b", "y", 4}, {"c", "", std::nullopt}, {"d", "", 0}};
  const auto choose = [](const RoleState& state, const std::vector<Member>&) {
    return state.role == "b" ? std::string("z") : state.named;
  };
  const auto writes = decide_roles(roles, {}, choose);
  ASSERT_EQ(writes.size(), 2U);
  EXPECT_EQ(writes[0].role, "b");
  EXPECT_EQ(writes[0].named, "z");
  EXPECT_EQ(writes[0].version, 4);
  EXPECT_EQ(writes[1].role, "c");
  EXPECT_EQ(writes[1].version, std::nullopt);
}

}  // namespace
}  // namespace zkrecipes::detail
