// One test for each row of the table "What goes wrong" in <zkrecipes/configuration.hpp> that needs a fault; the others
// are in configuration_test.cpp.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/configuration.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class ConfigurationFaults : public testkit::RecipeFaultTest {
 protected:
  ConfigurationFaults() : RecipeFaultTest("/config") {}
  static ConfigurationUpdate change(std::map<std::string, std::optional<std::string>> values) {
    ConfigurationUpdate update;
    update.values = std::move(values);
    return update;
  }
  std::string data(const std::string& key) { return the_operator().get(zkclient::Path("/config") / key).data; }
  std::int64_t published() {
    Configuration look(the_operator(), "/config");
    return look.wait_live(patient())->revision;
  }
  static std::optional<Errc> error_of_publish(Configuration& config, const ConfigurationUpdate& update,
                                              std::int64_t expected) {
    try {
      (void)config.publish(update, expected, patient());
      return std::nullopt;
    } catch (const zkclient::Error& error) {
      return error.errc();
    }
  }
  /// The follower knows all that is there, so it reads nothing just now.
  bool settled(const Client& client, const Configuration& follower) {
    const bool knows_all = eventually([&] {
      Configuration look(the_operator(), "/config");
      const auto newest = look.wait_live(patient());
      return follower.origin() == ConfigurationOrigin::live && follower.current()->values == newest->values &&
             follower.current()->revision == newest->revision;
    });
    client.sync("/config", patient());  // Behind lists of new keys that are on their way.
    return knows_all;
  }
  /// Ends the session of `client`, whose reply is held, and lets the client come back.
  void lose_session(const zkclient::Session& session, zktesting::HeldReply& held) {
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    held.release();
    proxy.refuse(false);
  }
};

TEST_F(ConfigurationFaults, PublishLost) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  std::int64_t revision = 0;
  for (const RequestType type : {RequestType::multi, RequestType::create2, RequestType::get_children2}) {
    for (const bool request : {true, false}) {
      Configuration fresh(client, "/config");
      auto fault = lose(request, type);
      EXPECT_EQ(fresh.publish(change({{"a", std::to_string(revision)}}), revision, patient()), revision + 1);
      if (type != RequestType::get_children2) {
        EXPECT_TRUE(fault.wait(patience));
      }
      EXPECT_EQ(data("a"), std::to_string(revision));
      EXPECT_EQ(published(), ++revision) << "once";
      fault.cancel();
    }
  }
  for (const bool request : {true, false}) {
    config.publish(change({{"a", "x"}}), revision++, patient());
    auto fault = lose(request);
    EXPECT_EQ(config.roll_back(revision - 1, patient()), revision + 1);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(published(), ++revision);
  }
}

// No other change would bring back what its executor has dropped.
TEST_F(ConfigurationFaults, AnExecutorDropsAPublication) {
  testkit::DroppingRuntime dropping;
  const Client client(dropping.runtime(), proxy.connect_string(), {.session_timeout = calm});
  Configuration config(client, "/config");
  Configuration other(the_operator(), "/config");
  other.publish(change({{"a", "1"}}), 0, patient());
  ASSERT_TRUE(settled(client, config));
  dropping.drop();
  const std::int64_t revision = other.publish(change({{"a", "2"}}), any_revision, patient());
  ASSERT_TRUE(dropping.dropped_one());
  dropping.run();
  EXPECT_TRUE(eventually([&] { return config.current()->revision == revision; }));
}

// The record, or the history, tells whose publication it was.
TEST_F(ConfigurationFaults, SessionLostDuringPublish) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  config.publish(change({{"a", "0"}}), 0, patient());
  Configuration other(the_operator(), "/config");
  for (const int later : {0, 1, 2}) {
    const std::int64_t before = published();
    const zkclient::Session session = client.connect(patient());
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto publishing = in_thread([&] { return config.publish(change({{"a", "mine"}}), before, patient()); });
    ASSERT_TRUE(held.wait(patience));
    for (int i = 0; i < later; ++i)
      other.publish(change({{"a", "theirs"}}), any_revision, patient());
    lose_session(session, held);
    EXPECT_EQ(result_of(publishing), before + 1);
    EXPECT_EQ(published(), before + 1 + later) << "once";
    EXPECT_EQ(data("a"), later == 0 ? "mine" : "theirs");
  }
}

// It was not applied: then it is sent again, unless somebody else was faster.
TEST_F(ConfigurationFaults, SessionLostBeforePublishArrives) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  config.publish(change({{"a", "0"}}), 0, patient());
  Configuration other(the_operator(), "/config");
  for (const bool overtaken : {false, true}) {
    const std::int64_t before = published();
    const zkclient::Session session = client.connect(patient());
    // What was dropped cannot arrive any more; the connection breaks with it.
    proxy.refuse(true);
    auto fault = proxy.drop_next_request(RequestType::multi);
    auto publishing = in_thread([&] { return error_of_publish(config, change({{"a", "mine"}}), before); });
    ASSERT_TRUE(fault.wait(patience));
    if (overtaken) other.publish(change({{"a", "theirs"}}), before, patient());
    proxy.cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
    EXPECT_EQ(result_of(publishing), overtaken ? std::optional(Errc::bad_version) : std::nullopt);
    EXPECT_EQ(data("a"), overtaken ? "theirs" : "mine");
    EXPECT_EQ(published(), before + 1);
  }
}

TEST_F(ConfigurationFaults, DeadlineOrStopDuringPublish) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_for_revision(1, patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_EQ(error_of([&] { config.publish(change({{"a", "2"}}), 1, {.deadline = 50ms}); }), Errc::deadline_exceeded);
  std::stop_source at_once;
  at_once.request_stop();
  EXPECT_EQ(error_of([&] { config.publish(change({{"a", "2"}}), 1, {.stop = at_once.get_token()}); }), Errc::cancelled);
  proxy.refuse(false);
  client.connect(patient());
  EXPECT_EQ(data("a"), "1");
  std::stop_source stop;
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto publishing = in_thread([&] {
    return error_of([&] { config.publish(change({{"a", "2"}}), 1, {.deadline = soon(), .stop = stop.get_token()}); });
  });
  ASSERT_TRUE(held.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(publishing), Errc::in_doubt);
  held.release();
  EXPECT_EQ(data("a"), "2");
}

// Between the look and the write.
TEST_F(ConfigurationFaults, PublishedOrEditedMeanwhile) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  config.publish(change({{"a", "1"}, {"gone", "1"}}), 0, patient());
  Configuration other(the_operator(), "/config");
  using Step = std::function<void()>;
  const std::vector<Step> steps = {
      [&] {
        other.publish(change({{"x", "1"}}), any_revision, patient());
      },
      [&] { the_operator().set("/config/a", "edited"); },
      [&] { the_operator().remove("/config/gone"); },
      [&] { the_operator().create("/config/new", "edited"); },
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int64_t before = published();
    ASSERT_TRUE(settled(client, config));
    auto held = proxy.hold_next_reply(RequestType::get_children2);  // Of the history.
    auto update = change({{"a", "mine"}, {"gone", "mine"}, {"new", "mine"}});
    update.overwrite_edits = true;  // Also then: what comes after its look is unseen.
    auto publishing = in_thread([&] { return error_of_publish(config, update, any_revision); });
    ASSERT_TRUE(held.wait(patience));
    steps[i]();
    held.release();
    EXPECT_EQ(result_of(publishing), Errc::bad_version) << i;
    EXPECT_EQ(published(), before + (i == 0 ? 1 : 0)) << i;
  }
  EXPECT_EQ(data("a"), "edited");
  EXPECT_EQ(data("new"), "edited");
}

// A leader answers syncs before it has applied what was acknowledged elsewhere. A transaction finds out. (Here it is lost,
// and published is what was acknowledged, before it is sent again.)
TEST_F(ConfigurationFaults, ARevisionThatTheServerDoesNotShowYet) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  Configuration other(the_operator(), "/config");
  config.publish(change({{"a", "1"}}), 0, patient());
  std::int64_t newest = 1;
  testkit::Box<Result<std::int64_t>> results;
  const auto told = [&](Result<std::int64_t> result) { results.put(std::move(result)); };
  const std::vector<std::function<void()>> calls = {
      [&] {
        config.async_publish(change({{"a", "mine"}}), newest + 1, told, patient());
      },
      [&] { config.async_roll_back(newest, told, patient()); },
      [&] {
        told(config.publish(change({{"a", "mine"}}), newest + 1, patient()));
      },
      [&] { told(config.roll_back(newest, patient())); },
  };
  for (const auto& call : calls) {
    ASSERT_TRUE(settled(client, config));
    proxy.refuse(true);
    auto lost = proxy.drop_next_request(RequestType::multi);
    auto calling = in_thread(call);
    ASSERT_TRUE(lost.wait(patience));
    other.publish(change({{"a", "theirs"}}), newest, patient());
    proxy.refuse(false);
    newest += 2;
    EXPECT_EQ(results.take().value(), newest);
    calling.get();
  }
  const std::size_t before = proxy.request_count(RequestType::multi);
  EXPECT_EQ(error_of_publish(config, change({{"a", "mine"}}), newest - 1), Errc::bad_version);
  EXPECT_EQ(proxy.request_count(RequestType::multi), before) << "an old revision is none that may come";
}

// The version does not tell them apart.
TEST_F(ConfigurationFaults, KeyDeletedAndMadeAgain) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  config.publish(change({{"a", "1"}, {"b", "1"}}), 0, patient());
  ASSERT_TRUE(settled(client, config));
  auto held = proxy.hold_next_reply(RequestType::get_children2);  // Of the history.
  auto publishing = in_thread([&] { return error_of_publish(config, change({{"a", "2"}, {"b", "2"}}), 1); });
  ASSERT_TRUE(held.wait(patience));
  the_operator().remove("/config/b");
  the_operator().create("/config/b", "new");
  held.release();
  EXPECT_EQ(result_of(publishing), Errc::foreign_node);
  EXPECT_EQ(published(), 2);
  EXPECT_EQ(data("a"), "2");
  EXPECT_EQ(data("b"), "2") << "a version is all that a transaction can check";
}

// Each of many concurrent publications counts once, or not at all.
TEST_F(ConfigurationFaults, ConcurrentPublishers) {
  std::atomic<std::int64_t> done{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Client client = calm_proxied();
      Configuration config(client, "/config");
      for (int i = 0; i < 10; ++i) {
        const auto update = change({{"by", std::to_string(t)}, {"k" + std::to_string(t), std::to_string(i)}});
        for (;;) {
          const auto failure = error_of_publish(config, update, any_revision);
          if (!failure) break;
          ASSERT_EQ(failure, Errc::bad_version);
        }
        ++done;
        if (i == 5) proxy.cut();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(done.load(), 40);
  EXPECT_EQ(published(), 40);
}

// A publication is seen whole or not at all, whatever becomes of the connection.
TEST_F(ConfigurationFaults, NeverHalfAPublication) {
  Client client = calm_proxied();
  Configuration follower(client, "/config");
  std::atomic<std::int64_t> seen{0};
  std::atomic<int> torn{0};
  const auto told = follower.on_change([&](const std::vector<ConfigurationChange>&, const ConfigurationPtr& now) {
    for (const auto& [key, value] : now->values) {
      if (value.text != std::to_string(now->revision)) ++torn;
    }
    seen = now->revision;
  });
  Configuration publisher(the_operator(), "/config");
  for (std::int64_t revision = 1; revision <= 60; ++revision) {
    ConfigurationUpdate update;
    for (int i = 0; i < 20; ++i)
      update.values["k" + std::to_string(i)] = std::to_string(revision);
    ASSERT_EQ(publisher.publish(update, revision - 1, patient()), revision);
    if (revision % 20 == 10) proxy.cut();
  }
  follower.wait_for_revision(60, patient());
  EXPECT_TRUE(eventually([&] { return seen == 60; }));
  EXPECT_EQ(torn.load(), 0);
}

TEST_F(ConfigurationFaults, ConnectionBreaks) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_live(patient());
  std::atomic<int> calls{0};
  const auto told =
      config.on_change([&](const std::vector<ConfigurationChange>&, const ConfigurationPtr&) { ++calls; });
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  refuse_and_cut();
  EXPECT_TRUE(eventually([&] { return config.origin() == ConfigurationOrigin::last_known; }));
  const auto as_of = config.as_of();
  EXPECT_EQ(config.current()->at("a"), "1");
  proxy.refuse(false);
  config.wait_live(patient());
  EXPECT_EQ(calls, 1) << "nothing has changed";
  EXPECT_GE(config.as_of(), as_of);
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  the_operator().set("/config/a", "2");
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return config.current()->at("a") == "2"; }));
  EXPECT_TRUE(eventually([&] { return calls == 2; }));
}

// V70.
TEST_F(ConfigurationFaults, SessionLost) {
  Client client = calm_proxied();
  Configuration config(client, "/config");
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_live(patient());
  std::atomic<int> calls{0};
  const auto told =
      config.on_change([&](const std::vector<ConfigurationChange>&, const ConfigurationPtr&) { ++calls; });
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  for (int i = 0; i < 3; ++i) {
    expire(client);
    EXPECT_EQ(config.current()->at("a"), "1");
    config.wait_live(patient());
  }
  EXPECT_EQ(config.publish(change({{"b", "1"}}), 1, patient()), 2);
  EXPECT_EQ(config.wait_for_revision(2, patient())->at("b"), "1");
  EXPECT_TRUE(eventually([&] { return calls == 2; }));
}

TEST_F(ConfigurationFaults, NoConnectionAtTheStart) {
  const testkit::TemporaryFolder folder;
  ConfigurationOptions options;
  options.fallback_file = folder / "config";
  {
    Configuration config(the_operator(), "/config", options);
    config.publish(change({{"a", "1"}}), 0, patient());
    config.wait_live(patient());
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(options.fallback_file); }));
  }
  proxy.refuse(true);
  Client client = calm_proxied();
  Configuration config(client, "/config", options);
  EXPECT_EQ(config.wait_ready(patient())->at("a"), "1");
  EXPECT_EQ(config.origin(), ConfigurationOrigin::file);
  EXPECT_EQ(config.as_of(), std::nullopt);
  std::atomic<int> calls{0};
  const auto told =
      config.on_change([&](const std::vector<ConfigurationChange>&, const ConfigurationPtr&) { ++calls; });
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  EXPECT_EQ(error_of([&] { config.wait_live({.deadline = 50ms}); }), Errc::deadline_exceeded);
  Configuration none(client, "/config");
  EXPECT_EQ(none.current(), nullptr);
  proxy.refuse(false);
  EXPECT_EQ(config.wait_live(patient())->at("a"), "1");
  EXPECT_EQ(calls, 1) << "the ensemble has the same";
}

// What is there now is adopted, lower revision or not.
TEST_F(ConfigurationFaults, EnsembleLostItsData) {
  const Client client(server.connect_string(), {.session_timeout = 2s});
  Configuration config(client, "/config");
  Configuration first(the_operator(), "/config");  // Its session does not end in the middle of a publication.
  for (std::int64_t revision = 0; revision < 5; ++revision)
    first.publish(change({{"a", std::to_string(revision)}}), revision, patient());
  config.wait_for_revision(5, patient());
  server.restart_wiped();
  const Client anew(server.connect_string(), {.session_timeout = 30s});
  Configuration publisher(anew, "/config");
  EXPECT_EQ(publisher.publish(change({{"a", "new"}}), 0, patient()), 1);
  EXPECT_TRUE(eventually([&] { return config.current()->at("a") == "new"; }));
  EXPECT_EQ(config.wait_live(patient())->revision, 1);
}

}  // namespace
}  // namespace zkrecipes
