#include <gtest/gtest.h>

#include "zkclient/detail/requests/quota.hpp"

namespace zkclient::detail {
namespace {

using Holders = std::vector<std::string>;

TEST(Quota, ReadsWhatServersWrite) {
  const QuotaFigures soft{.nodes = 3, .bytes = 40};
  EXPECT_EQ(parse_quota("count=3,bytes=40"), soft);
  const QuotaFigures hard{.hard_nodes = 9, .hard_bytes = 50};
  EXPECT_EQ(parse_quota("count=-1,bytes=-1=;byteHardLimit=50;countHardLimit=9"), hard);
}

TEST(Quota, TakesWhatItDoesNotKnowForNoLimit) {
  EXPECT_EQ(parse_quota(""), QuotaFigures{});
  EXPECT_EQ(parse_quota("count"), QuotaFigures{});
  EXPECT_EQ(parse_quota("5,=;"), QuotaFigures{});
  const QuotaFigures known{.bytes = 7};
  EXPECT_EQ(parse_quota("other=1,bytes=7,count=x"), known);
}

TEST(Quota, CountsForWhatIsBelow) {
  EXPECT_EQ(quota_holders("/a/b"), (Holders{"/a/b", "/a"}));
  EXPECT_EQ(quota_holders("/"), Holders{});
  EXPECT_EQ(quota_limits("/a/b"), "/zookeeper/quota/a/b/zookeeper_limits");
  EXPECT_EQ(quota_usage("/a"), "/zookeeper/quota/a/zookeeper_stats");
}

TEST(Quota, IsDescribedByItsHardLimits) {
  const QuotaFigures usage{.nodes = 9, .bytes = 48};
  EXPECT_EQ(describe_quota("/", "/a", {.hard_nodes = 9, .hard_bytes = 50}, usage),
            "the quota of /a: 9 of 9 nodes and 48 of 50 bytes");
  EXPECT_EQ(describe_quota("/", "/a", {.nodes = 2, .hard_bytes = 50}, usage), "the quota of /a: 48 of 50 bytes");
  EXPECT_EQ(describe_quota("/", "/a", {.nodes = 2}, usage), "the quota of /a: it has no hard limit any more");
}

TEST(Quota, IsNamedAsTheUserNamesIt) {
  const QuotaFigures limits{.hard_nodes = 9};
  const QuotaFigures usage{.nodes = 9};
  EXPECT_EQ(describe_quota("/app", "/app/a", limits, usage), "the quota of /a: 9 of 9 nodes");
  EXPECT_EQ(describe_quota("/app/x", "/app", limits, usage), "the quota of /app: 9 of 9 nodes");
  EXPECT_EQ(describe_quota("/ap", "/app", limits, usage), "the quota of /app: 9 of 9 nodes");
}

}  // namespace
}  // namespace zkclient::detail
