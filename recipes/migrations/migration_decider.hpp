#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/migrations.hpp>

namespace zkrecipes::detail {

/// A node that says that a step was applied.
struct MigrationRecord {
  std::string node;  ///< Its name.
  std::string digest;
};

/// What the records mean for a set.
struct MigrationVerdict {
  std::size_t applied = 0;  ///< So many steps, from the first one.
  std::string why = {};     ///< Not "": the history is another one.
};

/// Whether a node of a set's folder counts as a record, if only as one that fits no step. Other nodes are left alone.
bool is_record_name(std::string_view node);

/// Text of an operation, for a plan.
std::string describe_change(const zkclient::Transaction::Operation& operation);

/// The SHA-256 that a record of the step has, as Curator makes it of the same changes.
std::string digest_of(const MigrationStep& step);

/// `digests`: of the steps of `set`. `records`: in the order of their names.
MigrationVerdict judge_history(const MigrationSet& set, const std::vector<std::string>& digests,
                               const std::vector<MigrationRecord>& records);

/// The name of the next record: behind all that are there, and, among sequential names, the one that the server would give.
std::string next_record(const std::vector<MigrationRecord>& records);

}  // namespace zkrecipes::detail
