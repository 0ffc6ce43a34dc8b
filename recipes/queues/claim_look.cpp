#include "recipes/queues/claim_look.hpp"

#include <utility>
#include <vector>

#include "recipes/kernel/words.hpp"
#include "recipes/queues/claim_place.hpp"

namespace zkrecipes::detail {

Awaitable<ClaimLook> look_for_claim(QueueSpecPtr spec, ItemKey key, std::int32_t version, std::int64_t czxid,
                                    Call call) {
  std::vector<std::string> places = claim_places(spec->claim_path(key));
  places.push_back(spec->claim_path(key));  // The list may be older than it.
  std::vector<PendingReply> looks;
  for (const std::string& place : places)
    looks.push_back(spec->client->launch(zk::make_request(OpType::exists, place), call));
  // Behind them: if it still is the node that was read, no claim of it stood at that instant, and each later one gives it
  // a version that no item has that was put back since.
  const PendingReply item = spec->client->launch(zk::make_request(OpType::exists, spec->item_path(key)), call);
  ClaimLook found;
  found.reply.error = Errc::no_node;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    Reply seen = co_await looks[i].get();
    if (!found.reply.failed(Errc::no_node)) continue;  // All are awaited.
    found.reply = std::move(seen);
    found.place = places[i];
  }
  Reply same = co_await item.get();
  if (found.reply.failed(Errc::no_node)) {
    const bool is_same = same.ok() && same.stat.czxid == czxid && same.stat.version == version;
    if (!same.ok() && !same.failed(Errc::no_node)) {
      found.reply = std::move(same);
    } else if (!is_same) {
      found.reply.error = Errc::bad_version;
    }
  }
  co_return found;
}

}  // namespace zkrecipes::detail
