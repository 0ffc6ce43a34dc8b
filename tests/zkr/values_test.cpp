// `zkr` and the recipes for values, groups and partitions.

#include <gtest/gtest.h>

#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/partitioner.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/zkr_call.hpp"

namespace zkr {
namespace {

using namespace testkit::words;

class ZkrValues : public testkit::RecipeTest {
 protected:
  ZkrValues() : RecipeTest("/place") {}

  Called zkr(std::vector<std::string> words, const std::string& input = "") const {
    words.insert(words.begin(), {"--server", hosts(), "--prefix", prefix().str()});
    return call_zkr(std::move(words), input);
  }
  void expect(std::vector<std::string> words, const std::string& output) const {
    const std::string told = testing::PrintToString(words);
    const Called called = zkr(std::move(words));
    EXPECT_EQ(called.code, 0) << told << called.errors;
    EXPECT_EQ(called.output, output) << told;
  }
};

TEST_F(ZkrValues, CounterIsReadAndAddedTo) {
  expect({"counter", "get", "/place"}, "0\n");
  expect({"counter", "add", "/place", "5"}, "5\n");
  expect({"counter", "add", "/place", "--", "-7"}, "-2\n");
  expect({"counter", "get", "/place"}, "-2\n");
  EXPECT_EQ(zkrecipes::Counter(client(), path()).get(), -2);
  EXPECT_EQ(zkr({"counter", "add", "/place", "x"}).code, 64);
  EXPECT_EQ(zkr({"counter", "add", "/place", "-"}, "2\n").output, "0\n");
  EXPECT_EQ(zkr({"counter", "add", "/place", "-"}, "2\n\n").code, 64);
  EXPECT_EQ(zkr({"counter", "get", "/place", "--encoding", "int32"}).code, 65);
  expect({"counter", "add", "/python", "3", "--encoding", "kazoo"}, "3\n");
  EXPECT_EQ(client().get("/python").data, "3");
}

TEST_F(ZkrValues, ConfigurationIsPublishedWhole) {
  EXPECT_EQ(zkr({"config", "get", "/place"}).code, 66);
  expect({"config", "publish", "/place", "limits/connections=5", "text=a=b", "--note", "first"}, "1\n");
  expect({"config", "get", "/place"}, "limits/connections  5\ntext                a=b\n");
  expect({"config", "get", "/place", "text"}, "a=b");
  EXPECT_EQ(zkr({"config", "get", "/place", "none"}).code, 66);
  EXPECT_EQ(zkr({"config", "publish", "/place", "text=x", "--revision", "7"}).code, 73);
  expect({"config", "publish", "/place", "--remove", "text", "--revision", "1"}, "2\n");
  expect({"config", "get", "/place"}, "limits/connections  5\n");
  client().set("/place/limits/connections", "6");
  expect({"config", "get", "/place"}, "limits/connections  6  (edited)\n");
  EXPECT_EQ(zkr({"config", "publish", "/place", "nonsense"}).code, 64);
  const zkrecipes::Configuration follower(client(), path());
  EXPECT_EQ(follower.wait_live({.deadline = soon()})->revision, 2);
}

TEST_F(ZkrValues, MembersOfAGroupAreListed) {
  EXPECT_EQ(zkr({"group", "ls", "/place"}).code, 66);
  client().create("/place", "");
  expect({"group", "ls", "/place"}, "");
  zkrecipes::Group group(client(), path());
  const auto member = group.join("me", "at 10.0.0.8", {.deadline = soon()});
  const Called called = zkr({"group", "ls", "/place"});
  EXPECT_TRUE(called.output.starts_with("MEMBER  SINCE ")) << called.output;
  EXPECT_NE(called.output.find("\nme      "), std::string::npos) << called.output;
  EXPECT_TRUE(called.output.ends_with("  at 10.0.0.8\n")) << called.output;
  using zkclient::Acl;
  for (const std::string& name : client().children("/place").names)
    client().set_acl(path() / name, {{Acl::write | Acl::remove | Acl::admin}});
  const Called refused = zkr({"group", "ls", "/place"});
  EXPECT_EQ(refused.code, 77) << "not all could be read";
  EXPECT_NE(refused.errors.find("/place"), std::string::npos) << refused.errors;
}

TEST_F(ZkrValues, OwnersOfPartitionsAreListed) {
  EXPECT_EQ(zkr({"partition", "ls", "/place"}).code, 66);
  client().create("/place", "");
  expect({"partition", "ls", "/place"}, "");
  Box<zkrecipes::Partition> taken;
  zkrecipes::Partitioner partitioner(client(), path(), zkrecipes::PartitionSource::numbered(1),
                                     [&](zkrecipes::Partition partition) { taken.put(std::move(partition)); },
                                     {.id = "me", .data = "10.0.0.8"});
  partitioner.start();
  const zkrecipes::Partition partition = taken.take();
  const Called called = zkr({"partition", "ls", "/place"});
  EXPECT_TRUE(called.output.starts_with("PARTITION  OWNER ")) << called.output;
  EXPECT_NE(called.output.find("\n0          me "), std::string::npos) << called.output;
}

}  // namespace
}  // namespace zkr
