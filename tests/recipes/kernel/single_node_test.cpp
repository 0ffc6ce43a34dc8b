// The taking of a single node, with operations of a recipe in the transaction that makes it.

#include "recipes/kernel/single_node.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "recipes/kernel/attempt.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes::detail {
namespace {

using namespace testkit::words;
using zkclient::Check;

class SingleNodeTaking : public testkit::RecipeFaultTest {
 protected:
  SingleNodeTaking() : RecipeFaultTest("/slots") {
    the_operator().create("/slots/a", "");
    the_operator().create("/state", "0");
    the_operator().create("/member", "");
  }

  static Transaction::Operation check(const char* path, std::int32_t version = any_version) {
    return Check{Path(path), version};
  }
  static Transaction::Operation set(const char* path, const char* data, std::int32_t version = any_version) {
    return Transaction::Set{Path(path), data, version};
  }
  static SingleNodeSpec spec_of(const Client& client) {
    SingleNodeSpec spec;
    spec.client = client.impl();
    spec.path = "/slots/a";
    spec.directory = spec.client->full(Path(spec.path));
    spec.name = "owner";
    spec.acl = zkclient::open_acl();
    spec.operation = "take";
    return spec;
  }
  /// Empty: another holder has it.
  static Result<std::optional<Lease>> take(SingleNodeSpec spec, Patience how = Patience::wait) {
    const auto shared = std::make_shared<const SingleNodeSpec>(std::move(spec));
    const zk::CallForm form(shared->client, "take", shared->path);
    return form.result({.deadline = soon()}, [shared, how](zk::Call call) { return lease_of(shared, how, call); });
  }
  static zk::Awaitable<Result<std::optional<Lease>>> lease_of(SingleNodeSpecPtr spec, Patience how, zk::Call call) {
    std::string words = "us";
    Result<LeasePtr> taken = co_await contend_for_node(std::move(spec), std::move(words), how, std::move(call));
    if (!taken) co_return taken.error();
    std::optional<Lease> lease;
    if (*taken != nullptr) lease.emplace(std::move(*taken));
    co_return lease;
  }
  std::vector<std::string> names() override { return RecipeFaultTest::names("/slots/a"); }
  std::string state() { return the_operator().get("/state").data; }
  std::int32_t version() { return the_operator().get("/state").stat.version; }
};

TEST_F(SingleNodeTaking, ChangesAreMadeWithTheNodes) {
  Client client = calm_proxied();
  SingleNodeSpec spec = spec_of(client);
  spec.conditions = {check("/member"), check("/state", 0)};
  spec.changes = {set("/state", "1", 0)};
  const std::optional<Lease> lease = take(std::move(spec)).value();
  ASSERT_TRUE(lease.has_value());
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(state(), "1");
  EXPECT_EQ(the_operator().get("/state").stat.mzxid, lease->token().value) << "one transaction";
}

// Also when the node is taken, and when the directory is missing.
TEST_F(SingleNodeTaking, ARefusedConditionIsTold) {
  Client client = calm_proxied();
  const Client direct = calm_direct();
  for (const bool taken : {false, true}) {
    std::optional<Lease> other;
    if (taken) other = take(spec_of(direct)).value();
    for (const Patience how : {Patience::wait, Patience::try_once}) {
      SingleNodeSpec spec = spec_of(client);
      spec.conditions = {check("/member"), check("/state", 7)};
      const Result<std::optional<Lease>> stale = take(spec, how);
      ASSERT_FALSE(stale.has_value());
      EXPECT_TRUE(was_refused(stale.error()));
      EXPECT_EQ(stale.error().errc(), Errc::bad_version);
      EXPECT_EQ(stale.error().node(), "/state");
      spec.conditions = {check("/gone"), check("/state", 7)};
      const Result<std::optional<Lease>> gone = take(spec, how);
      ASSERT_FALSE(gone.has_value());
      EXPECT_TRUE(was_refused(gone.error()));
      EXPECT_EQ(gone.error().errc(), Errc::no_node);
      EXPECT_EQ(gone.error().node(), "/gone");
    }
    EXPECT_TRUE(remain(taken ? 2 : 0));
  }
}

TEST_F(SingleNodeTaking, ARefusedChangeIsTold) {
  Client client = calm_proxied();
  SingleNodeSpec spec = spec_of(client);
  spec.changes = {set("/state", "1", 7)};
  const Result<std::optional<Lease>> stale = take(spec);
  ASSERT_FALSE(stale.has_value());
  EXPECT_TRUE(was_refused(stale.error()));
  EXPECT_EQ(stale.error().errc(), Errc::bad_version);
  EXPECT_EQ(stale.error().node(), "/state");
  EXPECT_TRUE(remain(0));
  // The node is taken: that comes before the change.
  const Client direct = calm_direct();
  const std::optional<Lease> other = take(spec_of(direct)).value();
  EXPECT_FALSE(take(spec, Patience::try_once).value().has_value());
  EXPECT_EQ(state(), "0");
}

TEST_F(SingleNodeTaking, TheDirectoryIsMadeAndTheNameIsStripped) {
  the_operator().create("/slots/app", "");
  the_operator().create("/slots/app/state", "0");
  Client client(proxy.connect_string(), {.session_timeout = calm, .prefix = "/slots/app"});
  SingleNodeSpec spec = spec_of(client);
  spec.directory = "/slots/app/new";
  spec.conditions = {check("/slots/app/state", 0)};
  spec.changes = {set("/slots/app/state", "1", 0)};
  EXPECT_TRUE(take(spec).value().has_value());
  const Result<std::optional<Lease>> again = take(spec);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().node(), "/state");
}

// The first try has changed what the condition asks for: it is not judged again.
TEST_F(SingleNodeTaking, LostRepliesAndRequestsChangeOnce) {
  Client client = calm_proxied();
  for (const bool request : {false, true}) {
    for (const bool condition : {false, true}) {
      const std::int32_t before = version();
      SingleNodeSpec spec = spec_of(client);
      if (condition) spec.conditions = {check("/member"), check("/state", before)};
      spec.changes = {set("/state", "1", before)};
      auto fault = lose(request);
      std::optional<Lease> lease = take(std::move(spec)).value();
      EXPECT_TRUE(fault.wait(patience));
      ASSERT_TRUE(lease.has_value());
      EXPECT_EQ(version(), before + 1);
      EXPECT_EQ(the_operator().get("/state").stat.mzxid, lease->token().value);
      lease->release({.deadline = soon()});
      EXPECT_TRUE(remain(0));
    }
  }
}

// While it waits for the holder to go, what it rests on changes.
TEST_F(SingleNodeTaking, AWaiterJudgesItsConditionsAnew) {
  Client client = calm_proxied();
  const Client direct = calm_direct();
  std::optional<Lease> holder = take(spec_of(direct)).value();
  SingleNodeSpec spec = spec_of(client);
  spec.conditions = {check("/state", 0)};
  auto waiting = in_thread([spec] { return take(spec); });
  ASSERT_TRUE(watches(client, "/slots/a/owner"));
  the_operator().set("/state", "other");
  holder->release({.deadline = soon()});
  const Result<std::optional<Lease>> ended = result_of(waiting);
  ASSERT_FALSE(ended.has_value());
  EXPECT_TRUE(was_refused(ended.error()));
  EXPECT_EQ(ended.error().errc(), Errc::bad_version);
}

}  // namespace
}  // namespace zkrecipes::detail
