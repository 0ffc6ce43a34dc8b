// Group beside Apache Curator's GroupMember, and beside kazoo's Party and ShallowParty, on one path: each lists the
// members of the other one, also while our side loses replies. And beside Apache Curator's PathChildrenCache and kazoo's
// SetPartitioner. And PersistentNode beside Apache Curator's.

#include <zkrecipes/group.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <regex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <zkrecipes/mutex.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/persistent_node.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zktesting/environment.hpp>

#include "tests/interop/lossy_line.hpp"
#include "tests/interop/peer.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::Box;
using testkit::CuratorProgram;
using testkit::LossyLine;
using testkit::patience;
using testkit::Peer;
using testkit::soon;
using zkclient::Errc;
using zktesting::RequestType;
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

/// With its folders there to stay, so that the first request to make a member makes it.
Group make_lossy(LossyLine& line, const zkclient::Path& path, GroupOptions options = {}) {
  line.client().ensure(path, zkclient::CreateMode::persistent, {.deadline = soon()});
  line.client().ensure(path.str() + "-presence", zkclient::CreateMode::persistent, {.deadline = soon()});
  return Group(line.client(), path, std::move(options));
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
  /// Waits until the node is there with this payload. (A GroupMember lists itself before it has made its node.)
  bool stands(const std::string& id, const std::string& payload) {
    return testkit::eventually([&] {
      std::error_code missing;
      return client().get(path() / id, {}, missing).data == payload && !missing;
    });
  }
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

// --- Apache Curator, while our side loses replies ------------------------------------------------------------------

// Each change that we make loses its reply. Curator's member sees each of us once, and nobody who has left.
TEST_F(GroupBesideCurator, ItSeesUsWhileRepliesAreLost) {
  LossyLine line(prefix());
  Group group = make_lossy(line, path());
  EXPECT_EQ(tell("join", "theirs", {"1"}), Strings{});
  for (int i = 0; i < 2; ++i) {
    Membership ours =
        line.lose_reply(RequestType::multi, [&] { return group.join("ours", "1", {.deadline = soon()}); });
    sees("theirs", {"ours=1", "theirs=1"});
    line.lose_reply(RequestType::set_data, [&] { ours.update("2", {.deadline = soon()}); });
    sees("theirs", {"ours=2", "theirs=1"});
    EXPECT_EQ(client().get(path() / "ours").stat.version, 1) << "written once";
    line.lose_reply(RequestType::multi, [&] { ours.leave({.deadline = soon()}); });
    sees("theirs", {"theirs=1"});
  }
}

TEST_F(GroupBesideCurator, WeSeeItWhileRepliesAndEventsAreLost) {
  LossyLine line(prefix());
  Group group = make_lossy(line, path());
  EXPECT_EQ(tell("join", "a", {"1"}), Strings{});
  EXPECT_TRUE(stands("a", "1"));
  const GroupSnapshot first =
      line.lose_reply(RequestType::get_children2, [&] { return group.members({.deadline = soon()}); });
  EXPECT_EQ(listed(first), Strings{"a=1"});
  const auto lose_event_of = [&](const std::string& verb, const std::string& id, const Strings& wanted) {
    const zktesting::Fault lost = line.lose_event();
    EXPECT_EQ(tell(verb, id, {"2"}), Strings{});
    wait_for(group, wanted);
    EXPECT_TRUE(lost.wait(patience));
  };
  lose_event_of("join", "b", {"a=1", "b=2"});
  lose_event_of("update", "a", {"a=2", "b=2"});
  lose_event_of("close", "a", {"b=2"});
  line.lose_reply(RequestType::get_children2, [&] {
    EXPECT_EQ(tell("join", "a", {"3"}), Strings{});
    return wait_for(group, {"a=3", "b=2"});
  });
}

// A GroupMember waits for our member's name. We leave, our side loses the reply, and the node that stands there when we
// look is the GroupMember's: it stays.
TEST_F(GroupBesideCurator, ItTakesOurNameWhileTheReplyIsLost) {
  LossyLine line(prefix());
  Group group = make_lossy(line, path());
  Membership ours = group.join("a", "ours", {.deadline = soon()});
  EXPECT_EQ(tell("join", "a", {"theirs"}), Strings{});
  EXPECT_TRUE(puts_right("a", "ours"));
  line.lose_reply(RequestType::multi, [&] { ours.leave({.deadline = soon()}); });
  EXPECT_TRUE(stands("a", "theirs"));
  line.client().sync("/", {.deadline = soon()});  // Behind all that we have sent.
  const auto node = client().get(path() / "a");
  EXPECT_EQ(node.data, "theirs");
  EXPECT_NE(node.stat.ephemeral_owner, line.client().session().id());
  EXPECT_EQ(client().exists(path())->children_version, 3) << "ours came and went, theirs came";
  EXPECT_EQ(tell("close", "a"), Strings{});
}

// --- Apache Curator's PathChildrenCache ----------------------------------------------------------------------------

// It tells each change of ours once, although our side loses the reply to each.
TEST_F(GroupBesideCurator, ItsPathChildrenCacheTellsOurMembers) {
  LossyLine line(prefix());
  Group group = make_lossy(line, path());
  EXPECT_EQ(tell("cache", "it"), Strings{});
  const auto lose = [&](RequestType type, const auto& action) { return line.lose_reply(type, action); };
  Membership a = group.join("a", "1", {.deadline = soon()});
  EXPECT_EQ(tell("events", "it", {"1"}), Strings{"CHILD_ADDED a=1"});
  Membership b = lose(RequestType::multi, [&] { return group.join("b-ö", "", {.deadline = soon()}); });
  EXPECT_EQ(tell("events", "it", {"1"}), Strings{"CHILD_ADDED b-ö="});
  lose(RequestType::set_data, [&] { a.update("2", {.deadline = soon()}); });
  EXPECT_EQ(tell("events", "it", {"1"}), Strings{"CHILD_UPDATED a=2"});
  lose(RequestType::multi, [&] { b.leave({.deadline = soon()}); });
  EXPECT_EQ(tell("events", "it", {"1"}), Strings{"CHILD_REMOVED b-ö="});
  lose(RequestType::multi, [&] { a.leave({.deadline = soon()}); });
  EXPECT_EQ(tell("events", "it", {"1"}), Strings{"CHILD_REMOVED a=2"});
}

// A value's folder for writes that happen once is a child like any other to it.
TEST_F(GroupBesideCurator, ItsPathChildrenCacheTellsOurValue) {
  LossyLine line(prefix());
  SharedValue value(line.client(), path() / "value");
  EXPECT_EQ(tell("cache", "it"), Strings{});
  value.set("1", {.deadline = soon()});
  Strings added = tell("events", "it", {"2"});
  std::sort(added.begin(), added.end());
  EXPECT_EQ(added, (Strings{"CHILD_ADDED _c_writes=", "CHILD_ADDED value=1"}));
  line.lose_reply(RequestType::multi, [&] { value.set("2", {.deadline = soon()}); });
  EXPECT_EQ(tell("events", "it", {"1"}), Strings{"CHILD_UPDATED value=2"});
}

// --- Apache Curator's PersistentNode -------------------------------------------------------------------------------

/// "n0000000007" and "_c_<uuid>-n0000000007" become patterns.
std::string pattern_of(const std::string& name) {
  const std::string numbered = std::regex_replace(name, std::regex("[0-9]{10}$"), "<number>");
  return std::regex_replace(numbered, std::regex("^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-"), "<id>");
}

TEST_F(GroupBesideCurator, PersistentNodesHaveTheSameNames) {
  using zkclient::CreateMode;
  const std::vector<std::tuple<const char*, CreateMode, bool, std::string>> kinds = {
      {"EPHEMERAL", CreateMode::ephemeral, false, "n"},
      {"EPHEMERAL", CreateMode::ephemeral, true, "<id>n"},
      {"EPHEMERAL_SEQUENTIAL", CreateMode::ephemeral_sequential, false, "n<number>"},
      {"EPHEMERAL_SEQUENTIAL", CreateMode::ephemeral_sequential, true, "<id>n<number>"},
      {"PERSISTENT", CreateMode::persistent, false, "n"},
      {"CONTAINER", CreateMode::container, false, "n"},
  };
  for (const auto& [theirs, mode, protection, pattern] : kinds) {
    PersistentNode node(client(), path() / "n", "1", {.mode = mode, .protection = protection});
    node.wait_created({.deadline = soon()});
    EXPECT_EQ(pattern_of(std::string(node.node()->name())), pattern);
    node.remove({.deadline = soon()});
    const Strings name = tell("keep", "n", {theirs, protection ? "true" : "false", "2"});
    ASSERT_EQ(name.size(), 1u);
    EXPECT_EQ(pattern_of(name.front()), pattern);
    EXPECT_EQ(client().get(path() / name.front()).data, "2");
    EXPECT_EQ(tell("end", "n"), Strings{});
    EXPECT_TRUE(remain(0));
  }
}

// Ours waits for theirs to go. Theirs takes ours for its own: it writes its data there, and deletes it at the end. Ours puts
// that right, each time.
TEST_F(GroupBesideCurator, PersistentNodesOfOneNameWhileRepliesAreLost) {
  using zkclient::CreateMode;
  const std::vector<std::pair<const char*, CreateMode>> modes = {{"EPHEMERAL", CreateMode::ephemeral},
                                                                 {"PERSISTENT", CreateMode::persistent}};
  LossyLine line(prefix());
  (void)make_lossy(line, path());
  for (const auto& [theirs, mode] : modes) {
    EXPECT_EQ(tell("keep", "n", {theirs, "false", "theirs"}), Strings{"n"});
    PersistentNode node(line.client(), path() / "n", "ours", {.mode = mode});
    EXPECT_TRUE(testkit::eventually([&] { return node.problem() && node.problem()->errc() == Errc::node_exists; }));
    EXPECT_EQ(client().get(path() / "n").data, "theirs");
    line.lose_reply(mode == CreateMode::ephemeral ? RequestType::multi : RequestType::create2, [&] {
      EXPECT_EQ(tell("end", "n"), Strings{});
      node.wait_created({.deadline = soon()});
    });
    EXPECT_EQ(client().get(path() / "n").data, "ours");
    const FencingToken token = node.token();
    EXPECT_EQ(tell("keep", "n", {theirs, "false", "theirs"}), Strings{"n"});
    EXPECT_TRUE(puts_right("n", "ours"));
    EXPECT_EQ(node.token(), token);
    EXPECT_EQ(tell("end", "n"), Strings{});
    EXPECT_TRUE(testkit::eventually([&] { return node.token() > token; }));
    node.set_data("still ours", {.deadline = soon()});
    EXPECT_EQ(client().get(path() / "n").data, "still ours");
    line.lose_reply(RequestType::multi, [&] { node.remove({.deadline = soon()}); });
    EXPECT_TRUE(remain(0));
  }
}

TEST_F(GroupBesideCurator, PersistentTtlNodeChangesItsOwner) {
  constexpr const char* an_hour = "3600000";
  const zkclient::Path node_path = path() / "n";
  const auto touched = [&] { return testkit::eventually([&] { return names(node_path) == Strings{"touch"}; }); };
  EXPECT_EQ(tell("keep-ttl", "n", {an_hour, "theirs"}), Strings{});
  ASSERT_TRUE(touched());
  const std::int64_t their_touch = client().exists(node_path / "touch")->czxid;
  EXPECT_EQ(tell("end", "n"), Strings{});
  {
    PersistentTtlNode node(client(), node_path, std::chrono::hours(2), "ours", {.conflict = Conflict::replace});
    node.wait_created({.deadline = soon()});
    EXPECT_EQ(client().get(node_path).data, "ours");
    // With our time to live in place of theirs.
    EXPECT_TRUE(testkit::eventually([&] {
      const auto touch = client().exists(node_path / "touch");
      return touch && touch->czxid > their_touch;
    }));
  }
  EXPECT_EQ(tell("keep-ttl", "n", {an_hour, "theirs"}), Strings{});
  EXPECT_TRUE(testkit::eventually([&] { return client().get(node_path).data == "theirs"; }));
  EXPECT_TRUE(testkit::eventually([&] {
    const auto touch = client().exists(node_path / "touch");
    return touch && touch->version > 0;
  }));
  EXPECT_EQ(tell("end", "n"), Strings{});
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

  static Peer& kazoo() { return *kazoo_; }
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

// The name of a member's node is made up: one that is joined again is not there twice.
TEST_P(GroupBesideParty, EachSeesTheOtherWhileRepliesAreLost) {
  LossyLine line(prefix());
  Group group = make_lossy(line, path(), {.layout = GetParam().layout});
  const std::string first = join(GetParam(), "theirs-1");
  Membership ours = line.lose_reply(RequestType::multi, [&] { return group.join("ours", {}, {.deadline = soon()}); });
  EXPECT_EQ(list(GetParam()), (Strings{"ours", "theirs-1"}));
  EXPECT_EQ(count(GetParam()), "2");
  const GroupSnapshot both =
      line.lose_reply(RequestType::get_children2, [&] { return group.members({.deadline = soon()}); });
  EXPECT_EQ(listed(both), (Strings{"ours", "theirs-1"}));

  zktesting::Fault lost = line.lose_event();
  const std::string second = join(GetParam(), "theirs-2");
  wait_for(group, {"ours", "theirs-1", "theirs-2"});
  EXPECT_TRUE(lost.wait(patience));
  lost = line.lose_event();
  leave(first);
  wait_for(group, {"ours", "theirs-2"});
  EXPECT_TRUE(lost.wait(patience));
  line.lose_reply(RequestType::multi, [&] { ours.leave({.deadline = soon()}); });
  EXPECT_EQ(list(GetParam()), Strings{"theirs-2"});
  leave(second);
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

// --- kazoo's SetPartitioner ----------------------------------------------------------------------------------------

class PartitionsBesideKazoo : public GroupBesideKazoo {
 protected:
  Strings tell(const std::string& verb, const Strings& words) const {
    return kazoo().tell(joined({verb, joined(words)}));
  }
  /// A SetPartitioner at our path, for these partitions.
  void share(const std::string& id) const {
    EXPECT_EQ(tell("share", {prefix().str() + path().str(), id, "p0,p1,p2,p3"}), Strings{});
  }
  /// Waits until it has these and no others.
  void owns(const std::string& id, const std::string& names) const {
    EXPECT_EQ(joined(tell("own", {id, names})), std::regex_replace(names, std::regex(","), " "));
  }
};

// A program of ours takes part by a Group and by Mutexes: its party's members count ours, which takes the share that
// kazoo's rule leaves to it. Our side loses the reply to each of its changes.
TEST_F(PartitionsBesideKazoo, AGroupAndMutexesTakePartWhileRepliesAreLost) {
  LossyLine line(prefix());
  Group party = make_lossy(line, path() / "party", {.layout = GroupLayout::kazoo_shallow()});
  share("b");
  owns("b", "p0,p1,p2,p3");
  wait_for(party, {"b"});

  Membership ours = line.lose_reply(RequestType::multi, [&] { return party.join("a", {}, {.deadline = soon()}); });
  wait_for(party, {"a", "b"});
  owns("b", "p1,p3");
  std::vector<Lease> leases;
  for (const char* partition : {"p0", "p2"}) {
    Mutex mutex(line.client(), path() / "locks" / partition, {.layout = Layout::kazoo()});
    leases.push_back(line.lose_reply(RequestType::create2, [&] { return mutex.acquire({.deadline = soon()}); }));
    EXPECT_EQ(names(mutex.path()).size(), 1u);
  }
  Mutex theirs(line.client(), path() / "locks" / "p1", {.layout = Layout::kazoo()});
  EXPECT_FALSE(theirs.try_acquire({.deadline = soon()}));

  // We leave the party, and still hold what we have: it waits for us.
  line.lose_reply(RequestType::multi, [&] { ours.leave({.deadline = soon()}); });
  auto owning = testkit::in_thread([&] { owns("b", "p0,p1,p2,p3"); });
  ASSERT_TRUE(remain(2, path() / "locks" / "p0")) << "it waits behind us";
  for (Lease& lease : leases) {
    EXPECT_TRUE(lease.valid());
    line.lose_reply(RequestType::remove, [&] { lease.release(); });
  }
  testkit::result_of(owning);
  EXPECT_EQ(tell("finish", {"b"}), Strings{});
  wait_for(party, {});
}

// Our Partitioner has nodes of its own: on the path of a SetPartitioner neither sees the other one, and both take all.
TEST_F(PartitionsBesideKazoo, OurPartitionerTakesNoPart) {
  const Strings all = {"p0", "p1", "p2", "p3"};
  share("b");
  Box<Partition> taken;
  Partitioner ours(client(), path(), PartitionSource::list(all), [&](Partition one) { taken.put(std::move(one)); });
  ours.start();
  std::vector<Partition> held;
  for (std::size_t i = 0; i < all.size(); ++i)
    held.push_back(taken.take());
  owns("b", "p0,p1,p2,p3");
  EXPECT_EQ(ours.owned(), all);
  Strings nodes = names();
  std::sort(nodes.begin(), nodes.end());
  EXPECT_EQ(nodes, (Strings{"locks", "members", "members-presence", "owners", "party"}));
  ours.stop({.deadline = soon()});
  owns("b", "p0,p1,p2,p3");
  EXPECT_EQ(tell("finish", {"b"}), Strings{});
}

}  // namespace
}  // namespace zkrecipes
