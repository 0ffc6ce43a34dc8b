#pragma once

#include <memory>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/optimistic.hpp>

namespace zkrecipes {

/// One step of a MigrationSet: either changes, or a function that reads first.
struct MigrationStep {
  std::string name;                    ///< For people, in errors and plans.
  zkclient::Transaction changes = {};  ///< Empty if there is a function.
  Optimistic::Function function = {};  ///< Null if there are changes.
};

/// An ordered list of steps that change a tree, each once per ensemble. A program keeps all of its history, and appends. A
/// value type.
class ZKRECIPES_API MigrationSet {
 public:
  /// `name`: one component of a path, the same in all versions of the program. Errors: invalid_argument.
  explicit MigrationSet(std::string name);

  /// Appends a step. Its paths are those of the client that migrates. What it is must not change afterwards: see the
  /// class Migrations. Errors: invalid_argument (no name, a name that another step has, nothing to be changed, an
  /// ephemeral node, a check that belongs to a session, as Lease::guard() does).
  MigrationSet& add(std::string step, zkclient::Transaction changes);
  /// Appends a step that reads first. It may run several times, but is written once. It must not migrate the same set:
  /// it would wait for its own lock. Its runs and its write may take as long as the call; if that has no
  /// deadline, as the client's operation_timeout (then: deadline_exceeded). Errors: invalid_argument.
  MigrationSet& add(std::string step, Optimistic::Function function);

  /// As it was given to the constructor.
  const std::string& name() const noexcept { return name_; }
  /// All steps, in the order in which they run.
  const std::vector<MigrationStep>& steps() const noexcept { return steps_; }

 private:
  void require_step(const std::string& step) const;
  std::string name_;
  std::vector<MigrationStep> steps_;
};

/// A step that the tree has not seen yet.
struct PendingStep {
  std::string name;                  ///< As MigrationSet::add() got it.
  std::vector<std::string> changes;  ///< "create /app", "set /app", "remove /app", "check /app"; none for a function.

  friend bool operator==(const PendingStep&, const PendingStep&) = default;
};

struct MigrationsOptions {
  /// For every node of the recipe's own, and for those that functions create. A transaction says its own.
  zkclient::AclList acl = zkclient::open_acl();
  std::string id = {};  ///< Shown to operators in the lock's nodes.
};

/// Changes of a tree that programs bring along: each is applied once per ensemble, in order, by whichever process comes
/// first. Source: MigrationManager of Apache Curator, with which it shares lock and records; the records' digests are
/// tested against bytes that Curator 5.4's own digest gave.
///
///   lock/<set> (container)                  a Semaphore of one: see semaphore.hpp
///   records
///    |-- <set>                              persistent: a container could go while the first function runs
///    |    |-- meta-0000000000               persistent: a step that was applied; data: its SHA-256
///    |    '-- meta-0000000001
///    '-- _c_writes (container)              of steps that are functions: exactly_once.md
///
/// The digest of changes is that of Curator: of path, type and content of each operation. Paths are without the client's
/// prefix, as without the chroot of a Curator client, but with its namespace. Of a function it is that of the step's name:
/// Curator has no such steps.
///
/// Nodes in the folder of a set whose names do not begin with "meta-" are left alone. Curator takes them for records, and
/// refuses the set.
///
/// Invariant: one transaction makes the record, applies the step, and checks that the lock is still held; a record's name
/// is that behind all that were read.
///
/// Guaranteed: a step is applied whole, with its record, or not at all; once, although replies and sessions get lost and
/// other programs of this library migrate; after all steps before it. Not guaranteed: that no program of an older version
/// runs meanwhile; that one call finds all steps in one transaction (Curator does that); once beside a Curator program whose
/// session ended while it migrates: it does not check its lock when it writes.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// a step: request or reply lost            nothing: its record tells whether it was applied
/// a function: request or reply lost        nothing: it is written once
/// a read: request or reply lost            nothing
/// a read lost too often (RetryPolicy)      connection_loss, or in_doubt as for a deadline
/// another process migrates                 it is waited for; what it has applied is not applied again
/// session lost meanwhile                   nothing: the lock is acquired again, and it goes on where it was
/// lock deleted by hand meanwhile           the same
/// process dies                             its steps stay; the next call goes on behind the last one
/// an applied step was changed              foreign_node, which names set, step and record; nothing was applied
/// the tree has more steps than the set     foreign_node, which says how many, and from where on; nothing was applied
/// a step is refused (node_exists, ...)     its error, which names set and step; those before it stay applied
/// a function throws                        its exception, an Error with set and step added; those before it stay applied
/// a function sets a node that was made     foreign_node, if the versions are the same: the step was applied, with its
///   again                                  record, over the new data
/// a set's empty folder is deleted          nothing: it is made again, and a function runs again
/// a node "meta-..." that is no record      foreign_node, which names it; nothing was applied
/// records deleted by hand                  foreign_node, or, if they were the last ones, their steps are applied again
/// deadline, stop request                   in_doubt if a step was sent and it is not known whether it was applied; else
///                                          deadline_exceeded, cancelled. Call again: what was applied is not repeated
/// quota of the servers full                quota_exceeded; see docs/quotas.md
/// client closed                            calls end with closed, or in_doubt likewise
///
/// Thread safety: all members. The object, and a call that runs, keep the client open. A moved-from object may only be
/// destroyed or assigned to.
class ZKRECIPES_API Migrations {
 public:
  /// `lock`, `records`: the folders for the locks and the records of all sets. No I/O. Errors: invalid_acl (see
  /// acl_defect()), invalid_argument (one of them is below the other).
  Migrations(zkclient::Client client, zkclient::Path lock, zkclient::Path records, MigrationsOptions options = {});
  ~Migrations();
  Migrations(Migrations&&) noexcept;
  Migrations& operator=(Migrations&&) noexcept;

  /// Applies the steps of `set` that the tree has not seen yet; returns the names of those that it has applied. A step
  /// whose reply was lost together with the lock is not among them: another process may have applied it. Waits for
  /// other processes that migrate the same set, for ever unless `call` has a deadline or a stop token; then blocks for
  /// about five round trips, and, if there is a step to apply, one more and one for each step, more for a function.
  /// Functions run in the calling thread, or, for the asynchronous form, on the callback executor, where the whole call
  /// blocks. Errors: see the table, those of Semaphore::acquire(), and those common to all operations of Client; what a
  /// function throws (in the asynchronous form an Error; anything else is invalid_argument with its message).
  std::vector<std::string> migrate(const MigrationSet& set, const zkclient::CallOptions& call = {});
  void async_migrate(MigrationSet set, zkclient::Handler<std::vector<std::string>> handler,
                     const zkclient::CallOptions& call = {});

  /// A dry run: the steps that migrate() would apply now. It takes no lock, and writes nothing. Blocks for two round
  /// trips. Errors: foreign_node (see the table), and those common to all operations of Client.
  std::vector<PendingStep> pending(const MigrationSet& set, const zkclient::CallOptions& call = {}) const;
  void async_pending(MigrationSet set, zkclient::Handler<std::vector<PendingStep>> handler,
                     const zkclient::CallOptions& call = {}) const;

  /// Of the records.
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
