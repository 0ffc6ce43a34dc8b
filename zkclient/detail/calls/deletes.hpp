#pragma once

#include <memory>
#include <string>

#include <zkclient/export.hpp>

#include "zkclient/detail/session/core.hpp"

/// Guaranteed deletes: sent until the node is gone, `session` (any session, if null) is dead, or the client closed. All
/// paths are full ones; everything here lives on the loop thread.
namespace zkclient::detail {

ZKRECIPES_INTERNAL_API Awaitable<void> remove_until_gone(std::shared_ptr<ClientCore> client, std::string path,
                                                         std::shared_ptr<SessionState> session);
/// The same for a name that others may use again: a node that another client makes in its place stays.
ZKRECIPES_INTERNAL_API Awaitable<void> remove_this_one(std::shared_ptr<ClientCore> client, std::string path,
                                                       std::shared_ptr<SessionState> session);
/// remove_until_gone() in the background.
ZKRECIPES_INTERNAL_API void delete_in_background(std::shared_ptr<ClientCore> client, std::string path,
                                                 std::shared_ptr<SessionState> session);
/// The same for the child of `parent` whose name starts with `marker`, if there is one.
ZKRECIPES_INTERNAL_API void delete_marked_in_background(std::shared_ptr<ClientCore> client, std::string parent,
                                                        std::string marker, std::shared_ptr<SessionState> session);
/// The same for a child that does not go with its session, and may come to light when that is lost: looked for again then.
/// `sender`: the session that may have created it, or one before.
ZKRECIPES_INTERNAL_API void delete_lasting_in_background(std::shared_ptr<ClientCore> client, std::string parent,
                                                         std::string marker, std::shared_ptr<SessionState> sender);

}  // namespace zkclient::detail
