#include <zkrecipes/election.hpp>

#include "recipes/elections/leader_record.hpp"
#include "recipes/kernel/lease_core.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;

void Leadership::publish(const char* name, std::optional<std::string> value, bool ready, const CallOptions& call) {
  if (impl() == nullptr) throw Error(Errc::not_held, name, "", "the leadership is empty");
  const zkclient::Path election = zkclient::Path(node()).parent();
  if (!valid()) throw Error(Errc::not_held, name, election.str());
  zk::Request request = zk::make_request(zk::OpType::multi, "/");
  const std::shared_ptr<zk::ClientCore>& client = impl()->client();
  const zkclient::Path full_node(client->full(zkclient::Path(node())));
  const detail::LeaderRecord record{token().value, ready, value};
  request.operations.emplace_back(zkclient::Check{full_node});
  request.operations.emplace_back(
      zkclient::Transaction::Set{full_node.parent(), detail::encode(record), zkclient::any_version});

  const auto op = std::make_shared<zk::Op>();
  op->request = std::move(request);
  op->bound = impl()->session();
  op->deadline = call.deadline.value_or(client->default_deadline());
  zk::Slot<zk::Reply> slot;
  op->done = [&slot](zk::Reply reply) { slot.fill(std::move(reply)); };
  client->submit(op, call.stop);
  zk::Reply reply = slot.take();
  if (reply.ok() || reply.failed(Errc::in_doubt)) {  // What may stand there is what the next publication repeats.
    value_ = std::move(value);
    ready_ = ready;
  }
  if (reply.ok()) return;
  const bool gone =
      reply.failed(Errc::transaction_failed) && !reply.codes.empty() && reply.codes.front() == zk::rc::no_node;
  if (gone || reply.failed(Errc::session_lost)) reply.error = Errc::not_held;
  throw zk::to_error(reply, name, election.str());
}

void Leadership::proclaim(std::string_view value, const CallOptions& call) {
  publish("proclaim", std::string(value), ready_, call);
}

void Leadership::ready(const CallOptions& call) { publish("ready", value_, true, call); }

}  // namespace zkrecipes
