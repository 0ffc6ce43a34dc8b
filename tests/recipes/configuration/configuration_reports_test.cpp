// What followers tell of themselves, and the rows of the table "What goes wrong" in <zkrecipes/configuration.hpp> that are
// about that.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include <zkclient/error.hpp>
#include <zkrecipes/configuration.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

using Ids = std::vector<std::string>;

class ConfigurationReports : public testkit::RecipeFaultTest {
 protected:
  ConfigurationReports() : RecipeFaultTest("/config") {}

  static ConfigurationOptions reporter(std::string id) {
    ConfigurationOptions options;
    options.id = std::move(id);
    options.report = true;
    return options;
  }
  /// Refuses the value "bad".
  static ConfigurationOptions picky_reporter(std::string id) {
    ConfigurationOptions options = reporter(std::move(id));
    options.validate = [](const ConfigurationValues& values) {
      for (const auto& [key, value] : values.values) {
        if (value.text == "bad") throw std::runtime_error(key + " is\nbad");
      }
    };
    return options;
  }
  /// As revision `revision`.
  void publish(std::int64_t revision, const std::string& value) {
    ConfigurationUpdate update;
    update.values = {{"a", value}};
    ASSERT_EQ(publisher.publish(update, revision - 1, patient()), revision);
  }
  static zkclient::Path node(const std::string& id) { return zkclient::Path("/config/-applied") / id; }
  /// What is heard at once.
  ConfigurationRollOut now(std::int64_t revision, const Ids& ids) {
    return publisher.wait_applied(revision, ids, {.deadline = testkit::SteadyClock::now()});
  }
  bool becomes_missing(const std::string& id) {
    return eventually([&] { return now(0, {id}).missing == Ids{id}; });
  }
  std::string data(const std::string& id) {
    std::error_code none;
    return the_operator().get(node(id), {}, none).data;
  }

  Configuration publisher{the_operator(), "/config"};
};

TEST_F(ConfigurationReports, FollowersTellWhatIsInForce) {
  const Client client = calm_proxied();
  const Configuration one(client, "/config", reporter("one"));
  const Configuration other(client, "/config", reporter("other"));
  ConfigurationRollOut before = publisher.wait_applied(1, {"one"}, {.deadline = 50ms});
  EXPECT_TRUE(eventually([&] {
    before = now(1, {"one", "other"});
    return before.behind.size() == 2;
  }));
  EXPECT_EQ(before.behind.front(), (ConfigurationReport{"one", std::nullopt, std::nullopt, ""}));
  EXPECT_FALSE(before.complete());
  for (std::int64_t revision = 1; revision <= 3; ++revision) {
    publish(revision, std::to_string(revision));
    const ConfigurationRollOut out = publisher.wait_applied(revision, {"other", "one"}, patient());
    EXPECT_TRUE(out.complete());
    ASSERT_EQ(out.applied.size(), 2U);
    EXPECT_EQ(out.applied.front(), (ConfigurationReport{"other", revision, std::nullopt, ""}));
    EXPECT_EQ(one.current()->revision, revision) << "in force where it is reported";
  }
  EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete()) << "a later one will do";
  const std::int64_t epoch = the_operator().get("/config").stat.czxid;
  EXPECT_EQ(data("one"), "configuration report 1\nof " + std::to_string(epoch) + "\napplied 3\n");
  EXPECT_EQ(the_operator().get(node("one")).stat.ephemeral_owner, client.session().id());
}

TEST_F(ConfigurationReports, TheReportGoesWithItsFollower) {
  publish(1, "1");
  const Client client = calm_proxied();
  Configuration one(client, "/config", reporter("one"));
  EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
  one.close();
  EXPECT_TRUE(becomes_missing("one"));
  {
    const Configuration again(client, "/config", reporter("one"));
    EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
  }
  EXPECT_TRUE(becomes_missing("one"));
  EXPECT_TRUE(names("/config/-presence").empty());
}

TEST_F(ConfigurationReports, AFollowerRefuses) {
  const Client client = calm_proxied();
  const Configuration one(client, "/config", reporter("one"));
  const Configuration picky(client, "/config", picky_reporter("picky"));
  publish(1, "1");
  EXPECT_TRUE(publisher.wait_applied(1, {"one", "picky"}, patient()).complete());
  publish(2, "bad");
  ConfigurationRollOut out = publisher.wait_applied(2, {"one", "picky"}, patient());
  EXPECT_FALSE(out.complete());
  ASSERT_EQ(out.applied.size(), 1U);
  EXPECT_EQ(out.applied.front().id, "one");
  ASSERT_EQ(out.refused.size(), 1U);
  EXPECT_EQ(out.refused.front(), (ConfigurationReport{"picky", 1, 2, "a is bad"}));
  EXPECT_TRUE(publisher.wait_applied(1, {"picky"}, patient()).complete()) << "that one is in force still";
  publish(3, "3");
  out = publisher.wait_applied(3, {"picky"}, patient());
  EXPECT_EQ(out.applied, (std::vector<ConfigurationReport>{{"picky", 3, std::nullopt, ""}}));
}

TEST_F(ConfigurationReports, Deadline) {
  const Client client = calm_proxied();
  testkit::Box<bool> go;
  std::atomic<bool> in_time{true};
  ConfigurationOptions slow = reporter("slow");
  slow.validate = [&](const ConfigurationValues& values) {
    if (values.revision == 2) in_time = go.take();
  };
  const Configuration one(client, "/config", reporter("one"));
  const Configuration behind(client, "/config", slow);
  publish(1, "1");
  EXPECT_TRUE(publisher.wait_applied(1, {"one", "slow"}, patient()).complete());
  publish(2, "2");
  EXPECT_TRUE(publisher.wait_applied(2, {"one"}, patient()).complete());
  ConfigurationRollOut out = publisher.wait_applied(2, {"one", "nobody", "slow"}, {.deadline = 50ms});
  ASSERT_EQ(out.applied.size(), 1U);
  EXPECT_EQ(out.behind, (std::vector<ConfigurationReport>{{"slow", 1, std::nullopt, ""}}));
  EXPECT_EQ(out.missing, Ids{"nobody"});
  auto waiting = in_thread([&] { return publisher.wait_applied(2, {"slow"}, patient()); });
  go.put(true);
  EXPECT_TRUE(result_of(waiting).complete());
  EXPECT_TRUE(publisher.wait_applied(7, {}).complete()) << "nobody is asked";
}

TEST_F(ConfigurationReports, ReportLost) {
  publish(1, "1");
  std::int64_t revision = 1;
  for (const RequestType type : {RequestType::multi, RequestType::set_data}) {
    for (const bool request : {true, false}) {
      const Client client = calm_proxied();
      auto fault = lose(request, type);
      const Configuration one(client, "/config", reporter("one"));
      EXPECT_TRUE(publisher.wait_applied(revision, {"one"}, patient()).complete());
      EXPECT_TRUE(fault.wait(patience));
      publish(++revision, "x");
      EXPECT_TRUE(publisher.wait_applied(revision, {"one"}, patient()).complete());
    }
  }
}

TEST_F(ConfigurationReports, SessionOfAFollowerLost) {
  publish(1, "1");
  const Client client = calm_proxied();
  const Configuration one(client, "/config", reporter("one"));
  EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
  const zkclient::Session session = client.connect(patient());
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  EXPECT_TRUE(becomes_missing("one"));
  publish(2, "2");
  proxy.refuse(false);
  EXPECT_TRUE(publisher.wait_applied(2, {"one"}, patient()).complete());
}

TEST_F(ConfigurationReports, ReportDeletedOrWrittenByHand) {
  publish(1, "1");
  const Client client = calm_proxied();
  const Configuration one(client, "/config", reporter("one"));
  EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
  const std::string report = data("one");
  the_operator().remove(node("one"));
  EXPECT_TRUE(eventually([&] { return data("one") == report; }));
  the_operator().set(node("one"), "configuration report 1\napplied 9\n");
  EXPECT_TRUE(eventually([&] { return data("one") == report; }));
  the_operator().create(node("by hand"), "configuration report 1\napplied 9\n");
  EXPECT_TRUE(eventually([&] { return names("/config/-applied").size() == 2; }));
  EXPECT_EQ(now(1, {"by hand"}).missing, Ids{"by hand"}) << "it tells of nobody who lives";
}

// A follower that is cut off still says what it has of the former path, as if that were a later revision.
TEST_F(ConfigurationReports, PathRemovedAndMadeAgain) {
  for (std::int64_t revision = 1; revision <= 3; ++revision)
    publish(revision, std::to_string(revision));
  const Client client = calm_proxied();
  const Configuration one(client, "/config", reporter("one"));
  EXPECT_TRUE(publisher.wait_applied(3, {"one"}, patient()).complete());
  const std::string report = data("one");
  proxy.stall(zktesting::Direction::both);
  the_operator().remove_tree("/config", patient());
  publish(1, "new");
  // So the publisher, which judges the reports, knows which path is the present one.
  ASSERT_TRUE(eventually([&] {
    const ConfigurationPtr current = publisher.current();
    return current != nullptr && current->revision == 1 && current->values.contains("a") && current->at("a") == "new";
  }));
  // As one does that has seen the removal, and not yet what came after it.
  Client hasty = calm_direct();
  hasty.ensure("/config/-applied", zkclient::CreateMode::persistent);
  hasty.create(node("one"), report, {.mode = zkclient::CreateMode::ephemeral});
  EXPECT_TRUE(eventually([&] { return now(1, {"one"}).missing.empty(); }));
  EXPECT_EQ(now(1, {"one"}).behind, (std::vector<ConfigurationReport>{{"one"}}));
  auto waiting = in_thread([&] { return publisher.wait_applied(1, {"one"}, patient()); });
  hasty.close();
  proxy.unstall(zktesting::Direction::both);
  const ConfigurationRollOut out = result_of(waiting);
  EXPECT_EQ(out.applied, (std::vector<ConfigurationReport>{{"one", 1, std::nullopt, ""}}));
  EXPECT_EQ(one.current()->at("a"), "new");
}

TEST_F(ConfigurationReports, ReportCannotBeWritten) {
  publish(1, "1");
  zkclient::CreateOptions closed;
  closed.acl = zkclient::AclList{{zkclient::Acl::read, "world", "anyone"}};
  the_operator().create("/config/-applied", "", closed);
  const Client client = calm_proxied();
  const Configuration one(client, "/config", reporter("one"));
  EXPECT_EQ(one.wait_live(patient())->revision, 1) << "it follows all the same";
  EXPECT_TRUE(eventually([&] { return one.problem() && one.problem()->errc() == Errc::no_auth; }));
  EXPECT_EQ(one.origin(), ConfigurationOrigin::live);
  EXPECT_EQ(now(1, {"one"}).missing, Ids{"one"});
}

TEST_F(ConfigurationReports, ReportsCannotBeRead) {
  publish(1, "1");
  zkclient::CreateOptions closed;
  closed.acl = zkclient::AclList{{zkclient::Acl::write | zkclient::Acl::create, "world", "anyone"}};
  the_operator().create("/config/-applied", "", closed);
  EXPECT_EQ(error_of([&] { publisher.wait_applied(1, {"one"}, patient()); }), Errc::no_auth);
}

TEST_F(ConfigurationReports, TwoFollowersWithOneId) {
  publish(1, "1");
  const Client client = calm_proxied();
  const Client later = calm_proxied();
  const Configuration one(client, "/config", reporter("one"));
  EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
  EXPECT_EQ(the_operator().get(node("one")).stat.ephemeral_owner, client.session().id());
  {
    const Configuration other(later, "/config", reporter("one"));
    EXPECT_TRUE(eventually([&] { return one.problem() && one.problem()->errc() == Errc::node_exists; }));
    EXPECT_EQ(the_operator().get(node("one")).stat.ephemeral_owner, later.session().id());
    EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
  }
  EXPECT_TRUE(eventually([&] { return !one.problem(); }));
  EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
}

TEST_F(ConfigurationReports, WrongQuestions) {
  EXPECT_EQ(error_of([&] { publisher.wait_applied(1, {"one", ""}, patient()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { publisher.wait_applied(1, {"a/b"}, patient()); }), Errc::invalid_argument);
  const auto make = [&](std::string id) { Configuration(the_operator(), "/config", reporter(std::move(id))); };
  for (const char* id : {"", "a/b", ".."})
    EXPECT_EQ(error_of([&] { make(id); }), Errc::invalid_argument) << id;
}

TEST_F(ConfigurationReports, StoppedOrClosed) {
  std::stop_source stop;
  auto stopped =
      in_thread([&] { return error_of([&] { publisher.wait_applied(1, {"one"}, {.stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(result_of(stopped), Errc::cancelled);
  auto waiting = in_thread([&] { return error_of([&] { publisher.wait_applied(1, {"one"}); }); });
  publisher.close();
  EXPECT_EQ(result_of(waiting), Errc::closed);
  EXPECT_EQ(error_of([&] { publisher.wait_applied(1, {"one"}); }), Errc::closed);
}

// Neither what others report nor what they write meanwhile is read by a follower.
TEST_F(ConfigurationReports, FollowersReadNoReports) {
  publish(1, "1");
  const Client reporting = calm_direct();
  const Configuration one(reporting, "/config", reporter("one"));
  EXPECT_TRUE(publisher.wait_applied(1, {"one"}, patient()).complete());
  const Client client = calm_proxied();
  const Configuration follower(client, "/config");
  follower.wait_live(patient());
  const auto reads = [&] {
    return proxy.request_count(RequestType::get_data) + proxy.request_count(RequestType::get_children2) +
           proxy.request_count(RequestType::exists);
  };
  const std::size_t before = reads();
  const std::string report = data("one");
  for (int i = 0; i < 5; ++i) {
    the_operator().remove(node("one"));
    EXPECT_TRUE(eventually([&] { return data("one") == report; }));
  }
  the_operator().set("/config/a", "2");
  EXPECT_TRUE(eventually([&] { return follower.current()->at("a") == "2"; })) << "so what came before has been seen";
  EXPECT_EQ(reads(), before + 1);
}

// V69: many keys, one changes, many followers. ZKRECIPES_SOAK=1: as many as in the report, 1,000 and 100.
TEST_F(ConfigurationReports, AChangeIsReadOnceByEachFollower) {
  const bool soak = std::getenv("ZKRECIPES_SOAK") != nullptr;
  ConfigurationUpdate all;
  for (int i = 0; i < (soak ? 1000 : 300); ++i)
    all.values["k" + std::to_string(i)] = "1";
  ASSERT_EQ(publisher.publish(all, 0, patient()), 1);
  const std::size_t followers = soak ? 100 : 20;
  const Client client = calm_proxied();
  std::vector<Configuration> following;
  for (std::size_t i = 0; i < followers; ++i)
    following.emplace_back(client, "/config");
  for (const Configuration& one : following)
    one.wait_live(soak ? CallOptions{} : patient());  // A hundred thousand reads take a while.
  const auto reads = [&] {
    return proxy.request_count(RequestType::get_data) + proxy.request_count(RequestType::get_children2);
  };
  std::size_t before = reads();
  the_operator().set("/config/k7", "by hand");
  for (const Configuration& one : following)
    EXPECT_TRUE(eventually([&] { return one.current()->at("k7") == "by hand"; }));
  EXPECT_EQ(reads(), before + followers);
  before = reads();
  ConfigurationUpdate update;
  update.values = {{"k9", "2"}};
  ASSERT_EQ(publisher.publish(update, 1, patient()), 2);
  for (const Configuration& one : following)
    EXPECT_EQ(one.wait_for_revision(2, patient())->at("k9"), "2");
  EXPECT_EQ(reads(), before + 2 * followers) << "the key and the record";
}

}  // namespace
}  // namespace zkrecipes
