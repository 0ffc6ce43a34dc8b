#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/anchored.hpp>
#include <zkclient/export.hpp>
#include <zkclient/stop.hpp>

namespace zkclient {

/// The server's record of a node. Identity of a node = `czxid`, of its data = `mzxid`, of its list of children
/// = `pzxid`; `version` restarts when a node is re-created and identifies nothing.
struct Stat {
  std::int64_t czxid = 0;             ///< Transaction that created the node; grows over the whole ensemble.
  std::int64_t mzxid = 0;             ///< Transaction that last changed the data.
  std::int64_t pzxid = 0;             ///< Transaction that last added or removed a child.
  std::int64_t ctime_ms = 0;          ///< Server's wall clock, milliseconds since 1970.
  std::int64_t mtime_ms = 0;          ///< The same, of the last change of the data.
  std::int32_t version = 0;           ///< Changes of the data since the node was created.
  std::int32_t children_version = 0;  ///< Children that came or went since then.
  std::int32_t acl_version = 0;       ///< Changes of the access control list since then.
  std::int32_t data_length = 0;       ///< In bytes.
  std::int32_t children_count = 0;    ///< How many children it has.
  std::int64_t ephemeral_owner = 0;   ///< Session id of an ephemeral node's owner; 0 otherwise.

  friend bool operator==(const Stat&, const Stat&) = default;
};

/// Data handed to the client. `std::nullopt` writes null data, which the server tells apart from empty data.
using DataView = std::optional<std::string_view>;

/// A node's data with its Stat, both of one instant.
struct NodeData {
  std::string data;      ///< Empty also when the data is null.
  bool is_null = false;  ///< There is no data, not even an empty text.
  Stat stat;             ///< The node's.
};

/// Names of a node's children (unordered, no path) with the node's Stat.
struct Children {
  std::vector<std::string> names;  ///< Without their path, in no order.
  Stat stat;                       ///< Of the node whose children they are.
};

/// One entry of an access control list.
struct Acl {
  /// What an identity may do; sums of them.
  enum Permission : std::int32_t { read = 1, write = 2, create = 4, remove = 8, admin = 16, all = 31 };
  std::int32_t permissions = all;          ///< A sum of Permission.
  Anchored<std::string> scheme = "world";  ///< How the server knows the identity: "world", "digest", "ip", ...
  Anchored<std::string> id = "anyone";     ///< The identity, as the scheme writes it.

  friend bool operator==(const Acl&, const Acl&) = default;
};
/// A node's access control list.
using AclList = std::vector<Acl>;

/// A node's access control list with its Stat (`Stat::acl_version` for a conditional set_acl).
struct NodeAcl {
  AclList acl;  ///< Who may do what.
  Stat stat;    ///< The node's.
};

/// Why no server accepts the list, nullptr if there is no such reason.
ZKRECIPES_API const char* acl_defect(const AclList& acl) noexcept;

ZKRECIPES_API AclList open_acl();         ///< All clients may do everything (the default).
ZKRECIPES_API AclList read_only_acl();    ///< All clients may read.
ZKRECIPES_API AclList creator_all_acl();  ///< Only the identities authenticated on the creating session.

/// What becomes of a node, and what its name is. Sequential: the server appends ten digits that count up.
enum class CreateMode {
  persistent,                 ///< Stays until it is removed.
  persistent_sequential,      ///< The same, with a number.
  ephemeral,                  ///< Goes with the session that made it.
  ephemeral_sequential,       ///< The same, with a number.
  container,                  ///< Removed by the server some time after its last child went away.
  persistent_ttl,             ///< Removed by the server when it has no children and was not changed for `ttl`.
  persistent_sequential_ttl,  ///< The same, with a number.
};

/// How a node is made.
struct CreateOptions {
  /// What becomes of it.
  CreateMode mode = CreateMode::persistent;
  /// Who may do what with it.
  Anchored<AclList> acl = open_acl();
  std::chrono::milliseconds ttl{0};  ///< For the two TTL modes only; must be positive there, zero elsewhere.
  /// Create missing parents first. Those stay when the create itself fails or is given up.
  bool parents = false;
  CreateMode parent_mode = CreateMode::container;  ///< The kind of the parents; or CreateMode::persistent.
  Anchored<AclList> parent_acl = open_acl();       ///< Theirs; `acl` is of the node alone.
  /// Put a unique id before the node's name ("_c_<uuid>-", Curator's protected create), so that a create whose
  /// reply was lost is found again instead of being in doubt. Where it stays in doubt all the same (the deadline, a
  /// stop request, a lost session), the node that may have been made is being removed in the background.
  bool protection = false;
};

/// The result of a create: the path (with the sequence number, if any; without the client's prefix) and its Stat.
struct Created {
  std::string path;  ///< With the sequence number.
  Stat stat;         ///< Of the new node.
};

/// When a call has to end: a point in time on the steady clock, or a time from now on (`{.deadline = 5s}`), however
/// long or short. Otherwise a std::optional.
class Deadline : public std::optional<std::chrono::steady_clock::time_point> {
 public:
  using Clock = std::chrono::steady_clock;  ///< Of its points in time.
  using optional::optional;

  constexpr Deadline() noexcept = default;
  /// A point in time, or none.
  constexpr Deadline(const std::optional<Clock::time_point>& when) noexcept : optional(when) {}
  /// That long from now on.
  template <typename Rep, typename Period>
  Deadline(std::chrono::duration<Rep, Period> time) noexcept {
    using Seconds = std::chrono::duration<double>;  // hours::max() in nanoseconds is more than an integer holds.
    const auto now = Clock::now();
    if (Seconds(time) >= Seconds(Clock::time_point::max() - now)) {
      emplace(Clock::time_point::max());
    } else if (Seconds(time) <= Seconds(-now.time_since_epoch())) {
      emplace();  // The clock's epoch, which is over as well: what lies before it cannot be subtracted from now.
    } else {
      emplace(now + std::chrono::duration_cast<Clock::duration>(time));
    }
  }
};

/// Limits of one call. Every blocking and every asynchronous operation takes them.
struct CallOptions {
  /// Covers every step of the call. Default: now + operation_timeout.
  Deadline deadline = {};
  /// A stop request ends the call at once; `ErrorKind::in_doubt` if a write was already sent. Also two tokens in
  /// braces.
  Anchored<AnyStop> stop = {};
};

/// Matches any version in set, remove and check. A version of 2^31 - 1 is followed by -2^31, so the other negative
/// numbers are versions, too; a node whose version is -1 by chance can only be written unconditionally.
inline constexpr std::int32_t any_version = -1;

}  // namespace zkclient
