#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

namespace zkrecipes {

namespace detail {
class OptimisticRun;
}

struct OptimisticOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
};

/// What a function of Optimistic::atomically() reads and changes. It shows the nodes with the function's own changes,
/// which are written when the function has returned, all or none. Each node and each list is read once, and remembered;
/// that blocks for one round trip, and one more for each missing node of its path.
///
/// Errors of each member: those common to all operations of Client, under the limits of the call. They end the
/// transaction: nothing is written, whatever the function does then.
///
/// Thread safety: only for the function that got it, in its thread, until it returns.
class ZKRECIPES_API OptimisticView {
 public:
  explicit OptimisticView(detail::OptimisticRun& run) noexcept : run_(run) {}  ///< For the recipe.
  OptimisticView(const OptimisticView&) = delete;
  OptimisticView& operator=(const OptimisticView&) = delete;

  /// The node's data. Errors: no_node.
  std::string get(const zkclient::Path& path);
  /// nullopt: there is no such node.
  std::optional<std::string> find(const zkclient::Path& path);
  bool exists(const zkclient::Path& path);
  /// The names of its children, in alphabetical order. Errors: no_node.
  std::vector<std::string> children(const zkclient::Path& path);

  /// Errors: no_node.
  void set(const zkclient::Path& path, std::string_view data);
  /// A persistent node. Errors: node_exists, no_node (its parent is missing).
  void create(const zkclient::Path& path, std::string_view data);
  /// Errors: no_node, not_empty (children that this function knows of).
  void remove(const zkclient::Path& path);

  /// How many times the function was begun, this one included.
  int attempt() const noexcept;

 private:
  detail::OptimisticRun& run_;
};

/// Functions that read some nodes and change some, each as if it ran alone: software transactional memory. Source:
/// etcd's STM; optimistic concurrency control (Kung and Robinson).
///
///   path (container, if it was missing)
///    '-- _c_writes (container) ephemeral nodes that make writes happen once: exactly_once.md
///   the nodes that the functions name, wherever they are
///
/// A function runs, its changes are kept back, and one transaction writes them, which checks all that the function has
/// read. If another client has changed any of it meanwhile, nothing is written and the function runs again.
///
/// Invariant: the transaction that is applied checks, or replaces, each node and each list that its function has read.
///
/// Guaranteed: functions that end without an error have one order, which lies between call and return, and in which
/// each of them read what those before it had written. What a function has changed is written once, or not at all.
/// Not guaranteed: that a function sees one state while it runs: what it reads may be of different instants, and then
/// it runs again; progress of one caller while others keep changing the same nodes (somebody always succeeds).
/// The server compares versions, and those begin again in a node that was deleted and made again: whoever read the
/// former one does not notice if the version is the same. A node that comes and goes should rather be emptied.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// a read: request or reply lost            nothing
/// writing: request or reply lost           nothing: it is written once
/// another client changes what was read     nothing: the function runs again
/// a missing node that was read is made     the same
/// the children of a list change            the same
/// what was read does not fit together      the same, also if the function threw
/// the function throws                      its exception, and nothing was written
/// session lost while writing               in_doubt if it was sent and not answered; else nothing: it goes on with the
///                                          next session
/// deadline, stop request                   in_doubt if the changes were sent and not answered; else deadline_exceeded,
///                                          cancelled, and nothing was done
/// node deleted and made again              not noticed by a reader if the version is the same; a change that may have
///                                          hit the new node ends with foreign_node
/// a node's version is about to be -1       nothing: -1 means any version, so it is skipped
/// a node's version is -1                   bad_version, which names it: it cannot be checked
/// an operation is refused (no_auth, ...)   its error, and nothing was written
/// more than fits into a transaction        too_large, and nothing was written
/// a slot deleted by hand                   nothing; in_doubt if a reply is missing just then
/// client closed                            calls end with closed, or in_doubt likewise
///
/// Costs of the checks: one of a missing node makes it and removes it, one of a list makes a child and removes it, in
/// the same transaction: watches of these lists fire. A list of n children takes n + 2 operations.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to.
class ZKRECIPES_API Optimistic {
 public:
  /// May be called several times: it should change nothing but what it returns through, and begin with that each time.
  using Function = std::function<void(OptimisticView&)>;

  /// `path`: a folder for the recipe's own nodes, `_c_writes`. No I/O. Errors: invalid_acl (see acl_defect()).
  Optimistic(zkclient::Client client, zkclient::Path path, OptimisticOptions options = {});
  ~Optimistic();
  Optimistic(Optimistic&&) noexcept;
  Optimistic& operator=(Optimistic&&) noexcept;

  /// Runs `function` until what it has read is still true when its changes are written. Blocks for the function's reads
  /// and one round trip; for two more after another client's change: what was read before is then read again in one
  /// flight. The function runs in the calling thread, or, for the asynchronous form, on the callback executor, where
  /// its reads block. Errors: see the table, and those common to all operations of Client; what the function throws (in
  /// the asynchronous form an Error; anything else is invalid_argument with its message).
  void atomically(const Function& function, const zkclient::CallOptions& call = {});
  void async_atomically(Function function, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
