// Which reads, and which names to be judged, go out next?

#include "recipes/views/mirror_model.hpp"

#include <utility>

namespace zkrecipes::detail {

using Kind = MirrorRead::Kind;

namespace {

std::string path_below(std::string directory, const std::string& name) {
  if (directory == "/") directory.clear();
  return std::move(directory.append(1, '/').append(name));
}

}  // namespace

bool MirrorModel::wants_data(const Node& node) const {
  return node.parent == nullptr ? scope_.root_data : scope_.options.data;
}

bool MirrorModel::wants_list(const Node& node) const { return node.depth < scope_.depth && !node.ephemeral; }

Kind MirrorModel::kind_of_read(const Node& node, MirrorSide side) const {
  if (side == MirrorSide::list) return Kind::children;
  return node.look_first || !wants_data(node) || !scope_.options.data ? Kind::exists : Kind::get;
}

void MirrorModel::enqueue(Node& node, MirrorSide which) {
  Side& side = side_of(node, which);
  if (side.queued || node.held || side.progress != Progress::due) return;
  side.queued = true;
  queue_.emplace_back(node.id, which);
}

bool MirrorModel::pay(Side& side, std::size_t bytes) {
  if (side.paid != 0) return true;
  if (watched_bytes_ + bytes > max_watched_bytes) return false;
  watched_bytes_ += bytes;
  side.paid = bytes;
  return true;
}

void MirrorModel::refund(Side& side) { watched_bytes_ -= std::exchange(side.paid, 0); }

// What had to wait, and need not any longer.
void MirrorModel::take_late(TimePoint now) {
  while (!late_lists_.empty() && late_lists_.begin()->first <= now) {
    queue_.emplace_back(late_lists_.begin()->second, MirrorSide::list);
    late_lists_.erase(late_lists_.begin());
  }
  if (!retry_at_ || *retry_at_ > now) return;
  retry_at_ = now + retry_pause;
  for (const NodeId id : troubled_)
    retry(*find(id));
}

std::vector<MirrorRead> MirrorModel::take_reads(TimePoint now) {
  now_ = now;
  std::vector<MirrorRead> reads;
  if (!connected_ || closed_) return reads;
  if (!barrier_answered_ && !barrier_sent_) {
    barrier_sent_ = true;
    reads.push_back({.id = ++last_read_, .kind = Kind::sync, .path = scope_.full_path});
    reads_.emplace(last_read_, Sent{Kind::sync, 0, MirrorSide::data, now, connection_});
  }
  if (!synced_) return reads;  // This server may lag behind the one of the last session.
  take_late(now);
  while (in_flight_ < max_in_flight && !queue_.empty()) {
    const auto [id, which] = queue_.front();
    queue_.pop_front();
    Node* node = find(id);
    if (node == nullptr) continue;
    MirrorRead read;
    if (send(*node, which, now, read)) reads.push_back(std::move(read));
  }
  return reads;
}

std::vector<std::string> MirrorModel::take_names() {
  std::vector<std::string> paths;
  for (const NameFilter::Name& name : filter_.take())
    paths.push_back(path_below(path_of(*find(name.directory), scope_.path), name.name));
  return paths;
}

bool MirrorModel::send(Node& node, MirrorSide which, TimePoint now, MirrorRead& read) {
  Side& side = side_of(node, which);
  side.queued = false;
  if (side.progress != Progress::due || node.held) return false;
  if (which == MirrorSide::list && node.list_not_before > now) {
    side.queued = true;
    late_lists_.emplace(node.list_not_before, node.id);
    return false;
  }
  std::string path = path_of(node, scope_.full_path);
  if (!pay(side, path.size() + 4)) {
    refused(node, which, Errc::overloaded, false);
    return false;
  }
  side.progress = Progress::sent;
  side.read = ++last_read_;
  read = {.id = side.read, .kind = kind_of_read(node, which), .path = std::move(path), .node = node.id, .side = which};
  reads_.emplace(side.read, Sent{read.kind, node.id, which, now, connection_});
  ++in_flight_;
  return true;
}

std::string MirrorModel::path_of(const Node& node, const std::string& root) const {
  if (node.parent == nullptr) return root;
  return path_below(path_of(*node.parent, root), node.name);
}

}  // namespace zkrecipes::detail
