// One test for each row of the table "What goes wrong" in <zkrecipes/queue.hpp> that needs a fault; the others are in
// queue_test.cpp. And random operations with requests and replies lost at random, of which every item must come out once.
//
// ZKRECIPES_SEED=number repeats a run of the latter, ZKRECIPES_SOAK=seconds makes it long.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>

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
using zkclient::Errc;
using zkclient::Error;
using zktesting::Direction;
using zktesting::RequestType;

class QueueFaults : public testkit::RecipeFaultTest {
 protected:
  QueueFaults() : RecipeFaultTest("/queue") {}
  static CallOptions patient() { return {.deadline = soon()}; }
  zktesting::Fault lose(bool request, RequestType type = RequestType::multi) {
    return request ? proxy.drop_next_request(type) : proxy.drop_next_reply(type);
  }
  std::size_t items() { return names("/queue/items").size(); }
  bool claims(std::size_t count) {
    return eventually([&] { return names("/queue/claims").size() == count; });
  }
};

TEST_F(QueueFaults, PushLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("0", patient());
  int pushed = 1;
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    queue.push(std::to_string(pushed++), patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(items(), static_cast<std::size_t>(pushed));
    fault = lose(request);
    queue.push_all({std::to_string(pushed), std::to_string(pushed + 1)}, patient());
    pushed += 2;
    EXPECT_TRUE(fault.wait(patience));
  }
  for (int i = 0; i < pushed; ++i)
    EXPECT_EQ(queue.pop(patient()), std::to_string(i));
  EXPECT_EQ(items(), 0u);
}

TEST_F(QueueFaults, FirstPushLost) {
  for (const bool request : {true, false}) {
    Client client = calm_proxied();
    Queue queue(client, "/queue");
    auto slot = lose(request, RequestType::create2);
    queue.push("x", patient());
    EXPECT_TRUE(slot.wait(patience));
    EXPECT_EQ(queue.pop(patient()), "x");
    EXPECT_EQ(items(), 0u);
  }
}

// D4, D5
TEST_F(QueueFaults, PopLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue rival(the_operator(), "/queue");
  queue.push_all({"a", "b", "c", "d", "e"}, patient());
  EXPECT_EQ(queue.pop(patient()), "a");
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    EXPECT_EQ(queue.pop(patient()), request ? "b" : "c");
    EXPECT_TRUE(fault.wait(patience));
  }
  EXPECT_EQ(rival.pop(patient()), "d");
  EXPECT_EQ(queue.pop(patient()), "e");
  EXPECT_FALSE(rival.try_pop());
}

TEST_F(QueueFaults, ListOrReadLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  for (const RequestType type : {RequestType::get_children2, RequestType::get_data}) {
    for (const bool request : {true, false}) {
      other.push("x", patient());
      auto fault = lose(request, type);
      EXPECT_EQ(queue.pop(patient()), "x");
      EXPECT_TRUE(fault.wait(patience));
    }
  }
}

TEST_F(QueueFaults, ClaimLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b"}, patient());
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    Claim claim = queue.claim(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(claim.data(), request ? "a" : "b");
    EXPECT_EQ(claim.deliveries(), 1);
    EXPECT_TRUE(claim.valid());
    EXPECT_TRUE(claims(1));
    claim.commit(patient());
  }
  EXPECT_EQ(items(), 0u);
  EXPECT_TRUE(claims(0));
}

// K7 besides: a commit that did not happen is never reported as one that did.
TEST_F(QueueFaults, CommitOrGiveBackLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b", "c"}, patient());
  for (const bool request : {true, false}) {
    Claim claim = queue.claim(patient());
    auto fault = lose(request);
    claim.give_back(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(claims(0));
    claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), request ? "a" : "b");
    EXPECT_EQ(claim.deliveries(), 2);
    fault = lose(request);
    claim.commit(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(items(), request ? 2u : 1u);
    EXPECT_TRUE(claims(0));
  }
  EXPECT_EQ(queue.pop(patient()), "c");
}

TEST_F(QueueFaults, ConnectionBreaksWhileWaiting) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  ASSERT_TRUE(eventually([&] { return server.watch_count() > 0; }));
  proxy.refuse(true);
  proxy.cut();
  other.push("pushed meanwhile", patient());
  proxy.refuse(false);
  EXPECT_EQ(result_of(waiting), "pushed meanwhile");
}

// K5, for queues: it goes on with the next session.
TEST_F(QueueFaults, SessionLostWhileWaiting) {
  Client client = calm_direct();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  ASSERT_TRUE(eventually([&] { return server.watch_count() > 0; }));
  expire(client);
  other.push("x", patient());
  EXPECT_EQ(result_of(waiting), "x");
  other.push("y", patient());
  EXPECT_EQ(queue.claim(patient()).data(), "y");
}

TEST_F(QueueFaults, SessionLostWhilePopWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b"}, patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { (void)queue.pop(patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  EXPECT_EQ(queue.pop(patient()), "b") << "a was taken, and its taker knows that it does not know";
}

TEST_F(QueueFaults, SessionLostWhilePushWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { queue.push("b", patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  queue.push("c", patient());
  EXPECT_EQ(items(), 3u);
}

TEST_F(QueueFaults, SessionLostWhileClaimed) {
  Client client = calm_direct();
  Queue queue(client, "/queue", {.prefetch = 2});
  Queue other(the_operator(), "/queue");
  queue.push_all({"a", "b", "c", "d", "e", "f"}, patient());
  Claim claim = queue.claim(patient());
  ASSERT_TRUE(claims(3));
  auto taken = in_thread([&] {
    for (;;) {
      Claim next = other.claim(patient());
      if (next.data() == "a") return next;
    }
  });
  expire(client);
  Claim theirs = result_of(taken);
  EXPECT_TRUE(stopped(claim.lost()));
  EXPECT_FALSE(claim.valid());
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  EXPECT_TRUE(theirs.valid());
  theirs.commit(patient());
  EXPECT_EQ(queue.claim(patient()).data(), "b") << "what was claimed ahead has come back too";
}

// D2, for claims: nobody else has it before the loss is known here.
TEST_F(QueueFaults, PartitionedPastExpiryWhileClaimed) {
  Client client(proxy.connect_string(), {.session_timeout = 2s});
  Queue queue(client, "/queue");
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  Queue other(the_operator(), "/queue");
  auto waiting = in_thread([&] {
    Claim next = other.claim(patient());
    EXPECT_FALSE(claim.valid());
    EXPECT_TRUE(claim.lost().stop_requested());
    next.commit(patient());
  });
  proxy.stall(Direction::both);
  result_of(waiting);
  proxy.unstall(Direction::both);
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  EXPECT_EQ(items(), 0u);
}

TEST_F(QueueFaults, DeadlineOrStopRequestWhilePopWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  queue.push_all({"a", "b", "c"}, patient());
  // The answer comes soon: the item is the caller's.
  auto held = proxy.hold_next_reply(RequestType::multi);
  std::stop_source stop;
  auto waiting = in_thread([&] { return queue.pop({.stop = stop.get_token()}); });
  ASSERT_TRUE(held.wait(patience));
  stop.request_stop();
  held.release();
  EXPECT_EQ(result_of(waiting), "a");
  // It does not: in doubt, and the item goes back to its place.
  held = proxy.hold_next_reply(RequestType::multi);
  auto doubtful = in_thread([&] { return error_of([&] { (void)queue.try_pop_for(1s); }); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(result_of(doubtful), Errc::in_doubt);
  EXPECT_EQ(items(), 1u);
  held.release();
  EXPECT_TRUE(eventually([&] { return items() == 2; }));
  EXPECT_EQ(other.pop(patient()), "b");
  EXPECT_EQ(other.pop(patient()), "c");
}

TEST_F(QueueFaults, DeadlineWhileClaimWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return queue.try_claim_for(1s).has_value(); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_FALSE(result_of(waiting));
  held.release();
  EXPECT_TRUE(claims(0)) << "it went back";
  EXPECT_EQ(queue.claim(patient()).data(), "a");
}

TEST_F(QueueFaults, ClientClosedWhilePopWaitsForTheAnswer) {
  Client client = calm_proxied();
  auto queue = std::make_unique<Queue>(client, "/queue");
  queue->push("a", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { (void)queue->pop(patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  proxy.cut();
  proxy.refuse(true);
  client.close();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  proxy.refuse(false);
}

// C4
TEST_F(QueueFaults, ServerRestarts) {
  Client client = calm_direct();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b", "c"}, patient());
  EXPECT_EQ(queue.pop(patient()), "a");
  auto claim = std::make_unique<Claim>(queue.claim(patient()));
  server.restart();
  EXPECT_EQ(queue.pop(patient()), "c");
  claim->commit(patient());
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  server.restart();
  queue.push("d", patient());
  EXPECT_EQ(result_of(waiting), "d");
}

TEST_F(QueueFaults, NothingIsLeft) {
  {
    Client client = calm_direct();
    Queue queue(client, "/queue", {.prefetch = 4});
    queue.push_all({"a", "b", "c", "d"}, patient());
    Claim claim = queue.claim(patient());
    claim.commit(patient());
    (void)queue.pop(patient());
    EXPECT_EQ(queue.claim(patient()).data().size(), 1u);
    while (queue.try_pop_for(100ms)) {
    }
    claim = {};
  }
  EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; })) << server.four_letter_word("dump");
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << server.four_letter_word("wchp");
}

// --- Random faults ------------------------------------------------------------------------------------------------

// Every item that was pushed is popped (or committed) exactly once, or is reported in doubt to exactly one caller.
TEST_F(QueueFaults, EveryItemOnceWhateverGetsLost) {
  const char* chosen = std::getenv("ZKRECIPES_SEED");
  const unsigned seed =
      chosen != nullptr ? static_cast<unsigned>(std::strtoul(chosen, nullptr, 10)) : std::random_device()();
  GTEST_LOG_(INFO) << "ZKRECIPES_SEED=" << seed;
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const auto end = SteadyClock::now() + (soak != nullptr ? std::chrono::seconds(std::atoi(soak)) : 3s);

  std::mutex mutex;
  std::set<std::string> pushed;
  std::set<std::string> doubtful_pushes;
  std::map<std::string, int> popped;
  int doubtful_pops = 0;
  std::atomic<bool> producing{true};
  const auto note_pop = [&](const std::string& item) {
    const std::lock_guard lock(mutex);
    ++popped[item];
  };
  const auto doubt = [&] {
    const std::lock_guard lock(mutex);
    ++doubtful_pops;
  };
  {
    std::vector<std::jthread> crew;
    for (int p = 0; p < 2; ++p) {
      crew.emplace_back([&, p] {
        Client own = calm_proxied();
        Queue queue(own, "/queue", {.capacity = p == 0 ? 40u : 0u});
        for (int i = 0; SteadyClock::now() < end; ++i) {
          const std::string item = std::to_string(p) + "-" + std::to_string(i);
          try {
            queue.push(item, {.deadline = SteadyClock::now() + 2s});
            const std::lock_guard lock(mutex);
            pushed.insert(item);
          } catch (const Error& error) {
            const std::lock_guard lock(mutex);
            if (error.errc() == Errc::in_doubt) {
              doubtful_pushes.insert(item);
            } else {
              EXPECT_EQ(error.errc(), Errc::deadline_exceeded) << error.what();
            }
          }
        }
      });
    }
    std::vector<std::jthread> consumers;
    for (int c = 0; c < 4; ++c) {
      consumers.emplace_back([&, c] {
        std::minstd_rand random(seed + static_cast<unsigned>(c));
        Client own = calm_proxied();
        Queue queue(own, "/queue", {.prefetch = c == 3 ? 4 : 0});
        for (;;) {
          const bool last = !producing;
          const auto time = std::chrono::milliseconds(last ? 1500 : random() % 60);
          try {
            if (c < 2) {
              const auto item = queue.try_pop_for(time);
              if (item) note_pop(*item);
              if (!item && last) break;
            } else {
              auto claim = queue.try_claim_for(time);
              if (!claim && last) break;
              if (!claim || random() % 4 == 0) continue;  // Dropped: given back.
              const std::string item = claim->data();
              claim->commit(patient());
              note_pop(item);
            }
          } catch (const Error& error) {
            EXPECT_EQ(error.errc(), Errc::in_doubt) << error.what();
            doubt();
          }
        }
      });
    }
    std::minstd_rand random(seed);
    constexpr RequestType types[] = {RequestType::multi,    RequestType::multi,         RequestType::multi,
                                     RequestType::get_data, RequestType::get_children2, RequestType::create2};
    int faults = 0;
    while (SteadyClock::now() < end) {
      const auto fault = lose(random() % 2 == 0, types[random() % std::size(types)]);
      (void)fault.wait(200ms);
      ++faults;
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    }
    crew.clear();
    // What was armed last may be waiting still.
    producing = false;
    consumers.clear();
    GTEST_LOG_(INFO) << faults << " faults, " << pushed.size() << " pushed, " << doubtful_pushes.size() << " in doubt; "
                     << popped.size() << " popped, " << doubtful_pops << " in doubt";
  }
  Queue queue(the_operator(), "/queue");
  ASSERT_TRUE(claims(0));
  while (const auto item = queue.try_pop(patient()))
    ++popped[*item];
  int missing = 0;
  for (const auto& [item, times] : popped) {
    EXPECT_EQ(times, 1) << item;
    EXPECT_TRUE(pushed.count(item) == 1 || doubtful_pushes.count(item) == 1) << item;
  }
  for (const std::string& item : pushed)
    missing += popped.count(item) == 0 ? 1 : 0;
  EXPECT_LE(missing, doubtful_pops);
  EXPECT_GT(popped.size(), 10u);
}

}  // namespace
}  // namespace zkrecipes
