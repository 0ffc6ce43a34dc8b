// V15: many clients with a large cache each lose their servers at once, because the ensemble elects another leader. What
// has not changed is not read again, so that the election does not end in a flood of reads.
//
// ZKRECIPES_SOAK makes the caches as large as those that were in trouble elsewhere: 5,000 nodes.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <zkclient/client.hpp>
#include <zkrecipes/tree_cache.hpp>
#include <zktesting/ensemble.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/ensembles.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

constexpr std::size_t followers_of_the_tree = 200;
constexpr auto long_session = 60s;

/// An ensemble of which every server has a proxy in front, which counts what clients ask.
class CountedEnsemble {
 public:
  explicit CountedEnsemble(const zktesting::EnsembleOptions& options) : made_(testkit::make_ensemble(options)) {
    for (std::size_t i = 0; i < ensemble.size(); ++i)
      proxies_.push_back(std::make_unique<zktesting::Proxy>(ensemble.connect_string(i)));
  }
  std::string connect_string() const {
    std::string all;
    for (const auto& proxy : proxies_)
      all += (all.empty() ? "" : ",") + proxy->connect_string();
    return all;
  }
  void refuse(bool refused) {
    for (const auto& proxy : proxies_)
      proxy->refuse(refused);
  }
  std::size_t requests(RequestType type) const {
    return std::accumulate(proxies_.begin(), proxies_.end(), std::size_t{0},
                           [type](std::size_t sum, const auto& proxy) { return sum + proxy->request_count(type); });
  }
  std::size_t reads() const {
    return requests(RequestType::get_data) + requests(RequestType::exists) + requests(RequestType::get_children) +
           requests(RequestType::get_children2);
  }

 private:
  const std::unique_ptr<testkit::FaultEnsemble> made_;

 public:
  testkit::FaultEnsemble& ensemble = *made_;

 private:
  std::vector<std::unique_ptr<zktesting::Proxy>> proxies_;
};

/// A client with a cache of its own, and what the cache has told.
class Follower {
 public:
  Follower(zkclient::Runtime& runtime, const std::string& servers)
      : client_(runtime, servers, {.session_timeout = long_session}), cache_(client_, "/tree") {
    states_ = cache_.on_state([this](CacheState state) {
      if (state == CacheState::stale) ++stale_;
      told_ = state;
    });
    changes_ = cache_.on_change([this](const std::vector<Change>&, const Snapshot&) { ++calls_; });
  }

  const TreeCache& cache() const { return cache_; }
  std::int64_t session() const { return client_.session().id(); }
  /// And it has been told so: else it is told nothing of a stale time that is over when it is told next.
  bool is_current() const {
    return cache_.state() == CacheState::current && told_ == CacheState::current && calls_ > 0;
  }
  bool was_stale() const { return stale_ > 0; }
  int calls() const { return calls_; }

 private:
  const Client client_;
  std::atomic<int> stale_{0};
  std::atomic<CacheState> told_{CacheState::loading};
  std::atomic<int> calls_{0};
  TreeCache cache_;
  zkclient::Subscription states_;
  zkclient::Subscription changes_;
};

bool all_of(const std::deque<Follower>& followers, bool (Follower::*wanted)() const, std::chrono::seconds limit) {
  return testkit::eventually(
      [&] {
        return std::all_of(followers.begin(), followers.end(),
                           [wanted](const Follower& follower) { return (follower.*wanted)(); });
      },
      limit);
}

TEST(ManyCaches, NothingUnchangedIsReadAfterALeaderElection) {
  const bool soak = std::getenv("ZKRECIPES_SOAK") != nullptr;
  const int nodes = soak ? 5000 : 100;
  const auto limit = soak ? 1200s : 400s;  // Servers of a busy machine serve 20,000 reads slowly.
  zktesting::EnsembleOptions options;
  if (soak) options.server.jvm_flags = {"-Xmx4g"};
  CountedEnsemble counted(options);
  testkit::FaultEnsemble& ensemble = counted.ensemble;
  const Client writer(ensemble.connect_string(), {.session_timeout = long_session});
  writer.create("/tree", "", {}, {.deadline = testkit::soon()});
  for (int i = 0; i < nodes;) {
    Transaction transaction;
    for (const int end = i + 100; i < end; ++i)
      transaction.create("/tree/" + std::to_string(i), "the data of a node");
    writer.commit(transaction, {.deadline = testkit::soon()});
  }
  zkclient::Runtime runtime;
  std::deque<Follower> followers;
  for (std::size_t i = 0; i < followers_of_the_tree; ++i)
    followers.emplace_back(runtime, counted.connect_string());
  ASSERT_TRUE(all_of(followers, &Follower::is_current, limit));
  std::vector<std::int64_t> sessions;
  for (const Follower& follower : followers) {
    EXPECT_EQ(follower.cache().snapshot().size(), static_cast<std::size_t>(nodes));
    sessions.push_back(follower.session());
  }
  const std::size_t reads = counted.reads();
  EXPECT_GE(reads, followers_of_the_tree * static_cast<std::size_t>(nodes));
  const std::size_t barriers = counted.requests(RequestType::sync);
  const std::size_t all = counted.requests(RequestType::any);
  const std::size_t at_first = counted.requests(RequestType::connect);

  const auto leader = ensemble.leader();
  ASSERT_TRUE(leader);
  counted.refuse(true);  // A listener that is late would be told nothing of a time that is over.
  ensemble.kill(*leader);
  ASSERT_TRUE(all_of(followers, &Follower::was_stale, limit)) << "every server drops its clients";
  counted.refuse(false);
  ensemble.wait_for_quorum(90s);
  ASSERT_TRUE(all_of(followers, &Follower::is_current, limit));
  for (std::size_t i = 0; i < followers.size(); ++i) {
    EXPECT_EQ(followers[i].session(), sessions[i]) << "a new one would have to read all";
    EXPECT_EQ(followers[i].calls(), 1) << "nothing has changed";
  }
  EXPECT_EQ(counted.reads(), reads);
  // Per client a barrier, and one packet that renews its watches; some get in the way of the election, and again. A
  // second election costs each connection as much: also the barrier that broke with the one before.
  EXPECT_GE(counted.requests(RequestType::sync), barriers + followers_of_the_tree);
  const std::size_t connected = counted.requests(RequestType::connect) - at_first;
  EXPECT_LE(counted.requests(RequestType::any), all + std::max(6 * followers_of_the_tree, 3 * connected));

  // The watches are all there: a change is seen by all, and each reads it once.
  testkit::restart_who_has_died(ensemble, leader);
  const std::size_t connections = counted.requests(RequestType::connect);
  writer.set("/tree/7", "other data", zkclient::any_version, {.deadline = SteadyClock::now() + 90s});
  for (const Follower& follower : followers) {
    const auto is_changed = [](const Snapshot& now) {
      const CachedNode* node = now.find("7");
      return node != nullptr && node->data == "other data";
    };
    follower.cache().wait_until(is_changed, {.deadline = testkit::soon()});
  }
  // But for a read whose connection broke before the reply: a server on a busy machine drops its clients now and then.
  const std::size_t repeated = counted.requests(RequestType::connect) - connections;
  EXPECT_GE(counted.reads(), reads + followers_of_the_tree);
  EXPECT_LE(counted.reads(), reads + followers_of_the_tree + repeated);
}

}  // namespace
}  // namespace zkrecipes
