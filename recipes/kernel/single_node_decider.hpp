#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// A taking creates so many nodes.
inline constexpr std::size_t own_creates = 2;

/// What a contender for a single node does after the flight in which it tried to create both of its nodes, and read and
/// watched the one that all contenders want.
enum class FlightStep {
  claim,         ///< Both are there; see decide_claim().
  look,          ///< Perhaps they are: a reply was lost, of this try or of an earlier one.
  make_parents,  ///< The directory is missing.
  wait,          ///< Another holder has it, and is watched.
  try_again,     ///< Another holder had it, and has not any more.
  failed,        ///< The create was refused for a reason of its own.
  read_failed,   ///< Another holder has it; the read says why it cannot be watched.
  refused,       ///< A condition or a change of the recipe's was refused, so nothing was made.
};

/// `read_later`: a read was sent once more after the create had been answered, so it may tell what this session has
/// made since for another holder. `conditions`: so many operations of the transaction stand before its two creates;
/// those that stand behind are the recipe's changes.
FlightStep decide_flight(const zk::Reply& created, const zk::Reply& wanted, bool read_later,
                         std::size_t conditions = 0);

/// The facts about both nodes after their creation.
struct Claim {
  const zk::Reply& wanted;  ///< The node that all contenders want, as it was read after the create.
  const zk::Reply& listed;  ///< The directory, likewise.
  std::int64_t session_id;  ///< Ours.
  std::int64_t czxid;       ///< Of our own node; 0: not known.
  std::string_view own;     ///< Name of our own node.
  std::string_view of;      ///< Name of the wanted one.
};

enum class ClaimStep {
  prove,          ///< It is ours.
  clear_up,       ///< It is ours, and nodes of former holders are there still.
  vanished,       ///< Ours is gone already.
  wanted_failed,  ///< Not known, because a read failed.
  list_failed,
};

ClaimStep decide_claim(const Claim& claim);

/// How the names of the nodes begin that are one holding's alone; a UUID, '-' and the name of the wanted node follow.
inline constexpr std::string_view holding_prefix = "_c_";
/// True for these names.
bool is_holding(std::string_view name, std::string_view of);
/// True for the node of a session. (Containers and nodes with a time to live have an owner, too, which is none.)
bool is_ephemeral(const zkclient::Stat& stat);
/// True for those that are not `own`.
bool is_others(std::string_view name, std::string_view own, std::string_view of);

}  // namespace zkrecipes::detail
