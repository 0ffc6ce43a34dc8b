#include "recipes/views/snapshot.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace zkrecipes {

using detail::Block;
using detail::BlockRef;
using detail::Directory;
using detail::Entry;
using detail::SnapshotData;

const char* to_string(CacheState state) noexcept {
  switch (state) {
    case CacheState::loading: return "loading";
    case CacheState::current: return "current";
    case CacheState::stale: return "stale";
    case CacheState::closed: return "closed";
  }
  return "?";
}

const char* to_string(Change::Kind kind) noexcept {
  switch (kind) {
    case Change::Kind::added: return "added";
    case Change::Kind::changed: return "changed";
    case Change::Kind::replaced: return "replaced";
    case Change::Kind::removed: return "removed";
  }
  return "?";
}

// --- Directories -----------------------------------------------------------------------------------------------------

namespace detail {
namespace {

std::size_t position(const Block& block, std::string_view name) noexcept {
  const auto found = std::partition_point(block.entries.begin(), block.entries.end(),
                                          [name](const Entry& entry) { return entry.name < name; });
  return static_cast<std::size_t>(found - block.entries.begin());
}

bool is_at(const Block& block, std::size_t index, std::string_view name) noexcept {
  return index < block.entries.size() && block.entries[index].name == name;
}

}  // namespace

// The last block that does not begin after `name`, or the first one.
std::size_t Directory::block_of(std::string_view name) const noexcept {
  const auto after =
      std::partition_point(blocks.begin(), blocks.end(), [name](const BlockRef& block) { return block.first <= name; });
  return after == blocks.begin() ? 0 : static_cast<std::size_t>(after - blocks.begin()) - 1;
}

const Entry* Directory::find(std::string_view name) const noexcept {
  if (blocks.empty()) return nullptr;
  const Block& block = *blocks[block_of(name)].block;
  const std::size_t index = position(block, name);
  return is_at(block, index, name) ? &block.entries[index] : nullptr;
}

Block& Directory::writable(std::uint64_t writer, std::size_t index) {
  std::shared_ptr<Block>& block = blocks[index].block;
  if (block->edition != writer) {
    block = std::make_shared<Block>(*block);
    block->edition = writer;
  }
  return *block;
}

void Directory::put(std::uint64_t writer, CachedNodePtr node) {
  if (blocks.empty()) {
    auto block = std::make_shared<Block>();
    block->edition = writer;
    blocks.push_back({{}, std::move(block)});
  }
  const std::string_view name = node->name;
  const std::size_t number = block_of(name);
  Block& block = writable(writer, number);
  const std::size_t index = position(block, name);
  if (is_at(block, index, name)) {
    block.entries[index].name = name;
    block.entries[index].node = std::move(node);
  } else {
    Entry entry{name, std::move(node), nullptr};
    block.entries.insert(block.entries.begin() + static_cast<std::ptrdiff_t>(index), std::move(entry));
  }
  blocks[number].first = block.entries.front().name;
  if (block.entries.size() > max_block) divide(writer, number);
}

void Directory::divide(std::uint64_t writer, std::size_t index) {
  std::vector<Entry>& entries = blocks[index].block->entries;
  auto second = std::make_shared<Block>();
  second->edition = writer;
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() / 2);
  second->entries.assign(std::make_move_iterator(middle), std::make_move_iterator(entries.end()));
  entries.erase(middle, entries.end());
  const std::string_view first = second->entries.front().name;
  BlockRef reference{first, std::move(second)};
  blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(reference));
}

void Directory::put_children(std::uint64_t writer, std::string_view name, std::shared_ptr<const Directory> children) {
  if (blocks.empty()) return;
  const std::size_t number = block_of(name);
  if (!is_at(*blocks[number].block, position(*blocks[number].block, name), name)) return;
  Block& block = writable(writer, number);
  block.entries[position(block, name)].children = std::move(children);
}

void Directory::erase(std::uint64_t writer, std::string_view name) {
  if (blocks.empty()) return;
  const std::size_t number = block_of(name);
  if (!is_at(*blocks[number].block, position(*blocks[number].block, name), name)) return;
  Block& block = writable(writer, number);
  block.entries.erase(block.entries.begin() + static_cast<std::ptrdiff_t>(position(block, name)));
  if (block.entries.empty()) {
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(number));
    return;
  }
  blocks[number].first = block.entries.front().name;
  merge(writer, number);
}

// Two neighbours that fit into half a block become one.
void Directory::merge(std::uint64_t writer, std::size_t index) {
  if (index + 1 == blocks.size()) {
    if (index == 0) return;
    --index;
  }
  const std::shared_ptr<Block> second = blocks[index + 1].block;
  if (blocks[index].block->entries.size() + second->entries.size() > max_block / 2) return;
  std::vector<Entry>& entries = writable(writer, index).entries;
  entries.insert(entries.end(), second->entries.begin(), second->entries.end());
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index) + 1);
}

}  // namespace detail

// --- Looking ---------------------------------------------------------------------------------------------------------

namespace {

struct Place {
  const CachedNodePtr* node = nullptr;
  const Directory* children = nullptr;
};

// Takes the first component off `path`.
std::string_view take_component(std::string_view& path) noexcept {
  const std::size_t slash = path.find('/');
  const std::string_view first = path.substr(0, slash);
  path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  return first;
}

// What is left of an absolute path below `root`; false: it is not below.
bool make_relative(std::string_view& path, std::string_view root) noexcept {
  if (path.empty() || path.front() != '/') return true;
  if (root == "/") root = {};
  if (!path.starts_with(root)) return false;
  path.remove_prefix(root.size());
  if (path.empty()) return true;
  if (path.front() != '/') return false;
  path.remove_prefix(1);
  return true;
}

Place locate(const SnapshotData* data, std::string_view path) noexcept {
  if (data == nullptr || data->root == nullptr || !make_relative(path, data->path)) return {};
  Place place{&data->root, data->children.get()};
  while (!path.empty()) {
    if (place.children == nullptr) return {};
    const Entry* entry = place.children->find(take_component(path));
    if (entry == nullptr) return {};
    place = {&entry->node, entry->children.get()};
  }
  return place;
}

std::string join(const std::string& path, std::string_view name) {
  std::string joined = path == "/" ? std::string() : path;
  joined += '/';
  joined += name;
  return joined;
}

using Visit = std::function<void(const std::string& path, const CachedNode& node)>;

void visit_all(const std::string& path, const CachedNode& node, const Directory* children, const Visit& visit) {
  visit(path, node);
  if (children == nullptr) return;
  for (const BlockRef& reference : children->blocks) {
    for (const Entry& entry : reference.block->entries)
      visit_all(join(path, entry.name), *entry.node, entry.children.get(), visit);
  }
}

}  // namespace

const CachedNode* Snapshot::find(std::string_view path) const noexcept {
  const Place place = locate(data_.get(), path);
  return place.node == nullptr ? nullptr : place.node->get();
}

const CachedNode* Snapshot::root() const noexcept { return data_ == nullptr ? nullptr : data_->root.get(); }

std::vector<CachedNodePtr> Snapshot::children(std::string_view path) const {
  const Place place = locate(data_.get(), path);
  std::vector<CachedNodePtr> nodes;
  if (place.children == nullptr) return nodes;
  for (const BlockRef& reference : place.children->blocks) {
    for (const Entry& entry : reference.block->entries)
      nodes.push_back(entry.node);
  }
  return nodes;
}

void Snapshot::for_each(const Visit& visit) const {
  if (root() != nullptr) visit_all(data_->path, *data_->root, data_->children.get(), visit);
}

std::size_t Snapshot::size() const noexcept { return data_ == nullptr ? 0 : data_->size; }
bool Snapshot::exact() const noexcept { return data_ != nullptr && data_->exact; }
bool Snapshot::complete() const noexcept { return data_ != nullptr && data_->complete; }
std::int64_t Snapshot::zxid() const noexcept { return data_ == nullptr ? 0 : data_->zxid; }
std::uint64_t Snapshot::revision() const noexcept { return data_ == nullptr ? 0 : data_->revision; }

// --- Differences -----------------------------------------------------------------------------------------------------

namespace {

// Walks the entries of a directory in order. A null directory has none.
class Cursor {
 public:
  explicit Cursor(const Directory* directory) : directory_(directory) {}
  bool at_end() const { return directory_ == nullptr || block_ == directory_->blocks.size(); }
  const Entry& entry() const { return block().entries[index_]; }
  const Block& block() const { return *directory_->blocks[block_].block; }
  bool at_start_of_block() const { return index_ == 0; }
  void next() {
    if (++index_ == block().entries.size()) skip_block();
  }
  void skip_block() {
    ++block_;
    index_ = 0;
  }

 private:
  const Directory* directory_;
  std::size_t block_ = 0;
  std::size_t index_ = 0;
};

class Comparison {
 public:
  Comparison(bool names_only, bool root_watched) : names_only_(names_only), watched_(root_watched) {}

  void compare(const std::string& path, const CachedNodePtr& before, const CachedNodePtr& after,
               const Directory* children_before, const Directory* children_after) {
    if (after != nullptr) note(path, before, after);
    watched_ = !names_only_;
    if (children_before != children_after) compare_children(path, children_before, children_after);
    if (after == nullptr && before != nullptr) note(path, before, after);
  }
  std::vector<Change> take() { return std::move(changes_); }

 private:
  void compare_children(const std::string& path, const Directory* before, const Directory* after) {
    Cursor old_one(before);
    Cursor new_one(after);
    while (!old_one.at_end() || !new_one.at_end()) {
      if (old_one.at_end()) {
        take(path, nullptr, &new_one.entry());
        new_one.next();
      } else if (new_one.at_end()) {
        take(path, &old_one.entry(), nullptr);
        old_one.next();
      } else if (old_one.at_start_of_block() && new_one.at_start_of_block() && &old_one.block() == &new_one.block()) {
        old_one.skip_block();
        new_one.skip_block();
      } else {
        step(path, old_one, new_one);
      }
    }
  }

  void step(const std::string& path, Cursor& old_one, Cursor& new_one) {
    const int order = old_one.entry().name.compare(new_one.entry().name);
    take(path, order <= 0 ? &old_one.entry() : nullptr, order >= 0 ? &new_one.entry() : nullptr);
    if (order <= 0) old_one.next();
    if (order >= 0) new_one.next();
  }

  void take(const std::string& path, const Entry* before, const Entry* after) {
    static const Entry none{};
    const Entry& one = before == nullptr ? none : *before;
    const Entry& other = after == nullptr ? none : *after;
    if (one.node == other.node && one.children == other.children) return;
    compare(join(path, before == nullptr ? other.name : one.name), one.node, other.node, one.children.get(),
            other.children.get());
  }

  void note(const std::string& path, const CachedNodePtr& before, const CachedNodePtr& after) {
    if (const auto kind = kind_of(before, after)) changes_.push_back({*kind, path, before, after});
  }

  std::optional<Change::Kind> kind_of(const CachedNodePtr& before, const CachedNodePtr& after) const {
    if (before == after) return std::nullopt;
    if (before == nullptr) return Change::Kind::added;
    if (after == nullptr) return Change::Kind::removed;
    const zkclient::Stat& one = before->stat;
    const zkclient::Stat& other = after->stat;
    // Where only lists are read, a name may have no Stat yet.
    const bool known = one.czxid != 0 && other.czxid != 0;
    if (known && (one.czxid != other.czxid || one.ctime_ms != other.ctime_ms)) return Change::Kind::replaced;
    if (before->unreadable != after->unreadable || before->has_data != after->has_data) return Change::Kind::changed;
    if (!watched_) return std::nullopt;
    if (one.mzxid == other.mzxid && one.mtime_ms == other.mtime_ms && one.version == other.version)
      return before->data == after->data ? std::nullopt : std::optional(Change::Kind::changed);
    return Change::Kind::changed;
  }

  const bool names_only_;
  bool watched_;  // The data of the node that is compared; the root comes first.
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> difference(const Snapshot& before, const Snapshot& after) {
  static const SnapshotData none{};
  const SnapshotData& one = before.impl() == nullptr ? none : *before.impl();
  const SnapshotData& other = after.impl() == nullptr ? none : *after.impl();
  const SnapshotData& known = before.impl() == nullptr ? other : one;
  Comparison comparison(known.names_only, known.root_watched);
  comparison.compare(other.path.empty() ? one.path : other.path, one.root, other.root, one.children.get(),
                     other.children.get());
  return comparison.take();
}

}  // namespace zkrecipes
