#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <zkclient/export.hpp>
#include <zkclient/path.hpp>
#include <zkclient/session.hpp>
#include <zkclient/types.hpp>

namespace zkclient {

/// A condition for a transaction: the node exists (and has this version). A condition that names a session
/// makes the whole transaction refuse to run on any other session; leases hand out such guards.
struct Check {
  Path path;
  std::int32_t version = any_version;
  std::optional<Session> session = {};
};

/// Operations that happen together or not at all. Built by the caller, run by Client::commit, reusable.
/// Errors: refused when added (throws Error, Errc::invalid_argument, which names the operation): container and TTL
/// nodes, `parents` and `protection`, none of which the C client can do inside a transaction; invalid_acl. An empty or
/// too large transaction is refused when committed. Created nodes come back with their path only, without a Stat.
/// Thread safety: a value type.
class ZKRECIPES_API Transaction {
 public:
  /// A node to be made.
  struct Create {
    Path path;
    std::optional<std::string> data;
    CreateMode mode;
    AclList acl;
  };
  /// Data to be written.
  struct Set {
    Path path;
    std::optional<std::string> data;
    std::int32_t version;
  };
  /// A node to be removed.
  struct Remove {
    Path path;
    std::int32_t version;
  };
  using Operation = std::variant<Create, Set, Remove, Check>;

  /// Each appends an operation: make a node, write its data, remove it, check its version. With a version other than
  /// any_version it fails, and with it the whole transaction, unless the node has that one.
  Transaction& create(Path path, DataView data = "", const CreateOptions& options = {});
  Transaction& set(Path path, DataView data, std::int32_t version = any_version);
  Transaction& remove(Path path, std::int32_t version = any_version);
  Transaction& check(Path path, std::int32_t version = any_version);
  Transaction& check(Check check);

  /// In the order in which they were appended.
  const std::vector<Operation>& operations() const noexcept { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// What one operation of a committed transaction did: the created path for a create, the new Stat for a set,
/// empty for the others.
struct OperationResult {
  std::string path;
  std::optional<Stat> stat;
};

}  // namespace zkclient
