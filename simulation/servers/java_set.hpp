#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zktesting::simulated {

/// Java's String::hashCode of a text in UTF-8.
std::uint32_t java_hash(std::string_view text);

/// A set of names in the order of Java's HashSet<String>: that is the order in which a real server lists children, and
/// deletes the ephemeral nodes of a session.
class JavaSet {
 public:
  /// Java's default is 16; a node's children begin with 8.
  explicit JavaSet(std::size_t capacity = 16) : first_capacity_(capacity) {}

  /// False: it is in there already.
  bool add(std::string name);
  bool remove(std::string_view name);
  [[nodiscard]] bool contains(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::vector<std::string> names() const;
  /// As Java's clone() and copy constructor order it: by a capacity that fits the size.
  [[nodiscard]] JavaSet clone() const;

  /// The same names. Their order says only what came before.
  friend bool operator==(const JavaSet& left, const JavaSet& right);

 private:
  using Bucket = std::vector<std::string>;

  [[nodiscard]] std::size_t bucket_of(std::string_view name) const;
  void grow();

  std::size_t first_capacity_;
  std::size_t size_ = 0;
  std::vector<Bucket> buckets_;
};

}  // namespace zktesting::simulated
