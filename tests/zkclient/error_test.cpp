#include <zkclient/error.hpp>

#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <zkclient/result.hpp>

namespace {

using zkclient::Errc;
using zkclient::Error;
using zkclient::ErrorKind;
using zkclient::kind_of;

struct Expected {
  Errc code;
  ErrorKind kind;
};

// What the documentation promises of each code. A code that is missing here is found by EveryCodeIsListed.
const std::vector<Expected> all = {
    {Errc::connection_loss, ErrorKind::retryable},
    {Errc::in_doubt, ErrorKind::in_doubt},
    {Errc::deadline_exceeded, ErrorKind::retryable},
    {Errc::cancelled, ErrorKind::cancelled},
    {Errc::closed, ErrorKind::cancelled},
    {Errc::session_lost, ErrorKind::session_lost},
    {Errc::overloaded, ErrorKind::retryable},
    {Errc::no_node, ErrorKind::precondition},
    {Errc::node_exists, ErrorKind::precondition},
    {Errc::bad_version, ErrorKind::precondition},
    {Errc::not_empty, ErrorKind::precondition},
    {Errc::no_children_for_ephemerals, ErrorKind::precondition},
    {Errc::no_auth, ErrorKind::precondition},
    {Errc::auth_failed, ErrorKind::precondition},
    {Errc::invalid_acl, ErrorKind::precondition},
    {Errc::quota_exceeded, ErrorKind::precondition},
    {Errc::throttled, ErrorKind::retryable},
    {Errc::unimplemented, ErrorKind::precondition},
    {Errc::transaction_failed, ErrorKind::precondition},
    {Errc::server_error, ErrorKind::precondition},
    {Errc::reconfig_disabled, ErrorKind::precondition},
    {Errc::reconfig_in_progress, ErrorKind::retryable},
    {Errc::new_config_no_quorum, ErrorKind::retryable},
    {Errc::invalid_path, ErrorKind::precondition},
    {Errc::invalid_argument, ErrorKind::precondition},
    {Errc::too_large, ErrorKind::precondition},
    {Errc::unsupported, ErrorKind::precondition},
    {Errc::library_conflict, ErrorKind::precondition},
    {Errc::system_error, ErrorKind::retryable},
    {Errc::not_held, ErrorKind::session_lost},
    {Errc::foreign_node, ErrorKind::precondition},
    {Errc::would_deadlock, ErrorKind::precondition},
    {Errc::timeout_too_short, ErrorKind::precondition},
    {Errc::connection_too_slow, ErrorKind::retryable},
    {Errc::not_available, ErrorKind::retryable},
    {Errc::forked, ErrorKind::precondition},
};

bool is_known(int value) {
  return zkclient::error_category().message(value).find("unknown error") == std::string::npos;
}

TEST(ErrorTest, EveryCodeHasAMessageOfItsOwn) {
  std::set<std::string> messages;
  for (const Expected& expected : all) {
    const std::string message = make_error_code(expected.code).message();
    EXPECT_TRUE(is_known(static_cast<int>(expected.code))) << static_cast<int>(expected.code);
    EXPECT_TRUE(messages.insert(message).second) << message;
  }
}

TEST(ErrorTest, EveryCodeIsListed) {
  std::set<int> listed;
  for (const Expected& expected : all)
    listed.insert(static_cast<int>(expected.code));
  for (int value = -10; value < 1000; ++value)
    EXPECT_EQ(is_known(value), listed.contains(value)) << value;
}

TEST(ErrorTest, EveryCodeHasItsKind) {
  for (const Expected& expected : all) {
    const std::error_code code = expected.code;
    EXPECT_EQ(kind_of(code), expected.kind) << code.message();
    EXPECT_EQ(Error(expected.code, "get", "/a").kind(), expected.kind) << code.message();
  }
}

TEST(ErrorTest, CodesCompareWithKindsThroughErrorCondition) {
  constexpr ErrorKind kinds[] = {ErrorKind::retryable, ErrorKind::in_doubt, ErrorKind::session_lost,
                                 ErrorKind::precondition, ErrorKind::cancelled};
  for (const Expected& expected : all) {
    const std::error_code code = expected.code;
    for (const ErrorKind kind : kinds)
      EXPECT_EQ(code == kind, kind == expected.kind) << code.message();
    EXPECT_EQ(code, expected.code);
  }
  EXPECT_NE(std::error_code(), ErrorKind::retryable);
}

TEST(ErrorTest, SomeSayWhatTheStandardsConditionsSay) {
  for (const Expected& expected : all) {
    const std::error_code code = expected.code;
    EXPECT_EQ(code == std::errc::resource_deadlock_would_occur, expected.code == Errc::would_deadlock);
    EXPECT_EQ(code == std::errc::timed_out, expected.code == Errc::deadline_exceeded);
    EXPECT_EQ(code == std::errc::operation_canceled, expected.code == Errc::cancelled);
  }
}

TEST(ErrorTest, CodesOfOtherCategoriesAreNoneOfOurs) {
  const std::error_code foreign(static_cast<int>(Errc::in_doubt), std::generic_category());
  EXPECT_NE(foreign, make_error_code(Errc::in_doubt));
  EXPECT_NE(foreign, ErrorKind::in_doubt);
  EXPECT_EQ(kind_of(foreign), ErrorKind::precondition);
}

TEST(ErrorTest, CategoriesAndKindsHaveNames) {
  EXPECT_STREQ(zkclient::error_category().name(), "zkclient");
  EXPECT_NE(zkclient::error_category(), zkclient::error_kind_category());
  std::set<std::string> names;
  for (const ErrorKind kind : {ErrorKind::retryable, ErrorKind::in_doubt, ErrorKind::session_lost,
                               ErrorKind::precondition, ErrorKind::cancelled}) {
    EXPECT_TRUE(names.insert(to_string(kind)).second);
    EXPECT_EQ(make_error_condition(kind).message(), to_string(kind));
  }
}

TEST(ErrorTest, WhatNamesOperationPathDetailAndMeaning) {
  const Error error(Errc::no_node, "get", "/config/colour", "some detail");
  const std::string what = error.what();
  for (const char* part : {"get", "/config/colour", "some detail", "no such node"}) {
    EXPECT_NE(what.find(part), std::string::npos) << what;
  }
  EXPECT_EQ(error.operation(), "get");
  EXPECT_EQ(error.path(), "/config/colour");
  EXPECT_EQ(error.detail(), "some detail");
  EXPECT_EQ(error.errc(), Errc::no_node);
  EXPECT_EQ(error.code(), Errc::no_node);
}

TEST(ErrorTest, WhatHasNoEmptyBrackets) {
  const std::string what = Error(Errc::closed, "connect", "").what();
  EXPECT_EQ(what.find("()"), std::string::npos) << what;
  EXPECT_TRUE(what.starts_with("connect: ")) << what;
}

TEST(ErrorTest, IsASystemError) {
  try {
    throw Error(Errc::bad_version, "set", "/a");
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_version);
    return;
  }
  FAIL();
}

TEST(ResultTest, HoldsAValueOrAnError) {
  zkclient::Result<std::string> good(std::string("text"));
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(good.value(), "text");
  EXPECT_EQ(*good, "text");
  EXPECT_EQ(good->size(), 4u);
  EXPECT_FALSE(good.code());
  EXPECT_EQ(std::move(good).value(), "text");

  const zkclient::Result<std::string> bad(Error(Errc::no_node, "get", "/a"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.code(), Errc::no_node);
  EXPECT_EQ(bad.error().path(), "/a");
  EXPECT_THROW((void)bad.value(), Error);
}

TEST(ResultTest, OfVoidHoldsNothingOrAnError) {
  const zkclient::Result<void> good;
  EXPECT_TRUE(good);
  EXPECT_FALSE(good.code());
  good.value();
  const zkclient::Result<void> bad(Error(Errc::closed, "remove", "/a"));
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.code(), Errc::closed);
  EXPECT_THROW(bad.value(), Error);
}

}  // namespace
