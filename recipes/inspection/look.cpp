#include "recipes/inspection/look.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace zkrecipes::detail {

Contender to_contender(std::string name, Reply node) {
  Contender contender;
  contender.node = std::move(name);
  contender.data = std::move(node.data);
  contender.session_id = node.stat.ephemeral_owner;
  contender.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(node.stat.ctime_ms));
  contender.token = {node.stat.czxid};
  return contender;
}

Awaitable<Result<std::vector<Reply>>> read_replies(LookPtr look, OpType type, NodeNames nodes) {
  std::vector<PendingReply> pending;
  pending.reserve(nodes.size());
  for (std::string& node : nodes)
    pending.push_back(look->launch(type, std::move(node)));
  std::vector<Reply> replies;
  replies.reserve(pending.size());
  for (PendingReply& one : pending) {
    Reply reply = co_await one.get();
    if (!reply.ok() && !reply.failed(Errc::no_node)) co_return look->error(reply);
    replies.push_back(std::move(reply));
  }
  co_return replies;
}

Awaitable<Result<Contenders>> read_nodes(LookPtr look, std::string folder, NodeNames names) {
  NodeNames nodes;
  for (const std::string& name : names)
    nodes.push_back(zk::child_path(folder, name));
  Result<std::vector<Reply>> replies = co_await read_replies(std::move(look), OpType::get, std::move(nodes));
  if (!replies) co_return replies.error();
  Contenders contenders;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Reply& node = (*replies)[i];
    if (node.ok()) contenders.push_back(to_contender(std::move(names[i]), std::move(node)));
  }
  co_return contenders;
}

Awaitable<Result<NodeNames>> list_folder(LookPtr look, std::string folder) {
  const PendingReply listing = look->launch(OpType::children, std::move(folder));
  Reply listed = co_await listing.get();
  if (listed.failed(Errc::no_node)) co_return NodeNames();
  if (!listed.ok()) co_return look->error(listed);
  std::sort(listed.names.begin(), listed.names.end());
  co_return std::move(listed.names);
}

ContendSpecPtr contenders_in(const Look& look, std::string_view folder, const ContenderNames& names) {
  ContendSpec spec;
  spec.client = look.client;
  spec.path = look.path;
  spec.directory = folder.empty() ? look.full : look.child(folder);
  spec.names = names;
  spec.lists_foreign = folder.empty();
  return std::make_shared<const ContendSpec>(std::move(spec));
}

}  // namespace zkrecipes::detail
