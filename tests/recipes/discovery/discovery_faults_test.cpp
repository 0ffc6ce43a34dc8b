// Service discovery while everything breaks: one test at least per row of the table "What goes wrong" in
// <zkrecipes/discovery.hpp>, and what other libraries had trouble with.

#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/discovery.hpp>

#include "tests/support/given_up.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Strings = std::vector<std::string>;

ServiceInstance instance(const std::string& id, ServiceType type = ServiceType::dynamic,
                         const std::string& payload = {}) {
  return {.name = "web", .id = id, .address = "10.0.0.1", .port = 80, .payload = payload, .type = type};
}

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers discovery_on_real_servers{"DiscoveryFaults.RegisterReplyLost",
                                                       "DiscoveryFaults.SessionLostWhileRegistered"};

class DiscoveryFaults : public testkit::RecipeFaultTest {
 protected:
  DiscoveryFaults() : RecipeFaultTest("/services") {
    the_operator().create("/services/web", "");
    the_operator().create("/services-presence", "");
  }

  std::vector<std::string> names() override { return RecipeFaultTest::names("/services/web"); }
  /// Nothing is left: no instance, no witness, no watch.
  void TearDown() override {
    expect_nothing_left();
    RecipeFaultTest::TearDown();
  }
  zkclient::NodeData node(const Path& path = "/services/web/a") {
    std::error_code error;
    return the_operator().get(path, {}, error);
  }
  std::string payload(const Path& path = "/services/web/a") {
    const std::string data = node(path).data;
    const std::size_t begin = data.find("\"payload\":");
    return begin == std::string::npos ? "" : data.substr(begin + 10, data.find(',', begin) - begin - 10);
  }
  static bool is(const Registration& registration, PresenceState state) {
    return eventually([&] { return registration.state() == state; });
  }
  static bool lists(const ServiceProvider& provider, std::size_t count) {
    return eventually([&] { return provider.instances().instances.size() == count; });
  }
  /// Of each kind of node one.
  static constexpr ServiceType kinds[] = {ServiceType::dynamic, ServiceType::fixed};
  static constexpr ServiceType types[] = {ServiceType::dynamic, ServiceType::dynamic_sequential, ServiceType::fixed,
                                          ServiceType::permanent};
};

/// The differences that an operator's cache is told, as "added a".
class SeenNodes {
 public:
  explicit SeenNodes(const Client& client) : cache_(client, "/services/web") {
    (void)cache_.wait_ready({.deadline = soon()});
    subscription_ = cache_.on_change([this](const std::vector<Change>& changes, const Snapshot&) {
      for (const Change& change : changes) {
        if (change.path != "/services/web")
          told_.put(std::string(to_string(change.kind)) + " " + change.path.substr(14));
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

TEST_F(DiscoveryFaults, RegisterReplyLost) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : kinds) {
    const Fault lost = proxy.drop_next_reply(RequestType::multi);
    Registration a = directory.register_instance(instance("a", type, "1"), patient());
    EXPECT_TRUE(lost.happened());
    EXPECT_EQ(payload(a.node()), "1");
    EXPECT_EQ(a.token().value, node(a.node()).stat.czxid);
    EXPECT_EQ(node(a.node()).stat.version, 0) << "written once";
    EXPECT_EQ(names().size(), 1u);
    a.unregister(patient());
  }
}

TEST_F(DiscoveryFaults, RegisterRequestLost) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : kinds) {
    const Fault lost = proxy.drop_next_request(RequestType::multi);
    Registration a = directory.register_instance(instance("a", type), patient());
    EXPECT_TRUE(lost.happened());
    EXPECT_EQ(a.token().value, node(a.node()).stat.czxid);
    a.unregister(patient());
  }
}

// Also the look before the create, and the one behind it.
TEST_F(DiscoveryFaults, LookLost) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : kinds) {
    const Fault lost = proxy.drop_next_reply(RequestType::get_data);
    Registration a = directory.register_instance(instance("a", type), patient());
    EXPECT_TRUE(lost.happened());
    a.unregister(patient());
  }
}

// The caller has given up, and the create is applied all the same.
TEST_F(DiscoveryFaults, RegisterGivenUp) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : types) {
    auto held = proxy.hold_next_reply(RequestType::multi);
    std::stop_source stop;
    Box<std::optional<Errc>> ended;
    directory.async_register_instance(instance("a", type),
                                      [&](zkclient::Result<Registration> result) {
                                        ended.put(result ? std::nullopt : std::optional(result.error().errc()));
                                      },
                                      {.stop = stop.get_token()});
    EXPECT_TRUE(held.wait(testkit::patience));
    const std::size_t syncs = proxy.request_count(RequestType::sync);
    const std::size_t transactions = proxy.request_count(RequestType::multi);
    stop.request_stop();
    const std::optional<Errc> code = ended.take();
    EXPECT_TRUE(code == Errc::cancelled || code == Errc::in_doubt);
    held.release();
    EXPECT_TRUE(remain(0)) << to_string(type);
    if (type == ServiceType::fixed || type == ServiceType::permanent) {
      // Ahead of the look for the node, which nobody repeats. A leader that was deposed answers a sync at once.
      EXPECT_GT(proxy.request_count(RequestType::multi), transactions);
      EXPECT_EQ(proxy.request_count(RequestType::sync), syncs);
    }
    client.sync("/", patient());  // So that the next one holds no answer to what has removed this one.
  }
}

// V65: of each type; what is updated meanwhile is registered, and what is unregistered, or let go, is not waited for.
TEST_F(DiscoveryFaults, RegistrationBeginsWithoutAServer) {
  proxy.refuse(true);
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : types) {
    refuse_and_cut();
    // Else they may begin with a session that breaks then, and be there.
    ASSERT_TRUE(eventually([&] { return client.session().state() != ConnectionState::connected; }));
    Registration a = directory.begin_register_instance(instance("a", type, "1"));
    Registration b = directory.begin_register_instance(instance("b", type, "1"));
    { const Registration c = directory.begin_register_instance(instance("c", type, "1")); }
    EXPECT_EQ(a.state(), PresenceState::joining);
    Box<PresenceState> states;
    const auto subscription = a.on_state([&](PresenceState state) { states.put(state); });
    EXPECT_EQ(states.take(), PresenceState::joining);
    EXPECT_EQ(error_of([&] { a.wait_present({.deadline = testkit::SteadyClock::now() + 20ms}); }),
              Errc::deadline_exceeded);
    Box<bool> done;
    const auto note = [&](zkclient::Result<void> result) { done.put(result.has_value()); };
    a.async_update(instance("a", type, "2"), note, patient());
    b.unregister(patient());
    EXPECT_EQ(b.state(), PresenceState::left);
    EXPECT_EQ(error_of([&] { b.wait_present(patient()); }), Errc::closed);
    proxy.refuse(false);
    a.wait_present(patient());
    EXPECT_EQ(states.take(), PresenceState::present);
    EXPECT_TRUE(done.take());
    EXPECT_EQ(payload(a.node()), "2");
    EXPECT_EQ(a.token().value, node(a.node()).stat.czxid);
    EXPECT_EQ(names().size(), 1u) << to_string(type);
    a.unregister(patient());
    EXPECT_EQ(states.take(), PresenceState::left);
    EXPECT_TRUE(names().empty());
  }
}

// The create's reply is lost, or late, and the registrar does not want it any more.
TEST_F(DiscoveryFaults, UnregisteredWhileItBegins) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : types) {
    for (const bool waits : {false, true}) {
      auto held = proxy.hold_next_reply(RequestType::multi);
      std::optional<Registration> a(directory.begin_register_instance(instance("a", type)));
      EXPECT_TRUE(held.wait(testkit::patience));  // Perhaps the one that has removed the instance before.
      EXPECT_TRUE(remain(1));
      Box<bool> done;
      if (waits) a->async_unregister([&](zkclient::Result<void> result) { done.put(result.has_value()); }, patient());
      if (!waits) a.reset();
      proxy.cut();
      held.release();
      if (waits) {
        EXPECT_TRUE(done.take());
        EXPECT_TRUE(names().empty()) << to_string(type);
      }
      EXPECT_TRUE(remain(0)) << to_string(type);
    }
  }
}

// What the server refuses is told, and tried again: at once when something else is wanted, or the session is lost.
TEST_F(DiscoveryFaults, RegistrationThatBeginsIsRefused) {
  constexpr auto no_create = zkclient::Acl::all & ~zkclient::Acl::create;
  const Client client = calm_direct();
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : {ServiceType::fixed, ServiceType::permanent, ServiceType::dynamic}) {
    for (const bool by_update : {true, false}) {
      the_operator().set_acl("/services/web", {{no_create, "world", "anyone"}});
      Registration a = directory.begin_register_instance(instance("a", type, "1"));
      EXPECT_EQ(error_of([&] { a.wait_present(patient()); }), Errc::no_auth);
      EXPECT_TRUE(is(a, PresenceState::absent));
      EXPECT_EQ(a.problem()->errc(), Errc::no_auth);
      EXPECT_NE(std::string(a.problem()->what()).find("/services/web/a"), std::string::npos);
      EXPECT_EQ(error_of([&] { a.update(instance("a", type, "2"), patient()); }), Errc::no_auth);
      EXPECT_TRUE(is(a, PresenceState::absent));
      the_operator().set_acl("/services/web", zkclient::open_acl());
      by_update ? a.update(instance("a", type, "3"), patient()) : expire(client);
      EXPECT_TRUE(is(a, PresenceState::present));
      EXPECT_FALSE(a.problem());
      EXPECT_EQ(payload(), by_update ? "3" : "2");
      a.unregister(patient());
    }
  }
  // One that is refused can be unregistered, or end with its client.
  the_operator().set_acl("/services/web", {{no_create, "world", "anyone"}});
  Client other = calm_direct();
  ServiceDirectory others(other, "/services");
  Registration a = others.begin_register_instance(instance("a", ServiceType::fixed));
  Registration b = others.begin_register_instance(instance("b", ServiceType::fixed));
  EXPECT_TRUE(is(a, PresenceState::absent));
  EXPECT_TRUE(is(b, PresenceState::absent));
  a.unregister(patient());
  EXPECT_EQ(a.state(), PresenceState::left);
  Box<Errc> ended;
  b.async_update(instance("b", ServiceType::fixed, "2"),
                 [&](zkclient::Result<void> result) { ended.put(result.error().errc()); });
  EXPECT_EQ(ended.take(), Errc::no_auth);
  other.close();
  EXPECT_TRUE(is(b, PresenceState::left));
  EXPECT_EQ(error_of([&] { b.wait_present(patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)others.begin_register_instance(instance("c", ServiceType::fixed)); }), Errc::closed);
  the_operator().set_acl("/services/web", zkclient::open_acl());
}

// Nothing of a registration or a provider stays at the server while their client lives on.
TEST_F(DiscoveryFaults, NoWatchIsLeftOfWhoHasGone) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  const auto expect_none = [&](const char* when) {
    client.sync("/", patient());
    EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << when << "\n"
                                                                       << server.four_letter_word("wchp");
  };
  for (const ServiceType type : types) {
    SCOPED_TRACE(to_string(type));
    {
      Registration a = directory.register_instance(instance("a", type), patient());
      a.update(instance("a", type, "1"), patient());
      a.unregister(patient());
      expect_none("unregistered");
    }
    {
      const Registration a = directory.register_instance(instance("a", type), patient());
      const ServiceProvider provider = directory.provider("web");
      EXPECT_EQ(provider.wait_ready(patient()).instances.size(), 1u);
    }
    if (type == ServiceType::permanent) the_operator().remove("/services/web/a");
    EXPECT_TRUE(remain(0));
    expect_none("let go");
    {
      const Fault lost = proxy.drop_next_reply(RequestType::multi);
      proxy.refuse(true);  // So that it cannot learn that it is there: a permanent one would stay.
      std::optional<Registration> a(directory.begin_register_instance(instance("a", type)));
      EXPECT_TRUE(lost.wait(testkit::patience));
      a.reset();
      proxy.refuse(false);
    }
    EXPECT_TRUE(remain(0));
    expect_none("let go while it began");
    {
      std::optional<Registration> a(directory.register_instance(instance("a", type), patient()));
      std::optional<ServiceProvider> provider(directory.provider("web"));
      (void)provider->wait_ready(patient());
      const std::stop_token lost = client.session().lost();
      expire(client);
      EXPECT_TRUE(stopped(lost));
      provider.reset();
      a->unregister(patient());
    }
    expect_none("with another session");
  }
}

TEST_F(DiscoveryFaults, ParentsMissingOrRemoved) {
  the_operator().remove("/services/web");
  the_operator().remove("/services");
  the_operator().remove("/services-presence");
  const Client client = calm_direct();
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : types) {
    Registration a = directory.register_instance(instance("a", type, "1"), patient());
    EXPECT_EQ(payload(a.node()), "1");
    the_operator().remove_tree("/services-presence", patient());
    the_operator().remove_tree("/services", patient());
    // A dynamic one comes back by itself, others when they are written.
    a.update(instance("a", type, "2"), patient());
    EXPECT_TRUE(eventually([&] { return payload(a.node()) == "2"; }));
    a.unregister(patient());
  }
}

// V39: the node is not touched, and nobody is told anything. Of a sequential one there is no second node.
TEST_F(DiscoveryFaults, ConnectionBreaksWhileRegistered) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  std::deque<Registration> all;
  for (const ServiceType type : types)
    all.push_back(directory.register_instance(instance(to_string(type), type), patient()));
  const Strings before = names();
  SeenNodes seen(the_operator());
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(seen.next().starts_with("added "));
  for (int i = 0; i < 2; ++i) {
    proxy.cut();
    client.sync("/", patient());
  }
  for (const Registration& registration : all) {
    EXPECT_EQ(registration.state(), PresenceState::present);
    EXPECT_EQ(node(registration.node()).stat.czxid, registration.token().value);
    EXPECT_EQ(node(registration.node()).stat.version, 0);
  }
  the_operator().create("/services/web/z", "");
  EXPECT_EQ(seen.next(), "added z");
  the_operator().remove("/services/web/z");
  EXPECT_EQ(names().size(), before.size());
  for (Registration& registration : all)
    registration.unregister(patient());
}

// V42, V45, V60: each is back as it was updated last, and is watched again; a fixed one is not touched.
TEST_F(DiscoveryFaults, SessionLostWhileRegistered) {
  const Client client = calm_direct();
  ServiceDirectory directory(client, "/services");
  std::deque<Registration> all;
  std::deque<FencingToken> tokens;
  for (const ServiceType type : types) {
    all.push_back(directory.register_instance(instance("a" + std::to_string(all.size()), type, "1"), patient()));
    all.back().update(instance("a" + std::to_string(all.size() - 1), type, "2"), patient());
    tokens.push_back(all.back().token());
  }
  expire(client);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(eventually([&] { return all[i].state() == PresenceState::present && all[i].token() > tokens[i]; }));
    EXPECT_EQ(node(all[i].node()).stat.ephemeral_owner, client.session().id());
    EXPECT_EQ(payload(all[i].node()), "2");
    const FencingToken back = all[i].token();
    the_operator().remove(all[i].node());
    EXPECT_TRUE(eventually([&] { return all[i].state() == PresenceState::present && all[i].token() > back; }));
  }
  EXPECT_EQ(names().size(), 4u);
  for (std::size_t i = 2; i < 4; ++i)
    EXPECT_EQ(node(all[i].node()).stat.czxid, tokens[i].value);
  for (Registration& registration : all)
    registration.unregister(patient());
}

// V47: one transaction puts the new node in the place of the one that the former session still has.
TEST_F(DiscoveryFaults, FormerSessionsNodeIsReplaced) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  const ServiceDirectory others(the_operator(), "/services");
  Registration a = directory.register_instance(instance("a"), patient());
  const FencingToken token = a.token();
  const ServiceProvider provider = others.provider("web");
  Box<std::string> told;
  const auto subscription = provider.on_change([&](const std::vector<InstanceChange>& changes, const ServiceListing&) {
    for (const InstanceChange& change : changes)
      told.put(to_string(change.kind));
  });
  EXPECT_EQ(told.take(), "added");
  testkit::lose_session(client, proxy);
  EXPECT_TRUE(eventually([&] { return a.state() == PresenceState::present && a.token() > token; }));
  EXPECT_EQ(node().stat.ephemeral_owner, client.session().id());
  EXPECT_EQ(told.take(), "replaced");
  a.unregister(patient());
}

// V46
TEST_F(DiscoveryFaults, DynamicInstanceDeletedByHand) {
  const Client client = calm_direct();
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : {ServiceType::dynamic, ServiceType::dynamic_sequential}) {
    Registration a = directory.register_instance(instance("a", type, "1"), patient());
    for (int i = 0; i < 3; ++i) {
      const FencingToken token = a.token();
      the_operator().remove(a.node());
      EXPECT_TRUE(eventually([&] { return a.state() == PresenceState::present && a.token() > token; }));
      EXPECT_EQ(payload(a.node()), "1");
    }
    EXPECT_EQ(names().size(), 1u);
    a.unregister(patient());
  }
}

// V48: what another program has made under its own session is not taken for ours, and stays.
TEST_F(DiscoveryFaults, AnotherSessionHasTheNode) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  Registration a = directory.register_instance(instance("a"), patient());
  const FencingToken token = a.token();
  proxy.refuse(true);
  expire(client);
  ASSERT_TRUE(eventually([&] { return !the_operator().exists("/services/web/a"); }));
  the_operator().create("/services/web/a", "theirs", {.mode = zkclient::CreateMode::ephemeral});
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return a.problem().has_value() && a.problem()->errc() == Errc::node_exists; }));
  EXPECT_TRUE(is(a, PresenceState::absent));
  EXPECT_EQ(node().data, "theirs");
  the_operator().remove("/services/web/a");
  EXPECT_TRUE(is(a, PresenceState::present));
  EXPECT_GT(a.token(), token);
  EXPECT_FALSE(a.problem());
  a.unregister(patient());
}

// V40: one write of the same node, so there is no moment without it.
TEST_F(DiscoveryFaults, UpdateReplyLost) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : kinds) {
    Registration a = directory.register_instance(instance("a", type, "1"), patient());
    const std::int64_t czxid = node(a.node()).stat.czxid;
    const bool dynamic = type == ServiceType::dynamic;
    const Fault lost = proxy.drop_next_reply(dynamic ? RequestType::set_data : RequestType::multi);
    a.update(instance("a", type, "2"), patient());
    EXPECT_TRUE(lost.happened());
    EXPECT_EQ(payload(a.node()), "2");
    EXPECT_EQ(node(a.node()).stat.version, 1) << "written once";
    EXPECT_EQ(node(a.node()).stat.czxid, czxid);
    a.unregister(patient());
  }
}

TEST_F(DiscoveryFaults, UnregisterReplyLost) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : kinds) {
    Registration a = directory.register_instance(instance("a", type), patient());
    const bool dynamic = type == ServiceType::dynamic;
    const Fault lost = proxy.drop_next_reply(dynamic ? RequestType::multi : RequestType::remove);
    a.unregister(patient());
    EXPECT_TRUE(lost.happened());
    EXPECT_TRUE(names().empty());
  }
}

// The reply is lost, and another registrar puts its own node in that place before the first one looks.
TEST_F(DiscoveryFaults, UnregisterLeavesTheNodeOfAnother) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  ServiceDirectory others(the_operator(), "/services");
  Registration a = directory.register_instance(instance("a", ServiceType::fixed), patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  the_operator().remove("/services/web/a");
  Registration theirs = others.register_instance(instance("a", ServiceType::fixed, "1"), patient());
  EXPECT_EQ(node().stat.version, 0) << "as the first one's";
  proxy.refuse(false);
  a.unregister(patient());
  EXPECT_EQ(payload(), "1");
  theirs.unregister(patient());
}

// Removals that overlap: the call that was given up goes on, and the destructor begins another one. Neither believes
// what the other one has asked and not been told yet.
TEST_F(DiscoveryFaults, RemovalsThatOverlapLeaveTheNodeOfAnother) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  ServiceDirectory others(the_operator(), "/services");
  for (const bool by_update : {false, true}) {
    std::optional<Registration> a(directory.register_instance(instance("a", ServiceType::fixed), patient()));
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    Registration theirs = others.register_instance(instance("a", ServiceType::fixed, "1"), patient());
    EXPECT_EQ(node().stat.version, 0) << "as the first one's";
    const CallOptions hasty = {.deadline = testkit::SteadyClock::now() + 20ms};
    if (by_update) {
      EXPECT_TRUE(error_of([&] { a->update(instance("a", ServiceType::fixed), hasty); }));
    } else {
      EXPECT_EQ(error_of([&] { a->unregister(hasty); }), Errc::deadline_exceeded);
    }
    a.reset();
    proxy.refuse(false);
    client.sync("/", patient());
    client.sync("/", patient());  // Behind what the answers to the first looks have led to.
    EXPECT_EQ(payload(), "1");
    theirs.unregister(patient());
  }
}

// The server refuses for good: the instance is there, and it can be tried again.
TEST_F(DiscoveryFaults, UnregisterRefused) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  Registration a = directory.register_instance(instance("a", ServiceType::fixed), patient());
  constexpr auto no_remove = zkclient::Acl::all & ~zkclient::Acl::remove;
  the_operator().set_acl("/services/web", {{no_remove, "world", "anyone"}});
  const std::size_t before = proxy.request_count(RequestType::remove);
  EXPECT_EQ(error_of([&] { a.unregister(patient()); }), Errc::no_auth);
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::remove, before + 2, testkit::patience)) << "once in the background";
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(error_of([&] { a.unregister(patient()); }), Errc::no_auth);
  EXPECT_NE(a.state(), PresenceState::left);
  the_operator().set_acl("/services/web", zkclient::open_acl());
  a.unregister(patient());
  EXPECT_EQ(a.state(), PresenceState::left);
  EXPECT_TRUE(names().empty());
}

// A budget of attempts that is spent is no reason to give up before the deadline.
TEST_F(DiscoveryFaults, LooksThatAreLostAreRepeated) {
  const Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  const Fault at_first = proxy.drop_next_reply(RequestType::get_data);
  Registration a = directory.register_instance(instance("a", ServiceType::fixed), patient());
  EXPECT_TRUE(at_first.happened());
  proxy.cut();  // So that it looks again.
  client.connect(patient());
  const Fault at_last = proxy.drop_next_reply(RequestType::get_data);
  std::error_code error;
  ASSERT_TRUE(eventually([&] {
    client.sync("/", patient(), error);
    return !error;
  }));
  a.unregister(patient());
  EXPECT_TRUE(at_last.happened());
  EXPECT_TRUE(names().empty());
}

// The node was deleted by hand, and the update that makes it again is given up: it is no first registration for that.
TEST_F(DiscoveryFaults, UpdatesGivenUpAfterADeletionByHand) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  ServiceDirectory others(the_operator(), "/services");
  Registration a = directory.register_instance(instance("a", ServiceType::fixed, "1"), patient());
  const auto give_up = [&](zktesting::HeldReply& held) {
    std::stop_source stop;
    Box<bool> ended;
    a.async_update(instance("a", ServiceType::fixed, "2"),
                   [&](zkclient::Result<void> result) { ended.put(result.has_value()); }, {.stop = stop.get_token()});
    EXPECT_TRUE(held.wait(testkit::patience));
    stop.request_stop();
    EXPECT_FALSE(ended.take());
  };
  the_operator().remove(a.node());
  auto held = proxy.hold_next_reply(RequestType::multi);
  give_up(held);
  const CallOptions hasty = {.deadline = testkit::SteadyClock::now() + 20ms};
  EXPECT_TRUE(error_of([&] { a.update(instance("a", ServiceType::fixed, "3"), hasty); }));
  held.release();
  a.update(instance("a", ServiceType::fixed, "4"), patient());
  EXPECT_EQ(payload(), "4");
  EXPECT_EQ(a.token().value, node().stat.czxid);

  the_operator().remove(a.node());
  auto again = proxy.hold_next_reply(RequestType::multi);
  give_up(again);
  EXPECT_NE(a.token().value, 0);
  the_operator().remove(a.node());
  Registration theirs = others.register_instance(instance("a", ServiceType::fixed, "5"), patient());
  again.release();
  EXPECT_EQ(error_of([&] { a.update(instance("a", ServiceType::fixed, "6"), patient()); }), Errc::foreign_node);
  a.unregister(patient());
  EXPECT_EQ(payload(), "5");
  theirs.unregister(patient());
}

// Both find no node, and both make it; the second one's create fails because of the first one's.
TEST_F(DiscoveryFaults, UpdatesThatOverlapAfterADeletionByHand) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  Registration a = directory.register_instance(instance("a", ServiceType::fixed, "1"), patient());
  the_operator().remove(a.node());
  auto held = proxy.hold_next_reply(RequestType::get_data);
  const std::size_t before = proxy.request_count(RequestType::get_data);
  Box<std::optional<Errc>> ended;
  for (const char* data : {"2", "3"}) {
    a.async_update(
        instance("a", ServiceType::fixed, data),
        [&](zkclient::Result<void> result) { ended.put(result ? std::nullopt : std::optional(result.error().errc())); },
        patient());
  }
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::get_data, before + 2, testkit::patience));
  held.release();
  EXPECT_EQ(ended.take(), std::nullopt);
  EXPECT_EQ(ended.take(), std::nullopt);
  EXPECT_EQ(payload(), "3");
  EXPECT_EQ(a.token().value, node().stat.czxid);
  a.unregister(patient());
}

// A registrar writes what it has read, so its bytes are those of the former node; that one is not its own all the same.
TEST_F(DiscoveryFaults, TheSameBytesAreNoProof) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(client, "/services");
  ServiceDirectory others(the_operator(), "/services");
  Registration theirs = others.register_instance(instance("a", ServiceType::fixed), patient());
  const ServiceInstance read = others.instances("web", patient()).instances.front()->instance;
  const Fault lost = proxy.drop_next_request(RequestType::multi);
  Registration a = directory.register_instance(read, patient());
  EXPECT_TRUE(lost.happened());
  EXPECT_GT(a.token(), theirs.token());
  EXPECT_EQ(a.token().value, node().stat.czxid);
  theirs.unregister(patient());
  EXPECT_EQ(names().size(), 1u);
  a.unregister(patient());
}

// V43, V44: while there is no connection, and with a session that is lost meanwhile. It is gone when the call returns,
// and does not come back.
TEST_F(DiscoveryFaults, UnregisterWhileTheSessionIsLost) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  for (const ServiceType type : kinds) {
    Registration a = directory.register_instance(instance("a", type), patient());
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    EXPECT_EQ(error_of([&] { a.unregister({.deadline = testkit::SteadyClock::now() + 50ms}); }),
              Errc::deadline_exceeded);
    Box<bool> done;
    a.async_unregister([&](zkclient::Result<void> result) { done.put(result.has_value()); }, patient());
    const Fault forged = proxy.forge_next_session();
    proxy.refuse(false);
    EXPECT_TRUE(done.take());
    EXPECT_TRUE(forged.happened());
    EXPECT_TRUE(names().empty()) << to_string(type);
    EXPECT_EQ(a.state(), PresenceState::left);
  }
}

// The next session has made the node again, and does not know it yet. It is gone when the call returns.
TEST_F(DiscoveryFaults, UnregisterWhileItIsRegisteredAgain) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  for (const bool by_hand : {false, true}) {
    Registration a = directory.register_instance(instance("a"), patient());
    const std::int64_t token = a.token().value;
    auto held = proxy.hold_next_reply(RequestType::multi);
    if (by_hand) {
      the_operator().remove(a.node());
    } else {
      testkit::lose_session(client, proxy);
    }
    ASSERT_TRUE(held.wait(testkit::patience));
    EXPECT_GT(node().stat.czxid, token) << "it was made again";
    Box<bool> done;
    a.async_unregister([&](zkclient::Result<void> result) { done.put(result.has_value()); }, patient());
    held.release();
    EXPECT_TRUE(done.take());
    EXPECT_EQ(a.state(), PresenceState::left);
    EXPECT_TRUE(names().empty());
    client.sync("/", patient());  // Behind whatever has been sent since.
    EXPECT_TRUE(names().empty());
  }
}

TEST_F(DiscoveryFaults, RegistrarsProcessDies) {
  const Client client = brief_proxied();
  ServiceDirectory directory(client, "/services");
  const Registration a = directory.register_instance(instance("a"), patient());
  Registration b = directory.register_instance(instance("b", ServiceType::fixed), patient());
  SeenNodes seen(the_operator());
  proxy.stall(Direction::both);
  // Its session may have ended before, and it have come back.
  while (seen.next() != "removed a" || the_operator().exists("/services/web/a")) {
  }
  EXPECT_TRUE(the_operator().exists("/services/web/b"));
  proxy.unstall(Direction::both);
  b.unregister(patient());
}

// V52: the registrars' sessions end, all at once, while they are well.
TEST_F(DiscoveryFaults, AllSessionsEndAtOnce) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/services");
  std::deque<Registration> all;
  for (const char* id : {"a", "b", "c"})
    all.push_back(directory.register_instance(instance(id), patient()));
  const ServiceDirectory others(the_operator(), "/services");
  const ServiceProvider provider = others.provider("web", {.last_resort = 1h});
  EXPECT_EQ(provider.wait_ready(patient()).instances.size(), 3u);
  proxy.refuse(true);
  expire(client);
  EXPECT_TRUE(lists(provider, 0));
  std::set<std::string> picked;
  for (int i = 0; i < 3; ++i) {
    const ListedInstancePtr instance = provider.pick();
    ASSERT_NE(instance, nullptr);
    EXPECT_FALSE(instance->confirmed);
    picked.insert(instance->node);
  }
  EXPECT_EQ(picked.size(), 3u);
  proxy.refuse(false);
  EXPECT_TRUE(lists(provider, 3));
  EXPECT_TRUE(provider.pick()->confirmed);
  for (Registration& registration : all)
    registration.unregister(patient());
}

// Also with a session that is lost: the list stays, and is put right in the end.
TEST_F(DiscoveryFaults, ConnectionOfThePickerBreaks) {
  const Client client = calm_proxied();
  ServiceDirectory directory(the_operator(), "/services");
  Registration a = directory.register_instance(instance("a"), patient());
  const ServiceDirectory looking(client, "/services");
  const ServiceProvider provider = looking.provider("web");
  (void)provider.wait_ready(patient());
  refuse_and_cut();
  EXPECT_TRUE(eventually([&] { return provider.state() == CacheState::stale; }));
  const Registration b = directory.register_instance(instance("b"), patient());
  a.unregister(patient());
  EXPECT_EQ(provider.pick()->node, "a");
  EXPECT_TRUE(provider.pick()->confirmed) << "nothing was heard of it";
  const Fault forged = proxy.forge_next_session();
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return provider.state() == CacheState::current; }));
  EXPECT_TRUE(forged.happened());
  EXPECT_EQ(provider.pick()->node, "b");
}

// V50: something changes while the provider reads for the first time.
TEST_F(DiscoveryFaults, ChangeWhileAProviderStarts) {
  const Client client = calm_proxied();
  (void)client.connect(patient());
  ServiceDirectory directory(the_operator(), "/services");
  const Registration a = directory.register_instance(instance("a"), patient());
  std::optional<Registration> b(directory.register_instance(instance("b"), patient()));
  auto held = proxy.hold_next_reply(RequestType::get_data);
  const ServiceDirectory looking(client, "/services");
  const ServiceProvider provider = looking.provider("web");
  EXPECT_TRUE(held.wait(testkit::patience));
  b.reset();
  const Registration c = directory.register_instance(instance("c"), patient());
  held.release();
  (void)provider.wait_ready(patient());
  EXPECT_TRUE(eventually([&] {
    const auto all = provider.instances().instances;
    return all.size() == 2 && all[0]->node == "a" && all[1]->node == "c";
  }));
}

TEST_F(DiscoveryFaults, ClientClosed) {
  // If it closes while its server is slow, the session goes at its timeout.
  Client client(server.connect_string(), {.session_timeout = 12s});
  ServiceDirectory directory(client, "/services");
  Registration a = directory.register_instance(instance("a"), patient());
  Registration b = directory.register_instance(instance("b", ServiceType::fixed), patient());
  const ServiceProvider provider = directory.provider("web");
  (void)provider.wait_ready(patient());
  client.close();
  EXPECT_TRUE(is(a, PresenceState::left));
  EXPECT_TRUE(eventually([&] { return names() == Strings{"b"}; }));
  EXPECT_EQ(error_of([&] { a.update(instance("a")); }), Errc::closed);
  EXPECT_EQ(error_of([&] { b.update(instance("b", ServiceType::fixed)); }), Errc::closed);
  EXPECT_EQ(error_of([&] { a.unregister(); }), Errc::closed);
  EXPECT_EQ(error_of([&] { b.unregister(); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)directory.services(); }), Errc::closed);
  EXPECT_EQ(provider.state(), CacheState::closed);
  EXPECT_NE(provider.pick(), nullptr);
  the_operator().remove("/services/web/b");
}

}  // namespace
}  // namespace zkrecipes
