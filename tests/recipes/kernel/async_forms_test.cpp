// The asynchronous forms of what only looks, and of what ends something: each gets what the blocking form returns.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using testkit::Box;
using testkit::error_of;
using zkclient::Errc;
using zkclient::Handler;
using zkclient::Result;

class AsyncForms : public testkit::RecipeTest {
 protected:
  AsyncForms() : RecipeTest("/recipe") {}
  static zkclient::CallOptions patient() { return {.deadline = testkit::soon()}; }
  template <typename T>
  static T wait_for(const std::function<void(Handler<T>)>& start) {
    Box<Result<T>> result;
    start([&](Result<T> outcome) { result.put(std::move(outcome)); });
    return std::move(result.take()).value();
  }
};

using Contenders = std::vector<Contender>;

TEST_F(AsyncForms, ContendersAndHolders) {
  Mutex mutex(client(), "/mutex");
  RecursiveMutex recursive(client(), "/mutex");
  SharedMutex shared(client(), "/shared");
  Semaphore semaphore(client(), "/semaphore", 2);
  UnfairMutex unfair(client(), "/unfair");
  const auto none = wait_for<std::optional<Contender>>([&](auto h) { unfair.async_holder(std::move(h), patient()); });
  EXPECT_FALSE(none);
  const Lease first = mutex.acquire(patient());
  const Lease second = shared.acquire_shared(patient());
  const Lease third = semaphore.acquire(patient());
  const Lease fourth = unfair.acquire(patient());
  EXPECT_EQ(wait_for<Contenders>([&](auto h) { mutex.async_contenders(std::move(h), patient()); }).size(), 1U);
  EXPECT_EQ(wait_for<Contenders>([&](auto h) { recursive.async_contenders(std::move(h), patient()); }).size(), 1U);
  EXPECT_EQ(wait_for<Contenders>([&](auto h) { shared.async_contenders(std::move(h), patient()); }).size(), 1U);
  EXPECT_EQ(wait_for<Contenders>([&](auto h) { semaphore.async_contenders(std::move(h), patient()); }).size(), 1U);
  const auto holder = wait_for<std::optional<Contender>>([&](auto h) { unfair.async_holder(std::move(h), patient()); });
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->token, fourth.token());
  EXPECT_EQ(error_of([&] { mutex.async_contenders({}); }), Errc::invalid_argument);
}

TEST_F(AsyncForms, ManyLeasesAreReleasedTogether) {
  Mutex a(client(), "/a");
  UnfairMutex b(client(), "/b");
  MultiLock both;
  both.add(a).add(b);
  MultiLease lease = both.acquire(patient());
  EXPECT_EQ(error_of([&] { lease.async_release({}); }), Errc::invalid_argument);
  EXPECT_TRUE(lease.valid());
  wait_for<void>([&](auto h) { lease.async_release(std::move(h), patient()); });
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(a.contenders(patient()).empty());
  EXPECT_FALSE(b.holder(patient()));
  EXPECT_EQ(error_of([] { MultiLease().async_release([](Result<void>) {}); }), Errc::not_held);
}

TEST_F(AsyncForms, Elections) {
  LeaderElection election(client(), "/election");
  EXPECT_FALSE(wait_for<std::optional<Leader>>([&](auto h) { election.async_leader(std::move(h), patient()); }));
  const Leadership leadership = election.campaign(patient());
  const auto leader = wait_for<std::optional<Leader>>([&](auto h) { election.async_leader(std::move(h), patient()); });
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->term, leadership.token());
  EXPECT_EQ(wait_for<Contenders>([&](auto h) { election.async_candidates(std::move(h), patient()); }).size(), 1U);
  EXPECT_EQ(error_of([&] { election.async_resign({}); }), Errc::invalid_argument);
  EXPECT_TRUE(leadership.valid()) << "without a handler nothing is given up";
  wait_for<void>([&](auto h) { election.async_resign(std::move(h), patient()); });
  EXPECT_FALSE(leadership.valid());
  EXPECT_TRUE(election.candidates(patient()).empty());
  wait_for<void>([&](auto h) { election.async_resign(std::move(h), patient()); });  // Nothing is held: no error.
}

TEST_F(AsyncForms, QueuesAndBarriers) {
  Queue queue(client(), "/queue");
  PriorityQueue prioritized(client(), "/prioritized");
  wait_for<void>([&](auto h) { prioritized.async_push_all({"a", "b"}, 7, std::move(h), patient()); });
  EXPECT_EQ(prioritized.list(patient()).front().priority, 7);
  using Item = std::optional<std::string>;
  EXPECT_EQ(wait_for<Item>([&](auto h) { queue.async_peek(std::move(h), patient()); }), std::nullopt);
  queue.push("x", patient());
  EXPECT_EQ(wait_for<Item>([&](auto h) { queue.async_peek(std::move(h), patient()); }), "x");
  EXPECT_EQ(wait_for<std::size_t>([&](auto h) { queue.async_size(std::move(h), patient()); }), 1U);
  EXPECT_EQ(wait_for<std::vector<QueueItem>>([&](auto h) { queue.async_list(std::move(h), patient()); }).size(), 1U);

  Barrier barrier(client(), "/barrier");
  using State = std::optional<BarrierState>;
  EXPECT_FALSE(wait_for<State>([&](auto h) { barrier.async_state(std::move(h), patient()); }));
  barrier.raise(BarrierLife::persistent, patient());
  const State state = wait_for<State>([&](auto h) { barrier.async_state(std::move(h), patient()); });
  ASSERT_TRUE(state);
  EXPECT_EQ(state->data, barrier.state(patient())->data);
}

TEST_F(AsyncForms, Transactions) {
  CommitCoordinator coordinator(client(), "/commit");
  using All = std::vector<CommitStatus>;
  EXPECT_TRUE(wait_for<All>([&](auto h) { coordinator.async_transactions(std::move(h), patient()); }).empty());
  Box<Result<CommitStatus>> status;
  coordinator.async_status(
      "nobody", [&](Result<CommitStatus> outcome) { status.put(std::move(outcome)); }, patient());
  EXPECT_EQ(status.take().error().errc(), Errc::no_node);
  EXPECT_EQ(error_of([&] { coordinator.async_status("a/b", [](Result<CommitStatus>) {}); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
