#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/configuration.hpp>

#include "recipes/configuration/configuration_format.hpp"

namespace zkrecipes::detail {

/// A node below the path.
struct ConfigurationNode {
  std::string path;  ///< Relative: "limits/connections".
  std::string data = {};
  std::int32_t version = 0;
  std::int64_t mzxid = 0;
  std::int64_t czxid = 0;
  std::optional<zkclient::Errc> unreadable = {};
};

/// The subtree, as a snapshot shows it. Parents come before their children.
struct ConfigurationTree {
  bool exists = false;
  std::string record = {};
  std::int32_t version = 0;  ///< Of the record.
  std::int64_t mzxid = 0;    ///< The same.
  std::optional<zkclient::Errc> unreadable = {};
  std::vector<ConfigurationNode> nodes = {};
  bool exact = false;
};

/// Nodes of the recipe's own, and all below them, are no part of the configuration.
ZKRECIPES_INTERNAL_API bool is_outside(std::string_view relative) noexcept;

/// What to do about a snapshot.
struct ConfigurationVerdict {
  enum class Kind {
    candidate,   ///< Other than what was accepted: validate `values`.
    same,        ///< What was accepted, still.
    wait,        ///< Maybe half of a publication: wait for a snapshot that is exact.
    missing,     ///< There is nothing at the path.
    malformed,   ///< The record is not this recipe's.
    unreadable,  ///< A part of it: `code`.
  };
  Kind kind = Kind::missing;
  std::shared_ptr<ConfigurationValues> values = {};
  zkclient::Errc code = {};
  std::string where = {};  ///< The key that is meant.
};

/// `accepted`: null if nothing was.
ZKRECIPES_INTERNAL_API ConfigurationVerdict decide(const ConfigurationTree& seen, const ConfigurationValues* accepted);

/// The same texts, whoever wrote them.
ZKRECIPES_INTERNAL_API bool same_texts(const ConfigurationValues& one, const ConfigurationValues& other) noexcept;
/// What turns `before`, which may be null, into `after`.
ZKRECIPES_INTERNAL_API std::vector<ConfigurationChange> changes_between(const ConfigurationValues* before,
                                                                        const ConfigurationValues& after);

/// A write of a node. Paths are relative to the configuration's.
struct PlannedWrite {
  enum class Kind { create, set, remove } kind = Kind::set;
  std::string path;
  std::string data = {};
  std::int32_t version = 0;
  std::int64_t czxid = 0;  ///< Of the node that was seen. One that is made again begins with version 0, too.

  friend bool operator==(const PlannedWrite&, const PlannedWrite&) = default;
};

/// One publication: all of it goes into one transaction, with the record first.
struct PublicationPlan {
  std::int32_t version = 0;         ///< That the record's node has to have.
  bool exists = false;              ///< The record's node.
  ConfigurationRecord record = {};  ///< With revision, checksum and note only.
  ConfigurationUndo undo = {};
  std::vector<PlannedWrite> writes = {};
  ConfigurationValues result = {};  ///< All keys, as they will be: to be validated.
};

/// What stands in the way of a publication.
struct PublicationRefusal {
  zkclient::Errc code = {};
  std::string detail;
};

struct PublicationDecision {
  std::optional<PublicationPlan> plan = {};
  PublicationRefusal refusal = {};
};

/// The nodes of the history, of `listed`, that are older than the `kept` revisions before `revision`: the oldest first, and
/// not more than fit into its publication. The next ones take the rest.
ZKRECIPES_INTERNAL_API std::vector<std::string> outdated_history(std::vector<std::string> listed, std::int64_t revision,
                                                                 std::size_t kept);

/// An edit by hand that came between the last publisher's look and its transaction is older than the record. Nothing but
/// the record's checksum shows that there was one, and not of which key.
enum class OlderEdits {
  keep,     ///< Where the publisher can tell that a key has changed since.
  replace,  ///< For a roll-back: any edit would shut the way back, and the history keeps what is replaced.
};

/// `known`: what the publisher may know of the ensemble: its current(), or null. Keys have no defect, as key_defect() has
/// it.
ZKRECIPES_INTERNAL_API PublicationDecision plan_publication(const ConfigurationTree& seen,
                                                            const ConfigurationValues* known,
                                                            const ConfigurationUpdate& update,
                                                            std::int64_t expected_revision,
                                                            OlderEdits older = OlderEdits::keep);

}  // namespace zkrecipes::detail
