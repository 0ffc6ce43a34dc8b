#include <atomic>
#include <future>
#include <thread>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;

class TreeTest : public testkit::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    client.emplace(make_client());
  }
  void TearDown() override {
    client.reset();
    ServerTest::TearDown();
  }
  const Client& c() const { return *client; }
  // A tree with `width` children per node.
  void grow(const Path& path, int depth, int width) {
    c().create(path);
    for (int i = 0; depth > 0 && i < width; ++i)
      grow(path / std::to_string(i), depth - 1, width);
  }
  std::optional<Client> client;
};

TEST_F(TreeTest, EverythingBelowGoesAndNothingElse) {
  grow("/tree", 3, 4);
  c().create("/tree2");
  c().create("/tree/0/ephemeral", "", {.mode = CreateMode::ephemeral});
  c().remove_tree("/tree");
  EXPECT_FALSE(c().exists("/tree"));
  EXPECT_TRUE(c().exists("/tree2"));
  EXPECT_EQ(c().children("/").names, std::vector<std::string>{"tree2"});
}

TEST_F(TreeTest, MissingTreesAndLeavesAreFine) {
  c().remove_tree("/missing");
  c().remove_tree("/missing/below");
  c().create("/leaf");
  c().remove_tree("/leaf");
  EXPECT_FALSE(c().exists("/leaf"));
}

TEST_F(TreeTest, DeepAndWideTreesGo) {
  Path path("/deep");
  for (int i = 0; i < 200; ++i)
    path = path / "d";
  c().ensure(path, CreateMode::persistent, {.deadline = testkit::soon()});
  c().create("/wide");
  std::atomic<int> created{0};
  for (int i = 0; i < 3000; ++i)
    c().async_create(Path("/wide/n" + std::to_string(i)), "", {}, [&](const auto&) { ++created; });
  ASSERT_TRUE(testkit::eventually([&] { return created == 3000; }));
  c().remove_tree("/deep", {.deadline = testkit::soon()});
  c().remove_tree("/wide", {.deadline = testkit::soon()});
  EXPECT_TRUE(c().children("/").names.empty());
}

TEST_F(TreeTest, TheFormsAgree) {
  grow("/a", 1, 2);
  grow("/b", 1, 2);
  std::error_code error = zkclient::make_error_code(Errc::closed);
  c().remove_tree("/a", {}, error);
  EXPECT_FALSE(error);
  std::promise<std::error_code> done;
  c().async_remove_tree("/b", [&](const Result<void>& result) { done.set_value(result.code()); });
  EXPECT_FALSE(done.get_future().get());
  EXPECT_TRUE(c().children("/").names.empty());
}

TEST_F(TreeTest, TheRootAndZooKeepersOwnNodesAreRefused) {
  const Client outside(hosts());
  c().create("/mine");
  EXPECT_EQ(error_of([&] { c().remove_tree("/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { outside.remove_tree("/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { outside.remove_tree("/zookeeper"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { outside.remove_tree("/zookeeper/quota/x"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { outside.async_remove_tree("/zookeeper", [](const Result<void>&) {}); }),
            Errc::invalid_argument);
  EXPECT_TRUE(c().exists("/mine"));
  c().create("/zookeeper");  // Below a prefix it is a name like any other.
  c().remove_tree("/zookeeper");
  EXPECT_FALSE(c().exists("/zookeeper"));
}

TEST_F(TreeTest, ANodeThatMayNotGoIsNamed) {
  grow("/tree", 1, 3);
  c().create("/tree/locked");
  c().create("/tree/locked/child");
  c().set_acl("/tree/locked", {{zkclient::Acl::all & ~zkclient::Acl::remove, "world", "anyone"}});
  try {
    c().remove_tree("/tree");
    FAIL() << "succeeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::no_auth) << error.what();
    EXPECT_NE(error.detail().find("/tree/locked/child"), std::string::npos) << error.what();
    EXPECT_EQ(error.detail().find(prefix().str()), std::string::npos) << error.what();
  }
  c().set_acl("/tree/locked", zkclient::open_acl());
  c().remove_tree("/tree");
  EXPECT_FALSE(c().exists("/tree"));
}

TEST_F(TreeTest, SurvivesOthersWhoCreateAndDelete) {
  grow("/tree", 2, 10);
  std::atomic<bool> ended{false};
  std::atomic<int> made{0};
  const Client other = make_client();
  std::thread meddler([&] {
    std::error_code ignored;
    for (int i = 0; !ended && i < 2000; ++i) {
      const Path parent = Path("/tree") / std::to_string(i % 10);
      other.create(parent / ("new" + std::to_string(i)), "", {}, {}, ignored);
      if (!ignored) ++made;
      other.remove(parent / std::to_string(i / 10 % 10), zkclient::any_version, {}, ignored);
    }
  });
  ASSERT_TRUE(testkit::eventually([&] { return made > 20; }));
  c().remove_tree("/tree", {.deadline = testkit::soon()});
  ended = true;
  meddler.join();
  EXPECT_FALSE(c().exists("/tree"));
}

TEST_F(TreeTest, TwoMayDeleteTheSameTree) {
  grow("/tree", 3, 6);
  const Client other = make_client();
  std::promise<std::error_code> done;
  other.async_remove_tree("/tree", [&](const Result<void>& result) { done.set_value(result.code()); });
  c().remove_tree("/tree");
  EXPECT_FALSE(done.get_future().get());
  EXPECT_FALSE(c().exists("/tree"));
}

TEST_F(TreeTest, EnsureHasAllFormsAndBothModes) {
  std::error_code error = zkclient::make_error_code(Errc::closed);
  c().ensure("/p/q", CreateMode::persistent, {}, error);
  EXPECT_FALSE(error);
  std::promise<std::error_code> done;
  c().async_ensure("/r/s", CreateMode::container, [&](const Result<void>& result) { done.set_value(result.code()); });
  EXPECT_FALSE(done.get_future().get());
  EXPECT_TRUE(c().exists("/p/q"));
  EXPECT_TRUE(c().exists("/r/s"));
  EXPECT_EQ(error_of([&] { c().async_ensure("/t", CreateMode::ephemeral, [](const Result<void>&) {}); }),
            Errc::invalid_argument);
  c().create("/e", "", {.mode = CreateMode::ephemeral});
  c().ensure("/e/below", CreateMode::persistent, {}, error);
  EXPECT_EQ(error, Errc::no_children_for_ephemerals);
}

TEST_F(TreeTest, SyncHasAllForms) {
  std::error_code error = zkclient::make_error_code(Errc::closed);
  c().sync("/", {}, error);
  EXPECT_FALSE(error);
  std::promise<std::error_code> done;
  c().async_sync("/", [&](const Result<void>& result) { done.set_value(result.code()); });
  EXPECT_FALSE(done.get_future().get());
}

}  // namespace
