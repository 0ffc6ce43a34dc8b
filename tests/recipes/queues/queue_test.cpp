#include <zkrecipes/queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include <zkclient/error.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class QueueTest : public testkit::RecipeTest {
 protected:
  QueueTest() : RecipeTest("/queue") {}

  static CallOptions within(std::chrono::milliseconds time) { return {.deadline = SteadyClock::now() + time}; }
  std::vector<std::string> items() { return names("/queue/items"); }
  bool claims(std::size_t count) { return remain(count, "/queue/claims"); }
  /// Claims, and waits until so many claims are there for those that are `held`. Those made ahead go back when nobody
  /// has asked for a second, which a busy machine may need to look; then claims one more.
  bool claims_ahead(Queue& queue, std::vector<Claim>& held, std::size_t (*count)(std::size_t held)) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      if (!claims(held.size())) return false;
      held.push_back(queue.claim(patient()));
      if (eventually([&] { return names("/queue/claims").size() == count(held.size()); }, 1s)) return true;
    }
    return false;
  }
};

TEST_F(QueueTest, FirstInFirstOut) {
  Queue queue(client(), "/queue");
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_FALSE(queue.try_pop());
  for (const char* item : {"one", "two", ""})
    queue.push(item, patient());
  const std::string binary("\0\xff\1", 3);
  queue.push(binary, patient());
  EXPECT_EQ(queue.size(), 4u);
  EXPECT_EQ(queue.pop(patient()), "one");
  EXPECT_EQ(queue.try_pop(), "two");
  EXPECT_EQ(queue.try_pop_for(testkit::patience), "");
  EXPECT_EQ(queue.try_pop_until(soon()), binary);
  EXPECT_FALSE(queue.try_pop_for(0ms));
  EXPECT_EQ(queue.size(), 0u);
}

TEST_F(QueueTest, AClaimThatNobodyTookIsGivenBack) {
  testkit::DroppingRuntime dropping;
  Client owner(dropping.runtime(), hosts(), {.prefix = prefix()});
  owner.connect(patient());
  Queue queue(owner, "/queue");
  Queue other(client(), "/queue");
  other.push("one", patient());
  for (const bool waits : {true, false}) {
    dropping.drop();
    if (waits) {
      queue.async_claim([](Result<Claim>) {}, patient());
    } else {
      queue.async_try_claim([](Result<std::optional<Claim>>) {}, patient());
    }
    ASSERT_TRUE(dropping.dropped_one());
    dropping.run();
    std::optional<Claim> claim = other.try_claim_for(testkit::patience);
    ASSERT_TRUE(claim) << "the queue's owner has kept it";
    claim->give_back(patient());
  }
  owner.close();
}

TEST_F(QueueTest, ManyInOrder) {
  Queue queue(client(), "/queue");
  constexpr int count = 600;  // More than one look at the list.
  for (int i = 0; i < count; i += 100) {
    std::vector<std::string> batch;
    for (int k = i; k < i + 100; ++k)
      batch.push_back(std::to_string(k));
    queue.push_all(batch, patient());
  }
  EXPECT_EQ(queue.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(queue.pop(patient()), std::to_string(i));
  EXPECT_FALSE(queue.try_pop());
}

TEST_F(QueueTest, WaitsForAnItem) {
  Queue queue(client(), "/queue");
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  Client other = make_client();
  Queue producer(other, "/queue");
  producer.push("late", patient());
  EXPECT_EQ(result_of(waiting), "late");
}

TEST_F(QueueTest, DeadlineOrStopRequestWhileWaiting) {
  Queue queue(client(), "/queue");
  EXPECT_EQ(error_of([&] { (void)queue.pop(within(50ms)); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { (void)queue.claim(within(50ms)); }), Errc::deadline_exceeded);
  EXPECT_FALSE(queue.try_pop_for(50ms));
  EXPECT_FALSE(queue.try_claim_for(50ms));
  std::stop_source stop;
  auto stopped = in_thread([&] { return error_of([&] { (void)queue.pop({.stop = stop.get_token()}); }); });
  auto claiming = in_thread([&] { return error_of([&] { (void)queue.claim({.stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(result_of(stopped), Errc::cancelled);
  EXPECT_EQ(result_of(claiming), Errc::cancelled);
  Client other = make_client();
  Queue(other, "/queue").push("more", patient());
  EXPECT_EQ(queue.try_pop_for(testkit::patience), "more") << "those who gave up took nothing";
}

TEST_F(QueueTest, TwoWatchesHoweverManyWait) {
  NEEDS_CONTROL();
  Queue queue(client(), "/queue");
  EXPECT_FALSE(queue.try_pop(patient()));
  ASSERT_TRUE(eventually([&] { return server().watch_count() <= 2; }));
  Box<std::pair<int, std::string>> popped;
  for (int i = 0; i < 20; ++i)
    queue.async_pop([&popped, i](Result<std::string> item) { popped.put({i, item.value()}); }, patient());
  EXPECT_FALSE(queue.try_pop_for(20ms));
  EXPECT_TRUE(eventually([] { return server().watch_count() == 2; }))
      << "on the items and on their folder; there are no claims";
  Client other = make_client();
  Queue producer(other, "/queue");
  for (int i = 0; i < 20; ++i)
    producer.async_push(
        std::to_string(i), [](Result<void> done) { done.value(); }, patient());
  for (int i = 0; i < 20; ++i) {
    const auto [call, item] = popped.take();
    EXPECT_EQ(item, std::to_string(call)) << "who asked first gets the first one, if not always first";
  }
}

TEST_F(QueueTest, PushesOfOneCallerKeepTheirOrder) {
  Queue queue(client(), "/queue");
  constexpr int count = 300;
  std::atomic<int> done{0};
  queue.push("first", patient());
  EXPECT_EQ(queue.pop(patient()), "first");
  for (int i = 0; i < count; ++i)
    queue.async_push(
        std::to_string(i), [&](Result<void> pushed) { done += pushed ? 1 : 0; }, patient());
  ASSERT_TRUE(eventually([&] { return done == count; }));
  const std::vector<QueueItem> all = queue.list();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(i)].data, std::to_string(i));
}

// Each of them counts the transactions of one writer.
int transactions(zkclient::Client client) {
  int sum = 0;
  for (const std::string& slot : client.children("/queue/slots").names)
    sum += client.get("/queue/slots/" + slot).stat.version;
  return sum;
}

TEST_F(QueueTest, CallsAtATimeShareTransactions) {
  zktesting::Proxy proxy(hosts());
  const Client own(proxy.connect_string(), {.prefix = prefix()});
  Queue queue(own, "/queue");
  constexpr int count = 64;
  Box<std::string> done;
  // All the calls have come before the first one has its answer, however slowly this thread makes them.
  const auto release_when_all_have_come = [&](zktesting::HeldReply& held) {
    Box<Result<void>> come;
    queue.async_push_all({}, [&](Result<void> result) { come.put(std::move(result)); });
    come.take().value();
    held.release();
  };
  queue.push("first", patient());
  queue.claim(patient()).commit(patient());  // The folders are there: no transaction is refused, and then split.
  const int before = transactions(client());
  auto held = proxy.hold_next_reply(RequestType::multi);
  for (int i = 0; i < count; ++i)
    queue.async_push(
        std::to_string(i), [&](Result<void> pushed) { done.put(pushed ? "pushed" : pushed.error().what()); },
        patient());
  release_when_all_have_come(held);
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(done.take(), "pushed");
  EXPECT_LT(transactions(client()) - before, count / 2);
  held = proxy.hold_next_reply(RequestType::get_children2);
  for (int i = 0; i < count; ++i)
    queue.async_claim(
        [&](Result<Claim> claim) {
          const auto kept = std::make_shared<Claim>(std::move(claim.value()));
          kept->async_commit([&done, kept](Result<void> over) { done.put(over ? kept->data() : "refused"); });
        },
        patient());
  release_when_all_have_come(held);
  std::set<std::string> items;
  for (int i = 0; i < count; ++i)
    items.insert(done.take());
  EXPECT_EQ(items.size(), static_cast<std::size_t>(count)) << "each of them once";
  EXPECT_EQ(items.count("refused"), 0u);
  EXPECT_LT(transactions(client()) - before, 2 * count);
}

TEST_F(QueueTest, WhatIsTooLargeTogetherGoesApart) {
  Queue queue(client(), "/queue");
  constexpr std::size_t calls = 32;
  constexpr std::size_t each = 300;  // Small, but each has a path and an ACL of its own.
  Box<std::error_code> done;
  for (std::size_t i = 0; i < calls; ++i)
    queue.async_push_all(
        std::vector<std::string>(each, "small"), [&](Result<void> pushed) { done.put(pushed.code()); }, patient());
  for (std::size_t i = 0; i < calls; ++i)
    EXPECT_FALSE(done.take());
  EXPECT_EQ(queue.size(), calls * each);
}

TEST_F(QueueTest, PushesWithALimitAtATime) {
  Queue queue(client(), "/queue", {.capacity = 40});
  constexpr int count = 40;
  Box<std::error_code> done;
  const auto push = [&](const CallOptions& call) {
    queue.async_push(
        "x", [&](Result<void> pushed) { done.put(pushed.code()); }, call);
  };
  for (int i = 0; i < count; ++i)
    push(patient());
  for (int i = 0; i < count; ++i)
    EXPECT_FALSE(done.take());
  EXPECT_EQ(transactions(client()), count) << "none was refused because of another one";
  std::stop_source stop;
  for (int i = 0; i < 5; ++i)
    push({.stop = stop.get_token()});
  stop.request_stop();
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(done.take(), Errc::cancelled);
  EXPECT_EQ(queue.pop(patient()), "x");
  queue.push("last", patient());
  EXPECT_EQ(queue.size(), 40u);
}

TEST_F(QueueTest, OneThatIsRefusedDoesNotFailThoseInItsTransaction) {
  Queue queue(client(), "/queue");
  constexpr std::size_t count = 12;
  std::vector<std::string> all(count + 1);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = std::to_string(i);
  queue.push_all(all, patient());
  ASSERT_EQ(queue.pop(patient()), "0") << "now it knows the list";
  Client other = make_client();
  std::vector<std::string> nodes = items();
  std::sort(nodes.begin(), nodes.end());
  // Each of them would be in the middle of a transaction.
  for (const std::size_t gone : {3u, 4u, 9u})
    other.remove("/queue/items/" + nodes[gone]);
  Box<std::string> popped;
  for (std::size_t i = 0; i < count; ++i)
    queue.async_try_pop(
        [&](Result<std::optional<std::string>> item) {
          popped.put(item ? item->value_or("none") : item.error().what());
        },
        patient());
  std::multiset<std::string> got;
  for (std::size_t i = 0; i < count; ++i)
    got.insert(popped.take());
  EXPECT_EQ(got, (std::multiset<std::string>{"1", "2", "3", "6", "7", "8", "9", "11", "12", "none", "none", "none"}));
  EXPECT_TRUE(items().empty());
}

TEST_F(QueueTest, EveryItemToExactlyOneConsumer) {
  constexpr int count = 400;
  Box<std::string> taken;
  std::vector<std::jthread> crew;
  for (int t = 0; t < 4; ++t) {
    crew.emplace_back([&, t] {
      Client own = t % 2 == 0 ? make_client() : client();
      Queue queue(own, "/queue", {.prefetch = t == 3 ? 8 : 0});
      for (;;) {
        if (t < 2) {
          const auto item = queue.try_pop_for(testkit::patience);
          if (!item || *item == "end") break;
          taken.put(*item);
        } else {
          Claim claim = queue.claim(patient());
          const std::string item = claim.data();
          claim.commit(patient());
          if (item == "end") break;
          taken.put(item);
        }
      }
    });
  }
  for (int t = 0; t < 2; ++t) {
    crew.emplace_back([&, t] {
      Client own = make_client();
      Queue queue(own, "/queue");
      for (int i = 0; i < count / 2; ++i)
        queue.push(std::to_string(t * count / 2 + i), patient());
    });
  }
  std::map<std::string, int> seen;
  for (int i = 0; i < count; ++i)
    ++seen[taken.take()];
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(count));
  Queue queue(client(), "/queue");
  for (int t = 0; t < 4; ++t)
    queue.push("end", patient());
  crew.clear();
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_TRUE(claims(0));
}

// --- Claims -------------------------------------------------------------------------------------------------------

TEST_F(QueueTest, ClaimStaysUntilCommit) {
  Queue queue(client(), "/queue", {.id = "worker"});
  queue.push("first", patient());
  queue.push("second", patient());
  Claim claim = queue.claim(patient());
  EXPECT_EQ(claim.data(), "first");
  EXPECT_EQ(claim.items(), std::vector<std::string>{"first"});
  EXPECT_EQ(claim.deliveries(), 1);
  EXPECT_TRUE(claim.valid());
  EXPECT_EQ(queue.size(), 2u);
  const std::vector<QueueItem> all = queue.list();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].node, claim.node());
  EXPECT_TRUE(all[0].claimed_by.starts_with("id=worker host="));
  EXPECT_EQ(all[1].claimed_by, "");
  EXPECT_EQ(queue.peek(), "second");
  EXPECT_EQ(queue.pop(patient()), "second") << "a claimed item is nobody else's";
  EXPECT_FALSE(queue.try_pop());
  claim.commit(patient());
  EXPECT_FALSE(claim.valid());
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_TRUE(claims(0));
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { claim.give_back(patient()); }), Errc::not_held);
  EXPECT_FALSE(claim.lost().stop_requested()) << "it was not lost";
}

TEST_F(QueueTest, GivenBackToTheSamePlace) {
  Queue queue(client(), "/queue");
  Client other = make_client();
  Queue second(other, "/queue");
  for (const char* item : {"a", "b", "c"})
    queue.push(item, patient());
  {
    Claim a = queue.claim(patient());
    Claim b = second.claim(patient());
    EXPECT_EQ(b.data(), "b");
    const std::string name = a.node();
    a.give_back(patient());
    EXPECT_FALSE(a.valid());
    Claim again = queue.claim(patient());
    EXPECT_EQ(again.data(), "a");
    EXPECT_EQ(again.node(), name);
    EXPECT_EQ(again.deliveries(), 2);
  }  // Dropped: given back.
  EXPECT_TRUE(claims(0));
  (void)other.exists("/queue", patient());  // Answered after that, so it knows.
  EXPECT_EQ(queue.pop(patient()), "a");
  EXPECT_EQ(second.pop(patient()), "b");
  EXPECT_EQ(queue.pop(patient()), "c");
}

TEST_F(QueueTest, GivenBackWakesWhoWaits) {
  Queue queue(client(), "/queue");
  Client other = make_client();
  Queue second(other, "/queue");
  queue.push("only", patient());
  std::optional<Claim> claim = queue.claim(patient());
  auto popping = in_thread([&] { return second.pop(patient()); });
  auto claiming = in_thread([&] { return queue.try_claim_for(50ms).has_value(); });
  EXPECT_FALSE(result_of(claiming));
  claim.reset();
  EXPECT_EQ(result_of(popping), "only");
}

TEST_F(QueueTest, AsynchronousForms) {
  Queue queue(client(), "/queue");
  Box<Result<void>> done;
  const auto finish = [&](Result<void> result) { done.put(std::move(result)); };
  queue.async_push_all({"a", "b"}, finish);
  done.take().value();
  queue.async_push_all({}, finish);
  done.take().value();
  Box<Result<Claim>> claims_made;
  queue.async_claim([&](Result<Claim> claim) { claims_made.put(std::move(claim)); });
  Claim claim = claims_made.take().value();
  EXPECT_EQ(claim.data(), "a");
  claim.async_give_back(finish);
  done.take().value();
  Box<Result<std::optional<Claim>>> tried;
  queue.async_try_claim([&](Result<std::optional<Claim>> result) { tried.put(std::move(result)); });
  claim = std::move(*tried.take().value());
  claim.async_commit(finish);
  done.take().value();
  Box<Result<std::optional<std::string>>> popped;
  queue.async_try_pop([&](Result<std::optional<std::string>> item) { popped.put(std::move(item)); });
  EXPECT_EQ(popped.take().value(), "b");
  queue.async_try_pop([&](Result<std::optional<std::string>> item) { popped.put(std::move(item)); });
  EXPECT_FALSE(popped.take().value());
}

TEST_F(QueueTest, ClaimedAheadAndReturnedWhenNobodyAsks) {
  Queue queue(client(), "/queue", {.prefetch = 4});
  std::vector<std::string> all;
  for (int i = 0; i < 40; ++i)
    all.push_back(std::to_string(i));
  queue.push_all(all, patient());
  std::vector<Claim> held;
  const auto four_ahead = [](std::size_t mine) { return mine + 4; };
  const auto begin = SteadyClock::now();
  ASSERT_TRUE(claims_ahead(queue, held, four_ahead)) << "one, and four ahead";
  held.push_back(queue.claim(patient()));
  EXPECT_EQ(held[0].data(), "0");
  if (SteadyClock::now() - begin < 1s) {  // Else it may have been on its way back.
    EXPECT_EQ(held[1].data(), "1");
  }
  // Seen once more, so that nothing is about to be claimed ahead still.
  ASSERT_TRUE(claims_ahead(queue, held, four_ahead));
  EXPECT_TRUE(claims(held.size())) << "nobody asks any more";
  const auto is_held = [&](const std::string& item) {
    return std::any_of(held.begin(), held.end(), [&](const Claim& claim) { return claim.data() == item; });
  };
  Client other = make_client();
  Queue fresh(other, "/queue");
  Claim next = fresh.claim(patient());
  EXPECT_EQ(next.data(), *std::find_if_not(all.begin(), all.end(), is_held));
  EXPECT_EQ(next.deliveries(), 1) << "nobody has looked at it before";
}

TEST_F(QueueTest, ClaimedAheadAtMostHalf) {
  Queue queue(client(), "/queue", {.prefetch = 100});
  std::vector<std::string> all(21, "x");
  queue.push_all(all, patient());
  std::vector<Claim> held;
  EXPECT_TRUE(claims_ahead(queue, held, [](std::size_t mine) { return mine + (22 - mine) / 2; }));
  Client other = make_client();
  Queue fresh(other, "/queue");
  EXPECT_TRUE(fresh.try_pop());
}

TEST_F(QueueTest, ObjectGoneReturnsWhatWasClaimedAhead) {
  {
    Queue queue(client(), "/queue", {.prefetch = 4});
    queue.push_all(std::vector<std::string>(10, "x"), patient());
    Claim first = queue.claim(patient());
    first.commit(patient());
  }
  EXPECT_TRUE(claims(0));
  EXPECT_EQ(items().size(), 9u);
  EXPECT_TRUE(remain(0, "/queue/slots")) << "what made its writes repeatable";
}

TEST_F(QueueTest, ItemComesBackMaxDeliveriesTimes) {
  Queue queue(client(), "/queue", {.max_deliveries = 2});
  queue.push("poison", patient());
  queue.push("good", patient());
  queue.claim(patient()).give_back(patient());
  Claim again = queue.claim(patient());
  EXPECT_EQ(again.data(), "poison");
  EXPECT_EQ(again.deliveries(), 2);
  again.give_back(patient());
  EXPECT_EQ(queue.claim(patient()).data(), "good");
  Queue dead(client(), "/queue/dead");
  EXPECT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead.pop(patient()), "poison");
}

TEST_F(QueueTest, ErrorOfARejectionNamesIt) {
  Queue queue(client(), "/queue");
  queue.push("item", patient());
  Claim claim = queue.claim(patient());
  claim.commit(patient());
  try {
    claim.reject("too late", patient());
    ADD_FAILURE() << "the claim was over";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_held);
    EXPECT_EQ(error.operation(), "queue reject");
  }
}

TEST_F(QueueTest, AClaimSaysUntilWhenItIsCertain) {
  using zkclient::BootClock;
  Queue queue(client(), "/queue");
  queue.push("item", patient());
  Claim claim = queue.claim(patient());
  EXPECT_EQ(claim.session(), client().session());
  const BootClock::time_point before = client().session().valid_until();
  EXPECT_GE(claim.valid_until(), before);
  EXPECT_LE(claim.valid_until(), client().session().valid_until());
  EXPECT_TRUE(eventually([&] { return claim.valid_until() > BootClock::now(); }, testkit::patience));
  EXPECT_LT(claim.valid_until(), client().session().proven_at() + client().session().timeout());
  const BootClock::time_point first = claim.valid_until();
  EXPECT_TRUE(eventually([&] { return claim.valid_until() > first; }, testkit::patience)) << "by heartbeats";
  claim.commit(patient());
  EXPECT_LT(claim.valid_until(), BootClock::now());
  EXPECT_TRUE(claim.session()) << "which it was";
}

TEST_F(QueueTest, RejectedItemBecomesADeadLetterWithItsReason) {
  const std::string framed("\0zkrecipes:rejected\n\0\0\0\1xy", 26);  // Looks as if it had been rejected.
  for (const std::string& data : {std::string("poison"), std::string(), framed}) {
    Queue queue(client(), "/queue");
    queue.push(data, patient());
    queue.push("good", patient());
    Claim claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), data);
    EXPECT_EQ(claim.reason(), "");
    claim.reject("nobody can read it", patient());
    EXPECT_FALSE(claim.valid());
    EXPECT_EQ(error_of([&] { claim.reject("again"); }), Errc::not_held);
    EXPECT_EQ(queue.pop(patient()), "good");
    EXPECT_EQ(queue.size(), 0u);
    Queue dead(client(), "/queue/dead");
    {
      Claim letter = dead.claim(patient());
      EXPECT_EQ(letter.data(), data);
      EXPECT_EQ(letter.reason(), "nobody can read it");
      letter.give_back(patient());
    }
    EXPECT_EQ(dead.peek(patient()), data);
    EXPECT_EQ(dead.claim(patient()).reason(), "nobody can read it") << "it stays with the item";
    EXPECT_EQ(dead.pop(patient()), data);
  }
  Queue queue(client(), "/queue");
  queue.push("item", patient());
  Claim claim = queue.claim(patient());
  EXPECT_EQ(error_of([&] { claim.reject(std::string(4097, 'x')); }), Errc::invalid_argument);
  EXPECT_TRUE(claim.valid());
  EXPECT_EQ(error_of([] { Claim().reject("empty"); }), Errc::not_held);
}

TEST_F(QueueTest, RejectedItemThatLeavesNoRoomForTheReasonGoesWithoutIt) {
  const std::string large(1024 * 1024 - 3072, 'x');
  Queue queue(client(), "/queue");
  queue.push(large, patient());
  queue.claim(patient()).reject(std::string(4096, 'r'), patient());
  Queue dead(client(), "/queue/dead");
  Claim letter = dead.claim(patient());
  EXPECT_EQ(letter.data(), large);
  EXPECT_EQ(letter.reason(), "");
}

// Other libraries read the item as it was.
TEST_F(QueueTest, RejectedItemOfACuratorQueueHasNoReason) {
  Queue queue(client(), "/queue", {.layout = zkrecipes::QueueLayout::curator()});
  queue.push("poison", patient());
  queue.claim(patient()).reject("nobody can read it", patient());
  Queue dead(client(), "/queue-dead", {.layout = zkrecipes::QueueLayout::curator()});
  Claim letter = dead.claim(patient());
  EXPECT_EQ(letter.data(), "poison");
  EXPECT_EQ(letter.reason(), "");
}

TEST_F(QueueTest, ItemThatIsGivenBackAfterAWhileIsNobodysUntilThen) {
  Queue queue(client(), "/queue");
  queue.push("first", patient());
  queue.push("second", patient());
  Client brief = make_client();
  {
    Queue worker(brief, "/queue");
    Claim claim = worker.claim(patient());
    claim.give_back_after(1h);
    EXPECT_FALSE(claim.valid());
    EXPECT_EQ(error_of([&] { claim.commit(); }), Errc::not_held);
    EXPECT_EQ(worker.pop(patient()), "second");
    EXPECT_FALSE(worker.try_pop());
  }
  EXPECT_FALSE(queue.try_pop());
  // When its session ends it goes back at once.
  brief.close();
  EXPECT_EQ(queue.pop(patient()), "first");
  queue.push("third", patient());
  const auto begun = SteadyClock::now();
  queue.claim(patient()).give_back_after(300ms);
  EXPECT_EQ(queue.pop(patient()), "third");
  EXPECT_GE(SteadyClock::now() - begun, 300ms);
  EXPECT_EQ(error_of([] { Claim().give_back_after(1s); }), Errc::not_held);
}

TEST_F(QueueTest, ItemComesBackMaxDeliveriesTimesByCrashes) {
  Queue queue(client(), "/queue", {.max_deliveries = 2, .dead_letters = Path("/rejects")});
  queue.push("poison", patient());
  for (int i = 0; i < 2; ++i) {
    Client brief = make_client();
    Queue worker(brief, "/queue");
    Claim claim = worker.claim(patient());
    brief.close();  // Its session goes, and the claim with it.
    EXPECT_FALSE(claim.valid());
    const auto error = error_of([&] { claim.commit(); });
    EXPECT_TRUE(error == Errc::closed || error == Errc::not_held);
  }
  EXPECT_TRUE(claims(0));
  EXPECT_FALSE(queue.try_claim());
  EXPECT_EQ(Queue(client(), "/rejects").peek(), "poison");
  EXPECT_EQ(queue.size(), 0u);
}

// --- Capacity -----------------------------------------------------------------------------------------------------

TEST_F(QueueTest, QueueFull) {
  Queue queue(client(), "/queue", {.capacity = 2});
  EXPECT_TRUE(queue.try_push("a", patient()));
  queue.push("b", patient());
  EXPECT_FALSE(queue.try_push("c", patient()));
  EXPECT_EQ(error_of([&] { queue.push("c", within(50ms)); }), Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { queue.push_all({"c", "d", "e"}); }), Errc::invalid_argument);
  auto pushing = in_thread([&] { queue.push_all({"c", "d"}, patient()); });
  EXPECT_EQ(queue.pop(patient()), "a");
  EXPECT_EQ(queue.size(), 1u) << "there is no room for two yet";
  EXPECT_EQ(queue.pop(patient()), "b");
  result_of(pushing);
  EXPECT_EQ(queue.size(), 2u);
}

TEST_F(QueueTest, NeverMoreThanItsCapacity) {
  constexpr int each = 30;
  std::atomic<bool> stop{false};
  std::size_t most = 0;
  std::jthread observer([&] {
    while (!stop)
      most = std::max(most, items().size());
  });
  {
    std::vector<std::jthread> crew;
    for (int t = 0; t < 4; ++t) {
      crew.emplace_back([&] {
        Client own = make_client();
        Queue queue(own, "/queue", {.capacity = 3});
        for (int i = 0; i < each; ++i)
          queue.push("x", patient());
      });
    }
    Queue queue(client(), "/queue");
    for (int i = 0; i < 4 * each; ++i)
      EXPECT_EQ(queue.try_pop_for(testkit::patience), "x");
  }
  stop = true;
  observer.join();
  EXPECT_LE(most, 3u);
}

// --- Surroundings -------------------------------------------------------------------------------------------------

TEST_F(QueueTest, ForeignChildInTheFolder) {
  Queue queue(client(), "/queue");
  client().ensure("/queue/items", zkclient::CreateMode::persistent);
  for (const char* name : {"item-", "item-1", "other", "item-00000000000", "qn-0000000001"})
    client().create(Path("/queue/items") / name, "foreign");
  EXPECT_FALSE(queue.try_pop());
  queue.push("ours", patient());
  EXPECT_EQ(queue.pop(patient()), "ours");
  EXPECT_EQ(items().size(), 5u);
}

TEST_F(QueueTest, FolderMissingOrRemoved) {
  Queue queue(client(), "/queue");
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  EXPECT_TRUE(eventually([&] { return client().exists("/queue/items").has_value(); }));
  Client other = make_client();
  Queue producer(other, "/queue");
  for (int i = 0; i < 5; ++i)
    client().remove_tree("/queue");
  producer.push("x", patient());
  EXPECT_EQ(result_of(waiting), "x");
  client().remove_tree("/queue");
  producer.push("y", patient());
  Claim claim = queue.claim(patient());
  EXPECT_EQ(claim.data(), "y");
  client().remove_tree("/queue");
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
}

TEST_F(QueueTest, ClaimDeletedByHand) {
  Queue queue(client(), "/queue");
  Client other = make_client();
  Queue second(other, "/queue");
  queue.push("x", patient());
  Claim first = queue.claim(patient());
  client().remove(Path("/queue/claims") / first.node());
  Claim next = second.claim(patient());
  EXPECT_EQ(next.data(), "x");
  EXPECT_EQ(error_of([&] { first.commit(patient()); }), Errc::not_held) << "somebody else has it";
  EXPECT_TRUE(next.valid());
  next.commit(patient());
  EXPECT_EQ(queue.size(), 0u);
}

TEST_F(QueueTest, ClaimDeletedByHandIsSeen) {
  Queue queue(client(), "/queue");
  queue.push("x", patient());
  Claim claim = queue.claim(patient());
  client().remove(Path("/queue/claims") / claim.node());
  EXPECT_TRUE(testkit::stopped(claim.lost()));
  EXPECT_FALSE(claim.valid());
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  EXPECT_EQ(queue.pop(patient()), "x");
}

TEST_F(QueueTest, ItemDeletedByHand) {
  Queue queue(client(), "/queue");
  queue.push_all({"a", "b"}, patient());
  Claim claim = queue.claim(patient());
  client().remove(Path("/queue/items") / claim.node());
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  EXPECT_TRUE(claims(0));
  EXPECT_EQ(queue.pop(patient()), "b");
}

TEST_F(QueueTest, ItemDeletedByHandThatNobodyHasClaimed) {
  Queue queue(client(), "/queue");
  queue.push_all({"a", "b", "c"}, patient());
  EXPECT_EQ(queue.pop(patient()), "a");
  const std::string listed = queue.list().front().node;  // It may have been read ahead.
  client().remove(Path("/queue/items") / listed);
  EXPECT_EQ(queue.pop(patient()), "c");
  EXPECT_EQ(queue.size(), 0u);
}

// The last time, when it would be moved to the dead letters.
TEST_F(QueueTest, ItemDeletedByHandLeavesNoClaim) {
  Queue queue(client(), "/queue", {.max_deliveries = 1});
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  client().remove(Path("/queue/items") / claim.node());
  EXPECT_EQ(error_of([&] { claim.give_back(patient()); }), Errc::not_held);
  EXPECT_TRUE(claims(0));
  EXPECT_EQ(Queue(client(), "/queue/dead").size(), 0u);
}

TEST_F(QueueTest, AFailureDoesNotHideTheItem) {
  Queue queue(client(), "/queue");
  queue.push("x", patient());
  const std::string node = client().children("/queue/items").names.at(0);
  const Path item = Path("/queue/items") / node;
  client().set_acl(item, {{zkclient::Acl::write | zkclient::Acl::admin, "world", "anyone"}});
  EXPECT_EQ(error_of([&] { (void)queue.pop(patient()); }), Errc::no_auth);
  client().set_acl(item, zkclient::open_acl());
  EXPECT_EQ(queue.pop(patient()), "x");
}

TEST_F(QueueTest, AFolderThatIsMadeAgainHoldsOtherItems) {
  Queue queue(client(), "/queue");
  Queue producer(client(), "/queue");
  const auto fill = [&](const std::string& prefix) {
    std::vector<std::string> items;
    for (int i = 0; i < 10; ++i)
      items.push_back(prefix + std::to_string(i));
    producer.push_all(items, patient());
  };
  fill("old");
  for (int i = 0; i < 3; ++i)  // It has begun to read ahead.
    EXPECT_EQ(queue.pop(patient()), "old" + std::to_string(i));
  client().remove_tree("/queue/items", patient());
  fill("new");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(queue.pop(patient()), "new" + std::to_string(i));
}

TEST_F(QueueTest, DeadLettersThatCannotBeMadeKeepNobodyFromTheItem) {
  client().create("/closed", "");
  Queue queue(client(), "/queue", {.max_deliveries = 1, .dead_letters = Path("/closed/dead")});
  queue.push("x", patient());
  Claim claim = queue.claim(patient());
  client().remove_tree("/closed/dead", patient());
  client().set_acl("/closed", {{zkclient::Acl::read, "world", "anyone"}});
  EXPECT_EQ(error_of([&] { claim.give_back(patient()); }), Errc::no_auth);
  EXPECT_FALSE(claim.valid());
  EXPECT_TRUE(claims(0));
  EXPECT_EQ(queue.size(), 1u);
}

TEST_F(QueueTest, HandlersAreRequired) {
  Queue queue(client(), "/queue");
  queue.push("x", patient());
  EXPECT_EQ(error_of([&] { queue.async_pop({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.async_try_claim({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.async_push("y", {}); }), Errc::invalid_argument);
  EXPECT_EQ(queue.size(), 1u);
}

TEST_F(QueueTest, ItemNotInTheLayoutsFormat) {
  Queue queue(client(), "/queue", {.layout = QueueLayout::curator()});
  client().ensure("/queue", zkclient::CreateMode::persistent);
  client().create("/queue/queue-", "raw", {.mode = zkclient::CreateMode::persistent_sequential});
  queue.push("good", patient());
  EXPECT_EQ(error_of([&] { (void)queue.pop(patient()); }), Errc::foreign_node);
  EXPECT_EQ(queue.pop(patient()), "good") << "it does not stop the others";
  EXPECT_EQ(error_of([&] { (void)queue.claim(patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { (void)queue.peek(); }), Errc::foreign_node);
  EXPECT_EQ(queue.size(), 1u);
}

// A push of it just fits, a claim does not; another one may not be read, and a third one not be written.
TEST_F(QueueTest, ItemThatItsConsumerCannotTake) {
  Queue queue(client(), "/queue");
  queue.push("first", patient());
  EXPECT_EQ(queue.claim(patient()).data(), "first");  // Given back.
  const auto fits = [&](std::size_t size) {
    std::error_code error;
    client().create("/queue/items/item-", std::string(size, 'x'), {.mode = zkclient::CreateMode::persistent_sequential},
                    patient(), error);
    return !error;
  };
  EXPECT_EQ(queue.pop(patient()), "first");
  std::size_t size = 1U << 20U;
  while (!fits(size))
    size -= 32;
  for (const int right : {zkclient::Acl::write, zkclient::Acl::read}) {
    client().create("/queue/items/item-", "closed",
                    {.mode = zkclient::CreateMode::persistent_sequential, .acl = {{right, "world", "anyone"}}});
  }
  queue.push("good", patient());
  std::set<Errc> failures;
  std::optional<Claim> good;
  for (int i = 0; i < 50 && !good; ++i) {
    try {
      good.emplace(queue.claim(patient()));
    } catch (const Error& error) {
      failures.insert(error.errc());
      EXPECT_NE(error.detail().find("/queue/items/item-"), std::string::npos) << error.what();
    }
  }
  ASSERT_TRUE(good) << "the others stop it";
  EXPECT_EQ(good->data(), "good");
  EXPECT_EQ(failures, (std::set<Errc>{Errc::too_large, Errc::no_auth}));
  good->commit(patient());
  queue.push("next", patient());
  Claim next = queue.claim(patient());
  EXPECT_EQ(next.data(), "next") << "a new list shows the others first";
  next.commit(patient());
  EXPECT_EQ(queue.pop(patient()), std::string(size, 'x'));
}

// It may not be moved to the dead letters, or its claimer not be kept out by a claim.
TEST_F(QueueTest, ItemClaimedBeforeThatItsConsumerCannotTake) {
  client().ensure("/queue/claims", zkclient::CreateMode::persistent);  // The server removes no such folder.
  Queue queue(client(), "/queue");
  Queue strict(client(), "/queue", {.max_deliveries = 1});
  Queue dead(client(), "/queue/dead");
  const auto forbid_creation = [&](const Path& folder) {
    client().set_acl(folder, {{zkclient::Acl::all & ~zkclient::Acl::create, "world", "anyone"}});
  };
  dead.push("dead", patient());
  queue.push("old", patient());
  queue.claim(patient()).give_back(patient());
  queue.push("new", patient());
  forbid_creation("/queue/dead/items");
  EXPECT_EQ(error_of([&] { (void)strict.claim(patient()); }), Errc::no_auth);
  Claim claim = strict.claim(patient());
  EXPECT_EQ(claim.data(), "new");
  claim.commit(patient());
  queue.push("newer", patient());
  forbid_creation("/queue/claims");
  EXPECT_EQ(error_of([&] { (void)queue.pop(patient()); }), Errc::no_auth);
  EXPECT_EQ(queue.pop(patient()), "newer");
}

TEST_F(QueueTest, LargeItems) {
  Queue queue(client(), "/queue");
  const std::string large(900'000, 'x');
  queue.push(large, patient());
  EXPECT_EQ(error_of([&] { queue.push(std::string(2'000'000, 'x'), patient()); }), Errc::too_large);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.claim(patient()).data(), large);
  EXPECT_EQ(queue.pop(patient()), large);
}

TEST_F(QueueTest, EveryLayout) {
  for (const QueueLayout& layout :
       {QueueLayout::standard(), QueueLayout::zookeeper(), QueueLayout::curator(), QueueLayout::curator(Path("/locks")),
        QueueLayout::kazoo(), QueueLayout::kazoo_locking()}) {
    const Path path("/layout-" + std::to_string(static_cast<int>(layout.style())) +
                    (layout.lock_path() ? "-locked" : ""));
    Queue queue(client(), path, {.layout = layout, .max_deliveries = 2});
    for (const char* item : {"a", "b", "c", "d"})
      queue.push(item, patient());
    EXPECT_EQ(queue.pop(patient()), "a");
    Claim claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), "b");
    EXPECT_EQ(queue.pop(patient()), "c");
    claim.give_back(patient());
    EXPECT_EQ(queue.peek(), "b");
    claim = queue.claim(patient());
    claim.give_back(patient());
    EXPECT_EQ(queue.pop(patient()), "d") << "b went to the dead letters";
    const Path dead = layout.style() == QueueLayout::Style::standard ? path / "dead" : Path(path.str() + "-dead");
    EXPECT_EQ(Queue(client(), dead, {.layout = layout}).pop(patient()), "b");
    EXPECT_EQ(queue.size(), 0u);
  }
}

TEST_F(QueueTest, SeveralItemsInOneNodeOfCurators) {
  Queue queue(client(), "/queue", {.layout = QueueLayout::curator()});
  const std::string three("\0\1\0\1\1\0\0\0\1a\1\0\0\0\1b\1\0\0\0\1c\2", 23);
  client().ensure("/queue", zkclient::CreateMode::persistent);
  client().create("/queue/queue-", three, {.mode = zkclient::CreateMode::persistent_sequential});
  queue.push("d", patient());
  EXPECT_EQ(queue.pop(patient()), "a");
  EXPECT_EQ(queue.size(), 2u) << "nodes";
  {
    Claim rest = queue.claim(patient());
    EXPECT_EQ(rest.items(), (std::vector<std::string>{"b", "c"}));
  }
  EXPECT_TRUE(remain(0, "/queue-claims"));
  for (const char* item : {"b", "c", "d"})
    EXPECT_EQ(queue.pop(patient()), item);
  EXPECT_EQ(queue.size(), 0u);
}

TEST_F(QueueTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { Queue(client(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Queue(client(), "/queue", {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { Queue(client(), "/queue", {.max_deliveries = -1}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Queue(client(), "/queue", {.prefetch = -1}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Queue(client(), "/queue", {.prefetch = 1001}); }), Errc::invalid_argument);
  Claim none;
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(none.data(), "");
  EXPECT_EQ(error_of([&] { none.commit(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { none.give_back(); }), Errc::not_held);
}

TEST_F(QueueTest, ClientClosed) {
  Client own = make_client();
  Queue queue(own, "/queue");
  queue.push("x", patient());
  Claim claim = queue.claim(patient());
  auto waiting = in_thread([&] { return error_of([&] { (void)queue.pop(patient()); }); });
  Box<Result<std::string>> popped;
  queue.async_pop([&](Result<std::string> item) { popped.put(std::move(item)); });
  own.close();
  EXPECT_EQ(result_of(waiting), Errc::closed);
  EXPECT_EQ(error_of([&] { queue.push("y"); }), Errc::closed);
  EXPECT_FALSE(claim.valid());
  Queue other(client(), "/queue");
  EXPECT_EQ(other.pop(patient()), "x");
}

}  // namespace
}  // namespace zkrecipes
