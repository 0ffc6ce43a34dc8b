#include "recipes/values/last_writer.hpp"

#include <utility>
#include <vector>

namespace zkrecipes::detail {

namespace {

constexpr std::size_t most_slots = 64;
constexpr std::size_t uuid_size = 36;

// Or may be: clients of a former version name no family.
bool is_of(const std::string& family, const std::string& slot) {
  return slot.size() == uuid_size || (slot.size() == family.size() + uuid_size && slot.starts_with(family));
}

}  // namespace

Awaitable<bool> is_foreign_change(std::shared_ptr<zk::ClientCore> client, std::string slots, std::string family,
                                  std::int64_t change, Call call) {
  Reply listed = co_await client->perform(zk::make_request(OpType::children, slots), call);
  if (!listed.ok()) co_return false;
  std::erase_if(listed.names, [&family](const std::string& name) { return !is_of(family, name); });
  if (listed.names.size() > most_slots) co_return false;
  std::vector<PendingReply> looks;
  for (const std::string& name : listed.names)
    looks.push_back(client->launch(zk::make_request(OpType::exists, zk::child_path(slots, name)), call));
  bool foreign = true;
  for (const PendingReply& look : looks) {
    const Reply slot = co_await look.get();
    if (slot.failed(Errc::no_node)) continue;  // Its writer has ended.
    foreign = foreign && slot.ok() && slot.stat.mzxid < change;
  }
  co_return foreign;
}

}  // namespace zkrecipes::detail
