// One test for each row of the table "What goes wrong" in <zkrecipes/counter.hpp> that needs a fault; the others are in
// counter_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/counter.hpp>

#include "tests/recipes/values/value_faults.hpp"
#include "tests/support/forged_log.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::forge_version;

// One for each kind of fault, and those that forge a file of the server.
const testkit::OnRealServers counters_on_real_servers{
    "CounterFaults.AddLost",      "CounterFaults.SessionLostWhileWriting",  "CounterFaults.DeadlineOrStopWhileWriting",
    "CounterFaults.ClientClosed", "CounterFaults.VersionAboutToBeMinusOne", "CounterFaults.VersionIsMinusOne"};

constexpr auto decimal = CounterEncoding::kazoo;

class CounterFaults : public ValueFaults {
 protected:
  CounterFaults() : ValueFaults(node) {}
  static Counter make(const Client& client) { return Counter(client, node, {.encoding = decimal}); }
  std::size_t reads() { return proxy.request_count(RequestType::get_data); }
  /// A call that came later has ended on the loop: those before it are in the line.
  static void settle(const Client& client) {
    EXPECT_EQ(error_of([&] { client.sync("/", {.deadline = SteadyClock::now()}); }), Errc::deadline_exceeded);
  }

  static inline const zkclient::Path node = "/counters/hits";
};

// --- Lost replies ---------------------------------------------------------------------------------------------------

// V81
TEST_F(CounterFaults, AddLost) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  std::int64_t number = 1;
  for (const bool request : {true, false}) {
    for (const std::int64_t delta : {1, -3, 0}) {
      auto fault = lose(request);
      EXPECT_EQ(counter.add(delta, patient()), (CounterChange{number, number + delta}));
      number += delta;
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data(), std::to_string(number));
    }
  }
}

// Twice in one call, and the reads that belong to it as well.
TEST_F(CounterFaults, AddLostAgainAndAgain) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  std::vector<zktesting::Fault> faults;
  faults.push_back(proxy.drop_next_reply(RequestType::multi));
  faults.push_back(proxy.drop_next_reply(RequestType::multi));
  faults.push_back(proxy.drop_next_reply(RequestType::get_data));
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{1, 2}));
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{2, 3}));
  for (const zktesting::Fault& fault : faults)
    EXPECT_TRUE(fault.wait(patience));
  EXPECT_EQ(data(), "3");
}

// V83
TEST_F(CounterFaults, FirstAddLost) {
  Client client = calm_proxied();
  for (const RequestType type : {RequestType::create2, RequestType::multi}) {  // The former: the slot.
    for (const bool request : {true, false}) {
      Counter fresh = make(client);
      auto fault = lose(request, type);
      EXPECT_EQ(fresh.add(1, patient()), (CounterChange{0, 1}));
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data(), "1");
      the_operator().remove(node);
    }
  }
}

// V82: by the time that it is asked again, the number is another one.
TEST_F(CounterFaults, CompareSetLost) {
  Client client = calm_proxied();
  Counter counter = make(client);
  Counter other = make(the_operator());
  for (const bool request : {true, false}) {
    counter.set(1, patient());
    auto fault = lose(request);
    EXPECT_TRUE(counter.compare_set(1, 2, patient()));
    EXPECT_TRUE(fault.wait(patience));
    fault = lose(request);
    EXPECT_FALSE(counter.compare_set(1, 2, patient()));
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(data(), "2");
  }
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto comparing = in_thread([&] { return counter.compare_set(2, 3, patient()); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(other.add(4, patient()), (CounterChange{3, 7}));
  proxy.cut();
  held.release();
  EXPECT_TRUE(result_of(comparing));
  EXPECT_EQ(data(), "7");
}

// V84: what came after it stays.
TEST_F(CounterFaults, SetLost) {
  Client client = calm_proxied();
  Counter counter = make(client);
  Counter other = make(the_operator());
  counter.set(0, patient());
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    counter.set(5, patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(data(), "5");
  }
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto setting = in_thread([&] { counter.set(6, patient()); });
  ASSERT_TRUE(held.wait(patience));
  other.set(7, patient());
  proxy.cut();
  held.release();
  result_of(setting);
  EXPECT_EQ(data(), "7");
}

TEST_F(CounterFaults, UpdateLost) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.set(1, patient());
  std::int64_t number = 1;
  for (const bool request : {true, false}) {
    for (const RequestType type : {RequestType::multi, RequestType::get_data}) {
      auto fault = lose(request, type);
      const auto twice = [](std::int64_t before) { return 2 * before; };
      EXPECT_EQ(counter.update(twice, patient()), (CounterChange{number, 2 * number}));
      number *= 2;
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data(), std::to_string(number));
    }
  }
}

// Every kind of message may be lost at any time: the sum is exact.
TEST_F(CounterFaults, EveryAddOnceWhileRepliesAreLost) {
  std::mt19937 random(4711);
  std::vector<Client> clients;
  std::vector<Counter> counters;
  for (int i = 0; i < 3; ++i)
    counters.push_back(make(clients.emplace_back(calm_proxied())));
  for (int round = 0; round < 30; ++round) {
    std::vector<std::future<CounterChange>> adding;
    auto fault = lose(random() % 2 == 0, random() % 4 == 0 ? RequestType::get_data : RequestType::multi);
    for (Counter& counter : counters)
      adding.push_back(in_thread([&] { return counter.add(1, patient()); }));
    std::vector<std::int64_t> before;
    for (auto& one : adding)
      before.push_back(result_of(one).before);
    std::sort(before.begin(), before.end());
    EXPECT_EQ(before, (std::vector<std::int64_t>{3 * round, 3 * round + 1, 3 * round + 2}));
    fault.cancel();
  }
  EXPECT_EQ(data(), "90");
}

// --- Sessions, deadlines --------------------------------------------------------------------------------------------

/// All changes, as if the number were `before`.
struct Call {
  std::function<void(Counter&, const CallOptions&)> run;
  std::int64_t after;
};
const std::vector<Call> calls = {
    {[](Counter& counter, const CallOptions& call) { counter.add(1, call); }, 1},
    {[](Counter& counter, const CallOptions& call) { counter.set(5, call); }, 5},
    {[](Counter& counter, const CallOptions& call) { EXPECT_TRUE(counter.compare_set(5, 7, call)); }, 7},
    {[](Counter& counter, const CallOptions& call) { counter.update([](std::int64_t n) { return n + 1; }, call); }, 8},
};

TEST_F(CounterFaults, SessionLostWhileWriting) {
  Client client = calm_proxied();
  Counter counter = make(client);
  for (const Call& call : calls) {
    counter.add(0, patient());
    const zkclient::Session session = client.connect(patient());
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto writing = in_thread([&] { return error_of([&] { call.run(counter, patient()); }); });
    ASSERT_TRUE(held.wait(patience));
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    held.release();
    proxy.refuse(false);
    EXPECT_EQ(result_of(writing), Errc::in_doubt);
    EXPECT_EQ(data(), std::to_string(call.after));
  }
}

// V88
TEST_F(CounterFaults, SessionLostBeforeWriting) {
  Client client = calm_proxied();
  Counter counter = make(client);
  for (const Call& call : calls) {
    counter.add(0, patient());
    const zkclient::Session session = client.connect(patient());
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    auto writing = in_thread([&] { call.run(counter, patient()); });
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
    result_of(writing);
    EXPECT_EQ(data(), std::to_string(call.after));
  }
  const zkclient::Session ended = client.connect(patient());
  expire(client);
  ASSERT_TRUE(stopped(ended.lost())) << "else the write may be sent to who does not answer any more";
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{8, 9}));
  // While it makes ready: of the write itself nothing was sent.
  Counter fresh = make(client);
  const zkclient::Session session = client.connect(patient());
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto writing = in_thread([&] { return fresh.add(1, patient()); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  held.release();
  proxy.refuse(false);
  EXPECT_EQ(result_of(writing), (CounterChange{9, 10}));
}

TEST_F(CounterFaults, DeadlineOrStopWhileWriting) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.set(0, patient());
  std::string before = "0";
  for (const Call& call : calls) {
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    EXPECT_EQ(error_of([&] { call.run(counter, {.deadline = 50ms}); }), Errc::deadline_exceeded) << "nothing was sent";
    std::stop_source at_once;
    at_once.request_stop();
    EXPECT_EQ(error_of([&] { call.run(counter, {.stop = at_once.get_token()}); }), Errc::cancelled);
    EXPECT_EQ(data(), before);
    proxy.refuse(false);
    client.connect(patient());
    std::stop_source stop;
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto writing =
        in_thread([&] { return error_of([&] { call.run(counter, {.deadline = soon(), .stop = stop.get_token()}); }); });
    ASSERT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(writing), Errc::in_doubt);
    held.release();
    before = std::to_string(call.after);
    EXPECT_EQ(data(), before);
  }
}

// Before it is sent a call is taken back alone; the others of the transaction go on.
TEST_F(CounterFaults, StoppedBeforeItsTransactionWasSent) {
  Client client = calm_proxied();
  Counter counter = make(client);
  client.connect(patient());
  Box<Result<CounterChange>> first;
  Box<Result<CounterChange>> second;
  std::stop_source stop;
  auto slot = proxy.hold_next_reply(RequestType::create2);
  counter.async_add(1, [&](auto result) { first.put(std::move(result)); },
                    {.deadline = soon(), .stop = stop.get_token()});
  counter.async_add(
      10, [&](auto result) { second.put(std::move(result)); }, patient());
  ASSERT_TRUE(slot.wait(patience));
  stop.request_stop();
  EXPECT_EQ(first.take().code(), Errc::cancelled);
  slot.release();
  EXPECT_EQ(second.take().value(), (CounterChange{0, 10}));
  EXPECT_EQ(data(), "10");
}

// After it was sent it is in doubt for itself alone.
TEST_F(CounterFaults, StoppedAfterItsTransactionWasSent) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.set(0, patient());
  Box<Result<CounterChange>> told[3];
  std::stop_source stop;
  const auto add = [&](int i, const CallOptions& call) {
    counter.async_add(
        1, [&, i](auto result) { told[i].put(std::move(result)); }, call);
  };
  auto before = proxy.hold_next_reply(RequestType::multi);
  add(0, patient());
  ASSERT_TRUE(before.wait(patience));
  auto both = proxy.hold_next_reply(RequestType::multi);
  add(1, {.deadline = soon(), .stop = stop.get_token()});
  add(2, patient());
  settle(client);
  before.release();
  ASSERT_TRUE(both.wait(patience));
  stop.request_stop();
  EXPECT_EQ(told[1].take().code(), Errc::in_doubt);
  proxy.cut();
  both.release();
  EXPECT_EQ(told[2].take().value(), (CounterChange{2, 3}));
  EXPECT_EQ(data(), "3");
}

// Beside a client that never pauses it looks, sleeps and looks again.
TEST_F(CounterFaults, StoppedOrClosedWhileItWaitsForItsTurn) {
  constexpr std::int64_t mine = 1'000'000;
  Counter other = make(the_operator());
  other.set(0, patient());
  std::atomic<bool> over{false};
  auto crowd = in_thread([&] {
    std::int64_t added = 0;
    for (const auto limit = soon() + patience; !over && SteadyClock::now() < limit; ++added)
      other.add(1, patient());
    return added;
  });
  std::int64_t done = 0;
  std::int64_t doubts = 0;
  std::deque<Counter> stopped_ones;
  for (const bool closes : {false, true}) {
    for (bool ended = false; !ended && !testing::Test::HasFailure();) {  // It may get its turn, or be sent just then.
      Client client = calm_proxied();
      Counter counter = make(client);
      std::stop_source stop;
      Box<Result<CounterChange>> told;
      const std::size_t looks = reads();
      counter.async_add(mine, [&](auto result) { told.put(std::move(result)); },
                        {.deadline = soon(), .stop = stop.get_token()});
      EXPECT_TRUE(eventually([&] { return reads() >= looks + 8 || told.size() > 0; }));
      if (closes) {
        client.close();
      } else {
        stop.request_stop();
      }
      const Result<CounterChange> result = told.take();
      ended = !result && result.code() == (closes ? Errc::closed : Errc::cancelled);
      done += result ? 1 : 0;
      doubts += !result && result.code() == Errc::in_doubt ? 1 : 0;
      EXPECT_TRUE(ended || result || result.code() == Errc::in_doubt) << result.code().message();
      if (!closes) stopped_ones.push_back(std::move(counter));
    }
  }
  over = true;
  const std::int64_t added = result_of(crowd);
  for (Counter& counter : stopped_ones)
    counter.add(0, patient());  // Not before what is still in its line.
  const std::int64_t number = other.get(patient());
  EXPECT_EQ(number % mine, added % mine);
  EXPECT_GE(number, done * mine + added);
  EXPECT_LE(number, (done + doubts) * mine + added);
}

TEST_F(CounterFaults, ClientClosed) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.set(0, patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto adding = in_thread([&] { return error_of([&] { counter.add(1, patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  auto closing = in_thread([client]() mutable { client.close(); });
  EXPECT_EQ(result_of(adding), Errc::in_doubt);
  held.release();
  result_of(closing);
  EXPECT_EQ(error_of([&] { counter.add(1); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)counter.get(); }), Errc::closed);
  EXPECT_EQ(error_of([&] { counter.update([](std::int64_t n) { return n; }); }), Errc::closed);
  EXPECT_EQ(data(), "1");
}

// --- Round trips ----------------------------------------------------------------------------------------------------

TEST_F(CounterFaults, OneRoundTripWithoutConflict) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(counter.get(patient()), i) << "so the read behind the add before was answered";
    const std::size_t transactions_before = transactions();
    const std::size_t reads_before = reads();
    // The read behind it is not waited for.
    auto held = proxy.hold_next_reply(RequestType::get_data);
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{i, i + 1}));
    ASSERT_TRUE(held.wait(patience));
    held.release();
    EXPECT_EQ(transactions(), transactions_before + 1);
    EXPECT_EQ(reads(), reads_before + 1);
  }
}

// One change after the other: each one tells the next what it needs to know.
TEST_F(CounterFaults, OneRequestForEachChangeInARow) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  const std::size_t transactions_before = transactions();
  const std::size_t reads_before = reads();
  const auto begun = SteadyClock::now();
  Box<CounterChange> told;
  constexpr int changes = 200;
  std::function<void(int)> add = [&](int left) {
    counter.async_add(
        1,
        [&, left](Result<CounterChange> result) {
          told.put(result.value());
          if (left > 1) add(left - 1);
        },
        patient());
  };
  add(changes);
  for (int i = 1; i <= changes; ++i)
    EXPECT_EQ(told.take(), (CounterChange{i, i + 1}));
  EXPECT_EQ(transactions(), transactions_before + changes);
  // A machine that is busy stops it for 10 ms now and then. Each time that costs a few reads.
  const auto stops = static_cast<std::size_t>((SteadyClock::now() - begun) / 10ms);
  EXPECT_LE(reads(), reads_before + 3 * (stops + 1));
  EXPECT_TRUE(eventually([&] { return watches(client, node); })) << "for the next change, whenever it comes";
  EXPECT_EQ(data(), std::to_string(changes + 1));
}

// What was written in between is worked out from what is there now, although no watch has told of it.
TEST_F(CounterFaults, AnotherClientsChangesInARow) {
  Client client = calm_proxied();
  Counter counter = make(client);
  Counter other = make(the_operator());
  std::int64_t number = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{number, number + 1}));
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{number + 1, number + 2}));
    number += 2;
    if (i % 2 == 0) continue;
    EXPECT_EQ(other.add(10, patient()), (CounterChange{number, number + 10}));
    number += 10;
  }
  EXPECT_EQ(data(), std::to_string(number));
}

// A get() may be asked for what others have written, and an own write that no watch looks after does not tell.
TEST_F(CounterFaults, AnOwnChangeIsNotWhatOthersHaveWrittenSince) {
  Client client = calm_proxied();
  Counter counter = make(client);
  for (int i = 0; i < 20; ++i) {
    counter.set(1, patient());
    counter.add(1, patient());
    counter.add(1, patient());
    the_operator().set(node, "70");
    client.sync("/", patient());
    EXPECT_EQ(counter.get(patient()), 70);
  }
}

TEST_F(CounterFaults, OneMoreForAConflict) {
  Client client = calm_proxied();
  Counter counter = make(client);
  Counter other = make(the_operator());
  counter.add(1, patient());
  const auto changed = SteadyClock::now();
  EXPECT_TRUE(eventually([&] { return SteadyClock::now() > changed + 20ms; })) << "it is not one of a row";
  EXPECT_EQ(counter.get(patient()), 1) << "so the read behind it was answered";
  // The event of the other change has not come yet.
  proxy.stall(zktesting::Direction::to_client);
  other.add(10, patient());
  const std::size_t transactions_before = transactions();
  const std::size_t reads_before = reads();
  auto adding = in_thread([&] { return counter.add(1, patient()); });
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, transactions_before + 1, patience));
  proxy.unstall(zktesting::Direction::to_client);
  EXPECT_EQ(result_of(adding), (CounterChange{11, 12}));
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::get_data, reads_before + 2, patience));
  EXPECT_EQ(transactions(), transactions_before + 2);
  EXPECT_EQ(reads(), reads_before + 2);
}

TEST_F(CounterFaults, ConcurrentAddsShareATransaction) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.set(0, patient());
  Box<CounterChange> told;
  const auto add = [&](int times) {
    for (int i = 0; i < times; ++i)
      counter.async_add(
          1, [&](Result<CounterChange> result) { told.put(result.value()); }, patient());
  };
  // All that come while one is on its way share the next one.
  auto held = proxy.hold_next_reply(RequestType::multi);
  add(1);
  ASSERT_TRUE(held.wait(patience));
  const std::size_t before = transactions();
  add(1000);
  settle(client);
  held.release();
  std::vector<std::int64_t> all;
  for (int i = 0; i < 1001; ++i)
    all.push_back(told.take().before);
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(transactions(), before + 1);
  EXPECT_EQ(data(), "1001");
}

TEST_F(CounterFaults, NothingIsLeftBesideTheNumber) {
  Client client = calm_proxied();
  {
    Counter counter = make(client);
    for (int i = 0; i < 5; ++i)
      counter.add(1, patient());
    EXPECT_TRUE(eventually([&] { return watches(client, node); }));
    EXPECT_EQ(server.watch_count(), 1u);
    EXPECT_EQ(server.ephemeral_count(), 1u);
  }
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; }));
  EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; }));
  EXPECT_EQ(data(), "5");
}

// --- What others do -------------------------------------------------------------------------------------------------

TEST_F(CounterFaults, DeletedAndMadeAgainDuringABreak) {
  Client client = calm_proxied();
  Counter counter = make(client);
  EXPECT_EQ(counter.add(5, patient()), (CounterChange{0, 5}));
  EXPECT_EQ(counter.get(patient()), 5) << "so the read behind it was answered";
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  make_again("100");
  auto adding = in_thread([&] { return counter.add(1, patient()); });
  proxy.refuse(false);
  EXPECT_EQ(result_of(adding), (CounterChange{100, 101}));
}

// The event has not come yet, and the version is the same.
TEST_F(CounterFaults, MadeAgainInTheInstantOfAChange) {
  Client client = calm_proxied();
  Counter counter = make(client);
  for (const bool reply_lost : {false, true}) {
    std::error_code ignored;
    the_operator().remove(node, zkclient::any_version, {}, ignored);
    EXPECT_EQ(counter.add(5, patient()), (CounterChange{0, 5}));
    EXPECT_EQ(counter.get(patient()), 5) << "so the read behind it was answered";
    proxy.stall(zktesting::Direction::to_client);
    make_again("100");
    const std::size_t before = transactions();
    auto adding = in_thread([&] { return error_of([&] { counter.add(1, patient()); }); });
    EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, before + 1, patience));
    EXPECT_TRUE(eventually([&] { return version() == 1; }));
    if (reply_lost) proxy.cut();
    proxy.unstall(zktesting::Direction::to_client);
    EXPECT_EQ(result_of(adding), reply_lost ? Errc::in_doubt : Errc::foreign_node);
  }
  // What only compared has written nothing, and looks again.
  counter.set(5, patient());
  the_operator().remove(node);
  EXPECT_EQ(counter.add(5, patient()), (CounterChange{0, 5}));
  EXPECT_EQ(counter.get(patient()), 5);
  proxy.stall(zktesting::Direction::to_client);
  make_again("7");
  const std::size_t before = transactions();
  auto comparing = in_thread([&] { return counter.compare_set(7, 8, patient()); });
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, before + 1, patience));
  proxy.unstall(zktesting::Direction::to_client);
  EXPECT_TRUE(result_of(comparing));
  EXPECT_EQ(data(), "8");
}

TEST_F(CounterFaults, AsksWhetherAnotherLibraryWrites) {
  Client client = calm_proxied();
  Counter counter = make(client);
  const auto asked = [&] {
    return proxy.request_count(RequestType::get_children) + proxy.request_count(RequestType::get_children2) > 0;
  };
  the_operator().create(node, "0");
  auto held = proxy.hold_next_reply(RequestType::get_data);
  auto adding = in_thread([&] { return counter.add(1, patient()); });
  int number = 0;
  while (!asked()) {  // What each look tells is old when it comes.
    ASSERT_TRUE(held.wait(patience));
    ASSERT_LT(number, 20) << "it was refused often enough to ask";
    the_operator().set(node, std::to_string(++number));
    auto next = proxy.hold_next_reply(RequestType::get_data);
    held.release();
    held = std::move(next);
    if (number > 2) (void)eventually([&] { return asked() || held.happened(); });
  }
  held.release();
  EXPECT_EQ(result_of(adding), (CounterChange{number, number + 1}));
}

TEST_F(CounterFaults, SlotDeletedByHand) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  const auto delete_slots = [&] {
    for (const std::string& slot : names("/counters/_c_writes"))
      the_operator().remove(zkclient::Path("/counters/_c_writes") / slot);
  };
  delete_slots();
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{1, 2}));
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto adding = in_thread([&] { return error_of([&] { counter.add(1, patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  delete_slots();
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(adding), Errc::in_doubt);
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{3, 4}));
}

// V87
TEST_F(CounterFaults, VersionAboutToBeMinusOne) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  forge_version(server, node, "10", std::numeric_limits<std::int32_t>::max() - 1);
  for (std::int64_t number = 10; number < 13; ++number)
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{number, number + 1}));
  EXPECT_EQ(version(), std::numeric_limits<std::int32_t>::min() + 1);

  forge_version(server, node, "20", -4);
  for (std::int64_t number = 20; number < 25; ++number) {
    auto fault = lose(number % 2 == 0);
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{number, number + 1}));
    EXPECT_TRUE(fault.wait(patience));
  }
  EXPECT_EQ(version(), 2) << "-3, -2, 0, 1, 2";
  EXPECT_EQ(data(), "25");
}

TEST_F(CounterFaults, VersionIsMinusOne) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  forge_version(server, node, "10", -1);
  EXPECT_EQ(error_of([&] { counter.add(1, patient()); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { (void)counter.compare_set(10, 11, patient()); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { counter.update([](std::int64_t n) { return n + 1; }, patient()); }), Errc::bad_version);
  EXPECT_EQ(counter.get(patient()), 10);
  EXPECT_EQ(version(), -1);
  counter.set(11, patient());
  EXPECT_EQ(version(), 0);
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{11, 12}));
}

}  // namespace
}  // namespace zkrecipes
