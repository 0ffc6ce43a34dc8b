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

#include <zkrecipes/claim.hpp>
#include <zkrecipes/queue_layout.hpp>
#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

namespace detail {
struct QueueSpec;
}

struct QueueOptions {
  /// Default: standard() for a Queue, curator() for the other kinds.
  std::optional<QueueLayout> layout = {};
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the data of claims.
  /// At most that many items, claimed ones included; 0: any number. Kept exactly among pushers with a limit. Only
  /// what a pop() in doubt puts back needs no room: there may be more for a while, rather than one item that is lost.
  std::size_t capacity = 0;
  /// Claims per item: one that came back that often (given back, or its claimer's session ended) is not claimed again
  /// but moved to `dead_letters`. 0: no limit.
  int max_deliveries = 0;
  /// The path of another queue of the same layout. Default: `path`/dead, or `path`-dead in foreign layouts.
  std::optional<zkclient::Path> dead_letters = {};
  /// So many items are claimed ahead of the calls to claim(), at most half of what is waiting, so that others get some.
  /// Items that no call takes within a second go back. 0 to 1000.
  int prefetch = 0;
};

/// One item, as any client sees it.
struct QueueItem {
  std::string node;                             ///< Its name.
  std::string data;                             ///< As it is in the node.
  std::int32_t priority = 0;                    ///< Of a PriorityQueue: lower ones come first.
  int deliveries = 0;                           ///< How often it was claimed.
  std::string claimed_by;                       ///< The claimer's text; "" if it is not claimed.
  std::chrono::system_clock::time_point since;  ///< When it was pushed, by the server's clock.
  std::chrono::system_clock::time_point not_before =
      {};               ///< Of a DelayQueue: when it is due, by the consumers' clocks.
  std::string id = {};  ///< Of an IdQueue.
};

/// The operations that all kinds of queues share: everything but push. Of a DelayQueue, they take and peek at items that
/// are due; size() and list() show all.
class ZKRECIPES_API QueueBase {
 public:
  /// Takes the first item out of the queue (beside other consumers: one of the first ones, so that they do not all meet
  /// at one); waits for one, for ever unless `call` has a deadline or a stop token. At most once: if this process dies
  /// before it has worked on the item, the item is gone (use claim() otherwise).
  /// Errors: see the table in Queue, and those common to all operations of Client.
  [[nodiscard]] std::string pop(const zkclient::CallOptions& call = {});
  /// The same if there is an item now.
  [[nodiscard]] std::optional<std::string> try_pop(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`, or until `deadline`; nullopt when that passed.
  [[nodiscard]] std::optional<std::string> try_pop_for(Timeout timeout, WaitOptions options = {});
  [[nodiscard]] std::optional<std::string> try_pop_until(std::chrono::steady_clock::time_point deadline,
                                                         WaitOptions options = {});
  /// The same; `handler` is called exactly once, on the callback executor. Many at a time are the way to be fast: their
  /// requests go out together.
  void async_pop(zkclient::Handler<std::string> handler, const zkclient::CallOptions& call = {});
  void async_try_pop(zkclient::Handler<std::optional<std::string>> handler, const zkclient::CallOptions& call = {});

  /// Claims the first item that is not claimed. At least once: the item stays in the queue until Claim::commit().
  /// Waiting and errors as pop().
  Claim claim(const zkclient::CallOptions& call = {});
  [[nodiscard]] std::optional<Claim> try_claim(const zkclient::CallOptions& call = {});
  [[nodiscard]] std::optional<Claim> try_claim_for(Timeout timeout, WaitOptions options = {});
  [[nodiscard]] std::optional<Claim> try_claim_until(std::chrono::steady_clock::time_point deadline,
                                                     WaitOptions options = {});
  void async_claim(zkclient::Handler<Claim> handler, const zkclient::CallOptions& call = {});
  void async_try_claim(zkclient::Handler<std::optional<Claim>> handler, const zkclient::CallOptions& call = {});

  /// The first item that is not claimed, left where it is; nullopt when there is none.
  [[nodiscard]] std::optional<std::string> peek(const zkclient::CallOptions& call = {}) const;
  void async_peek(zkclient::Handler<std::optional<std::string>> handler, const zkclient::CallOptions& call = {}) const;
  /// Nodes of items, claimed ones included. One round trip.
  std::size_t size(const zkclient::CallOptions& call = {}) const;
  void async_size(zkclient::Handler<std::size_t> handler, const zkclient::CallOptions& call = {}) const;
  /// All items in order, claimed ones included. Reads every one of them.
  std::vector<QueueItem> list(const zkclient::CallOptions& call = {}) const;
  void async_list(zkclient::Handler<std::vector<QueueItem>> handler, const zkclient::CallOptions& call = {}) const;

  const zkclient::Path& path() const noexcept;

 protected:
  QueueBase(zkclient::Client client, zkclient::Path path, QueueOptions options, detail::QueueKind kind);
  ~QueueBase();
  QueueBase(QueueBase&&) noexcept;
  QueueBase& operator=(QueueBase&&) noexcept;

  // `name`: of the items' nodes, without the number that the server appends.
  bool push_items(std::vector<std::string> items, std::string name, bool wait, const zkclient::CallOptions& call);
  void async_push_items(std::vector<std::string> items, std::string name, bool wait, zkclient::Handler<bool> handler,
                        const zkclient::CallOptions& call);
  std::size_t remove_items(std::string_view id, const zkclient::CallOptions& call);
  void async_remove_items(std::string_view id, zkclient::Handler<std::size_t> handler,
                          const zkclient::CallOptions& call);
  const detail::QueueSpec& spec() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A first-in-first-out queue for all processes that name the same path.
/// Source: "Queues" in ZooKeeper's recipes; Apache Curator's DistributedQueue; kazoo's Queue and LockingQueue.
///
///   path (persistent)
///    |-- items (persistent)
///    |    |-- item-0000000007    persistent: the item's bytes; its version counts how often it was claimed
///    |    '-- item-0000000008
///    |-- claims (container; persistent in a layout of other libraries)
///    |    '-- item-0000000007    ephemeral: a consumer works on it; data: which
///    '-- slots (container)
///         '-- <uuid>             ephemeral: makes a write whose reply was lost repeatable, see below
///
/// Invariant: an item leaves `items` in one transaction, once, by its pop() or the commit() of its newest claim (or by
/// IdQueue::remove()).
///
/// Every push, pop, claim and commit is a transaction that also writes to a slot of ours on condition of its version.
/// If its reply is lost it is sent again: the condition fails if it was applied before. So a lost reply loses nothing
/// and doubles nothing. Calls that overlap share transactions. Items are not tied to their pushers.
///
/// Guaranteed: no item is lost or given to two pop() calls; no item is claimed by two at a time; push order, for pushes
/// that do not overlap; one consumer takes in that order (several at a time share the first ones out among them:
/// at most 512, or a sixteenth of what waits).
/// Not guaranteed: that a claimed item is worked on only once (a process that was paused past its session goes on with
/// it, but its commit() fails); that an item popped by a process that died was worked on.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// push: request or reply lost              nothing: it is pushed once
/// pop, claim, commit: reply lost           nothing: it is done once
/// folder missing or removed                nothing: created again; the items in it are gone
/// connection breaks while waiting          nothing: it goes on waiting, also on the next session
/// session lost while push, pop, commit     in_doubt: it may have been done. If pop took an item, which the error names,
///   wait for the answer                    that is gone (Error::node())
/// session lost while claimed               Claim::lost() fires; the item returns; commit() throws not_held
/// claim deleted by hand                    Claim::lost() fires as soon as that is seen; commit() throws not_held
/// claimer's process dies                   its items return when its session ends
/// item deleted by hand                     nothing if it was not claimed; else commit() throws not_held
/// commit refused for another reason        that error; nothing has happened, and the claim goes on
/// item comes back max_deliveries times     nothing: it is moved to dead_letters, the next one is taken
/// deadline, stop request while waiting     deadline_exceeded, cancelled (or nullopt); nothing was taken
/// the same while pop waits for the answer  the item, if the answer comes within 0.5 s. Otherwise in_doubt: if the item,
///                                          Error::node(), turns out to be taken, it is put back into its
///                                          place, or to the end if that was taken meanwhile. While it cannot be
///                                          written that is tried again, and the log tells of it
/// the same while claim waits for it        the claim, if the answer comes within 0.5 s. Otherwise the same as above:
///                                          the item goes back
/// the same while push, commit wait for it  in_doubt: it may have been done; a claim is over
/// queue full                               push waits (deadline_exceeded); try_push returns false
/// quota of the servers full                push fails with quota_exceeded, which names it; pop, claim, commit, give_back
///                                          work. See docs/quotas.md
/// item is not in the layout's format       pop, claim throw foreign_node, which names it; it stays, and
///                                          the next call gets the next one. For this object it comes behind the others
///                                          from then on, until it can be taken or the session ends
/// item that its consumer cannot take       the same with no_auth (it may not be read, or not be claimed; or it came back
///                                          and may not be moved to dead_letters, or not be popped as a claim would be
///                                          needed for that) or too_large: a claim sends some hundred bytes more than the
///                                          push
/// client closed                            closed (in_doubt for a push, pop, commit that was sent); claims are lost. An
///                                          item that a pop() in doubt took, and that is not back yet, may be gone:
///                                          the log names it
/// foreign child in the folder              ignored
///
/// A path belongs to one recipe. ZooKeeper is not made for large queues; docs/queues.md says when to use another one.
///
/// Thread safety: all members. The object keeps its client open; a Claim does not.
class ZKRECIPES_API Queue : public QueueBase {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (options, or the path is the root).
  Queue(zkclient::Client client, zkclient::Path path, QueueOptions options = {});

  /// Appends an item; waits while the queue is full. Errors: see the table, and those common to all operations of
  /// Client.
  void push(std::string_view item, const zkclient::CallOptions& call = {});
  /// The same if there is room now; false when there is not.
  [[nodiscard]] bool try_push(std::string_view item, const zkclient::CallOptions& call = {});
  /// Appends several in one transaction, all or none, next to each other. Errors: too_large (over 1 MB together),
  /// invalid_argument (more than the queue may ever hold). No items: nothing happens.
  void push_all(std::vector<std::string> items, const zkclient::CallOptions& call = {});
  void async_push(std::string_view item, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  void async_try_push(std::string_view item, zkclient::Handler<bool> handler, const zkclient::CallOptions& call = {});
  void async_push_all(std::vector<std::string> items, zkclient::Handler<void> handler,
                      const zkclient::CallOptions& call = {});
};

}  // namespace zkrecipes
