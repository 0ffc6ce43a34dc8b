// Queues on a server that enforces quotas: what only frees works when the quota is full, also when replies are lost.

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>

#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/queue.hpp>

#include "tests/support/quota_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class QueueQuota : public testkit::QuotaTest {
 protected:
  Path path() const { return root() / "queue"; }
  /// By a producer that stays: what makes its writes repeatable goes with it, and would make room.
  void push(int count) {
    producer_.emplace(the_operator(), path());
    for (int i = 0; i < count; ++i)
      producer_->push(item(i), patient());
  }
  static std::string item(int number) { return "item " + std::to_string(number); }
  /// The only item, as a consumer puts it back that has taken it: a node of the same name.
  void put_back_anew() {
    const Path node = path() / "items" / the_operator().children(path() / "items").names.at(0);
    const std::string data = the_operator().get(node).data;
    the_operator().remove(node);
    the_operator().create(node, data);
  }
  std::size_t claims_outside() { return beside("-claim-"); }
  void expect_drained() {
    EXPECT_TRUE(eventually([&] { return claims_outside() == 0; }));
    EXPECT_EQ(children(path() / "items"), 0U);
    EXPECT_TRUE(eventually([&] { return stand_ins() == 0; }));
  }

 private:
  std::optional<Queue> producer_;
};

TEST_F(QueueQuota, PushSaysWhichQuotaIsFull) {
  push(2);
  allow_no_node();
  Queue queue(the_operator(), path());
  expect_full([&] { queue.push("one more", patient()); });
  EXPECT_EQ(children(path() / "items"), 2U);
  allow_all();
  queue.push("one more", patient());
}

TEST_F(QueueQuota, PopDrainsAQueueThatHasNoRoom) {
  push(5);
  allow_nothing();
  {
    Queue queue(proxied(), path());
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(queue.pop(patient()), item(i));
  }
  expect_drained();
}

TEST_F(QueueQuota, PopIsDoneOnceThoughRepliesAreLost) {
  push(5);
  allow_nothing();
  {
    Queue queue(proxied(), path());
    for (int i = 0; i < 5; ++i) {
      const auto lost =
          i % 2 == 0 ? proxy.drop_next_reply(RequestType::multi) : proxy.drop_next_request(RequestType::multi);
      EXPECT_EQ(queue.pop(patient()), item(i));
      EXPECT_TRUE(lost.happened());
    }
    EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
  }
  expect_drained();
}

TEST_F(QueueQuota, PopSurvivesTheLostReplyToItsFirstNode) {
  push(1);
  allow_no_node();
  {
    Client client = proxied();
    client.connect(patient());
    const auto lost = proxy.drop_next_reply(RequestType::create2);
    Queue queue(client, path());
    EXPECT_EQ(queue.pop(patient()), item(0));
    EXPECT_TRUE(lost.happened());
  }
  expect_drained();
}

TEST_F(QueueQuota, PopTakesWhatWasGivenBack) {
  push(2);
  Queue queue(the_operator(), path());
  queue.claim(patient()).give_back(patient());
  allow_nothing();
  {
    Queue other(proxied(), path());
    EXPECT_EQ(other.pop(patient()), item(0));
    EXPECT_EQ(other.pop(patient()), item(1));
  }
  EXPECT_EQ(children(path() / "items"), 0U);
}

TEST_F(QueueQuota, PopLeavesWhatIsClaimed) {
  push(2);
  Queue queue(the_operator(), path());
  queue.claim(patient()).give_back(patient());
  Claim claim = queue.claim(patient());
  ASSERT_EQ(claim.data(), item(0));
  allow_nothing();
  Queue other(proxied(), path());
  EXPECT_EQ(other.pop(patient()), item(1));
  EXPECT_EQ(other.try_pop(patient()), std::nullopt);
  claim.commit(patient());
  EXPECT_EQ(children(path() / "items"), 0U);
}

TEST_F(QueueQuota, RemovalNeedsNoRoom) {
  IdQueue queue(the_operator(), path(), {.layout = QueueLayout::standard()});
  queue.push_all({item(0), item(1), item(2)}, "x", patient());
  queue.claim(patient()).give_back(patient());
  Claim claim = queue.claim(patient());
  allow_nothing();
  IdQueue other(proxied(), path(), {.layout = QueueLayout::standard()});
  EXPECT_EQ(other.remove("x", patient()), 2U);
  claim.give_back(patient());
  EXPECT_EQ(other.remove("x", patient()), 1U);
  EXPECT_EQ(children(path() / "items"), 0U);
}

// Between the look and the first write of a removal, another consumer takes the item and puts it back as a new node. Claimed
// again, that has the version that was read; its claim stands outside of the quota.
TEST_F(QueueQuota, RemovalLeavesWhatIsPutBackAndClaimedMeanwhile) {
  IdQueue queue(the_operator(), path(), {.layout = QueueLayout::standard()});
  queue.push(item(0), "x", patient());
  queue.claim(patient()).give_back(patient());
  allow_no_node();
  IdQueue other(proxied(), path(), {.layout = QueueLayout::standard()});
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto removal = in_thread([&] { return other.remove("x", patient()); });
  ASSERT_TRUE(held.wait(patience));
  put_back_anew();
  Claim claim = queue.claim(patient());
  ASSERT_EQ(claims_outside(), 1U);
  ASSERT_EQ(claim.deliveries(), 1);
  held.release();
  EXPECT_EQ(result_of(removal), 0U);
  EXPECT_EQ(children(path() / "items"), 1U);
  claim.commit(patient());
}

TEST_F(QueueQuota, PopLeavesWhatIsPutBackAndClaimedMeanwhile) {
  push(1);
  Queue queue(the_operator(), path());
  queue.claim(patient()).give_back(patient());
  allow_no_node();
  Queue other(proxied(), path());
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto pop = in_thread([&] { return other.try_pop(patient()); });
  ASSERT_TRUE(held.wait(patience));
  put_back_anew();
  Claim claim = queue.claim(patient());
  ASSERT_EQ(claims_outside(), 1U);
  ASSERT_EQ(claim.deliveries(), 1);
  held.release();
  EXPECT_EQ(result_of(pop), std::nullopt);
  EXPECT_EQ(children(path() / "items"), 1U);
  claim.commit(patient());
}

// Others claim without writing to the item: a removal needs room for a claim of its own.
TEST_F(QueueQuota, RemovalNeedsRoomWhereOthersClaim) {
  IdQueue queue(the_operator(), path(), {.layout = QueueLayout::curator(root() / "locks")});
  queue.push_all({item(0), item(1)}, "x", patient());
  queue.claim(patient()).give_back(patient());
  allow_no_node();
  IdQueue other(proxied(), path(), {.layout = QueueLayout::curator(root() / "locks")});
  EXPECT_EQ(error_of([&] { (void)other.remove("x", patient()); }), Errc::quota_exceeded);
  EXPECT_EQ(children(path()), 2U);
  allow_all();
  EXPECT_EQ(other.remove("x", patient()), 2U);
}

TEST_F(QueueQuota, PopTakesNoBytes) {
  push(1);
  // Bytes only: an empty node takes none.
  allow_no_byte();
  Queue queue(proxied(), path());
  EXPECT_EQ(queue.pop(patient()), item(0));
}

// --- Claims ---------------------------------------------------------------------------------------------------------

TEST_F(QueueQuota, ClaimAndCommitDrainAQueueThatHasNoRoom) {
  push(4);
  allow_nothing();
  {
    Queue queue(proxied(), path());
    for (int i = 0; i < 4; ++i) {
      Claim claim = queue.claim(patient());
      EXPECT_EQ(claim.data(), item(i));
      EXPECT_TRUE(i > 0 || claims_outside() == 1);  // Each commit makes some room.
      claim.commit(patient());
    }
    EXPECT_FALSE(queue.try_claim(patient()));
  }
  expect_drained();
}

TEST_F(QueueQuota, ClaimAndCommitAreDoneOnceThoughRepliesAreLost) {
  push(3);
  allow_no_node();
  {
    Queue queue(proxied(), path());
    queue.claim(patient()).give_back(patient());  // Its slots are there.
    for (int i = 0; i < 3; ++i) {
      const auto claim_lost = proxy.drop_next_reply(RequestType::multi);
      Claim claim = queue.claim(patient());
      EXPECT_TRUE(claim_lost.happened());
      EXPECT_EQ(claim.data(), item(i));
      const auto commit_lost = proxy.drop_next_reply(RequestType::multi);
      claim.commit(patient());
      EXPECT_TRUE(commit_lost.happened());
    }
  }
  expect_drained();
}

TEST_F(QueueQuota, NobodyElseGetsWhatIsClaimedOutside) {
  push(1);
  allow_no_node();
  Queue queue(proxied(), path());
  Claim claim = queue.claim(patient());
  Queue other(the_operator(), path());
  EXPECT_FALSE(other.try_claim(patient()));
  EXPECT_EQ(other.try_pop(patient()), std::nullopt);
  allow_all();  // The claim stays where it is.
  EXPECT_FALSE(other.try_claim(patient()));
  EXPECT_EQ(other.try_pop(patient()), std::nullopt);
  claim.commit(patient());
  EXPECT_EQ(other.try_pop(patient()), std::nullopt);
  EXPECT_EQ(claims_outside(), 0U);
}

TEST_F(QueueQuota, WhoeverWaitsGetsWhatWasGivenBack) {
  push(1);
  allow_no_node();
  Queue queue(proxied(), path());
  Claim claim = queue.claim(patient());
  Queue other(the_operator(), path());
  ASSERT_FALSE(other.try_claim(patient()));  // It has seen the claim, and waits for its end.
  auto waiting = in_thread([&] { return other.claim(patient()); });
  claim.give_back(patient());
  Claim second = result_of(waiting);
  EXPECT_EQ(second.data(), item(0));
  EXPECT_EQ(second.deliveries(), 2);
  second.commit(patient());
  EXPECT_EQ(claims_outside(), 0U);
}

TEST_F(QueueQuota, AClaimOutsideEndsWithItsSession) {
  push(1);
  allow_no_node();
  std::optional<Client> client(std::in_place, proxy.connect_string(), ClientOptions{.session_timeout = calm});
  Queue other(the_operator(), path());
  {
    Queue queue(*client, path());
    Claim claim = queue.claim(patient());
    ASSERT_FALSE(other.try_claim(patient()));
    client->close();
  }
  EXPECT_EQ(other.pop(patient()), item(0));
}

TEST_F(QueueQuota, WhatWasClaimedAheadGoesBack) {
  push(4);
  allow_nothing();
  QueueOptions options;
  options.prefetch = 2;
  {
    Queue queue(proxied(), path(), options);
    queue.claim(patient()).commit(patient());
  }
  Queue other(the_operator(), path());
  std::set<std::string> rest;
  for (int i = 1; i < 4; ++i)
    rest.insert(other.pop(patient()));
  EXPECT_EQ(rest, (std::set<std::string>{item(1), item(2), item(3)}));
  EXPECT_EQ(children(path() / "items"), 0U);
}

TEST_F(QueueQuota, AnItemThatNeedsRoomElsewhereStays) {
  push(1);
  allow_nothing();
  Queue queue(proxied(), path());
  EXPECT_EQ(error_of([&] { queue.claim(patient()).reject("it is broken", patient()); }), Errc::quota_exceeded);
  EXPECT_EQ(queue.pop(patient()), item(0));
}

}  // namespace
}  // namespace zkrecipes
