// Waits that end without what they waited for: each says what that is, and what it saw last, in both call forms.

#include <functional>
#include <future>
#include <string>

#include <gtest/gtest.h>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/service_provider.hpp>

#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::Box;
using testkit::eventually;
using testkit::soon;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Result;

class EndedWaits : public testkit::RecipeTest {
 protected:
  EndedWaits() : RecipeTest("/waits") {}

  using Wait = std::function<void(const CallOptions& call)>;
  /// The asynchronous form of a wait for a T.
  template <typename T>
  using Start = std::function<void(zkclient::Handler<T> handler, const CallOptions& call)>;

  /// What the error of a call says that has little time. What it sees last depends on how far it came: so it is asked
  /// again until it says `text`.
  static testing::AssertionResult says(const Wait& wait, const std::string& text) {
    std::string last = "it did not end";
    const bool said = eventually([&] {
      try {
        wait({.deadline = testkit::SteadyClock::now() + 50ms});
        last = "it came to its end";
      } catch (const zkclient::Error& error) {
        last = error.what();
        return error.errc() == Errc::deadline_exceeded && last.find(text) != std::string::npos;
      }
      return false;
    });
    return (said ? testing::AssertionSuccess() : testing::AssertionFailure()) << last;
  }
  template <typename T>
  static Wait blocking(const Start<T>& start) {
    return [start](const CallOptions& call) {
      Box<Result<T>> box;
      start([&](Result<T> result) { box.put(std::move(result)); }, call);
      (void)box.take().value();
    };
  }
};

TEST_F(EndedWaits, OfACacheWithoutASnapshot) {
  const zkclient::Client nowhere("127.0.0.1:1");
  const NodeCache cache(nowhere, path());
  const std::string text = "waited for the first snapshot; last seen: nothing has been read yet; 127.0.0.1:1 ";
  EXPECT_TRUE(says([&](const CallOptions& call) { cache.wait_ready(call); }, text));
  EXPECT_TRUE(says(blocking<Snapshot>([&](auto handler, const CallOptions& call) {
                     cache.async_wait_ready(std::move(handler), call);
                   }),
                   text));
}

TEST_F(EndedWaits, OfACacheForAPredicate) {
  client().create(path(), "");
  const NodeCache cache(client(), path());
  const auto never = [](const Snapshot&) { return false; };
  const std::string text = "waited for a snapshot that the predicate takes; last seen: a node with 0 nodes below it";
  EXPECT_TRUE(says([&](const CallOptions& call) { cache.wait_until(never, call); }, text));
  EXPECT_TRUE(says(blocking<Snapshot>([&](auto handler, const CallOptions& call) {
                     cache.async_wait_until(never, std::move(handler), call);
                   }),
                   text));
}

TEST_F(EndedWaits, OfAConfigurationThatNobodyHasPublished) {
  const Configuration configuration(client(), path());
  const std::string text = "waited for a configuration; last seen: nothing is published, there is no node";
  EXPECT_TRUE(says([&](const CallOptions& call) { configuration.wait_ready(call); }, text));
  EXPECT_TRUE(says(blocking<ConfigurationPtr>([&](auto handler, const CallOptions& call) {
                     configuration.async_wait_ready(std::move(handler), call);
                   }),
                   text));
}

TEST_F(EndedWaits, OfAConfigurationForALaterRevision) {
  Configuration configuration(client(), path());
  configuration.publish({.values = {{"a", "1"}}}, any_revision, {.deadline = soon()});
  const std::string text = "waited for revision 7 or a later one; last seen: revision 1, live";
  EXPECT_TRUE(says([&](const CallOptions& call) { configuration.wait_for_revision(7, call); }, text));
}

TEST_F(EndedWaits, OfAGroupForMoreMembers) {
  Group group(client(), path());
  const Membership a = group.join("a", {}, {.deadline = soon()});
  const std::string text = "waited for 3 members; last seen: 1 member: \"a\"";
  EXPECT_TRUE(says([&](const CallOptions& call) { group.wait_for_members(3, call); }, text));
  EXPECT_TRUE(says(blocking<GroupSnapshot>([&](auto handler, const CallOptions& call) {
                     group.async_wait_for_members(3, std::move(handler), call);
                   }),
                   text));
}

TEST_F(EndedWaits, OfAMemberWhoseIdAnotherSessionHas) {
  Group group(client(), path());
  const Membership a = group.join("a", {}, {.deadline = soon()});
  const zkclient::Client other = make_client();
  Group others(other, path());
  const Membership second = others.begin_join("a");
  const std::string text = "waited for the node with its data; last seen: absent; session 0x";
  EXPECT_TRUE(says([&](const CallOptions& call) { second.wait_present(call); }, text));
  EXPECT_TRUE(says(blocking<void>([&](auto handler, const CallOptions& call) {
                     second.async_wait_present(std::move(handler), call);
                   }),
                   text));
}

TEST_F(EndedWaits, OfAnElectionWithoutALeader) {
  const LeaderElection election(client(), path(), {.id = "looker"});
  const std::string text = "waited for a leader that is ready; last seen: no leader";
  EXPECT_TRUE(says([&](const CallOptions& call) { election.wait_for_leader({}, call); }, text));
  EXPECT_TRUE(says(blocking<Leader>([&](auto handler, const CallOptions& call) {
                     election.async_wait_for_leader({}, std::move(handler), call);
                   }),
                   text));
}

TEST_F(EndedWaits, OfAnElectionForAnotherLeader) {
  LeaderElection election(client(), path(), {.id = "first"});
  const auto lead = election.campaign({.deadline = soon()});
  const std::optional<Leader> leader = election.leader({.deadline = soon()});
  const std::string text = "waited for another state than leader \"first\" (";
  EXPECT_TRUE(says([&](const CallOptions& call) { election.wait_for_change(leader, call); }, text));
}

TEST_F(EndedWaits, OfAPartitionWithoutAnOwner) {
  const PartitionMap map(client(), path());
  map.wait_ready({.deadline = soon()});
  const std::string text = "waited for an owner of partition p; last seen: no owner";
  EXPECT_TRUE(says([&](const CallOptions& call) { map.wait_owner("p", {}, call); }, text));
  EXPECT_TRUE(says(blocking<PartitionOwner>([&](auto handler, const CallOptions& call) {
                     map.async_wait_owner("p", {}, std::move(handler), call);
                   }),
                   text));
}

TEST_F(EndedWaits, OfABarrierThatIsUp) {
  Barrier barrier(client(), path(), {.id = "raiser"});
  barrier.raise();
  EXPECT_TRUE(says([&](const CallOptions& call) { barrier.wait(call); }, "raised by id=raiser"));
}

TEST_F(EndedWaits, OfADoubleBarrierWithTooFewMembers) {
  DoubleBarrier barrier(client(), path(), 3);
  const std::string text = "waited for a round of 3 members; last seen: 1 member";
  EXPECT_TRUE(says([&](const CallOptions& call) { barrier.enter(call); }, text));
}

TEST_F(EndedWaits, OfAProviderWithoutAConnection) {
  const zkclient::Client nowhere("127.0.0.1:1");
  const ServiceDirectory directory(nowhere, path());
  const ServiceProvider provider = directory.provider("service");
  const std::string text = "waited for the first snapshot; last seen: nothing has been read yet; 127.0.0.1:1 ";
  EXPECT_TRUE(says([&](const CallOptions& call) { (void)provider.wait_ready(call); }, text));
}

TEST_F(EndedWaits, OfAFixedInstanceWithoutAConnection) {
  const zkclient::Client nowhere("127.0.0.1:1");
  ServiceDirectory directory(nowhere, path());
  const ServiceInstance instance{.name = "service", .id = "a", .type = ServiceType::fixed};
  Registration a = directory.begin_register_instance(instance);
  const std::string text = "waited for the node; last seen: joining";
  EXPECT_TRUE(says([&](const CallOptions& call) { a.wait_present(call); }, text));
  EXPECT_TRUE(says(
      blocking<void>([&](auto handler, const CallOptions& call) { a.async_wait_present(std::move(handler), call); }),
      text));
  const std::string other_text = "waited for the node with its data; last seen: joining";
  EXPECT_TRUE(says([&](const CallOptions& call) { a.update(instance, call); }, other_text));
  EXPECT_TRUE(says(blocking<void>([&](auto handler, const CallOptions& call) {
                     a.async_update(instance, std::move(handler), call);
                   }),
                   other_text));
}

// It says so when there is nothing to wait for any more, too.
TEST_F(EndedWaits, OfAFixedInstanceWhoseClientIsClosed) {
  zkclient::Client nowhere("127.0.0.1:1");
  ServiceDirectory directory(nowhere, path());
  const Registration a = directory.begin_register_instance({.name = "service", .id = "a", .type = ServiceType::fixed});
  Box<Result<void>> box;
  a.async_wait_present([&](Result<void> result) { box.put(std::move(result)); });
  nowhere.close();
  const Result<void> result = box.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().errc(), Errc::closed);
  EXPECT_NE(result.error().detail().find("waited for the node; last seen: "), std::string::npos)
      << result.error().what();
}

// The caller who gives up is told as well.
TEST_F(EndedWaits, OfACallerWhoGivesUp) {
  Group group(client(), path());
  const Membership a = group.join("a", {}, {.deadline = soon()});
  std::stop_source stop;
  Box<Result<GroupSnapshot>> box;
  group.async_wait_for_members(2, [&](Result<GroupSnapshot> result) { box.put(std::move(result)); },
                               {.stop = stop.get_token()});
  stop.request_stop();
  const Result<GroupSnapshot> result = box.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().errc(), Errc::cancelled);
  EXPECT_EQ(result.error().operation(), "wait for members");
  EXPECT_NE(result.error().detail().find("waited for 2 members; last seen: "), std::string::npos)
      << result.error().what();
}

}  // namespace
}  // namespace zkrecipes
