#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/queue.hpp>

namespace zkrecipes {

/// A first-in-first-out queue whose items have ids, by which they can be removed before a consumer has them. What is
/// said at Queue holds here, its failure table included. Ids need not be unique.
/// Source: Apache Curator's DistributedIdQueue, whose nodes these are.
///
///   path
///    |-- queue-|order-17|0000000007    the item of that id
///    '-- queue-0000000008              an item without an id
///   path-claims, path-slots            as in Queue
///
/// A removal and a pop or claim that meet at an item are two transactions on it: the server decides, and one of them
/// has the item. Never both.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// remove: request or reply lost            nothing: an item is removed once, and counted once
/// item is claimed                          remove() leaves it, and does not count it; should it come back, it is there
/// item is taken by a consumer meanwhile    remove() does not count it
/// several items of one id                  all are removed that are not claimed
/// none of that id                          remove() returns 0
/// session lost while remove waits          in_doubt: the item that the error names (Error::node()) may have been
///                                          removed; its text says how many were before
/// deadline, stop request during remove     in_doubt, the same, if a removal was sent; else deadline_exceeded, cancelled
/// quota of the servers full                remove() works; quota_exceeded for curator() with a lock path, where it needs
///                                          room for a claim
/// id in a name is not well formed          ignored, as a foreign child is
/// name is longer than 1024 bytes           the same; push() refuses ids of more than 1000 bytes
///
/// Beside Curator: it writes an _ for each / and | of an id. Without a lock path its remove() leaves each item that was
/// ever claimed here, as it deletes on condition of version 0.
///
/// Thread safety: all members. The object keeps its client open; a Claim does not.
class ZKRECIPES_API IdQueue : public QueueBase {
 public:
  /// No I/O. Errors: as Queue, and invalid_argument for a layout without ids (all but standard(), curator()).
  IdQueue(zkclient::Client client, zkclient::Path path, QueueOptions options = {});

  /// Appends an item. Blocking and errors as Queue::push(); also invalid_argument for an id that is empty, has a / or a |,
  /// is longer than 1000 bytes, or cannot stand in a zkclient::Path.
  void push(std::string_view item, std::string_view id, const zkclient::CallOptions& call = {});
  [[nodiscard]] bool try_push(std::string_view item, std::string_view id, const zkclient::CallOptions& call = {});
  /// All of them get this id.
  void push_all(std::vector<std::string> items, std::string_view id, const zkclient::CallOptions& call = {});
  void async_push(std::string_view item, std::string_view id, zkclient::Handler<void> handler,
                  const zkclient::CallOptions& call = {});
  void async_try_push(std::string_view item, std::string_view id, zkclient::Handler<bool> handler,
                      const zkclient::CallOptions& call = {});
  void async_push_all(std::vector<std::string> items, std::string_view id, zkclient::Handler<void> handler,
                      const zkclient::CallOptions& call = {});

  /// Removes all items of this id that no consumer has, and returns how many it has removed. It finds each item whose push
  /// had returned when it was called: the list is read behind a transaction that changes nothing. One item after the other: a
  /// few round trips each. Errors: invalid_argument (an id that is empty, has a / or a |, or is longer than 1000 bytes),
  /// in_doubt (see the table), and those common to all operations of Client; then some may have been removed.
  std::size_t remove(std::string_view id, const zkclient::CallOptions& call = {});
  void async_remove(std::string_view id, zkclient::Handler<std::size_t> handler,
                    const zkclient::CallOptions& call = {});
};

}  // namespace zkrecipes
