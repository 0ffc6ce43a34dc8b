#include "recipes/queues/item_removal.hpp"

#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/words.hpp"
#include "recipes/queues/claim_look.hpp"
#include "recipes/queues/item_transaction.hpp"

namespace zkrecipes::detail {

namespace {

/// The removal of one item.
class ItemRemoval {
 public:
  ItemRemoval(QueueSpecPtr spec, std::shared_ptr<ExactlyOnceWriter> writer, ItemKey key, Call call)
      : spec_(std::move(spec)), writer_(std::move(writer)), key_(std::move(key)), call_(std::move(call)) {}

  /// ok: it is removed. no_node: it is gone, or a consumer has it. in_doubt: it may be.
  Awaitable<Reply> run() {
    for (;;) {
      call_.bound = nullptr;
      Reply reply = co_await spec_->client->connected(call_);
      if (!reply.ok()) co_return reply;
      call_.bound = reply.session;
      reply = co_await remove_as_it_is();
      const bool changed = reply.failed(Errc::bad_version);
      if (!changed && !reply.failed(Errc::session_lost)) co_return reply;
    }
  }

 private:
  // bad_version: it was written since it was read, or has to be read again. session_lost: nothing was sent.
  Awaitable<Reply> remove_as_it_is() {
    Request look = zk::make_request(OpType::exists, spec_->item_path(key_));
    const Reply item = co_await spec_->client->perform(std::move(look), call_);
    if (!item.ok()) co_return item;
    const std::int32_t version = item.stat.version;
    // An item that was never claimed has version 0, unless others claim as well.
    const bool excludes_claims = (version > 0 && !without_room_) || spec_->foreign_claims;
    if (version > 0 && !spec_->foreign_claims) {
      ClaimLook claim = co_await look_for_claim(spec_, key_, version, item.stat.czxid, call_);
      const bool free = claim.reply.failed(Errc::no_node);
      if (claim.reply.ok()) claim.reply.error = Errc::no_node;  // A consumer has it.
      if (!free) co_return claim.reply;
    }
    for (;;) {
      ItemTransaction steps(*spec_, key_);
      if (excludes_claims) steps.exclude_claims();
      steps.remove(version);
      Written written = co_await writer_->write_bound(steps.take(), call_);
      if (written.outcome == Written::Outcome::done) co_return Reply{};
      if (written.outcome == Written::Outcome::in_doubt) written.reply.error = Errc::in_doubt;
      if (written.outcome != Written::Outcome::refused) co_return written.reply;
      const int code = written.code;
      Reply refused = std::move(written.reply);
      refused.error = code == zk::rc::node_exists ? Errc::no_node : zk::rc::to_errc(code);
      if (code == zk::rc::no_node && !steps.about_item(written.index)) {
        refused = co_await spec_->make_folders(call_);
        if (refused.ok()) continue;
      }
      // Without room for a claim of our own a look has to do: who claims it from then on changes its version. But by now it
      // may be another node, which was put back under this name and claimed: so the look has to be a new one.
      const bool no_room = refused.failed(Errc::quota_exceeded) && !spec_->foreign_claims;
      if (no_room && !std::exchange(without_room_, true)) refused.error = Errc::bad_version;
      co_return refused;
    }
  }

  const QueueSpecPtr spec_;
  const std::shared_ptr<ExactlyOnceWriter> writer_;
  const ItemKey key_;
  Call call_;
  bool without_room_ = false;  // The quota is full.
};

// Of a removal that did not come to its end.
Error broken_off(const QueueSpec& spec, Reply reply, const ItemKey& key, std::size_t removed) {
  const std::string item = spec.client->stripped(spec.item_path(key));
  const bool in_doubt = reply.failed(Errc::in_doubt);
  const std::string doubt = in_doubt ? fmt::format("; {} may have been removed", item) : "";
  reply.detail += fmt::format("{}{} items were removed{}", reply.detail.empty() ? "" : "; ", removed, doubt);
  return spec.error(reply, "queue remove", in_doubt ? std::string_view(item) : std::string_view());
}

}  // namespace

Awaitable<Result<std::size_t>> remove_by_id(QueueSpecPtr spec, std::shared_ptr<ExactlyOnceWriter> writer,
                                            std::string id, Call call) {
  std::size_t removed = 0;
  Request list = zk::make_request(OpType::children, spec->items);
  // Behind a sync, the list of a leader may lack an item whose push it has acknowledged already.
  Reply listed = co_await zk::fresh_by_quorum(spec->client, std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return removed;
  if (!listed.ok()) co_return spec->error(listed, "queue remove");
  for (ItemKey& key : in_take_order(listed.names, spec->format)) {
    if (spec->format.id_of(key.name) != id) continue;
    ItemRemoval removal(spec, writer, key, call);
    Reply reply = co_await removal.run();
    if (reply.ok()) {
      ++removed;
    } else if (!reply.failed(Errc::no_node)) {
      co_return broken_off(*spec, std::move(reply), key, removed);
    }
  }
  co_return removed;
}

}  // namespace zkrecipes::detail
