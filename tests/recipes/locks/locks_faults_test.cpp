// What goes wrong with any lock: each row that the tables of <zkrecipes/mutex.hpp>, <zkrecipes/recursive_mutex.hpp>,
// <zkrecipes/unfair_mutex.hpp>, <zkrecipes/shared_mutex.hpp> and <zkrecipes/semaphore.hpp> have in common, once, run
// for each kind of lock. The rows of the shared, the unfair and the recursive mutex alone follow; those of the others
// are in mutex_faults_test.cpp and semaphore_faults_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
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

#include "recipes/kernel/acquirer.hpp"
#include "tests/support/contention.hpp"
#include "tests/support/lockable.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

const testkit::OnRealServers locks_on_real_servers{"AllLocksFaults.PartitionedPastExpiryWhileHolding",
                                                   "All/LocksFaults.CreateReplyLost/Unfair",
                                                   "All/LocksFaults.CreateReplyLost/Reader"};

constexpr const char* lock_path = "/lock";

/// A SharedMutex to read, under the names of the other locks.
class ReaderLock {
 public:
  ReaderLock(Client client, Path path) : mutex_(std::move(client), std::move(path)) {}
  Lease acquire(const CallOptions& call) { return mutex_.acquire_shared(call); }
  std::optional<Lease> try_acquire() { return mutex_.try_acquire_shared(); }
  std::optional<Lease> try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options = {}) {
    return mutex_.try_acquire_shared_for(timeout, std::move(options));
  }
  void lock() { mutex_.lock_shared(); }
  bool try_lock() { return mutex_.try_lock_shared(); }
  bool try_lock_for(auto timeout) { return mutex_.try_lock_shared_for(timeout); }
  bool try_lock_until(auto deadline) { return mutex_.try_lock_shared_until(deadline); }
  void unlock() noexcept(noexcept(mutex_.unlock_shared())) { mutex_.unlock_shared(); }
  const Lease& lease() const { return mutex_.lease(); }

 private:
  SharedMutex mutex_;
};

struct OnePermit : Semaphore {
  OnePermit(const Client& client, const Path& path) : Semaphore(client, path, 1) {}
};

/// A way to lock, and what tells it from the others at the server.
struct Kind {
  const char* name;
  RequestType creation = RequestType::create2;
  RequestType reading = RequestType::get_data;  ///< Sent by a contender that has to wait, and by no other.
  RequestType removal = RequestType::remove;
  std::size_t held = 1;     ///< Nodes of a holder,
  std::size_t queued = 1;   ///< of a contender that waits in front,
  std::size_t created = 1;  ///< of a contender that does not know yet which of the two it is.
  std::function<Lease(const Client&, const CallOptions&)> acquire = {};
  std::function<std::optional<Lease>(const Client&)> try_acquire = {};
  std::function<std::optional<Lease>(const Client&, std::chrono::nanoseconds, WaitOptions)> try_acquire_for = {};
};

template <typename AnyLock>
Kind kind_of(Kind kind) {
  kind.acquire = [](const Client& client, const CallOptions& call) { return AnyLock(client, lock_path).acquire(call); };
  kind.try_acquire = [](const Client& client) { return AnyLock(client, lock_path).try_acquire(); };
  kind.try_acquire_for = [](const Client& client, std::chrono::nanoseconds timeout, WaitOptions options) {
    return AnyLock(client, lock_path).try_acquire_for(timeout, std::move(options));
  };
  return kind;
}

const Kind plain = kind_of<Mutex>({.name = "Mutex"});
const Kind recursive = kind_of<RecursiveMutex>({.name = "RecursiveMutex"});
const Kind unfair = kind_of<UnfairMutex>({.name = "Unfair",
                                          .creation = RequestType::multi,
                                          .removal = RequestType::multi,
                                          .held = 2,
                                          .queued = 0,
                                          .created = 2});
const Kind writer = kind_of<SharedMutex>({.name = "Writer"});
const Kind reader = kind_of<ReaderLock>({.name = "Reader"});
// The one in front has the turn, too.
const Kind semaphore = kind_of<OnePermit>(
    {.name = "Semaphore", .creation = RequestType::multi, .reading = RequestType::exists, .queued = 2, .created = 2});

const Kind* const kinds[] = {&plain, &recursive, &unfair, &writer, &reader, &semaphore};

/// What keeps all of a kind out.
const Kind& blocking(const Kind& kind) { return &kind == &reader ? writer : kind; }

class LocksFaults : public testkit::RecipeFaultTest, public ::testing::WithParamInterface<const Kind*> {
 protected:
  LocksFaults() : RecipeFaultTest(lock_path) {
    if (&kind() != &semaphore) return;
    for (const Path& directory : directories())
      the_operator().create(directory, "");
  }

  static const Kind& kind() { return *GetParam(); }
  static Lease acquire(const Client& client) { return kind().acquire(client, {.deadline = soon()}); }
  Lease block() { return blocking(kind()).acquire(the_operator(), {.deadline = soon()}); }

  /// Where contenders have their nodes.
  static std::vector<Path> directories() {
    if (&kind() == &semaphore) return {Path(lock_path) / "leases", Path(lock_path) / "locks"};
    return {lock_path};
  }
  std::vector<std::string> names() override {
    std::vector<std::string> all;
    for (const Path& directory : directories()) {
      for (std::string& name : RecipeFaultTest::names(directory))
        all.push_back(std::move(name));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  /// The node with which a lease stands and falls, which its holder watches.
  static Path own(const Lease& lease) { return &kind() == &unfair ? Path(lock_path) / "lock" : Path(lease.node()); }
  /// Waits until a contender is at rest behind `held`; the server does not tell who watches a list, as a semaphore's
  /// do.
  bool waits(const Client& client, const Lease& held) {
    return remain(foreign_ + kind().held + kind().queued) && (&kind() == &semaphore || watches(client, own(held)));
  }
  std::future<Lease> wait_behind(const Client& client, const Lease& held) {
    auto waiting = in_thread([client] { return acquire(client); });
    EXPECT_TRUE(waits(client, held));
    return waiting;
  }

  std::size_t foreign_ = 0;  ///< Nodes among the contenders' that are none of theirs.
};

INSTANTIATE_TEST_SUITE_P(All, LocksFaults, ::testing::ValuesIn(kinds),
                         [](const auto& instance) { return std::string(instance.param->name); });

// --- create: request or reply lost --------------------------------------------------------------------------------

// A contender that does not recognise its own node blocks the path until its session ends.
TEST_P(LocksFaults, CreateReplyLost) {
  Client client = calm_proxied();
  auto fault = proxy.drop_next_reply(kind().creation);
  Lease lease = acquire(client);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(kind().held));
  if (kind().creation == RequestType::create2) {
    EXPECT_EQ(proxy.request_count(RequestType::create2), 1u) << "it was found, and not created again";
  }
  EXPECT_GE(proxy.request_count(RequestType::multi), 1u) << "reads prove nothing: a write has to, before the grant";
  EXPECT_TRUE(lease.valid());
  lease.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, CreateRequestLost) {
  Client client = calm_proxied();
  auto fault = proxy.drop_next_request(kind().creation);
  Lease lease = acquire(client);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(kind().held));
  if (kind().creation == RequestType::create2) {
    EXPECT_EQ(proxy.request_count(RequestType::create2), 2u) << "it was sent again";
  }
  EXPECT_TRUE(lease.valid());
  lease.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, CreateReplyLostBehindAHolder) {
  Client client = calm_proxied();
  Lease held = block();
  ASSERT_TRUE(remain(kind().held));
  auto fault = proxy.drop_next_reply(kind().creation);
  auto waiting = wait_behind(client, held);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_EQ(names().size(), kind().held + kind().queued);
  held.release();
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_P(LocksFaults, CreateReplyLostInATry) {
  Client client = calm_proxied();
  for (const bool request : {false, true}) {
    auto fault = lose(request, kind().creation);
    std::optional<Lease> lease = kind().try_acquire(client);
    EXPECT_TRUE(fault.wait(patience));
    ASSERT_TRUE(lease) << "it was free";
    lease->release({.deadline = soon()});  // Its removal is not what gets lost next.
  }
  EXPECT_TRUE(remain(0));
  Lease held = block();
  ASSERT_TRUE(remain(kind().held));
  auto fault = proxy.drop_next_reply(kind().creation);
  EXPECT_FALSE(kind().try_acquire(client));
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(kind().held));
  held.release();
  expect_nothing_left();
}

// Whatever ends the wait, the node goes, also when the contender does not know yet whether there is one.
TEST_P(LocksFaults, StopWhileCreateInFlight) {
  Client client = calm_proxied();
  acquire(client).release();
  for (const bool cut : {false, true}) {
    client.sync("/", {.deadline = soon()});  // The replies to what was removed before are not held.
    auto held = proxy.hold_next_reply(kind().creation);
    std::stop_source stop;
    auto waiting = in_thread([&] { return kind().acquire(client, {.stop = stop.get_token()}); });
    ASSERT_TRUE(held.wait(patience));
    EXPECT_EQ(names().size(), kind().created) << "the server has created it";
    stop.request_stop();
    EXPECT_EQ(failure_of(waiting), Errc::cancelled) << "without waiting for the reply";
    if (cut) proxy.cut();
    held.release();
    EXPECT_TRUE(remain(0));
  }
  expect_nothing_left();
}

// The node that was created dies with the session that created it; nothing may be claimed of it.
TEST_P(LocksFaults, SessionLostWhileCreateInFlight) {
  Client client = calm_proxied();
  acquire(client).release();
  client.sync("/", {.deadline = soon()});
  auto held = proxy.hold_next_reply(kind().creation);
  auto waiting = in_thread([&] { return acquire(client); });
  ASSERT_TRUE(held.wait(patience));
  const auto session = client.session();
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  EXPECT_TRUE(names().empty());
  proxy.refuse(false);
  EXPECT_EQ(failure_of(waiting), Errc::session_lost);
  acquire(client).release();
  expect_nothing_left();
}

// --- parent missing or removed ------------------------------------------------------------------------------------

// The server removes empty containers whenever it likes, also between the creation of the parent and of the child.
TEST_P(LocksFaults, ParentMissingOrRemoved) {
  Client client = calm_proxied();
  std::jthread reaper([&](const std::stop_token& stop) {
    std::vector<Path> nodes = directories();
    if (nodes.front() != Path(lock_path)) nodes.emplace_back(lock_path);
    while (!stop.stop_requested()) {
      std::error_code ignored;
      for (const Path& node : nodes)
        the_operator().remove(node, zkclient::any_version, {}, ignored);
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

TEST_P(LocksFaults, ParentRemovedWhileWaiting) {
  Client client = calm_direct();
  Lease held = block();
  auto waiting = wait_behind(client, held);
  ASSERT_TRUE(remain(kind().held + kind().queued));
  testkit::let_age(10ms);  // Else its list would tell that its node is there.
  Transaction removal;
  for (const Path& directory : directories()) {
    for (const std::string& name : RecipeFaultTest::names(directory))
      removal.remove(directory / name);
    removal.remove(directory);
  }
  if (&kind() == &semaphore) removal.remove(lock_path);
  the_operator().commit(removal);
  Lease lease = result_of(waiting);
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(stopped(held.lost()));
  EXPECT_GT(lease.token(), held.token());
  lease.release();
  expect_nothing_left();
}

// --- While waiting ------------------------------------------------------------------------------------------------

TEST_P(LocksFaults, ConnectionBreaksWhileWaiting) {
  Client client = calm_proxied();
  Lease held = block();
  auto waiting = wait_behind(client, held);
  ASSERT_TRUE(remain(kind().held + kind().queued));
  const std::vector<std::string> places = names();
  for (int i = 0; i < 2; ++i) {
    const std::size_t accepted = proxy.accepted_connections();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
    ASSERT_TRUE(reaches(client, ConnectionState::connected));
    ASSERT_TRUE(waits(client, held));
    EXPECT_EQ(names(), places);
  }
  refuse_and_cut();
  held.release();
  ASSERT_TRUE(remain(kind().queued));
  proxy.refuse(false);
  Lease lease = result_of(waiting);
  if (kind().queued > 0) {
    EXPECT_TRUE(std::binary_search(places.begin(), places.end(), Path(lease.node()).name())) << "the place is kept";
  }
  lease.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ReadLostTooOftenWhileWaiting) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  Lease held = block();
  auto fault = proxy.drop_next_reply(kind().reading);
  auto waiting = in_thread([&] { return acquire(client); });
  EXPECT_EQ(failure_of(waiting), Errc::connection_loss);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(kind().held));
  EXPECT_TRUE(held.valid());
  held.release();
  expect_nothing_left();
}

// Never a success that rests on a session that is over.
TEST_P(LocksFaults, SessionLostWhileWaiting) {
  Client client = calm_direct();
  Lease held = block();
  auto waiting = wait_behind(client, held);
  expire(client);
  EXPECT_EQ(failure_of(waiting), Errc::session_lost);
  EXPECT_TRUE(held.valid());
  EXPECT_TRUE(remain(kind().held));
  auto again = in_thread([&] { return acquire(client); });
  ASSERT_TRUE(waits(client, held)) << "with the next session";
  held.release();
  result_of(again).release();
  expect_nothing_left();
}

// The contender has seen that it has to wait, and its watch comes too late.
TEST_P(LocksFaults, HolderVanishesBeforeItIsWatched) {
  Client client = calm_proxied();
  client.connect({.deadline = soon()});
  Lease held = block();
  proxy.refuse(true);
  auto unseen = proxy.drop_next_request(kind().reading);
  auto waiting = in_thread([&] { return acquire(client); });
  ASSERT_TRUE(unseen.wait(patience));
  held.release();
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_P(LocksFaults, DeadlineOrStopWhileWaiting) {
  Client client = calm_proxied();
  Lease held = block();
  const auto deadline = SteadyClock::now() + 50ms;
  EXPECT_EQ(error_of([&] { (void)kind().acquire(client, {.deadline = deadline}); }), Errc::deadline_exceeded);
  EXPECT_GE(SteadyClock::now(), deadline);
  EXPECT_TRUE(remain(kind().held));
  std::stop_source stop;
  auto waiting = in_thread([&] { return kind().acquire(client, {.stop = stop.get_token()}); });
  ASSERT_TRUE(waits(client, held));
  std::optional<zktesting::Fault> fault;  // The clean-up is stubborn, where there is one.
  if (kind().queued > 0) fault = proxy.drop_next_reply(RequestType::remove);
  stop.request_stop();
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  EXPECT_TRUE(!fault || fault->wait(patience));
  EXPECT_TRUE(remain(kind().held));
  held.release();
  expect_nothing_left();
}

// The operation's default deadline is not one for the wait.
TEST_P(LocksFaults, AWaitWithoutADeadlineHasNone) {
  Client hasty(server.connect_string(), {.session_timeout = calm, .operation_timeout = 300ms});
  Lease held = block();
  auto waiting = in_thread([&] { return kind().acquire(hasty, {}); });
  auto for_ever =
      in_thread([&] { return kind().try_acquire_for(hasty, std::chrono::nanoseconds::max(), {}).has_value(); });
  EXPECT_EQ(waiting.wait_for(600ms), std::future_status::timeout);
  EXPECT_EQ(for_ever.wait_for(0ms), std::future_status::timeout);
  held.release();
  result_of(waiting).release({.deadline = soon()});
  EXPECT_TRUE(result_of(for_ever));
}

TEST_P(LocksFaults, WaitsForAtMostThatLong) {
  Client client = calm_direct();
  Lease held = block();
  std::error_code why;
  // On a busy machine little time may be over before the first answer, and then it is not known that others have it.
  for (auto time = 50ms; why != Errc::not_available && time < patience; time *= 2) {
    const auto end = SteadyClock::now() + time;
    EXPECT_FALSE(kind().try_acquire_for(client, time, why));
    EXPECT_GE(SteadyClock::now(), end);
  }
  EXPECT_EQ(why, Errc::not_available);
  EXPECT_TRUE(remain(kind().held));
  auto waiting = in_thread([&] { return kind().try_acquire_for(client, patience, {}); });
  ASSERT_TRUE(waits(client, held));
  held.release();
  std::optional<Lease> lease = result_of(waiting);
  ASSERT_TRUE(lease);
  lease->release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ATimeThatIsOverMeansOneTry) {
  Client client = calm_proxied();
  for (const auto timeout : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(-1),
                             std::chrono::nanoseconds(std::numeric_limits<std::int64_t>::min())}) {
    std::error_code why = Errc::closed;
    std::optional<Lease> lease = kind().try_acquire_for(client, timeout, why);
    ASSERT_TRUE(lease) << "it was free, whatever the time: " << timeout.count();
    EXPECT_EQ(why, std::error_code());
    lease->release();
    Lease held = block();
    ASSERT_TRUE(remain(kind().held));
    const std::size_t before = proxy.request_count(RequestType::any);
    EXPECT_FALSE(kind().try_acquire_for(client, timeout, why));
    EXPECT_EQ(why, Errc::not_available);
    EXPECT_GT(proxy.request_count(RequestType::any), before) << "that cannot be known without a try";
    EXPECT_TRUE(remain(kind().held)) << "and a vain one leaves nothing";
    held.release();
  }
  expect_nothing_left();
}

// --- While holding ------------------------------------------------------------------------------------------------

// The loss is told, everything fails closed, and the lock can be had again.
TEST_P(LocksFaults, SessionLostWhileHolding) {
  Client client = calm_direct();
  Lease lease = acquire(client);
  expire(client);
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_LT(lease.valid_until(), BootClock::now());
  Lease again = acquire(client);
  EXPECT_GT(again.token(), lease.token());
  EXPECT_EQ(error_of([&] { lease.release(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { client.commit(Transaction().check(lease.guard())); }), Errc::session_lost)
      << "also not with the next session";
  EXPECT_TRUE(again.valid()) << "the late release harms no other holder";
  EXPECT_TRUE(remain(kind().held));
  again.release();
  expect_nothing_left();
}

// Seen at once, and not with a heartbeat, which comes every 5 s.
TEST_P(LocksFaults, NodeDeletedWhileHolding) {
  Client client = calm_direct();
  Lease lease = acquire(client);
  ASSERT_TRUE(watches(client, own(lease)));
  auto waiting = in_thread([&] { return block(); });
  ASSERT_TRUE(waits(the_operator(), lease));
  Client third = calm_direct();
  third.remove(own(lease));
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_EQ(error_of([&] { lease.release(); }), Errc::not_held);
  EXPECT_EQ(client.session().state(), ConnectionState::connected) << "the session lives";
  Lease next = result_of(waiting);
  EXPECT_GT(next.token(), lease.token());
  next.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, NodeDeletedWhileDisconnected) {
  Client client = calm_proxied();
  Lease lease = acquire(client);
  ASSERT_TRUE(watches(client, own(lease)));
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_EQ(lease.state(), LeaseState::uncertain);
  the_operator().remove(own(lease));
  Lease successor = block();
  proxy.refuse(false);
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(successor.valid());
  successor.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ConnectionBreaksWhileHolding) {
  Client client = calm_proxied();
  Lease lease = acquire(client);
  EXPECT_EQ(lease.state(), LeaseState::held);
  refuse_and_cut();
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::uncertain; }));
  EXPECT_TRUE(lease.valid());
  const BootClock::time_point until = lease.valid_until();
  EXPECT_FALSE(blocking(kind()).try_acquire(the_operator()));
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::held; }));
  ASSERT_TRUE(eventually([&] { return lease.valid_until() > until; })) << "the proof is renewed";
  EXPECT_FALSE(lease.lost().stop_requested());
  lease.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ReleaseLost) {
  Client client = calm_proxied();
  for (const bool request : {true, false}) {
    Lease lease = acquire(client);
    client.sync("/", {.deadline = soon()});  // A semaphore's turn is given back by then: that is not what gets lost.
    auto fault = lose(request, kind().removal);
    lease.release({.deadline = soon()});
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(names().empty()) << "it waited until the node was gone";
    EXPECT_EQ(lease.state(), LeaseState::released);
  }
  expect_nothing_left();
}

// --- The rest -----------------------------------------------------------------------------------------------------

TEST_P(LocksFaults, ClientClosed) {
  Client client = calm_direct();
  Lease lease = acquire(client);
  ASSERT_TRUE(watches(client, own(lease)));
  client.sync("/", {.deadline = soon()});  // With answers outstanding the session might be left to the server.
  client.close();
  EXPECT_TRUE(lease.lost().stop_requested());
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(eventually([&] { return names().empty(); }));
  const std::optional<Errc> error = error_of([&] { lease.release(); });
  EXPECT_TRUE(error == Errc::not_held || error == Errc::closed);
  Client waiting_client = calm_direct();
  Lease held = block();
  auto waiting = wait_behind(waiting_client, held);
  waiting_client.sync("/", {.deadline = soon()});
  waiting_client.close();
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  EXPECT_TRUE(eventually([&] { return names().size() == kind().held; }));
  EXPECT_TRUE(held.valid());
  held.release();
  expect_nothing_left();
}

TEST_P(LocksFaults, ForeignChild) {
  const std::vector<std::string> foreign = {"_c_x-latch-0000000000", "_c_y-lock-", "nodash", "ready", "x-0000000000"};
  for (const std::string& name : foreign)
    the_operator().create(Path(lock_path) / name, "");
  foreign_ = names().size();
  Client client = calm_direct();
  Lease held = block();
  auto waiting = wait_behind(client, held);
  the_operator().create(Path(lock_path) / "another", "");
  the_operator().remove(Path(lock_path) / "nodash");
  held.release();
  result_of(waiting).release();
  EXPECT_TRUE(the_operator().exists(Path(lock_path) / "ready")) << "what is not ours stays";
}

TEST_P(LocksFaults, NoServer) {
  Client client = calm_proxied();
  acquire(client).release();
  refuse_and_cut();
  EXPECT_EQ(error_of([&] { (void)kind().acquire(client, {.deadline = SteadyClock::now() + 200ms}); }),
            Errc::deadline_exceeded);
  std::error_code why;
  EXPECT_FALSE(kind().try_acquire_for(client, 50ms, why));
  EXPECT_EQ(why, Errc::deadline_exceeded);
  proxy.refuse(false);
  acquire(client).release();
  expect_nothing_left();
}

// --- All kinds at once, because each waits for the end of a session ------------------------------------------------

class AllLocksFaults : public testkit::RecipeFaultTest {
 protected:
  AllLocksFaults() : RecipeFaultTest(lock_path) {}
};

// A holder that was cut off knows before another one holds.
TEST_F(AllLocksFaults, PartitionedPastExpiryWhileHolding) {
  const testkit::StallWatch stalls;
  std::vector<Client> clients;
  std::deque<Lease> leases;
  std::vector<std::future<void>> rivals;
  for (const Kind* kind : kinds) {
    const Path prefix = Path("/") / kind->name;
    the_operator().create(prefix, "");
    clients.push_back(contended_proxied(prefix));
    Lease& lease = leases.emplace_back(kind->acquire(clients.back(), {.deadline = soon()}));
    rivals.push_back(in_thread(
        [kind, &lease, &stalls, other = Client(server.connect_string(), {.session_timeout = calm, .prefix = prefix})] {
          const Lease next = blocking(*kind).acquire(other, {.deadline = soon()});
          EXPECT_FALSE(lease.valid()) << kind->name;
          EXPECT_TRUE(lease.lost().stop_requested() || stalls.seen())
              << "told before the other one acquired: " << kind->name;
          EXPECT_GT(next.token(), lease.token()) << kind->name;
        }));
  }
  proxy.stall(Direction::both);
  for (auto& rival : rivals)
    result_of(rival);
  for (Lease& lease : leases)
    EXPECT_EQ(error_of([&] { lease.release({.deadline = soon()}); }), Errc::not_held);
  proxy.unstall(Direction::both);
}

// --- The locks of a thread ----------------------------------------------------------------------------------------

template <typename AnyLock>
class ThreadLocks : public testkit::RecipeFaultTest {
 protected:
  ThreadLocks() : RecipeFaultTest(lock_path) {}
  static constexpr bool counts = std::is_same_v<AnyLock, RecursiveMutex>;
  static constexpr bool shares = std::is_same_v<AnyLock, ReaderLock>;

  /// What each way to lock ends with, in this thread.
  static std::vector<std::optional<Errc>> errors_of_locking(AnyLock& lock) {
    return {error_of([&] { lock.lock(); }), error_of([&] { (void)lock.try_lock(); }),
            error_of([&] { (void)lock.try_lock_for(1ms); }),
            error_of([&] { (void)lock.try_lock_until(SteadyClock::now()); })};
  }
};
using LocksOfThreads = ::testing::Types<Mutex, RecursiveMutex, UnfairMutex, SharedMutex, ReaderLock>;
TYPED_TEST_SUITE(ThreadLocks, LocksOfThreads, );

TYPED_TEST(ThreadLocks, OneThreadLocksOnce) {
  static_assert(testkit::TimedLockable<TypeParam>);
  static_assert(noexcept(std::declval<TypeParam&>().unlock()));
  EXPECT_EQ(std::error_code(Errc::would_deadlock), std::errc::resource_deadlock_would_occur);
  TypeParam lock(this->the_operator(), lock_path);
  const auto expect_not_locked = [&] { EXPECT_EQ(error_of([&] { (void)lock.lease(); }), Errc::not_held); };
  lock.unlock();  // Of nothing: a warning in the log, no more.
  expect_not_locked();
  lock.lock();
  if constexpr (TestFixture::counts) {
    ASSERT_TRUE(lock.try_lock());
    lock.unlock();
  } else {
    EXPECT_EQ(this->errors_of_locking(lock), std::vector(4, std::optional(Errc::would_deadlock)));
  }
  EXPECT_TRUE(lock.lease().valid()) << "the first lock stands";
  auto elsewhere = in_thread([&] {
    if constexpr (!TestFixture::shares) {
      EXPECT_FALSE(lock.try_lock());
    }
    expect_not_locked();
    lock.unlock();  // Not of this thread.
  });
  result_of(elsewhere);
  EXPECT_TRUE(lock.lease().valid());
  lock.unlock();
  expect_not_locked();
  ASSERT_TRUE(lock.try_lock_for(patience));
  lock.unlock();
  this->expect_nothing_left();
}

// Usable again as soon as the thread has unlocked.
TYPED_TEST(ThreadLocks, AThreadUnlocksWhatItHasLost) {
  Client client = this->calm_direct();
  TypeParam lock(client, lock_path);
  for (int i = 0; i < 2; ++i) {
    lock.lock();
    EXPECT_TRUE(lock.lease().valid());
    const std::stop_token lost = lock.lease().lost();
    this->expire(client);
    ASSERT_TRUE(stopped(lost));
    EXPECT_EQ(this->errors_of_locking(lock), std::vector(4, std::optional(Errc::not_held)));
    EXPECT_EQ(lock.lease().state(), LeaseState::lost);
    lock.unlock();
    EXPECT_EQ(error_of([&] { (void)lock.lease(); }), Errc::not_held);
  }
  this->expect_nothing_left();
}

// --- Special: those that queue up --------------------------------------------------------------------------------

class QueuedLockFaults : public LocksFaults {
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
    auto get = [shared](detail::Patience how_long, zkclient::detail::Call call) {
      return detail::contend(shared, "", how_long, std::move(call));
    };
    const char* name = "shared mutex acquire";
    const detail::Acquirer acquirer({client, lock_path, "shared mutex", name, std::move(get), name, {}});
    return acquirer.acquire({.deadline = soon()});
  }
};
INSTANTIATE_TEST_SUITE_P(All, QueuedLockFaults, ::testing::Values(&writer, &reader),
                         [](const auto& instance) { return std::string(instance.param->name); });

TEST_P(QueuedLockFaults, OwnNodeDeletedWhileWaiting) {
  Client client = calm_direct();
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
TEST_P(QueuedLockFaults, OwnNodeDeletedJustBeforeTheGrant) {
  Client client = calm_direct();
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

// --- Special: one node that all contenders want -------------------------------------------------------------------

class SingleNodeFaults : public LocksFaults {};
INSTANTIATE_TEST_SUITE_P(Unfair, SingleNodeFaults, ::testing::Values(&unfair));

// The first one's nodes are deleted by hand. What it reads is read again after another contender of its own session has
// made both nodes anew: it must not take them for its own.
TEST_P(SingleNodeFaults, ReadRepeatedAfterASiblingHasIt) {
  for (const RequestType read : {RequestType::get_data, RequestType::get_children2}) {
    bool in_time = false;
    for (int attempt = 0; !in_time; ++attempt) {
      ASSERT_LT(attempt, 10) << "the sibling never comes before the repeated read";
      const zkclient::RetryPolicy slow = {.initial = 2s, .jitter = 0};
      Client client(proxy.connect_string(), {.session_timeout = calm, .retry = slow});
      client.connect({.deadline = soon()});
      const std::size_t before = proxy.request_count(read);
      auto unread = proxy.drop_next_reply(read);
      auto waiting = in_thread([&] { return acquire(client); });
      ASSERT_TRUE(unread.wait(patience));
      Transaction removal;
      for (const std::string& name : names())
        removal.remove(Path(lock_path) / name);
      the_operator().commit(removal);
      std::optional<Lease> sibling = UnfairMutex(client, lock_path).try_acquire({.deadline = soon()});
      // One read of each by then: the repeated one comes later. Otherwise the first one may have had its nodes still,
      // or have made them again.
      in_time = sibling && proxy.request_count(read) == before + 2;
      if (in_time) {
        // Behind those two, and the one with which the sibling watches its node.
        const std::size_t others = read == RequestType::get_data ? 3 : 2;
        ASSERT_TRUE(proxy.wait_for_requests(read, before + others + 1, patience)) << "the repeated one";
        client.sync("/", {.deadline = soon()});
        EXPECT_TRUE(sibling->valid());
        EXPECT_EQ(names().size(), kind().held);
      }
      if (sibling) sibling->release({.deadline = soon()});
      Lease first = result_of(waiting);
      if (in_time) {
        EXPECT_GT(first.token(), sibling->token());
      }
      std::error_code lost;  // By the removal, if it had read before that.
      first.release({.deadline = soon()}, lost);
      EXPECT_TRUE(!in_time || !lost) << lost.message();
      expect_nothing_left();
    }
  }
}

// The node of that name is there, and the holder's second one as well; and yet it is not the holder's any more.
TEST_P(SingleNodeFaults, NodeReplacedWhileDisconnected) {
  Client client = calm_proxied();
  Lease lease = acquire(client);
  const Path node = own(lease);
  ASSERT_TRUE(watches(client, node));
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
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
    Client former_client = calm_proxied();
    Lease former = acquire(former_client);
    refuse_and_cut();  // It cannot clear up itself.
    the_operator().remove(own(former));
    zktesting::Proxy other(server.connect_string());
    Client client(other.connect_string(), {.session_timeout = calm});
    auto fault = request ? other.drop_next_request(RequestType::remove) : other.drop_next_reply(RequestType::remove);
    Lease lease = acquire(client);
    EXPECT_TRUE(fault.happened());
    EXPECT_EQ(names().size(), kind().held);
    EXPECT_TRUE(lease.valid());
    proxy.refuse(false);
    EXPECT_TRUE(stopped(former.lost()));
    EXPECT_TRUE(lease.valid());
    lease.release();
    expect_nothing_left();
  }
}

// --- Special: downgrade ----------------------------------------------------------------------------------------------

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
  Client client = calm_proxied();
  SharedMutex mutex(client, lock_path);
  for (const bool request : {true, false}) {
    Lease lease = mutex.acquire({.deadline = soon()});
    auto fault = lose(request);
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
  Client client = calm_proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto downgrading = in_thread([&] { return error_of([&] { mutex.downgrade(lease, {.deadline = soon()}); }); });
  ASSERT_TRUE(held.wait(patience));
  const auto session = client.session();
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  EXPECT_EQ(result_of(downgrading), Errc::not_held);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

TEST_P(DowngradeFaults, PartitionedPastExpiryWhileDowngrading) {
  // A session that short may end a lease before it is cut off.
  bool cut_off = false;
  for (int attempt = 0; !cut_off; ++attempt) {
    ASSERT_LT(attempt, 10) << "it never holds until it is cut off";
    const testkit::StallWatch stalls;
    Client client = contended_proxied();
    SharedMutex mutex(client, lock_path);
    Lease lease = mutex.acquire({.deadline = soon()});
    const std::stop_token lost = lease.lost();
    auto waiting = in_thread([&] {
      Lease next = block();
      EXPECT_TRUE(lost.stop_requested() || stalls.seen()) << "told before the other one acquired";
      return next;
    });
    ASSERT_TRUE(eventually([&] { return names().size() == 2 || !lease.valid(); }));
    proxy.stall(Direction::both);
    cut_off = lease.valid();
    auto downgrading = in_thread([&] { return error_of([&] { mutex.downgrade(lease, {.deadline = soon()}); }); });
    result_of(waiting).release();
    proxy.unstall(Direction::both);
    EXPECT_EQ(result_of(downgrading), Errc::not_held);
    EXPECT_EQ(lease.state(), LeaseState::lost);
    expect_nothing_left();
  }
}

// Whoever comes next finds the former holder told, although no answer has reached it.
TEST_P(DowngradeFaults, StopWhileDowngrading) {
  const testkit::StallWatch stalls;
  // A heartbeat is a transaction as well: none of so long a session comes before the downgrade.
  Client client(proxy.connect_string(), {.session_timeout = 60s});
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  const std::stop_token lost = lease.lost();
  auto waiting = in_thread([&] {
    Lease next = block();
    EXPECT_TRUE(lost.stop_requested() || stalls.seen()) << "told before the other one acquired";
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
  Client client = calm_proxied();
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
  Client client = calm_proxied();
  SharedMutex mutex(client, lock_path);
  Lease lease = mutex.acquire({.deadline = soon()});
  proxy.stall(Direction::to_server);
  EXPECT_EQ(error_of([&] { mutex.downgrade(lease, {.deadline = SteadyClock::now() + 10s}); }), Errc::in_doubt);
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(stopped(lease.lost()));
  proxy.unstall(Direction::to_server);
  expect_nothing_left();
}

// The server says no: the lease is unchanged, and looked after as before.
TEST_P(DowngradeFaults, RefusedWhileDowngrading) {
  Client client = calm_proxied();
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
  Client client = calm_proxied();
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
  Client client = calm_proxied();
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

// --- Special: a lock that counts ----------------------------------------------------------------------------------

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
  mutex.unlock();  // Of nothing.
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
  refuse_and_cut();
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

}  // namespace
}  // namespace zkrecipes
