#include "recipes/locks/downgrade.hpp"

#include <utility>

#include "recipes/kernel/revocation.hpp"
#include "recipes/kernel/sequence.hpp"
#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

namespace {

// The number as it stands in the name.
std::string_view digits_of(std::string_view name, const std::vector<std::string_view>& infixes) {
  for (const std::string_view infix : infixes) {
    const std::size_t at = name.rfind(infix);
    if (at == std::string_view::npos) continue;
    const std::vector<std::string_view> one = {infix};
    if (sequence_of(name, one)) return name.substr(at + infix.size());
  }
  return {};
}

/// The two nodes, and what replaces the one by the other.
struct Exchange {
  std::string writer;
  std::string marker;
  std::string reader;
  std::string data;
  std::string late_data = {};     ///< There is no room for it before the writer's node is gone.
  std::int32_t version = 0;       ///< Of the writer's node: all that was written there has been read.
  bool revoke_requested = false;  ///< It was, and it was a request.

  // A node without data fits below a quota of bytes that is full.
  bool leave_data_out() {
    if (data.empty()) return false;
    late_data = std::exchange(data, {});
    return true;
  }
  Request request(const ContendSpec& readers) const {
    Request both = zk::make_request(OpType::multi, reader);
    both.operations.emplace_back(Transaction::Remove{Path(writer), version});
    both.operations.emplace_back(Transaction::Create{Path(reader), data, CreateMode::ephemeral, readers.acl});
    return both;
  }
};

Exchange make_exchange(const ContendSpec& readers, const LeaseCore::Grant& writer) {
  const std::string uuid = zk::make_uuid();
  std::string name = readers.layout.name(uuid, readers.kind);
  name += digits_of(zk::name_of(writer.path), readers.names.exclusive);
  return {writer.path, readers.layout.marker(uuid, readers.kind), zk::child_path(readers.directory, name), writer.data};
}

// The new node's Stat, or why there is none: in_doubt when that is unknown.
Awaitable<Reply> run_exchange(ContendSpecPtr readers, Exchange& exchange, Waiter& waiter) {
  const std::shared_ptr<zk::ClientCore>& client = readers->client;
  for (;;) {
    // One flight, as for every create.
    const PendingReply reading = client->launch(zk::make_request(OpType::get, exchange.writer), waiter.call());
    const PendingReply exchanging = client->launch(exchange.request(*readers), waiter.call());
    const PendingReply looking = client->launch(zk::make_request(OpType::exists, exchange.reader), waiter.call());
    const Reply read = co_await reading.get();
    Reply exchanged = co_await exchanging.get();
    Reply seen = co_await looking.get();
    switch (decide_exchange(read, exchanged)) {
      case ExchangeStep::read_again:
        exchange.version = read.stat.version;
        exchange.revoke_requested = exchange.revoke_requested || is_revocation(read.data);
        continue;
      case ExchangeStep::done:
        waiter.keeper()->acknowledged(exchanged.sent);
        if (!seen.ok()) seen.error = Errc::in_doubt;  // It took place, and yet we cannot go on.
        co_return seen;
      case ExchangeStep::failed:
        if (exchanged.cause() == Errc::quota_exceeded && exchange.leave_data_out()) continue;
        co_return exchanged;
      case ExchangeStep::look: break;
    }
    Reply found = co_await zk::find_marked(client, readers->directory, exchange.marker, waiter.call());
    if (found.failed(Errc::no_node)) continue;  // Not done: once more.
    if (!found.ok() && !found.failed(Errc::session_lost)) found.error = Errc::in_doubt;
    co_return found;
  }
}

// The data is for operators: if another client has taken the room, the node stays without.
Awaitable<void> write_late_data(std::shared_ptr<zk::ClientCore> client, const Exchange& exchange, Call call) {
  if (exchange.late_data.empty()) co_return;
  Request set = zk::make_request(OpType::set, exchange.reader);
  set.data = exchange.late_data;
  set.version = 0;
  co_await client->perform(std::move(set), call);
}

LeasePtr make_lease(const LeaseCore& writer, const Waiter& waiter, const Exchange& exchange, const Reply& node) {
  LeaseCore::Grant grant = writer.grant();  // With its signals.
  grant.keeper = waiter.keeper();
  grant.path = exchange.reader;
  grant.czxid = node.stat.czxid;
  grant.token = writer.token();  // Lower than that of any waiting writer.
  auto lease = std::make_shared<LeaseCore>(std::move(grant));
  lease->begin();
  return lease;
}

}  // namespace

ExchangeStep decide_exchange(const Reply& read, const Reply& exchanged) {
  if (exchanged.ok()) return ExchangeStep::done;
  if (exchanged.refused(0, zk::rc::bad_version) && read.ok()) return ExchangeStep::read_again;
  return exchanged.unanswered() ? ExchangeStep::look : ExchangeStep::failed;
}

bool is_writer_of(const ContendSpec& readers, const LeaseCore& lease) {
  const std::string& path = lease.grant().path;
  return zk::parent_of(path) == readers.directory &&
         sequence_of(zk::name_of(path), readers.names.exclusive).has_value();
}

Awaitable<Result<LeasePtr>> downgrade(ContendSpecPtr readers, LeasePtr held, const char* operation, Call call) {
  const auto not_held = [&] { return Error(Errc::not_held, operation, readers->path); };
  const auto waiter = std::make_unique<Waiter>(readers->client, call);
  Reply entered = co_await waiter->enter();
  if (!entered.ok()) co_return zk::to_error(entered, operation, readers->path);
  if (held->state() == LeaseState::lost || entered.session != held->session() || !held->pause_node())
    co_return not_held();

  Exchange exchange = make_exchange(*readers, held->grant());
  Reply node = co_await run_exchange(readers, exchange, *waiter);
  if (node.ok()) {
    co_await write_late_data(readers->client, exchange, waiter->call());
    Request own_node = existence_check(exchange.reader);
    Reply proven = co_await waiter->prove(std::move(own_node));
    if (!proven.ok()) {
      node.error = proven.failed(Errc::no_node) ? Errc::not_held : Errc::in_doubt;
      node.given_up.reset();
    }
  }
  // Given back, or lost, meanwhile: then not even the new node may stay.
  if (node.ok() && held->state() != LeaseState::lost) {
    LeasePtr reader =
        make_lease(*held, *waiter, exchange, node);  // One of the two leases keeps the clock going at any time.
    if (held->replaced()) {
      if (exchange.revoke_requested) reader->request_revocation();
      co_return reader;
    }
    reader->replaced();
  }
  if (node.failed(Errc::transaction_failed) && !node.refused(0, zk::rc::no_node)) node.error = node.cause();
  if (node.ok() || node.refused(0, zk::rc::no_node) || node.failed(Errc::session_lost)) node.error = Errc::not_held;
  if (node.failed(Errc::in_doubt) || node.failed(Errc::not_held)) {
    // Nothing proves any more that the writer's node is there, and one of the two is.
    held->lose("its downgrade ended in the middle", {HeldNodes{exchange.writer}, HeldNodes{exchange.reader}});
  } else {
    held->resume();
  }
  co_return zk::to_error(node, operation, readers->path);
}

}  // namespace zkrecipes::detail
