// Service discovery against a quiet server.

#include <zkrecipes/discovery.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Strings = std::vector<std::string>;

ServiceInstance instance(const std::string& id, const std::string& payload = {}) {
  return {.name = "web", .id = id, .address = "10.0.0.1", .port = 80, .payload = payload};
}
ServiceInstance of_type(const std::string& id, ServiceType type) {
  ServiceInstance made = instance(id);
  made.type = type;
  return made;
}
Strings nodes(const ServiceListing& listing) {
  Strings all;
  for (const ListedInstancePtr& listed : listing.instances)
    all.push_back(listed->node);
  return all;
}

class DiscoveryTest : public testkit::RecipeTest {
 protected:
  DiscoveryTest() : RecipeTest("/services/web") {}
  void TearDown() override {
    expect_no_watch_left();
    RecipeTest::TearDown();
  }

  ServiceDirectory make(DirectoryOptions options = {}) {
    return ServiceDirectory(client(), "/services", std::move(options));
  }
  std::string data(const Path& path = "/services/web/a") { return client().get(path).data; }
  bool nothing_left() {
    return eventually([&] { return names().empty() && names(Path("/services-presence")).empty(); });
  }
  static bool lists(const ServiceProvider& provider, const Strings& wanted) {
    return eventually([&] { return nodes(provider.instances()) == wanted; });
  }
};

TEST_F(DiscoveryTest, RegistersFindsUpdatesAndUnregisters) {
  ServiceDirectory directory = make();
  EXPECT_TRUE(directory.services(patient()).empty());
  EXPECT_TRUE(directory.instances("web", patient()).instances.empty());
  Registration a = directory.register_instance(instance("a", R"({"zone":1})"), patient());
  EXPECT_EQ(a.state(), PresenceState::present);
  EXPECT_FALSE(a.problem());
  EXPECT_EQ(a.node(), Path("/services/web/a"));
  EXPECT_EQ(directory.services(patient()), Strings{"web"});
  const ServiceListing found = directory.instances("web", patient());
  ASSERT_EQ(found.instances.size(), 1u);
  const ListedInstance& listed = *found.instances.front();
  EXPECT_EQ(listed.instance, a.instance());
  EXPECT_EQ(listed.incarnation, a.token());
  EXPECT_EQ(listed.session_id, client().session().id());
  EXPECT_GT(listed.instance.registered, ServiceInstance::Milliseconds());

  a.update(instance("", R"({"zone":2})"), patient());
  const ServiceListing updated = directory.instances("web", patient());
  EXPECT_EQ(updated.instances.front()->instance.payload, R"({"zone":2})");
  EXPECT_EQ(updated.instances.front()->instance.registered, listed.instance.registered);
  EXPECT_EQ(updated.instances.front()->incarnation, a.token());
  a.unregister(patient());
  a.unregister(patient());
  EXPECT_EQ(a.state(), PresenceState::left);
  EXPECT_FALSE(client().exists("/services/web/a"));
  EXPECT_EQ(error_of([&] { a.update(instance("a"), patient()); }), Errc::closed);
  EXPECT_TRUE(nothing_left());
}

// Of each type the same: found, updated in place, and gone when that is asked for.
TEST_F(DiscoveryTest, EachType) {
  ServiceDirectory directory = make();
  for (const ServiceType type :
       {ServiceType::dynamic, ServiceType::dynamic_sequential, ServiceType::fixed, ServiceType::permanent}) {
    SCOPED_TRACE(to_string(type));
    Registration a = directory.register_instance(of_type("a", type), patient());
    const zkclient::Stat stat = client().get(a.node()).stat;
    const bool dynamic = type == ServiceType::dynamic || type == ServiceType::dynamic_sequential;
    EXPECT_EQ(stat.ephemeral_owner, dynamic ? client().session().id() : 0);
    EXPECT_EQ(a.token().value, stat.czxid);
    EXPECT_EQ(a.state(), PresenceState::present);
    ServiceInstance changed = of_type("a", type);
    changed.payload = "7";
    a.update(changed, patient());
    EXPECT_EQ(client().get(a.node()).stat.czxid, stat.czxid);
    EXPECT_EQ(client().get(a.node()).stat.version, 1);
    EXPECT_EQ(directory.instances("web", patient()).instances.front()->instance.payload, "7");
    a.unregister(patient());
    EXPECT_EQ(a.state(), PresenceState::left);
    EXPECT_FALSE(client().exists(a.node()));
    EXPECT_EQ(error_of([&] { a.update(changed, patient()); }), Errc::closed);
    a.unregister(patient());
  }
  EXPECT_TRUE(nothing_left());
}

// The node's name is Curator's: the id and ten digits. Many may have one id.
TEST_F(DiscoveryTest, SequentialInstancesShareAnId) {
  ServiceDirectory directory = make();
  Registration one = directory.register_instance(of_type("a", ServiceType::dynamic_sequential), patient());
  Registration two = directory.register_instance(of_type("a", ServiceType::dynamic_sequential), patient());
  const ServiceListing found = directory.instances("web", patient());
  ASSERT_EQ(found.instances.size(), 2u);
  for (const ListedInstancePtr& listed : found.instances) {
    EXPECT_EQ(listed->instance.id, "a");
    ASSERT_EQ(listed->node.size(), 11u);
    EXPECT_EQ(listed->node.find_first_not_of("0123456789", 1), std::string::npos);
  }
  EXPECT_NE(one.node(), two.node());
}

// V53
TEST_F(DiscoveryTest, OnlyAPermanentInstanceStaysWhenItsRegistrarGoes) {
  for (const bool by_client : {false, true}) {
    {
      // Of a client that closes while its server is slow, the session goes at its timeout.
      const zkclient::Client registrar = make_client({.session_timeout = 12s});
      ServiceDirectory directory(registrar, "/services");
      std::deque<Registration> all;
      for (const ServiceType type : {ServiceType::dynamic, ServiceType::fixed, ServiceType::permanent})
        all.push_back(directory.register_instance(of_type(to_string(type), type), patient()));
      EXPECT_EQ(names().size(), 3u);
      if (!by_client) {
        all.clear();
        EXPECT_TRUE(eventually([&] { return names() == Strings{"PERMANENT"}; }));
      }
      // Else registrations and client go at once.
    }
    EXPECT_TRUE(eventually([&] { return names() == Strings{"PERMANENT"}; }));
  }
  ServiceDirectory directory = make();
  Registration again = directory.register_instance(of_type("PERMANENT", ServiceType::permanent), patient());
  again.unregister(patient());
  EXPECT_TRUE(nothing_left());
}

// A registrar that crashed leaves its fixed instance. The next one puts its own in that place; the former one, should
// it still live, takes nothing away.
TEST_F(DiscoveryTest, AFixedInstanceIsRegisteredAnew) {
  ServiceDirectory directory = make();
  Registration former = directory.register_instance(of_type("a", ServiceType::fixed), patient());
  const ServiceProvider provider = directory.provider("web");
  Box<std::string> told;
  const auto subscription = provider.on_change([&](const std::vector<InstanceChange>& changes, const ServiceListing&) {
    for (const InstanceChange& change : changes)
      told.put(to_string(change.kind));
  });
  EXPECT_EQ(told.take(), "added");
  Registration next = directory.register_instance(of_type("a", ServiceType::fixed), patient());
  EXPECT_EQ(told.take(), "replaced");
  EXPECT_GT(next.token(), former.token());
  EXPECT_EQ(error_of([&] { former.update(of_type("a", ServiceType::fixed), patient()); }), Errc::foreign_node);
  former.unregister(patient());
  EXPECT_TRUE(client().exists("/services/web/a"));
  // This one has not looked since: the watch has told it.
  Registration last = directory.register_instance(of_type("a", ServiceType::fixed), patient());
  next.unregister(patient());
  EXPECT_EQ(client().get("/services/web/a").stat.czxid, last.token().value);
  last.update(of_type("a", ServiceType::fixed), patient());
  // What an operator writes into it does not make it another one's.
  client().set("/services/web/a", "{}");
  last.unregister(patient());
  EXPECT_FALSE(client().exists("/services/web/a"));
}

// An operator's deletion of a fixed instance stands, until its registrar writes it again.
TEST_F(DiscoveryTest, AFixedInstanceThatWasDeletedByHand) {
  ServiceDirectory directory = make();
  Registration a = directory.register_instance(of_type("a", ServiceType::fixed), patient());
  client().remove("/services/web/a");
  a.update(of_type("a", ServiceType::fixed), patient());
  EXPECT_EQ(a.token().value, client().get("/services/web/a").stat.czxid);
  client().remove("/services/web/a");
  a.unregister(patient());
  EXPECT_EQ(a.state(), PresenceState::left);
}

// V41: the second one of a name waits, or the first one goes; a fixed one does not wait.
TEST_F(DiscoveryTest, TwoRegistrarsOfOneId) {
  ServiceDirectory directory = make();
  const zkclient::Client other = make_client();
  ServiceDirectory others(other, "/services");
  Registration first = directory.register_instance(instance("a", "1"), patient());
  EXPECT_EQ(error_of([&] {
              (void)others.register_instance(instance("a", "2"), {.deadline = testkit::SteadyClock::now() + 100ms});
            }),
            Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { (void)others.register_instance(of_type("a", ServiceType::fixed), patient()); }),
            Errc::node_exists);
  EXPECT_EQ(client().get("/services/web/a").stat.czxid, first.token().value);

  Box<std::optional<Registration>> second;
  others.async_register_instance(instance("a", "2"), [&](zkclient::Result<Registration> result) {
    second.put(result ? std::optional(std::move(*result)) : std::nullopt);
  });
  first.unregister(patient());
  std::optional<Registration> next = second.take();
  ASSERT_TRUE(next);
  EXPECT_EQ(client().get("/services/web/a").stat.ephemeral_owner, other.session().id());

  ServiceDirectory taking = make({.conflict = Conflict::replace});
  const Registration third = taking.register_instance(of_type("a", ServiceType::fixed), patient());
  EXPECT_EQ(client().get("/services/web/a").stat.czxid, third.token().value);
  EXPECT_TRUE(eventually([&] { return next->problem() && next->problem()->errc() == Errc::node_exists; }));
}

// V50: whatever was registered before the provider starts is listed when it is ready; what comes then is seen, too.
TEST_F(DiscoveryTest, AProviderListsWhatIsThere) {
  ServiceDirectory directory = make();
  const ServiceProvider early = directory.provider("web");
  EXPECT_TRUE(early.wait_ready(patient()).instances.empty()) << "the service does not exist yet";
  EXPECT_EQ(early.pick(), nullptr);
  EXPECT_FALSE(client().exists("/services")) << "looking creates nothing";
  const Registration a = directory.register_instance(instance("a"), patient());
  const ServiceProvider provider = directory.provider("web");
  EXPECT_EQ(nodes(provider.wait_ready(patient())), Strings{"a"});
  ASSERT_NE(provider.pick(), nullptr);
  EXPECT_EQ(provider.pick()->instance, a.instance());
  EXPECT_TRUE(lists(early, {"a"}));
  const Registration b = directory.register_instance(instance("b"), patient());
  EXPECT_TRUE(lists(provider, {"a", "b"}));
  EXPECT_TRUE(lists(early, {"a", "b"}));
  EXPECT_NE(provider.pick()->node, provider.pick()->node);
  EXPECT_EQ(provider.pick("key")->node, early.pick("key")->node);
  EXPECT_EQ(provider.name(), "web");
  EXPECT_TRUE(eventually([&] { return provider.state() == CacheState::current; }));
}

// V57
TEST_F(DiscoveryTest, ChangesNameTheInstances) {
  ServiceDirectory directory = make();
  Registration a = directory.register_instance(instance("a", "1"), patient());
  const ServiceProvider provider = directory.provider("web");
  Box<std::string> told;
  const auto subscription =
      provider.on_change([&](const std::vector<InstanceChange>& changes, const ServiceListing& now) {
        std::string text = std::to_string(now.instances.size());
        for (const InstanceChange& change : changes) {
          text += std::string(" ") + to_string(change.kind) + " " + (change.after ? change.after : change.before)->node;
          if (change.before) text += " before " + change.before->instance.payload;
          if (change.after) text += " after " + change.after->instance.payload;
        }
        told.put(text);
      });
  EXPECT_EQ(told.take(), "1 added a after 1");
  Registration b = directory.register_instance(instance("b", "2"), patient());
  EXPECT_EQ(told.take(), "2 added b after 2");
  b.update(instance("b", "3"), patient());
  EXPECT_EQ(told.take(), "2 changed b before 2 after 3");
  b.unregister(patient());
  EXPECT_EQ(told.take(), "1 removed b before 3");
  // Neither what is no instance nor what says the same makes a difference.
  client().create("/services/web/odd", "odd");
  client().set("/services/web/a", data() + " ");
  a.update(instance("a", "4"), patient());
  EXPECT_EQ(told.take_until([](const std::string& text) { return text.find("after 4") != text.npos; }),
            "1 changed a before 1 after 4");
}

// V49
TEST_F(DiscoveryTest, MalformedNodesAreSkippedAndReported) {
  ServiceDirectory directory = make();
  const Registration a = directory.register_instance(instance("a"), patient());
  const ServiceProvider provider = directory.provider("web");
  (void)provider.wait_ready(patient());
  EXPECT_FALSE(provider.problem());
  client().create("/services/web/b", "");
  client().create("/services/web/c", "{\"name\":");
  client().create("/services/web/d", R"({"name":"web","id":"d"})");
  EXPECT_TRUE(lists(provider, {"a", "d"}));
  EXPECT_TRUE(eventually([&] { return provider.instances().skipped.size() == 2; }));
  for (const ServiceListing& listing : {provider.instances(), directory.instances("web", patient())}) {
    EXPECT_EQ(nodes(listing), (Strings{"a", "d"}));
    ASSERT_EQ(listing.skipped.size(), 2u);
    EXPECT_EQ(listing.skipped.front().errc(), Errc::foreign_node);
    EXPECT_NE(std::string(listing.skipped.front().what()).find("/services/web/b"), std::string::npos);
    EXPECT_NE(std::string(listing.skipped.back().what()).find("no JSON text, from byte 9"), std::string::npos);
  }
  EXPECT_EQ(provider.problem()->errc(), Errc::foreign_node);
  client().remove("/services/web/b");
  client().remove("/services/web/c");
  EXPECT_TRUE(eventually([&] { return !provider.problem(); }));
}

TEST_F(DiscoveryTest, UnreadableNodesAreSkippedAndReported) {
  ServiceDirectory directory = make();
  const Registration a = directory.register_instance(instance("a"), patient());
  client().create("/services/web/b", "x", {.acl = {{zkclient::Acl::remove, "world", "anyone"}}});
  const ServiceProvider provider = directory.provider("web");
  for (const ServiceListing& listing : {provider.wait_ready(patient()), directory.instances("web", patient())}) {
    EXPECT_EQ(nodes(listing), Strings{"a"});
    ASSERT_EQ(listing.skipped.size(), 1u);
    EXPECT_EQ(listing.skipped.front().errc(), Errc::no_auth);
  }
  EXPECT_EQ(provider.problem()->errc(), Errc::no_auth);
}

// V58
TEST_F(DiscoveryTest, DisabledInstancesAreListedAndNotPicked) {
  ServiceDirectory directory = make();
  Registration a = directory.register_instance(instance("a"), patient());
  const Registration b = directory.register_instance(instance("b"), patient());
  ServiceInstance disabled = instance("a");
  disabled.enabled = false;
  a.update(disabled, patient());
  const ServiceProvider provider = directory.provider("web");
  EXPECT_EQ(nodes(provider.wait_ready(patient())), (Strings{"a", "b"}));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(provider.pick()->node, "b");
  a.update(instance("a"), patient());
  EXPECT_TRUE(eventually([&] { return provider.pick()->node == "a"; }));
}

// V58: a client that reads an instance and writes it again loses nothing of it.
TEST_F(DiscoveryTest, UnknownKeysSurviveAnUpdate) {
  ServiceDirectory directory = make();
  const std::string foreign = R"({"name":"web","id":"a","serviceType":"PERMANENT","zone":"eu"})";
  client().create("/services", "");
  client().create("/services/web", "");
  client().create("/services/web/a", foreign);
  ServiceInstance read = directory.instances("web", patient()).instances.front()->instance;
  Registration a = directory.register_instance(read, patient());
  EXPECT_TRUE(data().ends_with(R"("zone":"eu"})"));
  read.port = 81;
  a.update(read, patient());
  EXPECT_TRUE(data().ends_with(R"("zone":"eu"})"));
  a.unregister(patient());
}

// V51, V52: an empty list, and for a while a last resort.
TEST_F(DiscoveryTest, LastInstanceLeaves) {
  ServiceDirectory directory = make();
  std::optional<Registration> a(directory.register_instance(instance("a"), patient()));
  const ServiceProvider provider = directory.provider("web", {.last_resort = 1h});
  const ServiceProvider strict = directory.provider("web", {.last_resort = 0ms});
  EXPECT_TRUE(provider.wait_ready(patient()).instances.front()->confirmed);
  (void)strict.wait_ready(patient());
  a.reset();
  EXPECT_TRUE(lists(provider, {}));
  EXPECT_TRUE(lists(strict, {}));
  ASSERT_NE(provider.pick(), nullptr);
  EXPECT_FALSE(provider.pick()->confirmed);
  EXPECT_EQ(strict.pick(), nullptr);
  a.emplace(directory.register_instance(instance("a"), patient()));
  EXPECT_TRUE(eventually([&] { return provider.pick()->confirmed; }));
}

// V55
TEST_F(DiscoveryTest, AllInstancesHaveErrors) {
  ServiceDirectory directory = make();
  const Registration a = directory.register_instance(instance("a"), patient());
  const Registration b = directory.register_instance(instance("b"), patient());
  const ServiceProvider provider = directory.provider("web", {.health = {.errors = 1, .pause = 1h, .max_pause = 1h}});
  const ServiceListing listing = provider.wait_ready(patient());
  provider.note_error(nullptr);
  provider.note_error(listing.instances.front());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(provider.pick()->node, "b");
  for (int i = 0; i < 2; ++i)
    provider.note_error(listing.instances.back());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(provider.pick()->node, "a") << "the one with the fewest";
  provider.note_success(listing.instances.back());
  EXPECT_EQ(provider.pick()->node, "b");
}

// V59: the empty directory is reaped, or removed by hand.
TEST_F(DiscoveryTest, AServiceDirectoryThatWasRemoved) {
  ServiceDirectory directory = make();
  { Registration a = directory.register_instance(instance("a"), patient()); }
  const ServiceProvider provider = directory.provider("web");
  EXPECT_TRUE(nothing_left());
  client().remove_tree("/services", patient());
  EXPECT_TRUE(directory.services(patient()).empty());
  const Registration a = directory.register_instance(instance("a"), patient());
  EXPECT_TRUE(lists(provider, {"a"}));
}

TEST_F(DiscoveryTest, AClosedProviderKeepsItsList) {
  ServiceDirectory directory = make();
  const Registration a = directory.register_instance(instance("a"), patient());
  ServiceProvider provider = directory.provider("web");
  (void)provider.wait_ready(patient());
  Box<CacheState> states;
  const auto subscription = provider.on_state([&](CacheState state) { states.put(state); });
  states.take_until([](const CacheState& state) { return state == CacheState::current; });
  provider.close();
  provider.close();
  EXPECT_EQ(provider.state(), CacheState::closed);
  EXPECT_EQ(provider.pick()->node, "a");
}

// More than are read at a time.
TEST_F(DiscoveryTest, ManyInstances) {
  client().create("/services", "");
  client().create("/services/web", "");
  for (int begin = 0; begin < 300; begin += 100) {
    zkclient::Transaction transaction;
    for (int i = begin; i < begin + 100; ++i) {
      const std::string id = std::to_string(1000 + i);
      transaction.create(path() / id, R"({"name":"web","id":")" + id + "\"}");
    }
    client().commit(transaction);
  }
  const ServiceDirectory directory = make();
  const ServiceListing listing = directory.instances("web", patient());
  ASSERT_EQ(listing.instances.size(), 300u);
  EXPECT_TRUE(std::is_sorted(listing.instances.begin(), listing.instances.end(),
                             [](const auto& one, const auto& other) { return one->node < other->node; }));
  EXPECT_EQ(listing.instances.back()->instance.id, "1299");
}

// Each type, without waiting; listeners are told of each change, and of nothing once the registration has gone.
TEST_F(DiscoveryTest, BeginsToRegister) {
  ServiceDirectory directory = make();
  for (const ServiceType type :
       {ServiceType::dynamic, ServiceType::dynamic_sequential, ServiceType::fixed, ServiceType::permanent}) {
    SCOPED_TRACE(to_string(type));
    Box<PresenceState> states;
    const auto note = [&](PresenceState state) { states.put(state); };
    std::optional<Registration> a(directory.begin_register_instance(of_type("a", type)));
    const auto subscription = a->on_state(note);
    a->wait_present(patient());
    states.take_until([](const PresenceState& state) { return state == PresenceState::present; });
    EXPECT_EQ(a->state(), PresenceState::present);
    EXPECT_EQ(a->token().value, client().get(a->node()).stat.czxid);
    a->update(of_type("a", type), patient());
    Box<bool> present;
    a->async_wait_present([&](zkclient::Result<void> result) { present.put(result.has_value()); });
    EXPECT_TRUE(present.take());
    EXPECT_EQ(error_of([&] { (void)a->on_state({}); }), Errc::invalid_argument);
    const zkclient::Path node = a->node();
    a.reset();
    EXPECT_TRUE(states.empty());
    if (type == ServiceType::permanent) {
      EXPECT_TRUE(client().exists(node)) << "it was there";
      client().remove(node);
    }
    EXPECT_TRUE(nothing_left());
  }
  const Registration theirs = directory.register_instance(instance("a"), patient());
  const zkclient::Client other = make_client();
  Registration refused = ServiceDirectory(other, "/services").begin_register_instance(of_type("a", ServiceType::fixed));
  EXPECT_EQ(error_of([&] { refused.wait_present(patient()); }), Errc::node_exists);
  EXPECT_EQ(client().get("/services/web/a").stat.czxid, theirs.token().value);
  refused.unregister(patient());
  EXPECT_EQ(client().get("/services/web/a").stat.czxid, theirs.token().value);
}

TEST_F(DiscoveryTest, BadInput) {
  EXPECT_EQ(error_of([&] { ServiceDirectory(client(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { ServiceDirectory(client(), "/services", {.acl = {}}); }), Errc::invalid_acl);
  ServiceDirectory directory = make();
  for (const char* name : {"", "a/b", "..", "."}) {
    EXPECT_EQ(error_of([&] { (void)directory.provider(name); }), Errc::invalid_path) << name;
    EXPECT_EQ(error_of([&] { (void)directory.instances(name); }), Errc::invalid_path) << name;
    ServiceInstance bad = instance("a");
    bad.name = name;
    EXPECT_EQ(error_of([&] { (void)directory.register_instance(bad); }), Errc::invalid_path) << name;
    EXPECT_EQ(error_of([&] { (void)directory.begin_register_instance(bad); }), Errc::invalid_path) << name;
    if (*name == '\0') continue;
    EXPECT_EQ(error_of([&] { (void)directory.register_instance(instance(name)); }), Errc::invalid_path) << name;
  }
  EXPECT_EQ(error_of([&] { (void)directory.register_instance(instance("a", "no JSON")); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)directory.provider("web", {.health = {.errors = 0}}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)directory.provider("web", {.last_resort = -1ms}); }), Errc::invalid_argument);
  Registration a = directory.register_instance(instance(""), patient());
  EXPECT_EQ(a.instance().id.size(), 36u) << "one is made up";
  EXPECT_EQ(error_of([&] { a.update(instance("other")); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { a.update(of_type("", ServiceType::fixed)); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { a.update(instance("", "{")); }), Errc::invalid_argument);
  ServiceInstance large = instance("");
  large.address = std::string(std::size_t{2} << 20U, 'x');
  EXPECT_EQ(error_of([&] { a.update(large, patient()); }), Errc::too_large);
  EXPECT_EQ(error_of([&] { (void)directory.provider("web").on_change({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { directory.provider("web").async_wait_ready({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { directory.async_register_instance(instance("b"), {}); }), Errc::invalid_argument);
}

TEST_F(DiscoveryTest, AsynchronousForms) {
  ServiceDirectory directory = make();
  for (const ServiceType type : {ServiceType::dynamic, ServiceType::permanent}) {
    Box<std::string> told;
    std::optional<Registration> a;
    directory.async_register_instance(of_type("a", type), [&](zkclient::Result<Registration> registered) {
      a.emplace(std::move(registered).value());
      told.put("registered");
    });
    EXPECT_EQ(told.take(), "registered");
    a->async_update(of_type("a", type), [&](zkclient::Result<void> done) { told.put(done ? "updated" : "failed"); });
    EXPECT_EQ(told.take(), "updated");
    directory.async_services([&](zkclient::Result<Strings> names) { told.put(names.value().front()); });
    EXPECT_EQ(told.take(), "web");
    directory.async_instances("web", [&](zkclient::Result<ServiceListing> now) { told.put(nodes(*now).front()); });
    EXPECT_EQ(told.take(), "a");
    const ServiceProvider provider = directory.provider("web");
    provider.async_wait_ready([&](zkclient::Result<ServiceListing> now) { told.put(nodes(*now).front()); });
    EXPECT_EQ(told.take(), "a");
    a->async_unregister([&](zkclient::Result<void> done) { told.put(done ? "unregistered" : "failed"); });
    EXPECT_EQ(told.take(), "unregistered");
  }
  EXPECT_TRUE(nothing_left());
}

}  // namespace
}  // namespace zkrecipes
