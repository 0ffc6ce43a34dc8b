#include <zkrecipes/delay_queue.hpp>

#include <utility>

#include "recipes/kernel/words.hpp"
#include "recipes/queues/due_time.hpp"
#include "recipes/queues/push_words.hpp"
#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes {

using namespace words;
using detail::single;
using detail::when_pushed;

namespace {

std::string name_due_at(const detail::QueueSpec& spec, DelayQueue::TimePoint not_before) {
  const std::int64_t due_ms = detail::to_due_ms(not_before);
  if (due_ms < 0) throw Error(Errc::invalid_argument, detail::pushing, spec.path, "the time is before 1970");
  return spec.format.name_due(due_ms);
}

}  // namespace

DelayQueue::DelayQueue(zkclient::Client client, Path path, QueueOptions options)
    : QueueBase(std::move(client), std::move(path), std::move(options), detail::QueueKind::delayed) {}

void DelayQueue::push(std::string_view item, TimePoint not_before, const CallOptions& call) {
  push_items(single(item), name_due_at(spec(), not_before), true, call);
}
bool DelayQueue::try_push(std::string_view item, TimePoint not_before, const CallOptions& call) {
  return push_items(single(item), name_due_at(spec(), not_before), false, call);
}
void DelayQueue::push_all(std::vector<std::string> items, TimePoint not_before, const CallOptions& call) {
  push_items(std::move(items), name_due_at(spec(), not_before), true, call);
}
void DelayQueue::async_push(std::string_view item, TimePoint not_before, zkclient::Handler<void> handler,
                            const CallOptions& call) {
  async_push_items(single(item), name_due_at(spec(), not_before), true, when_pushed(std::move(handler)), call);
}
void DelayQueue::async_try_push(std::string_view item, TimePoint not_before, zkclient::Handler<bool> handler,
                                const CallOptions& call) {
  async_push_items(single(item), name_due_at(spec(), not_before), false, std::move(handler), call);
}
void DelayQueue::async_push_all(std::vector<std::string> items, TimePoint not_before, zkclient::Handler<void> handler,
                                const CallOptions& call) {
  async_push_items(std::move(items), name_due_at(spec(), not_before), true, when_pushed(std::move(handler)), call);
}

}  // namespace zkrecipes
