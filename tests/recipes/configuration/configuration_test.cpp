#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <memory>
#include <sstream>

#include <sys/stat.h>

#include <zkclient/error.hpp>
#include <zkrecipes/configuration.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

using Texts = std::map<std::string, std::string>;
using Changes = std::vector<ConfigurationChange>;

Texts texts_of(const ConfigurationPtr& now) {
  Texts all;
  if (now == nullptr) return all;
  for (const auto& [key, value] : now->values)
    all[key] = value.text;
  return all;
}

ConfigurationUpdate change(std::map<std::string, std::optional<std::string>> values) {
  ConfigurationUpdate update;
  update.values = std::move(values);
  return update;
}

/// Refuses whatever has the value "bad".
ConfigurationOptions picky() {
  ConfigurationOptions options;
  options.validate = [](const ConfigurationValues& values) {
    for (const auto& [key, value] : values.values) {
      if (value.text == "bad") throw std::runtime_error(key + " is bad");
    }
  };
  return options;
}

struct Call {
  Changes changes;
  ConfigurationPtr now;
};

class ConfigurationTest : public testkit::RecipeTest {
 protected:
  ConfigurationTest() : RecipeTest("/config") {}
  std::string data(const std::string& key) { return client().get(path() / key).data; }
  testkit::TemporaryFolder folder;
};

TEST_F(ConfigurationTest, FollowersSeeWhatIsPublished) {
  Configuration publisher(client(), path());
  Configuration follower(client(), path());
  testkit::Box<Call> calls;
  const auto told = follower.on_change([&](const Changes& changes, const ConfigurationPtr& now) {
    calls.put({changes, now});
  });
  EXPECT_EQ(follower.current(), nullptr);
  EXPECT_EQ(follower.origin(), ConfigurationOrigin::none);
  ConfigurationUpdate first = change({{"a", "1"}, {"dir/b", "2"}});
  first.note = "begin";
  EXPECT_EQ(publisher.publish(first, 0, patient()), 1);
  const ConfigurationPtr now = follower.wait_for_revision(1, patient());
  EXPECT_EQ(texts_of(now), (Texts{{"a", "1"}, {"dir/b", "2"}}));
  EXPECT_EQ(now->revision, 1);
  EXPECT_EQ(now->note, "begin");
  EXPECT_FALSE(now->edited);
  EXPECT_EQ(now->at("dir/b"), "2");
  EXPECT_EQ(error_of([&] { (void)now->at("dir"); }), Errc::no_node);
  EXPECT_EQ(follower.wait_live(patient())->revision, 1);
  EXPECT_EQ(follower.problem(), std::nullopt);
  EXPECT_EQ(calls.take().changes, (Changes{{"a", std::nullopt, "1"}, {"dir/b", std::nullopt, "2"}}));
  EXPECT_EQ(publisher.publish(change({{"a", "3"}, {"dir/b", std::nullopt}, {"c", ""}}), 1, patient()), 2);
  const Call second = calls.take();
  EXPECT_EQ(second.changes, (Changes{{"dir/b", "2", std::nullopt}, {"a", "1", "3"}, {"c", std::nullopt, ""}}));
  EXPECT_EQ(second.now->revision, 2);
  EXPECT_FALSE(client().exists(path() / "dir")) << "a directory goes with its last key";
  EXPECT_EQ(publisher.publish(change({{"a", "3"}}), any_revision, patient()), 3);
  EXPECT_TRUE(calls.take().changes.empty()) << "a new revision of the same values";
}

TEST_F(ConfigurationTest, PathMissing) {
  Configuration config(client(), path() / "deep/below");
  EXPECT_EQ(error_of([&] { config.wait_ready({.deadline = std::chrono::milliseconds(50)}); }), Errc::deadline_exceeded);
  EXPECT_TRUE(eventually([&] { return config.problem() && config.problem()->errc() == Errc::no_node; }));
  EXPECT_EQ(config.publish(change({{"a", "1"}}), 0, patient()), 1);
  EXPECT_EQ(config.wait_ready(patient())->at("a"), "1");
  EXPECT_TRUE(eventually([&] { return !config.problem(); }));
}

TEST_F(ConfigurationTest, KeyEditedByHand) {
  Configuration config(client(), path());
  config.publish(change({{"a", "1"}, {"b", "1"}}), 0, patient());
  config.wait_for_revision(1, patient());
  testkit::Box<Call> calls;
  const auto told = config.on_change([&](const Changes& changes, const ConfigurationPtr& now) {
    calls.put({changes, now});
  });
  calls.take();
  client().set(path() / "a", "by hand");
  const Call edit = calls.take();
  EXPECT_EQ(edit.changes, (Changes{{"a", "1", "by hand"}}));
  EXPECT_TRUE(edit.now->edited);
  EXPECT_TRUE(edit.now->values.at("a").edited);
  EXPECT_FALSE(edit.now->values.at("b").edited);
  EXPECT_EQ(edit.now->revision, 1);
  config.wait_live(patient());
  EXPECT_EQ(config.publish(change({{"a", "2"}}), 1, patient()), 2) << "the publisher has seen it";
  EXPECT_FALSE(config.wait_for_revision(2, patient())->edited);
}

TEST_F(ConfigurationTest, KeyEditedByHandUnseen) {
  ConfigurationOptions options = picky();
  Configuration config(client(), path(), options);
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_for_revision(1, patient());
  client().set(path() / "a", "bad");  // So that it never is in force here.
  EXPECT_EQ(error_of([&] { config.publish(change({{"a", "2"}}), 1, patient()); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] {
              config.publish(change({{"a", std::nullopt}}), any_revision, patient());
            }),
            Errc::bad_version);
  EXPECT_EQ(data("a"), "bad");
  client().create(path() / "b", "bad");
  EXPECT_EQ(error_of([&] { config.publish(change({{"b", "2"}}), 1, patient()); }), Errc::bad_version);
  ConfigurationUpdate repair = change({{"a", "2"}, {"b", std::nullopt}});
  repair.overwrite_edits = true;
  EXPECT_EQ(config.publish(repair, 1, patient()), 2);
  EXPECT_EQ(texts_of(config.wait_for_revision(2, patient())), (Texts{{"a", "2"}}));
}

TEST_F(ConfigurationTest, SomebodyPublishedMeanwhile) {
  Configuration one(client(), path());
  Configuration other(client(), path());
  one.publish(change({{"a", "1"}}), 0, patient());
  EXPECT_EQ(error_of([&] { other.publish(change({{"a", "2"}}), 0, patient()); }), Errc::bad_version);
  EXPECT_EQ(data("a"), "1");
  EXPECT_EQ(other.publish(change({{"a", "2"}}), any_revision, patient()), 2);
  EXPECT_EQ(data("a"), "2");
}

TEST_F(ConfigurationTest, PublicationTooLarge) {
  Configuration config(client(), path());
  config.publish(change({{"a", "1"}}), 0, patient());
  const auto large = change({{"a", "2"}, {"b", std::string(700'000, 'x')}, {"c", std::string(700'000, 'x')}});
  EXPECT_EQ(error_of([&] { config.publish(large, 1, patient()); }), Errc::too_large);
  EXPECT_EQ(data("a"), "1");
  EXPECT_FALSE(client().exists(path() / "b"));
  EXPECT_EQ(config.publish(change({{"b", std::string(300'000, 'x')}}), 1, patient()), 2);
}

TEST_F(ConfigurationTest, PublicationIsNotValid) {
  Configuration config(client(), path(), picky());
  try {
    config.publish(change({{"a", "bad"}}), 0, patient());
    FAIL();
  } catch (const zkclient::Error& error) {
    EXPECT_EQ(error.errc(), Errc::invalid_argument);
    EXPECT_EQ(error.detail(), "a is bad");
  }
  EXPECT_FALSE(client().exists(path()));
  for (const char* key : {"", "-a", "a/-b", "a//b", "/a", ".."}) {
    EXPECT_EQ(error_of([&] { config.publish(change({{key, "1"}}), 0, patient()); }), Errc::invalid_argument) << key;
  }
  EXPECT_EQ(error_of([&] { config.publish({}, 0, patient()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Configuration root(client(), "/"); }), Errc::invalid_argument);
}

TEST_F(ConfigurationTest, ValueIsBad) {
  Configuration config(client(), path(), picky());
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_live(patient());
  testkit::Box<ConfigurationRejection> rejections;
  const auto told = config.on_rejected([&](const ConfigurationRejection& rejection) { rejections.put(rejection); });
  client().set(path() / "a", "bad");
  const ConfigurationRejection rejected = rejections.take();
  EXPECT_EQ(rejected.why, "a is bad");
  EXPECT_EQ(rejected.revision, 1);
  EXPECT_EQ(rejected.values->at("a"), "bad");
  EXPECT_EQ(config.current()->at("a"), "1");
  EXPECT_EQ(config.origin(), ConfigurationOrigin::last_known);
  EXPECT_EQ(config.problem()->errc(), Errc::invalid_argument);
  testkit::Box<ConfigurationRejection> late;
  const auto told_late = config.on_rejected([&](const ConfigurationRejection& rejection) { late.put(rejection); });
  EXPECT_EQ(late.take().why, "a is bad") << "a listener that comes later is told as well";
  client().set(path() / "a", "2");
  EXPECT_EQ(config.wait_live(patient())->at("a"), "2");
  EXPECT_EQ(config.problem(), std::nullopt);
  EXPECT_TRUE(rejections.empty()) << "told once";
}

struct Limits {
  int connections = 0;
};

TEST_F(ConfigurationTest, ParsedValues) {
  const auto parse = [](const ConfigurationValues& values) { return Limits{std::stoi(values.at("connections"))}; };
  TypedConfiguration<Limits> limits(client(), path(), parse);
  EXPECT_EQ(limits.value(), nullptr);
  EXPECT_EQ(error_of([&] { limits.publish(change({{"connections", "many"}}), 0, patient()); }), Errc::invalid_argument);
  limits.publish(change({{"connections", "12"}}), 0, patient());
  limits.wait_live(patient());
  EXPECT_EQ(limits.value()->connections, 12);
  client().set(path() / "connections", "x");
  EXPECT_TRUE(eventually([&] { return limits.problem().has_value(); }));
  EXPECT_EQ(limits.value()->connections, 12);
  client().set(path() / "connections", "13");
  limits.wait_live(patient());
  EXPECT_EQ(TypedConfiguration<Limits>::of(limits.current())->connections, 13);
}

TEST_F(ConfigurationTest, RollBack) {
  ConfigurationOptions options;
  options.history = 3;
  Configuration config(client(), path(), options);
  config.publish(change({{"a", "1"}, {"b", "1"}}), 0, patient());
  config.publish(change({{"a", "2"}, {"c", "2"}}), 1, patient());
  config.publish(change({{"b", std::nullopt}, {"a", "3"}}), 2, patient());
  const auto history = config.history(patient());
  ASSERT_EQ(history.size(), 3U);
  EXPECT_EQ(history[1].revision, 1);
  EXPECT_EQ(history[1].replaced, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(config.roll_back(1, patient()), 4);
  const ConfigurationPtr now = config.wait_for_revision(4, patient());
  EXPECT_EQ(texts_of(now), (Texts{{"a", "1"}, {"b", "1"}}));
  EXPECT_EQ(now->note, "roll back to revision 1");
  EXPECT_EQ(config.roll_back(3, patient()), 5) << "a roll-back can be taken back";
  EXPECT_EQ(texts_of(config.wait_for_revision(5, patient())), (Texts{{"a", "3"}, {"c", "2"}}));
  EXPECT_EQ(config.history(patient()).front().revision, 2) << "only so many are kept";
  EXPECT_EQ(config.history(patient()).size(), 3U);
  EXPECT_EQ(error_of([&] { config.roll_back(1, patient()); }), Errc::no_node);
  EXPECT_EQ(error_of([&] { config.roll_back(5, patient()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { config.roll_back(-1, patient()); }), Errc::invalid_argument);
}

TEST_F(ConfigurationTest, RollBackOverwritesNoUnseenEdit) {
  Configuration config(client(), path(), picky());
  config.publish(change({{"a", "1"}}), 0, patient());
  config.publish(change({{"a", "2"}}), 1, patient());
  config.wait_for_revision(2, patient());
  client().set(path() / "a", "bad");
  EXPECT_EQ(error_of([&] { config.roll_back(1, patient()); }), Errc::bad_version);
  EXPECT_EQ(data("a"), "bad");
}

// Somebody has edited another key, so that the validator refuses what is there. A process that was started since knows
// nothing of the keys that are to go back.
TEST_F(ConfigurationTest, RollBackAfterAnEditThatIsRefused) {
  Configuration config(client(), path());
  config.publish(change({{"least", "1"}, {"most", "5"}}), 0, patient());
  config.publish(change({{"least", "4"}}), 1, patient());
  config.publish(change({{"other", "1"}}), 2, patient());
  client().set(path() / "most", "3");
  ConfigurationOptions options;
  options.validate = [](const ConfigurationValues& values) {
    if (values.at("least") > values.at("most")) throw std::runtime_error("the least is more than the most");
  };
  Configuration again(client(), path(), options);
  EXPECT_EQ(again.roll_back(1, patient()), 4);
  EXPECT_EQ(texts_of(again.wait_for_revision(4, patient())), (Texts{{"least", "1"}, {"most", "3"}}));
}

TEST_F(ConfigurationTest, RecordIsMalformed) {
  Configuration config(client(), path());
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_live(patient());
  const std::string record = client().get(path()).data;
  client().set(path(), "by hand");
  EXPECT_TRUE(eventually([&] { return config.problem() && config.problem()->errc() == Errc::foreign_node; }));
  EXPECT_EQ(config.current()->at("a"), "1");
  EXPECT_EQ(config.origin(), ConfigurationOrigin::last_known);
  EXPECT_EQ(error_of([&] { config.publish(change({{"a", "2"}}), any_revision, patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { config.roll_back(0, patient()); }), Errc::foreign_node);
  const std::string first = "revision 1\n";
  std::string far = record;
  far.replace(far.find(first), first.size(), "revision 900000000000000000\n");
  client().set(path(), far);
  EXPECT_EQ(error_of([&] { config.roll_back(1, patient()); }), Errc::no_node) << "there is no such history";
  client().set(path(), record);
  config.wait_live(patient());
  EXPECT_EQ(config.problem(), std::nullopt);
}

// A right that is withdrawn from a node that was read makes no event; a version that is not known protects such a node.
TEST_F(ConfigurationTest, NodeCannotBeRead) {
  Configuration config(client(), path());
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_live(patient());
  zkclient::CreateOptions closed;
  closed.acl = zkclient::AclList{{zkclient::Acl::write | zkclient::Acl::admin, "world", "anyone"}};
  client().create(path() / "b", "2", closed);
  EXPECT_TRUE(eventually([&] { return config.problem() && config.problem()->errc() == Errc::no_auth; }));
  EXPECT_EQ(texts_of(config.current()), (Texts{{"a", "1"}}));
  EXPECT_EQ(config.origin(), ConfigurationOrigin::last_known);
  EXPECT_EQ(error_of([&] { config.publish(change({{"a", "2"}}), any_revision, patient()); }), Errc::no_auth);
  client().remove(path() / "b");
  EXPECT_EQ(texts_of(config.wait_live(patient())), (Texts{{"a", "1"}}));
  EXPECT_EQ(config.problem(), std::nullopt);
}

TEST_F(ConfigurationTest, PathRemovedByHand) {
  ConfigurationOptions options;
  options.validate = [](const ConfigurationValues& values) { (void)values.at("a"); };
  Configuration config(client(), path(), options);
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_live(patient());
  client().remove_tree(path());
  EXPECT_TRUE(eventually([&] { return config.problem() && config.problem()->errc() == Errc::no_node; }));
  EXPECT_EQ(config.current()->at("a"), "1");
  EXPECT_EQ(config.origin(), ConfigurationOrigin::last_known);
  EXPECT_EQ(config.publish(change({{"a", "2"}}), 0, patient()), 1) << "it begins anew";
  EXPECT_TRUE(eventually([&] { return config.current()->at("a") == "2"; }));
}

TEST_F(ConfigurationTest, FallbackFileMissingTornOrForeign) {
  ConfigurationOptions options;
  options.fallback_file = folder / "config";
  // Finds no server, which could tell of problems of its own.
  const zkclient::Client alone("127.0.0.1:1", {.prefix = prefix()});
  {
    const Configuration config(alone, path(), options);
    EXPECT_EQ(config.current(), nullptr);
    EXPECT_EQ(config.problem(), std::nullopt) << "missing";
  }
  {
    Configuration config(client(), path(), options);
    config.publish(change({{"a", "1"}}), 0, patient());
    config.wait_live(patient());
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(options.fallback_file); }));
  }
  struct stat made {};
  ASSERT_EQ(::stat(options.fallback_file.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777U, 0600U);
  {
    const Configuration again(alone, path(), options);
    ASSERT_NE(again.current(), nullptr) << "there before any server was asked";
    EXPECT_EQ(again.current()->at("a"), "1");
  }
  {
    const Configuration again(client(), path(), options);
    again.wait_live(patient());
  }
  const Configuration foreign(alone, path() / "another", options);
  EXPECT_EQ(foreign.current(), nullptr);
  EXPECT_EQ(foreign.problem()->errc(), Errc::foreign_node);
  std::filesystem::resize_file(options.fallback_file, 20);
  Configuration torn(client(), path(), options);
  EXPECT_EQ(torn.wait_live(patient())->at("a"), "1");
  EXPECT_TRUE(eventually([&] { return !torn.problem(); })) << "written again";
  Configuration whole(client(), path(), options);
  EXPECT_NE(whole.current(), nullptr);
}

TEST_F(ConfigurationTest, AFallbackFileIsValidated) {
  ConfigurationOptions options;
  options.fallback_file = folder / "config";
  {
    Configuration config(client(), path(), options);
    config.publish(change({{"a", "bad"}}), 0, patient());
    config.wait_live(patient());
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(options.fallback_file); }));
  }
  ConfigurationOptions strict = picky();
  strict.fallback_file = options.fallback_file;
  Configuration config(client(), path(), strict);
  EXPECT_EQ(config.current(), nullptr);
  EXPECT_EQ(config.problem()->errc(), Errc::invalid_argument);
  testkit::Box<ConfigurationRejection> rejections;
  const auto told = config.on_rejected([&](const ConfigurationRejection& rejection) { rejections.put(rejection); });
  EXPECT_EQ(rejections.take().why, "a is bad");
}

TEST_F(ConfigurationTest, FallbackFileCannotBeWritten) {
  ConfigurationOptions options;
  options.fallback_file = folder / "missing/config";
  Configuration config(client(), path(), options);
  config.publish(change({{"a", "1"}}), 0, patient());
  EXPECT_EQ(config.wait_live(patient())->at("a"), "1");
  EXPECT_TRUE(eventually([&] { return config.problem() && config.problem()->errc() == Errc::system_error; }));
  std::filesystem::create_directory(folder / "missing");
  config.publish(change({{"a", "2"}}), 1, patient());
  EXPECT_TRUE(eventually([&] { return !config.problem() && std::filesystem::exists(options.fallback_file); }));
}

TEST_F(ConfigurationTest, AValidatorMayCallAndCloseIt) {
  std::optional<Configuration> config;
  std::atomic<bool> called{false};
  ConfigurationOptions options;
  options.validate = [&](const ConfigurationValues&) {
    if (called.exchange(true)) return;
    (void)config->current();
    (void)config->origin();
    config->close();
  };
  config.emplace(client(), path(), options);
  client().create(path(), "");
  client().create(path() / "a", "1");
  EXPECT_TRUE(eventually([&] { return called.load(); }));
  EXPECT_EQ(error_of([&] { config->wait_for_revision(1, patient()); }), Errc::closed);
  config.reset();
}

// What it publishes is in force before it has judged what it was called for. That is not taken for news then.
TEST_F(ConfigurationTest, AValidatorMayPublish) {
  std::optional<Configuration> config;
  std::atomic<bool> called{false};
  std::atomic<int> second{0};
  std::atomic<std::int64_t> before_third{0};
  ConfigurationOptions options;
  options.validate = [&](const ConfigurationValues& values) {
    if (values.revision == 1 && !called.exchange(true)) config->publish(change({{"answer", "1"}}), 1, patient());
    if (values.revision == 2) ++second;
    if (values.revision == 3) before_third = config->current()->revision;
  };
  config.emplace(client(), path(), options);
  Configuration other(client(), path());
  other.publish(change({{"a", "1"}}), 0, patient());
  config->wait_for_revision(2, patient());
  other.publish(change({{"a", "2"}}), 2, patient());
  config->wait_for_revision(3, patient());
  EXPECT_EQ(second, 2) << "once before it was published, once when it was read";
  EXPECT_EQ(before_third, 2);
}

/// A configuration that nobody owns but its own listener.
struct OwnedConfiguration {
  std::promise<void> made;
  std::shared_ptr<Configuration> configuration;
  zkclient::Subscription subscription;
};

// Neither waits for the other, and what the listener owns goes with it: the configuration, in the middle of its close().
TEST_F(ConfigurationTest, ClosedByTheListenerThatOwnsIt) {
  client().create(path(), "");
  client().create(path() / "a", "1");
  using Act = std::function<void(OwnedConfiguration&)>;
  const std::vector<Act> all = {[](OwnedConfiguration& owner) { owner.configuration->close(); },
                                [](OwnedConfiguration& owner) { owner.configuration.reset(); }};
  for (const Act& act : all) {
    auto owner = std::make_shared<OwnedConfiguration>();
    owner->configuration = std::make_shared<Configuration>(client(), path());
    auto listener = [owner, &act, first = true](const Changes&, const ConfigurationPtr&) mutable {
      if (!std::exchange(first, false)) return;
      owner->made.get_future().wait();
      act(*owner);
    };
    owner->subscription = owner->configuration->on_change(std::move(listener));
    owner->made.set_value();
    const std::weak_ptr<OwnedConfiguration> left = std::exchange(owner, nullptr);
    EXPECT_TRUE(eventually([&] { return left.expired(); }));
  }
}

// By another thread, while it does not run: the last owner goes in close() itself.
TEST_F(ConfigurationTest, ClosedWhileItsListenerOwnsIt) {
  client().create(path(), "");
  client().create(path() / "a", "1");
  auto configuration = std::make_shared<Configuration>(client(), path());
  Configuration* raw = configuration.get();
  const std::weak_ptr<Configuration> left = configuration;
  std::promise<void> called;
  const auto subscription = raw->on_change(
      [owner = std::move(configuration), &called](const Changes&, const ConfigurationPtr&) { called.set_value(); });
  called.get_future().wait();
  raw->close();
  EXPECT_TRUE(left.expired()) << "the subscription goes on, but holds nothing";
}

TEST_F(ConfigurationTest, ClientClosed) {
  zkclient::Client closing = make_client();
  Configuration config(closing, path());
  config.publish(change({{"a", "1"}}), 0, patient());
  config.wait_live(patient());
  auto waiting = testkit::in_thread([&] { return error_of([&] { config.wait_for_revision(9, patient()); }); });
  closing.close();
  EXPECT_EQ(testkit::result_of(waiting), Errc::closed);
  EXPECT_EQ(config.current()->at("a"), "1");
  EXPECT_EQ(config.origin(), ConfigurationOrigin::last_known);
  EXPECT_EQ(error_of([&] { config.publish(change({{"a", "2"}}), 1, patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { config.wait_for_revision(9, patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { Configuration late(closing, path()); }), Errc::closed);
}

}  // namespace
}  // namespace zkrecipes
