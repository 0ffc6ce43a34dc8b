#pragma once

#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

/// Whether `read` was sent behind `sync`, as it was launched, and so tells what the leader had then. Requests whose connection
/// breaks are sent again, each by itself: in another order perhaps, or in another session.
inline bool is_behind(const Reply& sync, const Reply& read) noexcept {
  return read.session == sync.session && sync.sent < read.sent;
}

inline bool is_there_or_not(const Reply& read) noexcept { return read.ok() || read.failed(Errc::no_node); }

/// Reads what the leader has applied: the server that answers may lag behind the one that took an earlier write, so the
/// read goes out behind a sync, in one flight. (A leader may have told others to commit what it has not applied yet.) If
/// they come out of order because a connection breaks, both are sent again. The failure of the sync is the reply's, if the
/// read itself worked, or found no node.
ZKRECIPES_INTERNAL_API Awaitable<Reply> fresh(std::shared_ptr<ClientCore> client, Request read, Call call);
/// The same behind a transaction that changes nothing, in place of a sync: it costs a write. For reads that nobody repeats, as
/// those that find out whether a node was made. A leader that a majority has left answers its clients' syncs at once, until it
/// finds out: the read does not show what the next leader has. A transaction is not answered there.
ZKRECIPES_INTERNAL_API Awaitable<Reply> fresh_by_quorum(std::shared_ptr<ClientCore> client, Request read, Call call);

}  // namespace zkclient::detail
