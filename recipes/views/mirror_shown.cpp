// What is shown of the nodes, and when is that a new snapshot?

#include "recipes/views/mirror_model.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {

using zkclient::Stat;

void MirrorModel::touch() {
  if (!changed_) changed_ = now_;
  last_change_ = now_;
}

// When what has changed has rested for long enough to be published, or has waited for long enough.
MirrorModel::TimePoint MirrorModel::quiet_at() const {
  const CacheOptions& options = scope_.options;
  if (hurried_up_to_ > published_up_to_) return *changed_;
  return std::min(last_change_ + options.quiet, *changed_ + std::max(options.quiet, options.max_delay));
}

void MirrorModel::hurry(std::uint64_t number) { hurried_up_to_ = std::max(hurried_up_to_, number); }

bool MirrorModel::is_quiet(TimePoint now) const { return !changed_ || revision_ == 0 || now >= quiet_at(); }

Directory& MirrorModel::writable(Node& node) {
  if (node.directory != nullptr && node.directory->edition == edition_) return *node.directory;
  node.directory =
      node.directory == nullptr ? std::make_shared<Directory>() : std::make_shared<Directory>(*node.directory);
  node.directory->edition = edition_;
  if (node.parent != nullptr) writable(*node.parent).put_children(edition_, node.name, node.directory);
  return *node.directory;
}

void MirrorModel::show(Node& node, CachedNode seen) {
  seen.unreadable = node.data_error ? node.data_error : node.list_error;
  set_incomplete(node, seen.unreadable || (scope_.options.data && wants_data(node) && !seen.has_data));
  if (node.shown != nullptr && *node.shown == seen) return;
  const bool is_new = node.shown == nullptr;
  node.shown = std::make_shared<const CachedNode>(std::move(seen));
  if (node.parent != nullptr) {
    if (is_new) ++size_;
    writable(*node.parent).put(edition_, node.shown);
  }
  touch();
}

// The same data, another Stat.
void MirrorModel::show_stat(Node& node, const Stat& stat) {
  CachedNode seen{.name = node.name};
  if (node.shown != nullptr && !node.data_error) seen = *node.shown;
  seen.stat = stat;
  show(node, std::move(seen));
}

void MirrorModel::hide(Node& node) {
  data_bytes_ -= std::exchange(node.bytes, 0);
  set_incomplete(node, false);
  if (node.shown == nullptr) return;
  node.shown = nullptr;
  if (node.parent != nullptr) {
    --size_;
    writable(*node.parent).erase(edition_, node.name);
  }
  touch();
}

void MirrorModel::set_incomplete(Node& node, bool incomplete) {
  if (node.incomplete == incomplete) return;
  node.incomplete = incomplete;
  incomplete ? ++incomplete_ : --incomplete_;
}

SnapshotPtr MirrorModel::publish(TimePoint now) {
  now_ = now;
  const bool exact = settled();
  const bool news = changed_ || revision_ == 0 || (exact && !published_exact_);
  const bool overdue = caught_up() && changed_ && now >= *changed_ + scope_.options.max_delay;
  SnapshotPtr published;
  if (news && (exact || overdue) && is_quiet(now)) {
    const bool exists = root_->shown != nullptr;
    SnapshotData data;
    data.path = scope_.path;
    data.root = root_->shown;
    if (exists) data.children = root_->directory;  // Else they are those of a root that is not read yet.
    data.size = exists ? size_ : 0;
    data.names_only = !scope_.options.data && scope_.depth > 0;
    data.root_watched = scope_.root_data;
    data.exact = exact;
    // Of those in trouble some may not be shown yet.
    data.complete = incomplete_ == 0 && troubled_.empty() && settled_up_to() >= mended_up_to_;
    data.zxid = zxid_;
    data.revision = ++revision_;
    published = std::make_shared<const SnapshotData>(std::move(data));
    ++edition_;
    changed_.reset();
    published_exact_ = exact;
  }
  if (!changed_ && revision_ != 0) published_up_to_ = settled_up_to();  // Also when it was read again, and is the same.
  if (connected_ && barrier_answered_ && covers(target_)) current_ = true;
  return published;
}

std::optional<MirrorModel::TimePoint> MirrorModel::due() const {
  std::optional<TimePoint> first;
  const auto consider = [&first](TimePoint when) { first = first ? std::min(*first, when) : when; };
  if (closed_) return first;
  if (changed_ && settled()) consider(quiet_at());  // Also without a connection.
  if (!connected_) return first;
  if (!late_lists_.empty()) consider(late_lists_.begin()->first);
  if (retry_at_) consider(*retry_at_);
  if (changed_ && !settled() && caught_up()) {
    const TimePoint overdue = *changed_ + scope_.options.max_delay;
    consider(revision_ == 0 ? overdue : std::max(overdue, quiet_at()));
  }
  return first;
}

}  // namespace zkrecipes::detail
