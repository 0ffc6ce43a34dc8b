#pragma once

#include <chrono>
#include <memory>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/queues/item_view.hpp"

namespace zkrecipes::detail {

/// How claims end: committed, given back, removed. Loop thread only, apart from the constructor.
class ItemClaims : public std::enable_shared_from_this<ItemClaims> {
 public:
  ItemClaims(QueueSpecPtr spec, std::shared_ptr<ItemView> view);

  /// Errors: not_held; after in_doubt the claim is over as well.
  zk::Awaitable<zkclient::Result<void>> commit(Taken claim, zk::Call call);
  /// `seen`: it counts as delivered. Otherwise it never was. It goes on in the background when `call` ends early.
  zk::Awaitable<zkclient::Result<void>> give_back(Taken claim, bool seen, zk::Call call);
  /// Keeps it for `delay`, then gives it back; a claim that is lost, or given back by its owner, meanwhile is over.
  static zk::Awaitable<void> give_back_later(std::shared_ptr<ItemClaims> self, Taken claim,
                                             std::chrono::milliseconds delay);
  /// Of a claim whose owner is gone.
  static zk::Awaitable<void> give_back_abandoned(std::shared_ptr<ItemClaims> self, Taken claim);
  /// Removes the claim's node, if it is there still, and is that of this version of the item.
  static zk::Awaitable<void> remove_claim(std::shared_ptr<ItemClaims> self, ItemKey key, std::string node,
                                          std::int32_t version, std::shared_ptr<zk::SessionState> session);
  /// For other transactions that end something.
  const std::shared_ptr<ExactlyOnceWriter>& writer() const noexcept { return writer_; }

 private:
  zk::Awaitable<Written> write_return(const Taken& claim, bool seen, zk::Call call);
  static zk::Awaitable<void> return_in_background(std::shared_ptr<ItemClaims> self, Taken claim, bool seen);
  // `sent`: see ItemView::own_claim_deleted().
  void returned(const Taken& claim, bool buried, zkclient::BootClock::time_point sent);
  void claim_removed(const Taken& claim, zkclient::BootClock::time_point sent);
  void claim_over(const Taken& claim);
  Result<void> gone_with_session(const Taken& claim, bool in_doubt, const std::string& detail) const;
  void keep(const Taken& claim);
  bool to_be_buried(const Taken& claim, bool seen) const;

  const QueueSpecPtr spec_;
  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<ItemView> view_;
  // Apart from that of the takes, so that takes that are refused because others were faster hold up nothing else.
  const std::shared_ptr<ExactlyOnceWriter> writer_;
};

}  // namespace zkrecipes::detail
