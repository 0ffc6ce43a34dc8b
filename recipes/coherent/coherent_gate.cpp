// How a writer closes and opens the gate of a shard, and what it waits for.

#include <chrono>
#include <utility>

#include "recipes/coherent/coherent_line.hpp"

namespace zkrecipes::detail {

using Operations = std::vector<Transaction::Operation>;

namespace {

constexpr auto before_opening_again = std::chrono::milliseconds(500);  // A gate, when the server had no time for it.

}  // namespace

// --- The gate -------------------------------------------------------------------------------------------------------

// Followed to its end, whoever gives up meanwhile: a gate that is closed has to be opened.
Awaitable<void> CoherentWriter::close_gate(Line& line, PartPtr part, Call call) {
  call.cancel = nullptr;
  const std::string id = zk::make_uuid();
  Operations all = gate_change(layout_->gate(line.shard), format_gate(false, id), line.gate->version);
  const Path writer(layout_->writer(line.shard));
  all.emplace_back(Transaction::Create{writer, id, CreateMode::ephemeral, layout_->acl()});
  const std::size_t last = all.size() - 1;
  const auto session = call.bound;
  Written written = co_await writer_->write_bound(std::move(all), std::move(call));
  if (written.outcome == Written::Outcome::done) {
    const std::int32_t version = next_version(line.gate->version);
    line.see_gate(Gate{false, version, id, line.gate->czxid});
    line.closing = Line::Closing();
    line.closing->version = version;
    line.closing->id = id;
    line.closing->at = BootClock::now();
    line.closing->session = session;
    line.registered.reset();
    table_->count_closing();
    co_return;
  }
  line.forget();
  line.ask_leader = true;
  const bool refused = written.outcome == Written::Outcome::refused;
  if (written.outcome == Written::Outcome::in_doubt) line.doubt = Line::Doubt{id, session, std::move(written.slot)};
  if (line.doubt || written.reply.failed(Errc::session_lost)) co_return;
  line.directory_missing = refused && written.index == last && written.code == zk::rc::no_node;
  if (refused && is_shard_conflict(zk::rc::to_errc(written.code))) co_return;
  if (refused) written.reply.error = zk::rc::to_errc(written.code);
  part->end(std::move(written.reply));
}

// Until it is open, or the session over, whose end opens it to others: run() comes back.
Awaitable<void> CoherentWriter::open_again(Line& line) {
  Operations all = gate_change(layout_->gate(line.shard), format_gate(true, ""), line.closing->version);
  all.emplace_back(Transaction::Remove{Path(layout_->writer(line.shard)), any_version});
  Call call;
  const auto session = line.closing->session;
  call.bound = session;
  const Written written = co_await writer_->write_bound(std::move(all), std::move(call));
  const bool changed = written.outcome == Written::Outcome::refused && is_shard_conflict(zk::rc::to_errc(written.code));
  const bool settled = written.outcome == Written::Outcome::done || changed;
  if (settled || session->over() || client_->closing()) {
    line.forget();
    line.doubt.reset();
    co_return;
  }
  co_await zk::pause_for(before_opening_again, client_->events(), session);
}

// Whether the gate is closed by us: the answer was lost, and will not come. As long as that is not known nothing else
// helps, since others wait for us. The end of the session opens the gate to others.
Awaitable<void> CoherentWriter::find_closing(Line& line) {
  const Line::Doubt doubt = *line.doubt;
  Call call;
  call.bound = doubt.session;
  Reply reply;
  if (!doubt.slot.empty()) reply = co_await client_->perform(zk::make_request(OpType::remove, doubt.slot), call);
  if (reply.ok() || reply.failed(Errc::no_node)) {
    Request get = zk::make_request(OpType::get, layout_->gate(line.shard));
    reply = co_await zk::fresh(client_, std::move(get), call);
  }
  const bool told = reply.ok() || reply.failed(Errc::no_node);
  if (!told && !doubt.session->over() && !client_->closing()) {
    co_await zk::pause_for(before_opening_again, client_->events(), doubt.session);
    co_return;
  }
  line.forget();
  line.doubt.reset();
  line.ask_leader = true;
  std::optional<Gate> gate = reply.ok() ? parse_gate(reply.data, reply.stat.version) : std::nullopt;
  if (!gate || gate->open || gate->id != doubt.id || doubt.session->over()) co_return;
  gate->czxid = reply.stat.czxid;
  line.see_gate(*gate);
  line.closing = Line::Closing();
  line.closing->version = gate->version;
  line.closing->id = doubt.id;
  line.closing->at = BootClock::now();
  line.closing->session = doubt.session;
}

Awaitable<void> CoherentWriter::reopen(Line& line, PartPtr part, Call call) {
  Request open = zk::make_request(OpType::multi, layout_->gate(line.shard));
  open.operations = reopening(*layout_, line.shard, line.gate->version);
  Reply reply = co_await client_->perform(std::move(open), call);
  if (reply.ok()) {
    const std::int32_t version = next_version(line.gate->version);
    line.see_gate(Gate{true, version, "", line.gate->czxid});
    co_return;
  }
  line.forget();
  line.ask_leader = true;
  const bool conflict = reply.failed(Errc::transaction_failed) && is_shard_conflict(reply.cause());
  line.directory_missing = conflict && reply.cause() == Errc::no_node;  // Of its own node, which it makes and removes.
  if (!conflict && !ended_with_its_session(reply)) part->end(std::move(reply));
}

// --- Waiting --------------------------------------------------------------------------------------------------------

// The gate first: if its writer's node is missing then, it was left closed, or it is not closed any more.
Awaitable<void> CoherentWriter::await_writer(Line& line, Call call) {
  line.wake.clear();
  const auto make_watch = [&] {
    auto on_event = [weak = weak_from_this(), &line](zkclient::WatchEventType) {
      if (const auto self = weak.lock()) line.wake.set();
    };
    return std::make_shared<zk::LoopWatch>(client_, zk::WatchRegistry::Kind::data, std::move(on_event));
  };
  const auto gate_watch = make_watch();
  const auto writer_watch = make_watch();
  const zk::CancelScope::Guard cancelled(call.cancel, [&line] { line.wake.set(); });
  Request get_gate = zk::make_request(OpType::get, layout_->gate(line.shard));
  Request get_writer = zk::make_request(OpType::get, layout_->writer(line.shard));
  const PendingReply asked_gate = client_->launch_watching(std::move(get_gate), call, gate_watch);
  const PendingReply asked_writer = client_->launch_watching(std::move(get_writer), call, writer_watch);
  const Reply gate = co_await asked_gate.get();
  const Reply writer = co_await asked_writer.get();
  const bool unwatched = gate.failed(Errc::overloaded) || writer.failed(Errc::overloaded);
  const bool same = gate.ok() && gate.stat.version == line.gate->version;
  if (same && writer.failed(Errc::no_node)) {
    line.closer_alive = false;
    co_return;
  }
  if (same && writer.ok()) co_await line.wake.wait(std::nullopt);
  if (unwatched) co_await line.wake.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
  line.forget();
  line.ask_leader = !same;
}

// Lists them if that is to be done, or else waits until `until`, or until the list has changed.
Awaitable<void> CoherentWriter::await_readers(Line& line, PartPtr part, std::optional<WriteFacts::TimePoint> until,
                                              Call call) {
  if (until) {
    const zk::CancelScope::Guard cancelled(call.cancel, [&line] { line.wake.set(); });
    const zk::SessionEnd end(call.bound, line.wake);
    const auto left = *until - BootClock::now();
    if (!call.bound->over() && !call.cancel->requested()) {
      co_await line.wake.wait(std::chrono::steady_clock::now() + left);
    }
    if (line.wake.is_set()) line.registered.reset();
    co_return;
  }
  line.wake.clear();
  auto on_event = [weak = weak_from_this(), &line](zkclient::WatchEventType) {
    if (const auto self = weak.lock()) line.wake.set();
  };
  line.list_watch = std::make_shared<zk::LoopWatch>(client_, zk::WatchRegistry::Kind::children, std::move(on_event));
  Request list = zk::make_request(OpType::children, layout_->holders(line.shard));
  Reply reply = co_await client_->launch_watching(std::move(list), call, line.list_watch).get();
  if (reply.failed(Errc::overloaded)) {  // There is no room for another watch: it waits for the longest term.
    Request again = zk::make_request(OpType::children, layout_->holders(line.shard));
    reply = co_await client_->perform(std::move(again), call);
  }
  if (reply.failed(Errc::no_node)) reply.error.reset();
  if (!reply.ok()) {
    if (!ended_with_its_session(reply)) part->end(std::move(reply));
    co_return;
  }
  std::vector<Registration> all;
  for (const std::string& name : reply.names) {
    std::optional<Registration> one = parse_registration(name);
    all.push_back(one ? std::move(*one) : Registration{name, std::chrono::milliseconds(0)});
  }
  line.list(std::move(all));
}

}  // namespace zkrecipes::detail
