#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes::detail {

Error QueueSpec::error(const Reply& reply, const char* operation, std::string_view doubtful_item) const {
  return Error(reply.error.value_or(Errc::server_error), operation, path, reply.detail, doubtful_item);
}

Awaitable<Reply> QueueSpec::make_folders(Call call, bool with_dead_letters) const {
  const CreateMode mode = format.foreign() ? CreateMode::persistent : CreateMode::container;
  Reply made = co_await zk::ensure(client, claims, mode, acl, call);
  if (made.ok() && (with_dead_letters || max_deliveries > 0)) {
    made = co_await zk::ensure(client, dead_letters, CreateMode::persistent, acl, call);
  }
  co_return made;
}

}  // namespace zkrecipes::detail
