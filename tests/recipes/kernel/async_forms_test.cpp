// The asynchronous forms of what only looks, and of what ends something: each gets what the blocking form returns.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/optimistic.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/periodic_job.hpp>
#include <zkrecipes/persistent_node.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/replica_group.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zkrecipes/unfair_mutex.hpp>
#include <zkrecipes/worker_id.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using zkclient::Handler;

class AsyncForms : public testkit::RecipeTest {
 protected:
  AsyncForms() : RecipeTest("/recipe") {}
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

TEST_F(AsyncForms, Publications) {
  LeaderElection election(client(), "/election");
  Leadership leadership = election.campaign(patient());
  EXPECT_EQ(error_of([&] { leadership.async_ready({}); }), Errc::invalid_argument);
  for (int i = 0; i < 20; ++i) {  // One may follow as soon as the one before is done.
    wait_for<void>([&](auto h) { leadership.async_proclaim(std::to_string(i), std::move(h), patient()); });
    leadership.proclaim("next", patient());
  }
  wait_for<void>([&](auto h) { leadership.async_ready(std::move(h), patient()); });
  const std::optional<Leader> leader = election.leader(patient());
  ASSERT_TRUE(leader);
  EXPECT_TRUE(leader->ready);
  EXPECT_EQ(leader->value, "next");
  Leadership former = std::move(leadership);
  former.release(patient());
  EXPECT_EQ(error_of([&] { former.async_ready([](Result<void>) {}); }), Errc::not_held);
  EXPECT_EQ(error_of([] { Leadership().proclaim("x"); }), Errc::not_held);
}

TEST_F(AsyncForms, OnePublicationAtATime) {
  LeaderElection election(client(), "/election");
  Leadership leadership = election.campaign(patient());
  Box<Result<void>> first;
  leadership.async_proclaim(
      "first", [&](Result<void> result) { first.put(std::move(result)); }, patient());
  const auto second = [&] {
    try {
      leadership.ready(patient());
    } catch (const zkclient::Error& error) {
      EXPECT_EQ(error.errc(), Errc::would_deadlock) << error.what();
      return false;
    }
    return true;
  };
  const bool both = second();
  first.take().value();
  EXPECT_TRUE(both || second()) << "the first one is over";
  EXPECT_EQ(election.leader(patient())->value, "first");
  EXPECT_TRUE(election.leader(patient())->ready);
}

TEST_F(AsyncForms, TheLimitOfASemaphore) {
  Semaphore constant(client(), "/constant", 3);
  EXPECT_EQ(wait_for<int>([&](auto h) { constant.async_limit(std::move(h), patient()); }), 3);
  EXPECT_EQ(error_of([&] { constant.async_set_limit(4, [](Result<void>) {}); }), Errc::invalid_argument);
  Semaphore semaphore(client(), "/semaphore", zkclient::Path("/limits/one"));
  EXPECT_EQ(wait_for<int>([&](auto h) { semaphore.async_limit(std::move(h), patient()); }), 0)
      << "there is no such node";
  for (const int limit : {2, 5}) {
    wait_for<void>([&](auto h) { semaphore.async_set_limit(limit, std::move(h), patient()); });
    EXPECT_EQ(wait_for<int>([&](auto h) { semaphore.async_limit(std::move(h), patient()); }), limit);
    EXPECT_EQ(semaphore.limit(patient()), limit);
  }
}

TEST_F(AsyncForms, PushIfThereIsRoom) {
  Queue queue(client(), "/queue", {.capacity = 1});
  EXPECT_TRUE(wait_for<bool>([&](auto h) { queue.async_try_push("a", std::move(h), patient()); }));
  EXPECT_FALSE(wait_for<bool>([&](auto h) { queue.async_try_push("b", std::move(h), patient()); }));
  PriorityQueue prioritized(client(), "/prioritized", {.capacity = 1});
  EXPECT_TRUE(wait_for<bool>([&](auto h) { prioritized.async_try_push("a", 1, std::move(h), patient()); }));
  EXPECT_FALSE(wait_for<bool>([&](auto h) { prioritized.async_try_push("b", 1, std::move(h), patient()); }));
  DelayQueue delayed(client(), "/delayed", {.capacity = 1});
  const auto now = std::chrono::system_clock::now();
  EXPECT_TRUE(wait_for<bool>([&](auto h) { delayed.async_try_push("a", now, std::move(h), patient()); }));
  EXPECT_FALSE(wait_for<bool>([&](auto h) { delayed.async_try_push("b", now, std::move(h), patient()); }));
  IdQueue identified(client(), "/identified", {.capacity = 1});
  EXPECT_TRUE(wait_for<bool>([&](auto h) { identified.async_try_push("a", "x", std::move(h), patient()); }));
  EXPECT_FALSE(wait_for<bool>([&](auto h) { identified.async_try_push("b", "x", std::move(h), patient()); }));
  EXPECT_EQ(queue.pop(patient()), "a");
}

// --- The loss of a lease, and what it guards ----------------------------------------------------------------------

class AsyncLost : public AsyncForms {
 protected:
  static void wait(const Lease& lease, Box<Result<void>>& box, const zkclient::CallOptions& call = {}) {
    lease.async_lost([&box](Result<void> result) { box.put(std::move(result)); }, call);
  }
};

TEST_F(AsyncLost, ALossEndsTheWait) {
  Mutex mutex(client(), "/mutex");
  const Lease lease = mutex.acquire(patient());
  Box<Result<void>> lost;
  wait(lease, lost);
  client().remove(zkclient::Path(lease.node()));
  EXPECT_TRUE(lost.take().has_value());
  EXPECT_FALSE(lease.valid());
  Box<Result<void>> later;
  wait(lease, later);
  EXPECT_TRUE(later.take().has_value()) << "it was lost before";
}

TEST_F(AsyncLost, AReleaseEndsTheWait) {
  Mutex mutex(client(), "/mutex");
  Lease lease = mutex.acquire(patient());
  Box<Result<void>> lost;
  wait(lease, lost);
  lease.release(patient());
  EXPECT_EQ(lost.take().error().errc(), Errc::not_held);
  Box<Result<void>> dropped;
  {
    const Lease brief = mutex.acquire(patient());
    wait(brief, dropped);
  }
  EXPECT_EQ(dropped.take().error().errc(), Errc::not_held);
  EXPECT_EQ(error_of([] { Lease().async_lost([](Result<void>) {}); }), Errc::not_held);
}

TEST_F(AsyncLost, DeadlineAndStopEndTheWait) {
  Mutex mutex(client(), "/mutex");
  const Lease lease = mutex.acquire(patient());
  Box<Result<void>> late;
  wait(lease, late, {.deadline = testkit::SteadyClock::now() + std::chrono::milliseconds(20)});
  EXPECT_EQ(late.take().error().errc(), Errc::deadline_exceeded);
  std::stop_source stop;
  Box<Result<void>> stopped;
  wait(lease, stopped, {.stop = stop.get_token()});
  stop.request_stop();
  EXPECT_EQ(stopped.take().error().errc(), Errc::cancelled);
  EXPECT_TRUE(lease.valid());
}

TEST_F(AsyncLost, TheEndOfTheClientIsALoss) {
  Box<Result<void>> lost;
  Lease lease;
  {
    zkclient::Client own = make_client();
    lease = Mutex(own, "/mutex").acquire(patient());
    wait(lease, lost);
  }
  EXPECT_TRUE(lost.take().has_value());
}

TEST_F(AsyncForms, ATransactionOfALease) {
  Mutex mutex(client(), "/mutex");
  Lease lease = mutex.acquire(patient());
  zkclient::Transaction first = lease.transaction();
  first.create("/written", "1");
  client().commit(first, patient());
  EXPECT_EQ(client().get("/written").data, "1");
  zkclient::Transaction late = lease.transaction();
  late.set("/written", "2");
  lease.release(patient());
  EXPECT_TRUE(error_of([&] { client().commit(late, patient()); }));
  EXPECT_EQ(client().get("/written").data, "1");
  EXPECT_EQ(error_of([] { (void)Lease().transaction(); }), Errc::not_held);
}

TEST_F(AsyncForms, QueuesAndBarriers) {
  Queue queue(client(), "/queue");
  PriorityQueue prioritized(client(), "/prioritized");
  wait_for<void>([&](auto h) { prioritized.async_push_all({"a", "b"}, 7, std::move(h), patient()); });
  EXPECT_EQ(prioritized.list(patient()).front().priority, 7);
  DelayQueue delayed(client(), "/delayed");
  const DelayQueue::TimePoint now = std::chrono::system_clock::now();
  wait_for<void>([&](auto h) { delayed.async_push("a", now, std::move(h), patient()); });
  wait_for<void>([&](auto h) { delayed.async_push_all({"b"}, now, std::move(h), patient()); });
  EXPECT_EQ(delayed.pop(patient()), "a");
  IdQueue identified(client(), "/identified");
  wait_for<void>([&](auto h) { identified.async_push("a", "x", std::move(h), patient()); });
  wait_for<void>([&](auto h) { identified.async_push_all({"b", "c"}, "x", std::move(h), patient()); });
  EXPECT_EQ(wait_for<std::size_t>([&](auto h) { identified.async_remove("x", std::move(h), patient()); }), 3U);
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

TEST_F(AsyncForms, Names) {
  Naming naming(client(), "/names");
  using Found = std::optional<Binding>;
  using All = std::vector<std::string>;
  EXPECT_TRUE(wait_for<All>([&](auto h) { naming.async_list(std::move(h), patient()); }).empty());
  const Lease one = wait_for<Lease>([&](auto h) { naming.async_bind("one", "1", std::move(h), patient()); });
  EXPECT_TRUE(one.valid());
  EXPECT_FALSE(
      wait_for<std::optional<Lease>>([&](auto h) { naming.async_try_bind("one", "2", std::move(h), patient()); }));
  const Lease own = wait_for<Lease>([&](auto h) { naming.async_make_unique("u-", "3", std::move(h), patient()); });
  wait_for<void>([&](auto h) { naming.async_bind_permanent("two", "4", std::move(h), patient()); });
  EXPECT_EQ(wait_for<std::int32_t>([&](auto h) { naming.async_rebind("two", "5", 0, std::move(h), patient()); }), 1);
  const Found two = wait_for<Found>([&](auto h) { naming.async_resolve("two", std::move(h), patient()); });
  ASSERT_TRUE(two);
  EXPECT_EQ(two->data, "5");
  EXPECT_EQ(wait_for<All>([&](auto h) { naming.async_list(std::move(h), patient()); }),
            (All{"one", "two", Naming::name_of(own)}));
  wait_for<void>([&](auto h) { naming.async_unbind("two", 1, std::move(h), patient()); });
  EXPECT_FALSE(wait_for<Found>([&](auto h) { naming.async_resolve("two", std::move(h), patient()); }));
  Box<Result<std::int32_t>> failed;
  naming.async_rebind(
      "two", "6", 1, [&](const Result<std::int32_t>& outcome) { failed.put(outcome); }, patient());
  EXPECT_EQ(failed.take().error().errc(), Errc::no_node);
  const std::vector<std::function<void()>> without_handler = {
      [&] { naming.async_bind("x", "", {}); },        [&] { naming.async_try_bind("x", "", {}); },
      [&] { naming.async_make_unique("x", "", {}); }, [&] { naming.async_bind_permanent("x", "", {}); },
      [&] { naming.async_rebind("x", "", 0, {}); },   [&] { naming.async_unbind("x", 0, {}); },
      [&] { naming.async_resolve("x", {}); },         [&] { naming.async_list({}); },
  };
  for (const auto& call : without_handler)
    EXPECT_EQ(error_of(call), Errc::invalid_argument);
  EXPECT_FALSE(naming.resolve("x", patient()));
}

TEST_F(AsyncForms, Numbers) {
  Counter counter(client(), "/number");
  const auto changed = [&](auto begin) { return wait_for<CounterChange>(begin); };
  EXPECT_EQ(changed([&](auto h) { counter.async_add(2, std::move(h), patient()); }), (CounterChange{0, 2}));
  const auto twice = [](std::int64_t number) { return 2 * number; };
  EXPECT_EQ(changed([&](auto h) { counter.async_update(twice, std::move(h), patient()); }), (CounterChange{2, 4}));
  EXPECT_TRUE(wait_for<bool>([&](auto h) { counter.async_compare_set(4, 5, std::move(h), patient()); }));
  EXPECT_FALSE(wait_for<bool>([&](auto h) { counter.async_compare_set(4, 6, std::move(h), patient()); }));
  wait_for<void>([&](auto h) { counter.async_set(7, std::move(h), patient()); });
  EXPECT_EQ(wait_for<std::int64_t>([&](auto h) { counter.async_get(std::move(h), patient()); }), 7);
  const std::vector<std::function<void()>> without_handler = {
      [&] { counter.async_add(1, {}); },        [&] { counter.async_get({}); },
      [&] { counter.async_set(1, {}); },        [&] { counter.async_compare_set(7, 1, {}); },
      [&] { counter.async_update(twice, {}); },
  };
  for (const auto& call : without_handler)
    EXPECT_EQ(error_of(call), Errc::invalid_argument);
  EXPECT_EQ(counter.get(patient()), 7);
}

TEST_F(AsyncForms, SharedValues) {
  SharedValue value(client(), "/value");
  const auto read = [&] { return wait_for<VersionedValue>([&](auto h) { value.async_get(std::move(h), patient()); }); };
  wait_for<void>([&](auto h) { value.async_set("1", std::move(h), patient()); });
  const ValueVersion first = read().version;
  EXPECT_TRUE(wait_for<bool>([&](auto h) { value.async_compare_set(first, "2", std::move(h), patient()); }));
  EXPECT_FALSE(wait_for<bool>([&](auto h) { value.async_compare_set(first, "3", std::move(h), patient()); }));
  const auto append = [](const VersionedValue& seen) { return std::optional(seen.data + "+"); };
  EXPECT_EQ(wait_for<std::optional<std::string>>([&](auto h) { value.async_update(append, std::move(h), patient()); }),
            "2+");
  EXPECT_EQ(read().data, "2+");
  const std::vector<std::function<void()>> without_handler = {
      [&] { value.async_get({}); },
      [&] { value.async_set("x", {}); },
      [&] { value.async_compare_set(read().version, "x", {}); },
      [&] { value.async_update(append, {}); },
  };
  for (const auto& call : without_handler)
    EXPECT_EQ(error_of(call), Errc::invalid_argument);
  EXPECT_EQ(read().data, "2+");
}

TEST_F(AsyncForms, Latches) {
  Latch latch(client(), "/latch", 2);
  const auto left = [&] { return wait_for<std::int64_t>([&](auto h) { latch.async_left(std::move(h), patient()); }); };
  EXPECT_EQ(left(), 2);
  latch.count_down(1, patient());
  EXPECT_EQ(wait_for<std::int64_t>([&](auto h) { latch.async_count_down(1, std::move(h), patient()); }), 0);
  EXPECT_EQ(left(), 0);
  wait_for<void>([&](auto h) { latch.async_wait(std::move(h), patient()); });
  const std::vector<std::function<void()>> without_handler = {
      [&] { latch.async_count_down(1, {}); },
      [&] { latch.async_wait({}); },
      [&] { latch.async_left({}); },
  };
  for (const auto& call : without_handler)
    EXPECT_EQ(error_of(call), Errc::invalid_argument);
}

TEST_F(AsyncForms, AMigration) {
  MigrationSet set("set");
  set.add("one", zkclient::Transaction().create("/one"));
  Migrations migrations(client(), "/locks", "/records");
  using Steps = std::vector<PendingStep>;
  using Names = std::vector<std::string>;
  EXPECT_EQ(wait_for<Steps>([&](auto h) { migrations.async_pending(set, std::move(h), patient()); }).size(), 1U);
  EXPECT_EQ(wait_for<Names>([&](auto h) { migrations.async_migrate(set, std::move(h), patient()); }), Names{"one"});
  EXPECT_EQ(error_of([&] { migrations.async_pending(set, {}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { migrations.async_migrate(set, {}); }), Errc::invalid_argument);
}

TEST_F(AsyncForms, Ids) {
  IdBlocks ids(client(), "/ids");
  const auto next = [&] { return wait_for<std::int64_t>([&](auto h) { ids.async_next(std::move(h), patient()); }); };
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 2);
  WorkerIds workers(client(), "/workers");
  WorkerId worker = wait_for<WorkerId>([&](auto h) { workers.async_acquire(std::move(h), patient()); });
  EXPECT_EQ(worker.number(), 0);
  const std::vector<std::function<void()>> without_handler = {
      [&] { ids.async_next({}); },
      [&] { workers.async_acquire({}); },
      [&] { worker.async_release({}); },
  };
  for (const auto& call : without_handler)
    EXPECT_EQ(error_of(call), Errc::invalid_argument);
  (void)worker.next();
  wait_for<void>([&](auto h) { worker.async_release(std::move(h), patient()); });
  EXPECT_EQ(error_of([&] { worker.next(); }), Errc::not_held);
}

TEST_F(AsyncForms, PeriodicJobs) {
  const PeriodicJob job(client(), "/job", every(std::chrono::hours(1)), [](std::stop_token, const JobFiring&) {});
  using Status = std::optional<JobStatus>;
  using Runs = std::vector<JobRun>;
  EXPECT_FALSE(wait_for<Status>([&](auto h) { job.async_status(std::move(h), patient()); }));
  EXPECT_TRUE(wait_for<Runs>([&](auto h) { job.async_history(std::move(h), patient()); }).empty());
  EXPECT_EQ(error_of([&] { job.async_status({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { job.async_history({}); }), Errc::invalid_argument);
}

TEST_F(AsyncForms, Functions) {
  Optimistic bank(client(), "/bank");
  const auto make = [](OptimisticView& view) { view.create("/account", "1"); };
  wait_for<void>([&](auto h) { bank.async_atomically(make, std::move(h), patient()); });
  EXPECT_EQ(error_of([&] { bank.async_atomically(make, {}); }), Errc::invalid_argument);
  EXPECT_EQ(client().get("/account").data, "1");
}

TEST_F(AsyncForms, CoherentItems) {
  CoherentCache cache(client(), "/coherent");
  const auto compared = [&](auto begin) { return wait_for<bool>(begin); };
  const auto get = [&] {
    return wait_for<CoherentItemPtr>([&](auto h) { cache.async_get("a", std::move(h), patient()); });
  };
  wait_for<void>([&](auto h) { cache.async_create("a", "1", std::move(h), patient()); });
  wait_for<void>([&](auto h) { cache.async_put("a", "2", std::move(h), patient()); });
  const CoherentItemPtr item = get();
  EXPECT_EQ(item->data, "2");
  EXPECT_TRUE(compared([&](auto h) { cache.async_compare_put("a", item->revision, "3", std::move(h), patient()); }));
  EXPECT_FALSE(compared([&](auto h) { cache.async_compare_put("a", item->revision, "4", std::move(h), patient()); }));
  EXPECT_FALSE(compared([&](auto h) { cache.async_compare_remove("a", item->revision, std::move(h), patient()); }));
  const auto twice = [](const CoherentItem& one) -> std::optional<std::string> { return one.data + one.data; };
  using Updated = std::optional<std::string>;
  EXPECT_EQ(wait_for<Updated>([&](auto h) { cache.async_update("a", twice, std::move(h), patient()); }), "33");
  EXPECT_EQ(get()->data, "33");
  wait_for<void>([&](auto h) { cache.async_remove("a", std::move(h), patient()); });
  EXPECT_FALSE(get()->exists);
  const std::vector<std::function<void()>> without_handler = {
      [&] { cache.async_get("a", {}); },
      [&] { cache.async_put("a", "1", {}); },
      [&] { cache.async_create("a", "1", {}); },
      [&] { cache.async_compare_put("a", 0, "1", {}); },
      [&] { cache.async_compare_remove("a", 1, {}); },
      [&] { cache.async_remove("a", {}); },
      [&] { cache.async_update("a", twice, {}); },
  };
  for (const auto& call : without_handler)
    EXPECT_EQ(error_of(call), Errc::invalid_argument);
  EXPECT_FALSE(get()->exists);
}

TEST_F(AsyncForms, PersistentNodes) {
  PersistentNode node(client(), "/node", "1");
  PersistentTtlNode ttl(client(), "/ttl", std::chrono::hours(1), "1");
  for (PersistentNodeBase* kept : {static_cast<PersistentNodeBase*>(&node), static_cast<PersistentNodeBase*>(&ttl)}) {
    wait_for<void>([&](auto h) { kept->async_wait_created(std::move(h), patient()); });
    wait_for<void>([&](auto h) { kept->async_set_data("2", std::move(h), patient()); });
    EXPECT_EQ(client().get(kept->path()).data, "2");
    const std::vector<std::function<void()>> without_handler = {
        [&] { kept->async_wait_created({}); },
        [&] { kept->async_set_data("3", {}); },
        [&] { kept->async_remove({}); },
        [&] { (void)kept->on_state({}); },
    };
    for (const auto& call : without_handler)
      EXPECT_EQ(error_of(call), Errc::invalid_argument);
    EXPECT_EQ(client().get(kept->path()).data, "2");
    wait_for<void>([&](auto h) { kept->async_remove(std::move(h), patient()); });
    EXPECT_FALSE(client().exists(kept->path()));
  }
}

TEST_F(AsyncForms, Replicas) {
  const auto group = [&](const char* id) {
    ReplicaHandlers handlers{[](const PrimaryTerm&) {}, [](const SecondaryTerm&) {}};
    ReplicaGroupOptions options;
    options.read_term = std::chrono::milliseconds(100);
    return ReplicaGroup(client(), "/replicas", {id, "disk"}, std::move(handlers), options);
  };
  ReplicaGroup first = group("a");
  ASSERT_TRUE(testkit::eventually([&] { return first.may_write(); }));
  ReplicaGroup second = group("b");
  ASSERT_TRUE(testkit::eventually([&] { return first.members().size() == 2; }));
  wait_for<void>([&](auto h) { second.async_report_version(7, std::move(h), patient()); });
  wait_for<void>([&](auto h) { first.async_expand(1, "b", "disk", std::move(h), patient()); });
  EXPECT_EQ(first.in_sync().size(), 2U);
  wait_for<void>([&](auto h) { first.async_shrink({"b"}, std::move(h), patient()); });
  EXPECT_EQ(first.in_sync().size(), 1U);
  const std::vector<std::function<void()>> without_handler = {
      [&] { first.async_report_version(1, {}); },
      [&] { first.async_expand(1, "b", "disk", {}); },
      [&] { first.async_shrink({"b"}, {}); },
      [&] { first.async_leave({}); },
      [&] { async_force_primary(client(), "/replicas", "b", {}); },
  };
  for (const auto& call : without_handler)
    EXPECT_EQ(error_of(call), Errc::invalid_argument);
  wait_for<void>([&](auto h) { first.async_leave(std::move(h), patient()); });
  EXPECT_EQ(first.role(), ReplicaRole::left);
  wait_for<void>([&](auto h) { async_force_primary(client(), "/replicas", "b", std::move(h), patient()); });
  EXPECT_TRUE(testkit::eventually([&] { return second.may_write(); }));
}

TEST_F(AsyncForms, Partitions) {
  using Owners = PartitionMap::Owners;
  Box<Partition> kept;
  const auto keep = [&](Partition partition) { kept.put(std::move(partition)); };
  PartitionerOptions options{.id = "leaver"};
  options.grace = std::chrono::milliseconds(10);
  Partitioner leaver(client(), "/recipe", PartitionSource::numbered(1), keep, options);
  options.id = "stopper";
  Partitioner stopper(client(), "/recipe", PartitionSource::numbered(1), keep, options);
  const PartitionMap map(client(), "/recipe");
  EXPECT_EQ(error_of([&] { leaver.async_leave({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { stopper.async_stop({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { map.async_wait_ready({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { map.async_wait_owner("0", {}, {}); }), Errc::invalid_argument);
  leaver.start();
  const auto owner = wait_for<PartitionOwner>([&](auto h) { map.async_wait_owner("0", {}, std::move(h), patient()); });
  EXPECT_EQ(owner.id, "leaver");
  (void)wait_for<Owners>([&](auto h) { map.async_wait_ready(std::move(h), patient()); });
  wait_for<void>([&](auto h) { leaver.async_leave(std::move(h), patient()); });
  stopper.start();
  const auto next =
      wait_for<PartitionOwner>([&](auto h) { map.async_wait_owner("0", owner.token, std::move(h), patient()); });
  EXPECT_EQ(next.id, "stopper");
  wait_for<void>([&](auto h) { stopper.async_stop(std::move(h), patient()); });
}

TEST_F(AsyncForms, Configurations) {
  ConfigurationOptions reporting;
  reporting.id = "one";
  reporting.report = true;
  Configuration config(client(), "/config", reporting);
  using Now = ConfigurationPtr;
  using History = std::vector<ConfigurationRevision>;
  ConfigurationUpdate update;
  update.values = {{"a", "1"}, {"b", "1"}};
  const auto publish = [&](std::int64_t expected) {
    return wait_for<std::int64_t>([&](auto h) { config.async_publish(update, expected, std::move(h), patient()); });
  };
  EXPECT_TRUE(wait_for<History>([&](auto h) { config.async_history(std::move(h), patient()); }).empty());
  EXPECT_EQ(publish(0), 1);
  const Now first = wait_for<Now>([&](auto h) { config.async_wait_for_revision(1, std::move(h), patient()); });
  EXPECT_EQ(first->at("a"), "1");
  EXPECT_EQ(wait_for<Now>([&](auto h) { config.async_wait_ready(std::move(h), patient()); })->revision, 1);
  EXPECT_EQ(wait_for<Now>([&](auto h) { config.async_wait_live(std::move(h), patient()); })->revision, 1);
  update.values = {{"a", "2"}};
  EXPECT_EQ(publish(1), 2);
  EXPECT_EQ(wait_for<std::int64_t>([&](auto h) { config.async_roll_back(1, std::move(h), patient()); }), 3);
  EXPECT_EQ(config.wait_for_revision(3, patient())->at("a"), "1");
  EXPECT_EQ(wait_for<History>([&](auto h) { config.async_history(std::move(h), patient()); }).size(), 3U);
  using RollOut = ConfigurationRollOut;
  const auto rolled_out = [&](std::vector<std::string> ids, const zkclient::CallOptions& call) {
    return wait_for<RollOut>([&](auto h) { config.async_wait_applied(3, ids, std::move(h), call); });
  };
  EXPECT_TRUE(rolled_out({"one"}, patient()).complete());
  EXPECT_EQ(rolled_out({"nobody"}, {.deadline = std::chrono::milliseconds(50)}).missing.size(), 1U);
  Box<Result<std::int64_t>> failed;
  const auto put = [&](Result<std::int64_t> outcome) { failed.put(std::move(outcome)); };
  config.async_publish(update, 1, put, patient());
  EXPECT_EQ(failed.take().error().errc(), Errc::bad_version);
  config.async_roll_back(3, put, patient());
  EXPECT_EQ(failed.take().error().errc(), Errc::invalid_argument);
  const std::vector<std::function<void()>> without_handler = {
      [&] { config.async_publish(update, 3, {}); },
      [&] { config.async_roll_back(1, {}); },
      [&] { config.async_history({}); },
      [&] { config.async_wait_ready({}); },
      [&] { config.async_wait_live({}); },
      [&] { config.async_wait_for_revision(1, {}); },
      [&] { config.async_wait_applied(1, {"one"}, {}); },
      [&] { config.async_publish({}, 3, put); },
  };
  for (std::size_t i = 0; i + 1 < without_handler.size(); ++i)
    EXPECT_EQ(error_of(without_handler[i]), Errc::invalid_argument);
  without_handler.back()();
  EXPECT_EQ(failed.take().error().errc(), Errc::invalid_argument) << "nothing to publish";
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

// --- What all constructors check alike -----------------------------------------------------------------------------

TEST_F(AsyncForms, ADefectiveAclIsRefusedByEveryRecipe) {
  const zkclient::AclList empty;
  const zkclient::AclList torn = {zkclient::Acl{zkclient::Acl::all, "world", std::string("any\0one", 7)}};
  for (const zkclient::AclList& acl : {empty, torn}) {
    const std::vector<std::function<void()>> recipes = {
        [&] { Mutex(client(), "/x", {.acl = acl}); },
        [&] { RecursiveMutex(client(), "/x", {.acl = acl}); },
        [&] { SharedMutex(client(), "/x", {.acl = acl}); },
        [&] { UnfairMutex(client(), "/x", {.acl = acl}); },
        [&] { Semaphore(client(), "/x", 1, {.acl = acl}); },
        [&] { LeaderElection(client(), "/x", {.acl = acl}); },
        [&] { UnfairLeaderElection(client(), "/x", {.acl = acl}); },
        [&] { LeaderSelector(client(), "/x", [](std::stop_token, SelectedLeadership&) {}, {.acl = acl}); },
        [&] { Barrier(client(), "/x", {.acl = acl}); },
        [&] { Naming(client(), "/x", {.acl = acl}); },
        [&] { Counter(client(), "/x", {.acl = acl}); },
        [&] { Latch(client(), "/x", 1, {.acl = acl}); },
        [&] { Migrations(client(), "/locks", "/x", {.acl = acl}); },
        [&] { SharedValue(client(), "/x", {.acl = acl}); },
        [&] { IdBlocks(client(), "/x", {.acl = acl}); },
        [&] { WorkerIds(client(), "/x", {.acl = acl}); },
        [&] {
          PeriodicJobOptions options;
          options.acl = acl;
          PeriodicJob(
              client(), "/x", every(std::chrono::hours(1)), [](std::stop_token, const JobFiring&) {}, options);
        },
        [&] { Optimistic(client(), "/x", {.acl = acl}); },
        [&] { CoherentCache(client(), "/x", {.acl = acl}); },
        [&] { Partitioner(client(), "/x", PartitionSource::numbered(1), [](const Partition&) {}, {.acl = acl}); },
        [&] { DoubleBarrier(client(), "/x", 2, {.acl = acl}); },
        [&] { Queue(client(), "/x", {.acl = acl}); },
        [&] { PriorityQueue(client(), "/x", {.acl = acl}); },
        [&] { DelayQueue(client(), "/x", {.acl = acl}); },
        [&] { IdQueue(client(), "/x", {.acl = acl}); },
        [&] { CommitCoordinator(client(), "/x", {.acl = acl}); },
        [&] { CommitParticipant(client(), "/x", "a", std::make_shared<testkit::MemoryLog>("log"), {.acl = acl}); },
    };
    for (std::size_t i = 0; i < recipes.size(); ++i)
      EXPECT_EQ(error_of([&] { recipes[i](); }), Errc::invalid_acl) << "recipe " << i;
  }
}

}  // namespace
}  // namespace zkrecipes
