#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/cache.hpp>
#include <zkrecipes/presence.hpp>
#include <zkrecipes/replica_group.hpp>

#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/listener_set.hpp"
#include "recipes/kernel/waiting_calls.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/replication/member_witnesses.hpp"
#include "recipes/replication/read_lease.hpp"
#include "recipes/replication/replica_decider.hpp"

namespace zkrecipes::detail {

constexpr const char* replica_group = "replica group";

/// Connections, sessions, other members: the next look shows what to do. Otherwise the user has to know.
bool passes_by_itself(zkclient::Errc code) noexcept;

/// One term of ours as the primary.
struct LedTerm {
  LedTerm(std::int64_t of, LeasePtr held) : epoch(of), lease(std::move(held)) {}
  bool held() const noexcept {
    const LeaseState state = lease->state();
    return state == LeaseState::held || state == LeaseState::uncertain;
  }

  const std::int64_t epoch;
  const LeasePtr lease;
  std::atomic<bool> ready{false};  ///< become_primary() has returned.
  /// From then on no member serves reads that was taken out before the term began.
  zkclient::BootClock::time_point quiet_from{};

  ReplicaTerm members;  ///< Guarded by the core's mutex.

  // Loop thread.
  std::int32_t version = 0;  ///< Of the state.
  bool changing = false;
};
using LedTermPtr = std::shared_ptr<LedTerm>;

/// What the user is told; one of the first two, or only the role.
struct RoleNews {
  ReplicaRole role = ReplicaRole::joining;
  SecondaryTerm secondary = {};
  LedTermPtr led = {};
  std::vector<InSyncReplica> in_sync = {};  ///< When that began.

  bool same(const RoleNews& other) const {
    const auto facts = [](const SecondaryTerm& of) { return std::tie(of.epoch, of.primary, of.address, of.in_sync); };
    return role == other.role && led == other.led && facts(secondary) == facts(other.secondary);
  }
};
using RoleNewsPtr = std::shared_ptr<const RoleNews>;

/// The handlers, and the newest that they have still to be told.
class RoleBacklog {
 public:
  using News = RoleNewsPtr;

  explicit RoleBacklog(ReplicaHandlers handlers) : handlers_(std::move(handlers)) {}
  void note(RoleNewsPtr newest) { newest_ = std::move(newest); }
  bool empty() const { return newest_ == nullptr; }
  RoleNewsPtr take() { return std::exchange(newest_, nullptr); }
  void call(const RoleNewsPtr& news);

 private:
  ReplicaHandlers handlers_;
  RoleNewsPtr newest_;
};

/// Where the nodes of a group are: full paths.
struct ReplicaLayout {
  ReplicaLayout(const zk::ClientCore& client, const zkclient::Path& path, const std::string& id);

  std::string state;
  std::string member;  ///< Our own.
  std::string primary;
};

/// A member of a replica group. What the cache and the presence of the own node say is brought here: this object and
/// its coroutines know only the inside of the client, and so keep no client open. The members belong to the loop
/// thread, apart from the first ones.
class ReplicaCore : public std::enable_shared_from_this<ReplicaCore> {
 public:
  ReplicaCore(std::shared_ptr<zk::ClientCore> client, zkclient::Path path, Replica self, ReplicaGroupOptions options);
  /// Errors: as the loop refuses work (closed, forked).
  void begin(ReplicaHandlers handlers);

  // --- From any thread ---

  const std::string& id() const noexcept { return self_.id; }
  ReplicaRole role() const noexcept;
  std::optional<zkclient::Error> problem() const;
  std::optional<ReplicaState> state() const;
  std::vector<ReplicaMember> members() const;
  bool may_write() const noexcept;
  bool may_serve_reads() const noexcept;
  std::vector<InSyncReplica> in_sync() const;
  /// What the own node says when this is the version.
  std::string payload(std::uint64_t version) const;
  void see(const Snapshot& nodes);
  void see(CacheState state);
  void see(PresenceState state);
  /// Ends it without waiting. From when it returns, nothing is allowed, and no call of a handler begins.
  void close();
  /// After that: until the handler that runs has returned, unless this is called there.
  void wait_for_handlers();

  // --- Calls ---

  /// Members to take out, or one to take in.
  struct Wish {
    const char* operation = "";
    std::vector<std::string> remove = {};
    std::optional<InSyncReplica> add = {};
    std::int64_t epoch = any_epoch;  ///< It counts in this one alone.
  };
  static constexpr std::int64_t any_epoch = 0;
  static zk::Awaitable<zkclient::Result<void>> change(std::shared_ptr<ReplicaCore> self, Wish wish, zk::Call call);
  /// As a primary, or whatever it is: gives the lease back.
  static zk::Awaitable<zkclient::Result<void>> resign(std::shared_ptr<ReplicaCore> self, zk::Call call);
  /// Errors: as expand().
  InSyncReplica find_member(const std::string& id, const std::string& storage) const;
  zkclient::Error error(zkclient::Errc code, const char* operation, std::string_view detail = {}) const;

 private:
  using Waiting = WaitingCalls::Waiting;
  struct Done;

  // replica_core.cpp
  static zk::Awaitable<void> run(std::shared_ptr<ReplicaCore> self);
  bool closed() const;
  bool present() const;
  bool over() const { return ended_->requested() || client_->closing(); }
  /// False: the nodes have not been read yet.
  bool look();
  zk::Awaitable<void> act(ReplicaDecision decision);
  zk::Awaitable<void> found();
  void show(ReplicaRole role);
  void show_problem(zkclient::Errc code, std::string detail);
  void show_state_problem(zkclient::Errc code, std::string detail);
  void clear_problem();
  void wake();
  zk::Call own_call() const;
  zk::Awaitable<void> rest(std::chrono::milliseconds limit);
  ReplicaMember self_as_member() const;

  // replica_term.cpp
  zk::Awaitable<void> take_over();
  void begin_term(LeasePtr lease, const ReplicaState& state, std::int32_t version);
  static zk::Awaitable<void> follow_term(std::shared_ptr<ReplicaCore> self, LedTermPtr term);
  void end_term();

  // replica_change.cpp
  static zk::Awaitable<void> carry_out(std::shared_ptr<ReplicaCore> self, LedTermPtr term, std::shared_ptr<Done> done);
  zk::Awaitable<zkclient::Result<void>> write(LedTermPtr term, std::shared_ptr<Done> done);
  enum class Fate { committed, untouched, broken, unknown };
  zk::Awaitable<zkclient::Result<StandingMember>> added_member(const Wish& wish, zk::Call call);
  zkclient::Error no_such_member(const char* operation, const std::string& id, const std::string& storage) const;
  zk::Awaitable<Fate> find_fate(LedTermPtr term, std::string data);
  zk::Awaitable<void> wait_for_readers(LedTermPtr term, zkclient::BootClock::time_point until);

  // replica_reads.cpp
  static zk::Awaitable<void> renew_reads(std::shared_ptr<ReplicaCore> self);
  void see_read_right();

  const std::shared_ptr<zk::ClientCore> client_;
  const zkclient::Path path_;
  const Replica self_;
  const ReplicaGroupOptions options_;
  const zk::ProcessGeneration process_;
  const ReplicaLayout layout_;
  const std::shared_ptr<ListenerSet<RoleBacklog>> handlers_ = std::make_shared<ListenerSet<RoleBacklog>>();
  const std::shared_ptr<zk::CancelScope> ended_ = std::make_shared<zk::CancelScope>();

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  ReplicaRole role_ = ReplicaRole::joining;
  std::optional<zkclient::Error> problem_;
  std::optional<Snapshot> nodes_;  // Nothing: not read yet.
  CacheState cache_ = CacheState::loading;
  PresenceState presence_ = PresenceState::joining;
  ReplicaFacts facts_;  // But for `present` and `term`. Written on the loop thread.
  LedTermPtr term_;     // Written on the loop thread.
  ReadLease reads_;     // Likewise.

  // Loop thread.
  zk::Signal wake_;
  zk::Signal reads_changed_;
  std::int32_t version_ = 0;    // Of the state in facts_.
  bool state_problem_ = false;  // What is shown is about the state.
  RoleNewsPtr told_;
  std::optional<std::int64_t> free_epoch_;  // Since free_since_, nobody has the primary's node.
  std::chrono::steady_clock::time_point free_since_{};
  WaitingCalls waiting_;
  zkclient::Subscription told_by_;  // Of the handlers.
};

}  // namespace zkrecipes::detail
