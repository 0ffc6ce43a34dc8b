#pragma once

#include <cstdint>
#include <optional>

namespace zkrecipes::detail {

/// The node at the path of a kept node, as the last look found it.
struct FoundNode {
  std::int64_t czxid = 0;
  std::int64_t owner = 0;  ///< The session that it is of; 0: it is not ephemeral.
  bool same_data = true;   ///< As wanted.
};

/// What the owner of a kept node knows after a look. A witness is a node that was created in the same transaction as
/// the kept one, under a name that nobody else uses: both have one czxid.
struct PresenceFacts {
  std::optional<FoundNode> node;
  std::int64_t session = 0;                    ///< The present one.
  std::optional<std::int64_t> witness;         ///< The czxid of this session's witness, if it is there.
  std::int64_t known = 0;                      ///< The czxid of the node that was found to be ours before; 0: none.
  bool former_session = false;                 ///< The node's owner is an earlier session of this client.
  std::optional<std::int64_t> former_witness;  ///< The czxid of that session's witness, if it is there.
  bool wanted = true;                          ///< False: the node is to go.
  bool renew = false;                          ///< The lease of our node was lost: it is to be another node.
  bool replace_others = false;                 ///< A node that is not ours makes way.
};

enum class PresenceStep {
  done,            ///< Nothing of ours is there, and nothing is wanted.
  keep,            ///< Our node is there as it is wanted.
  write,           ///< Our node has other data.
  create,          ///< There is no node. What may be left of a witness goes in the same transaction.
  renew,           ///< Our node gives way to a new one of ours.
  take_over,       ///< The node of our former session gives way to one of this session, if that witness is still there.
  replace,         ///< The node of another owner gives way to ours.
  wait,            ///< It has another owner, or one that cannot be told from another: wait until it changes.
  remove,          ///< Our node is not wanted any more.
  remove_witness,  ///< Likewise, but our node is gone already.
  remove_former,   ///< Likewise, of our former session.
};

/// The next step.
PresenceStep decide_presence(const PresenceFacts& facts) noexcept;

}  // namespace zkrecipes::detail
