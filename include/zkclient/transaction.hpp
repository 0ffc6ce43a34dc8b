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
  Path path;                            ///< Of the node that has to be there.
  std::int32_t version = any_version;   ///< Of its data; any_version: whatever it is.
  std::optional<Session> session = {};  ///< Nothing: any session may run it.
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
    Path path;                        ///< Where.
    std::optional<std::string> data;  ///< Nothing: the data is null.
    CreateMode mode;                  ///< What becomes of the node.
    AclList acl;                      ///< Who may do what with it.
  };
  /// Data to be written.
  struct Set {
    Path path;                        ///< Of the node.
    std::optional<std::string> data;  ///< Nothing: the data becomes null.
    std::int32_t version;             ///< That it must have; or any_version.
  };
  /// A node to be removed.
  struct Remove {
    Path path;             ///< Of the node.
    std::int32_t version;  ///< That it must have; or any_version.
  };
  using Operation = std::variant<Create, Set, Remove, Check>;  ///< One step of a transaction.

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
  std::string path;          ///< Of a create: the created one.
  std::optional<Stat> stat;  ///< Of a create or a set: the node's.
};

}  // namespace zkclient
