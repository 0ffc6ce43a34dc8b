#include "recipes/kernel/stand_in.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace zkrecipes::detail {

namespace {

constexpr const char* folder_of_quotas = "/zookeeper/quota";
constexpr const char* limits_of_quota = "/zookeeper_limits";

}  // namespace

Awaitable<Reply> find_quota(std::shared_ptr<zk::ClientCore> client, std::string path, Call call) {
  std::vector<std::string> holders;
  std::vector<PendingReply> looks;
  for (; path != "/"; path = zk::parent_of(path)) {
    holders.push_back(path);
    looks.push_back(client->launch(zk::make_request(OpType::exists, folder_of_quotas + path + limits_of_quota), call));
  }
  Reply found;
  found.error = Errc::no_node;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    Reply seen = co_await looks[i].get();
    if (!found.failed(Errc::no_node)) continue;  // All are awaited.
    found = std::move(seen);
    found.path = holders[i];
  }
  co_return found;
}

Awaitable<Reply> create_outside_quota(std::shared_ptr<zk::ClientCore> client, std::string wanted, std::string kind,
                                      CreateMode mode, zkclient::AclList acl, Call call) {
  for (std::string inside = std::move(wanted);;) {
    Reply quota = co_await find_quota(client, inside, call);
    if (quota.failed(Errc::no_node)) quota.error = Errc::quota_exceeded;  // It was removed meanwhile.
    if (!quota.ok()) co_return quota;
    const std::string path = fmt::format("{}-{}-{}", quota.path, kind, zk::make_uuid());
    Request create = zk::make_request(OpType::create, path);
    create.data = std::string();
    create.mode = mode;
    create.acl = acl;
    Reply made = co_await client->perform(std::move(create), call);
    if (made.ok()) {
      made.path = path;
      co_return made;
    }
    if (made.failed(Errc::in_doubt))
      zk::delete_in_background(client, path, mode == CreateMode::ephemeral ? call.bound : nullptr);
    if (made.unanswered()) continue;
    if (made.failed(Errc::quota_exceeded) && zk::parent_of(quota.path) != "/") {
      inside = zk::parent_of(quota.path);  // That one has another quota above it.
      continue;
    }
    if (made.failed(Errc::no_auth)) {
      made.error = Errc::quota_exceeded;
      made.detail =
          fmt::format("the quota of {} is full, and no node may be made beside it", client->stripped(quota.path));
    }
    co_return made;
  }
}

}  // namespace zkrecipes::detail
