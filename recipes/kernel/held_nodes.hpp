#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The nodes of one holding, and how they go. Paths are full ones.
struct HeldNodes {
  std::string path;            ///< Its name is this holding's alone, so it can be deleted whatever happened meanwhile.
  std::string companion = {};  ///< "": none. Others use the name too: deleted only while it is ours.
  std::int64_t czxid = 0;      ///< Both nodes were created by this transaction.
  /// "": none. Else the name of the node is written here in the same transaction, for the successor among many
  /// contenders (see ContendSpec::hands_over), provided that this node still has that version.
  std::string record = {};
  std::int32_t record_version = 0;
};

/// The request that deletes them.
zk::Request removal(const HeldNodes& nodes);

/// Guaranteed delete, after the request was answered by `first`: goes on until the nodes are gone, `session` is dead or
/// the client closed.
zk::Awaitable<void> finish_removal(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::SessionState> session,
                                   HeldNodes nodes, zk::Reply first);
/// The same from the start, in the background.
void remove_in_background(const std::shared_ptr<zk::ClientCore>& client,
                          const std::shared_ptr<zk::SessionState>& session, HeldNodes nodes);

/// The same for a lease that was lost, once its holder knows (`told` is requested), or after a second: something may
/// block the one who tells.
void remove_when_told(const std::shared_ptr<zk::ClientCore>& client, const std::shared_ptr<zk::SessionState>& session,
                      std::vector<HeldNodes> nodes, std::shared_ptr<zk::CancelScope> told);
/// Returns when `told` is requested, or a second later, or when the session is over.
zk::Awaitable<void> until_told(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::SessionState> session,
                               std::shared_ptr<zk::CancelScope> told);

}  // namespace zkrecipes::detail
