// Persistent nodes while everything breaks: one test at least per row of the tables "What goes wrong" in
// <zkrecipes/persistent_node.hpp>.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <regex>
#include <utility>

#include <zkrecipes/persistent_node.hpp>
#include <zktesting/server.hpp>

#include "tests/support/given_up.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Strings = std::vector<std::string>;

// One for each kind of node; the others are simulated. No simulated server is without TTL nodes.
const testkit::OnRealServers nodes_on_real_servers{"PersistentNodeFaults.CreateLost",
                                                   "PersistentTtlNodeFaults.OwnerDies",
                                                   "PersistentTtlNodeFaults.ServerHasNoTtlNodes"};

/// What a PersistentNode may be.
struct NodeKind {
  CreateMode mode;
  bool protection;
  RequestType creates;  ///< The request that makes the node.
  const char* name;     ///< A pattern.

  bool lasting() const { return mode == CreateMode::persistent || mode == CreateMode::container; }
  PersistentNodeOptions options(Conflict conflict = Conflict::wait) const {
    return {.mode = mode, .protection = protection, .conflict = conflict};
  }
};

const std::vector<NodeKind>& node_kinds() {
  static const std::vector<NodeKind> kinds = {
      {CreateMode::ephemeral, false, RequestType::multi, "n"},
      {CreateMode::ephemeral, true, RequestType::multi, "_c_[0-9a-f-]{36}-n"},
      {CreateMode::ephemeral_sequential, false, RequestType::multi, "n\\d{10}"},
      {CreateMode::ephemeral_sequential, true, RequestType::multi, "_c_[0-9a-f-]{36}-n\\d{10}"},
      {CreateMode::persistent, false, RequestType::create2, "n"},
      {CreateMode::persistent, true, RequestType::create2, "_c_[0-9a-f-]{36}-n"},
      {CreateMode::container, false, RequestType::create_container, "n"},
  };
  return kinds;
}

class NodeFaultTest : public testkit::RecipeFaultTest {
 protected:
  NodeFaultTest() : RecipeFaultTest("/app") { the_operator().create("/app-presence", ""); }

  /// Nothing is left: no node, no companion, no watch.
  void TearDown() override {
    expect_nothing_left();
    RecipeFaultTest::TearDown();
  }
  std::string data(const Path& path) {
    std::error_code error;
    return the_operator().get(path, {}, error).data;
  }
  std::string only_name() {
    const Strings all = names("/app");
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "" : all.front();
  }
  static bool is(const PersistentNodeBase& node, PresenceState state) {
    return eventually([&] { return node.state() == state; });
  }
  static bool has_problem(const PersistentNodeBase& node, Errc code) {
    return eventually([&] {
      const auto problem = node.problem();
      return problem && problem->errc() == code;
    });
  }
  /// Long enough for an object of `client` that hears of a change to look, and to remove its node.
  static void pass_turns(const Client& client) {
    for (int i = 0; i < 6; ++i)
      client.sync("/", {.deadline = soon()});
  }
  /// The node is another one than that of `token`.
  static bool is_new(const PersistentNodeBase& node, FencingToken token) {
    return eventually([&] { return node.state() == PresenceState::present && node.token() > token; });
  }
};

class PersistentNodeFaults : public NodeFaultTest {
 protected:
  PersistentNode make(const Client& client, const NodeKind& kind, Conflict conflict = Conflict::wait) {
    PersistentNode node(client, "/app/n", "x", kind.options(conflict));
    node.wait_created({.deadline = soon()});
    return node;
  }
  void for_all(const std::function<void(const NodeKind& kind)>& test) {
    for (const NodeKind& kind : node_kinds()) {
      SCOPED_TRACE(std::string(kind.name) + ", mode " + std::to_string(static_cast<int>(kind.mode)));
      test(kind);
      EXPECT_EQ(names("/app"), Strings{});
    }
  }
};

// --- Rows ------------------------------------------------------------------------------------------------------------

TEST_F(PersistentNodeFaults, CreateLost) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  for_all([&](const NodeKind& kind) {
    for (const bool request : {false, true}) {
      const Fault lost = lose(request, kind.creates);
      PersistentNode node = make(client, kind);
      EXPECT_TRUE(lost.happened());
      const std::string name = only_name();
      EXPECT_TRUE(std::regex_match(name, std::regex(kind.name))) << name;
      EXPECT_EQ(node.node(), Path("/app") / name);
      EXPECT_EQ(data("/app/" + name), "x");
      EXPECT_EQ(the_operator().get("/app/" + name).stat.czxid, node.token().value);
      EXPECT_EQ(names("/app-presence").size(), kind.lasting() ? 0u : 1u);
      node.remove({.deadline = soon()});
    }
  });
}

// Also what finds out whether it was made.
TEST_F(PersistentNodeFaults, LookLost) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  for (const RequestType type :
       {RequestType::get_data, RequestType::exists, RequestType::sync, RequestType::get_children2}) {
    for_all([&](const NodeKind& kind) {
      const Fault create = proxy.drop_next_reply(kind.creates);
      const Fault look = proxy.drop_next_reply(type);
      PersistentNode node = make(client, kind);
      EXPECT_TRUE(create.happened());
      EXPECT_EQ(names("/app").size(), 1u);
      look.happened() ? void() : Fault(look).cancel();
      node.remove({.deadline = soon()});
    });
  }
}

// The session goes with the reply, and the server keeps it: the next one finds the node all the same.
TEST_F(PersistentNodeFaults, CreateLostWithItsSession) {
  for_all([&](const NodeKind& kind) {
    const Client client = calm_proxied();
    (void)client.connect({.deadline = soon()});
    const Fault lost = proxy.drop_next_reply(kind.creates);
    PersistentNode node(client, "/app/n", "x", kind.options());
    proxy.refuse(true);
    EXPECT_TRUE(lost.wait(patience));
    testkit::lose_session(client, proxy);
    node.wait_created({.deadline = soon()});
    EXPECT_EQ(node.node(), Path("/app") / only_name());
    node.remove({.deadline = soon()});
  });
  // The sessions that were given up, and what is left of them.
  for (const std::string& witness : names("/app-presence"))
    the_operator().remove(Path("/app-presence") / witness);
}

// A server that stood still hands on what a session has sent that the client has lost.
TEST_F(PersistentNodeFaults, CreateLostWithItsSessionComesToLightWhileItIsRemoved) {
  if (!time_is_made()) GTEST_SKIP() << "a removal waits for two session timeouts";
  for_all([&](const NodeKind& kind) {
    if (!kind.lasting() || kind.protection) return;
    for (const bool comes : {true, false}) {
      const Client client = calm_proxied();
      (void)client.connect({.deadline = soon()});
      const Fault lost = proxy.drop_next_request(kind.creates);
      PersistentNode node(client, "/app/n", "x", kind.options());
      proxy.refuse(true);
      EXPECT_TRUE(lost.wait(patience));
      Box<bool> removed;
      node.async_remove([&](zkclient::Result<void> result) { removed.put(result.has_value()); }, {.deadline = soon()});
      testkit::lose_session(client, proxy);
      pass_turns(client);
      EXPECT_TRUE(removed.empty());
      if (comes) the_operator().create("/app/n", "x");
      EXPECT_TRUE(removed.take());
      EXPECT_EQ(names("/app"), Strings{});
    }
  });
}

TEST_F(PersistentNodeFaults, ParentMissingOrRemoved) {
  const Client client = calm_direct();
  for_all([&](const NodeKind& kind) {
    the_operator().remove_tree("/app", {.deadline = soon()});
    the_operator().remove_tree("/app-presence", {.deadline = soon()});
    PersistentNode node = make(client, kind);
    const FencingToken token = node.token();
    const Path path = *node.node();
    the_operator().remove_tree("/app", {.deadline = soon()});
    EXPECT_TRUE(is_new(node, token));
    EXPECT_EQ(node.node(), path);
    EXPECT_TRUE(eventually([&] { return data(path) == "x"; })) << "the operator may have removed it again";
    node.remove({.deadline = soon()});
  });
}

TEST_F(PersistentNodeFaults, ConnectionBreaks) {
  for_all([&](const NodeKind& kind) {
    const Client client = calm_proxied();
    PersistentNode node = make(client, kind);
    const FencingToken token = node.token();
    for (int i = 0; i < 3; ++i) {
      proxy.cut();
      client.sync("/", {.deadline = soon()});
    }
    EXPECT_EQ(node.state(), PresenceState::present);
    refuse_and_cut();
    EXPECT_TRUE(reaches(client, ConnectionState::suspended));
    EXPECT_EQ(error_of([&] { node.set_data("y", {.deadline = SteadyClock::now() + 50ms}); }), Errc::deadline_exceeded);
    proxy.refuse(false);
    EXPECT_TRUE(eventually([&] { return data(*node.node()) == "y"; })) << "it stays wanted";
    EXPECT_EQ(the_operator().get(*node.node()).stat.czxid, token.value) << "the same node";
    const Fault lost = proxy.drop_next_reply(RequestType::set_data);
    node.set_data("z", {.deadline = soon()});
    EXPECT_TRUE(lost.happened());
    EXPECT_EQ(the_operator().get(*node.node()).stat.version, 2) << "written once";
    node.remove({.deadline = soon()});
  });
}

TEST_F(PersistentNodeFaults, SessionLost) {
  for_all([&](const NodeKind& kind) {
    const Client client = calm_direct();
    PersistentNode node = make(client, kind);
    const FencingToken token = node.token();
    const Path path = *node.node();
    Box<PresenceState> states;
    const auto subscription = node.on_state([&](PresenceState state) { states.put(state); });
    EXPECT_EQ(states.take(), PresenceState::present);
    expire(client);
    if (kind.lasting()) {
      node.set_data("y", {.deadline = soon()});
      EXPECT_EQ(node.token(), token) << "it needs no session";
      EXPECT_EQ(data(path), "y");
    } else {
      EXPECT_EQ(states.take(), PresenceState::absent);
      EXPECT_EQ(states.take(), PresenceState::present);
      EXPECT_GT(node.token(), token);
      EXPECT_EQ(node.node(), path) << "it keeps its name";
    }
    EXPECT_EQ(Path("/app") / only_name(), path);
    node.remove({.deadline = soon()});
    EXPECT_EQ(states.take(), PresenceState::left);
  });
}

// The server keeps the former session, and its node, for half a minute: one transaction replaces it.
TEST_F(PersistentNodeFaults, FormerSessionsNodeIsReplaced) {
  for_all([&](const NodeKind& kind) {
    if (kind.lasting()) return;
    const Client client = calm_proxied();
    PersistentNode node = make(client, kind);
    const FencingToken token = node.token();
    const Path path = *node.node();
    testkit::lose_session(client, proxy);
    EXPECT_TRUE(is_new(node, token));
    EXPECT_EQ(node.node(), path);
    EXPECT_EQ(the_operator().exists(path)->ephemeral_owner, client.session().id());
    node.remove({.deadline = soon()});
  });
}

TEST_F(PersistentNodeFaults, DeletedByHand) {
  const Client client = calm_direct();
  for_all([&](const NodeKind& kind) {
    PersistentNode node = make(client, kind);
    const Path path = *node.node();
    Box<PresenceState> states;
    const auto subscription = node.on_state([&](PresenceState state) { states.put(state); });
    EXPECT_EQ(states.take(), PresenceState::present);
    for (int i = 0; i < 3; ++i) {
      const FencingToken token = node.token();
      the_operator().remove(path);
      EXPECT_EQ(states.take(), PresenceState::absent);
      EXPECT_EQ(states.take(), PresenceState::present);
      EXPECT_GT(node.token(), token);
      EXPECT_EQ(data(path), "x");
    }
    EXPECT_EQ(Path("/app") / only_name(), path);
    node.remove({.deadline = soon()});
  });
}

TEST_F(PersistentNodeFaults, ChangedByHand) {
  const Client client = calm_direct();
  for_all([&](const NodeKind& kind) {
    PersistentNode node = make(client, kind);
    const FencingToken token = node.token();
    the_operator().set(*node.node(), "by hand");
    EXPECT_TRUE(eventually([&] { return data(*node.node()) == "x"; }));
    node.set_data("y", {.deadline = soon()});
    EXPECT_EQ(data(*node.node()), "y");
    EXPECT_EQ(node.token(), token);
    node.remove({.deadline = soon()});
  });
}

// It waits for the other node to go. What is left alone is also not removed with the object.
TEST_F(PersistentNodeFaults, AnotherClientsNodeIsLeftAlone) {
  const Client client = calm_proxied();
  for_all([&](const NodeKind& kind) {
    if (kind.protection || kind.mode == CreateMode::ephemeral_sequential) return;  // Nobody has their names.
    for (const CreateMode theirs : {CreateMode::ephemeral, CreateMode::persistent}) {
      the_operator().create("/app/n", "theirs", {.mode = theirs});
      PersistentNode node(client, "/app/n", "x", kind.options());
      EXPECT_TRUE(has_problem(node, Errc::node_exists));
      EXPECT_TRUE(is(node, PresenceState::absent));
      EXPECT_EQ(node.node(), std::nullopt);
      EXPECT_EQ(data("/app/n"), "theirs");
      the_operator().remove("/app/n");
      node.wait_created({.deadline = soon()});
      EXPECT_FALSE(node.problem());
      // And one that takes its place while it is cut off.
      refuse_and_cut();
      EXPECT_TRUE(reaches(client, ConnectionState::suspended));
      the_operator().remove("/app/n");
      the_operator().create("/app/n", "theirs", {.mode = theirs});
      proxy.refuse(false);
      EXPECT_TRUE(has_problem(node, Errc::node_exists));
      node.remove({.deadline = soon()});
      EXPECT_EQ(data("/app/n"), "theirs");
      the_operator().remove("/app/n");
    }
  });
}

// A create that was not answered, and another client's node: which of the two came first is found out.
TEST_F(PersistentNodeFaults, AnotherClientsNodeComesWhileTheCreateIsLost) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  for_all([&](const NodeKind& kind) {
    if (kind.protection || kind.mode == CreateMode::ephemeral_sequential) return;
    const Fault lost = proxy.drop_next_request(kind.creates);
    proxy.refuse(true);  // From the cut on.
    PersistentNode node(client, "/app/n", "x", kind.options());
    EXPECT_TRUE(lost.wait(patience));
    the_operator().create("/app/n", "theirs");
    proxy.refuse(false);
    EXPECT_TRUE(has_problem(node, Errc::node_exists));
    EXPECT_EQ(data("/app/n"), "theirs");
    the_operator().set("/app/n", "x");
    node.remove({.deadline = soon()});
    EXPECT_EQ(data("/app/n"), "x") << "since it was found out, the same data makes it no node of ours";
    the_operator().remove("/app/n");
  });
}

TEST_F(PersistentNodeFaults, AnotherClientsNodeIsReplaced) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  for_all([&](const NodeKind& kind) {
    if (kind.protection || kind.mode == CreateMode::ephemeral_sequential) return;
    for (const CreateMode theirs : {CreateMode::ephemeral, CreateMode::persistent}) {
      the_operator().create("/app/n", "theirs", {.mode = theirs});
      const std::int64_t czxid = the_operator().exists("/app/n")->czxid;
      const bool adopts = kind.lasting() && theirs == CreateMode::persistent;
      if (adopts) the_operator().create("/app/n/child", "");
      const Fault lost = proxy.drop_next_reply(adopts ? RequestType::set_data : RequestType::multi);
      PersistentNode node = make(client, kind, Conflict::replace);
      EXPECT_TRUE(lost.happened());
      EXPECT_EQ(data("/app/n"), "x");
      EXPECT_EQ(node.token().value == czxid, adopts);
      if (adopts) the_operator().remove("/app/n/child");
      // That was once.
      const FencingToken token = node.token();
      the_operator().remove("/app/n");
      EXPECT_TRUE(is_new(node, token));
      refuse_and_cut();
      EXPECT_TRUE(reaches(client, ConnectionState::suspended));
      the_operator().remove("/app/n");
      the_operator().create("/app/n", "theirs", {.mode = theirs});
      proxy.refuse(false);
      EXPECT_TRUE(has_problem(node, Errc::node_exists));
      the_operator().remove("/app/n");
      node.remove({.deadline = soon()});
    }
  });
}

// Its owner still lives, so it has to see that it has lost its place.
TEST_F(PersistentNodeFaults, OwnerWhoseNodeIsReplacedWaits) {
  const Client first = calm_proxied();
  const Client second = calm_direct();
  for_all([&](const NodeKind& kind) {
    if (!kind.lasting() || kind.protection) return;
    PersistentNode former = make(first, kind);
    const FencingToken token = former.token();
    PersistentNode next(second, "/app/n", "y", kind.options(Conflict::replace));
    next.wait_created({.deadline = soon()});
    EXPECT_GT(next.token(), token);
    EXPECT_TRUE(has_problem(former, Errc::node_exists));
    EXPECT_TRUE(is(former, PresenceState::absent));
    former.remove({.deadline = soon()});
    EXPECT_EQ(data("/app/n"), "y");
    next.remove({.deadline = soon()});
  });
}

// A node with children stays, so it cannot be told from the former owner's.
TEST_F(PersistentNodeFaults, TwoOwnersOfANodeWithChildrenWriteNowAndThen) {
  const Client first = calm_proxied();
  const Client second = calm_direct();
  const NodeKind& kind = node_kinds()[4];
  ASSERT_EQ(kind.mode, CreateMode::persistent);
  PersistentNode former = make(first, kind);
  the_operator().create("/app/n/child", "");
  PersistentNode next(second, "/app/n", "y", kind.options(Conflict::replace));
  next.wait_created({.deadline = soon()});
  EXPECT_EQ(next.token(), former.token());
  const auto begin = std::chrono::steady_clock::now();
  const auto version = [&] { return the_operator().exists("/app/n")->version; };
  const std::int32_t before = version();
  EXPECT_TRUE(eventually([&] { return version() >= before + 8; }));
  const std::int32_t writes = version() - before;
  const auto halves = (std::chrono::steady_clock::now() - begin) / 500ms;
  EXPECT_LE(writes, 2 * (halves + 2));
  the_operator().remove("/app/n/child");
  former.remove({.deadline = soon()});
  next.remove({.deadline = soon()});
}

TEST_F(PersistentNodeFaults, DataTooLarge) {
  const Client client = calm_direct();
  for_all([&](const NodeKind& kind) {
    PersistentNode node = make(client, kind);
    const std::string large(2'000'000, 'x');
    EXPECT_EQ(error_of([&] { node.set_data(large, {.deadline = soon()}); }), Errc::too_large);
    the_operator().set(*node.node(), "by hand");
    EXPECT_TRUE(eventually([&] { return data(*node.node()) == "x"; }));
    node.remove({.deadline = soon()});
    const PersistentNode never(client, "/app/n", large, kind.options());
    EXPECT_EQ(error_of([&] { never.wait_created({.deadline = soon()}); }), Errc::too_large);
  });
}

TEST_F(PersistentNodeFaults, MayNotCreateOrRead) {
  const Client client = calm_direct();
  for_all([&](const NodeKind& kind) {
    the_operator().set_acl("/app", {{zkclient::Acl::read | zkclient::Acl::admin, "world", "anyone"}});
    PersistentNode node(client, "/app/n", "x", kind.options());
    EXPECT_EQ(error_of([&] { node.wait_created({.deadline = soon()}); }), Errc::no_auth);
    EXPECT_TRUE(is(node, PresenceState::absent));
    EXPECT_NE(std::string(node.problem()->what()).find("/app/n"), std::string::npos);
    the_operator().set_acl("/app", zkclient::open_acl());
    node.set_data("y", {.deadline = soon()});  // Tries again at once.
    EXPECT_EQ(data(*node.node()), "y");
    node.remove({.deadline = soon()});
  });
}

// The least of a few, since heartbeats count, too. Only a node that was just made is removed without a look.
TEST_F(PersistentNodeFaults, MadeAndRemovedWithTheFewestRequests) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  const auto requests_of = [&](const std::function<void()>& work) {
    const std::size_t before = proxy.request_count(RequestType::any);
    work();
    return proxy.request_count(RequestType::any) - before;
  };
  for_all([&](const NodeKind& kind) {
    std::size_t to_make = 99;
    std::size_t to_remove = 99;
    bool quick = false;
    for (int i = 0; i < 5; ++i) {
      const auto begin = SteadyClock::now();
      std::optional<PersistentNode> node;
      to_make = std::min(to_make, requests_of([&] { node.emplace(make(client, kind)); }));
      const std::size_t removed_with = requests_of([&] { node->remove({.deadline = soon()}); });
      if (SteadyClock::now() - begin >= 500ms) continue;  // It may have been too old.
      quick = true;
      to_remove = std::min(to_remove, removed_with);
    }
    EXPECT_EQ(to_make, kind.lasting() ? 4u : 3u) << "a look at what is there first, or at the companion";
    EXPECT_TRUE(to_remove == 1u || !quick) << to_remove;
  });
}

// The server's word that another client has taken the place is still on its way.
TEST_F(PersistentNodeFaults, RemovedAfterASilenceOnlyBehindALook) {
  const Client client = calm_proxied();
  for_all([&](const NodeKind& kind) {
    PersistentNode node = make(client, kind);
    testkit::let_age(600ms);
    proxy.stall(zktesting::Direction::to_client);
    const Path path = *node.node();
    the_operator().remove(path);
    the_operator().create(path, "theirs");
    Box<bool> removed;
    const auto looks_or_removals = [&] {
      return proxy.request_count(RequestType::exists) + proxy.request_count(RequestType::multi);
    };
    const std::size_t before = looks_or_removals();
    node.async_remove([&](zkclient::Result<void> result) { removed.put(result.has_value()); }, {.deadline = soon()});
    EXPECT_TRUE(eventually([&] { return looks_or_removals() > before; }));
    proxy.unstall(zktesting::Direction::to_client);
    EXPECT_TRUE(removed.take());
    EXPECT_EQ(data(path), "theirs");
    the_operator().remove(path);
  });
}

// While its watches are armed again, the word that another client has taken the place is still to come.
TEST_F(PersistentNodeFaults, RemovedRightAfterAReconnectionOnlyBehindALook) {
  for_all([&](const NodeKind& kind) {
    const Client client = calm_proxied();
    PersistentNode node = make(client, kind);
    const Path path = *node.node();
    auto arming = proxy.hold_next_reply(RequestType::exists);
    refuse_and_cut();
    EXPECT_TRUE(reaches(client, ConnectionState::suspended));
    the_operator().remove(path);
    the_operator().create(path, "theirs");
    Box<bool> removed;
    Box<bool> behind;
    bool asked = false;
    const std::size_t before = proxy.request_count(RequestType::get_data);
    const auto subscription = client.on_state_change([&](const zkclient::StateChange& change) {
      if (change.state != ConnectionState::connected || std::exchange(asked, true)) return;
      node.async_remove([&](zkclient::Result<void> result) { removed.put(result.has_value()); }, {.deadline = soon()});
      client.async_get("/", [&](const auto& result) { behind.put(result.has_value()); }, {.deadline = soon()});
    });
    proxy.refuse(false);
    EXPECT_TRUE(arming.wait(patience));
    EXPECT_TRUE(proxy.wait_for_requests(RequestType::get_data, before + 1, patience));
    arming.release();
    EXPECT_TRUE(removed.take());
    EXPECT_TRUE(behind.take());
    EXPECT_EQ(data(path), "theirs");
    the_operator().remove(path);
  });
}

// A removal that waits for the next connection would be sent before that has told anything.
TEST_F(PersistentNodeFaults, RemovedWhileTheSessionMovesOnlyBehindALook) {
  for_all([&](const NodeKind& kind) {
    const Client client = calm_proxied();
    PersistentNode node = make(client, kind);
    const Path path = *node.node();
    auto last = proxy.hold_next_reply(RequestType::get_data);
    Box<bool> got;
    client.async_get("/", [&](const auto& result) { got.put(result.has_value()); }, {.deadline = soon()});
    EXPECT_TRUE(last.wait(patience));
    Box<bool> moved;
    client.async_update_servers(server.connect_string(),
                                [&](zkclient::Result<void> result) { moved.put(result.has_value()); },
                                {.deadline = soon()});
    the_operator().remove(path);
    the_operator().create(path, "theirs");
    Box<bool> removed;
    node.async_remove([&](zkclient::Result<void> result) { removed.put(result.has_value()); }, {.deadline = soon()});
    Box<ConnectionState> told;
    const auto subscription =
        client.on_state_change([&](const zkclient::StateChange& change) { told.put(change.state); });
    (void)told.take();  // By then the removal has begun.
    last.release();
    EXPECT_TRUE(got.take());
    EXPECT_TRUE(moved.take());
    EXPECT_TRUE(removed.take());
    EXPECT_EQ(data(path), "theirs");
    the_operator().remove(path);
  });
}

// The same for what rests on a look: its reply is the last one of the former connection.
TEST_F(PersistentNodeFaults, RemovedOnlyOnTheConnectionOfTheLook) {
  for_all([&](const NodeKind& kind) {
    const Client client = calm_proxied();
    PersistentNode node = make(client, kind);
    const Path path = *node.node();
    testkit::let_age(600ms);  // So that it takes a look.
    auto look = proxy.hold_next_reply(RequestType::exists);
    Box<bool> removed;
    node.async_remove([&](zkclient::Result<void> result) { removed.put(result.has_value()); }, {.deadline = soon()});
    EXPECT_TRUE(look.wait(patience));
    Box<ConnectionState> told;
    const auto subscription =
        client.on_state_change([&](const zkclient::StateChange& change) { told.put(change.state); });
    Box<bool> moved;
    client.async_update_servers(server.connect_string(),
                                [&](zkclient::Result<void> result) { moved.put(result.has_value()); },
                                {.deadline = soon()});
    (void)told.take();  // By then it has begun to move.
    the_operator().remove(path);
    the_operator().create(path, "theirs");
    look.release();
    EXPECT_TRUE(moved.take());
    EXPECT_TRUE(removed.take());
    EXPECT_EQ(data(path), "theirs");
    the_operator().remove(path);
  });
}

// An executor may drop a task: a listener is told later what it has missed.
TEST_F(PersistentNodeFaults, AListenerOutlivesATaskThatItsExecutorHasDropped) {
  testkit::DroppingRuntime dropping;
  const Client client(dropping.runtime(), proxy.connect_string(), {.session_timeout = calm});
  PersistentNode node = make(client, node_kinds().front());
  Box<PresenceState> told;
  const auto subscription = node.on_state([&](PresenceState state) { told.put(state); });
  EXPECT_EQ(told.take(), PresenceState::present);
  dropping.drop();
  const FencingToken former = node.token();
  the_operator().remove(*node.node());
  EXPECT_TRUE(is_new(node, former));
  EXPECT_TRUE(dropping.dropped_one());
  dropping.run();
  node.remove({.deadline = soon()});
  EXPECT_EQ(told.take_until([](PresenceState state) { return state == PresenceState::left; }), PresenceState::left);
}

TEST_F(PersistentNodeFaults, RemoveLost) {
  const Client client = calm_proxied();
  for_all([&](const NodeKind& kind) {
    for (const bool request : {false, true}) {
      PersistentNode node = make(client, kind);
      const Fault lost = lose(request);
      node.remove({.deadline = soon()});
      EXPECT_TRUE(lost.happened());
      EXPECT_EQ(names("/app"), Strings{});
      node.remove({.deadline = soon()});
      EXPECT_EQ(error_of([&] { node.set_data("y", {.deadline = soon()}); }), Errc::closed);
    }
  });
}

TEST_F(PersistentNodeFaults, RemoveWhileTheSessionIsLost) {
  for_all([&](const NodeKind& kind) {
    const Client client = calm_proxied();
    PersistentNode node = make(client, kind);
    refuse_and_cut();
    EXPECT_TRUE(reaches(client, ConnectionState::suspended));
    EXPECT_EQ(error_of([&] { node.remove({.deadline = SteadyClock::now() + 50ms}); }), Errc::deadline_exceeded);
    Box<bool> removed;
    node.async_remove([&](zkclient::Result<void> result) { removed.put(result.has_value()); }, {.deadline = soon()});
    const Fault forged = proxy.forge_next_session();
    proxy.refuse(false);
    EXPECT_TRUE(removed.take());
    EXPECT_TRUE(forged.happened());
    EXPECT_EQ(names("/app"), Strings{});
  });
}

TEST_F(PersistentNodeFaults, RemoveOfANodeWithChildren) {
  const Client client = calm_proxied();
  for_all([&](const NodeKind& kind) {
    if (!kind.lasting()) return;
    PersistentNode node = make(client, kind);
    the_operator().create(*node.node() / "child", "");
    EXPECT_EQ(error_of([&] { node.remove({.deadline = soon()}); }), Errc::not_empty);
    the_operator().remove(*node.node() / "child");
    node.remove({.deadline = soon()});
    if (kind.mode == zkclient::CreateMode::container) return;  // The server removes one that has lost its children.
    // The destructor tries it once: what it leaves is not removed later, when it may be another owner's.
    auto refused = proxy.hold_next_reply(RequestType::multi);
    Path path;
    {
      const PersistentNode dropped = make(client, kind);
      path = *dropped.node();
      the_operator().create(path / "child", "");
    }
    EXPECT_TRUE(refused.wait(patience));
    refused.release();
    client.sync("/", {.deadline = soon()});
    the_operator().remove(path / "child");
    the_operator().set(path, "by hand");
    pass_turns(client);
    EXPECT_EQ(data(path), "by hand");
    the_operator().remove(path);
  });
}

// Nothing stays of an object that goes while its node is being made, and nobody waits for that.
TEST_F(PersistentNodeFaults, ObjectGoesWhileItsNodeIsMade) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  for_all([&](const NodeKind& kind) {
    for (const bool lost : {false, true}) {
      auto held = proxy.hold_next_reply(kind.creates);
      {
        const PersistentNode node(client, "/app/n", "x", kind.options());
        EXPECT_TRUE(held.wait(patience));
      }
      if (lost) proxy.cut();
      held.release();
      EXPECT_TRUE(remain(0));
      EXPECT_TRUE(eventually([&] { return names("/app-presence").empty(); }));
    }
  });
}

// Before the server can be reached: what is wanted then is what is made, and what goes is not waited for.
TEST_F(PersistentNodeFaults, BeforeTheServerIsUp) {
  for_all([&](const NodeKind& kind) {
    proxy.refuse(true);
    const Client client = calm_proxied();
    PersistentNode node(client, "/app/n", "1", kind.options());
    PersistentNode other(client, "/app/m", "1", kind.options());
    EXPECT_EQ(node.state(), PresenceState::joining);
    Box<bool> set;
    node.async_set_data("2", [&](zkclient::Result<void> result) { set.put(result.has_value()); }, {.deadline = soon()});
    other.remove({.deadline = soon()});
    std::stop_source stop;
    Box<Errc> stopped_wait;
    node.async_wait_created([&](zkclient::Result<void> result) { stopped_wait.put(result.error().errc()); },
                            {.stop = stop.get_token()});
    stop.request_stop();
    EXPECT_EQ(stopped_wait.take(), Errc::cancelled);
    proxy.refuse(false);
    EXPECT_TRUE(set.take());
    EXPECT_EQ(data("/app/" + only_name()), "2");
    node.remove({.deadline = soon()});
  });
}

TEST_F(PersistentNodeFaults, ProcessDies) {
  const auto path_of = [](const NodeKind& kind) { return Path("/app") / std::to_string(&kind - node_kinds().data()); };
  const auto lasting = [](const NodeKind& kind) { return kind.lasting(); };
  {
    const Client client = brief_proxied();
    std::deque<PersistentNode> nodes;
    for (const NodeKind& kind : node_kinds())
      nodes.emplace_back(client, path_of(kind), "x", kind.options()).wait_created({.deadline = soon()});
    refuse_and_cut();
    const auto staying = std::count_if(node_kinds().begin(), node_kinds().end(), lasting);
    EXPECT_TRUE(remain(static_cast<std::size_t>(staying)));
  }
  proxy.refuse(false);
  const Client client = calm_proxied();
  for (const NodeKind& kind : node_kinds()) {
    if (!kind.lasting() || kind.protection) continue;
    const PersistentNode next(client, path_of(kind), "y", kind.options());
    EXPECT_TRUE(has_problem(next, Errc::node_exists));
    EXPECT_EQ(data(path_of(kind)), "x");
  }
  for (const std::string& name : names("/app"))
    the_operator().remove(Path("/app") / name);
}

TEST_F(PersistentNodeFaults, ClientClosed) {
  for_all([&](const NodeKind& kind) {
    Client client(server.connect_string(), {.session_timeout = 12s});
    PersistentNode node = make(client, kind);
    const Path path = *node.node();
    client.close();
    EXPECT_TRUE(is(node, PresenceState::left));
    EXPECT_EQ(error_of([&] { node.set_data("y"); }), Errc::closed);
    EXPECT_EQ(error_of([&] { node.wait_created(); }), Errc::closed);
    EXPECT_EQ(error_of([&] { node.remove(); }), Errc::closed) << "it may still be there";
    if (kind.lasting()) the_operator().remove(path);
    EXPECT_TRUE(remain(0));
  });
}

// It may still be there, so that is no success.
TEST_F(PersistentNodeFaults, ClientClosedWhileTheNodeIsRemoved) {
  for_all([&](const NodeKind& kind) {
    if (!kind.lasting()) return;
    Client client = calm_proxied();
    PersistentNode node = make(client, kind);
    const Path path = *node.node();
    refuse_and_cut();
    EXPECT_TRUE(reaches(client, ConnectionState::suspended));
    Box<Errc> removed;
    node.async_remove(
        [&](zkclient::Result<void> result) { removed.put(result.has_value() ? Errc{} : result.error().errc()); },
        {.deadline = soon()});
    client.close();
    EXPECT_EQ(removed.take(), Errc::closed);
    proxy.refuse(false);
    EXPECT_EQ(data(path), "x");
    the_operator().remove(path);
  });
}

TEST_F(PersistentNodeFaults, ListenerThatCallsBack) {
  const Client client = calm_direct();
  std::optional<PersistentNode> node(make(client, node_kinds().front()));
  Box<bool> done;
  const auto subscription = node->on_state([&](PresenceState state) {
    if (state != PresenceState::present) return;
    node->set_data("from the listener", {.deadline = soon()});
    node->remove({.deadline = soon()});
    done.put(true);
  });
  EXPECT_TRUE(done.take());
  node.reset();
}

TEST_F(PersistentNodeFaults, BadArgumentsAreRefused) {
  const Client client = calm_direct();
  const auto refused = [&](const Path& path, const PersistentNodeOptions& options) {
    return error_of([&] { const PersistentNode node(client, path, "x", options); });
  };
  EXPECT_EQ(refused("/", {}), Errc::invalid_argument);
  EXPECT_EQ(refused("/app/n", {.acl = {}}), Errc::invalid_acl);
  for (const CreateMode mode : {CreateMode::persistent_sequential, CreateMode::persistent_ttl,
                                CreateMode::persistent_sequential_ttl, static_cast<CreateMode>(77)})
    EXPECT_EQ(refused("/app/n", {.mode = mode}), Errc::invalid_argument);
  const auto ttl = [&](std::chrono::milliseconds time, const std::string& child) {
    return error_of([&] { const PersistentTtlNode node(client, "/app/n", time, "x", {.child = child}); });
  };
  EXPECT_EQ(ttl(0ms, "touch"), Errc::invalid_argument);
  EXPECT_EQ(ttl(-1ms, "touch"), Errc::invalid_argument);
  EXPECT_EQ(ttl(PersistentTtlNode::max_ttl + 1ms, "touch"), Errc::invalid_argument);
  for (const char* child : {"", ".", "a/b"})
    EXPECT_EQ(ttl(1s, child), Errc::invalid_path) << child;
  const PersistentNode node(client, "/n", "x", {});
  node.wait_created({.deadline = soon()});
  EXPECT_EQ(names("/-presence").size(), 1u) << "the parent is the root";
}

// --- With a time to live ---------------------------------------------------------------------------------------------

class PersistentTtlNodeFaults : public NodeFaultTest {
 protected:
  static constexpr auto brief_ttl = 1s;

  PersistentTtlNode make(const Client& client, std::chrono::milliseconds ttl = 1h) {
    PersistentTtlNode node(client, "/app/n", ttl, "x");
    node.wait_created({.deadline = soon()});
    return node;
  }
  bool has_touch() {
    return eventually([&] { return names("/app/n") == Strings{"touch"}; });
  }
};

TEST_F(PersistentTtlNodeFaults, ServerHasNoTtlNodes) {
  zktesting::ServerOptions options;
  options.config["extendedTypesEnabled"] = "false";
  const zktesting::Server without(options);
  const Client client(without.connect_string(), {.session_timeout = calm});
  const PersistentTtlNode node(client, "/n", 1h, "x");
  EXPECT_EQ(error_of([&] { node.wait_created({.deadline = soon()}); }), Errc::unimplemented);
  EXPECT_NE(std::string(node.problem()->what()).find("extendedTypesEnabled=true"), std::string::npos);
  EXPECT_EQ(node.state(), PresenceState::absent);
}

TEST_F(PersistentTtlNodeFaults, TouchLost) {
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  for (const bool request : {false, true}) {
    auto parent = proxy.hold_next_reply(RequestType::create_ttl);
    PersistentTtlNode node(client, "/app/n", 1h, "x");
    EXPECT_TRUE(parent.wait(patience));
    const Fault lost = lose(request, RequestType::create_ttl);
    parent.release();
    EXPECT_TRUE(lost.wait(patience));
    EXPECT_TRUE(has_touch());
    const Fault removal = lose(request, RequestType::multi);
    node.remove({.deadline = soon()});
    EXPECT_TRUE(removal.happened());
    EXPECT_TRUE(names("/app").empty());
  }
}

TEST_F(PersistentTtlNodeFaults, TouchDeletedByHand) {
  const Client client = calm_direct();
  PersistentTtlNode node = make(client, brief_ttl);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(has_touch());
    std::error_code gone_meanwhile;
    the_operator().remove("/app/n/touch", any_version, {}, gone_meanwhile);
  }
  EXPECT_TRUE(has_touch());
  EXPECT_EQ(data("/app/n"), "x");
  node.remove({.deadline = soon()});
}

TEST_F(PersistentTtlNodeFaults, TouchMayNotBeWritten) {
  const Client client = calm_direct();
  PersistentTtlNode node = make(client, brief_ttl);
  ASSERT_TRUE(has_touch());
  the_operator().set_acl("/app/n/touch", {{zkclient::Acl::admin, "world", "anyone"}});
  EXPECT_TRUE(has_problem(node, Errc::no_auth));
  EXPECT_TRUE(eventually([&] { return !node.problem(); })) << "it was removed in the end, and made again";
  ASSERT_TRUE(has_touch());
  node.remove({.deadline = soon()});
}

// The reply to the look for the own node is the last one of the former connection: the next one tells whose it is now.
TEST_F(PersistentTtlNodeFaults, TouchedOnlyOnTheConnectionOfTheLook) {
  const Client client = calm_proxied();
  PersistentTtlNode node = make(client, 3s);
  ASSERT_TRUE(has_touch());
  auto look = proxy.hold_next_reply(RequestType::exists);
  EXPECT_TRUE(look.wait(patience));
  Box<ConnectionState> told;
  const auto subscription =
      client.on_state_change([&](const zkclient::StateChange& change) { told.put(change.state); });
  Box<bool> moved;
  client.async_update_servers(server.connect_string(),
                              [&](zkclient::Result<void> result) { moved.put(result.has_value()); },
                              {.deadline = soon()});
  (void)told.take();  // By then it has begun to move.
  the_operator().remove_tree("/app/n", {.deadline = soon()});
  the_operator().create("/app/n", "theirs");
  the_operator().create("/app/n/touch", "theirs");
  look.release();
  EXPECT_TRUE(moved.take());
  EXPECT_TRUE(has_problem(node, Errc::node_exists));
  EXPECT_EQ(data("/app/n/touch"), "theirs");
  node.remove({.deadline = soon()});
  the_operator().remove_tree("/app/n", {.deadline = soon()});
}

TEST_F(PersistentTtlNodeFaults, NodeLivesLongerThanItsTtl) {
  const Client client = calm_direct();
  const testkit::StallWatch stalls;
  PersistentTtlNode node = make(client, 3s);  // So that a second too late is not too late.
  const FencingToken token = node.token();
  testkit::let_age(5s);
  EXPECT_TRUE(node.token() == token || stalls.seen());
  node.set_data("y", {.deadline = soon()});
  EXPECT_EQ(data("/app/n"), "y");
  node.remove({.deadline = soon()});
}

TEST_F(PersistentTtlNodeFaults, OwnerCutOffForLongerThanTheTtl) {
  const Client client = calm_proxied();
  PersistentTtlNode node = make(client, brief_ttl);
  const FencingToken token = node.token();
  refuse_and_cut();
  EXPECT_TRUE(remain(0));
  proxy.refuse(false);
  EXPECT_TRUE(is_new(node, token));
  EXPECT_TRUE(has_touch());
  node.remove({.deadline = soon()});
}

// What Curator leaves for ever.
TEST_F(PersistentTtlNodeFaults, OwnerDiesBeforeTheTouchIsMade) {
  {
    const Client client = brief_proxied();
    (void)client.connect({.deadline = soon()});
    const auto held = proxy.hold_next_reply(RequestType::create_ttl);
    const PersistentTtlNode node(client, "/app/n", brief_ttl, "x");
    EXPECT_TRUE(held.wait(patience));
    refuse_and_cut();
  }
  EXPECT_TRUE(remain(0));
}

TEST_F(PersistentTtlNodeFaults, OwnerDies) {
  const Client client = calm_proxied();
  {
    const PersistentTtlNode node = make(client, brief_ttl);
    EXPECT_TRUE(has_touch());
  }
  EXPECT_EQ(names("/app").size(), 1u) << "the destructor leaves it to its time to live";
  EXPECT_TRUE(remain(0));
}

TEST_F(PersistentTtlNodeFaults, RemoveOfANodeWithOtherChildren) {
  const Client client = calm_direct();
  PersistentTtlNode node = make(client);
  ASSERT_TRUE(has_touch());
  the_operator().create("/app/n/child", "");
  EXPECT_EQ(error_of([&] { node.remove({.deadline = soon()}); }), Errc::not_empty);
  the_operator().remove("/app/n/child");
  node.remove({.deadline = soon()});
}

// Neither one that waits for its place nor one that has removed its own node touches what another client has there.
TEST_F(PersistentTtlNodeFaults, AnotherClientsTouchIsLeftAlone) {
  const Client client = calm_direct();
  const auto make_theirs = [&] {
    the_operator().create("/app/n", "theirs");
    the_operator().create("/app/n/touch", "theirs");
  };
  make_theirs();
  PersistentTtlNode node(client, "/app/n", 1h, "x");
  EXPECT_TRUE(has_problem(node, Errc::node_exists));
  node.remove({.deadline = soon()});
  EXPECT_EQ(data("/app/n/touch"), "theirs");
  the_operator().remove_tree("/app/n", {.deadline = soon()});
  PersistentTtlNode removed = make(client);
  removed.remove({.deadline = soon()});
  make_theirs();
  removed.remove({.deadline = soon()});
  EXPECT_EQ(data("/app/n/touch"), "theirs");
  the_operator().remove_tree("/app/n", {.deadline = soon()});
}

// A touch that was due while the owner was cut off is not written into another client's node.
TEST_F(PersistentTtlNodeFaults, AnotherClientsNodeComesWhileTheOwnerIsCutOff) {
  const Client client = calm_proxied();
  PersistentTtlNode node = make(client, brief_ttl);
  ASSERT_TRUE(has_touch());
  refuse_and_cut();
  EXPECT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_TRUE(remain(0));
  the_operator().create("/app/n", "theirs");
  the_operator().create("/app/n/touch", "theirs");
  proxy.refuse(false);
  EXPECT_TRUE(has_problem(node, Errc::node_exists));
  node.remove({.deadline = soon()});
  EXPECT_EQ(data("/app/n/touch"), "theirs");
  the_operator().remove_tree("/app/n", {.deadline = soon()});
}

// With its touch, so that the new one has its own time to live.
TEST_F(PersistentTtlNodeFaults, OwnerWhoseNodeIsReplacedWaits) {
  const Client first = calm_proxied();
  const Client second = calm_direct();
  PersistentTtlNode former = make(first);
  ASSERT_TRUE(has_touch());
  PersistentTtlNode next(second, "/app/n", 1h, "y", {.conflict = Conflict::replace});
  next.wait_created({.deadline = soon()});
  EXPECT_GT(next.token(), former.token());
  EXPECT_TRUE(has_problem(former, Errc::node_exists));
  ASSERT_TRUE(has_touch());
  former.remove({.deadline = soon()});
  EXPECT_EQ(data("/app/n"), "y");
  EXPECT_TRUE(has_touch());
  next.remove({.deadline = soon()});
}

TEST_F(PersistentTtlNodeFaults, RemoveGoesOnWhenItsCallFails) {
  const Client client = calm_proxied();
  PersistentTtlNode node = make(client);
  ASSERT_TRUE(has_touch());
  refuse_and_cut();
  EXPECT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_EQ(error_of([&] { node.remove({.deadline = std::chrono::steady_clock::now() + 50ms}); }),
            Errc::deadline_exceeded);
  proxy.refuse(false);
  EXPECT_TRUE(is(node, PresenceState::left));
  EXPECT_TRUE(names("/app").empty());
}

TEST_F(PersistentTtlNodeFaults, ObjectGoesWhileItsNodeIsRemoved) {
  const Client client = calm_proxied();
  std::optional<PersistentTtlNode> node(make(client));
  ASSERT_TRUE(has_touch());
  auto look = proxy.hold_next_reply(RequestType::exists);
  Box<bool> removed;
  node->async_remove([&](zkclient::Result<void> result) { removed.put(result.has_value()); }, {.deadline = soon()});
  EXPECT_TRUE(look.wait(patience));
  node.reset();
  look.release();
  EXPECT_TRUE(removed.take());
  EXPECT_EQ(names("/app"), Strings{});
}

// Nobody asks for its removal again, so the next owner keeps what it takes over.
TEST_F(PersistentTtlNodeFaults, ObjectGoesBeforeItsRemovalIsRefused) {
  const Client client = calm_proxied();
  std::optional<PersistentTtlNode> node(make(client));
  ASSERT_TRUE(has_touch());
  the_operator().create("/app/n/child", "");
  auto refused = proxy.hold_next_reply(RequestType::multi);
  Box<Errc> removed;
  node->async_remove([&](zkclient::Result<void> result) { removed.put(result.error().errc()); }, {.deadline = soon()});
  EXPECT_TRUE(refused.wait(patience));
  node.reset();
  refused.release();
  EXPECT_EQ(removed.take(), Errc::not_empty);
  PersistentTtlNode next(client, "/app/n", 1h, "y", {.conflict = Conflict::replace});
  next.wait_created({.deadline = soon()});
  const FencingToken token = next.token();
  the_operator().remove("/app/n/child");
  the_operator().set("/app/n", "by hand");
  pass_turns(client);
  EXPECT_EQ(the_operator().exists("/app/n")->czxid, token.value);
  next.remove({.deadline = soon()});
}

TEST_F(PersistentTtlNodeFaults, SessionLostAndDeletedByHand) {
  const Client client = calm_direct();
  PersistentTtlNode node = make(client, brief_ttl);
  FencingToken token = node.token();
  expire(client);
  the_operator().remove_tree("/app/n", {.deadline = soon()});
  EXPECT_TRUE(is_new(node, token));
  EXPECT_TRUE(has_touch());
  node.remove({.deadline = soon()});
}

}  // namespace
}  // namespace zkrecipes
