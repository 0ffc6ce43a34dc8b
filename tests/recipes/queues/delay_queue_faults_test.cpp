// One test for each row of the table "What goes wrong" in <zkrecipes/delay_queue.hpp> that needs a fault, or somebody who
// waits; the others are in delay_queue_test.cpp.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include <zkrecipes/delay_queue.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class DelayQueueFaults : public testkit::RecipeFaultTest {
 protected:
  DelayQueueFaults() : RecipeFaultTest("/queue") {}
  static std::chrono::system_clock::time_point from_now(std::chrono::milliseconds time) {
    return std::chrono::system_clock::now() + time;
  }
  /// A consumer has read the list, and waits.
  void await_consumer(const Client& consumer) { ASSERT_TRUE(watches(consumer, "/queue")); }
};

TEST_F(DelayQueueFaults, AnEarlierItemComesWhileWaiting) {
  Client client = calm_proxied();
  DelayQueue queue(client, "/queue");
  DelayQueue producer(the_operator(), "/queue");
  producer.push("in an hour", from_now(1h), patient());
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  await_consumer(client);
  const auto due = from_now(200ms);
  producer.push("soon", due, patient());
  EXPECT_EQ(result_of(waiting), "soon");
  EXPECT_GE(std::chrono::system_clock::now(), due);
  EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
}

TEST_F(DelayQueueFaults, ItemIsRemovedWhileWaitingForIt) {
  Client client = calm_proxied();
  DelayQueue queue(client, "/queue");
  DelayQueue producer(the_operator(), "/queue");
  producer.push("in an hour", from_now(1h), patient());
  producer.push("in two hours", from_now(2h), patient());
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  await_consumer(client);
  the_operator().remove(Path("/queue") / producer.list().front().node);
  producer.push("soon", from_now(100ms), patient());
  EXPECT_EQ(result_of(waiting), "soon");
  EXPECT_EQ(producer.size(patient()), 1U);
}

// Between a list and the time of an item, the consumer sends nothing.
TEST_F(DelayQueueFaults, WhoWaitsForATimeDoesNotPoll) {
  Client client = calm_proxied();
  DelayQueue queue(client, "/queue");
  DelayQueue(the_operator(), "/queue").push("later", from_now(1h), patient());
  EXPECT_EQ(queue.try_pop_for(300ms), std::nullopt);
  const std::size_t lists = proxy.request_count(RequestType::get_children2);
  EXPECT_EQ(queue.try_pop_for(300ms), std::nullopt);
  EXPECT_LE(proxy.request_count(RequestType::get_children2), lists + 2) << "one look for the call: items and claims";
  EXPECT_EQ(proxy.request_count(RequestType::multi), 0U);
}

TEST_F(DelayQueueFaults, ConnectionBreaksBeforeItIsDue) {
  Client client = calm_proxied();
  DelayQueue queue(client, "/queue");
  DelayQueue producer(the_operator(), "/queue");
  producer.push("an hour", from_now(1h), patient());
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  await_consumer(client);
  refuse_and_cut();
  producer.push("pushed meanwhile", from_now(100ms), patient());
  proxy.refuse(false);
  EXPECT_EQ(result_of(waiting), "pushed meanwhile");
}

TEST_F(DelayQueueFaults, SessionLostBeforeItIsDue) {
  Client client = calm_direct();
  DelayQueue queue(client, "/queue");
  DelayQueue producer(the_operator(), "/queue");
  producer.push("an hour", from_now(1h), patient());
  auto waiting = in_thread([&] { return queue.claim(patient()).data(); });
  await_consumer(client);
  expire(client);
  producer.push("soon", from_now(100ms), patient());
  EXPECT_EQ(result_of(waiting), "soon");
}

TEST_F(DelayQueueFaults, LostRepliesNeitherLoseNorDoubleAnItem) {
  Client client = calm_proxied();
  DelayQueue queue(client, "/queue");
  queue.push("0", from_now(-1h), patient());
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    queue.push_all({"1", "2"}, from_now(-1min), patient());
    EXPECT_TRUE(fault.wait(patience));
    fault = lose(request);
    EXPECT_EQ(queue.pop(patient()), request ? "0" : "2");
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(queue.pop(patient()), "1");
  }
  EXPECT_EQ(queue.pop(patient()), "2");
  EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
}

// Its caller has gone before the answer.
TEST_F(DelayQueueFaults, WhatIsPutBackKeepsItsTime) {
  Client client = calm_proxied();
  DelayQueue queue(client, "/queue");
  DelayQueue other(the_operator(), "/queue");
  queue.push("later", from_now(-1min), patient());
  queue.push("sooner", from_now(-1h), patient());
  const auto before = names();
  auto held = proxy.hold_next_reply(RequestType::multi);
  std::stop_source stop;
  auto waiting =
      in_thread([&] { return error_of([&] { (void)queue.pop({.deadline = soon(), .stop = stop.get_token()}); }); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(names().size(), 1U) << "it is taken";
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  held.release();
  ASSERT_TRUE(eventually([&] { return names().size() == 2; }));
  const auto after = names();
  EXPECT_EQ(std::set<std::string>(after.begin(), after.end()), std::set<std::string>(before.begin(), before.end()));
  EXPECT_EQ(other.pop(patient()), "sooner");
}

}  // namespace
}  // namespace zkrecipes
