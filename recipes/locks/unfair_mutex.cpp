#include <zkrecipes/unfair_mutex.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/single_node.hpp"
#include "recipes/locks/lock_state.hpp"

namespace zkrecipes {

using namespace words;
using detail::Acquisition;
using detail::LockState;
using detail::Patience;
using detail::SingleNodeSpec;
using detail::SingleNodeSpecPtr;

namespace {

constexpr const char* unfair_mutex_recipe = "unfair mutex";
constexpr const char* acquiring_unfair_mutex = "unfair mutex acquire";
constexpr const char* reading_holder = "unfair mutex holder";

SingleNodeSpecPtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                            const UnfairMutexOptions& options) {
  detail::require_acl(unfair_mutex_recipe, path, options.acl);
  SingleNodeSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path);
  spec.name = "lock";
  spec.acl = options.acl;
  spec.operation = acquiring_unfair_mutex;
  return std::make_shared<const SingleNodeSpec>(std::move(spec));
}

zk::Awaitable<Result<std::vector<Contender>>> list_holder(SingleNodeSpecPtr spec, zk::Call call) {
  Result<std::optional<Contender>> holder = co_await detail::read_holder(spec, reading_holder, std::move(call));
  if (!holder) co_return holder.error();
  std::vector<Contender> all;
  if (*holder) all.push_back(std::move(**holder));
  co_return all;
}

Acquisition make_acquisition(zkclient::Client client, zkclient::Path path, UnfairMutexOptions options) {
  const SingleNodeSpecPtr spec = make_spec(client.impl(), path, options);
  auto get = [spec, id = std::move(options.id)](Patience patience, zk::Call call) {
    return detail::contend_for_node(spec, detail::describe_process(id), patience, std::move(call));
  };
  auto list = [spec](zk::Call call) { return list_holder(spec, std::move(call)); };
  return {std::move(client), std::move(path), unfair_mutex_recipe, acquiring_unfair_mutex,
          std::move(get),    reading_holder,  std::move(list)};
}

std::optional<Contender> first_of(std::vector<Contender> all) {
  if (all.empty()) return std::nullopt;
  return std::move(all.front());
}

}  // namespace

UnfairMutex::UnfairMutex(zkclient::Client client, zkclient::Path path, UnfairMutexOptions options)
    : Lock(std::make_unique<LockState>(make_acquisition(std::move(client), std::move(path), std::move(options)))) {}

std::optional<Contender> UnfairMutex::holder(const CallOptions& call) const { return first_of(contenders(call)); }

void UnfairMutex::async_holder(zkclient::Handler<std::optional<Contender>> handler, const CallOptions& call) const {
  zk::require_handler(handler, reading_holder, path().str());
  auto wrapped = [handler = std::move(handler)](Result<std::vector<Contender>> all) mutable {
    if (all) {
      handler(first_of(std::move(*all)));
    } else {
      handler(all.error());
    }
  };
  async_contenders(std::move(wrapped), call);
}

}  // namespace zkrecipes
