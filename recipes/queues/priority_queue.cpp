#include <zkrecipes/priority_queue.hpp>

#include <utility>

#include "recipes/kernel/words.hpp"
#include "recipes/queues/push_words.hpp"
#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes {

using namespace words;
using detail::single;
using detail::when_pushed;

namespace {

std::string name_at(const detail::QueueSpec& spec, std::int32_t priority) {
  if (const char* why = spec.format.defect(priority)) {
    throw Error(Errc::invalid_argument, detail::pushing, spec.path, why);
  }
  return spec.format.name(priority);
}

}  // namespace

PriorityQueue::PriorityQueue(zkclient::Client client, Path path, QueueOptions options)
    : QueueBase(std::move(client), std::move(path), std::move(options), detail::QueueKind::prioritized) {}

void PriorityQueue::push(std::string_view item, std::int32_t priority, const CallOptions& call) {
  push_items(single(item), name_at(spec(), priority), true, call);
}
bool PriorityQueue::try_push(std::string_view item, std::int32_t priority, const CallOptions& call) {
  return push_items(single(item), name_at(spec(), priority), false, call);
}
void PriorityQueue::push_all(std::vector<std::string> items, std::int32_t priority, const CallOptions& call) {
  push_items(std::move(items), name_at(spec(), priority), true, call);
}
void PriorityQueue::async_push(std::string_view item, std::int32_t priority, zkclient::Handler<void> handler,
                               const CallOptions& call) {
  async_push_items(single(item), name_at(spec(), priority), true, when_pushed(std::move(handler)), call);
}
void PriorityQueue::async_try_push(std::string_view item, std::int32_t priority, zkclient::Handler<bool> handler,
                                   const CallOptions& call) {
  async_push_items(single(item), name_at(spec(), priority), false, std::move(handler), call);
}
void PriorityQueue::async_push_all(std::vector<std::string> items, std::int32_t priority,
                                   zkclient::Handler<void> handler, const CallOptions& call) {
  async_push_items(std::move(items), name_at(spec(), priority), true, when_pushed(std::move(handler)), call);
}

}  // namespace zkrecipes
