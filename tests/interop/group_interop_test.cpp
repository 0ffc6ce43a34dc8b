// Group beside Apache Curator's GroupMember, and beside kazoo's Party and ShallowParty, on one path: each lists the
// members of the other one.

#include <zkrecipes/group.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <regex>
#include <string>
#include <vector>

#include <zktesting/environment.hpp>

#include "tests/interop/peer.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::Box;
using testkit::CuratorProgram;
using testkit::Peer;
using testkit::soon;
using zkclient::Errc;
using Strings = std::vector<std::string>;

/// As the peers print them: without payloads where nobody has one.
Strings listed(const GroupSnapshot& group) {
  const bool any = std::any_of(group.members.begin(), group.members.end(),
                               [](const Member& member) { return !member.payload.empty(); });
  Strings all;
  for (const Member& member : group.members)
    all.push_back(any ? member.id + "=" + member.payload : member.id);
  std::sort(all.begin(), all.end());
  return all;
}

/// Waits until the group has these members and nobody else.
GroupSnapshot wait_for(const Group& group, const Strings& wanted) {
  Box<GroupSnapshot> told;
  const auto subscription =
      group.on_change([&](const std::vector<MemberChange>&, const GroupSnapshot& now) { told.put(now); });
  return told.take_until([&](const GroupSnapshot& now) { return listed(now) == wanted; });
}

std::string joined(const Strings& words) {
  std::string line;
  for (const std::string& word : words)
    line += (line.empty() ? "" : " ") + word;
  return line;
}

// A peer that is killed: a session for those who wait for its end, yet long enough for a loaded machine.
constexpr const char* brief_ms = "10000";
constexpr const char* brief_s = "10";

// --- Apache Curator ------------------------------------------------------------------------------------------------

class GroupBesideCurator : public testkit::RecipeTest {
 protected:
  GroupBesideCurator() : RecipeTest("/group") {}
  static void SetUpTestSuite() {
    if (!CuratorProgram::installed("curator-recipes")) return;
    program_ = std::make_unique<CuratorProgram>(ZKR_INTEROP_SOURCES "/CuratorGroups.java");
    curator_ = start("20000");
  }
  static void TearDownTestSuite() {
    curator_.reset();
    program_.reset();
  }
  void SetUp() override {
    RecipeTest::SetUp();
    if (curator_ == nullptr) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  }

  static std::unique_ptr<Peer> start(const std::string& session_timeout) {
    const std::string& hosts = zktesting::SharedServer::instance().connect_string();
    return std::make_unique<Peer>(program_->command({hosts, session_timeout}));
  }
  Group make() { return Group(client(), path()); }
  /// Of the peer's member `id`, with the other words of the command.
  Strings tell(Peer& peer, const std::string& verb, const std::string& id, const Strings& words = {}) const {
    return peer.tell(joined({verb, prefix().str() + path().str(), id, joined(words)}));
  }
  Strings tell(const std::string& verb, const std::string& id, const Strings& words = {}) const {
    return tell(*curator_, verb, id, words);
  }
  /// Waits until the GroupMember `id` sees these and nobody else.
  void sees(const std::string& id, const Strings& wanted) const { EXPECT_EQ(tell("see", id, wanted), wanted); }
  /// Waits until our member has written over what the peer has written into its node.
  bool puts_right(const std::string& id, const std::string& payload) {
    return testkit::eventually([&] {
      const auto node = client().get(path() / id);
      return node.stat.version >= 2 && node.data == payload;
    });
  }

 private:
  static inline std::unique_ptr<CuratorProgram> program_;
  static inline std::unique_ptr<Peer> curator_;
};

TEST_F(GroupBesideCurator, EachSeesTheOther) {
  Group group = make();
  Membership ours = group.join("ours-ä", "10.0.0.1:80", {.deadline = soon()});
  EXPECT_EQ(tell("join", "theirs-ö", {"10.0.0.2:ü"}), Strings{});
  const GroupSnapshot both = group.wait_for_members(2, {.deadline = soon()});
  ASSERT_EQ(listed(both), (Strings{"ours-ä=10.0.0.1:80", "theirs-ö=10.0.0.2:ü"}));
  EXPECT_EQ(both.find("ours-ä")->session_id, client().session().id());
  EXPECT_NE(both.find("theirs-ö")->session_id, client().session().id());
  EXPECT_GT(both.find("theirs-ö")->incarnation, ours.token());
  sees("theirs-ö", {"ours-ä=10.0.0.1:80", "theirs-ö=10.0.0.2:ü"});

  EXPECT_EQ(tell("close", "theirs-ö"), Strings{});
  wait_for(group, {"ours-ä=10.0.0.1:80"});
  ours.leave({.deadline = soon()});
  wait_for(group, {});
}

// A GroupMember cannot list its group while a node there has no data; it can while the data is empty.
TEST_F(GroupBesideCurator, PayloadsMayBeEmpty) {
  Group group = make();
  const Membership ours = group.join("a", {}, {.deadline = soon()});
  EXPECT_EQ(tell("join", "b"), Strings{});
  sees("b", {"a=", "b="});
  wait_for(group, {"a", "b"});
}

TEST_F(GroupBesideCurator, PayloadsAreUpdated) {
  Group group = make();
  Membership ours = group.join("ours", "1", {.deadline = soon()});
  EXPECT_EQ(tell("join", "theirs", {"1"}), Strings{});
  sees("theirs", {"ours=1", "theirs=1"});
  const FencingToken incarnation = wait_for(group, {"ours=1", "theirs=1"}).find("theirs")->incarnation;

  ours.update("2", {.deadline = soon()});
  sees("theirs", {"ours=2", "theirs=1"});
  ours.update("", {.deadline = soon()});
  sees("theirs", {"ours=", "theirs=1"});
  EXPECT_EQ(tell("update", "theirs", {"3"}), Strings{});
  EXPECT_EQ(wait_for(group, {"ours=", "theirs=3"}).find("theirs")->incarnation, incarnation);
}

TEST_F(GroupBesideCurator, EachSeesTheOtherLeave) {
  Group group = make();
  const zkclient::Client other = make_client();
  Group others(other, path());
  EXPECT_EQ(tell("join", "theirs", {"1"}), Strings{});
  EXPECT_EQ(tell("join", "theirs-too", {"1"}), Strings{});
  Membership leaves = group.join("leaves", "1", {.deadline = soon()});
  auto dropped = std::make_unique<Membership>(others.join("dropped", "1", {.deadline = soon()}));
  sees("theirs", {"dropped=1", "leaves=1", "theirs-too=1", "theirs=1"});
  leaves.leave({.deadline = soon()});
  sees("theirs", {"dropped=1", "theirs-too=1", "theirs=1"});
  dropped.reset();
  sees("theirs", {"theirs-too=1", "theirs=1"});

  wait_for(group, {"theirs-too=1", "theirs=1"});
  EXPECT_EQ(tell("close", "theirs-too"), Strings{});
  wait_for(group, {"theirs=1"});
  EXPECT_EQ(tell("close", "theirs"), Strings{});
  wait_for(group, {});
}

TEST_F(GroupBesideCurator, AMemberThatIsKilledVanishes) {
  Group group = make();
  const Membership ours = group.join("ours", "1", {.deadline = soon()});
  EXPECT_EQ(tell("join", "theirs", {"1"}), Strings{});
  const auto victim = start(brief_ms);
  EXPECT_EQ(tell(*victim, "join", "victim", {"1"}), Strings{});
  wait_for(group, {"ours=1", "theirs=1", "victim=1"});

  Box<std::string> told;
  const auto subscription = group.on_change([&](const std::vector<MemberChange>& changes, const GroupSnapshot&) {
    for (const MemberChange& change : changes)
      told.put(std::string(to_string(change.kind)) + " " + (change.after ? change.after : change.before)->id);
  });
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(told.take().starts_with("added"));
  victim->kill();
  EXPECT_EQ(told.take(), "removed victim");
  EXPECT_EQ(listed(group.members({.deadline = soon()})), (Strings{"ours=1", "theirs=1"}));
  sees("theirs", {"ours=1", "theirs=1"});
}

// Our member waits for the node. A GroupMember does not look whose it is: it writes its payload into our member's node,
// and our member puts that right.
TEST_F(GroupBesideCurator, AnIdThatIsTaken) {
  Group group = make();
  EXPECT_EQ(tell("join", "a", {"theirs"}), Strings{});
  wait_for(group, {"a=theirs"});
  Membership ours = group.begin_join("a", "ours");
  ASSERT_TRUE(testkit::eventually([&] { return ours.problem().has_value(); }));
  EXPECT_EQ(ours.problem()->errc(), Errc::node_exists);
  EXPECT_EQ(listed(group.members({.deadline = soon()})), Strings{"a=theirs"});
  EXPECT_EQ(tell("close", "a"), Strings{});
  ours.wait_present({.deadline = soon()});
  const FencingToken token = ours.token();
  wait_for(group, {"a=ours"});

  EXPECT_EQ(tell("join", "a", {"theirs"}), Strings{});
  EXPECT_TRUE(puts_right("a", "ours"));
  sees("a", {"a=ours"});
  EXPECT_EQ(ours.token(), token);
  ours.leave({.deadline = soon()});
  wait_for(group, {"a=theirs"});
}

// A GroupMember that is closed deletes the node of its id, whosever it is. Our member takes that for a deletion by hand.
TEST_F(GroupBesideCurator, ClosingDeletesTheNodeOfAnother) {
  Group group = make();
  const Membership ours = group.join("a", "ours", {.deadline = soon()});
  const FencingToken token = ours.token();
  const std::stop_token lost = ours.lost();
  EXPECT_EQ(tell("join", "a", {"theirs"}), Strings{});
  EXPECT_TRUE(puts_right("a", "ours"));
  EXPECT_EQ(tell("close", "a"), Strings{});
  EXPECT_TRUE(testkit::stopped(lost));
  ours.wait_present({.deadline = soon()});
  EXPECT_GT(ours.token(), token);
  EXPECT_EQ(wait_for(group, {"a=ours"}).find("a")->incarnation, ours.token());
}

// --- kazoo ---------------------------------------------------------------------------------------------------------

struct PartyKind {
  std::string name;  ///< Of kazoo's class.
  GroupLayout layout;
  std::string names;  ///< Of the nodes.

  friend std::ostream& operator<<(std::ostream& out, const PartyKind& kind) { return out << kind.name; }
};

const std::vector<PartyKind>& party_kinds() {
  static const std::vector<PartyKind> kinds = {
      {"Party", GroupLayout::kazoo_party(), "[0-9a-f]{32}__party__"},
      {"ShallowParty", GroupLayout::kazoo_shallow(), "[0-9a-f]{32}-.*"},
  };
  return kinds;
}

class GroupBesideKazoo : public testkit::RecipeTest {
 protected:
  GroupBesideKazoo() : RecipeTest("/group") {}
  static void SetUpTestSuite() {
    // The system's Python has the system's packages, whichever is first in the path.
    for (const char* python : {"python3", "/usr/bin/python3"}) {
      const Strings command = {"env", "PYTHONUTF8=1", "PYTHONPATH=" ZKR_INTEROP_PYTHON, python};
      if (std::system((joined(command) + " -c 'import kazoo' 2>/dev/null").c_str()) != 0) continue;
      python_ = command;
      kazoo_ = start("20");
      return;
    }
  }
  static void TearDownTestSuite() { kazoo_.reset(); }
  void SetUp() override {
    RecipeTest::SetUp();
    if (kazoo_ == nullptr) GTEST_SKIP() << "not installed: python3-kazoo";
  }

  static std::unique_ptr<Peer> start(const std::string& session_timeout) {
    Strings command = python_;
    command.insert(command.end(), {ZKR_INTEROP_SOURCES "/kazoo_groups.py",
                                   zktesting::SharedServer::instance().connect_string(), session_timeout});
    return std::make_unique<Peer>(command);
  }
  Group make(const PartyKind& kind) { return Group(client(), path(), {.layout = kind.layout}); }
  /// The name of the new member's node.
  std::string join(Peer& peer, const PartyKind& kind, const std::string& id) const {
    const Strings answer = peer.tell(joined({"join", kind.name, prefix().str() + path().str(), id}));
    EXPECT_EQ(answer.size(), 1u);
    return answer.empty() ? "" : answer.front();
  }
  std::string join(const PartyKind& kind, const std::string& id) const { return join(*kazoo_, kind, id); }
  static void leave(const std::string& name) { EXPECT_EQ(kazoo_->tell("leave " + name), Strings{"True"}); }
  Strings list(const PartyKind& kind) const {
    return kazoo_->tell(joined({"list", kind.name, prefix().str() + path().str()}));
  }
  std::string count(const PartyKind& kind) const {
    return joined(kazoo_->tell(joined({"count", kind.name, prefix().str() + path().str()})));
  }

 private:
  static inline Strings python_;
  static inline std::unique_ptr<Peer> kazoo_;
};

class GroupBesideParty : public GroupBesideKazoo, public ::testing::WithParamInterface<PartyKind> {
 protected:
  Group make() { return GroupBesideKazoo::make(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Kazoo, GroupBesideParty, ::testing::ValuesIn(party_kinds()),
                         [](const auto& kind) { return kind.param.name; });

// Two members of one id are two; kazoo's may have none.
TEST_P(GroupBesideParty, EachSeesTheOther) {
  Group group = make();
  Membership a = group.join("zürich-1", {}, {.deadline = soon()});
  Membership b = group.join("zürich-1", {}, {.deadline = soon()});
  EXPECT_EQ(list(GetParam()), (Strings{"zürich-1", "zürich-1"}));
  EXPECT_EQ(count(GetParam()), "2");

  const std::string theirs = join(GetParam(), "zürich-1");
  const std::string without_id = join(GetParam(), "");
  const Strings all = {"", "zürich-1", "zürich-1", "zürich-1"};
  const GroupSnapshot four = wait_for(group, all);
  EXPECT_EQ(std::count_if(four.members.begin(), four.members.end(),
                          [&](const Member& member) { return member.session_id == client().session().id(); }),
            2);
  for (const Member& member : four.members)
    EXPECT_EQ(member.payload, "") << member.id;
  EXPECT_EQ(list(GetParam()), all);

  leave(without_id);
  wait_for(group, {"zürich-1", "zürich-1", "zürich-1"});
  leave(theirs);
  wait_for(group, {"zürich-1", "zürich-1"});
  a.leave({.deadline = soon()});
  EXPECT_EQ(list(GetParam()), Strings{"zürich-1"});
  b.leave({.deadline = soon()});
  EXPECT_EQ(list(GetParam()), Strings{});
  wait_for(group, {});
}

TEST_P(GroupBesideParty, AMemberThatIsKilledVanishes) {
  Group group = make();
  const Membership ours = group.join("ours", {}, {.deadline = soon()});
  const auto victim = start(brief_s);
  join(*victim, GetParam(), "victim");
  wait_for(group, {"ours", "victim"});
  victim->kill();
  wait_for(group, {"ours"});
  EXPECT_EQ(list(GetParam()), Strings{"ours"});
}

// Our names are kazoo's names, and our data is kazoo's data, but for a ShallowParty: it writes the id into the data as
// well, and nobody reads it there.
TEST_P(GroupBesideParty, TheFormatIsTheSame) {
  Group group = make();
  const Membership ours = group.join("host-1", {}, {.deadline = soon()});
  const Strings our_names = names();
  ASSERT_EQ(our_names.size(), 1u);
  const std::string their_name = join(GetParam(), "host-1");
  const std::regex pattern(GetParam().names);
  for (const std::string& name : {our_names.front(), their_name}) {
    EXPECT_TRUE(std::regex_match(name, pattern)) << name;
    const std::string data = client().get(path() / name).data;
    EXPECT_EQ(GetParam().layout.id(name, data), "host-1") << name;
    const bool empty = GetParam().name == "ShallowParty" && name != their_name;
    EXPECT_EQ(data, empty ? "" : "host-1") << name;
  }
  EXPECT_EQ(our_names.front().substr(32), their_name.substr(32));
  EXPECT_NE(our_names.front(), their_name);
}

// One path is for one layout. A Party lists each node whose name contains "__party__"; our group wants it at the end. A
// ShallowParty lists every node; our group wants the hyphen after 32 characters.
TEST_F(GroupBesideKazoo, BothKindsOnOnePath) {
  const PartyKind& party = party_kinds().front();
  const PartyKind& shallow = party_kinds().back();
  Group deep = make(party);
  Group flat = make(shallow);
  const Membership a = deep.join("a", {}, {.deadline = soon()});
  const std::string a_name = names().front();
  const Membership b = flat.join("b", {}, {.deadline = soon()});
  const std::string c_name = join(party, "c");
  join(shallow, "d");
  client().create(path() / "other", "", {.mode = zkclient::CreateMode::ephemeral});
  wait_for(deep, {"a", "c"});
  EXPECT_EQ(list(party), (Strings{"a", "c"}));
  wait_for(flat, {"b", "d"});
  Strings all = {"b", "d", "other", a_name, c_name};
  std::sort(all.begin(), all.end());
  EXPECT_EQ(list(shallow), all);

  const Membership e = flat.join("e__party__f", {}, {.deadline = soon()});
  wait_for(flat, {"b", "d", "e__party__f"});
  EXPECT_EQ(list(party), (Strings{"", "a", "c"}));
  EXPECT_EQ(listed(deep.members({.deadline = soon()})), (Strings{"a", "c"}));
}

}  // namespace
}  // namespace zkrecipes
