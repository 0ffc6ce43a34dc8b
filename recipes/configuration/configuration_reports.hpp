#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>
#include <zkrecipes/cache.hpp>
#include <zkrecipes/configuration.hpp>

#include "recipes/kernel/kept_node.hpp"

/// What followers tell of themselves, and what that means for a revision.
namespace zkrecipes::detail {

/// A report, and the czxid of the path that it is about: revisions begin again in one that was removed and made again.
/// 0: not known.
struct HeardReport {
  ConfigurationReport report;
  std::int64_t epoch = 0;
};
using ConfigurationReports = std::map<std::string, HeardReport, std::less<>>;

/// The czxid of the path; 0: there is none.
inline std::int64_t epoch_of(const Snapshot& nodes) noexcept {
  const CachedNode* root = nodes.root();
  return root == nullptr ? 0 : root->stat.czxid;
}

/// By id.
ConfigurationReports reports_of(const Snapshot& nodes);

/// `epoch`: of the path now; 0: not known. A follower whose report is about another one has come to nothing yet.
ZKRECIPES_INTERNAL_API ConfigurationRollOut judge_roll_out(const ConfigurationReports& reports, std::int64_t revision,
                                                           const std::vector<std::string>& ids, std::int64_t epoch);
/// Nothing that comes would change the answer, but for the better.
ZKRECIPES_INTERNAL_API bool is_decided(const ConfigurationRollOut& so_far) noexcept;

/// The directory with the reports.
zkclient::Path reports_path(const zkclient::Path& configuration);
/// Of an id that can name a report; else what is wrong.
ZKRECIPES_INTERNAL_API const char* report_id_defect(std::string_view id) noexcept;
/// The node with the report of this follower. Throws Error (invalid_argument, invalid_path).
KeptNodeSpec report_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& configuration,
                         const ConfigurationOptions& options);

}  // namespace zkrecipes::detail
