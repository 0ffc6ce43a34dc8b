#include "recipes/coherent/coherent_format.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

namespace zkrecipes::detail {
namespace {

using std::chrono::milliseconds;

constexpr const char* some_uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";

TEST(CoherentFormat, GatesAreReadAsTheyWereWritten) {
  for (const bool open : {true, false}) {
    const auto gate = parse_gate(format_gate(open, "w1"), 7);
    ASSERT_TRUE(gate);
    EXPECT_EQ(gate->open, open);
    EXPECT_EQ(gate->version, 7);
    EXPECT_EQ(gate->id, "w1");
  }
  const auto fresh = parse_gate(format_gate(true, ""), -3);
  ASSERT_TRUE(fresh);
  EXPECT_TRUE(fresh->open);
  EXPECT_EQ(fresh->version, -3);
  EXPECT_EQ(fresh->id, "");
}

TEST(CoherentFormat, TheVersionAfterTheLastOneIsTheFirstAndMinusOneIsLeftOut) {
  EXPECT_EQ(next_version(7), 8);
  EXPECT_EQ(next_version(std::numeric_limits<std::int32_t>::max()), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(next_version(-3), -2);
  EXPECT_EQ(next_version(-2), 0);
}

TEST(CoherentFormat, OtherDataIsNoGate) {
  for (const char* data : {"", "open ", "opened", "closed", "closed ", " open", "open a b", "OPEN", "clos", "open\n"})
    EXPECT_FALSE(parse_gate(data, 0)) << '"' << data << '"';
}

TEST(CoherentFormat, RegistrationsTellTheirTerm) {
  const std::string name = registration_name(some_uuid, milliseconds(1167));
  const auto registration = parse_registration(name);
  ASSERT_TRUE(registration);
  EXPECT_EQ(registration->name, name);
  EXPECT_EQ(registration->term, milliseconds(1167));
}

TEST(CoherentFormat, OtherNamesAreNoRegistrations) {
  const std::string uuid = some_uuid;
  for (const std::string& name : {std::string(), uuid, uuid + "-", uuid + "-x", uuid + "-0", uuid + "--5", uuid + "-05",
                                  uuid + "-5 ", uuid + "_5", uuid + "-99999999999999999999", std::string("a-5")})
    EXPECT_FALSE(parse_registration(name)) << name;
}

TEST(CoherentFormat, DirectoriesTellTheirShards) {
  EXPECT_EQ(parse_directory(format_directory(64)), 64U);
  EXPECT_EQ(format_directory(64), "coherent 1 shards=64");
  for (const char* data :
       {"", "coherent 1 shards=", "coherent 1 shards=0", "coherent 1 shards=-1", "coherent 2 shards=64",
        "coherent 1 shards=64 ", "coherent 1 shards=064", "coherent 1 shards=65537"})
    EXPECT_FALSE(parse_directory(data)) << '"' << data << '"';
}

// Every process must agree, of every version: these are values of the published test vectors of FNV-1a.
TEST(CoherentFormat, TheShardOfAnItemIsTheSameEverywhere) {
  EXPECT_EQ(shard_of("", 1000), 0xcbf29ce484222325U % 1000);
  EXPECT_EQ(shard_of("a", 1000), 0xaf63dc4c8601ec8cU % 1000);
  EXPECT_EQ(shard_of("foobar", 1000), 0x85944171f73967e8U % 1000);
}

TEST(CoherentFormat, ItemsAreSpreadOverAllShards) {
  std::set<std::uint32_t> used;
  for (int item = 0; item < 1000; ++item) {
    const std::uint32_t shard = shard_of("item-" + std::to_string(item), 64);
    EXPECT_LT(shard, 64U);
    used.insert(shard);
  }
  EXPECT_EQ(used.size(), 64U);
  EXPECT_EQ(shard_of("anything", 1), 0U);
}

}  // namespace
}  // namespace zkrecipes::detail
