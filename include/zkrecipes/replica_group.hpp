#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>

namespace zkrecipes {

namespace detail {
class ReplicaCore;
}

/// A member that has every acknowledged write. It is a storage that does: with an emptied disk, or on another machine, the
/// same id is a new member.
struct InSyncReplica {
  std::string id;
  std::string storage;
  std::chrono::milliseconds term{0};  ///< How long it may serve reads without having asked again.

  friend bool operator==(const InSyncReplica&, const InSyncReplica&) = default;
};

/// What a group has agreed upon.
struct ZKRECIPES_API ReplicaState {
  std::int64_t epoch = 0;              ///< Grows with each primary. 0: there was none yet.
  std::string primary = {};            ///< Of this epoch; "": there was none. It may be gone by now.
  std::vector<InSyncReplica> in_sync;  ///< Ordered by id.
  std::size_t minimum = 1;             ///< With fewer in sync, nothing is written.
  std::int64_t forced = 0;  ///< The last epoch before which an operator gave up acknowledged writes; 0: none.
  std::chrono::milliseconds leaving{0};  ///< The longest term of those that were taken out, and may serve reads still.

  /// Null if it is not in sync.
  const InSyncReplica* find(std::string_view id) const noexcept;
  friend bool operator==(const ReplicaState&, const ReplicaState&) = default;
};

/// A member that is there, as it has shown itself.
struct ReplicaMember {
  std::string id;
  std::string storage;
  std::chrono::milliseconds term{0};
  std::uint64_t version = 0;  ///< As it has reported.
  std::string address = {};

  friend bool operator==(const ReplicaMember&, const ReplicaMember&) = default;
};

}  // namespace zkrecipes
