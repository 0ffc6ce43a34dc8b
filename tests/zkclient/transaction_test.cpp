#include <zkclient/transaction.hpp>

#include <string>
#include <variant>

#include <gtest/gtest.h>
#include <zkclient/error.hpp>

namespace {

using zkclient::any_version;
using zkclient::Check;
using zkclient::CreateMode;
using zkclient::CreateOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Transaction;
using namespace std::chrono_literals;

TEST(TransactionTest, KeepsOperationsInOrder) {
  Transaction transaction;
  transaction.create("/a", "data", {.mode = CreateMode::ephemeral})
      .set("/b", "more", 3)
      .remove("/c")
      .check("/d", 4)
      .check({.path = "/e"});
  const auto& operations = transaction.operations();
  ASSERT_EQ(operations.size(), 5u);
  const auto& create = std::get<Transaction::Create>(operations[0]);
  EXPECT_EQ(create.path, "/a");
  EXPECT_EQ(create.data, "data");
  EXPECT_EQ(create.mode, CreateMode::ephemeral);
  EXPECT_EQ(create.acl, zkclient::open_acl());
  const auto& set = std::get<Transaction::Set>(operations[1]);
  EXPECT_EQ(set.path, "/b");
  EXPECT_EQ(set.data, "more");
  EXPECT_EQ(set.version, 3);
  EXPECT_EQ(std::get<Transaction::Remove>(operations[2]).version, any_version);
  EXPECT_EQ(std::get<Check>(operations[3]).version, 4);
  EXPECT_FALSE(std::get<Check>(operations[4]).session);
}

TEST(TransactionTest, OwnsItsData) {
  Transaction transaction;
  {
    std::string text = "gone soon";
    transaction.create("/a", text).set("/b", text);
    text.assign(text.size(), 'x');
  }
  EXPECT_EQ(std::get<Transaction::Create>(transaction.operations()[0]).data, "gone soon");
  EXPECT_EQ(std::get<Transaction::Set>(transaction.operations()[1]).data, "gone soon");
}

TEST(TransactionTest, TellsNullFromEmptyData) {
  Transaction transaction;
  transaction.create("/a", std::nullopt).create("/b", "").set("/c", std::nullopt);
  EXPECT_FALSE(std::get<Transaction::Create>(transaction.operations()[0]).data);
  EXPECT_EQ(std::get<Transaction::Create>(transaction.operations()[1]).data, "");
  EXPECT_FALSE(std::get<Transaction::Set>(transaction.operations()[2]).data);
}

TEST(TransactionTest, CanBeCopied) {
  Transaction one;
  one.check("/a");
  Transaction two = one;
  two.remove("/a");
  EXPECT_EQ(one.operations().size(), 1u);
  EXPECT_EQ(two.operations().size(), 2u);
}

TEST(TransactionTest, RefusesWhatTheClientLibraryCannotDo) {
  const CreateOptions refused[] = {
      {.mode = CreateMode::container},
      {.mode = CreateMode::persistent_ttl, .ttl = 1s},
      {.mode = CreateMode::persistent_sequential_ttl, .ttl = 1s},
      {.ttl = 1s},
      {.ttl = -1s},
      {.parents = true},
      {.protection = true},
  };
  Transaction transaction;
  for (const CreateOptions& options : refused) {
    try {
      transaction.create("/some/path", "", options);
      ADD_FAILURE() << "accepted, mode " << static_cast<int>(options.mode);
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::invalid_argument);
      EXPECT_EQ(error.path(), "/some/path");
      EXPECT_FALSE(error.detail().empty());
    }
  }
  EXPECT_TRUE(transaction.operations().empty()) << "a refused operation was added";
}

TEST(TransactionTest, RefusesWhatNoServerAccepts) {
  Transaction transaction;
  EXPECT_THROW(transaction.create("/a", "", {.acl = {}}), Error);
  EXPECT_THROW(transaction.create("no slash"), Error);
  EXPECT_TRUE(transaction.operations().empty()) << "a refused operation was added";
}

}  // namespace
