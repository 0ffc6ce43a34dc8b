#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes::detail {

/// The way of items into the queue. Where that has a limit, pushes go one after the other, and wait for room.
class PushGate {
 public:
  explicit PushGate(QueueSpecPtr spec);

  /// All or none. False: there is no room, and it is refused then. `name`: of the nodes, without their numbers;
  /// `reason`: of items that were rejected before.
  zk::Awaitable<zkclient::Result<bool>> push(std::vector<std::string> items, std::string name, WhenFull when_full,
                                             zk::Call call, std::string reason = {});

 private:
  zk::Awaitable<Written> push_in_turn(std::vector<zkclient::Transaction::Operation> operations, bool& full,
                                      zk::Call call);
  zk::Awaitable<zk::Reply> wait_for_room(std::size_t count, zk::Call call);
  zk::Awaitable<zk::Reply> take_turn(zk::Call call);

  const QueueSpecPtr spec_;
  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<ExactlyOnceWriter> writer_;
  std::deque<std::shared_ptr<zk::Signal>> turns_;  // Pushes with a limit; the first one has its turn.
};

}  // namespace zkrecipes::detail
