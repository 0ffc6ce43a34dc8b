// Groups while everything breaks: one test at least per row of the table "What goes wrong" in <zkrecipes/group.hpp>,
// and what other libraries had trouble with.

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/node_cache.hpp>

#include "tests/support/given_up.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Strings = std::vector<std::string>;

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers groups_on_real_servers{"GroupFaults.JoinReplyLost", "GroupFaults.SessionLost"};

class GroupFaults : public testkit::RecipeFaultTest {
 protected:
  GroupFaults() : RecipeFaultTest("/group") { the_operator().create("/group-presence", ""); }

  /// Nothing is left: no member, no witness, no watch.
  void TearDown() override {
    expect_nothing_left();
    RecipeFaultTest::TearDown();
  }
  std::string data(const Path& path = "/group/a") {
    std::error_code error;
    return the_operator().get(path, {}, error).data;
  }
  std::int64_t owner(const Path& path = "/group/a") {
    const auto stat = the_operator().exists(path);
    return stat ? stat->ephemeral_owner : 0;
  }
  static bool is(const Membership& member, PresenceState state) {
    return eventually([&] { return member.state() == state; });
  }
  /// Until the node of a member that is cut off is gone; throws if it stays.
  template <typename Seen>
  void wait_until_removed(Seen& seen) {
    // It may have lost its lease or its session before, and come back.
    while (seen.next() != "removed /group/a" || owner() != 0) {
    }
  }
};

/// Puts each call of a listener, as "added a, removed b, complete".
zkclient::Subscription tell(const Group& group, Box<std::string>& told) {
  return group.on_change([&told](const std::vector<MemberChange>& changes, const GroupSnapshot& now) {
    std::string text;
    for (const MemberChange& change : changes)
      text += std::string(to_string(change.kind)) + " " + (change.after ? change.after : change.before)->id + ", ";
    told.put(text + (now.complete ? "complete" : "not complete"));
  });
}

/// The differences that an operator's cache is told, as "added a replaced a".
class Seen {
 public:
  explicit Seen(const Client& client) : cache_(client, "/group") {
    (void)cache_.wait_ready({.deadline = soon()});
    subscription_ = cache_.on_change([this](const std::vector<Change>& changes, const Snapshot&) {
      for (const Change& change : changes) {
        if (change.path != "/group") told_.put(std::string(to_string(change.kind)) + " " + change.path);
      }
    });
  }
  std::string next() { return told_.take(); }

 private:
  Box<std::string> told_;
  ChildrenCache cache_;
  zkclient::Subscription subscription_;
};

// --- Rows ------------------------------------------------------------------------------------------------------------

TEST_F(GroupFaults, JoinReplyLost) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  (void)client.connect({.deadline = soon()});
  const Fault lost = proxy.drop_next_reply(RequestType::multi);
  Membership a = group.join("a", "x", {.deadline = soon()});
  EXPECT_TRUE(lost.happened());
  EXPECT_EQ(owner(), client.session().id());
  EXPECT_EQ(names("/group-presence").size(), 1u);
  a.leave({.deadline = soon()});
}

TEST_F(GroupFaults, JoinRequestLost) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  (void)client.connect({.deadline = soon()});
  const Fault lost = proxy.drop_next_request(RequestType::multi);
  Membership a = group.join("a", "x", {.deadline = soon()});
  EXPECT_TRUE(lost.happened());
  EXPECT_EQ(owner(), client.session().id());
  EXPECT_EQ(names("/group-presence").size(), 1u);
  a.leave({.deadline = soon()});
}

// Also the look behind the create.
TEST_F(GroupFaults, LookLost) {
  for (const RequestType type : {RequestType::get_data, RequestType::exists}) {
    const Client client = calm_proxied();
    Group group(client, "/group");
    (void)client.connect({.deadline = soon()});
    const Fault lost = proxy.drop_next_reply(type);
    Membership a = group.join("a", "x", {.deadline = soon()});
    EXPECT_TRUE(lost.happened());
    a.leave({.deadline = soon()});
  }
}

// V66: the create's reply is late, or lost, and the member has left. A leader that was deposed, and does not know, answers a
// sync at once: so where the reply is lost, the look for the node goes out behind a transaction.
TEST_F(GroupFaults, LeaveBeforeTheCreateIsAnswered) {
  for (const bool lost : {false, true}) {
    const Client client = calm_proxied();
    Group group(client, "/group");
    (void)client.connect({.deadline = soon()});
    auto held = proxy.hold_next_reply(RequestType::multi);
    {
      Membership a = group.begin_join("a", "x");
      EXPECT_TRUE(held.wait(patience));
      EXPECT_EQ(error_of([&] { a.leave({.deadline = SteadyClock::now() + 10ms}); }), Errc::deadline_exceeded);
    }
    const std::size_t transactions = proxy.request_count(RequestType::multi);
    if (lost) proxy.cut();
    held.release();
    EXPECT_TRUE(remain(0));
    EXPECT_EQ(proxy.request_count(RequestType::multi), transactions + (lost ? 2U : 1U)) << "the removal, and that one";
  }
}

TEST_F(GroupFaults, ParentMissingOrRemoved) {
  the_operator().remove("/group");
  the_operator().remove("/group-presence");
  const Client client = calm_direct();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  EXPECT_EQ(data(), "x");
  const std::stop_token lost = a.lost();
  the_operator().remove_tree("/group-presence", {.deadline = soon()});
  the_operator().remove_tree("/group", {.deadline = soon()});
  EXPECT_TRUE(stopped(lost));
  a.wait_present({.deadline = soon()});
  EXPECT_TRUE(eventually([&] { return data() == "x"; }));
  a.leave({.deadline = soon()});
}

// V39: the node is not touched, and nobody is told anything.
TEST_F(GroupFaults, ConnectionBreaks) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const FencingToken token = a.token();
  Seen seen(the_operator());
  EXPECT_EQ(seen.next(), "added /group/a");
  for (int i = 0; i < 5; ++i) {
    proxy.cut();
    client.sync("/", {.deadline = soon()});
  }
  EXPECT_EQ(a.state(), PresenceState::present);
  EXPECT_EQ(a.token(), token);
  EXPECT_EQ(the_operator().get("/group/a").stat.czxid, token.value);
  EXPECT_EQ(names("/group-presence").size(), 1u);
  the_operator().create("/group/z", "");
  EXPECT_EQ(seen.next(), "added /group/z");
  the_operator().remove("/group/z");
  a.leave({.deadline = soon()});
}

// V45, V60, V63: every member is back, with a watch.
TEST_F(GroupFaults, SessionLost) {
  const Client client = calm_direct();
  Group group(client, "/group");
  std::deque<Membership> members;
  std::deque<std::stop_token> lost;
  std::deque<FencingToken> tokens;
  for (const char* id : {"a", "b", "c"}) {
    members.push_back(group.join(id, id, {.deadline = soon()}));
    lost.push_back(members.back().lost());
    tokens.push_back(members.back().token());
  }
  expire(client);
  for (std::size_t i = 0; i < members.size(); ++i) {
    EXPECT_TRUE(stopped(lost[i]));
    EXPECT_TRUE(
        eventually([&] { return members[i].state() == PresenceState::present && members[i].token() > tokens[i]; }));
    EXPECT_EQ(owner(Path("/group") / members[i].id()), client.session().id());
    EXPECT_FALSE(members[i].lost().stop_requested());
  }
  // Taken first: the member is back at once, and what it hands out then is of its next node.
  const std::stop_token of_b = members[1].lost();
  the_operator().remove("/group/b");
  EXPECT_TRUE(stopped(of_b));
  for (Membership& member : members) {
    member.wait_present({.deadline = soon()});
    member.leave({.deadline = soon()});
  }
}

// The member hears that it is absent, and that it is back.
TEST_F(GroupFaults, LossOfTheSessionIsToldToTheStateListener) {
  const Client client = calm_direct();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const FencingToken token = a.token();
  Box<PresenceState> states;
  const auto subscription = a.on_state([&](PresenceState state) { states.put(state); });
  EXPECT_EQ(states.take(), PresenceState::present);
  expire(client);
  EXPECT_EQ(states.take(), PresenceState::absent);
  EXPECT_EQ(states.take(), PresenceState::present);
  EXPECT_GT(a.token(), token);
  EXPECT_EQ(owner(), client.session().id());
  a.leave({.deadline = soon()});
  EXPECT_EQ(states.take(), PresenceState::left);
}

// V47: one transaction puts the new node in the place of the one that the former session still has. A cache sees it
// replaced.
TEST_F(GroupFaults, FormerSessionsNodeIsReplaced) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const FencingToken token = a.token();
  Seen seen(the_operator());
  EXPECT_EQ(seen.next(), "added /group/a");
  // The server keeps the former session, and its node, for half a minute.
  testkit::lose_session(client, proxy);
  EXPECT_TRUE(eventually([&] { return a.state() == PresenceState::present && a.token() > token; }));
  EXPECT_EQ(owner(), client.session().id());
  EXPECT_EQ(seen.next(), "replaced /group/a");
  a.leave({.deadline = soon()});
}

// The client closes the session that it gave up, and not before nobody can see the member missing.
TEST_F(GroupFaults, GivenUpSessionIsClosedOnceItsNodeIsReplaced) {
  const Client client = brief_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const FencingToken token = a.token();
  Seen seen(the_operator());
  EXPECT_EQ(seen.next(), "added /group/a");
  const std::size_t closes = proxy.request_count(RequestType::close_session);
  const std::stop_token over = client.session().lost();
  testkit::cut_off_and_keep_session(client, proxy, server);
  ASSERT_TRUE(stopped(over));
  auto look = proxy.hold_next_reply(RequestType::get_data);
  proxy.refuse(false);
  ASSERT_TRUE(look.wait(patience));
  testkit::let_age(300ms);  // Time enough to close it.
  EXPECT_EQ(proxy.request_count(RequestType::close_session), closes);
  look.release();
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::close_session, closes + 1, patience));
  EXPECT_TRUE(eventually([&] { return a.state() == PresenceState::present && a.token() > token; }));
  EXPECT_EQ(owner(), client.session().id());
  EXPECT_EQ(seen.next(), "replaced /group/a");
  a.leave({.deadline = soon()});
}

// V67: the create was decided on a session that is lost before it arrives. The next session decides anew.
TEST_F(GroupFaults, SessionLostWhileCreating) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const FencingToken token = a.token();
  const Fault lost = proxy.drop_next_request(RequestType::multi);
  proxy.refuse(true);  // From the cut on.
  the_operator().remove("/group/a");
  ASSERT_TRUE(lost.wait(patience));
  testkit::lose_session(client, proxy);
  EXPECT_TRUE(eventually([&] { return a.state() == PresenceState::present && a.token() > token; }));
  EXPECT_EQ(owner(), client.session().id());
  EXPECT_EQ(names("/group").size(), 1u);
  // The server keeps the former session, and its witness, for half a minute.
  for (const std::string& witness : names("/group-presence")) {
    const Path path = Path("/group-presence") / witness;
    if (owner(path) != client.session().id()) the_operator().remove(path);
  }
  a.leave({.deadline = soon()});
}

// V68: the node keeps its name, however often it is made again.
TEST_F(GroupFaults, DeletedByHand) {
  const Client client = calm_direct();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  FencingToken token = a.token();
  Box<PresenceState> states;
  const auto subscription = a.on_state([&](PresenceState state) { states.put(state); });
  EXPECT_EQ(states.take(), PresenceState::present);
  for (int i = 0; i < 5; ++i) {
    const std::stop_token lost = a.lost();
    the_operator().remove("/group/a");
    EXPECT_TRUE(stopped(lost));
    a.wait_present({.deadline = soon()});
    EXPECT_GT(a.token(), token) << "it is absent before its loss is told";
    EXPECT_TRUE(eventually([&] { return a.state() == PresenceState::present && a.token() > token; }));
    EXPECT_EQ(data(), "x");
    token = a.token();
  }
  EXPECT_EQ(names("/group"), Strings{"a"});
  EXPECT_TRUE(eventually([&] { return names("/group-presence").size() == 1; })) << "no witness stays behind";
  // The witness alone is no loss.
  the_operator().remove(Path("/group-presence") / names("/group-presence").front());
  the_operator().set("/group/a", "y");
  EXPECT_TRUE(eventually([&] { return data() == "x"; }));
  EXPECT_EQ(a.token(), token);
  a.leave({.deadline = soon()});
  states.take_until([](const PresenceState& state) { return state == PresenceState::absent; });
}

// V64: the last payload that its owner wanted is in force.
TEST_F(GroupFaults, ChangedByHand) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "1", {.deadline = soon()});
  the_operator().set("/group/a", "by hand");
  EXPECT_TRUE(eventually([&] { return data() == "1"; }));
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  Box<bool> updated;
  a.async_update("2", [&](zkclient::Result<void> result) { updated.put(result.has_value()); }, {.deadline = soon()});
  the_operator().set("/group/a", "by hand again");
  proxy.refuse(false);
  EXPECT_TRUE(updated.take());
  EXPECT_EQ(data(), "2");
  the_operator().remove("/group/a");
  EXPECT_TRUE(eventually([&] { return data() == "2"; }));
  a.wait_present({.deadline = soon()});
  a.leave({.deadline = soon()});
}

TEST_F(GroupFaults, UpdateReplyLost) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "1", {.deadline = soon()});
  const Fault lost = proxy.drop_next_reply(RequestType::set_data);
  a.update("2", {.deadline = soon()});
  EXPECT_TRUE(lost.happened());
  EXPECT_EQ(data(), "2");
  EXPECT_EQ(the_operator().get("/group/a").stat.version, 1) << "written once";
  a.leave({.deadline = soon()});
}

// V48: what another program has made under its own session is not taken for ours, and stays.
TEST_F(GroupFaults, AnotherSessionHasTheNode) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "ours", {.deadline = soon()});
  const FencingToken token = a.token();
  proxy.refuse(true);
  expire(client);
  ASSERT_TRUE(eventually([&] { return !the_operator().exists("/group/a"); }));
  the_operator().create("/group/a", "theirs", {.mode = zkclient::CreateMode::ephemeral});
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return a.problem().has_value() && a.problem()->errc() == Errc::node_exists; }));
  EXPECT_TRUE(is(a, PresenceState::absent));
  EXPECT_EQ(data(), "theirs");
  the_operator().remove("/group/a");
  EXPECT_TRUE(is(a, PresenceState::present));
  EXPECT_GT(a.token(), token);
  EXPECT_FALSE(a.problem());
  a.leave({.deadline = soon()});
}

// With a lease a member knows before anybody else that it counts as gone.
TEST_F(GroupFaults, CutOffForLongerThanTheLease) {
  const Client client = contended_proxied();
  Group group(client, "/group", {.lease = true});
  Membership a = group.join("a", "x", {.deadline = soon()});
  const testkit::StallWatch stalls;
  Seen seen(the_operator());
  EXPECT_EQ(seen.next(), "added /group/a");
  proxy.stall(Direction::both);
  // From here on no other one can begin.
  const FencingToken token = a.token();
  const std::stop_token lost = a.lost();
  wait_until_removed(seen);
  EXPECT_FALSE(a.valid());
  EXPECT_TRUE(lost.stop_requested() || stalls.seen());
  proxy.unstall(Direction::both);
  EXPECT_TRUE(eventually([&] { return a.valid() && a.token() > token; }));
  a.leave({.deadline = soon()});
}

// The lease is lost and the session is not: what others see is a new node.
TEST_F(GroupFaults, LeaseLostAndSessionKept) {
  const Client client = contended_proxied();
  Group group(client, "/group", {.lease = true});
  Membership a = group.join("a", "x", {.deadline = soon()});
  const std::int64_t session = client.session().id();
  proxy.stall(Direction::both);
  // From here on no other one can begin.
  const FencingToken token = a.token();
  const std::stop_token lost = a.lost();
  ASSERT_TRUE(stopped(lost));
  EXPECT_FALSE(a.valid());
  proxy.unstall(Direction::both);
  EXPECT_TRUE(eventually([&] { return a.valid() && a.token() > token; }));
  const std::size_t witnesses = names("/group-presence").size();
  EXPECT_TRUE(witnesses == 1 || client.session().id() != session);
  EXPECT_TRUE(eventually([&] {  // It may lose that lease as well.
    const auto node = the_operator().exists("/group/a");
    return node && node->czxid == a.token().value;
  }));
  a.leave({.deadline = soon()});
}

// The transaction that was to renew the node is lost, too: a token whose loss was told does not come back.
TEST_F(GroupFaults, LeaseLostAndItsRenewalLost) {
  const Client client = contended_proxied();
  Group group(client, "/group", {.lease = true});
  Membership a = group.join("a", "x", {.deadline = soon()});
  proxy.stall(Direction::both);
  // From here on no other one can begin.
  const FencingToken token = a.token();
  const std::stop_token lost = a.lost();
  ASSERT_TRUE(stopped(lost));
  const Fault renewal = proxy.drop_next_request(RequestType::multi);
  proxy.unstall(Direction::both);
  EXPECT_TRUE(eventually([&] { return a.valid(); }));
  EXPECT_GT(a.token(), token);
  EXPECT_TRUE(renewal.happened());
  EXPECT_TRUE(eventually([&] { return names("/group-presence").size() == 1; }));
  a.leave({.deadline = soon()});
}

// The member was told that its node is lost when it could not read it any more. What comes back is another node.
TEST_F(GroupFaults, MayNotReadForAWhile) {
  const Client client = calm_direct();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const FencingToken token = a.token();
  const std::stop_token lost = a.lost();
  constexpr int all_but_read =
      zkclient::Acl::write | zkclient::Acl::create | zkclient::Acl::remove | zkclient::Acl::admin;
  the_operator().set_acl("/group/a", {{all_but_read, "world", "anyone"}});
  EXPECT_EQ(error_of([&] { a.update("y", {.deadline = soon()}); }), Errc::no_auth);
  ASSERT_TRUE(stopped(lost));
  EXPECT_TRUE(is(a, PresenceState::absent));
  the_operator().set_acl("/group/a", zkclient::open_acl());
  a.update("z", {.deadline = soon()});
  EXPECT_GT(a.token(), token);
  EXPECT_EQ(data(), "z");
  a.leave({.deadline = soon()});
}

// To leave takes no right to read.
TEST_F(GroupFaults, LeavesWithoutTheRightToRead) {
  const Client client = calm_direct();
  constexpr int all_but_read =
      zkclient::Acl::write | zkclient::Acl::create | zkclient::Acl::remove | zkclient::Acl::admin;
  Group group(client, "/group", {.acl = {{all_but_read, "world", "anyone"}}});
  EXPECT_EQ(error_of([&] { (void)group.join("a", "x", {.deadline = soon()}); }), Errc::no_auth);
  EXPECT_TRUE(remain(0)) << "when it fails, nothing stays behind";
  EXPECT_TRUE(eventually([&] { return names("/group-presence").empty(); }));
  Membership b = group.begin_join("b", "x");
  EXPECT_TRUE(eventually([&] { return names().size() == 1; }));
  b.leave({.deadline = soon()});
  EXPECT_TRUE(names().empty());
}

// V62: a member that is not there is not listed, and says why.
TEST_F(GroupFaults, MayNotCreateOrRead) {
  const zkclient::AclList closed = {{zkclient::Acl::read | zkclient::Acl::admin, "world", "anyone"}};
  the_operator().set_acl("/group", closed);
  const Client client = calm_direct();
  Group group(client, "/group");
  EXPECT_EQ(error_of([&] { (void)group.join("a", "x", {.deadline = soon()}); }), Errc::no_auth);
  const Membership a = group.begin_join("a", "x");
  EXPECT_TRUE(is(a, PresenceState::absent));
  EXPECT_EQ(a.problem()->errc(), Errc::no_auth);
  EXPECT_NE(std::string(a.problem()->what()).find("/group/a"), std::string::npos);
  EXPECT_TRUE(group.members({.deadline = soon()}).members.empty());
  the_operator().set_acl("/group", zkclient::open_acl());
}

// Neither is taken for gone: of the first one no more is known, and the second one, with so long a name, cannot be watched.
TEST_F(GroupFaults, MembersThatCannotBeReadOrWatched) {
  const Client client = calm_direct();
  const Group group(client, "/group");
  EXPECT_FALSE(group.problem()) << "nobody watches it";
  Box<std::string> told;
  const auto telling = tell(group, told);
  EXPECT_EQ(told.take(), "complete");
  the_operator().create("/group/b", "1", {.mode = CreateMode::ephemeral});
  EXPECT_EQ(told.take(), "added b, complete");
  the_operator().set_acl("/group/b", {{zkclient::Acl::all & ~zkclient::Acl::read, "world", "anyone"}});
  expire(client);  // No event tells that the right has gone: the next session finds out.
  EXPECT_EQ(told.take(), "not complete");
  ASSERT_TRUE(group.problem());
  EXPECT_EQ(group.problem()->errc(), Errc::no_auth);
  EXPECT_FALSE(group.members({.deadline = soon()}).complete);
  try {
    (void)group.wait_for_members(2, {.deadline = SteadyClock::now() + 10ms});
    ADD_FAILURE() << "there is one";
  } catch (const Error& error) {
    EXPECT_NE(error.detail().find(group.problem()->what()), std::string::npos) << error.what();
  }
  the_operator().remove("/group/b");
  EXPECT_EQ(told.take(), "removed b, complete");
  EXPECT_FALSE(group.problem());

  std::vector<NodeCache> others;  // Of what a session may watch they leave room for 30,000 characters.
  for (char name = 'a'; name < 'o'; ++name) {
    others.emplace_back(client, "/" + std::string(62'000, name));
    (void)others.back().wait_ready({.deadline = soon()});
  }
  const std::string name(60'000, 'm');
  the_operator().create("/group/" + name, "", {.mode = CreateMode::ephemeral});
  EXPECT_EQ(told.take(), "not complete");
  EXPECT_EQ(group.problem()->errc(), Errc::overloaded);
  EXPECT_TRUE(group.members({.deadline = soon()}).members.empty());
  others.clear();
  expire(client);  // The next session reads at once what this one would try again after 30 s.
  EXPECT_EQ(told.take(), "added " + name + ", complete");
  the_operator().remove("/group/" + name);
  EXPECT_EQ(told.take(), "removed " + name + ", complete");
}

// Who has gone meanwhile is told as removed as soon as that is known, although of another one it is not.
TEST_F(GroupFaults, MembersThatCannotBeListed) {
  const zkclient::AclList hidden = {{zkclient::Acl::all & ~zkclient::Acl::read, "world", "anyone"}};
  const Client client = calm_direct();
  const Group group(client, "/group");
  the_operator().create("/group/a", "1", {.mode = CreateMode::ephemeral});
  the_operator().create("/group/b", "2", {.mode = CreateMode::ephemeral});
  Box<std::string> told;
  const auto telling = tell(group, told);
  EXPECT_EQ(told.take(), "added a, added b, complete");
  the_operator().set_acl("/group/b", hidden);
  the_operator().set_acl("/group", hidden);
  expire(client);
  EXPECT_EQ(told.take(), "not complete");
  the_operator().remove("/group/a");
  the_operator().set_acl("/group", zkclient::open_acl());
  expire(client);
  EXPECT_EQ(told.take(), "removed a, not complete");
  the_operator().remove("/group/b");
  EXPECT_EQ(told.take(), "removed b, complete");
}

TEST_F(GroupFaults, LeaveReplyLost) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const Fault lost = proxy.drop_next_reply(RequestType::multi);
  a.leave({.deadline = soon()});
  EXPECT_TRUE(lost.happened());
  EXPECT_FALSE(the_operator().exists("/group/a"));
}

TEST_F(GroupFaults, LeaveRequestLost) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  const Fault lost = proxy.drop_next_request(RequestType::multi);
  a.leave({.deadline = soon()});
  EXPECT_TRUE(lost.happened());
  EXPECT_FALSE(the_operator().exists("/group/a"));
}

// V43, V44: while there is no connection, and with a session that is lost meanwhile. It is gone when the call returns.
TEST_F(GroupFaults, LeaveWhileTheSessionIsLost) {
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_EQ(error_of([&] { a.leave({.deadline = testkit::SteadyClock::now() + 50ms}); }), Errc::deadline_exceeded);
  Box<bool> left;
  a.async_leave([&](zkclient::Result<void> result) { left.put(result.has_value()); }, {.deadline = soon()});
  const Fault forged = proxy.forge_next_session();
  proxy.refuse(false);
  EXPECT_TRUE(left.take());
  EXPECT_TRUE(forged.happened());
  EXPECT_FALSE(the_operator().exists("/group/a"));
}

// V61, V65: before the server can be reached, what is wanted then included; and one that leaves before that is not
// waited for.
TEST_F(GroupFaults, JoinBeforeTheServerIsUp) {
  proxy.refuse(true);
  const Client client = calm_proxied();
  Group group(client, "/group");
  Membership a = group.begin_join("a", "1");
  Membership b = group.begin_join("b", "1");
  EXPECT_EQ(a.state(), PresenceState::joining);
  Box<bool> updated;
  a.async_update("2", [&](zkclient::Result<void> result) { updated.put(result.has_value()); }, {.deadline = soon()});
  b.leave({.deadline = soon()});
  proxy.refuse(false);
  a.wait_present({.deadline = soon()});
  EXPECT_TRUE(updated.take());
  EXPECT_EQ(data(), "2") << "what was wanted before there was a node";
  EXPECT_FALSE(the_operator().exists("/group/b"));
  a.leave({.deadline = soon()});
}

// Nothing of a member or of one who looks stays at the server while their client lives on, whatever they were doing.
TEST_F(GroupFaults, NoWatchIsLeftOfWhoHasGone) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  const auto expect_none = [&](const char* when) {
    client.sync("/", {.deadline = soon()});
    EXPECT_TRUE(remain(0));
    EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << when << "\n"
                                                                       << server.four_letter_word("wchp");
  };
  for (const bool lease : {false, true}) {
    Group group(client, "/group", {.lease = lease});
    (void)group.members({.deadline = soon()});
    Membership a = group.join("a", "1", {.deadline = soon()});
    const Membership b = group.join("b", "1", {.deadline = soon()});
    a.update("2", {.deadline = soon()});
    a.leave({.deadline = soon()});
  }
  expect_none("at rest");
  {
    the_operator().create("/group/a", "theirs", {.mode = zkclient::CreateMode::ephemeral});
    Group group(client, "/group");
    const Membership a = group.begin_join("a", "ours");
    EXPECT_TRUE(is(a, PresenceState::absent));
    EXPECT_TRUE(watches(client, "/group/a"));
  }
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << "it has waited for another one's node";
  the_operator().remove("/group/a");
  {
    auto held = proxy.hold_next_reply(RequestType::multi);
    Group group(client, "/group");
    { const Membership a = group.begin_join("a", "x"); }
    EXPECT_TRUE(held.wait(patience));
    held.release();
    expect_none("while the create is on its way");
  }
  {
    Group group(client, "/group");
    std::optional<Membership> a(group.join("a", "x", {.deadline = soon()}));
    refuse_and_cut();
    EXPECT_TRUE(reaches(client, ConnectionState::suspended));
    a.reset();
    proxy.refuse(false);
    expect_none("without a connection");
  }
  {
    Group group(client, "/group");
    std::optional<Membership> a(group.join("a", "x", {.deadline = soon()}));
    const std::stop_token lost = a->lost();
    expire(client);
    EXPECT_TRUE(stopped(lost));
    a.reset();
    expect_none("with its session");
  }
}

TEST_F(GroupFaults, MembersProcessDies) {
  const Client client = brief_proxied();
  Group group(client, "/group");
  const Membership a = group.join("a", "x", {.deadline = soon()});
  Seen seen(the_operator());
  EXPECT_EQ(seen.next(), "added /group/a");
  proxy.stall(Direction::both);
  wait_until_removed(seen);
  proxy.unstall(Direction::both);
}

TEST_F(GroupFaults, ClientClosed) {
  // If it closes while its server is slow, the session goes at its timeout.
  Client client(server.connect_string(), {.session_timeout = 12s});
  Group group(client, "/group");
  Membership a = group.join("a", "x", {.deadline = soon()});
  Box<zkclient::Result<GroupSnapshot>> waited;
  group.async_wait_for_members(2, [&](zkclient::Result<GroupSnapshot> result) { waited.put(std::move(result)); });
  client.close();
  EXPECT_TRUE(is(a, PresenceState::left));
  EXPECT_EQ(waited.take().error().errc(), Errc::closed);
  EXPECT_EQ(error_of([&] { a.update("y"); }), Errc::closed);
  EXPECT_EQ(error_of([&] { a.leave(); }), Errc::closed);
  EXPECT_FALSE(a.valid());
}

}  // namespace
}  // namespace zkrecipes
