#include "simulation/servers/java_set.hpp"

#include <algorithm>
#include <utility>

namespace zktesting::simulated {
namespace {

constexpr std::size_t default_capacity = 16;
constexpr std::size_t crowd = 9;  // So many names in one bucket make a small table grow.
constexpr std::size_t small_table = 64;

std::uint32_t continued(std::string_view text, std::size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    ++at;
    return byte;
  }
  const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
  std::uint32_t point = byte & (0xffu >> (length + 1));
  for (std::size_t end = std::min(at + length, text.size()); ++at < end;)
    point = (point << 6) | (static_cast<unsigned char>(text[at]) & 0x3fu);
  return point;
}

}  // namespace

std::uint32_t java_hash(std::string_view text) {
  std::uint32_t hash = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t point = continued(text, at);
    if (point < 0x10000) {
      hash = 31 * hash + point;
    } else {
      hash = 31 * hash + (0xd7c0 + (point >> 10));
      hash = 31 * hash + (0xdc00 | (point & 0x3ff));
    }
  }
  return hash;
}

std::size_t JavaSet::bucket_of(std::string_view name) const {
  const std::uint32_t hash = java_hash(name);
  return (hash ^ (hash >> 16)) & (buckets_.size() - 1);
}

bool JavaSet::add(std::string name) {
  if (contains(name)) return false;
  if (buckets_.empty()) buckets_.resize(first_capacity_);
  Bucket& bucket = buckets_[bucket_of(name)];
  bucket.push_back(std::move(name));
  ++size_;
  if (bucket.size() >= crowd && buckets_.size() < small_table) grow();
  if (size_ > buckets_.size() * 3 / 4) grow();
  return true;
}

bool JavaSet::remove(std::string_view name) {
  if (buckets_.empty()) return false;
  Bucket& bucket = buckets_[bucket_of(name)];
  const auto found = std::find(bucket.begin(), bucket.end(), name);
  if (found == bucket.end()) return false;
  bucket.erase(found);
  --size_;
  return true;
}

bool JavaSet::contains(std::string_view name) const {
  if (buckets_.empty()) return false;
  const Bucket& bucket = buckets_[bucket_of(name)];
  return std::find(bucket.begin(), bucket.end(), name) != bucket.end();
}

std::vector<std::string> JavaSet::names() const {
  std::vector<std::string> all;
  all.reserve(size_);
  for (const Bucket& bucket : buckets_)
    all.insert(all.end(), bucket.begin(), bucket.end());
  return all;
}

JavaSet JavaSet::clone() const {
  std::size_t capacity = size_ == 0 ? default_capacity : 1;
  while (size_ != 0 && capacity < size_ * 4 / 3 + 1)
    capacity *= 2;
  JavaSet copy(capacity);
  for (const Bucket& bucket : buckets_)
    for (const std::string& name : bucket)
      copy.add(name);
  return copy;
}

void JavaSet::grow() {
  std::vector<Bucket> old = std::move(buckets_);
  buckets_ = std::vector<Bucket>(old.size() * 2);
  for (Bucket& bucket : old)
    for (std::string& name : bucket)
      buckets_[bucket_of(name)].push_back(std::move(name));
}

bool operator==(const JavaSet& left, const JavaSet& right) {
  if (left.size_ != right.size_) return false;
  const std::vector<std::string> names = left.names();
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return right.contains(name); });
}

}  // namespace zktesting::simulated
