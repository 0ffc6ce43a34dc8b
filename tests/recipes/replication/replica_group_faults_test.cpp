// Replica groups while everything breaks: one test at least per row of the table "What goes wrong" in
// <zkrecipes/replica_group.hpp>.

#include <gtest/gtest.h>

#include "tests/recipes/replication/replica_support.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::error_of;
using testkit::eventually;
using testkit::in_thread;
using testkit::LastAllowed;
using testkit::patience;
using testkit::result_of;
using testkit::soon;
using testkit::stopped;
using testkit::take_in;
using testkit::TestReplica;
using zkclient::BootClock;
using zkclient::Client;
using zkclient::Errc;
using zktesting::Direction;
using zktesting::Fault;
using zktesting::RequestType;
using Strings = std::vector<std::string>;

const testkit::OnRealServers replicas_on_real_servers{"ReplicaFaults.PrimarysSessionIsLost",
                                                      "ReplicaFaults.ShrinkOrExpandReplyLost"};

ReplicaGroupOptions quick() {
  ReplicaGroupOptions options;
  options.settle = 100ms;
  options.read_term = 1s;
  return options;
}

class ReplicaFaults : public testkit::RecipeFaultTest {
 protected:
  ReplicaFaults() : RecipeFaultTest("/replicas") {}

  std::string state() {
    std::error_code error;
    return the_operator().get("/replicas/state", {}, error).data;
  }
  /// `a` the primary, `b` in sync.
  static void pair(TestReplica& a, TestReplica& b) {
    ASSERT_TRUE(a.may_write());
    take_in(a, b, "b");
    ASSERT_TRUE(b.may_serve_reads());
  }
};

// Each by the one clock that both have: the old one has stopped before the new one is told.
TEST_F(ReplicaFaults, PrimaryCutOff) {
  const Client cut_off = contended_proxied();
  const Client other = calm_direct();
  TestReplica a(cut_off, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(other, "b", quick());
  pair(a, b);
  const LastAllowed last([&] { return a->may_write(); });
  proxy.refuse(true);
  proxy.stall(Direction::both);
  ASSERT_TRUE(b.may_write());
  const PrimaryTerm old = a.primary_terms().back().second;  // A session as short as this may have had another before.
  const auto taken = b.primary_terms().back();
  EXPECT_FALSE(a->may_write());
  EXPECT_FALSE(a->may_serve_reads());
  EXPECT_EQ(a.in_sync(), Strings());
  EXPECT_LT(last.at(), taken.first);
  EXPECT_TRUE(stopped(old.lost));
  EXPECT_GT(taken.second.token, old.token);
  EXPECT_EQ(taken.second.epoch, old.epoch + 1);
  EXPECT_EQ(error_of([&] { a->shrink({"b"}, {.deadline = soon()}); }), Errc::not_held);
  proxy.refuse(false);
  proxy.unstall(Direction::both);
  EXPECT_TRUE(a.is(ReplicaRole::secondary));
  ASSERT_TRUE(eventually([&] { return !a.secondary_terms().empty(); }));
  EXPECT_EQ(a.secondary_terms().back().primary, "b");
}

TEST_F(ReplicaFaults, PrimaryDiesAfterTheShrink) {
  const Client dying = calm_proxied();
  const Client other = calm_direct();
  TestReplica a(dying, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(other, "b", quick());
  TestReplica c(other, "c", quick());
  take_in(a, b, "b");
  take_in(a, c, "c");
  c->report_version(99);  // It would be the first choice.
  a->shrink({"c"}, {.deadline = soon()});
  proxy.refuse(true);  // It would be a candidate at once, with the next session.
  expire(dying);
  ASSERT_TRUE(b.may_write());
  EXPECT_EQ(b.primary_terms().at(0).second.epoch, 2);
  EXPECT_EQ(b.in_sync(), (Strings{"a", "b"}));
  EXPECT_TRUE(c.is(ReplicaRole::out));
  EXPECT_TRUE(c.primary_terms().empty());
}

TEST_F(ReplicaFaults, PrimarysSessionIsLost) {
  const Client dying = calm_proxied();
  const Client other = calm_direct();
  TestReplica a(dying, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(other, "b", quick());
  pair(a, b);
  const std::stop_token lost = a.primary_terms()[0].second.lost;
  proxy.refuse(true);  // With the next session it would be a candidate at once, and the first choice.
  expire(dying);
  ASSERT_TRUE(b.may_write());
  proxy.refuse(false);
  EXPECT_TRUE(stopped(lost));
  EXPECT_FALSE(a->may_write());
  EXPECT_TRUE(a.is(ReplicaRole::secondary));
}

TEST_F(ReplicaFaults, AllInSyncDead) {
  const Client client = calm_direct();
  std::optional<TestReplica> a(std::in_place, client, "a", quick());
  ASSERT_TRUE(a->may_write());
  TestReplica b(client, "b", quick());
  ASSERT_TRUE(b.is(ReplicaRole::out));
  a->group().leave({.deadline = soon()});
  ASSERT_TRUE(eventually([&] { return b.problem() == Errc::not_available; }));
  EXPECT_EQ(b->role(), ReplicaRole::out);
  ASSERT_TRUE(eventually([&] { return !b.idle().empty() && b.idle().back() == ReplicaRole::out; }));
  EXPECT_TRUE(b.primary_terms().empty());
  a.emplace(client, "a", quick());
  EXPECT_TRUE(a->may_write());
  EXPECT_EQ(a->primary_terms().at(0).second.epoch, 2);
  EXPECT_TRUE(eventually([&] { return !b.problem(); }));
}

TEST_F(ReplicaFaults, OperatorForcesAPrimary) {
  const Client client = calm_direct();
  EXPECT_EQ(error_of([&] { force_primary(the_operator(), "/replicas", "b"); }), Errc::no_node);
  std::optional<TestReplica> a(std::in_place, client, "a", quick());
  ASSERT_TRUE(a->may_write());
  TestReplica b(client, "b", quick());
  ASSERT_TRUE(b.is(ReplicaRole::out));
  EXPECT_EQ(error_of([&] { force_primary(the_operator(), "/replicas", "b"); }), Errc::node_exists);
  a->group().leave({.deadline = soon()});
  EXPECT_EQ(error_of([&] { force_primary(the_operator(), "/replicas", "z"); }), Errc::no_node);
  force_primary(the_operator(), "/replicas", "b", {.deadline = soon()});
  ASSERT_TRUE(b.may_write());
  EXPECT_EQ(b->state()->forced, 2);
  EXPECT_EQ(b->state()->epoch, 3);
  EXPECT_EQ(b.in_sync(), Strings{"b"});
  a.emplace(client, "a", quick());
  EXPECT_TRUE(a->is(ReplicaRole::out));
}

TEST_F(ReplicaFaults, ForcedWithALostReply) {
  const Client client = calm_direct();
  std::optional<TestReplica> a(std::in_place, client, "a", quick());
  ASSERT_TRUE(a->may_write());
  TestReplica b(client, "b", quick());
  ASSERT_TRUE(b.is(ReplicaRole::out));
  a->group().leave({.deadline = soon()});
  const Client hand = calm_proxied();
  hand.connect({.deadline = soon()});
  const Fault lost = proxy.drop_next_reply(RequestType::multi);
  force_primary(hand, "/replicas", "b", {.deadline = soon()});
  EXPECT_TRUE(lost.happened());
  ASSERT_TRUE(b.may_write());
  EXPECT_EQ(b->state()->epoch, 3);
}

// The first request is lost, then the state changes, and the reply to the second one is lost: by then the member leads.
TEST_F(ReplicaFaults, ForcedAgainWithALostReply) {
  const Client client = calm_direct();
  std::optional<TestReplica> a(std::in_place, client, "a", quick());
  ASSERT_TRUE(a->may_write());
  TestReplica b(client, "b", quick());
  ASSERT_TRUE(b.is(ReplicaRole::out));
  a->group().leave({.deadline = soon()});
  const Client hand = calm_proxied();
  hand.connect({.deadline = soon()});
  const Fault lost = proxy.drop_next_request(RequestType::multi);
  proxy.refuse(true);  // From the cut on.
  auto forcing = in_thread([&] { force_primary(hand, "/replicas", "b", {.deadline = soon()}); });
  ASSERT_TRUE(lost.wait(patience));
  std::string changed = state();
  ASSERT_TRUE(changed.starts_with("replicas 1 epoch=1 ")) << changed;
  changed[std::string("replicas 1 epoch=").size()] = '5';
  the_operator().set("/replicas/state", changed);
  auto looked = proxy.hold_next_reply(RequestType::exists);
  proxy.refuse(false);
  ASSERT_TRUE(looked.wait(patience));
  auto set = proxy.hold_next_reply(RequestType::multi);
  looked.release();
  ASSERT_TRUE(set.wait(patience));
  ASSERT_TRUE(b.may_write());
  refuse_and_cut();
  set.release();
  proxy.refuse(false);
  EXPECT_NO_THROW(result_of(forcing));
  EXPECT_EQ(b->state()->forced, 6);
}

// The state names its storage, and a member that has left may erase that.
TEST_F(ReplicaFaults, MemberLeavesWhileItIsForced) {
  const Client client = calm_direct();
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(client, "b", quick());
  ASSERT_TRUE(b.is(ReplicaRole::out));
  a->leave({.deadline = soon()});
  const Client hand = calm_proxied();
  hand.connect({.deadline = soon()});
  auto owner_seen = proxy.hold_next_reply(RequestType::exists);
  auto forcing = in_thread([&] { force_primary(hand, "/replicas", "b", {.deadline = soon()}); });
  ASSERT_TRUE(owner_seen.wait(patience));
  auto witness_seen = proxy.hold_next_reply(RequestType::exists);
  owner_seen.release();
  ASSERT_TRUE(witness_seen.wait(patience));
  b->leave({.deadline = soon()});
  TestReplica emptied(client, "b", quick(), "disk-2");
  ASSERT_TRUE(eventually([&] { return emptied.sees("b", "disk-2"); }));
  witness_seen.release();
  EXPECT_NO_THROW(result_of(forcing));
  EXPECT_NE(state().find("\nb disk-2"), std::string::npos) << state();
  EXPECT_TRUE(emptied.may_write());
}

// Both at once: neither waits for the other.
TEST_F(ReplicaFaults, TwoCandidatesAtOnce) {
  ReplicaGroupOptions at_once = quick();
  at_once.settle = 0ms;
  const Client client = calm_direct();
  const Client another = calm_direct();
  std::optional<TestReplica> a(std::in_place, client, "a", at_once);
  ASSERT_TRUE(a->may_write());
  TestReplica b(client, "b", at_once);
  TestReplica c(another, "c", at_once);
  take_in(*a, b, "b");
  take_in(*a, c, "c");
  a->group().leave({.deadline = soon()});
  ASSERT_TRUE(eventually([&] { return b->may_write() || c->may_write(); }));
  TestReplica& primary = b->may_write() ? b : c;
  TestReplica& other = &primary == &b ? c : b;
  EXPECT_TRUE(other.is(ReplicaRole::secondary));
  EXPECT_EQ(primary->state()->epoch, 2);
  EXPECT_EQ(primary.primary_terms().size(), 1U);
  EXPECT_TRUE(other.primary_terms().empty());
}

// Its transaction arrives, the answer does not, and its session ends before it can look.
TEST_F(ReplicaFaults, TakenOverButTheGrantFails) {
  const Client other = calm_direct();
  const Client failing = calm_proxied();
  std::optional<TestReplica> a(std::in_place, other, "a", quick());
  ASSERT_TRUE(a->may_write());
  ReplicaGroupOptions rare = quick();
  rare.read_term = 10min;  // So that it sends few other transactions.
  ReplicaGroupOptions second = quick();
  second.settle = 10min;  // So that it waits for as long as the first choice is there.
  TestReplica c(other, "c", second);
  take_in(*a, c, "c");
  TestReplica b(failing, "b", rare);
  take_in(*a, b, "b");
  ASSERT_TRUE(b.may_serve_reads());
  b->report_version(1, {.deadline = soon()});
  ASSERT_TRUE(eventually([&] {
    for (const ReplicaMember& one : c->members()) {
      if (one.id == "b" && one.version == 1) return true;
    }
    return false;
  }));
  auto held = proxy.hold_next_reply(RequestType::multi);
  (*a)->leave({.deadline = soon()});
  const auto taken_over = [&] { return state().find("primary=b") != std::string::npos; };
  ASSERT_TRUE(eventually([&] {
    if (taken_over()) return true;
    if (!held.happened()) return false;
    auto next = proxy.hold_next_reply(RequestType::multi);
    if (taken_over()) return true;
    held.release();  // That was a heartbeat's.
    held = std::move(next);
    return false;
  }));
  ASSERT_TRUE(held.wait(patience));  // The answer, or what it comes behind.
  refuse_and_cut();
  EXPECT_TRUE(b.primary_terms().empty());
  const auto session = failing.session();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  ASSERT_TRUE(c.may_write());
  EXPECT_EQ(c.primary_terms().at(0).second.epoch, 3);
  proxy.refuse(false);
  EXPECT_TRUE(b.is(ReplicaRole::secondary));
  EXPECT_TRUE(b.primary_terms().empty());
}

TEST_F(ReplicaFaults, ShrinkOrExpandReplyLost) {
  ReplicaGroupOptions rare = quick();
  rare.read_term = 0ms;
  const Client client = calm_proxied();
  const Client other = calm_direct();
  TestReplica a(client, "a", rare);
  ASSERT_TRUE(a.may_write());
  TestReplica b(other, "b", quick());
  ASSERT_TRUE(a.sees("b"));
  const Fault expanding = proxy.drop_next_reply(RequestType::multi);
  a->expand(a.epoch(), "b", "disk", {.deadline = soon()});
  EXPECT_TRUE(expanding.happened());
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
  EXPECT_NE(state().find("\nb disk"), std::string::npos);
  const Fault shrinking = proxy.drop_next_reply(RequestType::multi);
  a->shrink({"b"}, {.deadline = soon()});
  EXPECT_TRUE(shrinking.happened());
  EXPECT_EQ(a.in_sync(), Strings{"a"});
  EXPECT_EQ(state().find("\nb disk"), std::string::npos);
  const Fault never_sent = proxy.drop_next_request(RequestType::multi);
  a->expand(a.epoch(), "b", "disk", {.deadline = soon()});
  EXPECT_TRUE(never_sent.happened());
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
  EXPECT_EQ(a->role(), ReplicaRole::primary);
}

// A leader that a majority has left answers a sync at once, with a state from before the change.
TEST_F(ReplicaFaults, ALostChangeIsLookedForBehindATransaction) {
  ReplicaGroupOptions rare = quick();
  rare.read_term = 0ms;
  const Client client = calm_proxied();
  const Client other = calm_direct();
  TestReplica a(client, "a", rare);
  ASSERT_TRUE(a.may_write());
  TestReplica b(other, "b", quick());
  take_in(a, b, "b");
  const std::size_t syncs = proxy.request_count(RequestType::sync);
  const Fault lost = proxy.drop_next_reply(RequestType::multi);
  a->shrink({"b"}, {.deadline = soon()});
  EXPECT_TRUE(lost.happened());
  if (!time_is_made()) return;  // Else a view may send its own at any time.
  EXPECT_EQ(proxy.request_count(RequestType::sync), syncs + 1) << "that of the view, on the new connection";
}

// It is the primary again, and may have taken over from one of whose writes the member has none.
TEST_F(ReplicaFaults, CaughtUpInAnEpochThatIsOver) {
  const Client client = calm_proxied();
  const Client other = calm_direct();
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  const std::int64_t epoch = a.epoch();
  expire(client);
  ASSERT_TRUE(eventually([&] { return a->may_write() && a.epoch() > epoch; }));
  TestReplica b(other, "b", quick());
  ASSERT_TRUE(a.sees("b"));
  EXPECT_EQ(error_of([&] { a->expand(epoch, "b", "disk", {.deadline = soon()}); }), Errc::not_held);
  EXPECT_EQ(a.in_sync(), Strings{"a"});
  a->expand(a.epoch(), "b", "disk", {.deadline = soon()});
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
}

// The primary hears of it too late, and a member that has left may erase what it has.
TEST_F(ReplicaFaults, MemberLeavesWhileItIsTakenIn) {
  const Client client = calm_proxied();
  const Client other = calm_direct();
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  const auto take_b_in = [&] { return error_of([&] { a->expand(a.epoch(), "b", "disk", {.deadline = soon()}); }); };
  // The primary reads the member's node, then its witness. One that is back has a node of the same version.
  for (const bool is_back : {true, false}) {
    for (const auto look : {RequestType::get_data, RequestType::exists}) {
      TestReplica b(other, "b", quick());
      ASSERT_TRUE(a.sees("b"));
      auto seen = proxy.hold_next_reply(look);
      auto expanding = in_thread(take_b_in);
      ASSERT_TRUE(seen.wait(patience));
      b->leave({.deadline = soon()});
      std::optional<TestReplica> emptied;
      if (is_back) {
        emptied.emplace(other, "b", quick(), "disk-2");
        ASSERT_TRUE(eventually([&] { return emptied->sees("b", "disk-2"); }));
      }
      seen.release();
      EXPECT_EQ(result_of(expanding), Errc::no_node);
      EXPECT_EQ(a.in_sync(), Strings{"a"});
      EXPECT_EQ(state().find("\nb "), std::string::npos);
      if (is_back) (*emptied)->leave({.deadline = soon()});
    }
  }
  TestReplica again(other, "b", quick());
  ASSERT_TRUE(a.sees("b"));
  proxy.stall(Direction::to_client);
  again->leave({.deadline = soon()});
  TestReplica emptied(other, "b", quick(), "disk-2");
  ASSERT_TRUE(eventually([&] { return emptied.sees("b", "disk-2"); }));
  const std::size_t looks = proxy.request_count(RequestType::get_data);
  auto in_vain = in_thread(take_b_in);
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::get_data, looks + 1, patience)) << "it trusts its view";
  proxy.unstall(Direction::to_client);
  EXPECT_EQ(result_of(in_vain), Errc::no_node);
  EXPECT_EQ(state().find("\nb "), std::string::npos);
  ASSERT_TRUE(a.sees("b", "disk-2"));
  a->expand(a.epoch(), "b", "disk-2", {.deadline = soon()});
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
}

// While it is not known whether a member is in sync, it counts.
TEST_F(ReplicaFaults, WhoMayBeInSyncCounts) {
  const Client client = calm_proxied();
  const Client other = calm_direct();
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(other, "b", quick());
  ASSERT_TRUE(a.sees("b"));
  const auto is_named = [&] { return state().find("\nb disk") != std::string::npos; };
  // Either holds the answer, or a heartbeat's before it.
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto expanding = in_thread([&] { a->expand(a.epoch(), "b", "disk", {.deadline = soon()}); });
  ASSERT_TRUE(eventually(is_named));
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
  held.release();
  result_of(expanding);
  auto again = proxy.hold_next_reply(RequestType::multi);
  std::stop_source stop;
  auto shrinking =
      in_thread([&] { return error_of([&] { a->shrink({"b"}, {.deadline = soon(), .stop = stop.get_token()}); }); });
  ASSERT_TRUE(eventually([&] { return !is_named(); }));
  stop.request_stop();
  EXPECT_EQ(result_of(shrinking), Errc::cancelled);
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
  again.release();
  EXPECT_TRUE(eventually([&] { return a.in_sync() == Strings{"a"}; }));  // It went on.
}

TEST_F(ReplicaFaults, WhoIsTakenOutCountsUntilItsReadsHaveEnded) {
  const Client client = calm_direct();
  ReplicaGroupOptions long_reads = quick();
  long_reads.read_term = 3s;
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(client, "b", long_reads);
  pair(a, b);
  for (bool looked_in_time = false; !looked_in_time && !HasFailure();) {
    const auto begin = BootClock::now();
    auto shrinking = in_thread([&] { a->shrink({"b"}, {.deadline = soon()}); });
    ASSERT_TRUE(eventually([&] { return state().find("\nb disk") == std::string::npos; }));
    const Strings counted = a.in_sync();
    looked_in_time = BootClock::now() < begin + long_reads.read_term;
    if (looked_in_time) {
      EXPECT_EQ(counted, (Strings{"a", "b"}));
    }
    result_of(shrinking);
    EXPECT_GE(BootClock::now() - begin, long_reads.read_term);
    EXPECT_EQ(a.in_sync(), Strings{"a"});
    if (!looked_in_time) take_in(a, b, "b");  // Again.
  }
}

// The primary goes before its call has waited for that; the next one waits for it in its place.
TEST_F(ReplicaFaults, TakenOutByThePrimaryBefore) {
  const Client client = calm_direct();
  ReplicaGroupOptions long_reads = quick();
  long_reads.read_term = 10s;
  std::optional<TestReplica> a(std::in_place, client, "a", quick());
  ASSERT_TRUE(a->may_write());
  TestReplica b(client, "b", long_reads);
  pair(*a, b);
  TestReplica c(client, "c", quick());
  take_in(*a, c, "c");
  auto shrinking = in_thread([&] { return error_of([&] { (*a)->shrink({"b"}, {.deadline = soon()}); }); });
  ASSERT_TRUE(eventually([&] { return state().find("\nb disk") == std::string::npos; }));
  (*a)->leave({.deadline = soon()});
  EXPECT_EQ(result_of(shrinking), Errc::not_held);
  ASSERT_TRUE(eventually([&] { return c->role() == ReplicaRole::primary; }));
  ASSERT_TRUE(c.may_serve_reads());
  c->shrink({"b"}, {.deadline = soon()});
  EXPECT_TRUE(c->may_write()) << "b may serve reads still";
}

TEST_F(ReplicaFaults, SecondaryTakenOutWhileItIsCutOff) {
  const Client client = calm_direct();
  const Client cut_off = calm_proxied();
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(cut_off, "b", quick());
  pair(a, b);
  const LastAllowed last([&] { return b->may_serve_reads(); });
  proxy.refuse(true);
  proxy.stall(Direction::both);
  const auto began = BootClock::now();
  a->shrink({"b"}, {.deadline = soon()});
  const auto ended = BootClock::now();
  EXPECT_FALSE(b->may_serve_reads());
  EXPECT_LT(last.at(), ended);
  EXPECT_GE(ended - began, 1s);
  EXPECT_EQ(a.in_sync(), Strings{"a"});
  proxy.refuse(false);
  proxy.unstall(Direction::both);
  EXPECT_TRUE(b.is(ReplicaRole::out));
  EXPECT_FALSE(b->may_serve_reads());
}

TEST_F(ReplicaFaults, DiskEmptied) {
  const Client client = calm_direct();
  std::optional<TestReplica> a(std::in_place, client, "a", quick());
  ASSERT_TRUE(a->may_write());
  std::optional<TestReplica> b(std::in_place, client, "b", quick());
  pair(*a, *b);
  (*b)->leave({.deadline = soon()});
  b.emplace(client, "b", quick(), "emptied");
  ASSERT_TRUE(b->is(ReplicaRole::out));
  EXPECT_FALSE((*b)->may_serve_reads());
  (*a)->leave({.deadline = soon()});
  ASSERT_TRUE(eventually([&] { return b->problem() == Errc::not_available; }));
  EXPECT_FALSE((*b)->may_serve_reads());
  EXPECT_TRUE(b->primary_terms().empty());
  a.emplace(client, "a", quick());
  take_in(*a, *b, "b", "emptied");
  EXPECT_TRUE(b->may_serve_reads());
}

TEST_F(ReplicaFaults, AnotherSessionHasTheId) {
  const Client client = calm_direct();
  const Client another = calm_direct();
  std::optional<TestReplica> first(std::in_place, client, "a", quick());
  ASSERT_TRUE(first->may_write());
  TestReplica second(another, "a", quick());
  ASSERT_TRUE(eventually([&] { return second.problem() == Errc::node_exists; }));
  EXPECT_EQ(second->role(), ReplicaRole::joining);
  EXPECT_FALSE(second->may_write());
  (*first)->leave({.deadline = soon()});
  EXPECT_TRUE(second.may_write());
  EXPECT_FALSE(second.problem());
}

TEST_F(ReplicaFaults, SessionLostWhileASecondary) {
  const Client client = calm_direct();
  const Client dying = brief_proxied();
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(dying, "b", quick());
  pair(a, b);
  refuse_and_cut();
  const zkclient::Path member("/replicas/members/b");
  ASSERT_TRUE(eventually([&] { return !the_operator().exists(member); }));
  ASSERT_TRUE(b.is(ReplicaRole::joining));
  const std::size_t told = b.secondary_terms().size();
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] { return b.secondary_terms().size() > told; }));
  EXPECT_TRUE(b.is(ReplicaRole::secondary));
  EXPECT_TRUE(b.secondary_terms().back().in_sync);
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
  EXPECT_TRUE(b.may_serve_reads());
}

TEST_F(ReplicaFaults, StateRemovedOrOverwritten) {
  const Client client = calm_direct();
  TestReplica a(client, "a", quick());
  ASSERT_TRUE(a.may_write());
  TestReplica b(client, "b", quick());
  pair(a, b);
  const std::string before = state();
  the_operator().set("/replicas/state", "something else");
  EXPECT_TRUE(eventually([&] { return !a->may_write() && !b->may_serve_reads(); }));
  EXPECT_TRUE(eventually([&] { return a.problem() == Errc::foreign_node && b.problem() == Errc::foreign_node; }));
  the_operator().set("/replicas/state", before);
  ASSERT_TRUE(eventually([&] { return a->may_write() || b->may_write(); }));
  the_operator().remove("/replicas/state");
  EXPECT_TRUE(eventually([&] { return !a->may_write() && !b->may_write(); }));
  EXPECT_TRUE(eventually([&] { return a.problem() == Errc::no_node && b.problem() == Errc::no_node; }));
  EXPECT_FALSE(the_operator().exists("/replicas/state"));  // Nobody begins anew.
}

}  // namespace
}  // namespace zkrecipes
