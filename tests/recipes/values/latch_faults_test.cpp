// One test for each row of the table "What goes wrong" in <zkrecipes/latch.hpp> that needs a fault; the others are in
// latch_test.cpp.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/latch.hpp>

#include "tests/recipes/values/value_faults.hpp"
#include "tests/support/forged_log.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::forge_version;

// One of each kind of fault, and those that forge a file of the server.
const testkit::OnRealServers latches_on_real_servers{"LatchFaults.CountLost", "LatchFaults.SessionLostWhileWaiting",
                                                     "LatchFaults.VersionIsMinusOne"};

class LatchFaults : public ValueFaults {
 protected:
  LatchFaults() : ValueFaults(node) {}
  static Latch make(const Client& client, std::int64_t count = 100, bool durable = false) {
    return Latch(client, node, count, {.durable = durable});
  }
  std::string left() {
    const std::string all = data();
    return all.substr(all.rfind('=') + 1);
  }
  /// The session of `client` ends while a transaction of `call` is on its way; after it was applied, or before.
  template <typename Call>
  auto lose_session_during(const Client& client, bool applied, Call call) {
    const Session session = client.connect(patient());
    proxy.refuse(true);  // It cannot come back, nor be sent again.
    auto fault = lose(!applied);
    auto counting = in_thread(call);
    EXPECT_TRUE(fault.wait(patience));
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
    return result_of(counting);
  }

  static inline const zkclient::Path node = "/latches/start";
};

TEST_F(LatchFaults, CountLost) {
  Client client = calm_proxied();
  Latch latch = make(client);
  std::int64_t expected = latch.count_down(1, patient());
  EXPECT_EQ(expected, 99);
  for (const bool request : {true, false}) {
    for (const RequestType type : {RequestType::multi, RequestType::get_data}) {
      auto fault = lose(request, type);
      EXPECT_EQ(latch.count_down(1, patient()), --expected);
      EXPECT_EQ(latch.left(patient()), expected);
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(left(), std::to_string(expected));
    }
  }
}

TEST_F(LatchFaults, FirstCountLost) {
  Client client = calm_proxied();
  for (const RequestType type : {RequestType::create2, RequestType::multi}) {  // The former: the slot.
    for (const bool request : {true, false}) {
      Latch fresh = make(client);
      auto fault = lose(request, type);
      EXPECT_EQ(fresh.count_down(1, patient()), 99);
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(left(), "99");
      the_operator().remove(node);
    }
  }
}

// Any message may be lost at any time: it opens with the last count, and not before.
TEST_F(LatchFaults, EveryCountOnceWhileRepliesAreLost) {
  constexpr int rounds = 15;
  std::mt19937 random(4711);
  std::vector<Client> clients;
  std::vector<Latch> latches;
  for (int i = 0; i < 3; ++i)
    latches.push_back(make(clients.emplace_back(calm_proxied()), 3 * rounds + 1));
  auto waiting = in_thread([&] { latches.front().wait(patient()); });
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::future<std::int64_t>> counting;
    auto fault = lose(random() % 2 == 0, random() % 4 == 0 ? RequestType::get_data : RequestType::multi);
    for (Latch& latch : latches)
      counting.push_back(in_thread([&] { return latch.count_down(1, patient()); }));
    for (auto& one : counting)
      result_of(one);
    fault.cancel();
  }
  EXPECT_EQ(left(), "1");
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(latches.back().count_down(1, patient()), 0);
  result_of(waiting);
}

TEST_F(LatchFaults, SessionLostDuringACount) {
  Client client = calm_proxied();
  Latch latch = make(client);
  latch.count_down(1, patient());
  const auto count = [&] { return error_of([&] { latch.count_down(1, patient()); }); };
  EXPECT_EQ(lose_session_during(client, true, count), Errc::in_doubt);
  EXPECT_EQ(left(), "98");
  // Before it was sent.
  const Session session = client.connect(patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  auto counting = in_thread([&] { return latch.count_down(1, patient()); });
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  EXPECT_EQ(result_of(counting), 97);
  EXPECT_EQ(left(), "97");
}

TEST_F(LatchFaults, DurableSessionLostDuringACount) {
  Client client = calm_proxied();
  Latch latch = make(client, 100, true);
  std::int64_t expected = latch.count_down(1, patient());
  for (const bool applied : {true, false}) {
    const auto count = [&] { return latch.count_down(1, patient()); };
    EXPECT_EQ(lose_session_during(client, applied, count), --expected);
    EXPECT_EQ(left(), std::to_string(expected));
  }
}

TEST_F(LatchFaults, DeadlineOrStopDuringACount) {
  Client client = calm_proxied();
  Latch latch = make(client);
  latch.count_down(1, patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_EQ(error_of([&] { latch.count_down(1, {.deadline = 50ms}); }), Errc::deadline_exceeded);
  std::stop_source at_once;
  at_once.request_stop();
  EXPECT_EQ(error_of([&] { latch.count_down(1, {.stop = at_once.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(left(), "99");
  proxy.refuse(false);
  client.connect(patient());
  std::stop_source stop;
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto counting =
      in_thread([&] { return error_of([&] { latch.count_down(1, {.deadline = soon(), .stop = stop.get_token()}); }); });
  ASSERT_TRUE(held.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(counting), Errc::in_doubt);
  held.release();
  EXPECT_EQ(left(), "98");
}

// Whether the node is there or not.
TEST_F(LatchFaults, ConnectionBreaksWhileWaiting) {
  Client client = calm_proxied();
  Latch waiter = make(client, 2);
  Latch counter = make(the_operator(), 2);
  auto waiting = in_thread([&] { waiter.wait(patient()); });
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(watches(client, node));
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    counter.count_down(1, patient());
    proxy.refuse(false);
  }
  result_of(waiting);
}

// A wait is for ever: it outlives the attempts that a read has.
TEST_F(LatchFaults, EveryAttemptOfALookIsLostWhileWaiting) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  for (const RequestType type : {RequestType::get_data, RequestType::exists}) {
    auto fault = lose(true, type);
    auto waiting = in_thread([&] { make(client, 1).wait(patient()); });
    ASSERT_TRUE(fault.wait(patience));
    make(the_operator(), 1).count_down(1, patient());
    result_of(waiting);
    the_operator().remove(node);
  }
}

// A reply that is lost on the way to the watch.
TEST_F(LatchFaults, ALookIsLostWhileWaiting) {
  Client client = calm_proxied();
  Latch waiter = make(client, 1);
  for (const RequestType type : {RequestType::get_data, RequestType::exists}) {
    for (const bool request : {true, false}) {
      auto fault = lose(request, type);
      auto waiting = in_thread([&] { waiter.wait(patient()); });
      ASSERT_TRUE(fault.wait(patience));
      make(the_operator(), 1).count_down(1, patient());
      result_of(waiting);
      the_operator().remove(node);
    }
  }
}

TEST_F(LatchFaults, SessionLostWhileWaiting) {
  Client client = calm_proxied();
  Latch waiter = make(client, 2);
  Latch counter = make(the_operator(), 2);
  auto waiting = in_thread([&] { waiter.wait(patient()); });
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(watches(client, node));
    expire(client);
    counter.count_down(1, patient());
  }
  result_of(waiting);
}

TEST_F(LatchFaults, DeadlineOrStopWhileWaiting) {
  Client client = calm_proxied();
  Latch latch = make(client, 3);
  EXPECT_EQ(error_of([&] { latch.wait({.deadline = 20ms}); }), Errc::deadline_exceeded);
  latch.count_down(1, patient());
  std::error_code why;
  EXPECT_FALSE(latch.wait_for(20ms, why));
  EXPECT_EQ(why, Errc::not_available);
  std::stop_source stop;
  std::string text;
  Client other = calm_proxied();  // Of the first one the server may have a watch still.
  Latch waiter = make(other, 3);
  auto waiting = in_thread([&] {
    try {
      waiter.wait({.stop = stop.get_token()});
    } catch (const Error& error) {
      text = error.what();
      return error.errc();
    }
    return Errc::server_error;
  });
  ASSERT_TRUE(watches(other, node));
  other.sync("/", patient());  // What has armed it was answered.
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_NE(text.find("2 of 3 are left"), std::string::npos) << text;
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_FALSE(latch.wait_for(20ms, why));
  EXPECT_EQ(why, Errc::deadline_exceeded) << "there was no server";
}

TEST_F(LatchFaults, VersionIsMinusOne) {
  const Client client = calm_direct();
  Latch latch = make(client);
  latch.count_down(1, patient());
  forge_version(server, node, "generation=1 count=100 left=50", -3);
  for (std::int64_t expected = 49; expected > 46; --expected)
    EXPECT_EQ(latch.count_down(1, patient()), expected) << "-1 is skipped";
  EXPECT_EQ(version(), 1) << "-2, 0, 1";
  forge_version(server, node, "generation=1 count=100 left=50", -1);
  EXPECT_EQ(error_of([&] { latch.count_down(1, patient()); }), Errc::bad_version);
  EXPECT_EQ(left(), "50");
}

TEST_F(LatchFaults, ClientClosed) {
  Client client = calm_proxied();
  Latch latch = make(client);
  latch.count_down(1, patient());
  auto waiting = in_thread([&] { latch.wait(); });
  ASSERT_TRUE(watches(client, node));
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto counting = in_thread([&] { latch.count_down(1, patient()); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  auto closing = in_thread([client]() mutable { client.close(); });
  EXPECT_EQ(failure_of(counting), Errc::in_doubt);
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  held.release();
  result_of(closing);
  EXPECT_EQ(error_of([&] { latch.count_down(1); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)latch.left(); }), Errc::closed);
  EXPECT_EQ(left(), "98");
}

// The object may go while its calls are on their way: they end as if it were there.
TEST_F(LatchFaults, TheObjectGoesDuringACall) {
  Client client = calm_proxied();
  Box<Result<std::int64_t>> counted;
  Box<Result<void>> waited;
  auto held = proxy.hold_next_reply(RequestType::multi);
  {
    Latch latch = make(client, 1);
    latch.async_wait([&](Result<void> result) { waited.put(std::move(result)); }, patient());
    latch.async_count_down(
        1, [&](Result<std::int64_t> result) { counted.put(std::move(result)); }, patient());
    ASSERT_TRUE(held.wait(patience));
  }
  held.release();
  EXPECT_EQ(counted.take().value(), 0);
  EXPECT_TRUE(waited.take());
}

}  // namespace
}  // namespace zkrecipes
