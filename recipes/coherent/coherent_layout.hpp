#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/coherent/coherent_format.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The nodes of a coherent cache: their paths, and how they come to be. Full paths. Loop thread only, but for the paths.
class CoherentLayout {
 public:
  CoherentLayout(std::shared_ptr<zk::ClientCore> client, std::string directory, std::uint32_t wanted_shards,
                 zkclient::AclList acl);

  std::string items() const { return zk::child_path(directory_, "items"); }
  std::string item(std::string_view name) const { return zk::child_path(items(), name); }
  std::string gate(std::uint32_t shard) const { return of_shard("gates", shard); }
  std::string holders(std::uint32_t shard) const { return of_shard("holders", shard); }
  std::string holder(std::uint32_t shard, std::string_view name) const { return zk::child_path(holders(shard), name); }
  std::string writer(std::uint32_t shard) const { return of_shard("writers", shard); }
  std::string slots() const { return zk::child_path(directory_, "_c_writes"); }
  const zkclient::AclList& acl() const noexcept { return acl_; }

  /// How many there are, which is written in the directory; it is made if there is none. `shards` gets the number.
  zk::Awaitable<zk::Reply> read_shards(std::uint32_t& shards, zk::Call call) const;
  /// Makes what the shard needs. Its gate comes last: if it is there, so is all else.
  zk::Awaitable<zk::Reply> prepare(std::uint32_t shard, zk::Call call) const;
  /// Makes the directory of its readers, if there is none.
  zk::Awaitable<zk::Reply> make_holders(std::uint32_t shard, zk::Call call) const {
    return make(holders(shard), "", std::move(call));
  }

 private:
  std::string of_shard(const char* kind, std::uint32_t shard) const {
    return zk::child_path(zk::child_path(directory_, kind), std::to_string(shard));
  }
  zk::Awaitable<zk::Reply> make(std::string path, std::string data, zk::Call call) const;

  const std::shared_ptr<zk::ClientCore> client_;
  const std::string directory_;
  const std::uint32_t wanted_shards_;
  const zkclient::AclList acl_;
};

/// The change of a gate from `version` on, as the first operations of a transaction.
std::vector<zkclient::Transaction::Operation> gate_change(const std::string& gate, std::string data,
                                                          std::int32_t version);

/// Whether `second` was read after `first`, as it was launched. Reads whose connection breaks are sent again, each by
/// itself, and perhaps in another order.
inline bool in_order(const zk::Reply& first, const zk::Reply& second) noexcept { return first.sent < second.sent; }

/// The transaction that opens a gate whose writer is gone: refused if there is one, or if the gate has changed.
std::vector<zkclient::Transaction::Operation> reopening(const CoherentLayout& layout, std::uint32_t shard,
                                                        std::int32_t version);

/// Its session ended under it, and its caller still waits: the next session is asked.
inline bool ended_with_its_session(const zk::Reply& reply) {
  return !reply.given_up && (reply.failed(zkclient::Errc::session_lost) || reply.failed(zkclient::Errc::in_doubt));
}

}  // namespace zkrecipes::detail
