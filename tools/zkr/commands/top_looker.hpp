#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

#include "tools/zkr/commands/top_rows.hpp"

namespace zkr {

/// Looks at paths again and again. A path where no recipe has nodes stands for its children, the first thousand. A node
/// without children that is as it was is looked into once only: later one read shows that it is.
class TopLooker {
 public:
  TopLooker(zkclient::Client client, std::vector<zkclient::Path> paths, std::chrono::nanoseconds interval)
      : client_(std::move(client)), paths_(std::move(paths)), interval_(interval) {}

  /// All rows, by path. Long lists, of more than 1,000, are read at every fifth call only. What cannot be read is told
  /// in its row; of a folder that cannot be read, the children that it had stay. Blocks for a few round trips. Errors:
  /// cancelled.
  std::vector<TopRow> look(const zkclient::CallOptions& call = {});

  std::chrono::nanoseconds interval() const { return interval_; }
  const zkclient::Client& client() const { return client_; }

 private:
  struct Place {
    TopRow row;
    HandoverCount handovers;
    int pause = 0;                            // So many looks are left out.
    std::optional<zkclient::Stat> childless;  // As it was before it was looked into, if it had no children.
    /// If it is a folder: as it was read last.
    std::vector<zkclient::Path> children;
    bool has_more = false;  // Children than are shown.
  };

  std::vector<zkclient::Path> due(const std::vector<zkclient::Path>& paths);
  void look_at(const std::vector<zkclient::Path>& paths, const zkclient::CallOptions& call);
  std::vector<zkclient::Path> changed(const std::vector<zkclient::Path>& paths, const zkclient::CallOptions& call);
  void take_in(const zkclient::Path& path, zkclient::Result<zkrecipes::Inspection> found);
  void take_in_again(Place& place);
  void look_for_children(const zkclient::Path& path, const zkclient::CallOptions& call);

  zkclient::Client client_;
  std::vector<zkclient::Path> paths_;
  std::chrono::nanoseconds interval_;
  std::map<std::string, Place> seen_;
};

}  // namespace zkr
