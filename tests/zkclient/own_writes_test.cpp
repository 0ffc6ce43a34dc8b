#include "zkclient/detail/session/own_writes.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace {

using zkclient::Check;
using zkclient::CreateMode;
using zkclient::Path;
using zkclient::Transaction;
using zkclient::detail::make_request;
using zkclient::detail::OpType;
using zkclient::detail::OwnWrites;
using zkclient::detail::Request;
using zkclient::detail::SessionState;

Request multi(const Transaction& transaction) {
  Request request = make_request(OpType::multi, "/");
  request.operations = transaction.operations();
  return request;
}

Request creation(std::string path, CreateMode mode) {
  Request request = make_request(OpType::create, std::move(path));
  request.mode = mode;
  return request;
}

/// Whether somebody who views `root` is told of `request`.
bool tells(const std::string& root, const Request& request) {
  OwnWrites writes;
  int told = 0;
  const auto watch = writes.observe(root, [&told](const auto&) { ++told; });
  writes.tell(request, nullptr);
  return told == 1;
}

TEST(OwnWritesTest, TellsOfTheNodeAndOfAllBelowIt) {
  for (const OpType type : {OpType::create, OpType::set, OpType::remove}) {
    EXPECT_TRUE(tells("/a", make_request(type, "/a")));
    EXPECT_TRUE(tells("/a", make_request(type, "/a/b/c")));
    EXPECT_FALSE(tells("/a", make_request(type, "/ab")));
    EXPECT_FALSE(tells("/a/b", make_request(type, "/a")));
    EXPECT_TRUE(tells("/", make_request(type, "/a")));
  }
}

TEST(OwnWritesTest, ReadsChangeNothing) {
  for (const OpType type : {OpType::get, OpType::exists, OpType::children, OpType::sync, OpType::remove_watches})
    EXPECT_FALSE(tells("/a", make_request(type, "/a")));
}

TEST(OwnWritesTest, TransactionsTellOfEachOperation) {
  EXPECT_TRUE(tells("/a", multi(Transaction().set("/x", "").create("/a/b", ""))));
  EXPECT_TRUE(tells("/a", multi(Transaction().set("/x", "").set("/a/b", ""))));
  EXPECT_TRUE(tells("/a", multi(Transaction().set("/x", "").remove("/a/b"))));
  EXPECT_FALSE(tells("/a", multi(Transaction().set("/x", "").check("/a/b")))) << "a heartbeat, say";
}

// Then nobody knows what it was about.
TEST(OwnWritesTest, TransactionGivenUpByItsCaller) { EXPECT_TRUE(tells("/a", make_request(OpType::multi, "/"))); }

TEST(OwnWritesTest, SequentialNodesGetTheRestOfTheirNames) {
  EXPECT_TRUE(tells("/a/n-0000000001", creation("/a/n-", CreateMode::persistent_sequential)));
  EXPECT_TRUE(
      tells("/a/n-0000000001", multi(Transaction().create("/a/n-", "", {.mode = CreateMode::ephemeral_sequential}))));
  EXPECT_FALSE(tells("/a/n-0000000001", creation("/a/n-", CreateMode::persistent)));
  EXPECT_TRUE(tells("/a", creation("/a/n-", CreateMode::persistent_sequential)));
}

TEST(OwnWritesTest, TellsWhichSessionHasAnswered) {
  OwnWrites writes;
  const auto session = std::make_shared<SessionState>(std::chrono::milliseconds(1000));
  std::shared_ptr<SessionState> told;
  {
    const auto watch = writes.observe("/a", [&told](const auto& by) { told = by; });
    writes.tell(make_request(OpType::set, "/a"), session);
    EXPECT_EQ(told, session);
    writes.tell(make_request(OpType::set, "/a"), nullptr);
    EXPECT_EQ(told, nullptr);
  }
  writes.tell(make_request(OpType::set, "/a"), session);
  EXPECT_EQ(told, nullptr) << "its watch is over";
}

}  // namespace
