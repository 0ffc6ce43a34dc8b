// Those who leave, are replaced, or come back, on a server that enforces quotas, when the quota is full.

#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/semaphore.hpp>

#include "tests/recipes/replication/replica_support.hpp"
#include "tests/support/partition_test.hpp"
#include "tests/support/quota_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::PartitionWorker;
using testkit::TestReplica;

class MembersQuota : public testkit::QuotaTest {
 protected:
  /// Its calls end without an error.
  template <typename Call>
  static void expect_done(Call&& call) {
    const auto ended = std::make_shared<Box<Result<void>>>();
    call([ended](Result<void> result) { ended->put(std::move(result)); });
    const Result<void> result = ended->take();
    EXPECT_TRUE(result.has_value()) << result.error().what();
  }
  std::unique_ptr<PartitionWorker> work(const Client& client, const std::string& id) const {
    PartitionerOptions options;
    options.id = id;
    options.settle = 50ms;
    options.grace = 60s;
    return std::make_unique<PartitionWorker>(client, root() / "parts", PartitionSource::numbered(4), options,
                                             PartitionWorker::Behaviour{});
  }
  static ServiceInstance instance(const std::string& id, ServiceType type) {
    return {.name = "web", .id = id, .address = "10.0.0.1", .port = 80, .type = type};
  }
  Path node(const std::string& id) const { return root() / "services/web" / id; }
};

TEST_F(MembersQuota, RoundsAreLeft) {
  DoubleBarrier a(proxied(), root() / "round", 2);
  DoubleBarrier b(the_operator(), root() / "round", 2);
  auto entering = in_thread([&] {
    (void)a.enter(patient());
    return true;
  });
  (void)b.enter(patient());
  ASSERT_TRUE(result_of(entering));
  allow_nothing();
  auto leaving = in_thread([&] {
    a.leave(patient());
    return true;
  });
  expect_done([&](auto handler) { b.async_leave(std::move(handler), patient()); });
  EXPECT_TRUE(result_of(leaving));
  EXPECT_EQ(ephemerals(), 0U);
}

TEST_F(MembersQuota, SeveralLeasesAreReleased) {
  Mutex mutex(proxied(), root() / "mutex");
  Semaphore semaphore(proxied(), root() / "semaphore", 3);
  MultiLock both;
  both.add(mutex).add(semaphore);
  MultiLease leases = both.acquire(patient());
  allow_nothing();
  leases.release(patient());
  EXPECT_EQ(ephemerals(), 0U);
  allow_all();
  leases = both.acquire(patient());
  allow_nothing();
  expect_done([&](auto handler) { leases.async_release(std::move(handler), patient()); });
  EXPECT_EQ(ephemerals(), 0U);
}

TEST_F(MembersQuota, InstancesAreUnregistered) {
  ServiceDirectory directory(proxied(), root() / "services");
  Registration going = directory.register_instance(instance("a", ServiceType::dynamic), patient());
  Registration fixed = directory.register_instance(instance("b", ServiceType::fixed), patient());
  allow_nothing();
  going.unregister(patient());
  expect_done([&](auto handler) { fixed.async_unregister(std::move(handler), patient()); });
  EXPECT_EQ(children(root() / "services/web"), 0U);
  EXPECT_EQ(ephemerals(), 0U);
}

TEST_F(MembersQuota, InstancesAreBackAfterALostSession) {
  const Client client = proxied();
  ServiceDirectory directory(client, root() / "services");
  const Registration registration = directory.register_instance(instance("a", ServiceType::dynamic), patient());
  const std::int64_t session = client.session().id();
  allow_nothing();
  expire(client);
  EXPECT_TRUE(eventually([&] {
    const auto there = the_operator().exists(node("a"));
    return there && there->ephemeral_owner != session;
  }));
}

TEST_F(MembersQuota, AnInstanceReplacesAnotherOne) {
  ServiceDirectory before(the_operator(), root() / "services");
  const Registration former = before.register_instance(instance("a", ServiceType::dynamic), patient());
  allow_nothing();
  DirectoryOptions options;
  options.conflict = Conflict::replace;
  const Client client = proxied();
  ServiceDirectory directory(client, root() / "services", options);
  const Registration now = directory.register_instance(instance("a", ServiceType::dynamic), patient());
  EXPECT_EQ(the_operator().exists(node("a"))->ephemeral_owner, client.session().id());
}

TEST_F(MembersQuota, TermsOfASelectorEnd) {
  Box<int> begun;
  Box<int> go;
  LeaderSelector selector(proxied(), root() / "selector",
                          [&](const std::stop_token&, SelectedLeadership&) {
                            begun.put(1);
                            go.take();
                          },
                          {.requeue = false});
  selector.start();
  begun.take();
  allow_nothing();
  go.put(1);
  EXPECT_TRUE(eventually([&] { return ephemerals() == 0; }));
  selector.close(patient());
}

TEST_F(MembersQuota, PartitionsAreHandedOver) {
  const auto a = work(proxied(), "a");
  const auto b = work(the_operator(), "b");
  ASSERT_TRUE(eventually([&] { return a->count() + b->count() == 4; }));
  ASSERT_TRUE(eventually([&] { return a->count() > 0 && b->count() > 0; }));
  allow_nothing();
  a->partitioner().leave(patient());
  EXPECT_TRUE(eventually([&] { return b->count() == 4; }));
  expect_done([&](auto handler) { b->partitioner().async_leave(std::move(handler), patient()); });
  EXPECT_EQ(ephemerals(), 0U);
}

TEST_F(MembersQuota, AnOwnerIsBackAfterALostSession) {
  const Client client = proxied();
  const auto a = work(client, "a");
  ASSERT_TRUE(eventually([&] { return a->count() == 4; }));
  allow_nothing();
  expire(client);
  EXPECT_TRUE(eventually([&] { return a->lost() == 4 && a->count() == 4; }));
}

TEST_F(MembersQuota, PartitionsAreReleased) {
  const auto a = work(proxied(), "a");
  ASSERT_TRUE(eventually([&] { return a->count() == 4; }));
  allow_nothing();
  a->partition("0")->release(patient());
  EXPECT_TRUE(eventually([&] { return a->count() == 4 && a->given() == 5; }));  // It shall have it.
}

TEST_F(MembersQuota, APrimaryIsReplaced) {
  const Client client(proxy.connect_string(), {.session_timeout = calm, .prefix = root()});
  ReplicaGroupOptions options;
  options.settle = 50ms;
  options.read_term = 500ms;
  TestReplica a(client, "a", options);
  ASSERT_TRUE(a.may_write());
  TestReplica b(Client(server().connect_string(), {.session_timeout = calm, .prefix = root()}), "b", options);
  take_in(a, b, "b");
  allow_no_node();
  a->leave(patient());
  EXPECT_TRUE(b.may_write());
  expect_done([&](auto handler) { b->async_leave(std::move(handler), patient()); });
  EXPECT_TRUE(eventually([&] { return ephemerals() == 0; }));
}

TEST_F(MembersQuota, PrioritiesAreKept) {
  PriorityQueue(the_operator(), root() / "queue").push_all({"late", "later"}, 2, patient());
  PriorityQueue(the_operator(), root() / "queue").push_all({"early", "soon"}, 1, patient());
  allow_nothing();
  PriorityQueue queue(proxied(), root() / "queue");
  EXPECT_EQ(queue.pop(patient()), "early");
  Claim claim = queue.claim(patient());
  EXPECT_EQ(claim.data(), "soon");
  claim.commit(patient());
  Box<Result<std::string>> popped;
  queue.async_pop([&](Result<std::string> item) { popped.put(std::move(item)); }, patient());
  EXPECT_EQ(popped.take().value(), "late");
  Box<Result<Claim>> claimed;
  queue.async_claim([&](Result<Claim> item) { claimed.put(std::move(item)); }, patient());
  Claim last = claimed.take().value();
  EXPECT_EQ(last.data(), "later");
  expect_done([&](auto handler) { last.async_commit(std::move(handler), patient()); });
  EXPECT_FALSE(queue.try_claim(patient()));
}

TEST_F(MembersQuota, AsynchronousCallsFree) {
  Mutex mutex(proxied(), root() / "mutex");
  LeaderElection election(proxied(), root() / "election");
  Group group(proxied(), root() / "group");
  Barrier barrier(proxied(), root() / "barrier");
  Lease lease = mutex.acquire(patient());
  const Leadership leadership = election.campaign(patient());
  Membership member = group.join("me", "payload", patient());
  barrier.raise(BarrierLife::ephemeral, patient());
  allow_nothing();
  expect_done([&](auto handler) { lease.async_release(std::move(handler), patient()); });
  expect_done([&](auto handler) { election.async_resign(std::move(handler), patient()); });
  expect_done([&](auto handler) { member.async_leave(std::move(handler), patient()); });
  expect_done([&](auto handler) { barrier.async_lower(std::move(handler), patient()); });
  EXPECT_EQ(ephemerals(), 0U);
}

}  // namespace
}  // namespace zkrecipes
