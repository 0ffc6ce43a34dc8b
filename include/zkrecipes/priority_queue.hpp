#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/queue.hpp>

namespace zkrecipes {

/// A queue whose items have priorities: lower numbers first, first in first out within one priority. Everything that is
/// said at Queue holds here, the failure table included.
/// Source: "Priority Queues" in ZooKeeper's recipes; nodes as in Apache Curator's DistributedPriorityQueue.
///
///   path
///    |-- queue-1000000050000000007    priority 5: "1" (not negative), eight hex digits, the sequence number
///    '-- queue-0FFFFFFFF0000000008    priority -1, comes before it
///   path-claims, path-slots           as in Queue
///
/// Guaranteed besides: no inversion. An item whose push had returned before pop() or claim() was called is not passed
/// over for one with a higher number that an older list showed; each call looks whether the list is still the newest
/// one (a round trip with a write that changes nothing, which all the calls waiting at the time share). For that reason
/// nothing is claimed ahead.
///
/// Thread safety: all members. The object keeps its client open; a Claim does not.
class ZKRECIPES_API PriorityQueue : public QueueBase {
 public:
  /// No I/O. Errors: as Queue, and invalid_argument for a layout without priorities, or a prefetch.
  PriorityQueue(zkclient::Client client, zkclient::Path path, QueueOptions options = {});

  /// As in Queue. Errors: also invalid_argument for a priority that the layout does not have (kazoo: 0 to 999).
  void push(std::string_view item, std::int32_t priority, const zkclient::CallOptions& call = {});
  [[nodiscard]] bool try_push(std::string_view item, std::int32_t priority, const zkclient::CallOptions& call = {});
  void push_all(std::vector<std::string> items, std::int32_t priority, const zkclient::CallOptions& call = {});
  void async_push(std::string_view item, std::int32_t priority, zkclient::Handler<void> handler,
                  const zkclient::CallOptions& call = {});
  void async_try_push(std::string_view item, std::int32_t priority, zkclient::Handler<bool> handler,
                      const zkclient::CallOptions& call = {});
  void async_push_all(std::vector<std::string> items, std::int32_t priority, zkclient::Handler<void> handler,
                      const zkclient::CallOptions& call = {});
};

}  // namespace zkrecipes
