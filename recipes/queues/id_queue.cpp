#include <zkrecipes/id_queue.hpp>

#include <utility>

#include "recipes/kernel/words.hpp"
#include "recipes/queues/push_words.hpp"
#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes {

using namespace words;
using detail::single;
using detail::when_pushed;

namespace {

std::string name_of_id(const detail::QueueSpec& spec, std::string_view id) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, detail::pushing, spec.path, why); };
  if (const char* why = detail::id_defect(id)) refuse(why);
  std::string name = spec.format.name_with_id(id);
  try {
    (void)(Path(spec.items) / name);
  } catch (const Error&) {
    refuse("no node can have this id in its name");
  }
  return name;
}

}  // namespace

IdQueue::IdQueue(zkclient::Client client, Path path, QueueOptions options)
    : QueueBase(std::move(client), std::move(path), std::move(options), detail::QueueKind::identified) {}

void IdQueue::push(std::string_view item, std::string_view id, const CallOptions& call) {
  push_items(single(item), name_of_id(spec(), id), true, call);
}
bool IdQueue::try_push(std::string_view item, std::string_view id, const CallOptions& call) {
  return push_items(single(item), name_of_id(spec(), id), false, call);
}
void IdQueue::push_all(std::vector<std::string> items, std::string_view id, const CallOptions& call) {
  push_items(std::move(items), name_of_id(spec(), id), true, call);
}
void IdQueue::async_push(std::string_view item, std::string_view id, zkclient::Handler<void> handler,
                         const CallOptions& call) {
  async_push_items(single(item), name_of_id(spec(), id), true, when_pushed(std::move(handler)), call);
}
void IdQueue::async_try_push(std::string_view item, std::string_view id, zkclient::Handler<bool> handler,
                             const CallOptions& call) {
  async_push_items(single(item), name_of_id(spec(), id), false, std::move(handler), call);
}
void IdQueue::async_push_all(std::vector<std::string> items, std::string_view id, zkclient::Handler<void> handler,
                             const CallOptions& call) {
  async_push_items(std::move(items), name_of_id(spec(), id), true, when_pushed(std::move(handler)), call);
}

std::size_t IdQueue::remove(std::string_view id, const CallOptions& call) { return remove_items(id, call); }
void IdQueue::async_remove(std::string_view id, zkclient::Handler<std::size_t> handler, const CallOptions& call) {
  async_remove_items(id, std::move(handler), call);
}

}  // namespace zkrecipes
