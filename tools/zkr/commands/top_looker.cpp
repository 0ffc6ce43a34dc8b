#include "tools/zkr/commands/top_looker.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "tools/zkr/commands/inspection_parts.hpp"
#include "tools/zkr/commands/node_tree.hpp"

namespace zkr {
namespace {

using zkclient::CallOptions;
using zkclient::Path;
using zkrecipes::Inspection;

constexpr std::size_t long_list = 1000;
constexpr int looks_left_out = 4;
constexpr std::size_t most_children = 1000;
constexpr const char* only_so_many = "only the first 1000 children are shown";
constexpr std::size_t most_at_once = 64;

bool is_folder(const Inspection& found) {
  return found.kind == zkrecipes::RecipeKind::unknown && found.contenders.empty();
}

template <typename Answer>
using Pending = std::future<zkclient::Result<Answer>>;

using Seen = std::optional<zkclient::Stat>;

Pending<Seen> begin_glance(const zkclient::Client& client, const Path& path, const CallOptions& call) {
  auto promise = std::make_shared<std::promise<zkclient::Result<Seen>>>();
  Pending<Seen> pending = promise->get_future();
  client.async_exists(
      path, [promise](zkclient::Result<Seen> seen) { promise->set_value(std::move(seen)); }, call);
  return pending;
}

Pending<Inspection> begin_look(const zkclient::Client& client, const Path& path, const CallOptions& call) {
  auto promise = std::make_shared<std::promise<zkclient::Result<Inspection>>>();
  Pending<Inspection> pending = promise->get_future();
  zkrecipes::async_inspect(
      client, path, [promise](zkclient::Result<Inspection> found) { promise->set_value(std::move(found)); }, call);
  return pending;
}

}  // namespace

// Those whose turn it is.
std::vector<Path> TopLooker::due(const std::vector<Path>& paths) {
  std::vector<Path> all;
  std::set<std::string> known;
  for (const Path& path : paths) {
    if (known.insert(path.str()).second && seen_[path.str()].pause-- <= 0) all.push_back(path);
  }
  return all;
}

void TopLooker::look_at(const std::vector<Path>& paths, const CallOptions& call) {
  for (std::size_t begin = 0; begin < paths.size(); begin += most_at_once) {
    const std::size_t end = std::min(begin + most_at_once, paths.size());
    const std::vector<Path> some(paths.begin() + static_cast<std::ptrdiff_t>(begin),
                                 paths.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<Path> news = changed(some, call);
    std::vector<Pending<Inspection>> pending;
    for (const Path& path : news)
      pending.push_back(begin_look(client_, path, call));
    for (std::size_t i = 0; i < news.size(); ++i)
      take_in(news[i], pending[i].get());
  }
}

// Which recipe's node it is, a node without children shows by what it was created with and by its data.
std::vector<Path> TopLooker::changed(const std::vector<Path>& paths, const CallOptions& call) {
  client_.async_sync(
      paths.front(), [](const zkclient::Result<void>&) {}, call);
  std::vector<Pending<Seen>> pending;
  for (const Path& path : paths)
    pending.push_back(begin_glance(client_, path, call));
  std::vector<Path> news;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const zkclient::Result<Seen> seen = pending[i].get();
    Place& place = seen_[paths[i].str()];
    const Seen former = std::exchange(place.childless, std::nullopt);
    if (seen && *seen && (*seen)->children_count == 0) place.childless = *seen;
    if (!seen) {
      take_in(paths[i], seen.error());
    } else if (former && place.childless == former && place.row.trouble.empty()) {
      take_in_again(place);
    } else {
      news.push_back(paths[i]);
    }
  }
  return news;
}

void TopLooker::take_in_again(Place& place) {
  const auto now = std::chrono::steady_clock::now();
  place.pause = 0;
  place.row.looked = std::chrono::system_clock::now();
  place.handovers.look(place.row.found, now);
  place.row.handovers_per_minute = place.handovers.per_minute(now);
}

void TopLooker::take_in(const Path& path, zkclient::Result<Inspection> found) {
  if (!found && found.error().errc() == zkclient::Errc::cancelled) throw zkclient::Error(found.error());
  const auto now = std::chrono::steady_clock::now();
  Place& place = seen_[path.str()];
  place.row.path = path.str();
  place.row.looked = std::chrono::system_clock::now();
  place.row.trouble = found ? "" : found.error().code().message();
  place.pause = 0;
  if (!found) return;
  place.handovers.look(*found, now);
  place.row.handovers_per_minute = place.handovers.per_minute(now);
  if (count_nodes(*found) > long_list) place.pause = looks_left_out;
  place.row.found = std::move(*found);
}

void TopLooker::look_for_children(const Path& path, const CallOptions& call) {
  Place& place = seen_[path.str()];
  if (!place.row.trouble.empty()) return;
  std::vector<std::string> names;
  try {
    if (is_folder(place.row.found)) names = client_.children(path, call).names;
  } catch (const zkclient::Error& error) {
    if (error.errc() == zkclient::Errc::cancelled) throw;
    place.row.trouble = error.code().message();
    return;
  }
  std::erase_if(names, [&](const std::string& name) { return !has_a_path(client_, path, "/" + name); });
  std::sort(names.begin(), names.end());
  place.has_more = names.size() > most_children;
  if (names.size() > long_list) place.pause = looks_left_out;
  names.resize(std::min(names.size(), most_children));
  place.children.clear();
  for (const std::string& name : names)
    place.children.push_back(path / name);
}

std::vector<TopRow> TopLooker::look(const CallOptions& call) {
  const std::vector<Path> named = due(paths_);
  look_at(named, call);
  std::set<std::string> wanted;
  std::set<std::string> known;
  std::vector<Path> children;
  for (const Path& path : paths_)
    known.insert(path.str());
  for (const Path& path : named)
    look_for_children(path, call);
  for (const Path& path : paths_) {
    const Place& folder = seen_[path.str()];
    // Beside its children only if there is something to tell of it.
    if (folder.children.empty() || folder.has_more || !folder.row.trouble.empty()) wanted.insert(path.str());
    for (const Path& child : folder.children) {
      wanted.insert(child.str());
      if (known.insert(child.str()).second) children.push_back(child);
    }
  }
  look_at(due(children), call);
  std::erase_if(seen_, [&](const auto& one) { return !known.contains(one.first); });
  std::vector<TopRow> rows;
  for (const std::string& path : wanted) {
    rows.push_back(seen_[path].row);
    if (seen_[path].has_more && rows.back().trouble.empty()) rows.back().trouble = only_so_many;
  }
  return rows;
}

}  // namespace zkr
