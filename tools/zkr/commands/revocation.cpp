#include "tools/zkr/commands/revocation.hpp"

#include <zkrecipes/inspect.hpp>

#include "tools/zkr/cli/json.hpp"

namespace zkr {
namespace {

// A semaphore's holders stand in a folder of their own.
zkclient::Path place_of_holders(const zkclient::Client& client, const zkclient::Path& path,
                                const zkclient::CallOptions& call) {
  const bool semaphore = zkrecipes::inspect(client, path, call).kind == zkrecipes::RecipeKind::semaphore;
  return semaphore ? path / "leases" : path;
}

}  // namespace

zkrecipes::RevokeOutcome revoke_any(const zkclient::Client& client, const zkclient::Path& path,
                                    const zkrecipes::RevokeOptions& how, const zkclient::CallOptions& call) {
  const auto node = client.exists(path, call);
  if (node && is_ephemeral(*node)) return zkrecipes::revoke(client, path, how, call);
  return zkrecipes::revoke_holders(client, place_of_holders(client, path, call), how, call);
}

}  // namespace zkr
