#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace storm {

/// A set of seeds, which is a few ranges.
class SeedSet {
 public:
  void add(std::uint64_t first, std::uint64_t last);
  void add(std::uint64_t seed) { add(seed, seed); }
  [[nodiscard]] bool contains(std::uint64_t seed) const;
  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] bool empty() const { return last_of_.empty(); }
  /// By their first seeds, with the last ones.
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& ranges() const { return last_of_; }

  /// "1-1000,1002"; "-" for none.
  [[nodiscard]] std::string text() const;
  /// Throws std::invalid_argument.
  static SeedSet parse(const std::string& text);

  friend bool operator==(const SeedSet&, const SeedSet&) = default;

 private:
  std::map<std::uint64_t, std::uint64_t> last_of_;
};

/// Decimal digits and nothing else. Throws std::invalid_argument.
std::uint64_t parse_number(const std::string& text);

}  // namespace storm
