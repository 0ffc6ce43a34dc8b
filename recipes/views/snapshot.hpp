#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/cache.hpp>

/// What a Snapshot is made of. A directory is a list of blocks of at most 128 children, shared between snapshots: a
/// change copies its block and the lists of blocks up to the root. An `edition` says whose copy it is: what is of the
/// writer's present edition has not been published, and may be changed in place.
///
/// Children are ordered by the hash of their names: a search compares numbers that lie side by side, and reads one name.
/// By names, each comparison would read the memory of another node.
namespace zkrecipes::detail {

struct Directory;
using DirectoryPtr = std::shared_ptr<Directory>;

struct Entry {
  std::size_t hash = 0;  // Of the name.
  CachedNodePtr node;
  std::shared_ptr<const Directory> children;  // Null: none.

  const std::string& name() const noexcept { return node->name; }
};

/// A name, and what it is looked for by.
struct Key {
  explicit Key(std::string_view wanted) noexcept : hash(std::hash<std::string_view>()(wanted)), name(wanted) {}

  std::size_t hash;
  std::string_view name;
};

struct Block {
  std::uint64_t edition = 0;
  std::vector<Entry> entries;  // By hash, then by name; never empty.
};

struct BlockRef {
  std::size_t first;  // The hash of its first entry. No other block begins with the same one.
  std::shared_ptr<Block> block;
};

struct Directory {
  static constexpr std::size_t max_block = 128;

  std::uint64_t edition = 0;
  std::vector<BlockRef> blocks;

  const Entry* find(std::string_view name) const noexcept;
  /// The entry to be written, made if it is missing. Only on a Directory of this edition.
  void put(std::uint64_t writer, CachedNodePtr node);
  void put_children(std::uint64_t writer, std::string_view name, std::shared_ptr<const Directory> children);
  void erase(std::uint64_t writer, std::string_view name);
  /// All of them, by name.
  std::vector<const Entry*> sorted() const;

 private:
  std::size_t block_of(std::size_t hash) const noexcept;
  Block& writable(std::uint64_t writer, std::size_t index);
  void divide(std::uint64_t writer, std::size_t index);
  void merge(std::uint64_t writer, std::size_t index);
};

struct SnapshotData {
  std::string path;  // The user's.
  CachedNodePtr root;
  std::shared_ptr<const Directory> children;
  std::size_t size = 0;
  bool names_only = false;    // No node's data is watched: a change of it is not told.
  bool root_watched = false;  // Nor is that of the root.
  bool exact = false;
  bool complete = false;
  std::int64_t zxid = 0;
  std::uint64_t revision = 0;
};
using SnapshotPtr = std::shared_ptr<const SnapshotData>;

}  // namespace zkrecipes::detail
