#include "recipes/locks/contending_lock.hpp"
#include "recipes/kernel/acl_check.hpp"

namespace zkrecipes::detail {

ContendSpecPtr contend_spec(const LockNames& names, const zkclient::Client& client, const zkclient::Path& path,
                            ContendSpec spec) {
  require_acl(names.recipe, path, spec.acl);
  spec.client = client.impl();
  spec.path = path.str();
  spec.directory = spec.client->full(path);
  spec.operation = names.operation;
  return std::make_shared<const ContendSpec>(std::move(spec));
}

Acquisition contending_lock(const LockNames& names, zkclient::Client client, zkclient::Path path, ContendSpec spec,
                            std::string id) {
  const ContendSpecPtr shared = contend_spec(names, client, path, std::move(spec));
  auto get = [shared, id = std::move(id)](Patience patience, zk::Call call) {
    return contend(shared, describe_process(id), patience, std::move(call));
  };
  auto list = [shared, listing = names.listing](zk::Call call) {
    return list_contenders(shared, listing, std::move(call));
  };
  return {std::move(client), std::move(path), names.recipe,   names.operation,
          std::move(get),    names.listing,   std::move(list)};
}

}  // namespace zkrecipes::detail
