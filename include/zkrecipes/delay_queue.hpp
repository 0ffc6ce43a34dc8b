#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/queue.hpp>

namespace zkrecipes {

/// A queue whose items are not to be had before a time that their producer names: the earliest first, first in first
/// out among those of one time. What is said at Queue holds here, its failure table included; an item that is not due
/// is for pop(), claim() and peek() as if it were not there.
/// Source: Apache Curator's DistributedDelayQueue, whose nodes these are.
///
///   path
///    |-- queue-|19A3C5F7E00|0000000007    due at that time: milliseconds since 1970 as hex digits, at least eight
///    '-- queue-0000000008                 due at once: so Curator puts an item back whose consumer threw an exception
///   path-claims, path-slots               as in Queue
///
/// The producer's clock and the consumer's decide; the servers' have no part. An item comes as soon as the consumer's
/// system clock shows its time. If that clock is ahead of the producer's, an item comes so much too early, and if it is
/// behind, too late, by the producer's. So keep the clocks of all hosts in step (NTP), and do not build on fractions of
/// a second. Clocks that disagree neither lose nor double an item.
///
/// A call that waits sends nothing until an item is due, or the folder changes: then it reads the list again. Each push
/// wakes all consumers that wait, so many pushes beside a long list are expensive, as in Queue.
///
/// Not guaranteed: the order of items that are due already when a consumer reads its list, and of those that come later.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// an earlier item comes while waiting      nothing: that one is taken first, at its time
/// item is removed while waiting for it     nothing: it goes on waiting, for the next one
/// connection breaks before it is due       nothing: it is taken at its time, or when there is a connection again
/// session lost before it is due            the same, on the next session
/// deadline, stop request before it is due  deadline_exceeded, cancelled (or nullopt); nothing was taken
/// claimed, and given back                  nothing: it is due still
/// consumer's clock is set while waiting    nothing: that is noticed within a minute
/// time in a name that is no number         ignored, as a foreign child is
/// time in a name of more than 16 digits    the same
///
/// Thread safety: all members. The object keeps its client open; a Claim does not.
class ZKRECIPES_API DelayQueue : public QueueBase {
 public:
  using TimePoint = std::chrono::system_clock::time_point;  ///< Of the clocks of producers and consumers.

  /// No I/O. Errors: as Queue, and invalid_argument for a layout without delayed items (all but standard(), curator()).
  DelayQueue(zkclient::Client client, zkclient::Path path, QueueOptions options = {});

  /// Adds an item that no consumer gets before `not_before` (rounded up to a millisecond); a time that has passed is at
  /// once. Blocking and errors as Queue::push(); also invalid_argument for a time before 1970. What is not due counts
  /// for QueueOptions::capacity.
  void push(std::string_view item, TimePoint not_before, const zkclient::CallOptions& call = {});
  [[nodiscard]] bool try_push(std::string_view item, TimePoint not_before, const zkclient::CallOptions& call = {});
  void push_all(std::vector<std::string> items, TimePoint not_before, const zkclient::CallOptions& call = {});
  void async_push(std::string_view item, TimePoint not_before, zkclient::Handler<void> handler,
                  const zkclient::CallOptions& call = {});
  void async_try_push(std::string_view item, TimePoint not_before, zkclient::Handler<bool> handler,
                      const zkclient::CallOptions& call = {});
  void async_push_all(std::vector<std::string> items, TimePoint not_before, zkclient::Handler<void> handler,
                      const zkclient::CallOptions& call = {});
};

}  // namespace zkrecipes
