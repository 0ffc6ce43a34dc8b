#include "tools/zkr/commands/top_looker.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <set>
#include <utility>

namespace zkr {
namespace {

using zkclient::CallOptions;
using zkclient::Path;
using zkrecipes::Inspection;

constexpr std::size_t long_list = 1000;
constexpr int looks_left_out = 4;
constexpr std::size_t most_children = 1000;
constexpr std::size_t most_at_once = 64;

bool is_folder(const Inspection& found) {
  return found.kind == zkrecipes::RecipeKind::unknown && found.contenders.empty();
}

using Pending = std::future<zkclient::Result<Inspection>>;

Pending begin_look(const zkclient::Client& client, const Path& path, const CallOptions& call) {
  auto promise = std::make_shared<std::promise<zkclient::Result<Inspection>>>();
  Pending pending = promise->get_future();
  zkrecipes::async_inspect(
      client, path, [promise](zkclient::Result<Inspection> found) { promise->set_value(std::move(found)); }, call);
  return pending;
}

}  // namespace

// The children of a folder, the path itself otherwise. What cannot be read has a row as well, which tells why.
std::vector<Path> TopLooker::places(const CallOptions& call) {
  std::vector<Path> all;
  for (const Path& path : paths_) {
    std::vector<std::string> names;
    try {
      if (is_folder(zkrecipes::inspect(client_, path, call))) names = client_.children(path, call).names;
    } catch (const zkclient::Error& error) {
      if (error.errc() == zkclient::Errc::cancelled) throw;
    }
    std::sort(names.begin(), names.end());
    names.resize(std::min(names.size(), most_children));
    for (const std::string& name : names)
      all.push_back(path / name);
    if (names.empty()) all.push_back(path);
  }
  return all;
}

void TopLooker::look_at(const std::vector<Path>& paths, const CallOptions& call) {
  std::vector<Pending> pending;
  for (const Path& path : paths)
    pending.push_back(begin_look(client_, path, call));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    zkclient::Result<Inspection> found = pending[i].get();
    Place& place = seen_[paths[i].str()];
    place.row.path = paths[i].str();
    place.row.looked = std::chrono::system_clock::now();
    place.row.trouble = found ? "" : found.error().code().message();
    if (!found) continue;
    const auto now = std::chrono::steady_clock::now();
    place.handovers.look(*found, now);
    place.row.handovers_per_minute = place.handovers.per_minute(now);
    place.pause = std::max(found->items, found->contenders.size()) > long_list ? looks_left_out : 0;
    place.row.found = std::move(*found);
  }
}

std::vector<TopRow> TopLooker::look(const CallOptions& call) {
  const std::vector<Path> all = places(call);
  std::set<std::string> wanted;
  std::vector<Path> due;
  for (const Path& path : all) {
    wanted.insert(path.str());
    if (seen_[path.str()].pause-- <= 0) due.push_back(path);
    if (due.size() == most_at_once) look_at(std::exchange(due, {}), call);
  }
  look_at(due, call);
  std::erase_if(seen_, [&](const auto& one) { return !wanted.contains(one.first); });
  std::vector<TopRow> rows;
  for (const auto& [path, place] : seen_)
    rows.push_back(place.row);
  return rows;
}

}  // namespace zkr
