#include <zkrecipes/replica_group.hpp>

#include <utility>

#include <fmt/format.h>

#include <zkrecipes/group.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/prepared_call.hpp"
#include "recipes/replication/replica_core.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes {

using namespace words;
using detail::PreparedCall;
using detail::ReplicaCore;

namespace {

constexpr const char* shrinking = "replica shrink";
constexpr const char* expanding = "replica expand";
constexpr const char* leaving_group = "replica leave";
constexpr const char* reporting_version = "replica report_version";
constexpr int depth_of_members = 2;

GroupOptions with_leases(const ReplicaGroupOptions& options) {
  GroupOptions group;
  group.acl = options.acl;
  group.lease = true;
  return group;
}

TreeCacheOptions down_to_members() {
  TreeCacheOptions options;
  options.max_depth = depth_of_members;
  return options;
}

void require_replica(const Path& path, const Replica& self, const ReplicaHandlers& handlers,
                     const ReplicaGroupOptions& options) {
  const auto refuse = [&](std::string_view why) {
    throw Error(Errc::invalid_argument, detail::replica_group, path.str(), why);
  };
  detail::require_acl(detail::replica_group, path, options.acl);
  if (path.is_root()) refuse("the root is no group");
  if (options.write_quorum) {
    throw Error(Errc::unsupported, detail::replica_group, path.str(),
                "a write is acknowledged when all that are in sync have it; smaller quorums are not built");
  }
  if (const char* defect = detail::replica_id_defect(self.id)) refuse(fmt::format("id: {}", defect));
  if (const char* defect = detail::replica_id_defect(self.storage)) refuse(fmt::format("storage: {}", defect));
  if (const char* defect = detail::replica_address_defect(self.address)) refuse(defect);
  if (options.minimum < 1 || options.minimum > detail::most_replicas) refuse("the minimum must be from 1 to 64");
  constexpr auto longest = std::chrono::hours(1);
  const auto is_time = [&](std::chrono::milliseconds time) { return time.count() >= 0 && time <= longest; };
  if (!is_time(options.settle) || !is_time(options.read_term)) refuse("times must be from 0 to an hour");
  if (!handlers.become_primary || !handlers.become_secondary) refuse("a handler is missing");
}

}  // namespace

/// What belongs to the user's threads: the parts that keep the client open, and what they tell the core.
struct detail::ReplicaSeat {
  ReplicaSeat(zkclient::Client owner, Path where, Replica self, ReplicaGroupOptions options)
      : client(std::move(owner)),
        path(std::move(where)),
        core(std::make_shared<ReplicaCore>(client.impl(), path, self, options)),
        membership(Group(client, path / "members", with_leases(options)).begin_join(self.id, core->payload(0))),
        cache(std::make_shared<TreeCache>(client, path, down_to_members())) {}
  // The handlers may be called before this returns, and may call the group: it has to be in its place.
  void begin(ReplicaHandlers handlers) {
    core->begin(std::move(handlers));
    const std::weak_ptr<ReplicaCore> weak = core;
    changes = cache->on_change([weak](const std::vector<Change>&, const Snapshot& nodes) {
      if (const auto alive = weak.lock()) alive->see(nodes);
    });
    states = cache->on_state([weak](CacheState state) {
      if (const auto alive = weak.lock()) alive->see(state);
    });
    presence = membership.on_state([weak](PresenceState state) {
      if (const auto alive = weak.lock()) alive->see(state);
    });
  }
  ~ReplicaSeat() {
    core->close();
    cache->close();
    core->wait_for_handlers();
  }
  ReplicaSeat(const ReplicaSeat&) = delete;
  ReplicaSeat& operator=(const ReplicaSeat&) = delete;

  zk::CallForm form(const char* operation) const {
    return zk::CallForm(client.impl(), operation, path.str()).endless();
  }
  /// For what follows a report that is in force, which is not waited for without an end.
  CallOptions limited(CallOptions call) const {
    if (!call.deadline) call.deadline = client.impl()->default_deadline();
    return call;
  }

  const zkclient::Client client;
  const Path path;
  const std::shared_ptr<ReplicaCore> core;
  Membership membership;
  const std::shared_ptr<TreeCache> cache;  // Shared with reports that are on their way, while it lives.
  zkclient::Subscription changes;
  zkclient::Subscription states;
  zkclient::Subscription presence;
};

namespace {

PreparedCall<void> change_call(const detail::ReplicaSeat& seat, ReplicaCore::Wish wish) {
  const char* const operation = wish.operation;
  return {seat.form(operation), [core = seat.core, wish = std::move(wish)](Call call) {
            return ReplicaCore::change(core, wish, std::move(call));
          }};
}

PreparedCall<void> shrink_call(const detail::ReplicaSeat& seat, std::vector<std::string> ids) {
  for (const std::string& id : ids) {
    if (id == seat.core->id()) throw seat.core->error(Errc::invalid_argument, shrinking, "a primary stays in sync");
  }
  return change_call(seat, {.operation = shrinking, .remove = std::move(ids)});
}

PreparedCall<void> expand_call(const detail::ReplicaSeat& seat, std::int64_t epoch, const std::string& id,
                               const std::string& storage) {
  if (epoch < 1)
    throw seat.core->error(Errc::invalid_argument, expanding, fmt::format("no primary has epoch {}", epoch));
  return change_call(seat, {expanding, {}, seat.core->find_member(id, storage), epoch});
}

PreparedCall<void> resign_call(const detail::ReplicaSeat& seat) {
  return {seat.form(leaving_group),
          [core = seat.core](Call call) { return ReplicaCore::resign(core, std::move(call)); }};
}

}  // namespace

const char* to_string(ReplicaRole role) noexcept {
  switch (role) {
    case ReplicaRole::joining: return "joining";
    case ReplicaRole::secondary: return "secondary";
    case ReplicaRole::candidate: return "candidate";
    case ReplicaRole::primary: return "primary";
    case ReplicaRole::out: return "out";
    case ReplicaRole::left: return "left";
  }
  return "?";
}

ReplicaGroup::ReplicaGroup(zkclient::Client client, Path path, Replica self, ReplicaHandlers handlers,
                           ReplicaGroupOptions options) {
  require_replica(path, self, handlers, options);
  seat_ =
      std::make_unique<detail::ReplicaSeat>(std::move(client), std::move(path), std::move(self), std::move(options));
  seat_->begin(std::move(handlers));
}

ReplicaGroup::~ReplicaGroup() = default;
ReplicaGroup::ReplicaGroup(ReplicaGroup&&) noexcept = default;
ReplicaGroup& ReplicaGroup::operator=(ReplicaGroup&&) noexcept = default;

const Path& ReplicaGroup::path() const noexcept { return seat_->path; }
ReplicaRole ReplicaGroup::role() const noexcept { return seat_->core->role(); }
std::optional<Error> ReplicaGroup::problem() const {
  if (auto of_member = seat_->membership.problem()) return of_member;
  // A state that cannot be read looks to the core as if it were not there, so the cache is asked first.
  if (auto of_view = seat_->cache->problem()) return of_view;
  return seat_->core->problem();
}
std::optional<ReplicaState> ReplicaGroup::state() const { return seat_->core->state(); }
std::vector<ReplicaMember> ReplicaGroup::members() const { return seat_->core->members(); }
bool ReplicaGroup::may_write() const noexcept { return seat_->core->may_write(); }
std::vector<InSyncReplica> ReplicaGroup::in_sync() const { return seat_->core->in_sync(); }
bool ReplicaGroup::may_serve_reads() const noexcept { return seat_->core->may_serve_reads(); }

void ReplicaGroup::report_version(std::uint64_t version, const CallOptions& call) {
  seat_->membership.update(seat_->core->payload(version), call);
  try {
    seat_->core->see(seat_->cache->wait_ready(seat_->limited(call)));
  } catch (const Error&) {
    // Closed, or not in time: members() is told by watches.
  }
}
void ReplicaGroup::async_report_version(std::uint64_t version, zkclient::Handler<void> handler,
                                        const CallOptions& call) {
  zk::require_handler(handler, reporting_version, path().str());
  auto reported = [weak = std::weak_ptr<TreeCache>(seat_->cache), core = seat_->core, limits = seat_->limited(call),
                   handler = std::move(handler)](Result<void> done) mutable {
    const auto cache = done ? weak.lock() : nullptr;
    if (cache == nullptr) return handler(std::move(done));
    auto seen = [core, handler = std::move(handler)](Result<Snapshot> nodes) mutable {
      if (nodes) core->see(*nodes);
      handler(Result<void>());
    };
    cache->async_wait_ready(std::move(seen), limits);
  };
  seat_->membership.async_update(seat_->core->payload(version), std::move(reported), call);
}

void ReplicaGroup::shrink(std::vector<std::string> ids, const CallOptions& call) {
  shrink_call(*seat_, std::move(ids)).wait(call);
}
void ReplicaGroup::async_shrink(std::vector<std::string> ids, zkclient::Handler<void> handler,
                                const CallOptions& call) {
  shrink_call(*seat_, std::move(ids)).start(std::move(handler), call);
}

void ReplicaGroup::expand(std::int64_t epoch, std::string id, std::string storage, const CallOptions& call) {
  expand_call(*seat_, epoch, id, storage).wait(call);
}
void ReplicaGroup::async_expand(std::int64_t epoch, std::string id, std::string storage,
                                zkclient::Handler<void> handler, const CallOptions& call) {
  expand_call(*seat_, epoch, id, storage).start(std::move(handler), call);
}

void ReplicaGroup::leave(const CallOptions& call) {
  resign_call(*seat_).wait(call);
  seat_->membership.leave(call);
}
// The membership goes first here, so that both are on their way when this returns.
void ReplicaGroup::async_leave(zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, leaving_group, seat_->path.str());
  auto resigned = [handler = std::move(handler), resign = resign_call(*seat_), call](Result<void> left) mutable {
    if (!left) {
      handler(left.error());
      return;
    }
    std::move(resign).start(std::move(handler), call);
  };
  seat_->membership.async_leave(std::move(resigned), call);
}

}  // namespace zkrecipes
