#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/queues/dispatch_decider.hpp"
#include "recipes/queues/item_claims.hpp"
#include "recipes/queues/item_view.hpp"
#include "recipes/queues/push_gate.hpp"
#include "recipes/queues/queue_spec.hpp"
#include "recipes/queues/stash.hpp"

namespace zkrecipes::detail {

/// One queue as one object of the user's knows it. All calls that request an item share one view of the items. The
/// dispatcher hands out what may be tried, in the order of the calls, and many are tried at a time. Loop thread only,
/// apart from the constructor.
///   queue_core.cpp   the dispatcher
///   queue_take.cpp   one item: read, taken or claimed, handed over
class QueueCore : public std::enable_shared_from_this<QueueCore> {
 public:
  /// It is destroyed on the loop, whichever thread lets go of it last.
  static std::shared_ptr<QueueCore> make(QueueSpec spec);
  QueueCore(const QueueCore&) = delete;
  QueueCore& operator=(const QueueCore&) = delete;

  const QueueSpec& spec() const noexcept { return *spec_; }
  const QueueSpecPtr& shared_spec() const noexcept { return spec_; }
  PushGate& gate() noexcept { return gate_; }
  const std::shared_ptr<ItemClaims>& claims() const noexcept { return claims_; }

  /// nullopt: `patience` is try_once, and there is nothing to take.
  zk::Awaitable<zkclient::Result<std::optional<Taken>>> take(TakeKind kind, Patience patience, zk::Call call);
  /// The user's object is gone: what was claimed ahead goes back.
  void retire() { stash_.retire(); }

 private:
  struct TakeRequest;
  using TakeRequestPtr = std::shared_ptr<TakeRequest>;

  explicit QueueCore(QueueSpec spec);

  // The dispatcher.
  void kick();
  static zk::Awaitable<void> dispatch(std::shared_ptr<QueueCore> self);
  DispatchStep serve();
  DispatchFacts facts();
  bool may_try() const;
  void hand_out();
  void answer_tries();
  void prefetch();
  zk::Awaitable<zk::Reply> look();
  TakeRequestPtr first_waiting(std::optional<TakeKind> kind = {}) const;
  bool try_waits(bool was_looked_for) const;
  void start(TakeRequestPtr request, ItemKey key);
  void fail_waiting(const zk::Reply& why);
  void drop(const TakeRequestPtr& request);

  // One item.
  /// unusable: it failed for a reason of the item's own. Its call ends; the next one gets the next item.
  enum class Attempted { done, gone, again, failed, unusable };
  static zk::Awaitable<void> attempt(std::shared_ptr<QueueCore> self, TakeRequestPtr request, ItemKey key,
                                     TakeKind kind);
  zk::Awaitable<Attempted> try_take(TakeRequestPtr& request, ItemKey key, TakeKind kind, zk::Reply& failure);
  zk::Awaitable<Attempted> write_take(TakeRequestPtr request, Taken taken, std::string data, TakeKind kind,
                                      zk::Reply& failure);
  /// How an item is to be taken: as usual, or as a full quota allows.
  struct TakePlan {
    TakeKind kind = TakeKind::pop;
    bool excludes_claims = false;  ///< In the transaction.
    std::string text = {};         ///< What the claim says.
    bool outside = false;          ///< The claim stands at a claim_place().
    std::string above = {};        ///< Where the next quota is looked for.
  };
  zk::Awaitable<zk::Reply> plan_without_room(Taken& taken, TakePlan& plan);
  zk::Awaitable<bool> grant(Taken& taken, Written written, std::string text, std::shared_ptr<zk::LeaseKeeper> keeper,
                            std::shared_ptr<zk::SessionState> session);
  void deliver(const TakeRequestPtr& request, Taken taken, TakeKind kind);
  void tell_of(const ItemKey& unusable, const zkclient::Error& why);
  static zk::Awaitable<void> put_back(std::shared_ptr<QueueCore> self, Taken taken);
  static zk::Awaitable<void> put_at_end(std::shared_ptr<QueueCore> self, Taken taken);
  bool cannot_put_back(const Taken& taken, const zkclient::Error& why, bool& told) const;
  static zk::Awaitable<void> return_unused(std::shared_ptr<QueueCore> self);

  const QueueSpecPtr spec_;
  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<zk::Signal> wake_;  // Of the dispatcher.
  const std::shared_ptr<ItemView> view_;
  const std::shared_ptr<ExactlyOnceWriter> taker_;
  const std::shared_ptr<ItemClaims> claims_;
  PushGate gate_;
  Stash stash_;
  std::deque<TakeRequestPtr> requests_;
  std::uint64_t requests_made_ = 0;
  std::uint64_t looked_for_ = 0;  // Requests up to this one were there when we looked last.
  bool dispatching_ = false;
  std::size_t in_flight_ = 0;
  std::minstd_rand random_;
  std::set<std::string> told_of_;  // Items that are passed over, by the log.
};

// Reads of a queue that take nothing.
zk::Awaitable<zkclient::Result<std::optional<std::string>>> peek_queue(QueueSpecPtr spec, zk::Call call);
zk::Awaitable<zkclient::Result<std::vector<QueueItem>>> list_queue(QueueSpecPtr spec, zk::Call call);
zk::Awaitable<zkclient::Result<std::size_t>> queue_size(QueueSpecPtr spec, zk::Call call);

}  // namespace zkrecipes::detail
