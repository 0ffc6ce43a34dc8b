#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/cache.hpp>
#include <zkrecipes/lease.hpp>

namespace zkrecipes {

namespace detail {
struct PartitionMapState;
}

/// Who owns a partition.
struct PartitionOwner {
  std::string id;               ///< PartitionerOptions::id
  std::string data = {};        ///< PartitionerOptions::data: the owner's address, say.
  FencingToken token = {};      ///< Of its lease; grows from owner to owner.
  std::int64_t session_id = 0;  ///< The session that it lives with.

  friend bool operator==(const PartitionOwner&, const PartitionOwner&) = default;
};

/// The difference that one partition makes.
struct OwnerChange {
  std::string partition;                      ///< Its name.
  std::optional<PartitionOwner> before = {};  ///< Nothing: it had no owner.
  std::optional<PartitionOwner> after = {};   ///< Nothing: it has none now.
};

/// The owners of a Partitioner's partitions, for those who send their requests there. Kept up to date by watches.
///
/// What it says is what a server said last: an owner may have lost its partition meanwhile, and answers so; then send to
/// the next one that this tells. It creates nothing, and takes the right to read.
///
/// Cost: as a TreeCache of one directory and one node per partition. owner() asks no server, and takes less than a
/// microsecond.
///
/// What goes wrong                              What the caller sees
/// -------------------------------------------  ------------------------------------------------------------------
/// connection breaks, session lost              state() is stale, the owners stay; then what is new
/// the path is missing                          no partition has an owner
/// a partition has no owner                     nothing; wait_owner() waits for one
/// owners cannot be read                        problem() is no_auth; the others go on
/// a node is no owner's                         it is left out
/// client closed                                state() is closed, the owners stay; calls end with Errc::closed
///
/// Thread safety: all members, also from listeners. The object keeps its client open. A moved-from object may only be
/// destroyed or assigned to. In a forked child state() is closed, nothing has an owner, and calls end with Errc::forked.
class ZKRECIPES_API PartitionMap {
 public:
  using Owners = std::map<std::string, PartitionOwner, std::less<>>;  ///< Owners by their partitions' names.
  /// Gets the partitions that have changed their owners.
  using Listener = zkclient::UniqueFunction<void(const std::vector<OwnerChange>& changes)>;

  /// Begins to read; returns at once. `path`: the Partitioner's. Errors: closed.
  PartitionMap(zkclient::Client client, zkclient::Path path);
  /// As close().
  ~PartitionMap();
  PartitionMap(PartitionMap&&) noexcept;
  PartitionMap& operator=(PartitionMap&&) noexcept;

  /// nullopt: it has none, or nothing is known yet. Does not block.
  std::optional<PartitionOwner> owner(std::string_view partition) const;
  /// Of all partitions that have one, by name. Does not block.
  Owners owners() const;
  /// As Cache::state() and Cache::problem().
  CacheState state() const noexcept;
  std::optional<zkclient::Error> problem() const;

  /// Waits until the owners have been read once, and all that this client has taken and released before; for ever unless
  /// `call` has a deadline or a stop token. Afterwards owner() knows of it, too. Sends no request, as Cache::wait_ready(). Errors:
  /// as there.
  Owners wait_ready(const zkclient::CallOptions& call = {}) const;
  void async_wait_ready(zkclient::Handler<Owners> handler, const zkclient::CallOptions& call = {}) const;
  /// Waits until the partition has an owner: one with a higher token than `above`, that of an owner who has refused a
  /// request, say. Otherwise as wait_ready(). Errors, which say who owned it last: also invalid_path (no node can have
  /// this name).
  PartitionOwner wait_owner(const std::string& partition, FencingToken above = {},
                            const zkclient::CallOptions& call = {}) const;
  void async_wait_owner(const std::string& partition, FencingToken above, zkclient::Handler<PartitionOwner> handler,
                        const zkclient::CallOptions& call = {}) const;

  /// Calls `listener` with all owners as soon as they are known, then with each net difference, on the callback
  /// executor, one call at a time. Errors: invalid_argument (no listener).
  zkclient::Subscription on_change(Listener listener) const;

  /// As Cache::close(). The last owners stay.
  void close();

  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<detail::PartitionMapState> state_;
};

}  // namespace zkrecipes
