#pragma once

#include <zkclient/client.hpp>
#include <zkrecipes/revoke.hpp>

namespace zkr {

/// Asks the contender whose node this is, or all who hold at this path, semaphores included. Errors: as of
/// zkrecipes::revoke().
zkrecipes::RevokeOutcome revoke_any(const zkclient::Client& client, const zkclient::Path& path,
                                    const zkrecipes::RevokeOptions& how = {}, const zkclient::CallOptions& call = {});

}  // namespace zkr
