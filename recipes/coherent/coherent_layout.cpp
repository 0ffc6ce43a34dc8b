#include "recipes/coherent/coherent_layout.hpp"

#include <optional>
#include <utility>

namespace zkrecipes::detail {

CoherentLayout::CoherentLayout(std::shared_ptr<zk::ClientCore> client, std::string directory,
                               std::uint32_t wanted_shards, zkclient::AclList acl)
    : client_(std::move(client)),
      directory_(std::move(directory)),
      wanted_shards_(wanted_shards),
      acl_(std::move(acl)) {}

// All that counts is that it is there: a lost reply is resolved by trying again.
Awaitable<Reply> CoherentLayout::make(std::string path, std::string data, Call call) const {
  for (;;) {
    Request create = zk::make_request(OpType::create, path);
    create.data = data;
    create.mode = CreateMode::persistent;
    create.acl = acl_;
    Reply reply = co_await client_->perform(std::move(create), call);
    if (reply.failed(Errc::node_exists)) reply.error.reset();
    if (reply.unanswered()) continue;
    if (!reply.failed(Errc::no_node)) co_return reply;
    std::string parent = zk::parent_of(path);
    reply = co_await zk::ensure(client_, std::move(parent), CreateMode::persistent, acl_, call);
    if (!reply.ok()) co_return reply;
  }
}

Awaitable<Reply> CoherentLayout::read_shards(std::uint32_t& shards, Call call) const {
  for (;;) {
    Request get = zk::make_request(OpType::get, directory_);
    Reply reply = co_await client_->perform(std::move(get), call);
    if (reply.failed(Errc::no_node)) {
      Reply made = co_await make(directory_, format_directory(wanted_shards_), call);
      if (!made.ok()) co_return made;
      continue;
    }
    if (!reply.ok()) co_return reply;
    const std::optional<std::uint32_t> found = parse_directory(reply.data);
    if (found) {
      shards = *found;
    } else {
      reply.error = Errc::foreign_node;
      reply.detail = "the data of the directory is not that of a coherent cache";
    }
    co_return reply;
  }
}

Awaitable<Reply> CoherentLayout::prepare(std::uint32_t shard, Call call) const {
  std::vector<std::string> directories = {items(), zk::child_path(directory_, "writers"), holders(shard)};
  for (std::string& path : directories) {
    Reply reply = co_await make(std::move(path), "", call);
    if (!reply.ok()) co_return reply;
  }
  Reply reply = co_await make(gate(shard), format_gate(true, ""), call);
  co_return reply;
}

// One that would become -1 is changed twice: as a condition -1 means any version.
std::vector<Transaction::Operation> gate_change(const std::string& gate, std::string data, std::int32_t version) {
  std::vector<Transaction::Operation> all;
  all.emplace_back(Transaction::Set{Path(gate), data, version});
  if (version == -2) all.emplace_back(Transaction::Set{Path(gate), std::move(data), zkclient::any_version});
  return all;
}

std::vector<Transaction::Operation> reopening(const CoherentLayout& layout, std::uint32_t shard, std::int32_t version) {
  std::vector<Transaction::Operation> all;
  const Path writer(layout.writer(shard));
  all.emplace_back(Transaction::Create{writer, std::string(), CreateMode::ephemeral, layout.acl()});
  for (Transaction::Operation& operation : gate_change(layout.gate(shard), format_gate(true, ""), version))
    all.push_back(std::move(operation));
  all.emplace_back(Transaction::Remove{writer, zkclient::any_version});
  return all;
}

}  // namespace zkrecipes::detail
