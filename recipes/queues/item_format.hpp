#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/queue_layout.hpp>

namespace zkrecipes::detail {

/// An item by what its name says.
struct ItemKey {
  std::int32_t priority = 0;
  std::int32_t sequence = 0;
  std::string name;

  friend bool operator==(const ItemKey&, const ItemKey&) = default;
};

/// How items are named and what is in them: the pure part of QueueLayout.
class ItemFormat {
 public:
  using Style = QueueLayout::Style;
  /// `prioritized`: of a PriorityQueue.
  ItemFormat(Style style, bool prioritized) noexcept : style_(style), prioritized_(prioritized) {}

  /// Why no item can have this priority; nullptr if it can.
  const char* defect(std::int32_t priority) const noexcept;
  /// The name without the number that the server appends.
  std::string name(std::int32_t priority) const;
  /// nullopt: not an item.
  std::optional<ItemKey> parse(std::string_view name) const;

  /// What a node with these items holds. More than one item only in Curator's format. `reason`: why it was rejected;
  /// other libraries' formats have no place for that.
  std::string encode(const std::vector<std::string>& items, std::string_view reason = "") const;
  /// nullopt: it is in another format.
  std::optional<std::vector<std::string>> decode(std::string data) const;
  /// "" if there is none.
  std::string reason(std::string_view data) const;

  /// Other libraries take part, which do not expect a folder to vanish while it is empty.
  bool foreign() const noexcept { return style_ != Style::standard; }

  /// The priority of what a queue without priorities pushes.
  std::int32_t usual_priority() const noexcept;

 private:
  bool hexadecimal() const noexcept { return prioritized_ && (style_ == Style::standard || style_ == Style::curator); }
  std::string_view prefix() const noexcept;

  Style style_;
  bool prioritized_;
};

/// The items among `names`, in the order in which they are to be taken: by priority, lower first, then as they were
/// pushed. The server's counter may have wrapped around.
std::vector<ItemKey> in_take_order(const std::vector<std::string>& names, const ItemFormat& format);

}  // namespace zkrecipes::detail
