#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recipes/coherent/coherent_decider.hpp"
#include "recipes/coherent/coherent_layout.hpp"
#include "recipes/coherent/coherent_table.hpp"
#include "recipes/kernel/waiting_calls.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

/// What an item was when the reply to its read was sent.
CoherentItemPtr make_item(zk::Reply& reply);

/// A call that ends with its caller's wish, and with its cache. Loop thread only.
class EndedByClosing {
 public:
  EndedByClosing(std::shared_ptr<zk::CancelScope> closing, zk::Call call)
      : closing_(std::move(closing)), call_(std::move(call)) {
    const auto scope = std::make_shared<zk::CancelScope>();
    const auto end = [scope] { scope->request(); };
    if (closing_->requested() || (call_.cancel != nullptr && call_.cancel->requested())) end();
    cancelled_ = zk::CancelScope::Guard(call_.cancel, end);
    closed_ = zk::CancelScope::Guard(closing_, end);
    call_.cancel = scope;
  }

  const zk::Call& call() const noexcept { return call_; }
  /// What ended with the cache says so.
  void judge(zk::Reply& reply) const {
    if (reply.failed(zkclient::Errc::cancelled) && closing_->requested()) reply.error = zkclient::Errc::closed;
  }

 private:
  const std::shared_ptr<zk::CancelScope> closing_;
  zk::Call call_;
  zk::CancelScope::Guard cancelled_;
  zk::CancelScope::Guard closed_;
};

/// The reads of one CoherentCache, and its leases. The members belong to the loop thread.
class CoherentReader : public std::enable_shared_from_this<CoherentReader> {
 public:
  CoherentReader(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<const CoherentLayout> layout,
                 std::shared_ptr<CoherentTable> table, std::chrono::milliseconds term);
  CoherentReader(const CoherentReader&) = delete;
  CoherentReader& operator=(const CoherentReader&) = delete;

  /// Of `reply` the error counts; without one there is an item.
  struct Outcome {
    zk::Reply reply;
    CoherentItemPtr item;
  };
  static zk::Awaitable<Outcome> read(std::shared_ptr<CoherentReader> self, std::string name, zk::Call call);
  /// Makes sure that the number of shards is known, for shards().
  static zk::Awaitable<zk::Reply> open(std::shared_ptr<CoherentReader> self, zk::Call call);
  std::uint32_t shards() const noexcept { return shard_count_; }
  /// Requested by close().
  const std::shared_ptr<zk::CancelScope>& closing() const noexcept { return closing_; }
  /// Ends the lease of a shard: its registration is on its way out when this returns.
  void let_go(std::uint32_t shard);
  /// The table is closed: ends all of it.
  void close();

 private:
  /// The watch at a gate that the lease begins with.
  struct GateWatch {
    bool fired = false;
    std::shared_ptr<zk::LoopWatch> watch;
  };
  /// A registration.
  struct Hold {
    std::int32_t epoch = 0;
    std::shared_ptr<zk::SessionState> session;
    std::string path;
    std::shared_ptr<GateWatch> gate;
  };
  /// A read of an item under a lease, which others may join.
  struct Fetch {
    std::int32_t epoch = 0;
    bool done = false;
    Outcome outcome;
  };
  struct Shard {
    std::optional<Hold> hold;
    bool granting = false;
    bool reopening = false;
    std::unordered_map<std::string, std::shared_ptr<Fetch>> fetches;
  };
  /// What one registration has come to.
  struct Grant {
    bool ended = false;  // The read: `outcome` is its answer.
    Outcome outcome;
    std::optional<Gate> closed;  // The gate, if that is why there is no lease.
  };
  /// Checks that are on their way in one transaction.
  struct Beat {
    std::vector<std::pair<std::uint32_t, std::int32_t>> checks;  // Shards and epochs.
    zk::PendingReply pending;
  };

  static zk::Awaitable<Outcome> read_on(std::shared_ptr<CoherentReader> self, std::string name, zk::Call call);
  FillFacts facts(std::uint32_t shard, const std::string& name, bool cached, bool tried);
  zk::Awaitable<Outcome> fetch(std::uint32_t shard, std::string name, zk::Call call);
  /// Nothing once it is `done`; else why the wait is over.
  zk::Awaitable<std::optional<zkclient::Errc>> wait_until(std::function<bool()> done, zk::Call call);
  zk::Awaitable<Grant> ask(std::uint32_t shard, std::string name, zk::Call call);
  zk::Awaitable<Grant> look(std::uint32_t shard, std::string name, zk::Call call);
  zk::Awaitable<Grant> enroll(std::uint32_t shard, std::string name, Gate gate, std::shared_ptr<GateWatch> watch,
                              zk::Reply item, zk::Call call);
  void begin_lease(std::uint32_t shard, Hold hold, std::int64_t gate, const std::string& name, CoherentItemPtr item,
                   const zk::Reply& registered, std::chrono::milliseconds term);
  zk::Awaitable<Outcome> uncached(std::uint32_t shard, std::string name, std::optional<Gate> closed, zk::Call call);
  static zk::Awaitable<void> reopen(std::shared_ptr<CoherentReader> self, std::uint32_t shard, Gate gate,
                                    std::shared_ptr<zk::SessionState> session);

  std::chrono::milliseconds term_of(const zk::SessionState& session) const;
  void let_go_all();
  void keep_proven(const std::shared_ptr<zk::SessionState>& session);
  static zk::Awaitable<void> renew(std::shared_ptr<CoherentReader> self);
  void drop_lapsed();
  std::vector<Beat> launch_beats();
  void launch(Beat& beat, const zk::Call& call);
  zk::Awaitable<void> settle(Beat beat);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<const CoherentLayout> layout_;
  const std::shared_ptr<CoherentTable> table_;
  const std::chrono::milliseconds wanted_term_;
  std::uint32_t shard_count_ = 0;
  std::map<std::uint32_t, Shard> shards_;
  std::size_t holds_ = 0;
  bool renewing_ = false;
  zk::Signal ended_;  // For the renewals: there is nothing left to renew.
  WaitingCalls waiting_;
  const std::shared_ptr<zk::CancelScope> closing_ = std::make_shared<zk::CancelScope>();
  // Heartbeats of the session, for its lease clock, while there are leases.
  std::shared_ptr<zk::LeaseKeeper> keeper_;
  std::optional<zk::LeaseKeeper::HoldId> proving_;
};

}  // namespace zkrecipes::detail
