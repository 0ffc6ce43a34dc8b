#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/anchored.hpp>
#include <zkclient/export.hpp>
#include <zkclient/types.hpp>

namespace zkclient {

/// The members of the ensemble, as the node /zookeeper/config tells. (ZooKeeper's documentation: "Dynamic
/// Reconfiguration".) A standalone server may have no members to tell.
struct EnsembleConfig {
  std::vector<std::string> members;  ///< "server.1=host:2888:3888:participant;0.0.0.0:2181", one per server.
  std::int64_t version = -1;         ///< Of the configuration, for Reconfig::version; -1 if the node tells none.
  std::string text;                  ///< The node's data as it is.
  Stat stat;                         ///< The node's.
};

/// A change of the ensemble: either what joins and what leaves, or the whole new list of members.
/// Thread safety: a value type.
struct Reconfig {
  static constexpr std::int64_t any_config = -1;  ///< For `version`: whatever it is now.

  /// Servers that are added, or get another role or address: "server.4=host:2888:3888;2181".
  Texts joining = {};
  /// The ids of servers that are removed: "4".
  Texts leaving = {};
  /// All servers of the new ensemble, in the form of `joining`. Excludes the two others.
  Texts members = {};
  /// Refuse (bad_version) unless the present configuration has this version (EnsembleConfig::version).
  std::int64_t version = any_config;
};

/// Reads the text of a configuration; what it does not understand it leaves out. Never throws but for lack of memory.
ZKRECIPES_API EnsembleConfig parse_ensemble_config(std::string_view text);

}  // namespace zkclient
