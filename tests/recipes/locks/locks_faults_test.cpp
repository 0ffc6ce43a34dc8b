// One test for each row of the tables "What goes wrong" in <zkrecipes/unfair_mutex.hpp> and <zkrecipes/shared_mutex.hpp>,
// run for each kind of lock; what only one kind has stands at the end. The rows of Mutex are in mutex_faults_test.cpp,
// those of Semaphore in semaphore_faults_test.cpp, but for the outages at the end of this one.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>
#include <zktesting/expire.hpp>

#include "recipes/locks/acquirer.hpp"
#include "tests/support/contention.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::error_of;
using testkit::eventually;
using testkit::in_thread;
using testkit::patience;
using testkit::result_of;
using testkit::soon;
using testkit::SteadyClock;
using testkit::stopped;
using zkclient::CallOptions;
using zkclient::Client;
using zkclient::ConnectionState;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Path;
using zkclient::Transaction;
using zktesting::Direction;
using zktesting::RequestType;

constexpr const char* lock_path = "/locks/lock";

/// A way to lock: what acquires, and how many nodes a lease has.
struct Kind {
  const char* name;
  std::size_t nodes;
  RequestType creation;
  std::function<Lease(const Client&, const CallOptions&)> acquire;
  std::function<std::optional<Lease>(const Client&)> try_acquire;
};

const Kind unfair = {
    "Unfair", 2, RequestType::multi,
    [](const Client& client, const CallOptions& call) { return UnfairMutex(client, lock_path).acquire(call); },
    [](const Client& client) { return UnfairMutex(client, lock_path).try_acquire(); }};
const Kind writer = {
    "Writer", 1, RequestType::create2,
    [](const Client& client, const CallOptions& call) { return SharedMutex(client, lock_path).acquire(call); },
    [](const Client& client) { return SharedMutex(client, lock_path).try_acquire(); }};
const Kind reader = {
    "Reader", 1, RequestType::create2,
    [](const Client& client, const CallOptions& call) { return SharedMutex(client, lock_path).acquire_shared(call); },
    [](const Client& client) { return SharedMutex(client, lock_path).try_acquire_shared(); }};

/// One server for all tests, a proxy for each.
class LocksFaults : public ::testing::TestWithParam<const Kind*> {
 protected:
  static constexpr auto calm = 30s;

  static void SetUpTestSuite() { server_ = std::make_unique<zktesting::Server>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static zktesting::Server& server() { return *server_; }
  void SetUp() override {
    operator_.ensure("/locks", CreateMode::persistent);
    operator_.ensure(lock_path, CreateMode::persistent);
  }
  void TearDown() override {
    operator_.remove_tree("/locks", {.deadline = soon()});
    if (HasFailure()) std::cerr << "--- log of the server ---\n" << server().log() << "\n";
  }

  static const Kind& kind() { return *GetParam(); }
  static Lease acquire(const Client& client) { return kind().acquire(client, {.deadline = soon()}); }
  /// Holds the path against everybody.
  Lease block() { return (&kind() == &reader ? writer : kind()).acquire(operator_, {.deadline = soon()}); }

  Client proxied(std::chrono::milliseconds timeout = calm) {
    return Client(proxy.connect_string(), {.session_timeout = timeout, .server_tick = testkit::server_tick});
  }
  static Client direct() { return Client(server().connect_string(), {.session_timeout = calm}); }
  Client& the_operator() { return operator_; }
  std::vector<std::string> names() {
    std::error_code error;
    return operator_.children(lock_path, {}, error).names;
  }
  bool remain(std::size_t count) {
    return eventually([&] { return names().size() == count; });
  }
  static void expire(const Client& client) {
    const auto session = client.connect({.deadline = soon()});
    zktesting::expire(server().connect_string(), session.id(), session.credentials().password);
  }
  /// What contenders of this kind watch while `held` blocks them.
  static Path watched(const Lease& held) { return &kind() == &unfair ? Path(lock_path) / "lock" : Path(held.node()); }
  static bool watches(const Client& client, const Path& path) {
    return testkit::watch_appears(server(), client.connect({.deadline = soon()}).id(), path);
  }
  /// A waiter, at rest.
  static std::future<Lease> wait_behind(const Client& client, const Lease& held) {
    auto waiting = in_thread([client] { return acquire(client); });
    EXPECT_TRUE(watches(client, watched(held)));
    return waiting;
  }
  static std::optional<Errc> failure_of(std::future<Lease>& waiting) {
    return error_of([&] { (void)result_of(waiting); });
  }
  void expect_nothing_left() {
    EXPECT_TRUE(remain(0));
    EXPECT_TRUE(eventually([] { return server().ephemeral_count() == 0; })) << server().four_letter_word("dump");
    EXPECT_TRUE(eventually([] { return server().watch_count() == 0; })) << server().four_letter_word("wchp");
  }

 private:
  static inline std::unique_ptr<zktesting::Server> server_;

 protected:
  zktesting::Proxy proxy{server().connect_string()};

 private:
  Client operator_ = direct();
};

INSTANTIATE_TEST_SUITE_P(All, LocksFaults, ::testing::Values(&unfair, &writer, &reader),
                         [](const auto& instance) { return std::string(instance.param->name); });

TEST_P(LocksFaults, CreateReplyLost) {
  Client client = proxied();
  auto fault = proxy.drop_next_reply(kind().creation);
  Lease lease = acquire(client);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_EQ(names().size(), kind().nodes) << "it was found, and not created again";
  EXPECT_TRUE(lease.valid());
  lease.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, CreateRequestLost) {
  Client client = proxied();
  auto fault = proxy.drop_next_request(kind().creation);
  Lease lease = acquire(client);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_EQ(names().size(), kind().nodes);
  EXPECT_TRUE(lease.valid());
  lease.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, CreateReplyLostInATry) {
  Client client = proxied();
  for (const bool request : {false, true}) {
    auto fault = request ? proxy.drop_next_request(kind().creation) : proxy.drop_next_reply(kind().creation);
    std::optional<Lease> lease = kind().try_acquire(client);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(lease) << "it was free";
  }
  EXPECT_TRUE(remain(0));
  Lease held = block();
  (void)proxy.drop_next_reply(kind().creation);
  EXPECT_FALSE(kind().try_acquire(client));
  held.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, StopWhileCreateInFlight) {
  Client client = proxied();
  acquire(client).release();
  for (const bool cut : {false, true}) {
    client.sync("/", {.deadline = soon()});  // The replies to what was removed before are not held.
    auto held = proxy.hold_next_reply(kind().creation);
    std::stop_source stop;
    auto waiting = in_thread([&] { return kind().acquire(client, {.stop = stop.get_token()}); });
    ASSERT_TRUE(held.wait(patience));
    EXPECT_EQ(names().size(), kind().nodes) << "the server has created it";
    stop.request_stop();
    EXPECT_EQ(failure_of(waiting), Errc::cancelled) << "without waiting for the reply";
    if (cut) proxy.cut();
    held.release();
    EXPECT_TRUE(remain(0));
  }
  expect_nothing_left();
}

TEST_P(LocksFaults, ParentMissingOrRemoved) {
  Client client = proxied();
  std::jthread reaper([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::error_code ignored;
      the_operator().remove(lock_path, zkclient::any_version, {}, ignored);
      the_operator().remove("/locks", zkclient::any_version, {}, ignored);
    }
  });
  FencingToken last;
  for (int i = 0; i < 25; ++i) {
    Lease lease = acquire(client);
    EXPECT_GT(lease.token(), last);
    last = lease.token();
    lease.release();
  }
  reaper = {};
  expect_nothing_left();
}

TEST_P(LocksFaults, ConnectionBreaksWhileWaiting) {
  Client client = proxied();
  Lease held = block();
  auto waiting = wait_behind(client, held);
  const auto queued = [this] {
    const std::vector<std::string> all = names();
    return std::set<std::string>(all.begin(), all.end());
  };
  const std::set<std::string> places = queued();
  for (int i = 0; i < 2; ++i) {
    const std::size_t accepted = proxy.accepted_connections();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
    ASSERT_TRUE(watches(client, watched(held)));
    EXPECT_EQ(queued(), places);
  }
  proxy.refuse(true);
  proxy.cut();
  held.release();
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ReadLostTooOftenWhileWaiting) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  Lease held = block();
  auto fault = proxy.drop_next_reply(RequestType::get_data);
  auto waiting = in_thread([&] { return acquire(client); });
  EXPECT_EQ(failure_of(waiting), Errc::connection_loss);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(kind().nodes));
  held.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, SessionLostWhileWaiting) {
  Client client = direct();
  Lease held = block();
  auto waiting = wait_behind(client, held);
  expire(client);
  EXPECT_EQ(failure_of(waiting), Errc::session_lost);
  EXPECT_TRUE(held.valid());
  held.release();
  acquire(client).release();
  expect_nothing_left();
}

TEST_P(LocksFaults, HolderVanishesBeforeItIsWatched) {
  Client client = proxied();
  client.connect({.deadline = soon()});
  Lease held = block();
  // The contender has seen that it has to wait, and its watch comes too late.
  proxy.refuse(true);
  auto unseen = proxy.drop_next_request(RequestType::get_data);
  auto waiting = in_thread([&] { return acquire(client); });
  ASSERT_TRUE(unseen.wait(patience));
  held.release();
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_P(LocksFaults, SessionLostWhileHolding) {
  Client client = direct();
  Lease lease = acquire(client);
  expire(client);
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  Lease again = acquire(client);
  EXPECT_GT(again.token(), lease.token());
  EXPECT_EQ(error_of([&] { lease.release(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { client.commit(Transaction().check(lease.guard())); }), Errc::session_lost);
  EXPECT_TRUE(again.valid());
  again.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, PartitionedPastExpiryWhileHolding) {
  Client client = proxied(testkit::contended_session);
  Lease lease = acquire(client);
  auto waiting = in_thread([&] {
    Lease next = block();
    EXPECT_FALSE(lease.valid());
    EXPECT_TRUE(lease.lost().stop_requested()) << "told before the other one acquired";
    return next;
  });
  proxy.stall(Direction::both);
  const Lease next = result_of(waiting);
  EXPECT_GT(next.token(), lease.token());
  proxy.unstall(Direction::both);
}

TEST_P(LocksFaults, NodeDeletedWhileHolding) {
  Client client = direct();
  Lease lease = acquire(client);
  ASSERT_TRUE(watches(client, watched(lease)));
  the_operator().remove(watched(lease));
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

TEST_P(LocksFaults, NodeDeletedWhileDisconnected) {
  Client client = proxied();
  Lease lease = acquire(client);
  ASSERT_TRUE(watches(client, watched(lease)));
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return client.session().state() == ConnectionState::suspended; }));
  EXPECT_EQ(lease.state(), LeaseState::uncertain);
  the_operator().remove(watched(lease));
  Lease successor = block();
  proxy.refuse(false);
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(successor.valid());
  successor.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ConnectionBreaksWhileHolding) {
  Client client = proxied();
  Lease lease = acquire(client);
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::uncertain; }));
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::held; }));
  EXPECT_FALSE(lease.lost().stop_requested());
  lease.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ReleaseLost) {
  Client client = proxied();
  const RequestType type = kind().nodes == 1 ? RequestType::remove : RequestType::multi;
  for (const bool request : {true, false}) {
    Lease lease = acquire(client);
    auto fault = request ? proxy.drop_next_request(type) : proxy.drop_next_reply(type);
    lease.release();
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(names().empty());
    EXPECT_EQ(lease.state(), LeaseState::released);
  }
  expect_nothing_left();
}

TEST_P(LocksFaults, DeadlineOrStopWhileWaiting) {
  Client client = direct();
  Lease held = block();
  EXPECT_EQ(error_of([&] { (void)kind().acquire(client, {.deadline = SteadyClock::now() + 50ms}); }),
            Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return kind().acquire(client, {.stop = stop.get_token()}); });
  ASSERT_TRUE(watches(client, watched(held)));
  stop.request_stop();
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  EXPECT_TRUE(remain(kind().nodes));
  held.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ClientClosed) {
  Client client = direct();
  Lease lease = acquire(client);
  client.close();
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(remain(0));
  Client waiting_client = direct();
  Lease held = block();
  auto waiting = wait_behind(waiting_client, held);
  waiting_client.close();
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  held.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ForeignChild) {
  for (const char* name : {"ready", "nodash", "x-0000000000", "_c_y-latch-0000000000"})
    the_operator().create(Path(lock_path) / name, "");
  acquire(the_operator()).release();
  EXPECT_TRUE(remain(4));
}

TEST_P(LocksFaults, NoServer) {
  Client client = proxied();
  acquire(client).release();
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(error_of([&] { (void)kind().acquire(client, {.deadline = SteadyClock::now() + 200ms}); }),
            Errc::deadline_exceeded);
  proxy.refuse(false);
  acquire(client).release();
  expect_nothing_left();
}

// --- Whoever waits has a node ----------------------------------------------------------------------------------------

class QueueFaults : public LocksFaults {
 protected:
  /// Acquires as any of this kind, but takes a list for young at whatever age.
  static Lease acquire_trusting(const Client& client) {
    detail::ContendSpec spec;
    spec.client = client.impl();
    spec.path = spec.directory = lock_path;
    spec.kind = &kind() == &reader ? "read" : "write";
    spec.names = {{"__WRIT__"}, {"__READ__"}};
    spec.acl = zkclient::open_acl();
    spec.operation = "shared mutex acquire";
    spec.trusts_list = 1h;
    const auto shared = std::make_shared<const detail::ContendSpec>(std::move(spec));
    const detail::Acquirer acquirer(client.impl(), lock_path, "shared mutex acquire",
                                    [shared](detail::Patience how_long, zkclient::detail::Call call) {
                                      return detail::contend(shared, "", how_long, std::move(call));
                                    });
    return acquirer.acquire({.deadline = soon()});
  }
};
INSTANTIATE_TEST_SUITE_P(All, QueueFaults, ::testing::Values(&writer, &reader),
                         [](const auto& instance) { return std::string(instance.param->name); });

TEST_P(QueueFaults, OwnNodeDeletedWhileWaiting) {
  Client client = direct();
  Lease held = block();
  auto waiting = wait_behind(client, held);
  const std::vector<Contender> before = SharedMutex(the_operator(), lock_path).contenders();
  ASSERT_EQ(before.size(), 2u);
  testkit::let_age(10ms);  // Else its list would tell that its node is there.
  the_operator().remove(Path(lock_path) / before[1].node);
  held.release();
  Lease lease = result_of(waiting);
  EXPECT_TRUE(lease.valid());
  EXPECT_GT(lease.token(), before[1].token) << "queued again, at the end";
  lease.release();
  expect_nothing_left();
}

// As while holding: it is granted first, and seen then.
TEST_P(QueueFaults, OwnNodeDeletedJustBeforeTheGrant) {
  Client client = direct();
  // Of the other kind: behind a writer a writer reads the list again in any case.
  const Lease held = (&kind() == &reader ? writer : reader).acquire(the_operator(), {.deadline = soon()});
  auto waiting = in_thread([&] { return acquire_trusting(client); });
  ASSERT_TRUE(watches(client, held.node()));
  Transaction removal;
  for (const std::string& name : names())
    removal.remove(Path(lock_path) / name);
  the_operator().commit(removal);
  const Lease lease = result_of(waiting);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

// --- One node that everybody wants --------------------------------------------------------------------------------------

class SingleNodeFaults : public LocksFaults {};
INSTANTIATE_TEST_SUITE_P(Unfair, SingleNodeFaults, ::testing::Values(&unfair));

// The first one's nodes are deleted by hand. What it reads is read again after another contender of its own session has
// made both nodes anew: it must not take them for its own.
TEST_P(SingleNodeFaults, ReadRepeatedAfterASiblingHasIt) {
  for (const RequestType read : {RequestType::get_data, RequestType::get_children2}) {
    const zkclient::RetryPolicy slow = {.initial = 2s, .jitter = 0};
    Client client(proxy.connect_string(), {.session_timeout = calm, .retry = slow});
    client.connect({.deadline = soon()});
    auto unread = proxy.drop_next_reply(read);
    auto waiting = in_thread([&] { return acquire(client); });
    ASSERT_TRUE(unread.wait(patience));
    Transaction removal;
    for (const std::string& name : names())
      removal.remove(Path(lock_path) / name);
    the_operator().commit(removal);
    const std::size_t before = proxy.request_count(read);
    Lease sibling = acquire(client);
    ASSERT_TRUE(proxy.wait_for_requests(read, before + 2, patience)) << "its own, and the repeated one";
    client.sync("/", {.deadline = soon()});
    EXPECT_TRUE(sibling.valid());
    EXPECT_EQ(names().size(), kind().nodes);
    sibling.release({.deadline = soon()});
    Lease first = result_of(waiting);
    EXPECT_GT(first.token(), sibling.token());
    first.release({.deadline = soon()});
    expect_nothing_left();
  }
}

// The node of that name is there, and the holder's second one as well; and yet it is not the holder's any more.
TEST_P(SingleNodeFaults, NodeReplacedWhileDisconnected) {
  Client client = proxied();
  Lease lease = acquire(client);
  const Path node = watched(lease);
  ASSERT_TRUE(watches(client, node));
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return client.session().state() == ConnectionState::suspended; }));
  the_operator().commit(Transaction().remove(node).create(node, "foreign"));
  proxy.refuse(false);
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(remain(1)) << "the other one goes";
  EXPECT_EQ(the_operator().get(node).data, "foreign");
}

// What is left of a predecessor goes before anybody else has the lock, however often that gets lost.
TEST_P(SingleNodeFaults, ClearingUpLost) {
  for (const bool request : {true, false}) {
    Client former_client = proxied();
    Lease former = acquire(former_client);
    proxy.refuse(true);
    proxy.cut();  // It cannot clear up itself.
    the_operator().remove(watched(former));
    zktesting::Proxy other(server().connect_string());
    Client client(other.connect_string(), {.session_timeout = calm});
    auto fault = request ? other.drop_next_request(RequestType::remove) : other.drop_next_reply(RequestType::remove);
    Lease lease = acquire(client);
    EXPECT_TRUE(fault.happened());
    EXPECT_EQ(names().size(), kind().nodes);
    EXPECT_TRUE(lease.valid());
    proxy.refuse(false);
    EXPECT_TRUE(stopped(former.lost()));
    EXPECT_TRUE(lease.valid());
    lease.release();
    expect_nothing_left();
  }
}

// --- Downgrade ----------------------------------------------------------------------------------------------------

class DowngradeFaults : public LocksFaults {
 protected:
  /// Ends a downgrade that has happened and whose reply does not come until the result is released.
  zktesting::HeldReply stop_a_downgrade(SharedMutex& mutex, Lease& lease) {
    auto held = proxy.hold_next_reply(RequestType::multi);
    std::stop_source stop;
    auto downgrading = in_thread([&] { return error_of([&] { mutex.downgrade(lease, {.stop = stop.get_token()}); }); });
    EXPECT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(downgrading), Errc::in_doubt);
    return held;
  }
};
INSTANTIATE_TEST_SUITE_P(Writer, DowngradeFaults, ::testing::Values(&writer));

TEST_P(DowngradeFaults, DowngradeLost) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  for (const bool request : {true, false}) {
    Lease lease = mutex.acquire({.deadline = soon()});
    auto fault = request ? proxy.drop_next_request(RequestType::multi) : proxy.drop_next_reply(RequestType::multi);
    mutex.downgrade(lease, {.deadline = soon()});
    EXPECT_TRUE(fault.wait(patience));
    ASSERT_EQ(names().size(), 1u);
    EXPECT_EQ(lease.node(), (Path(lock_path) / names().front()).str());
    EXPECT_NE(lease.node().find("__READ__"), std::string::npos);
    EXPECT_EQ(lease.state(), LeaseState::held);
    EXPECT_FALSE(lease.lost().stop_requested());
    lease.release();
  }
  expect_nothing_left();
}

TEST_P(DowngradeFaults, SessionLostWhileDowngrading) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto downgrading = in_thread([&] { return error_of([&] { mutex.downgrade(lease, {.deadline = soon()}); }); });
  ASSERT_TRUE(held.wait(patience));
  const auto session = client.session();
  proxy.refuse(true);
  proxy.cut();
  zktesting::expire(server().connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  EXPECT_EQ(result_of(downgrading), Errc::not_held);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

TEST_P(DowngradeFaults, PartitionedPastExpiryWhileDowngrading) {
  Client client = proxied(testkit::contended_session);
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  const std::stop_token lost = lease.lost();
  auto waiting = in_thread([&] {
    Lease next = block();
    EXPECT_TRUE(lost.stop_requested()) << "told before the other one acquired";
    return next;
  });
  ASSERT_TRUE(remain(2));
  proxy.stall(Direction::both);
  auto downgrading = in_thread([&] { return error_of([&] { mutex.downgrade(lease, {.deadline = soon()}); }); });
  result_of(waiting).release();
  proxy.unstall(Direction::both);
  EXPECT_EQ(result_of(downgrading), Errc::not_held);
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

// Whoever comes next finds the former holder told, although no answer has reached it.
TEST_P(DowngradeFaults, StopWhileDowngrading) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  const std::stop_token lost = lease.lost();
  auto waiting = in_thread([&] {
    Lease next = block();
    EXPECT_TRUE(lost.stop_requested()) << "told before the other one acquired";
    return next;
  });
  ASSERT_TRUE(remain(2));
  auto held = stop_a_downgrade(mutex, lease);
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(stopped(lost));
  result_of(waiting).release();
  held.release();
  expect_nothing_left();
}

// The nodes wait for a holder that is being told, but not for ever: here it waits for them.
TEST_P(DowngradeFaults, HolderThatIsToldWaitsForTheNextOne) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  const std::stop_callback told(lease.lost(), [&] { EXPECT_TRUE(block().valid()); });
  auto held = stop_a_downgrade(mutex, lease);
  held.release();
  client.close();  // Returns when the holder was told.
  expect_nothing_left();
}

// It was sent, and has not arrived.
TEST_P(DowngradeFaults, DeadlineWhileDowngrading) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  proxy.stall(Direction::to_server);
  EXPECT_EQ(error_of([&] { mutex.downgrade(lease, {.deadline = SteadyClock::now() + 1s}); }), Errc::in_doubt);
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(stopped(lease.lost()));
  proxy.unstall(Direction::to_server);
  expect_nothing_left();
}

// The server says no: the lease is unchanged, and looked after as before.
TEST_P(DowngradeFaults, RefusedWhileDowngrading) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  const std::string node = lease.node();
  the_operator().set_acl(lock_path, {{.permissions = zkclient::Acl::read | zkclient::Acl::admin}});
  const std::optional<Errc> error = error_of([&] { mutex.downgrade(lease, {.deadline = soon()}); });
  EXPECT_EQ(error, Errc::no_auth);
  the_operator().set_acl(lock_path, zkclient::open_acl());
  EXPECT_EQ(lease.state(), LeaseState::held);
  EXPECT_EQ(lease.node(), node);
  ASSERT_TRUE(watches(client, lease.node()));
  the_operator().remove(lease.node());
  EXPECT_TRUE(stopped(lease.lost()));
  expect_nothing_left();
}

TEST_P(DowngradeFaults, ClientClosedWhileDowngrading) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto downgrading = in_thread([&] { return error_of([&] { mutex.downgrade(lease, {.deadline = soon()}); }); });
  ASSERT_TRUE(held.wait(patience));
  auto closing = in_thread([&] { client.close(); });
  ASSERT_TRUE(eventually([&] { return client.session().state() == ConnectionState::closed; }));
  held.release();
  const std::optional<Errc> error = result_of(downgrading);
  EXPECT_TRUE(error == Errc::closed || error == Errc::in_doubt || error == Errc::not_held) << static_cast<int>(*error);
  result_of(closing);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

TEST_P(DowngradeFaults, GivenBackWhileDowngrading) {
  Client client = proxied();
  SharedMutex mutex(client, lock_path);
  for (const bool waits : {false, true}) {
    Lease lease = mutex.acquire({.deadline = soon()});
    const std::stop_token lost = lease.lost();
    auto held = proxy.hold_next_reply(RequestType::multi);
    testkit::Box<zkclient::Result<Lease>> outcome;
    mutex.async_downgrade(lease, [&](zkclient::Result<Lease> result) { outcome.put(std::move(result)); });
    ASSERT_TRUE(held.wait(patience));
    const std::size_t removals = proxy.request_count(RequestType::remove);
    auto releasing = in_thread([&] {
      Lease mine = std::move(lease);
      if (waits) mine.release();
    });
    ASSERT_TRUE(proxy.wait_for_requests(RequestType::remove, removals + 1, patience));
    held.release();
    EXPECT_EQ(outcome.take().code(), Errc::not_held);
    result_of(releasing);
    EXPECT_FALSE(lost.stop_requested());
    expect_nothing_left();
  }
}

// --- The locks of a thread ----------------------------------------------------------------------------------------

class RecursiveMutexFaults : public testkit::RecipeFaultTest {
 protected:
  RecursiveMutexFaults() : RecipeFaultTest("/lock") {}
};

TEST_F(RecursiveMutexFaults, SessionLostWhileHeldTwice) {
  Client client = calm_direct();
  RecursiveMutex mutex(client, "/lock");
  mutex.lock();
  mutex.lock();
  const std::stop_token lost = mutex.lease().lost();
  const FencingToken token = mutex.lease().token();
  expire(client);
  ASSERT_TRUE(stopped(lost));
  Lease successor = Mutex(the_operator(), "/lock").acquire({.deadline = soon()});
  for (int depth = 2; depth >= 1; --depth) {
    EXPECT_EQ(mutex.depth(), depth);
    EXPECT_EQ(mutex.lease().state(), LeaseState::lost);
    EXPECT_EQ(error_of([&] { mutex.lock(); }), Errc::not_held);
    EXPECT_EQ(error_of([&] { (void)mutex.try_lock(); }), Errc::not_held);
    mutex.unlock();
  }
  EXPECT_EQ(mutex.depth(), 0);
  EXPECT_EQ(error_of([&] { mutex.unlock(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { (void)mutex.lease(); }), Errc::not_held);
  EXPECT_TRUE(successor.valid()) << "the late unlocks harm nobody";
  successor.release();
  ASSERT_TRUE(mutex.try_lock_for(patience)) << "with the next session";
  EXPECT_TRUE(mutex.lease().valid());
  EXPECT_GT(mutex.lease().token(), token);
  mutex.unlock();
  expect_nothing_left();
}

TEST_F(RecursiveMutexFaults, ConnectionBreaksWhileHeldTwice) {
  Client client = calm_proxied();
  RecursiveMutex mutex(client, "/lock");
  mutex.lock();
  mutex.lock();
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return mutex.lease().state() == LeaseState::uncertain; }));
  mutex.lock();  // Needs no connection, nor does its end.
  EXPECT_EQ(mutex.depth(), 3);
  mutex.unlock();
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] { return mutex.lease().state() == LeaseState::held; }));
  EXPECT_FALSE(mutex.lease().lost().stop_requested());
  EXPECT_EQ(mutex.depth(), 2);
  EXPECT_EQ(names().size(), 1u);
  mutex.unlock();
  EXPECT_TRUE(mutex.lease().valid());
  EXPECT_FALSE(Mutex(the_operator(), "/lock").try_acquire());
  mutex.unlock();
  expect_nothing_left();
}

// --- A semaphore during an outage ---------------------------------------------------------------------------------

class SemaphoreOutages : public testkit::RecipeFaultTest {
 protected:
  SemaphoreOutages() : RecipeFaultTest("/semaphore") {}
  bool remain(std::size_t leases, std::size_t locks) {
    return eventually(
        [&] { return names("/semaphore/leases").size() == leases && names("/semaphore/locks").size() == locks; });
  }
  /// Everybody's nodes.
  std::vector<std::string> places() {
    std::vector<std::string> all = names("/semaphore/leases");
    const std::vector<std::string> locks = names("/semaphore/locks");
    all.insert(all.end(), locks.begin(), locks.end());
    std::sort(all.begin(), all.end());
    return all;
  }
};

// Of the one in front, whose node is among the leases, and of the one behind it.
TEST_F(SemaphoreOutages, ConnectionBreaksWhileWaitingAndThePlaceIsKept) {
  Semaphore other(the_operator(), "/semaphore", 1);
  for (const bool in_front : {true, false}) {
    Client breaking = calm_proxied();
    Client steady = calm_direct();
    Semaphore first(in_front ? breaking : steady, "/semaphore", 1);
    Semaphore second(in_front ? steady : breaking, "/semaphore", 1);
    Lease held = other.acquire({.deadline = soon()});
    auto waiting = in_thread([&] { return first.acquire({.deadline = soon()}); });
    ASSERT_TRUE(remain(2, 1));
    auto waiting_behind = in_thread([&] { return second.acquire({.deadline = soon()}); });
    ASSERT_TRUE(remain(2, 2));
    const std::vector<std::string> before = places();
    for (int i = 0; i < 2; ++i) {
      const std::size_t accepted = proxy.accepted_connections();
      proxy.cut();
      ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
      ASSERT_TRUE(reaches(breaking, ConnectionState::connected));
    }
    EXPECT_EQ(places(), before);
    held.release();
    Lease lease = result_of(waiting);
    EXPECT_TRUE(std::binary_search(before.begin(), before.end(), Path(lease.node()).name())) << lease.node();
    EXPECT_NE(waiting_behind.wait_for(0ms), std::future_status::ready);
    lease.release();
    result_of(waiting_behind).release();
  }
  expect_nothing_left();
}

TEST_F(SemaphoreOutages, ConnectionBreaksWhileHolding) {
  Client client = calm_proxied();
  Semaphore semaphore(client, "/semaphore", 2);
  std::vector<Lease> leases = semaphore.acquire_many(2, {.deadline = soon()});
  const auto all_are = [&](LeaseState state) {
    return std::all_of(leases.begin(), leases.end(), [&](const Lease& lease) { return lease.state() == state; });
  };
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return all_are(LeaseState::uncertain); }));
  EXPECT_FALSE(Semaphore(the_operator(), "/semaphore", 2).try_acquire());
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] { return all_are(LeaseState::held); }));
  for (Lease& lease : leases) {
    EXPECT_FALSE(lease.lost().stop_requested());
    lease.release({.deadline = soon()});
  }
  expect_nothing_left();
}

// Of the list, the own node and N, or the one's turn: each is read again, and watched.
TEST_F(SemaphoreOutages, ReadLostWhileWaiting) {
  Semaphore other(the_operator(), "/semaphore", Path("/limit"));
  other.set_limit(1);
  for (const RequestType type : {RequestType::get_children2, RequestType::exists, RequestType::get_data}) {
    std::optional<Lease> held = other.try_acquire();
    ASSERT_TRUE(held);
    Client client = calm_proxied();
    Semaphore semaphore(client, "/semaphore", Path("/limit"));
    auto created = proxy.hold_next_reply(RequestType::multi);
    auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
    ASSERT_TRUE(created.wait(patience));
    auto fault = proxy.drop_next_reply(type);
    created.release();
    EXPECT_TRUE(fault.wait(patience));
    // The leases, N, and the own place in front; and the holder watches its own node.
    ASSERT_TRUE(eventually([&] { return server.watch_count() == 4; })) << server.four_letter_word("wchp");
    held->release();
    result_of(waiting).release();
  }
  expect_nothing_left();
}

TEST_F(SemaphoreOutages, ReadLostTooOftenWhileWaiting) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  Semaphore semaphore(client, "/semaphore", 1);
  Lease held = Semaphore(the_operator(), "/semaphore", 1).acquire({.deadline = soon()});
  auto created = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(created.wait(patience));
  auto fault = proxy.drop_next_reply(RequestType::get_children2);
  created.release();
  EXPECT_EQ(failure_of(waiting), Errc::connection_loss);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(1, 0));
  EXPECT_TRUE(held.valid());
  held.release();
  expect_nothing_left();
}

// Who waits is told when the connection is back; also of a node that was not there.
TEST_F(SemaphoreOutages, LimitRaisedWhileDisconnected) {
  Semaphore other(the_operator(), "/semaphore", Path("/limit"));
  other.set_limit(0);
  Client client = calm_proxied();
  Semaphore semaphore(client, "/semaphore", Path("/limit"));
  auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(watches(client, "/limit"));
  proxy.refuse(true);
  proxy.cut();
  other.set_limit(1);
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_F(SemaphoreOutages, ReleaseLost) {
  Client client = calm_proxied();
  Semaphore semaphore(client, "/semaphore", 1);
  for (const bool request : {true, false}) {
    Lease lease = semaphore.acquire({.deadline = soon()});
    client.sync("/", {.deadline = soon()});  // Its turn is given back by then: that is not what gets lost.
    auto fault = request ? proxy.drop_next_request(RequestType::remove) : proxy.drop_next_reply(RequestType::remove);
    lease.release({.deadline = soon()});
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(places().empty());
    EXPECT_EQ(lease.state(), LeaseState::released);
  }
  expect_nothing_left();
}

TEST_F(SemaphoreOutages, NoServer) {
  Client client = calm_proxied();
  Semaphore semaphore(client, "/semaphore", 1);
  semaphore.acquire({.deadline = soon()}).release();
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(error_of([&] { (void)semaphore.acquire({.deadline = SteadyClock::now() + 200ms}); }),
            Errc::deadline_exceeded);
  EXPECT_FALSE(semaphore.try_acquire_for(50ms));
  proxy.refuse(false);
  semaphore.acquire({.deadline = soon()}).release();
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
