// One test for each row of the table "What goes wrong" in <zkrecipes/worker_id.hpp> that needs a fault; the others are in
// worker_id_test.cpp.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/worker_id.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class WorkerIdFaults : public testkit::RecipeFaultTest {
 protected:
  WorkerIdFaults() : RecipeFaultTest("/workers") {}
  using Time = std::chrono::system_clock::time_point;

  WorkerIds make(const Client& client, IdLayout layout = {}) {
    return WorkerIds(client, "/workers", {.layout = layout, .ahead = ahead, .clock = [now = now] {
                                            return Time(std::chrono::milliseconds(*now));
                                          }});
  }
  std::vector<std::string> names() override { return RecipeFaultTest::names("/workers/held"); }
  std::int64_t reserved() { return std::stoll(the_operator().get("/workers/times/0").data); }
  /// Until the time that is reserved now is used up, however long that takes: true if it is refused then.
  static bool used_up(WorkerId& worker, std::int64_t& last) {
    try {
      for (int i = 0; i < 1'000'000; ++i) {
        const std::int64_t id = worker.next();
        EXPECT_GT(id, last);
        last = id;
      }
    } catch (const Error& error) {
      return error.errc() == Errc::overloaded;
    }
    return false;
  }

  static constexpr auto ahead = 1000ms;
  static constexpr IdLayout small_layout = {.worker_bits = 1, .sequence_bits = 1};
  const std::shared_ptr<std::atomic<std::int64_t>> now = std::make_shared<std::atomic<std::int64_t>>(1'700'000'000'000);
};

TEST_F(WorkerIdFaults, AcquireLost) {
  Client client = calm_proxied();
  std::int64_t last = 0;
  // The list, the number, the time, the parents in the first round.
  for (const RequestType type :
       {RequestType::create2, RequestType::get_children2, RequestType::multi, RequestType::get_data}) {
    for (const bool request : {true, false}) {
      auto fault = lose(request, type);
      WorkerId worker = make(client).acquire(patient());
      EXPECT_EQ(worker.number(), 0);
      EXPECT_TRUE(fault.wait(patience));
      const std::int64_t id = worker.next();
      EXPECT_GT(id, last);
      last = id;
      worker.release(patient());
      EXPECT_TRUE(remain(0));
      the_operator().remove_tree("/workers/held");
      *now += 10'000;
      if (type == RequestType::create2) the_operator().remove_tree("/workers/times");
    }
  }
}

// When it has the number, and reserves time for it.
TEST_F(WorkerIdFaults, AcquireLostWhileReserving) {
  Client client = calm_proxied();
  for (const bool made_before : {false, true}) {
    for (const bool request : {true, false}) {
      if (!made_before) the_operator().remove_tree("/workers/times");
      auto taking = proxy.hold_next_reply(RequestType::get_data);
      auto acquiring = in_thread([&] { return make(client).acquire(patient()); });
      ASSERT_TRUE(taking.wait(patience));
      auto looking = proxy.hold_next_reply(RequestType::get_data);
      taking.release();
      ASSERT_TRUE(looking.wait(patience));
      auto fault = lose(request);
      looking.release();
      WorkerId worker = result_of(acquiring);
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(worker.number(), 0);
      (void)worker.next();
      EXPECT_EQ(reserved(), *now + ahead.count());
      worker.release(patient());
      *now += 10'000;
    }
  }
}

TEST_F(WorkerIdFaults, SessionLostDuringAcquire) {
  Client client = calm_proxied();
  for (const RequestType type : {RequestType::get_children2, RequestType::multi, RequestType::get_data}) {
    const zkclient::Session session = client.connect(patient());
    auto held = proxy.hold_next_reply(type);
    auto acquiring = in_thread([&] { return make(client).acquire(patient()); });
    ASSERT_TRUE(held.wait(patience));
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    held.release();
    proxy.refuse(false);
    WorkerId worker = result_of(acquiring);
    EXPECT_EQ(worker.number(), 0);
    (void)worker.next();
    worker.release(patient());
    EXPECT_TRUE(remain(0));
  }
}

// When it has the number, and reads the time.
TEST_F(WorkerIdFaults, NodeDeletedDuringAcquire) {
  Client client = calm_proxied();
  const Client other = calm_direct();
  make(client).acquire(patient()).release(patient());
  auto taking = proxy.hold_next_reply(RequestType::get_data);
  auto acquiring = in_thread([&] { return make(client).acquire(patient()); });
  ASSERT_TRUE(taking.wait(patience));
  auto looking = proxy.hold_next_reply(RequestType::get_data);
  taking.release();
  ASSERT_TRUE(looking.wait(patience));
  for (const std::string& name : names())
    the_operator().remove(zkclient::Path("/workers/held") / name);
  WorkerId robber = make(other).acquire(patient());
  EXPECT_EQ(robber.number(), 0);
  looking.release();
  WorkerId worker = result_of(acquiring);
  EXPECT_GT(worker.number(), 0);
  (void)worker.next();
}

// It has not heard of that, and its number has another owner, who has reserved time behind it.
TEST_F(WorkerIdFaults, NodeDeletedWhileReserving) {
  Client client = calm_proxied();
  const Client other = calm_direct();
  WorkerId worker = make(client).acquire(patient());
  (void)worker.next();
  proxy.stall(zktesting::Direction::to_client);
  the_operator().remove("/workers/held/0");
  WorkerId next = make(other).acquire(patient());
  EXPECT_EQ(next.number(), 0);
  const std::int64_t others = reserved();
  EXPECT_EQ(others, *now + 2 * ahead.count()) << "above what the former owner has";
  const std::size_t transactions = proxy.request_count(RequestType::multi);
  *now += 600;  // Not as much as the new one has: what is written now would be less.
  (void)worker.next();
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, transactions + 1, patience));
  proxy.unstall(zktesting::Direction::to_client);
  EXPECT_TRUE(stopped(worker.lease().lost()));
  for (int i = 0; i < 3; ++i)  // Behind what it does with the answers.
    client.sync("/", patient());
  EXPECT_EQ(reserved(), others);
  EXPECT_EQ(error_of([&] { worker.next(); }), Errc::not_held);
}

TEST_F(WorkerIdFaults, DeadlineOrStopDuringAcquire) {
  Client client = calm_proxied();
  client.connect(patient());
  std::stop_source at_once;
  at_once.request_stop();
  EXPECT_EQ(error_of([&] { (void)make(client).acquire({.stop = at_once.get_token()}); }), Errc::cancelled);
  for (const bool late : {true, false}) {
    for (const RequestType type : {RequestType::get_children2, RequestType::multi, RequestType::get_data}) {
      bool reached = false;
      // Again, with more time, if the deadline was there before the request.
      for (auto limit = 1000ms; !reached && limit < 20s; limit *= 2) {
        std::stop_source stop;
        auto held = proxy.hold_next_reply(type);
        const CallOptions call{.deadline = late ? SteadyClock::now() + limit : soon(), .stop = stop.get_token()};
        auto acquiring = in_thread([&, call] { return error_of([&] { (void)make(client).acquire(call); }); });
        if (!late) {
          ASSERT_TRUE(held.wait(patience));
          stop.request_stop();
        }
        EXPECT_EQ(result_of(acquiring), late ? Errc::deadline_exceeded : Errc::cancelled);
        reached = held.happened();
        held.release();
        EXPECT_TRUE(remain(0));
      }
      EXPECT_TRUE(reached);
    }
  }
}

// V92
TEST_F(WorkerIdFaults, SessionLostWhileHolding) {
  Client client = calm_direct();
  WorkerId worker = make(client).acquire(patient());
  const std::int64_t before = worker.next();
  expire(client);
  EXPECT_TRUE(stopped(worker.lease().lost()));
  EXPECT_EQ(error_of([&] { worker.next(); }), Errc::not_held);
  WorkerId next = make(client).acquire(patient());
  EXPECT_EQ(next.number(), 0);
  EXPECT_GT(next.next(), before);
  EXPECT_EQ(error_of([&] { worker.next(); }), Errc::not_held) << "the next session is another's";
  EXPECT_EQ(error_of([&] { worker.release(); }), Errc::not_held);
}

// V92: it hears of nothing, and refuses before the number is given to another one.
TEST_F(WorkerIdFaults, CutOffWhileHolding) {
  Client client = contended_proxied();
  const Client other = calm_direct();
  // Before the worker: one that had lost its lease by now would leave it the number 0.
  WorkerId place = make(other, small_layout).acquire(patient());
  const WorkerId second = make(other, small_layout).acquire(patient());
  place.release(patient());
  WorkerId worker = make(client, small_layout).acquire(patient());
  refuse_and_cut();
  auto waiting = in_thread([&] { return make(other, small_layout).acquire(patient()); });
  WorkerId next = result_of(waiting);
  EXPECT_EQ(next.number(), 0);
  EXPECT_EQ(error_of([&] { worker.next(); }), Errc::not_held);
  EXPECT_TRUE(stopped(worker.lease().lost()));
}

// It stands still behind its last look at the lease, until its number has another owner, who has made ids.
TEST_F(WorkerIdFaults, ProcessPausedBeyondItsLease) {
  std::mutex mutex;
  std::condition_variable changed;
  bool pausing = false;
  bool paused = false;
  const auto me = std::make_shared<std::thread::id>();
  const auto clock = [&, me, shared = now] {
    std::unique_lock lock(mutex);
    if (pausing && std::this_thread::get_id() == *me) {
      paused = true;
      changed.notify_all();
      changed.wait(lock, [&] { return !pausing; });
    }
    return Time(std::chrono::milliseconds(*shared));
  };
  Client client = calm_direct();
  WorkerId worker = WorkerIds(client, "/workers", {.ahead = ahead, .clock = clock}).acquire(patient());
  const std::int64_t before = worker.next();
  auto making = in_thread([&] {
    {
      const std::lock_guard lock(mutex);
      *me = std::this_thread::get_id();
      pausing = true;
    }
    return worker.next();
  });
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, patience, [&] { return paused; }));
  }
  expire(client);
  EXPECT_TRUE(stopped(worker.lease().lost()));
  const Client other = calm_direct();
  WorkerId next = make(other).acquire(patient());
  EXPECT_EQ(next.number(), 0);
  const std::int64_t others = next.next();
  {
    const std::lock_guard lock(mutex);
    *now += 10;
    pausing = false;
    changed.notify_all();
  }
  const std::int64_t late = result_of(making);
  EXPECT_GT(late, before);
  EXPECT_GT(others, late) << "all that the former owner had reserved is below it";
  EXPECT_EQ(error_of([&] { worker.next(); }), Errc::not_held);
}

TEST_F(WorkerIdFaults, ConnectionBreaksWhileHolding) {
  Client client = calm_proxied();
  WorkerId worker = make(client, small_layout).acquire(patient());
  std::int64_t last = worker.next();
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  *now += 100;
  const std::int64_t within = worker.next();
  EXPECT_GT(within, last);
  last = within;
  *now += 3'600'000;
  EXPECT_TRUE(used_up(worker, last));
  const IdLayout layout = small_layout;
  const auto beyond = layout.parts_of(last).time.time_since_epoch() - std::chrono::milliseconds(reserved());
  EXPECT_LE(beyond.count(), 0) << "no id is later than what is reserved";
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] {
    try {
      const std::int64_t id = worker.next();
      EXPECT_GT(id, last);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::overloaded);
      return false;
    }
  }));
}

TEST_F(WorkerIdFaults, ReservingLost) {
  Client client = calm_proxied();
  WorkerId worker = make(client).acquire(patient());
  for (int round = 0; round < 4; ++round) {
    const bool request = round % 2 == 0;
    auto fault = lose(request);
    *now += 600;
    (void)worker.next();
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(eventually([&] { return reserved() == *now + ahead.count(); }));
    EXPECT_TRUE(
        eventually([&] { return IdLayout().parts_of(worker.next()).time == Time(std::chrono::milliseconds(*now)); }));
  }
}

TEST_F(WorkerIdFaults, ReleaseLost) {
  Client client = calm_proxied();
  std::int64_t last = 0;
  for (const bool request : {true, false}) {
    WorkerId worker = make(client).acquire(patient());
    const std::int64_t id = worker.next();
    EXPECT_GT(id, last);
    last = id;
    auto fault = lose(request);
    worker.release(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(names().empty());
  }
  expect_nothing_left();
}

TEST_F(WorkerIdFaults, ProcessDies) {
  Client dying = calm_proxied();
  const Client other = calm_direct();
  WorkerId first = make(dying, small_layout).acquire(patient());
  const WorkerId second = make(other, small_layout).acquire(patient());
  const std::int64_t last = first.next();
  const zkclient::Session session = dying.connect(patient());
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  WorkerId next = make(other, small_layout).acquire(patient());
  EXPECT_EQ(next.number(), 0);
  EXPECT_GT(next.next(), last);
}

TEST_F(WorkerIdFaults, ClientClosed) {
  Client client = calm_direct();
  WorkerIds workers = make(client);
  WorkerId worker = workers.acquire(patient());
  client.close();
  EXPECT_EQ(error_of([&] { worker.next(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { (void)workers.acquire(patient()); }), Errc::closed);
  EXPECT_TRUE(remain(0));
}

}  // namespace
}  // namespace zkrecipes
