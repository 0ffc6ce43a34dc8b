#include <zkrecipes/naming.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <utility>

#include <zkclient/error.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Names = std::vector<std::string>;

class NamingTest : public testkit::RecipeTest {
 protected:
  NamingTest() : RecipeTest("/names") {}
  void TearDown() override {
    expect_no_watch_left();
    RecipeTest::TearDown();
  }
  std::string data(const std::string& name) { return client().get(path() / name, patient()).data; }
  /// Deletes the node of a bound name; what its holder has besides stays until it knows.
  static void rob(const Client& by, const std::string& name) { by.remove(Path("/names") / name); }
};

// --- Bindings with a lease ------------------------------------------------------------------------------------------

TEST_F(NamingTest, ANameIsANodeWithTheDataOfItsHolder) {
  Naming naming(client(), path(), {.id = "me"});
  const std::string binary("a\0b\xff", 4);
  Lease lease = naming.bind("printer", binary, patient());
  const auto node = client().get("/names/printer");
  EXPECT_EQ(node.data, binary);
  EXPECT_EQ(node.stat.ephemeral_owner, lease.session()->id());
  EXPECT_EQ(node.stat.czxid, lease.token().value);
  EXPECT_EQ(Naming::name_of(lease), "printer");
  EXPECT_TRUE(client().get(Path(lease.node())).data.starts_with("id=me host="));
  const std::optional<Binding> binding = naming.resolve("printer", patient());
  ASSERT_TRUE(binding);
  EXPECT_EQ(binding->name, "printer");
  EXPECT_EQ(binding->data, binary);
  EXPECT_EQ(binding->version, 0);
  EXPECT_EQ(binding->token, lease.token());
  EXPECT_FALSE(binding->permanent);
  EXPECT_NO_THROW(client().commit(lease.transaction().set("/names/printer", "next"), patient()));
  EXPECT_EQ(naming.resolve("printer", patient())->data, "next");
  lease.release(patient());
  EXPECT_FALSE(naming.resolve("printer", patient()));
  EXPECT_TRUE(remain(0));
}

TEST_F(NamingTest, ExcludesSessionsAndObjects) {
  constexpr int sessions = 4;
  constexpr int rounds = 10;
  testkit::Holdings holdings;
  {
    std::vector<std::jthread> crew;
    for (int s = 0; s < sessions; ++s) {
      crew.emplace_back([&, s] {
        Client own = s % 2 == 0 ? make_client() : client();
        Naming naming(own, path());
        for (int i = 0; i < rounds; ++i) {
          Lease lease = naming.bind("one", std::to_string(s), patient());
          EXPECT_TRUE(holdings.hold(lease, 200us));
          if (i % 2 == 0) lease.release(patient());
        }
      });
    }
  }
  EXPECT_EQ(holdings.size(), std::size_t{sessions * rounds});
  holdings.expect_no_overlap();
  EXPECT_TRUE(remain(0));
}

TEST_F(NamingTest, NamesDoNotDisturbEachOther) {
  Naming naming(client(), path());
  const Lease a = naming.bind("a", "1", patient());
  const Lease b = naming.bind("b", "2", patient());
  naming.bind_permanent("c", "3", patient());
  const Lease longer = naming.bind("x-a", "4", patient());
  EXPECT_TRUE(a.valid() && b.valid() && longer.valid());
  EXPECT_EQ(naming.list(patient()), (Names{"a", "b", "c", "x-a"}));
  EXPECT_EQ(data("a") + data("b") + data("c") + data("x-a"), "1234");
}

TEST_F(NamingTest, NameHeldByAnother) {
  Client other = make_client();
  Naming naming(client(), path());
  Naming rival(other, path());
  Lease held = naming.bind("one", "first", patient());
  EXPECT_FALSE(rival.try_bind("one", "second", patient()));
  std::error_code why;
  EXPECT_FALSE(rival.try_bind_for("one", "second", 0s, why));
  EXPECT_EQ(why, Errc::not_available);
  EXPECT_FALSE(rival.try_bind_until("one", "second", SteadyClock::now() + 30ms));
  EXPECT_EQ(error_of([&] { rival.bind_permanent("one", "second", patient()); }), Errc::node_exists);
  EXPECT_EQ(error_of([&] { rival.unbind("one", 0, patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { rival.unbind("one", any_version, patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { rival.rebind("one", "second", 0, patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { rival.rebind("one", "second", any_version, patient()); }), Errc::foreign_node);
  EXPECT_EQ(data("one"), "first");
  auto waiting = in_thread([&] { return rival.bind("one", "second", patient()); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  EXPECT_TRUE(held.valid());
  const FencingToken token = held.token();
  held.release(patient());
  const Lease next = result_of(waiting);
  EXPECT_GT(next.token(), token);
  EXPECT_EQ(data("one"), "second");
}

TEST_F(NamingTest, NameBoundPermanently) {
  Naming naming(client(), path());
  naming.bind_permanent("one", "for good", patient());
  EXPECT_EQ(error_of([&] { naming.bind_permanent("one", "again", patient()); }), Errc::node_exists);
  EXPECT_FALSE(naming.try_bind("one", "mine", patient()));
  auto waiting = in_thread([&] { return naming.bind("one", "mine", patient()); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  EXPECT_EQ(naming.rebind("one", "changed", 0, patient()), 1);
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  naming.unbind("one", 1, patient());
  EXPECT_TRUE(result_of(waiting).valid());
}

TEST_F(NamingTest, DeadlineOrStopWhileWaiting) {
  Naming naming(client(), path());
  Lease held = naming.bind("one", "held", patient());
  EXPECT_EQ(error_of([&] { (void)naming.bind("one", "", {.deadline = 30ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)naming.bind("one", "", {.stop = stop.get_token()}); }); });
  EXPECT_EQ(waiting.wait_for(30ms), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_TRUE(remain(2)) << "the holder's two nodes";
  EXPECT_EQ(data("one"), "held");
}

TEST_F(NamingTest, NodeDeletedByHandWhileBound) {
  Naming naming(client(), path());
  for (const bool name : {true, false}) {
    Lease lease = naming.bind("one", "data", patient());
    client().remove(name ? Path("/names/one") : Path(lease.node()));
    EXPECT_TRUE(stopped(lease.lost()));
    EXPECT_EQ(lease.state(), LeaseState::lost);
    EXPECT_TRUE(remain(0)) << "what is left goes too";
  }
}

// Robbed of its node, the former holder does not know it yet: it takes nothing of what came after it for its own.
TEST_F(NamingTest, ReleaseAfterTheNodeWasDeleted) {
  Client other = make_client();
  Naming naming(client(), path());
  Naming rival(other, path());
  for (int i = 0; i < 20; ++i) {
    Lease robbed = naming.bind("one", "first", patient());
    std::error_code ignored;
    rob(other, "one");
    if (i % 2 == 0) {
      rival.bind_permanent("one", "for good", patient());
      robbed.release(patient(), ignored);
      client().sync("/", patient());
      EXPECT_EQ(data("one"), "for good");
      rival.unbind("one", 0, patient());
    } else {
      Lease next = rival.bind("one", "second", patient());
      robbed.release(patient(), ignored);
      client().sync("/", patient());
      EXPECT_EQ(data("one"), "second");
      EXPECT_TRUE(next.valid());
      next.release(patient());
    }
  }
}

// The case before, without the race: what a robbed holder has left is there when the name is bound for good.
TEST_F(NamingTest, AFormerHoldersLeftoverGoesBeforeAPermanentBinding) {
  const Path leftover = "/names/_c_0f8fad5b-d9cb-469f-a165-70867728950e-one";
  const Path of_another = "/names/_c_0f8fad5b-d9cb-469f-a165-70867728950e-other";
  client().ensure(path());
  client().create(leftover, "");
  client().create(of_another, "");
  Naming naming(client(), path());
  naming.bind_permanent("one", "for good", patient());
  EXPECT_FALSE(client().exists(leftover));
  EXPECT_TRUE(client().exists(of_another));
  EXPECT_EQ(naming.list(patient()), Names{"one"});
}

// To the holders of locks, these texts are requests to give them back.
TEST_F(NamingTest, DataWrittenByAnotherClient) {
  NEEDS_CONTROL();
  Client other = make_client();
  Naming naming(client(), path());
  for (const char* text : {"__REVOKE__", "unlock", "foreign"}) {
    Lease lease = naming.bind("one", "mine", patient());
    const auto looks = [&] {
      return testkit::watch_appears(server(), lease.session()->id(), prefix().str() + "/names/one");
    };
    ASSERT_TRUE(looks());
    other.set("/names/one", text);
    ASSERT_TRUE(looks()) << "the holder looks again";
    for (int i = 0; i < 2; ++i)
      client().sync("/names", patient());  // What it makes of that is sent in between at the latest.
    const std::optional<Binding> now = naming.resolve("one", patient());
    EXPECT_EQ(now->data, text);
    EXPECT_EQ(now->version, 1) << "nothing is written back";
    EXPECT_FALSE(lease.revoke_requested().stop_requested()) << text;
    EXPECT_TRUE(lease.valid());
    lease.release(patient());
    Lease own = naming.bind("one", text, patient());
    ASSERT_TRUE(looks());
    EXPECT_EQ(naming.resolve("one", patient())->version, 0);
    EXPECT_FALSE(own.revoke_requested().stop_requested()) << text;
    own.release(patient());
  }
}

TEST_F(NamingTest, UniqueNames) {
  Naming naming(client(), path());
  Lease a = naming.make_unique("worker-", "a", patient());
  Lease b = naming.make_unique("worker-", "b", patient());
  const Lease bare = naming.make_unique("", "c", patient());
  const std::string name = Naming::name_of(a);
  EXPECT_TRUE(name.starts_with("worker-"));
  EXPECT_EQ(name.size(), 7U + 36U);
  EXPECT_NE(name, Naming::name_of(b));
  EXPECT_EQ(Naming::name_of(bare).size(), 36U);
  EXPECT_EQ(naming.resolve(name, patient())->data, "a");
  EXPECT_EQ(naming.list(patient()).size(), 3U);
  EXPECT_EQ(error_of([&] { naming.bind_permanent(name, "", patient()); }), Errc::node_exists);
  a.release(patient());
  EXPECT_FALSE(naming.resolve(name, patient()));
  EXPECT_EQ(Naming::name_of(Lease()), "");
}

// --- Permanent bindings ---------------------------------------------------------------------------------------------

TEST_F(NamingTest, PermanentBindings) {
  {
    Client binder = make_client();
    Naming naming(binder, path());
    naming.bind_permanent("db", "10.0.0.7:5432", patient());
    EXPECT_EQ(naming.list(patient()), Names{"db"});
  }
  Naming naming(client(), path());
  std::optional<Binding> binding = naming.resolve("db", patient());
  ASSERT_TRUE(binding) << "it outlives the client that bound it";
  EXPECT_TRUE(binding->permanent);
  EXPECT_EQ(binding->data, "10.0.0.7:5432");
  EXPECT_EQ(naming.rebind("db", "10.0.0.8:5432", binding->version, patient()), 1);
  EXPECT_EQ(error_of([&] { naming.rebind("db", "late", binding->version, patient()); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { naming.unbind("db", binding->version, patient()); }), Errc::bad_version);
  EXPECT_EQ(naming.rebind("db", "", any_version, patient()), 2);
  const std::optional<Binding> changed = naming.resolve("db", patient());
  EXPECT_EQ(changed->data, "");
  EXPECT_EQ(changed->version, 2);
  EXPECT_EQ(changed->token, binding->token);
  naming.unbind("db", 2, patient());
  EXPECT_FALSE(naming.resolve("db", patient()));
  EXPECT_EQ(error_of([&] { naming.rebind("db", "x", 2, patient()); }), Errc::no_node);
  EXPECT_EQ(error_of([&] { naming.rebind("db", "x", any_version, patient()); }), Errc::no_node);
  EXPECT_EQ(error_of([&] { naming.unbind("db", any_version, patient()); }), Errc::no_node);
  naming.bind_permanent("db", "again", patient());
  EXPECT_GT(naming.resolve("db", patient())->token, binding->token);
  naming.unbind("db", any_version, patient());
  EXPECT_EQ(naming.list(patient()), Names{});
}

TEST_F(NamingTest, ManyRebindWithoutLosingAChange) {
  Naming naming(client(), path());
  naming.bind_permanent("count", "0", patient());
  constexpr int writers = 4;
  constexpr int rounds = 10;
  {
    std::vector<std::jthread> crew;
    for (int w = 0; w < writers; ++w) {
      crew.emplace_back([&] {
        Client own = make_client();
        Naming mine(own, path());
        for (int done = 0; done < rounds;) {
          own.sync(path(), patient());
          const auto seen = mine.resolve("count", patient());
          try {
            mine.rebind("count", std::to_string(std::stoi(seen->data) + 1), seen->version, patient());
            ++done;
          } catch (const Error& error) {
            ASSERT_EQ(error.errc(), Errc::bad_version) << error.what();
          }
        }
      });
    }
  }
  client().sync(path(), patient());
  const auto last = naming.resolve("count", patient());
  EXPECT_EQ(last->data, std::to_string(writers * rounds));
  EXPECT_EQ(last->version, writers * rounds);
}

TEST_F(NamingTest, DirectoryMissingOrRemoved) {
  const Path deep = "/a/b/names";
  Naming naming(client(), deep);
  EXPECT_EQ(naming.list(patient()), Names{});
  EXPECT_FALSE(naming.resolve("one", patient()));
  EXPECT_EQ(error_of([&] { naming.unbind("one", 0, patient()); }), Errc::no_node);
  EXPECT_EQ(error_of([&] { naming.rebind("one", "", 0, patient()); }), Errc::no_node);
  client().remove_tree(deep);
  naming.bind_permanent("one", "x", patient());
  EXPECT_EQ(naming.resolve("one", patient())->data, "x");
  client().remove_tree("/a");
  naming.bind_permanent("one", "y", patient());
  EXPECT_EQ(naming.resolve("one", patient())->data, "y");
  client().remove_tree("/a");
  const Lease lease = naming.bind("one", "z", patient());
  EXPECT_EQ(naming.resolve("one", patient())->data, "z");
}

// --- Foreign nodes, bad input ---------------------------------------------------------------------------------------

TEST_F(NamingTest, ForeignNodeInTheDirectory) {
  Naming naming(client(), path());
  client().ensure(path());
  client().create("/names/foreign", "secret");
  client().create("/names/parent", "");
  client().create("/names/parent/child", "");
  client().create("/names/_c_helper", "");
  client().create("/names/null", std::nullopt);
  client().create("/names/box", "", {.mode = zkclient::CreateMode::container});
  EXPECT_EQ(naming.list(patient()), (Names{"box", "foreign", "null", "parent"}));
  EXPECT_EQ(naming.resolve("foreign", patient())->data, "secret");
  EXPECT_EQ(naming.resolve("null", patient())->data, "");
  EXPECT_TRUE(naming.resolve("box", patient())->permanent);
  EXPECT_FALSE(naming.try_bind("foreign", "mine", patient()));
  EXPECT_EQ(error_of([&] { naming.bind_permanent("foreign", "mine", patient()); }), Errc::node_exists);
  EXPECT_EQ(error_of([&] { naming.unbind("parent", any_version, patient()); }), Errc::not_empty);
  EXPECT_EQ(naming.rebind("parent", "x", 0, patient()), 1);
  EXPECT_EQ(names("/names/parent"), Names{"child"}) << "no other node stays there";
  naming.unbind("foreign", 0, patient());
  EXPECT_FALSE(client().exists("/names/foreign"));
}

TEST_F(NamingTest, RefusesBadNames) {
  Naming naming(client(), path());
  const auto refuses = [&](const std::string& name) {
    const std::vector<std::pair<const char*, std::function<void()>>> calls = {
        {"naming bind", [&] { (void)naming.bind(name, ""); }},
        {"naming bind", [&] { (void)naming.try_bind(name, ""); }},
        {"naming bind", [&] { (void)naming.try_bind_for(name, "", 1s); }},
        {"naming bind", [&] { (void)naming.try_bind_until(name, "", SteadyClock::now()); }},
        {"naming bind", [&] { naming.async_bind(name, "", [](auto) {}); }},
        {"naming bind", [&] { naming.async_try_bind(name, "", [](auto) {}); }},
        {"naming bind_permanent", [&] { naming.bind_permanent(name, ""); }},
        {"naming bind_permanent", [&] { naming.async_bind_permanent(name, "", [](auto) {}); }},
        {"naming rebind", [&] { naming.rebind(name, "", 0); }},
        {"naming rebind", [&] { naming.async_rebind(name, "", 0, [](auto) {}); }},
        {"naming unbind", [&] { naming.unbind(name, 0); }},
        {"naming unbind", [&] { naming.async_unbind(name, 0, [](auto) {}); }},
        {"naming resolve", [&] { (void)naming.resolve(name); }},
        {"naming resolve", [&] { naming.async_resolve(name, [](auto) {}); }},
    };
    for (const auto& [operation, call] : calls) {
      try {
        call();
        ADD_FAILURE() << operation << ": " << name;
      } catch (const Error& error) {
        EXPECT_EQ(error.errc(), Errc::invalid_argument) << error.what();
        EXPECT_EQ(error.operation(), operation);
        EXPECT_EQ(error.path(), "/names");
        EXPECT_TRUE(error.detail().starts_with("the name ")) << error.detail();
      }
    }
  };
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string("/a"), std::string("."), std::string(".."), std::string("_c_"),
        std::string("_c_writes"), std::string("a\0b", 3), std::string("\xff"), std::string("a\n"),
        std::string(70'000, 'x')})
    refuses(name);
  for (const std::string& prefix : {std::string("a/"), std::string("_c_x"), std::string("\xff")}) {
    EXPECT_EQ(error_of([&] { (void)naming.make_unique(prefix, ""); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { naming.async_make_unique(prefix, "", [](auto) {}); }), Errc::invalid_argument);
  }
  EXPECT_TRUE(names().empty());
  EXPECT_EQ(error_of([&] { Naming(client(), "names"); }), Errc::invalid_path);
  EXPECT_EQ(error_of([&] { Naming(client(), "/names", {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { naming.bind_permanent("big", std::string(20'000'000, 'x'), patient()); }), Errc::too_large);
  EXPECT_EQ(error_of([&] { (void)naming.bind("big", std::string(20'000'000, 'x'), patient()); }), Errc::too_large);
  EXPECT_EQ(naming.list(patient()), Names{});
}

// Every node that the recipe makes has the list it was given.
TEST_F(NamingTest, AccessIsThatOfTheOptions) {
  const zkclient::AclList own = zkclient::creator_all_acl();
  Client owner = make_client();
  owner.add_auth("digest", "owner:secret", patient());
  Naming naming(owner, path(), {.acl = own});
  const Lease lease = naming.bind("held", "x", patient());
  naming.bind_permanent("permanent", "y", patient());
  const auto creator = owner.get_acl("/names/held", patient()).acl;
  EXPECT_EQ(creator.front().scheme, "digest");
  for (const Path& node : {Path("/names"), Path(lease.node()), Path("/names/permanent"), Path("/names/_c_writes")})
    EXPECT_EQ(owner.get_acl(node, patient()).acl, creator) << node;
  Naming stranger(client(), path());
  EXPECT_EQ(error_of([&] { (void)stranger.resolve("held", patient()); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { (void)stranger.list(patient()); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { (void)stranger.try_bind("other", "", patient()); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { stranger.bind_permanent("other", "", patient()); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { stranger.rebind("permanent", "", 0, patient()); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { stranger.unbind("permanent", 0, patient()); }), Errc::no_auth);
  naming.unbind("permanent", 0, patient());
  EXPECT_EQ(naming.list(patient()), Names{"held"});
  owner.remove_tree(path(), patient());  // The test's own client could not.
}

// The nodes that make writes happen once go with the object, or with the last of its calls.
TEST_F(NamingTest, NothingStaysBehind) {
  for (int i = 0; i < 5; ++i) {
    testkit::Box<bool> done;
    {
      Naming naming(client(), path());
      naming.bind_permanent("one", "", patient());
      naming.async_unbind(
          "one", 0, [&](const auto& result) { done.put(result.has_value()); }, patient());
    }
    EXPECT_TRUE(done.take());
    EXPECT_TRUE(remain(0, "/names/_c_writes"));
  }
  EXPECT_EQ(Naming(client(), path()).list(patient()), Names{});
}

}  // namespace
}  // namespace zkrecipes
