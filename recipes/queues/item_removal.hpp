#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes::detail {

/// Removes the items of that id which no consumer has; the number of those that were removed, each exactly once.
zk::Awaitable<zkclient::Result<std::size_t>> remove_by_id(QueueSpecPtr spec, std::shared_ptr<ExactlyOnceWriter> writer,
                                                          std::string id, zk::Call call);

}  // namespace zkrecipes::detail
