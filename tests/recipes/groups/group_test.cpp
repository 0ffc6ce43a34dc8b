// Groups against a quiet server.

#include <zkrecipes/group.hpp>

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Strings = std::vector<std::string>;

Strings ids(const GroupSnapshot& group) {
  Strings all;
  for (const Member& member : group.members)
    all.push_back(member.id);
  return all;
}

class GroupTest : public testkit::RecipeTest {
 protected:
  GroupTest() : RecipeTest("/group") {}
  void TearDown() override {
    expect_no_watch_left();
    RecipeTest::TearDown();
  }
  Group make(GroupOptions options = {}) { return Group(client(), path(), std::move(options)); }
  bool nobody_left() {
    return eventually([&] { return names().empty() && names(Path("/group-presence")).empty(); });
  }
};

TEST_F(GroupTest, JoinsUpdatesAndLeaves) {
  Group group = make();
  Membership a = group.join("a", "10.0.0.1", {.deadline = soon()});
  EXPECT_EQ(a.state(), PresenceState::present);
  EXPECT_TRUE(a.valid());
  EXPECT_FALSE(a.problem());
  EXPECT_EQ(client().get(path() / "a").data, "10.0.0.1");
  EXPECT_EQ(a.token().value, client().get(path() / "a").stat.czxid);
  a.update("10.0.0.2", {.deadline = soon()});
  EXPECT_EQ(client().get(path() / "a").data, "10.0.0.2");
  EXPECT_EQ(client().get(path() / "a").stat.version, 1);
  a.leave({.deadline = soon()});
  a.leave({.deadline = soon()});
  EXPECT_EQ(a.state(), PresenceState::left);
  EXPECT_FALSE(a.valid());
  EXPECT_FALSE(a.lost().stop_requested());
  EXPECT_FALSE(client().exists(path() / "a"));
  EXPECT_EQ(error_of([&] { a.update("x", {.deadline = soon()}); }), Errc::closed);
  EXPECT_TRUE(nobody_left());
}

TEST_F(GroupTest, TellsTheMembers) {
  Group group = make();
  const zkclient::Client other = make_client();
  Group others(other, path());
  Membership a = group.join("a", "1", {.deadline = soon()});
  Membership b = others.join("b", "2", {.deadline = soon()});
  const GroupSnapshot two = group.wait_for_members(2, {.deadline = soon()});
  EXPECT_EQ(ids(two), (Strings{"a", "b"}));
  EXPECT_TRUE(two.exact);
  ASSERT_NE(two.find("b"), nullptr);
  EXPECT_EQ(two.find("b")->payload, "2");
  EXPECT_EQ(two.find("b")->incarnation, b.token());
  EXPECT_EQ(two.find("b")->session_id, other.session().id());
  EXPECT_EQ(two.find("c"), nullptr);
  EXPECT_EQ(error_of([&] { group.wait_for_members(3, {.deadline = testkit::SteadyClock::now() + 50ms}); }),
            Errc::deadline_exceeded);

  Box<std::string> told;
  const auto subscription = group.on_change([&](const std::vector<MemberChange>& changes, const GroupSnapshot& now) {
    std::string text = std::to_string(now.members.size());
    for (const MemberChange& change : changes)
      text += std::string(" ") + to_string(change.kind) + " " + (change.after ? change.after : change.before)->id;
    told.put(text);
  });
  EXPECT_EQ(told.take(), "2 added a added b");
  b.update("3", {.deadline = soon()});
  EXPECT_EQ(told.take(), "2 changed b");
  b.leave({.deadline = soon()});
  EXPECT_EQ(told.take(), "1 removed b");
}

TEST_F(GroupTest, WhatIsNoMemberIsNotListed) {
  client().create(path(), "");
  client().create(path() / "persistent", "");
  Group group = make();
  Membership a = group.join("a", {}, {.deadline = soon()});
  EXPECT_EQ(ids(group.wait_for_members(1, {.deadline = soon()})), Strings{"a"});
}

TEST_F(GroupTest, TheDestructorLeaves) {
  Group group = make();
  { const Membership a = group.join("a", {}, {.deadline = soon()}); }
  EXPECT_TRUE(nobody_left());
  {
    Membership a = group.join("a", {}, {.deadline = soon()});
    a = group.join("b", {}, {.deadline = soon()});
    EXPECT_TRUE(eventually([&] { return names() == Strings{"b"}; }));
  }
  EXPECT_TRUE(nobody_left());
}

// V66: however close both are.
TEST_F(GroupTest, JoinAndLeaveAtOnce) {
  Group group = make();
  for (int i = 0; i < 20; ++i) {
    Membership a = group.begin_join("a");
    if (i % 2 == 0) a.leave({.deadline = soon()});
  }
  EXPECT_TRUE(nobody_left());
}

// V41: the second one of a name waits, in this client or in another, and deletes nothing.
TEST_F(GroupTest, TwoOfOneNameWait) {
  Group group = make();
  const zkclient::Client other = make_client();
  Group others(other, path());
  Membership first = group.join("a", "first", {.deadline = soon()});
  for (Group* second_group : {&group, &others}) {
    Membership second = second_group->begin_join("a", "second");
    EXPECT_TRUE(eventually([&] { return second.state() == PresenceState::absent; }));
    EXPECT_TRUE(eventually([&] { return second.problem() && second.problem()->errc() == Errc::node_exists; }));
    EXPECT_EQ(error_of([&] { second.wait_present({.deadline = testkit::SteadyClock::now() + 50ms}); }),
              Errc::deadline_exceeded);
    EXPECT_EQ(client().get(path() / "a").data, "first");
    first.leave({.deadline = soon()});
    second.wait_present({.deadline = soon()});
    EXPECT_FALSE(second.problem());
    EXPECT_EQ(client().get(path() / "a").data, "second");
    second.leave({.deadline = soon()});
    first = group.join("a", "first", {.deadline = soon()});
  }
}

TEST_F(GroupTest, ConflictReplace) {
  Group group = make();
  const zkclient::Client other = make_client();
  Group others(other, path(), {.conflict = Conflict::replace});
  Membership first = group.join("a", "first", {.deadline = soon()});
  const std::stop_token lost = first.lost();
  Membership second = others.join("a", "second", {.deadline = soon()});
  EXPECT_GT(second.token(), FencingToken());
  EXPECT_TRUE(testkit::stopped(lost));
  EXPECT_TRUE(eventually([&] { return first.state() == PresenceState::absent; }));
  EXPECT_EQ(client().get(path() / "a").data, "second");
}

// The last one to come has the name; the one before does not take it back.
TEST_F(GroupTest, OfTwoThatReplaceTheLastOneStays) {
  Group first = make({.conflict = Conflict::replace});
  const zkclient::Client other = make_client();
  Group second(other, path(), {.conflict = Conflict::replace});
  Membership a = first.join("a", "first", {.deadline = soon()});
  Membership b = second.join("a", "second", {.deadline = soon()});
  const FencingToken token = b.token();
  EXPECT_TRUE(eventually([&] { return a.problem() && a.problem()->errc() == Errc::node_exists; }));
  EXPECT_EQ(error_of([&] { a.update("of no use", {.deadline = testkit::SteadyClock::now() + 100ms}); }),
            Errc::deadline_exceeded);
  EXPECT_EQ(b.state(), PresenceState::present);
  EXPECT_EQ(b.token(), token);
  b.leave({.deadline = soon()});
  EXPECT_TRUE(eventually([&] { return a.state() == PresenceState::present; }));
}

// A listener that comes when nothing runs any more is told in this thread, and may ask the object.
TEST_F(GroupTest, AStateListenerAfterTheEndOfTheRuntime) {
  auto runtime = std::make_unique<zkclient::Runtime>();
  const zkclient::Client held(*runtime, hosts(), {.prefix = prefix()});
  Group group(held, path());
  const Membership member = group.join("a", "", {.deadline = soon()});
  runtime.reset();
  auto told = testkit::in_thread([&] {
    std::optional<PresenceState> state;
    const auto subscription = member.on_state([&](PresenceState now) {
      state = now;
      EXPECT_EQ(member.state(), now);
    });
    return state.value_or(PresenceState::left);
  });
  EXPECT_EQ(testkit::result_of(told), PresenceState::left);
}

TEST_F(GroupTest, StatesAreTold) {
  Group group = make();
  Membership a = group.begin_join("a");
  Box<PresenceState> states;
  const auto subscription = a.on_state([&](PresenceState state) { states.put(state); });
  states.take_until([](const PresenceState& state) { return state == PresenceState::present; });
  a.leave({.deadline = soon()});
  EXPECT_EQ(states.take(), PresenceState::left);
  EXPECT_STREQ(to_string(PresenceState::absent), "absent");
}

TEST_F(GroupTest, WithALease) {
  Group group = make({.lease = true});
  Membership a = group.join("a", {}, {.deadline = soon()});
  EXPECT_TRUE(a.valid());
  a.leave({.deadline = soon()});
  EXPECT_FALSE(a.valid());
  EXPECT_TRUE(nobody_left());
}

TEST_F(GroupTest, KazooLayouts) {
  Group party = make({.layout = GroupLayout::kazoo_party()});
  Membership one = party.join("host", {}, {.deadline = soon()});
  Membership two = party.join("host", {}, {.deadline = soon()});
  EXPECT_EQ(ids(party.wait_for_members(2, {.deadline = soon()})), (Strings{"host", "host"}));
  for (const std::string& name : names()) {
    EXPECT_EQ(name.size(), 32u + 9u);
    EXPECT_TRUE(name.ends_with("__party__"));
    EXPECT_EQ(client().get(path() / name).data, "host");
  }
  EXPECT_EQ(client().get(path()).stat.ephemeral_owner, 0) << "kazoo's parents are persistent";
  EXPECT_EQ(error_of([&] { (void)party.join("a", "payload"); }), Errc::invalid_argument);
  for (const char* payload : {"payload", ""})
    EXPECT_EQ(error_of([&] { one.update(payload); }), Errc::invalid_argument);
  one.leave({.deadline = soon()});
  two.leave({.deadline = soon()});

  Group shallow = make({.layout = GroupLayout::kazoo_shallow()});
  Membership three = shallow.join("host-1", {}, {.deadline = soon()});
  EXPECT_EQ(ids(shallow.wait_for_members(1, {.deadline = soon()})), Strings{"host-1"});
  EXPECT_EQ(names().front().substr(32), "-host-1");
  three.leave({.deadline = soon()});
  EXPECT_TRUE(nobody_left());
}

TEST_F(GroupTest, BadInput) {
  EXPECT_EQ(error_of([&] { Group(client(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Group(client(), "/group", {.acl = {}}); }), Errc::invalid_acl);
  Group group = make();
  for (const char* id : {"", "a/b", "..", "."})
    EXPECT_EQ(error_of([&] { (void)group.join(id); }), Errc::invalid_path) << id;
  EXPECT_EQ(error_of([&] { (void)group.on_change({}); }), Errc::invalid_argument);
  Membership a = group.join("a", {}, {.deadline = soon()});
  EXPECT_EQ(error_of([&] { (void)a.on_state({}); }), Errc::invalid_argument);
}

// What cannot be written leaves what was there.
TEST_F(GroupTest, PayloadTooLarge) {
  Group group = make();
  Membership a = group.join("a", "small", {.deadline = soon()});
  EXPECT_EQ(error_of([&] { a.update(std::string(std::size_t{2} << 20U, 'x'), {.deadline = soon()}); }),
            Errc::too_large);
  EXPECT_EQ(a.state(), PresenceState::present);
  EXPECT_EQ(client().get(path() / "a").data, "small");
  EXPECT_FALSE(a.problem()) << "what was there before is wanted again";
  client().remove(path() / "a");
  EXPECT_TRUE(eventually([&] { return client().exists(path() / "a").has_value(); }));
  EXPECT_EQ(client().get(path() / "a").data, "small");
  a.update("again", {.deadline = soon()});
  EXPECT_EQ(client().get(path() / "a").data, "again");
  EXPECT_FALSE(a.problem());
}

TEST_F(GroupTest, AsynchronousForms) {
  Group group = make();
  Box<std::string> told;
  std::optional<Membership> a;
  group.async_join("a", "1", [&](zkclient::Result<Membership> joined) {
    a.emplace(std::move(joined).value());
    told.put("joined");
  });
  EXPECT_EQ(told.take(), "joined");
  a->async_wait_present([&](zkclient::Result<void> present) { told.put(present ? "present" : "failed"); });
  EXPECT_EQ(told.take(), "present");
  a->async_update("2", [&](zkclient::Result<void> updated) { told.put(updated ? "updated" : "failed"); });
  EXPECT_EQ(told.take(), "updated");
  group.async_members([&](zkclient::Result<GroupSnapshot> now) { told.put(now.value().members.front().id); });
  EXPECT_EQ(told.take(), "a");
  group.async_wait_for_members(1, [&](zkclient::Result<GroupSnapshot> now) { told.put(now ? "one" : "failed"); });
  EXPECT_EQ(told.take(), "one");
  a->async_leave([&](zkclient::Result<void> left) { told.put(left ? "left" : "failed"); });
  EXPECT_EQ(told.take(), "left");
  EXPECT_EQ(error_of([&] { group.async_join("a", {}, {}); }), Errc::invalid_argument);
  EXPECT_TRUE(nobody_left());
}

}  // namespace
}  // namespace zkrecipes
