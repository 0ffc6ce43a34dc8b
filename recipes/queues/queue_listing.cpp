// Reads of a queue that take nothing.

#include <set>
#include <utility>

#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/queues/due_time.hpp"
#include "recipes/queues/queue_core.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* listing = "queue list";

}  // namespace

Awaitable<Result<std::size_t>> queue_size(QueueSpecPtr spec, Call call) {
  zk::Request look = zk::make_request(OpType::exists, spec->items);
  Reply seen = co_await spec->client->perform(std::move(look), call);
  if (seen.failed(Errc::no_node)) co_return std::size_t{0};
  if (!seen.ok()) co_return spec->error(seen, "queue size");
  co_return static_cast<std::size_t>(seen.stat.children_count);
}

Awaitable<Result<std::optional<std::string>>> peek_queue(QueueSpecPtr spec, Call call) {
  for (;;) {
    const PendingReply claims = spec->client->launch(zk::make_request(OpType::children, spec->claims), call);
    const PendingReply items = spec->client->launch(zk::make_request(OpType::children, spec->items), call);
    Reply claimed = co_await claims.get();
    Reply listed = co_await items.get();
    if (listed.failed(Errc::no_node)) co_return std::optional<std::string>();
    if (!listed.ok()) co_return spec->error(listed, "queue peek");
    if (!claimed.ok() && !claimed.failed(Errc::no_node)) co_return spec->error(claimed, "queue peek");
    CandidateItems backlog;
    backlog.replace(in_take_order(listed.names, spec->format), claimed.names, now_ms());
    if (backlog.empty()) co_return std::optional<std::string>();
    zk::Request get = zk::make_request(OpType::get, spec->item_path(backlog.items().front()));
    Reply item = co_await spec->client->perform(std::move(get), call);
    if (item.failed(Errc::no_node)) continue;  // Gone since.
    if (!item.ok()) co_return spec->error(item, "queue peek");
    std::optional<std::vector<std::string>> decoded = spec->format.decode(std::move(item.data));
    if (decoded) co_return std::optional<std::string>(std::move(decoded->front()));
    item.error = Errc::foreign_node;
    item.detail = spec->client->stripped(spec->item_path(backlog.items().front())) + " is not in the layout's format";
    co_return spec->error(item, "queue peek");
  }
}

Awaitable<Result<std::vector<QueueItem>>> list_queue(QueueSpecPtr spec, Call call) {
  const PendingReply claims = spec->client->launch(zk::make_request(OpType::children, spec->claims), call);
  const PendingReply items = spec->client->launch(zk::make_request(OpType::children, spec->items), call);
  Reply claimed = co_await claims.get();
  Reply listed = co_await items.get();
  std::vector<QueueItem> found;
  if (listed.failed(Errc::no_node)) co_return found;
  if (!listed.ok()) co_return spec->error(listed, listing);
  if (!claimed.ok() && !claimed.failed(Errc::no_node)) co_return spec->error(claimed, listing);
  const std::vector<ItemKey> order = in_take_order(listed.names, spec->format);
  const std::set<std::string> taken(claimed.names.begin(), claimed.names.end());
  // All of them in flight at once; the client bounds how many really are.
  struct Pending {
    PendingReply item;
    std::optional<PendingReply> claim;
  };
  std::vector<Pending> pending;
  pending.reserve(order.size());
  for (const ItemKey& key : order) {
    Pending one{spec->client->launch(zk::make_request(OpType::get, spec->item_path(key)), call), {}};
    if (taken.contains(key.name))
      one.claim = spec->client->launch(zk::make_request(OpType::get, spec->claim_path(key)), call);
    pending.push_back(std::move(one));
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    Reply item = co_await pending[i].item.get();
    Reply claim;
    if (pending[i].claim) claim = co_await pending[i].claim->get();
    if (item.failed(Errc::no_node)) continue;  // Gone since the list was read.
    if (!item.ok()) co_return spec->error(item, listing);
    QueueItem one;
    one.node = order[i].name;
    one.data = std::move(item.data);
    one.priority = order[i].priority;
    one.not_before = from_due_ms(order[i].due_ms);
    one.id = spec->format.id_of(one.node);
    one.deliveries = item.stat.version;
    one.claimed_by = std::move(claim.data);
    one.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(item.stat.ctime_ms));
    found.push_back(std::move(one));
  }
  co_return found;
}

}  // namespace zkrecipes::detail
