#pragma once

#include <deque>
#include <future>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/unfair_leader_election.hpp>

#include "tests/support/recipe_test.hpp"

/// What the tests of all elections share.
namespace testkit {

/// An election, and what tells it from the other one at the server.
struct ElectionKind {
  const char* name;
  zktesting::RequestType creation;
  zktesting::RequestType removal;
  zktesting::RequestType locating;  ///< How an observer finds out who leads, or that the place is empty.
  std::size_t leading;              ///< Nodes of a leader,
  std::size_t queued;               ///< and of a candidate that waits.
};
inline const ElectionKind fair = {
    "Fair", zktesting::RequestType::create2, zktesting::RequestType::remove, zktesting::RequestType::get_children2, 1,
    1};
inline const ElectionKind unfair = {
    "Unfair", zktesting::RequestType::multi, zktesting::RequestType::multi, zktesting::RequestType::exists, 2, 0};

/// An election at /election of the kind that is the parameter.
class AnyElectionTest : public RecipeFaultTest, public ::testing::WithParamInterface<const ElectionKind*> {
 protected:
  AnyElectionTest() : RecipeFaultTest("/election") {}

  static const ElectionKind& kind() { return *GetParam(); }
  static bool is_fair() { return &kind() == &fair; }
  zkrecipes::Election& candidate(const zkclient::Client& client, const std::string& id,
                                 const zkclient::Path& path = "/election") {
    const std::lock_guard lock(mutex_);
    if (is_fair()) return fair_.emplace_back(client, path, zkrecipes::LeaderElectionOptions{.id = id});
    return unfair_.emplace_back(client, path, zkrecipes::UnfairLeaderElectionOptions{.id = id});
  }
  /// The node with which a leadership stands and falls: its leader and the candidates watch it.
  static zkclient::Path own(const zkrecipes::Leadership& held) {
    return is_fair() ? zkclient::Path(held.node()) : zkclient::Path("/election/leader");
  }
  /// A candidate in a thread of its own, which is at rest when this returns: its node is there, if it has one, and its
  /// watch is armed (an observer of the same client may have armed one before).
  std::future<zkrecipes::Leadership> campaign_behind(zkrecipes::Election& election, const zkclient::Client& client,
                                                     const zkclient::Path& predecessor) {
    const std::size_t before = names().size();
    auto waiting = in_thread([&election] { return election.campaign({.deadline = soon()}); });
    EXPECT_TRUE(remain(before + kind().queued));
    EXPECT_TRUE(watches(client, predecessor));
    return waiting;
  }

 private:
  std::mutex mutex_;
  std::deque<zkrecipes::LeaderElection> fair_;
  std::deque<zkrecipes::UnfairLeaderElection> unfair_;
};

#define INSTANTIATE_FOR_ALL_ELECTIONS(suite)                                                \
  INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::Values(&testkit::fair, &testkit::unfair), \
                           [](const auto& instance) { return std::string(instance.param->name); })

}  // namespace testkit
