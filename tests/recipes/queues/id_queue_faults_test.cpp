// One test for each row of the table "What goes wrong" in <zkrecipes/id_queue.hpp> that needs a fault; the others are in
// id_queue_test.cpp.

#include <gtest/gtest.h>

#include <zkclient/error.hpp>
#include <zkrecipes/id_queue.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class IdQueueFaults : public testkit::RecipeFaultTest {
 protected:
  IdQueueFaults() : RecipeFaultTest("/queue") {}
  std::size_t items() { return names("/queue").size(); }
  /// The error of a removal of "x".
  static std::optional<Error> failure(IdQueue& queue, const CallOptions& call) {
    try {
      (void)queue.remove("x", call);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
};

// The first transaction of a call belongs to its list, the second one removes an item.
TEST_F(IdQueueFaults, RemoveLost) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  for (const RequestType type : {RequestType::get_children2, RequestType::exists, RequestType::multi}) {
    for (const bool request : {true, false}) {
      queue.push_all({"1", "2"}, "x", patient());
      queue.push("3", "y", patient());
      auto fault = lose(request, type);
      EXPECT_EQ(queue.remove("x", patient()), 2U);
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(items(), 1U);
      EXPECT_EQ(queue.pop(patient()), "3");
    }
  }
}

TEST_F(IdQueueFaults, RemovalOfAnItemLost) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  for (const bool request : {true, false}) {
    queue.push_all({"1", "2"}, "x", patient());
    auto look = proxy.hold_next_reply(RequestType::exists);
    auto removal = in_thread([&] { return queue.remove("x", patient()); });
    ASSERT_TRUE(look.wait(patience));
    auto fault = lose(request, RequestType::multi);
    look.release();
    EXPECT_EQ(result_of(removal), 2U);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(items(), 0U);
  }
}

// A leader may have acknowledged a push that it has not applied yet, and answers a sync before that. Behind a transaction
// the list has the item.
TEST_F(IdQueueFaults, RemovalListsBehindATransaction) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  IdQueue(the_operator(), "/queue").push("1", "y", patient());
  EXPECT_EQ(queue.remove("x", patient()), 0U);
  EXPECT_EQ(proxy.request_count(RequestType::multi), 1U);
  EXPECT_EQ(proxy.request_count(RequestType::sync), 0U);
}

// Between the look at the item and the removal.
TEST_F(IdQueueFaults, ItemIsTakenByAConsumerMeanwhile) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  IdQueue consumer(the_operator(), "/queue");
  consumer.push_all({"popped", "claimed", "removed"}, "x", patient());
  auto held = proxy.hold_next_reply(RequestType::exists);
  auto removal = in_thread([&] { return queue.remove("x", patient()); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(consumer.pop(patient()), "popped");
  Claim claim = consumer.claim(patient());
  held.release();
  EXPECT_EQ(result_of(removal), 1U);
  claim.commit(patient());
  EXPECT_EQ(items(), 0U);
}

TEST_F(IdQueueFaults, ItemIsClaimedBeforeTheRemovalArrives) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  IdQueue consumer(the_operator(), "/queue");
  consumer.push("claimed", "x", patient());
  auto held = proxy.hold_next_reply(RequestType::exists);
  auto removal = in_thread([&] { return queue.remove("x", patient()); });
  ASSERT_TRUE(held.wait(patience));
  Claim claim = consumer.claim(patient());
  held.release();
  EXPECT_EQ(result_of(removal), 0U);
  claim.commit(patient());
}

TEST_F(IdQueueFaults, SessionLostWhileRemoveWaits) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  queue.push_all({"1", "2"}, "x", patient());
  const std::string first = queue.list().front().node;
  auto look = proxy.hold_next_reply(RequestType::exists);
  auto waiting = in_thread([&] { return failure(queue, patient()); });
  ASSERT_TRUE(look.wait(patience));
  auto held = proxy.hold_next_reply(RequestType::multi);
  look.release();
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  const std::optional<Error> error = result_of(waiting);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->errc(), Errc::in_doubt);
  EXPECT_EQ(error->node(), "/queue/" + first);
  EXPECT_NE(error->detail().find("0 items were removed"), std::string::npos) << error->what();
  EXPECT_EQ(items(), 1U) << "it was";
  EXPECT_EQ(queue.remove("x", patient()), 1U);
}

// No removal was sent: it goes on in the next session.
TEST_F(IdQueueFaults, SessionLostBeforeTheRemoval) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  queue.push_all({"1", "2"}, "x", patient());
  auto held = proxy.hold_next_reply(RequestType::exists);
  auto waiting = in_thread([&] { return queue.remove("x", patient()); });
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(waiting), 2U);
}

TEST_F(IdQueueFaults, DeadlineOrStopRequestDuringRemove) {
  Client client = calm_proxied();
  IdQueue queue(client, "/queue");
  for (const bool sent : {false, true}) {
    queue.push("1", "x", patient());
    auto held = proxy.hold_next_reply(RequestType::exists);
    std::stop_source stop;
    auto waiting = in_thread([&] { return failure(queue, {.deadline = soon(), .stop = stop.get_token()}); });
    ASSERT_TRUE(held.wait(patience));
    if (sent) {
      auto removal = proxy.hold_next_reply(RequestType::multi);
      held.release();
      held = std::move(removal);
      ASSERT_TRUE(held.wait(patience));
    }
    stop.request_stop();
    const std::optional<Error> error = result_of(waiting);
    held.release();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->errc(), sent ? Errc::in_doubt : Errc::cancelled);
    EXPECT_EQ(items(), sent ? 0U : 1U);
    EXPECT_EQ(queue.remove("x", patient()), sent ? 0U : 1U);
  }
  EXPECT_EQ(error_of([&] { (void)queue.remove("x", {.deadline = SteadyClock::now() - 1s}); }), Errc::deadline_exceeded);
}

TEST_F(IdQueueFaults, ClientClosedWhileRemoveWaits) {
  std::optional<Client> client = calm_proxied();
  IdQueue(*client, "/queue").push("1", "x", patient());
  Box<Result<std::size_t>> done;
  auto look = proxy.hold_next_reply(RequestType::exists);
  IdQueue(*client, "/queue")
      .async_remove(
          "x", [&](Result<std::size_t> result) { done.put(std::move(result)); }, patient());
  ASSERT_TRUE(look.wait(patience));
  auto held = proxy.hold_next_reply(RequestType::multi);
  look.release();
  ASSERT_TRUE(held.wait(patience));
  client->close();
  EXPECT_EQ(done.take().code(), Errc::in_doubt);
  held.release();
}

}  // namespace
}  // namespace zkrecipes
