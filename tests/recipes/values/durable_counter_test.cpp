// The rows of the table "What goes wrong" in <zkrecipes/counter.hpp> that are about CounterOptions::durable.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/counter.hpp>

#include "tests/support/given_up.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class DurableCounter : public testkit::RecipeFaultTest {
 protected:
  DurableCounter() : RecipeFaultTest("/counters") {}
  static CounterOptions durable() { return {.encoding = CounterEncoding::kazoo, .durable = true}; }
  static Counter make(const Client& client) { return Counter(client, node, durable()); }
  std::string data() {
    std::error_code error;
    const std::string data = the_operator().get(node, {}, error).data;
    return error ? "(not there)" : data;
  }
  std::vector<std::string> markers() { return names(markers_path); }
  /// Ends the session of `client` while its connection is cut, and lets it come back.
  void lose_session(const zkclient::Session& session) {
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
  }
  /// `write` meets the end of its session when it was applied; `meanwhile` comes after that.
  template <typename Write>
  auto lose_after(
      const Client& client, Write write, const std::function<void()>& meanwhile = [] {}) {
    const zkclient::Session session = client.connect(patient());
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto writing = in_thread(write);
    EXPECT_TRUE(held.wait(patience));
    meanwhile();
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    held.release();
    proxy.refuse(false);
    return result_of(writing);
  }
  /// The same before it could be applied.
  template <typename Write>
  auto lose_before(
      const Client& client, Write write, const std::function<void()>& meanwhile = [] {}) {
    const zkclient::Session session = client.connect(patient());
    proxy.refuse(true);  // What was dropped cannot be sent again.
    auto dropped = proxy.drop_next_request(RequestType::multi);
    auto writing = in_thread(write);
    EXPECT_TRUE(dropped.wait(patience));
    meanwhile();
    lose_session(session);
    return result_of(writing);
  }

  static inline const zkclient::Path node = "/counters/hits";
  static inline const zkclient::Path markers_path = "/counters/_c_markers";
};

/// All changes, as if the number were that of the one before.
struct Change {
  std::function<void(Counter&, const CallOptions&)> run;
  std::int64_t after;
};
const std::vector<Change> all_changes = {
    {[](Counter& counter, const CallOptions& call) {
       EXPECT_EQ(counter.add(1, call), (CounterChange{0, 1}));
     },
     1},
    {[](Counter& counter, const CallOptions& call) { counter.set(5, call); }, 5},
    {[](Counter& counter, const CallOptions& call) { EXPECT_TRUE(counter.compare_set(5, 7, call)); }, 7},
    {[](Counter& counter, const CallOptions& call) {
       const auto next = [](std::int64_t number) { return number + 1; };
       EXPECT_EQ(counter.update(next, call), (CounterChange{7, 8}));
     },
     8},
};

TEST_F(DurableCounter, SessionLostAfterItWasApplied) {
  Client client = calm_proxied();
  Counter counter = make(client);
  for (const Change& change : all_changes) {
    counter.add(0, patient());
    lose_after(client, [&] { change.run(counter, patient()); });
    EXPECT_EQ(data(), std::to_string(change.after));
  }
  EXPECT_EQ(markers().size(), 1U) << "one for all sessions";
  // Others have changed the number before it is found out.
  Counter other(the_operator(), node, {.encoding = CounterEncoding::kazoo});
  const auto add = [&] { return counter.add(1, patient()); };
  EXPECT_EQ(lose_after(client, add, [&] { other.add(100, patient()); }), (CounterChange{8, 9}));
  EXPECT_EQ(data(), "109");
}

TEST_F(DurableCounter, SessionLostBeforeItArrived) {
  Client client = calm_proxied();
  Counter counter = make(client);
  for (const Change& change : all_changes) {
    counter.add(0, patient());
    lose_before(client, [&] { change.run(counter, patient()); });
    EXPECT_EQ(data(), std::to_string(change.after));
  }
  Counter other(the_operator(), node, {.encoding = CounterEncoding::kazoo});
  const auto add = [&] { return counter.add(1, patient()); };
  EXPECT_EQ(lose_before(client, add, [&] { other.add(100, patient()); }), (CounterChange{108, 109}));
  EXPECT_EQ(data(), "109");
}

// The one that makes the node; and the one that changes nothing.
TEST_F(DurableCounter, SessionLostDuringTheFirstAndDuringNoChange) {
  Client client = calm_proxied();
  for (const bool applied : {true, false}) {
    Counter counter = make(client);
    const auto add = [&] { return counter.add(1, patient()); };
    EXPECT_EQ(applied ? lose_after(client, add) : lose_before(client, add), (CounterChange{0, 1}));
    EXPECT_EQ(data(), "1");
    const auto look = [&] { return counter.add(0, patient()); };
    EXPECT_EQ(applied ? lose_after(client, look) : lose_before(client, look), (CounterChange{1, 1}));
    the_operator().remove(node);
  }
}

// The client has lost its session, the servers have not ended it: nothing of it may be applied any more.
TEST_F(DurableCounter, TheFormerSessionLivesOn) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  std::int64_t number = 1;
  for (const bool applied : {true, false}) {
    for (bool at_once = false; !at_once;) {  // Again, if it came back with its session meanwhile.
      const std::vector<std::string> slots = names("/counters/_c_writes");
      ASSERT_EQ(slots.size(), 1U);
      auto lost = applied ? proxy.drop_next_reply(RequestType::multi) : proxy.drop_next_request(RequestType::multi);
      proxy.refuse(true);  // From the cut on.
      auto adding = in_thread([&] { return counter.add(1, patient()); });
      ASSERT_TRUE(lost.wait(patience));
      at_once = testkit::lose_session(client, proxy) == 1;
      EXPECT_EQ(result_of(adding), (CounterChange{number, number + 1}));
      EXPECT_EQ(data(), std::to_string(++number));
      EXPECT_TRUE(!at_once || !the_operator().exists(zkclient::Path("/counters/_c_writes") / slots.front()));
      EXPECT_EQ(counter.add(1, patient()), (CounterChange{number, number + 1}));
      ++number;
    }
  }
}

// Every reply of the search for the answer may be lost, too.
TEST_F(DurableCounter, RepliesLostWhileItIsFoundOut) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  std::int64_t number = 1;
  for (const RequestType type : {RequestType::remove, RequestType::sync, RequestType::exists}) {
    for (const bool applied : {true, false}) {
      auto fault = proxy.drop_next_reply(type);
      const auto add = [&] { return counter.add(1, patient()); };
      EXPECT_EQ(applied ? lose_after(client, add) : lose_before(client, add), (CounterChange{number, number + 1}));
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data(), std::to_string(++number));
    }
  }
}

TEST_F(DurableCounter, EveryAddOnceWhileSessionsAreLost) {
  std::mt19937 random(815);
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(0, patient());
  std::vector<std::int64_t> before;
  for (int round = 0; round < 12; ++round) {
    const auto three_adds = [&] {
      std::vector<std::future<CounterChange>> adding;
      for (int i = 0; i < 3; ++i)
        adding.push_back(in_thread([&] { return counter.add(1, patient()); }));
      for (auto& one : adding)
        before.push_back(result_of(one).before);
    };
    random() % 2 == 0 ? lose_after(client, three_adds) : lose_before(client, three_adds);
  }
  EXPECT_EQ(data(), "36");
  std::sort(before.begin(), before.end());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(before[i], static_cast<std::int64_t>(i));
}

TEST_F(DurableCounter, StoppedBeforeItIsFoundOut) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  const zkclient::Session session = client.connect(patient());
  std::stop_source stop;
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto adding =
      in_thread([&] { return error_of([&] { counter.add(1, {.deadline = soon(), .stop = stop.get_token()}); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  held.release();
  stop.request_stop();
  EXPECT_EQ(result_of(adding), Errc::in_doubt);
  proxy.refuse(false);
  // The first one was applied, which is no sign that the next one was.
  EXPECT_EQ(lose_before(client, [&] { return counter.add(1, patient()); }), (CounterChange{2, 3}));
  EXPECT_EQ(data(), "3");
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{3, 4}));
  EXPECT_TRUE(eventually([&] { return markers().size() == 1; })) << "the former marker goes";
}

TEST_F(DurableCounter, MarkerDeletedByHand) {
  Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  const auto delete_markers = [&] {
    for (const std::string& marker : markers())
      the_operator().remove(markers_path / marker);
  };
  delete_markers();
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{1, 2}));
  ASSERT_EQ(markers().size(), 1U);
  the_operator().set(markers_path / markers().front(), "by hand");
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{2, 3}));
  const auto failed_add = [&] { return error_of([&] { counter.add(1, patient()); }); };
  EXPECT_EQ(lose_after(client, failed_add, delete_markers), Errc::in_doubt);
  EXPECT_EQ(data(), "4");
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{4, 5}));
}

TEST_F(DurableCounter, MarkersOfWritersThatAreGone) {
  Client dying = calm_proxied();
  Counter orphan = make(dying);
  orphan.add(1, patient());
  ASSERT_EQ(markers().size(), 1U);
  const std::string left = markers().front();
  dying.close();
  const Client client = calm_proxied();
  const auto is_left = [&] {
    const std::vector<std::string> all = markers();
    return std::find(all.begin(), all.end(), left) != all.end();
  };
  {
    Counter young = make(client);
    young.add(1, patient());
    CounterOptions impatient = durable();
    impatient.max_marker_age = 1ms;
    // Its sweep goes on behind the first change.
    EXPECT_TRUE(eventually([&] {
      Counter next(client, node, impatient);
      next.add(1, patient());
      return !is_left();
    }));
    EXPECT_EQ(young.add(0, patient()).after, young.get(patient())) << "what it lost it makes again";
    young.add(1, patient());
    EXPECT_FALSE(markers().empty());
  }
  EXPECT_TRUE(eventually([&] { return markers().empty(); })) << "who goes takes it away";
}

TEST_F(DurableCounter, AYoungMarkerIsLeftAlone) {
  Client dying = calm_proxied();
  Counter orphan = make(dying);
  orphan.add(1, patient());
  const std::vector<std::string> left = markers();
  ASSERT_EQ(left.size(), 1U);
  dying.close();
  const Client client = calm_proxied();
  for (const auto age : {durable().max_marker_age, std::chrono::milliseconds::max()}) {
    const std::size_t before = proxy.request_count(RequestType::exists);
    {
      CounterOptions aged = durable();
      aged.max_marker_age = age;
      Counter next(client, node, aged);
      next.add(1, patient());
      EXPECT_TRUE(proxy.wait_for_requests(RequestType::exists, before + 2, patience)) << "the sweep looks at both";
    }
    EXPECT_TRUE(eventually([&] { return markers() == left; }));
  }
  EXPECT_EQ(error_of([&] { Counter(client, node, {.max_marker_age = 0ms}); }), Errc::invalid_argument);
}

// And those that are durable and those that are not count together.
TEST_F(DurableCounter, OneTransactionForEachChange) {
  const Client client = calm_proxied();
  Counter counter = make(client);
  counter.add(1, patient());
  EXPECT_EQ(counter.get(patient()), 1) << "so the read behind it was answered";
  const std::size_t before = proxy.request_count(RequestType::multi);
  for (int i = 1; i <= 5; ++i)
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{i, i + 1}));
  EXPECT_EQ(proxy.request_count(RequestType::multi), before + 5);
  Counter plain(the_operator(), node, {.encoding = CounterEncoding::kazoo});
  EXPECT_EQ(plain.add(1, patient()), (CounterChange{6, 7}));
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{7, 8}));
}

}  // namespace
}  // namespace zkrecipes
