#include <algorithm>
#include <utility>
#include <variant>

#include "recipes/kernel/kept_node.hpp"
#include "recipes/kernel/sequence.hpp"

namespace zkrecipes::detail {

bool KeptNode::is_transient(const Reply& reply) {
  return reply.failed(Errc::connection_loss) || reply.failed(Errc::session_lost) || reply.failed(Errc::in_doubt) ||
         reply.failed(Errc::deadline_exceeded) || reply.failed(Errc::cancelled) || reply.failed(Errc::closed);
}

bool KeptNode::lacks_parent(const Request& request, const Reply& reply) {
  return request.type == OpType::create ? reply.failed(Errc::no_node) : reply.lacks_parent(request);
}

// --- What is sent ----------------------------------------------------------------------------------------------------

/// What `request` removes, without what it creates.
Request KeptNode::removals_of(const Request& request) {
  Request removals = zk::make_request(OpType::multi, request.path);
  for (const Transaction::Operation& operation : request.operations) {
    if (std::holds_alternative<Transaction::Remove>(operation)) removals.operations.push_back(operation);
  }
  return removals;
}

bool KeptNode::removes_only(const Request& request) {
  return !request.operations.empty() && removals_of(request).operations.size() == request.operations.size();
}

bool KeptNode::creates(const Request& request) {
  return std::any_of(request.operations.begin(), request.operations.end(),
                     [](const auto& operation) { return std::holds_alternative<Transaction::Create>(operation); });
}

/// The transaction that makes the node and its witness; with what makes room for them.
Request KeptNode::creation(const Seen& seen, bool remove_node, bool remove_witness) {
  if (spec_.lasting()) return lasting_creation();
  Request request = zk::make_request(OpType::multi, spec_.node);
  if (remove_witness) {
    request.operations.emplace_back(Transaction::Remove{Path(witness()), zkclient::any_version});
  }
  if (!seen.former_witness.empty()) {
    request.operations.emplace_back(Transaction::Remove{Path(seen.former_witness), zkclient::any_version});
  }
  if (remove_node) request.operations.emplace_back(Transaction::Remove{Path(node_), seen.version});
  const CreateMode mode = node_.empty() ? spec_.mode : CreateMode::ephemeral;
  const std::string& node = node_.empty() ? spec_.node : node_;
  request.operations.emplace_back(Transaction::Create{Path(node), *data_, mode, spec_.acl});
  request.operations.emplace_back(Transaction::Create{Path(witness()), "", CreateMode::ephemeral, spec_.acl});
  created_ = true;
  return request;
}

/// The node, with the child that goes with it.
void KeptNode::add_removal(const Seen& seen, Request& request) const {
  if (seen.child) request.operations.emplace_back(Transaction::Remove{Path(spec_.child), zkclient::any_version});
  request.operations.emplace_back(Transaction::Remove{Path(node_), seen.version});
}

/// No transaction makes a container or a node that has a time to live: what is in the way of those goes first.
Request KeptNode::lasting_replacement(const Seen& seen) const {
  Request request = zk::make_request(OpType::multi, node_);
  add_removal(seen, request);
  if (spec_.mode == CreateMode::persistent)
    request.operations.emplace_back(Transaction::Create{Path(node_), *data_, spec_.mode, spec_.acl});
  return request;
}

Request KeptNode::lasting_creation() const {
  Request request = zk::make_request(OpType::create, node_);
  request.data = data_;
  request.mode = spec_.mode;
  request.ttl_ms = spec_.ttl_ms;
  request.acl = spec_.acl;
  return request;
}

Request KeptNode::request_of(PresenceStep step, const Seen& seen) {
  const bool witnessed = seen.facts.witness.has_value() && !spec_.lasting();
  Request request = zk::make_request(OpType::multi, node_);
  switch (step) {
    case PresenceStep::create: {
      Seen nothing;
      return creation(nothing, false, witnessed);
    }
    case PresenceStep::renew:
    case PresenceStep::replace:
    case PresenceStep::take_over: return creation(seen, true, witnessed);
    case PresenceStep::write:
      request = zk::make_request(OpType::set, node_);
      request.data = data_;
      request.version = seen.version;
      return request;
    case PresenceStep::remove_former:
      request.operations.emplace_back(Transaction::Remove{Path(seen.former_witness), zkclient::any_version});
      request.operations.emplace_back(Transaction::Remove{Path(node_), seen.version});
      return request;
    case PresenceStep::remove_witness: return zk::make_request(OpType::remove, witness());
    default: break;
  }
  // The witness goes with the node. It proves nothing here: a client that replaces our node leaves the witness where it is.
  if (witnessed) request.operations.emplace_back(Transaction::Remove{Path(witness()), zkclient::any_version});
  add_removal(seen, request);
  return request;
}

// --- A lasting node --------------------------------------------------------------------------------------------------

/// What the answer to a create of a lasting node says of it. That to a transaction has no czxid: so the node is known by its
/// data, too.
void KeptNode::learn(const SessionPtr& session, const Request& request, const Seen& seen, const Reply& reply) {
  if (!spec_.lasting()) return;
  const auto* replacement =
      request.operations.empty() ? nullptr : std::get_if<Transaction::Create>(&request.operations.back());
  if (request.type != OpType::create && replacement == nullptr) return;
  if (reply.ok() && replacement == nullptr) {
    known_ = reply.stat.czxid;
    doubts_.clear();
  } else if (reply.ok() || reply.failed(Errc::in_doubt)) {
    const std::int64_t replaced = seen.facts.node ? seen.facts.node->czxid : 0;
    doubts_.push_back(
        {session->id(), session->timeout(), replacement != nullptr ? *replacement->data : *request.data, replaced});
  }
}

/// Whether the lasting node that was found is ours. A create is sent only where there was no node, or with the removal of
/// that one, so another one that has its data has been made since.
void KeptNode::recognize(const Reply& found, bool synced, Seen& seen) {
  if (found.ok() && found.stat.ephemeral_owner == 0) {
    if (found.stat.czxid == known_) return;
    const bool made = std::any_of(doubts_.begin(), doubts_.end(), [&](const Doubt& doubt) {
      return doubt.data == found.data && doubt.replaced != found.stat.czxid;
    });
    if (made) {
      seen.facts.known = known_ = found.stat.czxid;
      doubts_.clear();
      return;
    }
  }
  // What this session sent before the look was not applied, or what it made is gone.
  if (synced) std::erase_if(doubts_, [&](const Doubt& doubt) { return found.session->id() == doubt.session; });
}

/// In one transaction, or with the create right behind the removal, before another owner sees that there is no node.
Awaitable<void> KeptNode::replace_lasting(SessionPtr session, SeenPtr seen) {
  const std::uint64_t generation = wanted_;
  const Request request = lasting_replacement(*seen);
  const Request create = lasting_creation();
  Request sent = request;
  const Call call = call_on_word_of(session, *seen);
  const PendingReply replacing = spec_.client->launch(std::move(sent), call);
  std::optional<PendingReply> creating;
  if (spec_.mode != CreateMode::persistent) {
    Request behind = create;
    creating = spec_.client->launch(std::move(behind), call);
  }
  Reply reply = co_await replacing.get();
  learn(session, request, *seen, reply);
  if (creating) {
    Reply made = co_await creating->get();
    learn(session, create, *seen, made);
    if (made.ok()) co_return;
    if (reply.ok()) {
      co_await conclude(session, create, generation, std::move(made));
      co_return;
    }
  }
  if (!reply.ok() && reply.cause() == Errc::not_empty) {
    known_ = seen->facts.node->czxid;  // It stays, with its children, and becomes ours.
    co_return;
  }
  co_await conclude(session, request, generation, std::move(reply));
}

// --- The name of a sequential node -----------------------------------------------------------------------------------

/// Until the server has given it one, which it keeps; or there is nothing to be found for one that leaves.
Awaitable<void> KeptNode::find_name(SessionPtr session) {
  while (node_.empty() && !over(session)) {
    wake_.clear();
    Reply found = co_await find_created(session);
    if (over(session)) co_return;
    if (found.ok()) {
      node_ = std::move(found.path);
      co_return;
    }
    if (!found.failed(Errc::no_node)) {
      co_await endure(std::make_unique<Reply>(std::move(found)));
      continue;
    }
    if (leaving_) {
      finish_gone();
      co_return;
    }
    const std::uint64_t generation = wanted_;
    const Seen nothing;
    const Request request = creation(nothing, false, false);
    Request sent = request;
    Reply reply = co_await spec_.client->perform(std::move(sent), call_on(session));
    if (reply.ok()) {
      node_ = reply.results.front().path;
    } else {
      co_await conclude(session, request, generation, std::move(reply));
    }
  }
}

/// What was created though its reply was lost, by this session or by a former one; else no_node.
Awaitable<Reply> KeptNode::find_created(SessionPtr session) {
  std::vector<std::string> witnesses;
  if (created_) witnesses.push_back(witness());
  for (const auto& [id, former] : former_witnesses_)
    witnesses.push_back(former.path);
  Reply found;
  found.error = Errc::no_node;
  for (const std::string& witness : witnesses) {
    found = co_await find_witnessed(session, witness);
    if (!found.failed(Errc::no_node)) co_return found;
  }
  co_return found;
}

/// The node that was created by the transaction that created `witness`.
Awaitable<Reply> KeptNode::find_witnessed(SessionPtr session, std::string witness) {
  const auto& client = spec_.client;
  const Call call = call_on(session);
  const Reply witnessed = co_await zk::fresh_by_quorum(client, zk::make_request(OpType::exists, witness), call);
  if (!witnessed.ok()) co_return witnessed;
  const std::string parent = zk::parent_of(spec_.node);
  const Reply list = co_await client->perform(zk::make_request(OpType::children, parent), call);
  if (!list.ok()) co_return list;
  const std::string_view prefix = zk::name_of(spec_.node);
  for (const std::string& name : list.names) {
    if (!name.starts_with(prefix) || !sequence_of(name, {prefix})) continue;
    std::string path = zk::child_path(parent, name);
    Reply node = co_await client->perform(zk::make_request(OpType::exists, path), call);
    if (node.failed(Errc::no_node)) continue;
    node.path = std::move(path);
    if (!node.ok() || node.stat.czxid == witnessed.stat.czxid) co_return node;
  }
  // Deleted by hand. The next create begins anew, and the witness goes with its session.
  if (witness == this->witness()) witness_ = zk::make_uuid();
  Reply gone;
  gone.error = Errc::no_node;
  co_return gone;
}

}  // namespace zkrecipes::detail
