#include <zkclient/client.hpp>

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <thread>

#include <zkrecipes/mutex.hpp>

#include "tests/support/packets.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"
#include "zkclient/detail/calls/calls.hpp"
#include "zkclient/detail/session/loop.hpp"

namespace {

using namespace testkit::words;
using zkclient::Acl;
using zkclient::Children;
using zkclient::Created;
using zkclient::CreateOptions;
using zkclient::ErrorKind;
using zkclient::NodeData;
using zkclient::OperationResult;
using zkclient::Runtime;
using zkclient::SessionCredentials;
using zkclient::StateChange;
using zkclient::Watch;

// Nobody listens there.
constexpr const char* nowhere = "127.0.0.1:1";

// "zkclient" and so on: how often each occurs in this process.
std::map<std::string, int> thread_names() {
  std::map<std::string, int> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name)) ++names[name];
  }
  return names;
}

std::string this_thread_name() {
  std::ifstream file("/proc/thread-self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

template <typename T>
zkclient::Handler<T> into(Box<Result<T>>& box) {
  return [&box](Result<T> result) { box.put(std::move(result)); };
}

class ClientTest : public testkit::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    client.emplace(make_client());
  }
  void TearDown() override {
    client.reset();
    ServerTest::TearDown();
  }
  const Client& c() const { return *client; }
  // Whether a close() that began then may have given the server up, which it does when that says nothing for a second.
  static bool may_have_given_up(SteadyClock::time_point begin) { return SteadyClock::now() - begin >= 1s; }

  std::optional<Client> client;
};

// ---- Operations in their three forms --------------------------------------------------------------------------------

TEST_F(ClientTest, CreateGetSetRemove) {
  const Created created = c().create("/a", "one");
  EXPECT_EQ(created.path, "/a");
  EXPECT_EQ(created.stat.version, 0);
  EXPECT_EQ(created.stat.data_length, 3);
  EXPECT_GT(created.stat.czxid, 0);
  NodeData node = c().get("/a");
  EXPECT_EQ(node.data, "one");
  EXPECT_FALSE(node.is_null);
  EXPECT_EQ(node.stat, created.stat);
  const Stat stat = c().set("/a", "two", 0);
  EXPECT_EQ(stat.version, 1);
  EXPECT_EQ(c().get("/a").data, "two");
  EXPECT_EQ(c().exists("/a"), stat);
  c().remove("/a", 1);
  EXPECT_EQ(c().exists("/a"), std::nullopt);
}

TEST_F(ClientTest, ErrorsNameOperationAndPathWithoutPrefix) {
  const auto check = [&](Errc code, const char* operation, const char* path, const std::function<void()>& action) {
    try {
      action();
      ADD_FAILURE() << operation << " succeeded";
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), code) << error.what();
      EXPECT_EQ(error.operation(), operation);
      EXPECT_EQ(error.path(), path);
      EXPECT_EQ(std::string(error.what()).find(prefix().str()), std::string::npos) << error.what();
    }
  };
  c().create("/a", "one");
  c().create("/a/b");
  c().create("/e", "", {.mode = CreateMode::ephemeral});
  check(Errc::node_exists, "create", "/a", [&] { c().create("/a"); });
  check(Errc::no_node, "create", "/x/y", [&] { c().create("/x/y"); });
  check(Errc::no_children_for_ephemerals, "create", "/e/f", [&] { c().create("/e/f"); });
  check(Errc::no_node, "get", "/x", [&] { c().get("/x"); });
  check(Errc::no_node, "set", "/x", [&] { c().set("/x", ""); });
  check(Errc::bad_version, "set", "/a", [&] { c().set("/a", "", 7); });
  check(Errc::no_node, "children", "/x", [&] { c().children("/x"); });
  check(Errc::no_node, "remove", "/x", [&] { c().remove("/x"); });
  check(Errc::bad_version, "remove", "/a/b", [&] { c().remove("/a/b", 7); });
  check(Errc::not_empty, "remove", "/a", [&] { c().remove("/a"); });
}

TEST_F(ClientTest, ErrorCodeFormsReportInsteadOfThrowing) {
  const CallOptions call;
  std::error_code error = make_error_code(Errc::closed);
  EXPECT_EQ(c().create("/a", "1", {}, call, error).path, "/a");
  EXPECT_FALSE(error);
  EXPECT_EQ(c().create("/a", "1", {}, call, error).path, "");
  EXPECT_EQ(error, Errc::node_exists);
  EXPECT_EQ(error, ErrorKind::precondition);
  EXPECT_EQ(c().get("/a", call, error).data, "1");
  EXPECT_FALSE(error);
  c().get("/x", call, error);
  EXPECT_EQ(error, Errc::no_node);
  EXPECT_EQ(c().set("/a", "2", 0, call, error).version, 1);
  EXPECT_FALSE(error);
  c().set("/a", "2", 0, call, error);
  EXPECT_EQ(error, Errc::bad_version);
  EXPECT_TRUE(c().exists("/a", call, error));
  EXPECT_FALSE(error);
  EXPECT_FALSE(c().exists("/x", call, error));
  EXPECT_FALSE(error);
  EXPECT_EQ(c().children("/", call, error).names, std::vector<std::string>{"a"});
  EXPECT_FALSE(error);
  c().children("/x", call, error);
  EXPECT_EQ(error, Errc::no_node);
  c().remove("/a", 0, call, error);
  EXPECT_EQ(error, Errc::bad_version);
  c().remove("/a", 1, call, error);
  EXPECT_FALSE(error);
  EXPECT_EQ(c().commit(Transaction().create("/t"), call, error).size(), 1u);
  EXPECT_FALSE(error);
  EXPECT_TRUE(c().commit(Transaction().create("/t"), call, error).empty());
  EXPECT_EQ(error, Errc::transaction_failed);
}

TEST_F(ClientTest, AsynchronousFormsCallTheHandlerOnce) {
  Box<Result<Created>> created;
  c().async_create("/a", "1", {}, into(created));
  EXPECT_EQ(created.take()->path, "/a");
  c().async_create("/a", "1", {}, into(created));
  EXPECT_EQ(created.take().code(), Errc::node_exists);
  Box<Result<NodeData>> got;
  c().async_get("/a", into(got));
  EXPECT_EQ(got.take()->data, "1");
  c().async_get("/x", into(got));
  EXPECT_EQ(got.take().error().path(), "/x");
  Box<Result<Stat>> set;
  c().async_set("/a", "2", any_version, into(set));
  EXPECT_EQ(set.take()->version, 1);
  Box<Result<std::optional<Stat>>> exists;
  c().async_exists("/a", into(exists));
  EXPECT_TRUE(exists.take().value());
  c().async_exists("/x", into(exists));
  EXPECT_FALSE(exists.take().value());
  Box<Result<Children>> children;
  c().async_children("/", into(children));
  EXPECT_EQ(children.take()->names, std::vector<std::string>{"a"});
  Box<Result<std::vector<OperationResult>>> committed;
  c().async_commit(Transaction().set("/a", "3"), into(committed));
  EXPECT_EQ(committed.take()->at(0).stat->version, 2);
  Box<Result<void>> removed;
  c().async_remove("/a", any_version, into(removed));
  EXPECT_TRUE(removed.take());
  Box<Result<Session>> connected;
  c().async_connect(into(connected));
  EXPECT_EQ(connected.take()->id(), c().session().id());
  client->close();  // No handler comes a second time.
  EXPECT_EQ(created.size() + got.size() + set.size() + exists.size() + children.size() + committed.size() +
                removed.size() + connected.size(),
            0u);
}

TEST_F(ClientTest, RequestsOfOneThreadAreAppliedInOrder) {
  c().create("/n", "");
  Box<std::pair<int, Result<Stat>>> results;
  for (int i = 0; i < 500; ++i)
    c().async_set("/n", std::to_string(i), i, [&results, i](Result<Stat> stat) { results.put({i, std::move(stat)}); });
  EXPECT_EQ(c().get("/n").data, "499");
  for (int i = 0; i < 500; ++i) {  // While one handler is held up, another thread may run the next one.
    const auto [call, stat] = results.take();
    ASSERT_EQ(stat->version, call + 1);
  }
}

// The C client hands each request to the kernel in two pieces.
TEST_F(ClientTest, ARequestIsOnePacket) {
  constexpr std::uint32_t requests = 20;
  const std::string server = c().server().value();
  std::uint32_t sent = 0;
  // Beside a ping. The kernel of a busy machine sends some a second time: not in each of many rounds.
  for (int round = 0; round < 20 && (round == 0 || sent > requests + 3); ++round) {
    const auto before = testkit::packets_sent(server);
    for (std::uint32_t i = 0; i < requests; ++i)
      c().exists("/");
    const auto after = testkit::packets_sent(server);
    ASSERT_TRUE(before && after);
    sent = *after - *before;
  }
  EXPECT_GE(sent, requests);
  EXPECT_LE(sent, requests + 3);
}

TEST_F(ClientTest, TellsNullFromEmptyData) {
  c().create("/null", std::nullopt);
  c().create("/empty", "");
  EXPECT_TRUE(c().get("/null").is_null);
  EXPECT_FALSE(c().get("/empty").is_null);
  EXPECT_EQ(c().get("/empty").data, "");
  c().set("/empty", std::nullopt);
  EXPECT_TRUE(c().get("/empty").is_null);
  c().set("/null", std::string_view("\0x\0", 3));
  EXPECT_EQ(c().get("/null").data, std::string("\0x\0", 3));
  c().commit(Transaction().create("/t-null", std::nullopt).create("/t-empty", ""));
  EXPECT_TRUE(c().get("/t-null").is_null);
  EXPECT_FALSE(c().get("/t-empty").is_null);
}

TEST_F(ClientTest, ValuesOfEverySizeComeBackWhole) {
  c().create("/v");
  for (const std::size_t size : {1u, 511u, 512u, 513u, 4096u, 65'536u, 1'000'000u}) {
    std::string value(size, 'x');
    value.back() = 'y';
    c().set("/v", value);
    ASSERT_EQ(c().get("/v").data, value) << size;
  }
}

TEST_F(ClientTest, VersionsGuardSetAndRemove) {
  c().create("/v");
  EXPECT_EQ(c().set("/v", "1", any_version).version, 1);
  EXPECT_EQ(error_of([&] { c().set("/v", "2", 0); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { c().remove("/v", 0); }), Errc::bad_version);
  EXPECT_EQ(c().get("/v").data, "1");
  c().remove("/v", any_version);
}

TEST_F(ClientTest, ListsChildrenWithTheParentsStat) {
  EXPECT_TRUE(c().children("/").names.empty());
  for (const char* path : {"/b", "/a", "/c"})
    c().create(path);
  Children children = c().children("/");
  std::sort(children.names.begin(), children.names.end());
  EXPECT_EQ(children.names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(children.stat.children_count, 3);
}

TEST_F(ClientTest, SyncReturnsWhenTheServerIsUpToDate) {
  c().create("/s");
  c().sync("/s");
  c().sync();
}

// ---- Create ---------------------------------------------------------------------------------------------------------

TEST_F(ClientTest, EphemeralNodesBelongToTheSession) {
  const Created created = c().create("/e", "", {.mode = CreateMode::ephemeral});
  EXPECT_EQ(created.stat.ephemeral_owner, c().session().id());
  EXPECT_EQ(c().create("/p").stat.ephemeral_owner, 0);
}

TEST_F(ClientTest, SequentialNodesGetANumber) {
  const std::string first = c().create("/s-", "", {.mode = CreateMode::persistent_sequential}).path;
  const std::string second = c().create("/s-", "", {.mode = CreateMode::ephemeral_sequential}).path;
  EXPECT_EQ(first, "/s-0000000000");
  EXPECT_EQ(second, "/s-0000000001");
  EXPECT_TRUE(c().exists(second));
}

TEST_F(ClientTest, ContainersAndTtlNodes) {
  EXPECT_EQ(c().create("/container", "", {.mode = CreateMode::container}).path, "/container");
  std::error_code error;
  c().create("/ttl", "x", {.mode = CreateMode::persistent_ttl, .ttl = 1h}, {}, error);
  if (error == Errc::unimplemented) GTEST_SKIP() << "TTL nodes are switched off on this server";
  ASSERT_FALSE(error) << error.message();
  const std::string path = c().create("/ttl-", "", {.mode = CreateMode::persistent_sequential_ttl, .ttl = 1h}).path;
  EXPECT_TRUE(path.starts_with("/ttl-00000000")) << path;
  c().create("/short", "", {.mode = CreateMode::persistent_ttl, .ttl = 1ms});
  if (zktesting::SharedServer::instance().has_control()) {
    EXPECT_TRUE(eventually([&] { return !c().exists("/short"); }));
  }
  EXPECT_TRUE(c().exists("/ttl"));
}

TEST_F(ClientTest, TheLongestOperationTimeoutIsNoTimeout) {
  const Client patient = make_client({.operation_timeout = std::chrono::milliseconds::max()});
  EXPECT_FALSE(patient.exists("/a"));
  EXPECT_NO_THROW(patient.ensure("/a"));
}

TEST_F(ClientTest, CreateMakesMissingParents) {
  const CreateOptions options{.mode = CreateMode::ephemeral, .parents = true};
  EXPECT_EQ(c().create("/a/b/c", "x", options).path, "/a/b/c");
  EXPECT_EQ(c().create("/a/b/d", "x", options).path, "/a/b/d");
  EXPECT_EQ(c().get("/a/b").data, "");
  EXPECT_EQ(c().exists("/a/b")->ephemeral_owner, 0);
  EXPECT_EQ(error_of([&] { c().create("/a/b/c", "x", options); }), Errc::node_exists);
  std::error_code error;
  c().create("/q/r", "", {.parents = true}, {}, error);
  EXPECT_FALSE(error);
  Box<Result<Created>> created;
  c().async_create("/x/y/z-", "", {.mode = CreateMode::persistent_sequential, .parents = true}, into(created));
  EXPECT_EQ(created.take()->path, "/x/y/z-0000000000");
}

TEST_F(ClientTest, EnsureMakesAllOfAPath) {
  c().ensure("/a/b/c");
  c().ensure("/a/b/c");
  c().ensure("/p/q", CreateMode::persistent);
  EXPECT_TRUE(c().exists("/a/b/c"));
  EXPECT_TRUE(c().exists("/p/q"));
  c().ensure("/");
  EXPECT_EQ(error_of([&] { c().ensure("/e", CreateMode::ephemeral); }), Errc::invalid_argument);
  c().create("/e", "", {.mode = CreateMode::ephemeral});
  EXPECT_EQ(error_of([&] { c().ensure("/e/f"); }), Errc::no_children_for_ephemerals);
}

TEST_F(ClientTest, EnsureMakesAMissingPrefix) {
  const Client below(hosts(), {.prefix = prefix() / "not/yet"});
  below.ensure("/a");
  EXPECT_TRUE(c().exists("/not/yet/a"));
}

TEST_F(ClientTest, ProtectedCreatePutsAUniqueIdBeforeTheName) {
  const CreateOptions options{.mode = CreateMode::ephemeral_sequential, .parents = true, .protection = true};
  const std::string path = c().create("/d/n-", "x", options).path;
  EXPECT_TRUE(path.starts_with("/d/_c_")) << path;
  EXPECT_TRUE(path.ends_with("-n-0000000000")) << path;
  EXPECT_EQ(path.size(), std::string("/d/_c_-n-0000000000").size() + 36);
  EXPECT_EQ(c().get(path).data, "x");
  Box<Result<Created>> created;
  c().async_create("/d/n-", "x", options, into(created));
  const std::string other = created.take()->path;
  EXPECT_NE(other.substr(6, 36), path.substr(6, 36));
  EXPECT_EQ(c().children("/d").names.size(), 2u);
}

TEST_F(ClientTest, AclsArePassedOn) {
  c().create("/locked", "x", {.acl = zkclient::read_only_acl()});
  EXPECT_EQ(c().get("/locked").data, "x");
  EXPECT_EQ(error_of([&] { c().set("/locked", "y"); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { c().create("/locked/child"); }), Errc::no_auth);
  const Acl bad{Acl::all, "no-such-scheme", "x"};
  EXPECT_EQ(error_of([&] { c().create("/b", "", {.acl = {bad}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { c().create("/b", "", {.acl = zkclient::creator_all_acl()}); }), Errc::invalid_acl)
      << "nobody is authenticated";
}

// ---- Prefix ---------------------------------------------------------------------------------------------------------

TEST_F(ClientTest, ResultsAndEventsAreWithoutPrefix) {
  const Client outside(hosts());
  ASSERT_EQ(c().prefix(), prefix());
  c().create("/n", "x");
  EXPECT_EQ(outside.get(prefix() / "n").data, "x");
  Box<WatchEvent> events;
  const auto watched = c().get_and_watch("/n", [&](const WatchEvent& event) { events.put(event); });
  outside.set(prefix() / "n", "y");
  EXPECT_EQ(events.take().path, "/n");
  const auto root = c().children_and_watch("/", [&](const WatchEvent& event) { events.put(event); });
  const auto results =
      c().commit(Transaction().create("/t-", "", {.mode = CreateMode::persistent_sequential}).set("/n", ""));
  EXPECT_EQ(results.at(0).path, "/t-0000000001") << "one child came before";
  EXPECT_EQ(events.take().path, "/");
}

TEST_F(ClientTest, APrefixThatIsMissingIsNoNode) {
  const Client below(hosts(), {.prefix = prefix() / "missing"});
  EXPECT_EQ(error_of([&] { below.create("/a"); }), Errc::no_node);
  EXPECT_FALSE(below.exists("/"));
}

// ---- Transactions ---------------------------------------------------------------------------------------------------

TEST_F(ClientTest, TransactionHappensAsAWhole) {
  c().create("/a", "1");
  const auto results = c().commit(Transaction()
                                      .check("/a", 0)
                                      .create("/b", "2")
                                      .create("/s-", "", {.mode = CreateMode::ephemeral_sequential})
                                      .set("/a", "3", 0)
                                      .remove("/b"));
  ASSERT_EQ(results.size(), 5u);
  EXPECT_EQ(results[0].path, "");
  EXPECT_EQ(results[1].path, "/b");
  EXPECT_EQ(results[2].path, "/s-0000000002");
  EXPECT_EQ(results[3].stat->version, 1);
  EXPECT_FALSE(results[4].stat);
  EXPECT_EQ(c().exists(results[2].path)->ephemeral_owner, c().session().id());
  EXPECT_FALSE(c().exists("/b"));
}

TEST_F(ClientTest, FailedTransactionNamesTheOperationAndChangesNothing) {
  c().create("/a", "1");
  try {
    c().commit(Transaction().create("/b").set("/a", "2").check("/a", 9).remove("/b"));
    FAIL() << "committed";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::transaction_failed);
    EXPECT_EQ(error.kind(), ErrorKind::precondition);
    EXPECT_EQ(error.operation(), "commit");
    EXPECT_NE(error.detail().find("operation 3 of 4"), std::string::npos) << error.what();
    EXPECT_NE(error.detail().find("check"), std::string::npos) << error.what();
    EXPECT_NE(error.detail().find("/a"), std::string::npos) << error.what();
    EXPECT_NE(error.detail().find(make_error_code(Errc::bad_version).message()), std::string::npos) << error.what();
    EXPECT_EQ(error.refused(), (zkclient::RefusedOperation{2, Errc::bad_version}));
    EXPECT_EQ(std::string(error.what()).find(prefix().str()), std::string::npos)
        << "shows the prefix: " << error.what();
  }
  EXPECT_FALSE(c().exists("/b"));
  EXPECT_EQ(c().get("/a").data, "1");
}

TEST_F(ClientTest, GuardOfAnotherSessionIsRefused) {
  Client other = make_client();
  c().create("/a");
  const Transaction guarded = Transaction().check({.path = "/a", .session = other.session()}).set("/a", "x");
  EXPECT_EQ(error_of([&] { c().commit(guarded); }), Errc::invalid_argument) << "it is of another client";
  EXPECT_EQ(c().get("/a").data, "");
  other.commit(guarded);
  EXPECT_EQ(c().get("/a").data, "x");
  const Transaction both =
      Transaction().check({.path = "/a", .session = other.session()}).check({.path = "/a", .session = c().session()});
  EXPECT_EQ(error_of([&] { c().commit(both); }), Errc::invalid_argument);
  const Session gone = other.session();
  other.close();
  EXPECT_EQ(error_of([&] { c().commit(Transaction().check({.path = "/a", .session = gone})); }),
            Errc::invalid_argument);
}

TEST_F(ClientTest, ATransactionMayBeRunAgain) {
  const Transaction transaction = Transaction().create("/a").remove("/a");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(c().commit(transaction).size(), 2u);
}

TEST_F(ClientTest, ALongTransactionWorks) {
  Transaction transaction;
  for (int i = 0; i < 500; ++i)
    transaction.create(Path("/n" + std::to_string(i)), "data");
  EXPECT_EQ(c().commit(transaction).size(), 500u);
  EXPECT_EQ(c().children("/").names.size(), 500u);
}

// ---- Watches --------------------------------------------------------------------------------------------------------

TEST_F(ClientTest, WatchesTellWhatHappened) {
  Box<WatchEvent> events;
  const auto handler = [&](const WatchEvent& event) { events.put(event); };
  const auto absent = c().exists_and_watch("/n", handler);
  EXPECT_FALSE(absent.value());
  EXPECT_TRUE(absent.watch().armed());
  c().create("/n", "1");
  EXPECT_EQ(events.take().type, WatchEventType::created);
  EXPECT_FALSE(absent.watch().armed());
  const auto data = c().get_and_watch("/n", handler);
  EXPECT_EQ(data.value().data, "1");
  c().set("/n", "2");
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  const auto children = c().children_and_watch("/n", handler);
  EXPECT_TRUE(children.value().names.empty());
  c().create("/n/child");
  EXPECT_EQ(events.take().type, WatchEventType::children_changed);
  const auto present = c().exists_and_watch("/n/child", handler);
  EXPECT_TRUE(present.value());
  c().remove("/n/child");
  const WatchEvent event = events.take();
  EXPECT_EQ(event.type, WatchEventType::deleted);
  EXPECT_EQ(event.path, "/n/child");
}

TEST_F(ClientTest, AWatchFiresOnce) {
  c().create("/n");
  Box<WatchEvent> events;
  const auto watched = c().get_and_watch("/n", [&](const WatchEvent& event) { events.put(event); });
  for (int i = 0; i < 5; ++i)
    c().set("/n", std::to_string(i));
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  Box<WatchEvent> later;
  const auto again = c().get_and_watch("/n", [&](const WatchEvent& event) { later.put(event); });
  c().remove("/n");
  EXPECT_EQ(later.take().type, WatchEventType::deleted);
  EXPECT_TRUE(events.empty());
}

TEST_F(ClientTest, AReadThatFailsLeavesNoWatch) {
  Box<WatchEvent> events;
  EXPECT_EQ(error_of([&] { (void)c().get_and_watch("/x", [&](const WatchEvent& event) { events.put(event); }); }),
            Errc::no_node);
  EXPECT_EQ(error_of([&] { (void)c().children_and_watch("/x", [&](const WatchEvent& event) { events.put(event); }); }),
            Errc::no_node);
  EXPECT_EQ(error_of([&] { (void)c().get_and_watch("/x", nullptr); }), Errc::invalid_argument);
  c().create("/x");
  client->close();
  EXPECT_TRUE(events.empty());
}

// No change between the value and the watch is missed: a client that re-reads on every event sees the last value.
TEST_F(ClientTest, ValueAndWatchAreOfOneInstant) {
  constexpr int changes = 500;
  c().create("/n", "0");
  std::thread writer([&] {
    const Client other = make_client();
    for (int i = 1; i <= changes; ++i)
      other.set("/n", std::to_string(i));
  });
  int last = 0;
  while (last != changes) {
    Box<WatchEvent> events;
    const auto watched = c().get_and_watch("/n", [&](const WatchEvent& event) { events.put(event); });
    const int now = std::stoi(watched.value().data);
    ASSERT_GE(now, last);
    last = now;
    if (now == changes) break;
    ASSERT_EQ(events.take().type, WatchEventType::data_changed);
  }
  writer.join();
}

TEST_F(ClientTest, DroppingAWatchRemovesItAndNoOther) {
  c().create("/n");
  Box<std::string> events;
  auto first = c().get_and_watch("/n", [&](const WatchEvent&) { events.put("first"); });
  const auto second = c().get_and_watch("/n", [&](const WatchEvent&) { events.put("second"); });
  auto third = c().exists_and_watch("/n", [&](const WatchEvent&) { events.put("third"); });
  first.watch() = Watch();
  third.watch() = std::move(first.watch());
  c().set("/n", "x");
  EXPECT_EQ(events.take(), "second");
  client->close();
  EXPECT_TRUE(events.empty());
}

TEST_F(ClientTest, AWatchMayBeDroppedInsideItsOwnHandler) {
  c().create("/n");
  Box<bool> dropped;
  std::optional<Watch> own;
  std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    own = c().get_and_watch("/n",
                            [&](const WatchEvent&) {
                              {
                                const std::lock_guard guard(mutex);
                                own.reset();
                              }
                              dropped.put(true);  // The last thing: the test may be over then.
                            })
              .watch();
  }
  c().set("/n", "x");
  EXPECT_TRUE(dropped.take());
}

TEST_F(ClientTest, SeveralWatchesOnOnePathAllFire) {
  c().create("/n");
  Box<int> events;
  std::vector<Watch> watches;
  for (int i = 0; i < 50; ++i) {
    watches.push_back(c().get_and_watch("/n", [&, i](const WatchEvent&) { events.put(i); }).watch());
  }
  c().set("/n", "x");
  std::set<int> seen;
  for (int i = 0; i < 50; ++i)
    seen.insert(events.take());
  EXPECT_EQ(seen.size(), 50u);
}

TEST_F(ClientTest, DeletionEndsBothKindsOfWatches) {
  c().create("/n");
  Box<WatchEventType> events;
  const auto handler = [&](const WatchEvent& event) { events.put(event.type); };
  const auto data = c().get_and_watch("/n", handler);
  const auto children = c().children_and_watch("/n", handler);
  c().remove("/n");
  EXPECT_EQ(events.take(), WatchEventType::deleted);
  EXPECT_EQ(events.take(), WatchEventType::deleted);
}

TEST_F(ClientTest, ClosingEndsEveryWatchOnce) {
  c().create("/n");
  Box<WatchEventType> events;
  const auto handler = [&](const WatchEvent& event) { events.put(event.type); };
  const auto data = c().get_and_watch("/n", handler);
  const auto children = c().children_and_watch("/n", handler);
  auto dropped = c().exists_and_watch("/m", [&](const WatchEvent&) { ADD_FAILURE() << "was dropped"; });
  dropped.watch() = Watch();
  client->close();
  ASSERT_EQ(events.size(), 2u) << "close() waits for the handlers";
  EXPECT_EQ(events.take(), WatchEventType::closed);
  EXPECT_EQ(events.take(), WatchEventType::closed);
  EXPECT_FALSE(data.watch().armed());
}

TEST_F(ClientTest, NoWatchIsLeftAtTheServerAfterClose) {
  zktesting::SharedServer& shared = zktesting::SharedServer::instance();
  if (!shared.has_control()) GTEST_SKIP() << "the server cannot be asked: it is not ours";
  {
    const Client other = make_client();
    std::vector<Watch> watches;
    for (int i = 0; i < 20; ++i) {
      watches.push_back(other.exists_and_watch(Path("/n" + std::to_string(i)), [](const WatchEvent&) {}).watch());
    }
    EXPECT_GE(shared.server().watch_count(), 20u);
  }
  EXPECT_TRUE(eventually([&] { return shared.server().watch_count() == 0; })) << shared.server().watch_count();
}

// ---- Handlers -------------------------------------------------------------------------------------------------------

TEST_F(ClientTest, HandlersNeverRunInsideTheLoop) {
  Box<bool> inside;
  const auto tell = [&] { inside.put(zkclient::detail::Loop::current() != nullptr); };
  c().create("/n");
  c().async_get("/n", [&](const Result<NodeData>&) { tell(); });
  EXPECT_FALSE(inside.take());
  c().async_create("/p/q", "", {.parents = true}, [&](const Result<Created>&) { tell(); });
  EXPECT_FALSE(inside.take());
  const auto watched = c().get_and_watch("/n", [&](const WatchEvent&) { tell(); });
  c().set("/n", "");
  EXPECT_FALSE(inside.take());
  const auto subscription = c().on_state_change([&](const StateChange&) { tell(); });
  EXPECT_FALSE(inside.take());
  const std::stop_callback lost(c().session().lost(), [&] { tell(); });
  client->close();
  EXPECT_FALSE(inside.take());
  EXPECT_FALSE(inside.take()) << "the listener's last state";
}

TEST_F(ClientTest, HandlersMayMakeBlockingCalls) {
  c().create("/n", "1");
  Box<std::string> results;
  c().async_get("/n", [&](const Result<NodeData>&) {
    c().create("/made-in-handler", "");
    c().async_get("/n", [&](const Result<NodeData>&) { results.put(c().get("/n").data); });
    results.put(c().get("/n").data);
  });
  EXPECT_EQ(results.take(), "1");
  EXPECT_EQ(results.take(), "1");
  const auto watched = c().get_and_watch("/n", [&](const WatchEvent& event) { results.put(c().get(event.path).data); });
  c().set("/n", "2");
  EXPECT_EQ(results.take(), "2");
  const auto subscription = c().on_state_change([&](const StateChange&) { results.put(c().get("/n").data); });
  EXPECT_EQ(results.take(), "2");
}

TEST_F(ClientTest, ManyHandlersThatBlockAtOnceDoNotDeadlock) {
  c().create("/n", "1");
  Box<int> done;
  for (int i = 0; i < 40; ++i) {
    c().async_get("/n", [&](const Result<NodeData>&) {
      c().set("/n", "2");
      done.put(1);
    });
  }
  for (int i = 0; i < 40; ++i)
    done.take();
}

TEST_F(ClientTest, ASlowHandlerDelaysNobodyElse) {
  c().create("/n", "1");
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  Box<bool> blocked;
  c().async_get("/n", [&, released](const Result<NodeData>&) {
    blocked.put(true);
    released.wait_for(testkit::patience);
  });
  blocked.take();
  const auto begin = SteadyClock::now();
  Box<Result<NodeData>> other;
  c().async_get("/n", into(other));
  EXPECT_TRUE(other.take());
  EXPECT_EQ(c().get("/n").data, "1");
  EXPECT_LT(SteadyClock::now() - begin, testkit::patience / 2) << "the slow one takes twice that";
  release.set_value();
}

TEST_F(ClientTest, AnExecutorOfTheUsersOwnRunsTheHandlers) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::function<void()>> tasks;
  bool ended = false;
  std::thread executor([&] {
    pthread_setname_np(pthread_self(), "my-executor");
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ended || !tasks.empty(); });
      if (tasks.empty()) return;
      const auto task = std::move(tasks.front());
      tasks.erase(tasks.begin());
      lock.unlock();
      task();
      lock.lock();
    }
  });
  {
    Runtime runtime({.callback_executor = [&](std::function<void()> task) {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
      changed.notify_all();
    }});
    Box<std::string> told;
    Box<std::string> answered;
    const Client own(runtime, hosts(), {.prefix = prefix()});
    const auto subscription = own.on_state_change([&](const StateChange&) { told.put(this_thread_name()); });
    EXPECT_EQ(told.take(), "my-executor");
    own.create("/n");
    own.async_get("/n", [&](const Result<NodeData>&) { answered.put(this_thread_name()); });
    EXPECT_EQ(answered.take(), "my-executor");
    EXPECT_TRUE(eventually([&] { return thread_names()["zkclient"] == 3; })) << "two of the other client, and one loop";
  }
  {
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }
  executor.join();
}

// As the pool of a service does that has ended before its clients.
TEST_F(ClientTest, AnExecutorMayThrow) {
  std::atomic<int> thrown{0};
  Runtime runtime({.callback_executor = [&](const std::function<void()>&) {
    ++thrown;
    throw std::runtime_error("the pool has ended");
  }});
  const Client own(runtime, hosts(), {.prefix = prefix()});
  own.create("/n");
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> handler = alive;
  own.async_get("/n", [alive = std::move(alive)](const Result<NodeData>&) { FAIL() << "nobody runs it"; });
  EXPECT_TRUE(eventually([&] { return handler.expired(); }));
  EXPECT_EQ(own.get("/n").stat.version, 0);
  EXPECT_GT(thrown, 0);
}

// An application with one thread, which closes the client while nobody runs its executor.
TEST_F(ClientTest, CloseRunsWhatAnIdleExecutorHasNotBegun) {
  std::mutex mutex;
  std::vector<std::function<void()>> tasks;
  int answered = 0;
  {
    Runtime runtime({.callback_executor = [&](std::function<void()> task) {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }});
    Client own(runtime, hosts(), {.prefix = prefix()});
    own.create("/n");
    for (int i = 0; i < 10; ++i)
      own.async_get("/n", [&](const Result<NodeData>&) { ++answered; });
    own.close();
    EXPECT_EQ(answered, 10);
  }
  for (const auto& task : tasks)
    task();  // They have run already.
  EXPECT_EQ(answered, 10);
}

// Its captures may be anything: a last copy of the client, for one, whose destructor waits for the loop.
TEST_F(ClientTest, AnUncalledWatchHandlerDoesNotEndOnTheEventLoop) {
  struct Capture {
    Capture(std::atomic<int>& e, std::atomic<int>& l) : ended(e), on_loop(l) {}
    ~Capture() {
      if (zkclient::detail::Loop::current() != nullptr) ++on_loop;
      ++ended;
    }
    std::atomic<int>& ended;
    std::atomic<int>& on_loop;
  };
  constexpr int times = 300;
  std::atomic<int> ended{0};
  std::atomic<int> on_loop{0};
  for (int i = 0; i < times; ++i) {
    c().async_get_and_watch(
        "/missing", [capture = std::make_unique<Capture>(ended, on_loop)](const WatchEvent&) {},
        [](const Result<zkclient::Watched<NodeData>>& result) { EXPECT_EQ(result.code(), Errc::no_node); });
  }
  EXPECT_TRUE(eventually([&] { return ended == times; }));
  EXPECT_EQ(on_loop.load(), 0);
}

TEST_F(ClientTest, TheOnlyCallbackThreadMayEndTheRuntime) {
  auto runtime = std::make_unique<Runtime>(zkclient::RuntimeOptions{.max_callback_threads = 1});
  Client first(*runtime, hosts(), {.prefix = prefix()});
  Client second(*runtime, hosts(), {.prefix = prefix()});
  first.create("/n");
  second.connect();
  Box<int> changes;
  const auto one = first.on_state_change([&](const StateChange&) { changes.put(1); });
  const auto two = second.on_state_change([&](const StateChange&) { changes.put(2); });
  Box<bool> ended;
  first.async_get("/n", [&](const Result<NodeData>&) {
    second.async_get("/n", [](const Result<NodeData>&) {});
    runtime.reset();
    ended.put(true);
  });
  EXPECT_TRUE(ended.take());
  EXPECT_EQ(first.session().state(), ConnectionState::closed);
}

// ---- Limits of a call -----------------------------------------------------------------------------------------------

TEST(ClientWithoutServerTest, DeadlinesEndEveryCall) {
  const Client client(nowhere, {.operation_timeout = 10min});
  const auto begin = SteadyClock::now();
  const auto soon = [] { return CallOptions{.deadline = SteadyClock::now() + 50ms}; };
  EXPECT_EQ(error_of([&] { client.connect(soon()); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { client.get("/a", soon()); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { client.create("/a", "", {}, soon()); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { client.create("/a", "", {.parents = true, .protection = true}, soon()); }),
            Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { client.ensure("/a/b", CreateMode::container, soon()); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { client.commit(Transaction().create("/a"), soon()); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { client.sync("/", soon()); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] {
              (void)client.get_and_watch(
                  "/", [](const WatchEvent&) {}, soon());
            }),
            Errc::deadline_exceeded);
  Box<Result<NodeData>> got;
  client.async_get("/a", into(got), soon());
  EXPECT_EQ(got.take().code(), Errc::deadline_exceeded);
  EXPECT_LT(SteadyClock::now() - begin, 60s) << "without its own deadline each of them takes minutes";
}

TEST(ClientWithoutServerTest, OperationTimeoutIsTheDefaultDeadline) {
  const Client client(nowhere, {.operation_timeout = 50ms});
  EXPECT_EQ(error_of([&] { client.get("/a"); }), Errc::deadline_exceeded);
  Box<Result<void>> removed;
  client.async_remove("/a", any_version, into(removed));
  EXPECT_EQ(removed.take().code(), Errc::deadline_exceeded);
}

TEST(ClientWithoutServerTest, PathsThatThePrefixMakesTooLongAreRefused) {
  const Client client(nowhere, {.prefix = Path("/" + std::string(60'000, 'p'))});
  const Path path("/" + std::string(5'535, 'q'));
  const CallOptions soon{.deadline = testkit::soon()};
  const auto refused = [](const std::function<void()>& call) { EXPECT_EQ(error_of(call), Errc::invalid_path); };
  refused([&] { client.create(path, "", {}, soon); });
  refused([&] { client.create(path, "", {.parents = true, .protection = true}, soon); });
  refused([&] { client.get(path, soon); });
  refused([&] { client.ensure(path, CreateMode::container, soon); });
  refused([&] { client.remove_tree(path, soon); });
  refused([&] { client.remove_in_background(path); });
  refused([&] {
    client.async_get(
        path, [](const Result<NodeData>&) {}, soon);
  });
  refused([&] {
    client.async_ensure(
        path, CreateMode::container, [](const Result<void>&) {}, soon);
  });
  refused([&] {
    zkrecipes::Mutex mutex(client, path);
    (void)mutex.acquire(soon);
  });
  const Path longest("/" + std::string(5'534, 'q'));
  EXPECT_EQ(error_of([&] { client.get(longest, {.deadline = SteadyClock::now() + 50ms}); }), Errc::deadline_exceeded);
}

TEST(ClientWithoutServerTest, AnExceptionInTheMiddleOfACallIsItsResult) {
  using zkclient::detail::Awaitable;
  using zkclient::detail::Call;
  using zkclient::detail::Work;
  const Client client(nowhere);
  const auto result_of = [&client](const std::function<void()>& step) {
    Work<void> work = [&step](Call) -> Awaitable<Result<void>> {
      step();
      co_return Result<void>();
    };
    return zkclient::detail::CallForm(client.impl(), "test", "/n").result(CallOptions{}, std::move(work));
  };
  EXPECT_TRUE(result_of([] {}));
  EXPECT_EQ(result_of([] { throw Error(Errc::foreign_node, "test", "/n"); }).code(), Errc::foreign_node);
  EXPECT_EQ(result_of([] { throw std::bad_alloc(); }).code(), Errc::in_doubt);
}

TEST(ClientWithoutServerTest, StopTokensEndEveryCall) {
  const Client client(nowhere);
  const auto stopped_during = [&](const std::function<void(const CallOptions&)>& call) {
    std::stop_source source;
    std::thread stopper([&] { source.request_stop(); });
    const CallOptions options{.deadline = testkit::soon(), .stop = source.get_token()};
    EXPECT_EQ(error_of([&] { call(options); }), Errc::cancelled);
    stopper.join();
  };
  for (int i = 0; i < 50; ++i) {
    stopped_during([&](const CallOptions& call) { client.get("/a", call); });
    stopped_during([&](const CallOptions& call) { client.connect(call); });
    stopped_during([&](const CallOptions& call) { client.create("/a", "", {.parents = true}, call); });
    stopped_during([&](const CallOptions& call) {
      (void)client.children_and_watch(
          "/", [](const WatchEvent&) {}, call);
    });
  }
}

TEST(ClientWithoutServerTest, StopTokensEndAsynchronousCallsOnce) {
  Client client(nowhere);
  constexpr int rounds = 300;
  Box<Errc> codes;
  for (int i = 0; i < rounds; ++i) {
    std::stop_source source;
    const CallOptions options{.deadline = testkit::soon(), .stop = source.get_token()};
    std::thread stopper([&] { source.request_stop(); });
    client.async_get(
        "/a", [&](const Result<NodeData>& result) { codes.put(result.error().errc()); }, options);
    client.async_create(
        "/a/b", "", {.protection = true}, [&](const Result<Created>& result) { codes.put(result.error().errc()); },
        options);
    stopper.join();
  }
  for (int i = 0; i < 2 * rounds; ++i)
    ASSERT_EQ(codes.take(), Errc::cancelled);
  client.close();
  EXPECT_TRUE(codes.empty());
}

TEST_F(ClientTest, AsynchronousCallsThatSucceedLetGoOfTheirStopToken) {
  // The call ends at the same moment at which its stop callback is set up or fires.
  c().create("/n", "x");
  Box<bool> done;
  for (int i = 0; i < 1000; ++i) {
    std::stop_source source;
    c().async_get("/n", [&](const Result<NodeData>& result) { done.put(result || result.code() == Errc::cancelled); },
                  {.stop = source.get_token()});
    if (i % 3 == 0) source.request_stop();
  }
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(done.take());
}

TEST_F(ClientTest, ACallThatWasCancelledBeforeItBeganSendsNothing) {
  std::stop_source source;
  source.request_stop();
  const CallOptions stopped{.stop = source.get_token()};
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(error_of([&] { c().create("/n", "", {}, stopped); }), Errc::cancelled);
    ASSERT_EQ(error_of([&] { c().create("/n/m", "", {.parents = true}, stopped); }), Errc::cancelled);
  }
  Box<Result<Created>> created;
  for (int i = 0; i < 200; ++i)
    c().async_create("/n", "", {}, into(created), stopped);
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(created.take().code(), Errc::cancelled);
  EXPECT_FALSE(c().exists("/n"));
}

TEST_F(ClientTest, ADeadlineThatHasPassedSendsNothing) {
  const CallOptions late{.deadline = SteadyClock::now() - 1s};
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(error_of([&] { c().create("/n", "", {}, late); }), Errc::deadline_exceeded);
  }
  EXPECT_FALSE(c().exists("/n"));
}

// ---- Bad input ------------------------------------------------------------------------------------------------------

// V87: after 2^31 changes versions are negative.
TEST_F(ClientTest, ANegativeVersionIsAVersion) {
  c().create("/n", "x");
  EXPECT_EQ(error_of([&] { c().set("/n", "y", -2); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { c().remove("/n", -2); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { c().set_acl("/n", zkclient::open_acl(), -2); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { c().commit(Transaction().check("/n", -2)); }), Errc::transaction_failed);
  EXPECT_EQ(error_of([&] { c().commit(Transaction().set("/n", "y", -2)); }), Errc::transaction_failed);
  EXPECT_EQ(error_of([&] { c().commit(Transaction().remove("/n", -2)); }), Errc::transaction_failed);
  EXPECT_EQ(c().get("/n").data, "x");
}

TEST_F(ClientTest, BadInputIsRefusedAndChangesNothing) {
  c().create("/n", "x");
  const std::pair<const char*, std::function<void()>> table[] = {
      {"relative path", [&] { c().create("n"); }},
      {"trailing slash", [&] { c().get("/n/"); }},
      {"empty path", [&] { c().exists(""); }},
      {"empty ACL", [&] { c().create("/m", "", {.acl = {}}); }},
      {"TTL mode without ttl", [&] { c().create("/m", "", {.mode = CreateMode::persistent_ttl}); }},
      {"ttl without TTL mode", [&] { c().create("/m", "", {.ttl = 1s}); }},
      {"negative ttl", [&] { c().create("/m", "", {.mode = CreateMode::persistent_ttl, .ttl = -1s}); }},
      {"ttl out of range",
       [&] { c().create("/m", "", {.mode = CreateMode::persistent_ttl, .ttl = std::chrono::hours(1'000'000)}); }},
      {"empty transaction", [&] { c().commit(Transaction()); }},
      {"the root", [&] { make_client().create("/"); }},
      {"no listener", [&] { (void)c().on_state_change(nullptr); }},
  };
  for (const auto& [what, action] : table) {
    try {
      action();
      ADD_FAILURE() << what << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::precondition) << what << ": " << error.what();
    }
  }
  EXPECT_EQ(c().get("/n").data, "x");
  EXPECT_EQ(c().children("/").names.size(), 1u);
}

TEST_F(ClientTest, OversizeRequestsAreRefusedAndTheConnectionStaysUp) {
  c().create("/n", "x");
  Box<ConnectionState> states;
  const auto subscription = c().on_state_change([&](const StateChange& change) { states.put(change.state); });
  EXPECT_EQ(states.take(), ConnectionState::connected);
  const std::string huge(1'048'576, 'x');
  EXPECT_EQ(error_of([&] { c().set("/n", huge); }), Errc::too_large);
  EXPECT_EQ(error_of([&] { c().create("/m", huge); }), Errc::too_large);
  EXPECT_EQ(error_of([&] { c().create("/p/m", huge, {.protection = true}); }), Errc::too_large);
  const std::string half(600'000, 'x');
  EXPECT_EQ(error_of([&] { c().commit(Transaction().set("/n", half).set("/n", half)); }), Errc::too_large);
  zkclient::AclList acl(50'000, Acl{});
  EXPECT_EQ(error_of([&] { c().create("/m", "", {.acl = acl}); }), Errc::too_large);
  EXPECT_EQ(c().get("/n").data, "x");
  EXPECT_TRUE(states.empty()) << "the connection was lost";
  // The largest that is let through does arrive.
  std::string value(1'047'000, 'x');
  c().set("/n", value);
  EXPECT_EQ(c().get("/n").data, value);
  EXPECT_TRUE(states.empty()) << "the connection was lost";
}

TEST(ClientOptionsTest, BadOptionsAreRefused) {
  const auto refused = [](const char* hosts, ClientOptions options) {
    EXPECT_EQ(error_of([&] { const Client client(hosts, std::move(options)); }), Errc::invalid_argument);
  };
  for (const char* hosts : {"", "host:port", "host:0", "a,,b", "host/path"})
    refused(hosts, {});
  refused(nowhere, {.session_timeout = 0ms});
  refused(nowhere, {.session_timeout = -1ms});
  refused(nowhere, {.session_timeout = 25h});
  refused(nowhere, {.server_tick = 0ms});
  refused(nowhere, {.server_tick = std::chrono::milliseconds::max()});
  refused(nowhere, {.operation_timeout = 0ms});
  refused(nowhere, {.operation_timeout = -1ms});
  refused(nowhere, {.retry = {.initial = -1ms}});
  refused(nowhere, {.retry = {.max = -1ms}});
  refused(nowhere, {.retry = {.max_attempts = 0}});
  refused(nowhere, {.retry = {.multiplier = std::numeric_limits<double>::quiet_NaN()}});
  refused(nowhere, {.retry = {.jitter = std::numeric_limits<double>::quiet_NaN()}});
  refused(nowhere, {.resume = SessionCredentials{0, std::string(16, 'x')}});
  refused(nowhere, {.resume = SessionCredentials{1, "short"}});
  EXPECT_EQ(error_of([] { Runtime runtime({.max_callback_threads = 0}); }), Errc::invalid_argument);
}

TEST(ClientOptionsTest, ErrorsDoNotShowCredentials) {
  try {
    const Client client(nowhere, {.resume = SessionCredentials{1, "secret-password"}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
}

// ---- Closing --------------------------------------------------------------------------------------------------------

TEST_F(ClientTest, CloseEndsTheSessionAtTheServerAtOnce) {
  for (int round = 0; round < 20; ++round) {
    Client other = make_client();
    other.create("/e", "", {.mode = CreateMode::ephemeral});
    // Requests on their way must not keep the server from hearing the end.
    for (int i = 0; i < 50; ++i)
      other.async_get("/e", [](const Result<NodeData>&) {});
    const auto begin = SteadyClock::now();
    other.close();
    EXPECT_TRUE(may_have_given_up(begin) || !c().exists("/e")) << "round " << round;
    ASSERT_TRUE(eventually([&] { return !c().exists("/e"); }));
  }
}

TEST_F(ClientTest, CloseIsIdempotentAndEverythingFailsAfterwards) {
  Client other = make_client();
  const Client copy = other;
  const Session session = other.session();
  other.close();
  other.close();
  EXPECT_EQ(session.state(), ConnectionState::closed);
  EXPECT_TRUE(session.lost().stop_requested());
  EXPECT_EQ(copy.session().state(), ConnectionState::closed);
  EXPECT_EQ(error_of([&] { copy.get("/"); }), Errc::closed);
  EXPECT_EQ(error_of([&] { copy.create("/a/b", "", {.parents = true}); }), Errc::closed);
  EXPECT_EQ(error_of([&] { copy.connect(); }), Errc::closed);
  EXPECT_EQ(error_of([&] { copy.sync(); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)copy.get_and_watch("/", [](const WatchEvent&) {}); }), Errc::closed);
  EXPECT_EQ(error_of([&] { copy.commit(Transaction().create("/a")); }), Errc::closed);
  copy.remove_in_background("/a");
  const auto subscription = copy.on_state_change([](const StateChange&) {});
}

TEST_F(ClientTest, AsynchronousHandlersAreCalledOnceAfterCloseToo) {
  for (const bool shared : {false, true}) {
    Runtime runtime;
    Client other = shared ? Client(runtime, hosts(), {.prefix = prefix()}) : make_client();
    other.close();
    Box<Errc> codes;
    other.async_get("/", [&](const Result<NodeData>& result) { codes.put(result.error().errc()); });
    other.async_create("/a/b", "", {.parents = true},
                       [&](const Result<Created>& result) { codes.put(result.error().errc()); });
    EXPECT_EQ(codes.take(), Errc::closed);
    EXPECT_EQ(codes.take(), Errc::closed);
    EXPECT_TRUE(codes.empty());
  }
}

TEST_F(ClientTest, CloseCallsEveryHandlerOnceBeforeItReturns) {
  for (int round = 0; round < 20; ++round) {
    Client other = make_client();
    std::vector<std::atomic<int>> calls(600);
    for (std::size_t i = 0; i < calls.size(); i += 3) {
      other.async_get("/", [&, i](const Result<NodeData>&) { ++calls[i]; });
      other.async_create(Path("/s-"), "", {.mode = CreateMode::ephemeral_sequential},
                         [&, i](const Result<Created>& result) {
                           ++calls[i + 1];
                           if (!result && result.code() != Errc::closed && result.code() != Errc::in_doubt) {
                             ADD_FAILURE() << result.error().what();
                           }
                         });
      other.async_create(Path("/p/s-"), "", {.mode = CreateMode::ephemeral_sequential, .parents = true},
                         [&, i](const Result<Created>&) { ++calls[i + 2]; });
    }
    const auto begin = SteadyClock::now();
    other.close();
    for (const auto& count : calls)
      ASSERT_EQ(count, 1) << "round " << round;
    const auto all_gone = [&] {
      std::vector<std::string> names = c().children("/").names;
      std::erase(names, "p");  // A container, which the server removes when it likes.
      return names.empty();
    };
    EXPECT_TRUE(may_have_given_up(begin) || all_gone()) << "ephemeral nodes remain";
    ASSERT_TRUE(eventually(all_gone));
  }
}

TEST_F(ClientTest, ClosingFromAHandlerDoesNotDeadlock) {
  for (const bool shared : {false, true}) {
    Runtime runtime;
    Client other = shared ? Client(runtime, hosts(), {.prefix = prefix()}) : make_client();
    Box<bool> closed;
    other.async_get("/", [&](const Result<NodeData>&) {
      other.close();
      closed.put(true);
    });
    EXPECT_TRUE(closed.take());
    EXPECT_EQ(error_of([&] { other.get("/"); }), Errc::closed);
  }
}

TEST_F(ClientTest, TheLastCopyMayGoInsideAHandler) {
  Box<bool> gone;
  {
    auto other = std::make_shared<std::optional<Client>>(make_client());
    const Client& raw = **other;
    raw.async_get("/", [other, &gone](const Result<NodeData>&) mutable {
      other->reset();
      gone.put(true);
    });
  }
  EXPECT_TRUE(gone.take());
}

// Nobody waits for the end then.
TEST_F(ClientTest, TheLastCopyMayGoOnTheEventLoopOfAnExecutorThatDropsTasks) {
  std::atomic<bool> drops{false};
  Runtime runtime({.callback_executor = [&drops](std::function<void()> task) {
    if (!drops) std::thread(std::move(task)).detach();
  }});
  Client other(runtime, hosts(), {.prefix = prefix()});
  const zkclient::Session session = other.connect();
  drops = true;
  runtime.impl()->post([last = std::move(other)] {});
  EXPECT_TRUE(eventually([&] { return session.state() == ConnectionState::closed; }));
}

TEST_F(ClientTest, SeveralThreadsMayCloseAtOnce) {
  for (int round = 0; round < 30; ++round) {
    Client other = make_client();
    other.create("/e", "", {.mode = CreateMode::ephemeral});
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, copy = other]() mutable {
        const auto begin = SteadyClock::now();
        ++ready;
        while (ready < 4)
          std::this_thread::yield();
        copy.close();
        EXPECT_TRUE(may_have_given_up(begin) || !c().exists("/e")) << "close() returned before the session was closed";
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    ASSERT_TRUE(eventually([&] { return !c().exists("/e"); }));
  }
}

TEST(ClientWithoutServerTest, ASecondStopOfALoopWaitsForTheFirst) {
  const auto loop = zkclient::detail::Loop::start({});
  std::promise<void> begun;
  std::promise<void> second;  // Has returned.
  bool inside_returned = false;
  bool second_was_early = false;
  loop->schedule(
      [&] {
        begun.set_value();
        while (loop->post([] {}))  // Until the first one is under way.
          std::this_thread::yield();
        loop->stop();
        inside_returned = true;
        second_was_early = second.get_future().wait_for(200ms) == std::future_status::ready;
      },
      false);
  begun.get_future().wait();
  std::thread first([&] { loop->stop(); });
  while (loop->post([] {}))
    std::this_thread::yield();
  loop->stop();
  second.set_value();
  first.join();
  EXPECT_TRUE(inside_returned);
  EXPECT_FALSE(second_was_early) << "it returned before the threads were joined";
}

TEST_F(ClientTest, CloseEndsBlockingCallsOfOtherThreads) {
  Client other(nowhere, {.operation_timeout = 60s});
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto code = error_of([&] {
        if (i % 2 == 0)
          other.get("/");
        else
          other.create("/a/b", "", {.parents = true, .protection = true});
      });
      EXPECT_EQ(code, Errc::closed);
      ++ended;
    });
  }
  other.close();
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(ended, 4);
}

TEST(ClientWithoutServerTest, CloseReturnsPromptly) {
  for (int i = 0; i < 5; ++i) {
    Client client(nowhere, {.operation_timeout = 5min, .retry = {.initial = 60s, .max = 60s}});
    Box<Result<NodeData>> got;
    client.async_get("/", into(got));
    const auto begin = SteadyClock::now();
    client.close();
    EXPECT_LT(SteadyClock::now() - begin, 40s);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got.take().code(), Errc::closed);
  }
}

TEST(ClientWithoutServerTest, CloseReturnsPromptlyWhenANameIsUnknown) {
  Client client("no-such-host.invalid:2181");
  EXPECT_EQ(error_of([&] { client.connect({.deadline = SteadyClock::now() + 20ms}); }), Errc::deadline_exceeded);
  const auto begin = SteadyClock::now();
  client.close();
  EXPECT_LT(SteadyClock::now() - begin, testkit::patience);  // At worst as long as one look-up.
}

TEST(ClientWithoutServerTest, ClosingTheRuntimeClosesItsClients) {
  std::optional<Runtime> runtime(std::in_place);
  Client client(*runtime, nowhere);
  Box<Result<NodeData>> got;
  client.async_get("/", into(got));
  runtime.reset();
  EXPECT_EQ(got.take().code(), Errc::closed);
  EXPECT_EQ(error_of([&] { client.get("/"); }), Errc::closed);
  client.close();
}

// ---- A server of its own --------------------------------------------------------------------------------------------

TEST(ClientAndItsServerTest, AClientMayBeMadeBeforeItsServerIsUp) {
  zktesting::Server server;
  server.stop();
  const Client client(server.connect_string());
  Box<Result<Created>> created;
  client.async_create("/async", "", {}, into(created), {.deadline = testkit::soon()});
  std::thread blocking([&] { client.create("/blocking", "", {}, {.deadline = testkit::soon()}); });
  server.start();
  blocking.join();
  EXPECT_EQ(created.take()->path, "/async");
  EXPECT_TRUE(client.exists("/blocking"));
}

TEST(ClientAndItsServerTest, CloseReturnsPromptlyWhenTheServerIsSilent) {
  zktesting::Server server;
  Client client(server.connect_string(), {.session_timeout = 60s, .operation_timeout = 5min});
  client.create("/n");
  server.pause();
  Box<Result<Stat>> set;
  Box<Result<NodeData>> got;
  client.async_set("/n", "x", any_version, into(set));
  client.async_get("/n", into(got));
  const auto begin = SteadyClock::now();
  client.close();
  EXPECT_LT(SteadyClock::now() - begin, 30s) << "the connection is given up after 40 s";
  EXPECT_EQ(set.take().code(), Errc::in_doubt);
  EXPECT_EQ(got.take().code(), Errc::closed);
  server.resume();
}

TEST(ClientAndItsServerTest, CloseDoesNotWaitForAReadThatPausesBeforeItIsRepeated) {
  const zktesting::Server server;
  zktesting::Proxy proxy(server.connect_string());
  Runtime runtime;
  for (const bool shared : {false, true}) {
    const ClientOptions options{
        .session_timeout = 30s, .operation_timeout = 5min, .retry = {.initial = 60s, .max = 60s, .jitter = 0.0}};
    Client client = shared ? Client(runtime, proxy.connect_string(), options) : Client(proxy.connect_string(), options);
    client.connect();
    Box<ConnectionState> states;
    const auto subscription = client.on_state_change([&](const StateChange& change) { states.put(change.state); });
    Box<Result<NodeData>> got;
    const auto reply = proxy.drop_next_reply(zktesting::RequestType::get_data);
    client.async_get("/", into(got));
    ASSERT_TRUE(reply.wait(testkit::patience));  // The read now waits for its second attempt.
    states.take_until([](const ConnectionState& state) { return state == ConnectionState::suspended; });
    states.take_until([](const ConnectionState& state) { return state == ConnectionState::connected; });
    EXPECT_TRUE(got.empty());
    const auto begin = SteadyClock::now();
    client.close();
    EXPECT_LT(SteadyClock::now() - begin, 40s) << "the read waits for a minute";
    ASSERT_EQ(got.size(), 1u) << "the handler was not called before close() returned";
    EXPECT_EQ(got.take().code(), Errc::closed);
  }
}

TEST(ClientAndItsServerTest, WatchesSurviveAReconnection) {
  zktesting::Server server;
  const Client client(server.connect_string(), {.session_timeout = 30s});
  client.create("/n", "1");
  Box<WatchEvent> events;
  const auto handler = [&](const WatchEvent& event) { events.put(event); };
  const auto data = client.get_and_watch("/n", handler);
  const auto absent = client.exists_and_watch("/m", handler);
  server.restart();
  client.sync("/", {.deadline = testkit::soon()});
  EXPECT_TRUE(data.watch().armed());
  client.set("/n", "2");
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  client.create("/m");
  EXPECT_EQ(events.take().type, WatchEventType::created);
}

// ---- What is left behind --------------------------------------------------------------------------------------------

TEST_F(ClientTest, TwoThreadsPerRuntimeAndNoneAfterwards) {
  client.reset();
  const std::size_t before = testkit::thread_count();
  {
    Runtime runtime;
    std::vector<Client> clients;
    for (int i = 0; i < 5; ++i)
      clients.emplace_back(runtime, hosts(), ClientOptions{.prefix = prefix()});
    for (const Client& one : clients)
      one.connect();
    // A helper, where a handler was slow, soon goes away again.
    EXPECT_TRUE(eventually([&] { return testkit::thread_count() == before + 2; })) << testkit::thread_count();
    // A thread names itself, when it gets its first turn.
    EXPECT_TRUE(eventually([&] { return thread_names()["zkclient"] == 2; }));
    Client own = make_client();
    EXPECT_TRUE(eventually([&] { return testkit::thread_count() == before + 4; })) << testkit::thread_count();
    own.close();
    EXPECT_TRUE(eventually([&] { return testkit::thread_count() == before + 2; }));
  }
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() == before; })) << testkit::thread_count();
}

TEST_F(ClientTest, NoDescriptorIsLeaked) {
  client.reset();
  make_client().get("/");  // What is opened once stays open.
  const std::size_t before = testkit::descriptor_count();
  for (int i = 0; i < 100; ++i) {
    const Client other = make_client();
    if (i % 2 == 0) other.create("/e", "", {.mode = CreateMode::ephemeral});
  }
  EXPECT_EQ(testkit::descriptor_count(), before);
}

TEST_F(ClientTest, DescriptorsAreClosedOnExec) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error || (!target.starts_with("socket:") && !target.starts_with("anon_inode:"))) continue;
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags == -1) continue;
    EXPECT_NE(flags & FD_CLOEXEC, 0) << target;
  }
}

}  // namespace
