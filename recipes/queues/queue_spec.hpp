#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/queue.hpp>

#include "recipes/kernel/attempt.hpp"
#include "recipes/queues/item_format.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

/// The constants of one queue. Folders are full paths.
struct QueueSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< The recipe's, as the user wrote it.
  std::string items;
  std::string claims;
  std::string slots;         ///< See ExactlyOnceWriter.
  std::string dead_letters;  ///< Another queue's items.
  ItemFormat format{QueueLayout::Style::standard, QueueKind::plain};
  bool prioritized = false;
  /// Others claim without writing to the item, so its version does not tell.
  bool foreign_claims = false;
  zkclient::AclList acl;
  std::string id;
  std::size_t capacity = 0;
  int max_deliveries = 0;
  int prefetch = 0;

  std::string item_path(const ItemKey& key) const { return zk::child_path(items, key.name); }
  std::string claim_path(const ItemKey& key) const { return zk::child_path(claims, key.name); }
  /// The failure of `reply`. `doubtful_item`: see zkclient::Error::node().
  zkclient::Error error(const zk::Reply& reply, const char* operation, std::string_view doubtful_item = {}) const;
  /// Makes the folders that claims need; the dead letters' only if items may come there, or `with_dead_letters`.
  zk::Awaitable<zk::Reply> make_folders(zk::Call call, bool with_dead_letters = false) const;
};

/// Shared, because background work needs it until its end.
using QueueSpecPtr = std::shared_ptr<const QueueSpec>;

/// Items that were taken out of the queue, or claimed.
struct Taken {
  ItemKey key;
  std::vector<std::string> items;
  std::string reason = {};   ///< Why it was rejected, before it came into this queue.
  std::int32_t version = 0;  ///< Of a claimed item: its node's. No other worker has claimed it since while it has that.
  LeasePtr lease = {};       ///< Of a claim.
  std::string claim = {};    ///< Where the claim's node stands: in the folder of the claims, or at a claim_place().
  std::optional<std::string> rejection = {};  ///< Why its owner rejects it.
  std::shared_ptr<bool> abandoned = {};       ///< The claim's owner is gone while it was being committed.
  std::int64_t czxid = 0;                     ///< Of the item's node, as it was read.
};

enum class TakeKind { pop, claim };
/// For error texts.
constexpr const char* name_of(TakeKind kind) noexcept { return kind == TakeKind::pop ? "queue pop" : "queue claim"; }

/// The behaviour of a push when there is no room.
enum class WhenFull { wait, refuse, ignore };

}  // namespace zkrecipes::detail
