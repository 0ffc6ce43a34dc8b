#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/export.hpp>
#include <zkclient/path.hpp>

/// Quotas, as the server keeps them: the limits of a node, which count for all that is below it, and its usage are in two nodes
/// below /zookeeper/quota. The nearest quota counts. All paths are full ones; nothing here does I/O.
namespace zkclient::detail {

/// Limits, or usage. -1: no limit.
struct QuotaFigures {
  std::int64_t nodes = -1;
  std::int64_t bytes = -1;
  std::int64_t hard_nodes = -1;
  std::int64_t hard_bytes = -1;

  bool operator==(const QuotaFigures&) const = default;
};

/// What is in one of the two nodes: "count=7,bytes=-1=;byteHardLimit=-1;countHardLimit=9". What it does not name has no limit.
ZKRECIPES_INTERNAL_API QuotaFigures parse_quota(std::string_view data);
/// The nodes whose quota may count for `path`: itself and all above it but the root, the nearest one first.
ZKRECIPES_INTERNAL_API std::vector<std::string> quota_holders(std::string path);
ZKRECIPES_INTERNAL_API std::string quota_limits(const std::string& holder);
ZKRECIPES_INTERNAL_API std::string quota_usage(const std::string& holder);
/// Which limits of `holder` are hard, and what is used of them. `prefix`: the client's; what is below it is named without it.
ZKRECIPES_INTERNAL_API std::string describe_quota(const Path& prefix, const std::string& holder,
                                                  const QuotaFigures& limits, const QuotaFigures& usage);

}  // namespace zkclient::detail
