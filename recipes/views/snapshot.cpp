#include "recipes/views/snapshot.hpp"

#include <algorithm>
#include <compare>
#include <iterator>
#include <limits>
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

bool is_before(const Entry& entry, const Key& key) noexcept {
  return entry.hash < key.hash || (entry.hash == key.hash && entry.name() < key.name);
}

// How many of `size` ordered elements are before what is looked for. Hashes are spread evenly, so a guess from where one
// lies among them is a few elements off at most: that costs less than the jumps of a binary search.
template <typename Before>
std::size_t count_before(std::size_t size, std::size_t guess, Before before) noexcept {
  constexpr int near = 16;
  std::size_t count = std::min(guess, size);
  for (int steps = 0; steps < near; ++steps) {
    if (count < size && before(count)) {
      ++count;
    } else if (count > 0 && !before(count - 1)) {
      --count;
    } else {
      return count;
    }
  }
  std::size_t least = 0;
  std::size_t most = size;
  while (least < most) {
    const std::size_t middle = least + (most - least) / 2;
    before(middle) ? least = middle + 1 : most = middle;
  }
  return least;
}

std::size_t share_of(std::size_t size, std::size_t part, std::size_t whole) noexcept {
  return static_cast<std::size_t>(static_cast<double>(size) * (static_cast<double>(part) / static_cast<double>(whole)));
}

std::size_t position(const Block& block, const Key& key) noexcept {
  const std::vector<Entry>& entries = block.entries;
  if (entries.empty()) return 0;
  const std::size_t first = entries.front().hash;
  const std::size_t last = entries.back().hash;
  std::size_t guess = 0;
  if (key.hash > first)
    guess = key.hash > last ? entries.size() : share_of(entries.size(), key.hash - first, last - first);
  return count_before(entries.size(), guess, [&](std::size_t index) { return is_before(entries[index], key); });
}

bool is_at(const Block& block, std::size_t index, const Key& key) noexcept {
  return index < block.entries.size() && block.entries[index].hash == key.hash &&
         block.entries[index].name() == key.name;
}

bool is_named_before(const Entry* one, const Entry* other) noexcept { return one->name() < other->name(); }

}  // namespace

// The last block that does not begin after `hash`, or the first one.
std::size_t Directory::block_of(std::size_t hash) const noexcept {
  const std::size_t guess = share_of(blocks.size(), hash, std::numeric_limits<std::size_t>::max());
  const std::size_t after =
      count_before(blocks.size(), guess, [&](std::size_t index) { return blocks[index].first <= hash; });
  return after == 0 ? 0 : after - 1;
}

const Entry* Directory::find(std::string_view name) const noexcept {
  if (blocks.empty()) return nullptr;
  const Key key(name);
  const Block& block = *blocks[block_of(key.hash)].block;
  const std::size_t index = position(block, key);
  return is_at(block, index, key) ? &block.entries[index] : nullptr;
}

std::vector<const Entry*> Directory::sorted() const {
  std::vector<const Entry*> entries;
  for (const BlockRef& reference : blocks) {
    for (const Entry& entry : reference.block->entries)
      entries.push_back(&entry);
  }
  std::sort(entries.begin(), entries.end(), is_named_before);
  return entries;
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
    blocks.push_back({0, std::move(block)});
  }
  const Key key(node->name);
  const std::size_t number = block_of(key.hash);
  Block& block = writable(writer, number);
  const std::size_t index = position(block, key);
  if (is_at(block, index, key)) {
    block.entries[index].node = std::move(node);
    return;
  }
  Entry entry{key.hash, std::move(node), nullptr};
  block.entries.insert(block.entries.begin() + static_cast<std::ptrdiff_t>(index), std::move(entry));
  blocks[number].first = block.entries.front().hash;
  if (block.entries.size() > max_block) divide(writer, number);
}

// Entries with one hash stay together: a search looks into one block.
void Directory::divide(std::uint64_t writer, std::size_t index) {
  std::vector<Entry>& entries = blocks[index].block->entries;
  const std::size_t hash = entries[entries.size() / 2].hash;
  auto middle = std::find_if(entries.begin(), entries.end(), [hash](const Entry& entry) { return entry.hash >= hash; });
  if (middle == entries.begin()) {
    middle = std::find_if(entries.begin(), entries.end(), [hash](const Entry& entry) { return entry.hash > hash; });
  }
  if (middle == entries.end()) return;
  auto second = std::make_shared<Block>();
  second->edition = writer;
  second->entries.assign(std::make_move_iterator(middle), std::make_move_iterator(entries.end()));
  entries.erase(middle, entries.end());
  const std::size_t first = second->entries.front().hash;
  BlockRef reference{first, std::move(second)};
  blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(reference));
}

void Directory::put_children(std::uint64_t writer, std::string_view name, std::shared_ptr<const Directory> children) {
  if (blocks.empty()) return;
  const Key key(name);
  const std::size_t number = block_of(key.hash);
  if (!is_at(*blocks[number].block, position(*blocks[number].block, key), key)) return;
  Block& block = writable(writer, number);
  block.entries[position(block, key)].children = std::move(children);
}

void Directory::erase(std::uint64_t writer, std::string_view name) {
  if (blocks.empty()) return;
  const Key key(name);
  const std::size_t number = block_of(key.hash);
  if (!is_at(*blocks[number].block, position(*blocks[number].block, key), key)) return;
  Block& block = writable(writer, number);
  block.entries.erase(block.entries.begin() + static_cast<std::ptrdiff_t>(position(block, key)));
  if (block.entries.empty()) {
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(number));
    return;
  }
  blocks[number].first = block.entries.front().hash;
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
  for (const Entry* entry : children->sorted())
    visit_all(join(path, entry->name()), *entry->node, entry->children.get(), visit);
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
  for (const Entry* entry : place.children->sorted())
    nodes.push_back(entry->node);
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

// Walks the entries of a directory in their order there. A null directory has none.
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
  // An entry before and after; null: none.
  struct Pair {
    const Entry* before;
    const Entry* after;
    const std::string& name() const noexcept { return before == nullptr ? after->name() : before->name(); }
  };

  void compare_children(const std::string& path, const Directory* before, const Directory* after) {
    std::vector<Pair> pairs = different(before, after);
    std::sort(pairs.begin(), pairs.end(), [](const Pair& one, const Pair& other) { return one.name() < other.name(); });
    static const Entry none{};
    for (const Pair& pair : pairs) {
      const Entry& one = pair.before == nullptr ? none : *pair.before;
      const Entry& other = pair.after == nullptr ? none : *pair.after;
      compare(join(path, pair.name()), one.node, other.node, one.children.get(), other.children.get());
    }
  }

  static std::vector<Pair> different(const Directory* before, const Directory* after) {
    std::vector<Pair> pairs;
    Cursor old_one(before);
    Cursor new_one(after);
    while (!old_one.at_end() || !new_one.at_end()) {
      if (!old_one.at_end() && !new_one.at_end() && old_one.at_start_of_block() && new_one.at_start_of_block() &&
          &old_one.block() == &new_one.block()) {
        old_one.skip_block();
        new_one.skip_block();
        continue;
      }
      const auto order = order_of(old_one, new_one);
      const Pair pair{order <= 0 ? &old_one.entry() : nullptr, order >= 0 ? &new_one.entry() : nullptr};
      if (!is_same(pair)) pairs.push_back(pair);
      if (order <= 0) old_one.next();
      if (order >= 0) new_one.next();
    }
    return pairs;
  }

  // Which of them comes first; one that is at its end comes last.
  static std::strong_ordering order_of(const Cursor& old_one, const Cursor& new_one) {
    if (old_one.at_end()) return std::strong_ordering::greater;
    if (new_one.at_end()) return std::strong_ordering::less;
    const std::strong_ordering order = old_one.entry().hash <=> new_one.entry().hash;
    return order != 0 ? order : old_one.entry().name() <=> new_one.entry().name();
  }

  static bool is_same(const Pair& pair) {
    return pair.before != nullptr && pair.after != nullptr && pair.before->node == pair.after->node &&
           pair.before->children == pair.after->children;
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
