#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/placement.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/replication/copy_erasure.hpp"
#include "recipes/replication/group_views.hpp"
#include "recipes/replication/placement_format.hpp"

namespace zkrecipes {

using namespace words;

namespace {

constexpr const char* hosted_replicas = "hosted replicas";
constexpr const char* draining_host = "hosted replicas drain";
constexpr const char* leaving_hosts = "hosted replicas leave";
constexpr const char* erasing_copies = "hosted replicas erase";

// An older permission is asked for again: it may have had to wait for a handler, or for a thread of the executor.
constexpr auto longest_permission = std::chrono::seconds(1);
// A handler that runs for longer may hang.
constexpr auto long_handler = std::chrono::seconds(10);

/// With a lease: while it is valid, no other process has the host's id.
GroupOptions group_of_hosts(const HostedReplicasOptions& options) {
  GroupOptions group;
  group.acl = options.acl;
  group.lease = true;
  return group;
}

/// nullopt: the node does not say.
std::optional<bool> is_placed(const CachedNode& node, const std::string& host, const std::string& groups) {
  if (!detail::can_have_group(groups, node.name)) return std::nullopt;
  const auto placed = node.has_data ? detail::decode_placement(node.data) : std::nullopt;
  if (!placed) return std::nullopt;
  return std::binary_search(placed->assigned.begin(), placed->assigned.end(), host);
}

}  // namespace

/// News of the placements become calls of the handlers, one at a time. A replica is closed only when its partition's node
/// says that it shall be: what is unreadable, or was removed by hand, says nothing. Its copy is erased when may_erase()
/// says so.
class detail::HostedReplicasCore : public std::enable_shared_from_this<HostedReplicasCore> {
 public:
  HostedReplicasCore(zkclient::Client client, Path path, ReplicaHost host, HostedReplicasHandlers handlers,
                     const HostedReplicasOptions& options)
      : client_(std::move(client)),
        path_(std::move(path)),
        host_(std::move(host)),
        handlers_(std::move(handlers)),
        group_(client_, path_ / "hosts", group_of_hosts(options)),
        groups_(client_.impl()->full(path_ / "groups")),
        calls_(std::make_shared<zk::SerialQueue>(client_.impl()->callbacks())) {
    for (const std::string& partition : options.copies)
      hosted_[partition].stage = detail::HostedStage::closed;
  }

  const Path& path() const noexcept { return path_; }
  const std::string& id() const noexcept { return host_.id; }
  bool forked() const { return client_.impl()->loop()->forked(); }

  void start() {
    const auto refuse = [this](Errc code) { throw Error(code, hosted_replicas, path_.str(), "it cannot be started"); };
    if (forked()) refuse(Errc::forked);
    {
      const std::lock_guard lock(mutex_);
      if (finished_) refuse(Errc::closed);
      if (member_) return;
      cache_.emplace(client_, path_ / "placement");
      member_.emplace(group_.begin_join(host_.id, encode(host_)));
    }
    const auto weak = weak_from_this();
    const auto news = [weak] {
      if (const auto self = weak.lock()) self->follow_soon();
    };
    std::vector<zkclient::Subscription> subscriptions;
    subscriptions.push_back(member_->on_state([news](PresenceState) { news(); }));
    subscriptions.push_back(cache_->on_change([news](const auto&, const Snapshot&) { news(); }));
    const std::lock_guard lock(mutex_);
    subscriptions_ = std::move(subscriptions);
  }

  void drain(const CallOptions& call) {
    Membership& member = membership(draining_host);
    member.update(begin_to_drain(), call);
    cache_->refresh(ReadBarrier::quorum, call);  // A step just before the update may not be in the view.
    cache_->wait_until(nothing_placed(), call);
  }
  void async_drain(zkclient::Handler<void> handler, const CallOptions& call) {
    zk::require_handler(handler, draining_host, path_.str());
    auto updated = [self = shared_from_this(), call, handler = std::move(handler)](Result<void> done) mutable {
      if (!done) return handler(std::move(done));
      auto seen = [self, call, handler = std::move(handler)](const Result<Snapshot>& nodes) mutable {
        if (!nodes) return handler(nodes.error());
        auto moved = [handler = std::move(handler)](const Result<Snapshot>& last) mutable {
          last ? handler(Result<void>()) : handler(last.error());
        };
        self->cache_->async_wait_until(self->nothing_placed(), std::move(moved), call);
      };
      self->cache_->async_refresh(ReadBarrier::quorum, std::move(seen), call);
    };
    Membership& member = membership(draining_host);
    member.async_update(begin_to_drain(), std::move(updated), call);
  }

  void leave(const CallOptions& call) {
    if (Membership* member = finish()) member->leave(call);
  }
  void async_leave(zkclient::Handler<void> handler, const CallOptions& call) {
    zk::require_handler(handler, leaving_hosts, path_.str());
    if (Membership* member = finish()) return member->async_leave(std::move(handler), call);
    auto nothing = [](Call) -> Awaitable<Result<void>> { co_return Result<void>(); };
    zk::CallForm(client_.impl(), leaving_hosts, path_.str()).start(call, zk::Work<void>(nothing), std::move(handler));
  }
  /// Its owner goes.
  void retire() noexcept {
    try {
      constexpr auto long_enough = std::chrono::hours(24);
      CallOptions patient;
      patient.deadline = std::chrono::steady_clock::now() + long_enough;
      if (Membership* member = finish()) member->async_leave([](const Result<void>&) {}, patient);
    } catch (const Error&) {
      // The client is closed: it is no host any more.
    }
    calls_->close();
    std::vector<zkclient::Subscription> ended;
    {
      const std::lock_guard lock(mutex_);
      ended.swap(subscriptions_);
    }
    if (cache_) cache_->close();
  }

  std::vector<std::string> hosted() const {
    if (forked()) return {};
    std::vector<std::string> open;
    const std::lock_guard lock(mutex_);
    for (const auto& [partition, hosted] : hosted_) {
      if (hosted.stage == detail::HostedStage::open) open.push_back(partition);
    }
    return open;
  }
  std::optional<Error> problem() const {
    if (forked() || !serves()) return std::nullopt;
    if (auto trouble = member_->problem()) return trouble;
    if (auto trouble = cache_->problem()) return trouble;
    const Snapshot nodes = cache_->snapshot();
    const std::lock_guard lock(mutex_);
    if (auto trouble = trouble_of_handler()) return trouble;
    for (const auto& [partition, hosted] : hosted_) {
      if (auto trouble = trouble_of(nodes, partition, hosted)) return trouble;
    }
    return nodes.complete() ? what_drain_waits_for(nodes) : std::nullopt;
  }

 private:
  struct Hosted {
    detail::HostedStage stage = detail::HostedStage::none;
    detail::ClosedCopyPtr copy = {};  // While it is asked whether it may be erased.
  };
  struct Told {
    std::string partition;
    detail::HostedStep step;
  };
  /// A handler that runs.
  struct Running {
    const char* handler;
    std::string partition;
    BootClock::time_point since;
  };

  bool serves() const {
    const std::lock_guard lock(mutex_);
    return member_ && !finished_;
  }
  Membership& membership(const char* operation) {
    if (forked()) throw Error(Errc::forked, operation, path_.str());
    if (!serves()) throw Error(Errc::not_held, operation, path_.str(), "it is no host");
    return *member_;
  }
  /// Does not wait for a handler that runs: that may need what the caller has locked. Null: it was not started.
  Membership* finish() {
    if (forked()) throw Error(Errc::forked, leaving_hosts, path_.str());
    const std::lock_guard lock(mutex_);
    finished_ = true;
    for (auto& [partition, hosted] : hosted_)
      ask_no_more(hosted);
    return member_ ? &*member_ : nullptr;
  }

  // --- What is wrong; under the mutex ---

  std::optional<Error> trouble_of_handler() const {
    if (!running_) return std::nullopt;
    const auto time = std::chrono::duration_cast<std::chrono::seconds>(BootClock::now() - running_->since);
    if (time < long_handler) return std::nullopt;
    return Error(Errc::not_available, hosted_replicas, replica_of(running_->partition).group.str(),
                 fmt::format("{}() of partition {} has been running for {} s, and nothing else is told meanwhile",
                             running_->handler, running_->partition, time.count()));
  }
  std::optional<Error> trouble_of(const Snapshot& nodes, const std::string& partition, const Hosted& hosted) const {
    if (hosted.copy != nullptr) {
      const std::lock_guard of_copy(hosted.copy->mutex);
      return hosted.copy->problem;
    }
    if (hosted.stage != detail::HostedStage::open || !nodes.complete()) return std::nullopt;
    const CachedNode* node = nodes.find(partition);
    const std::string path = (path_ / "placement" / partition).str();
    if (node == nullptr)
      return Error(Errc::no_node, hosted_replicas, path, "the placement of an open replica was removed");
    if (is_placed(*node, host_.id, groups_)) return std::nullopt;
    return Error(Errc::foreign_node, hosted_replicas, path, "it is no placement, and its replica is open");
  }
  std::optional<Error> what_drain_waits_for(const Snapshot& nodes) const {
    if (!draining_) return std::nullopt;
    for (const CachedNodePtr& node : nodes.children()) {
      if (!is_placed(*node, host_.id, groups_).value_or(false)) continue;
      return Error(Errc::not_available, draining_host, (path_ / "placement" / node->name).str(),
                   fmt::format("partition {} is still placed here: no placer has moved it so far", node->name));
    }
    return std::nullopt;
  }

  /// From now on no placer gives it anything.
  std::string begin_to_drain() {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    ReplicaHost host = host_;
    host.weight = 0;
    return encode(host);
  }
  Cache::Predicate nothing_placed() const {
    return [weak = weak_from_this()](const Snapshot& nodes) {
      const auto self = weak.lock();
      return self && self->has_nothing(nodes);
    };
  }
  /// What is open may be needed until its node says that it goes. A node that cannot be read may be that of a replica
  /// that was open in a former life of this process.
  bool has_nothing(const Snapshot& nodes) const {
    const auto has = [this](const CachedNode& node) { return is_placed(node, host_.id, groups_); };
    for (const CachedNodePtr& node : nodes.children()) {
      if (has(*node).value_or(!node->has_data)) return false;
    }
    for (const std::string& partition : hosted()) {
      const CachedNode* node = nodes.find(partition);
      if (node == nullptr || has(*node).value_or(true)) return false;
    }
    return true;
  }

  void follow_soon() {
    calls_->post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->follow();
    });
  }
  /// A handler may take its time, and much can happen meanwhile: each rests on what is known when it is called. One that
  /// throws keeps no other replica waiting.
  void follow() {
    std::exception_ptr failure;
    while (const auto told = next()) {
      try {
        const bool opens = told->step == detail::HostedStep::open;
        tell(opens ? "open" : "close", opens ? handlers_.open : handlers_.close, told->partition);
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
      ask_when_to_erase();
    }
    ask_when_to_erase();
    if (failure) std::rethrow_exception(failure);
  }
  void tell(const char* name, zkclient::UniqueFunction<void(const HostedReplica&)>& handler,
            const std::string& partition) {
    note_running(Running{name, partition, BootClock::now()});
    try {
      handler(replica_of(partition));
    } catch (...) {
      note_running(std::nullopt);
      throw;
    }
    note_running(std::nullopt);
  }
  void note_running(std::optional<Running> running) {
    const std::lock_guard lock(mutex_);
    running_ = std::move(running);
  }
  /// Another process may have the name, and the replicas: they are opened while the name is certainly ours. What is open
  /// is closed at any time. Nothing, if nothing is to be told.
  std::optional<Told> next() {
    const bool present = is_present();
    const Snapshot nodes = cache_->snapshot();
    const std::lock_guard lock(mutex_);
    if (finished_) return std::nullopt;
    for (const CachedNodePtr& node : nodes.children()) {
      const auto known = hosted_.find(node->name);
      const auto stage = known == hosted_.end() ? detail::HostedStage::none : known->second.stage;
      const auto step = detail::decide_hosted(stage, is_placed(*node, host_.id, groups_), present);
      if (step == detail::HostedStep::nothing) continue;
      const auto next_stage =
          step == detail::HostedStep::open ? detail::HostedStage::open : detail::HostedStage::closed;
      Hosted& hosted = hosted_[node->name];
      ask_no_more(hosted);
      hosted = {next_stage};
      return Told{node->name, step};
    }
    return std::nullopt;
  }
  /// Of all copies that are closed, and nobody asks about.
  void ask_when_to_erase() {
    if (!is_present()) return;  // It is asked when it is.
    std::vector<detail::ClosedCopyPtr> closed;
    {
      const std::lock_guard lock(mutex_);
      if (finished_) return;
      for (auto& [partition, hosted] : hosted_) {
        if (hosted.stage != detail::HostedStage::closed || hosted.copy != nullptr) continue;
        hosted.copy = std::make_shared<detail::ClosedCopy>(client_.impl(), path_, partition, host_.id);
        closed.push_back(hosted.copy);
      }
    }
    for (const detail::ClosedCopyPtr& copy : closed)
      ask_when_to_erase(copy);
  }
  void ask_when_to_erase(const detail::ClosedCopyPtr& copy) {
    const auto answered = [weak = weak_from_this(), copy](const Result<void>& erasable) {
      const auto self = weak.lock();
      if (!self) return;
      if (!erasable) return self->forget(copy);
      self->calls_->post([weak, copy] {
        if (const auto core = weak.lock()) core->erase(copy);
      });
    };
    try {
      zk::CallForm(client_.impl(), erasing_copies, copy->group.str())
          .endless()
          .unrecorded()
          .start({}, zk::Work<void>([copy](Call call) { return detail::until_erasable(copy, call); }), answered);
    } catch (const Error&) {
      forget(copy);  // The client is closed, say.
    }
  }
  void ask_again_after_a_rest(const detail::ClosedCopyPtr& copy) {
    copy->rests = true;
    ask_when_to_erase(copy);
  }
  /// It is asked anew with the next news. Unless it was opened again meanwhile.
  void forget(const detail::ClosedCopyPtr& copy) {
    const std::lock_guard lock(mutex_);
    const auto found = hosted_.find(copy->partition);
    if (found != hosted_.end() && found->second.copy == copy) found->second.copy = nullptr;
  }
  static void ask_no_more(Hosted& hosted) {
    if (hosted.copy != nullptr) hosted.copy->kept = true;
  }
  /// Unless it was opened meanwhile, or nothing more is told. While another process may have the name, it may have the
  /// copy, too. A copy whose handler throws is still there.
  void erase(const detail::ClosedCopyPtr& copy) {
    if (copy->kept) return;
    if (!is_present()) return forget(copy);
    const bool old = BootClock::now() - copy->allowed_at > longest_permission;
    if (old || !member_->valid()) return ask_again_after_a_rest(copy);
    try {
      if (handlers_.erase) tell("erase", handlers_.erase, copy->partition);
    } catch (...) {
      ask_again_after_a_rest(copy);
      throw;
    }
    const std::lock_guard lock(mutex_);
    hosted_.erase(copy->partition);
  }
  bool is_present() const { return member_->state() == PresenceState::present; }
  HostedReplica replica_of(const std::string& partition) const { return {partition, path_ / "groups" / partition}; }

  const zkclient::Client client_;  // Stays open for as long as it is used here.
  const Path path_;
  const ReplicaHost host_;
  HostedReplicasHandlers handlers_;
  Group group_;
  const std::string groups_;                      // The full path of all groups.
  const std::shared_ptr<zk::SerialQueue> calls_;  // On which the handlers run.

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  bool finished_ = false;
  bool draining_ = false;
  std::optional<Running> running_;
  std::map<std::string, Hosted> hosted_;  // By partition.
  std::vector<zkclient::Subscription> subscriptions_;
  std::optional<ChildrenCache> cache_;  // Made by start(), for good.
  std::optional<Membership> member_;    // The same.
};

HostedReplicas::HostedReplicas(zkclient::Client client, Path path, ReplicaHost host, HostedReplicasHandlers handlers,
                               HostedReplicasOptions options) {
  detail::require_acl(hosted_replicas, path, options.acl);
  const auto refuse = [&path](std::string_view why) {
    throw Error(Errc::invalid_argument, hosted_replicas, path.str(), why);
  };
  if (path.is_root()) refuse("the root is no placement");
  if (const char* defect = detail::host_defect(host)) refuse(fmt::format("host: {}", defect));
  if (!handlers.open || !handlers.close) refuse("a handler is missing");
  const std::string groups = client.impl()->full(path / "groups");
  for (const std::string& partition : options.copies) {
    if (!detail::can_have_group(groups, partition)) refuse(fmt::format("no partition can be named {:?}", partition));
  }
  core_ = std::make_shared<detail::HostedReplicasCore>(std::move(client), std::move(path), std::move(host),
                                                       std::move(handlers), options);
}

HostedReplicas::~HostedReplicas() {
  if (core_->forked()) {
    zk::keep_for_ever(std::move(core_));
  } else {
    core_->retire();
  }
}

void HostedReplicas::start() { core_->start(); }
void HostedReplicas::drain(const CallOptions& call) { core_->drain(call); }
void HostedReplicas::async_drain(zkclient::Handler<void> handler, const CallOptions& call) {
  core_->async_drain(std::move(handler), call);
}
void HostedReplicas::leave(const CallOptions& call) { core_->leave(call); }
void HostedReplicas::async_leave(zkclient::Handler<void> handler, const CallOptions& call) {
  core_->async_leave(std::move(handler), call);
}
std::vector<std::string> HostedReplicas::hosted() const { return core_->hosted(); }
std::optional<Error> HostedReplicas::problem() const { return core_->problem(); }
const std::string& HostedReplicas::id() const noexcept { return core_->id(); }
const Path& HostedReplicas::path() const noexcept { return core_->path(); }

}  // namespace zkrecipes
