#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include <zkrecipes/layout.hpp>
#include <zkrecipes/lease.hpp>

#include "recipes/elections/leader_view.hpp"
#include "recipes/kernel/lease_core.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using LeasePtr = std::shared_ptr<LeaseCore>;

/// What makes one kind of election: how a candidate contends, how candidates are listed, and where the leader is.
struct ElectionKind {
  std::function<zk::Awaitable<zkclient::Result<LeasePtr>>(std::string id, zk::Call call)> contend;
  std::function<zk::Awaitable<zkclient::Result<std::vector<Contender>>>(zk::Call call)> candidates;
  LeaderPlace place;
};

/// A candidate: its campaigns and what they won, so that a resignation can end both. Thread-safe.
class ElectionCore : public std::enable_shared_from_this<ElectionCore> {
 public:
  /// `client` stays open for as long as it is used here. An empty `id` becomes "host:pid".
  ElectionCore(zkclient::Client client, zkclient::Path path, std::string id, ElectionKind kind);

  const std::string& id() const noexcept { return id_; }
  const zkclient::Path& path() const noexcept { return path_; }
  const std::shared_ptr<zk::ClientCore>& client() const noexcept { return place_->client; }
  const PlacePtr& place() const noexcept { return place_; }

  /// As the members of Election.
  Lease campaign(const zkclient::CallOptions& call);
  void async_campaign(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call);
  void resign(const zkclient::CallOptions& call);
  void async_resign(zkclient::Handler<void> handler, const zkclient::CallOptions& call);
  std::optional<Leader> leader(const zkclient::CallOptions& call) const;
  void async_leader(zkclient::Handler<std::optional<Leader>> handler, const zkclient::CallOptions& call) const;
  std::vector<Contender> candidates(const zkclient::CallOptions& call) const;
  void async_candidates(zkclient::Handler<std::vector<Contender>> handler, const zkclient::CallOptions& call) const;
  Leader wait_for_leader(const LeaderCondition& condition, const zkclient::CallOptions& call) const;
  void async_wait_for_leader(const LeaderCondition& condition, zkclient::Handler<Leader> handler,
                             const zkclient::CallOptions& call) const;
  std::optional<Leader> wait_for_change(const std::optional<Leader>& known, const zkclient::CallOptions& call) const;
  void async_wait_for_change(const std::optional<Leader>& known, zkclient::Handler<std::optional<Leader>> handler,
                             const zkclient::CallOptions& call) const;
  zk::CallForm form(const char* name) const { return zk::CallForm(client(), name, path_.str()); }

 private:
  std::stop_token join();
  void remember(const Lease& lease, const std::stop_token& joined);
  zk::Work<Lease> campaign_work() const;
  std::vector<LeasePtr> give_up();
  zk::Work<std::optional<Leader>> leader_work() const;
  zk::Work<std::vector<Contender>> candidates_work() const;
  zk::Work<Leader> wait_work(const LeaderCondition& condition) const;
  zk::Work<std::optional<Leader>> change_work(const std::optional<Leader>& known) const;

  const zkclient::Client owner_;
  const zkclient::Path path_;
  const std::string id_;
  const ElectionKind kind_;
  const PlacePtr place_;

  // The parts that resign() ends.
  std::mutex mutex_;
  std::stop_source campaigns_;
  std::vector<std::weak_ptr<LeaseCore>> won_;
};

/// The core of a fair election, whose nodes are named after `kind`: "latch" or "lock".
struct FairElection {
  std::string_view kind;
  std::vector<std::string_view> infixes;
};
std::shared_ptr<ElectionCore> make_fair_election(zkclient::Client client, zkclient::Path path, std::string id,
                                                 Layout layout, zkclient::AclList acl, FairElection names);

}  // namespace zkrecipes::detail
