#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/election.hpp>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// Where the leader of an election is to be found.
struct LeaderPlace {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;       ///< The election's, as the user wrote it.
  std::string directory;  ///< The same, full. Its data is the LeaderRecord.
  /// The leader's node: the first of the children with one of these infixes and a sequence number...
  std::vector<std::string_view> infixes = {};
  /// ...or, if this is not empty, the child of this name.
  std::string node = {};
};
using PlacePtr = std::shared_ptr<const LeaderPlace>;

/// Looks for the leader of one election, again and again, and keeps watch in between. The first look of every session
/// is preceded by a sync, so that no server that lags behind tells of the past. Lives on the loop thread.
class LeaderFinder {
 public:
  /// `on_change` is called when the last answer may not be true any more; may be empty: nothing is watched then.
  LeaderFinder(PlacePtr place, zk::Call call, std::function<void()> on_change);

  zk::Awaitable<zkclient::Result<std::optional<Leader>>> look();

 private:
  using Watch = std::shared_ptr<zk::LoopWatch>;

  Watch make_watch(zk::WatchRegistry::Kind kind) const;
  zk::PendingReply launch(zk::OpType type, std::string path, const Watch& watch) const;
  zk::Awaitable<zk::Reply> catch_up();
  zk::Awaitable<zk::Reply> locate();
  zk::Awaitable<zk::Reply> list(bool watching);
  zk::Awaitable<zk::Reply> watch_for(std::string path);
  zk::Awaitable<zk::Reply> read(std::string name);
  std::string child(const std::string& name) const;

  const PlacePtr place_;
  const zk::Call call_;
  const std::function<void()> on_change_;
  std::shared_ptr<zk::SessionState> session_;  ///< The one that has caught up.
  /// Watches for what the last answer rests on: a leader's node and record, or the appearance of one.
  Watch leader_watch_;
  Watch record_watch_;
  Watch absence_watch_;
  std::optional<std::string> located_;
  std::optional<Leader> found_;
};

zk::Awaitable<zkclient::Result<std::optional<Leader>>> find_leader(PlacePtr place, zk::Call call);

zk::Awaitable<zkclient::Result<Leader>> await_leader(PlacePtr place, LeaderCondition condition, zk::Call call);
/// Waits until what is to be seen differs from `known`.
zk::Awaitable<zkclient::Result<std::optional<Leader>>> await_change(PlacePtr place, std::optional<Leader> known,
                                                                    zk::Call call);

using LeaderListener = zkclient::UniqueFunction<void(const std::optional<Leader>&)>;
zkclient::Subscription observe_leader(const PlacePtr& place, LeaderListener listener);

}  // namespace zkrecipes::detail
