#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/error.hpp>
#include <zkclient/transaction.hpp>

namespace zkrecipes::detail {

/// A node, as it was read.
struct SeenNode {
  bool exists = false;
  std::string data = {};
  std::int32_t version = 0;
  std::int64_t czxid = 0;
  /// If it does not exist: the first node of its path that does not, whose parent is there.
  std::string missing = {};
};

/// The children of a node, as they were listed.
struct SeenList {
  std::vector<std::string> names = {};
  std::int32_t created = 0;  ///< How many children the node has had so far: see creations_of().
  bool fixed = false;        ///< An ephemeral node: it cannot have any.
};

/// How many children a node has had. The server numbers sequential nodes by it.
std::int32_t creations_of(const zkclient::Stat& stat) noexcept;

/// What one run of a function has read, and what it wants to write: a value, which knows no server. All paths are full.
///
/// What was read is checked by the transaction that writes:
///   a node that was there        its version
///   a node that was not there    create and remove it, or the first node of its path that was missing
///   a list of children           no child was made: a sequential node gets the number that comes next, which a check of
///                                its name proves. None was removed: each one is there
class TransactionSet {
 public:
  bool knows(const std::string& path) const { return nodes_.contains(path); }
  /// As it was read, whatever was changed since. It is known.
  bool existed(const std::string& path) const { return nodes_.at(path).seen.exists; }
  bool knows_list(const std::string& path) const { return lists_.contains(path); }
  void add(const std::string& path, SeenNode node);
  void add_list(const std::string& path, SeenList list);
  /// All that is known, to be read again.
  std::vector<std::string> paths() const;

  // As the function sees it: with its own changes. Of nodes that are known.
  const std::optional<std::string>& data(const std::string& path) const;
  /// In alphabetical order. Of a list that is known.
  std::vector<std::string> names(const std::string& path) const;

  // Changes, of nodes that are known. An error: it cannot be, and nothing was changed.
  std::optional<zkclient::Errc> set(const std::string& path, std::string data);
  std::optional<zkclient::Errc> create(const std::string& path, std::string data);
  std::optional<zkclient::Errc> remove(const std::string& path);

  bool writes() const noexcept { return !changes_.empty(); }
  /// Checks, and, if `writing`, the changes. `id`: unique, for the names of the nodes that check.
  std::vector<zkclient::Transaction::Operation> operations(const zkclient::AclList& acl, std::string_view id,
                                                           bool writing) const;
  /// A node that was read and has the version -1, which cannot be checked; "" if there is none.
  std::string uncheckable() const;
  /// Whether a refusal of an operation on `path` means that what was read is outdated. `code`: of the C client.
  bool is_conflict(const std::string& path, int code) const;
  /// The node as it was read, if the first change was to set it: the reply tells whether it still is that one.
  const SeenNode* first_set(const std::string& path) const;

 private:
  enum class Kind { set, create, remove };
  struct Node {
    SeenNode seen;
    std::optional<std::string> data;  // Now.
    std::optional<Kind> first;        // Change.
    std::int32_t version = 0;         // Now, if it exists.
  };
  struct Change {
    Kind kind;
    std::string path;
    std::string data;
    std::int32_t version;  // That is expected.
  };

  void change(Kind kind, const std::string& path, Node& node, std::string data);

  std::map<std::string, Node> nodes_;
  std::map<std::string, SeenList> lists_;
  std::vector<Change> changes_;  // In their order.
};

}  // namespace zkrecipes::detail
