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
  std::int64_t due_ms = 0;  ///< No consumer may have it before that time, see due_time.hpp. 0: any may.

  friend bool operator==(const ItemKey&, const ItemKey&) = default;
};

/// How items are named and what is in them: the pure part of QueueLayout.
class ItemFormat {
 public:
  using Style = QueueLayout::Style;
  ItemFormat(Style style, QueueKind kind) noexcept : style_(style), kind_(kind) {}

  /// Why there are no such queues; nullptr if there are.
  const char* defect() const noexcept;
  /// Why no item can have this priority; nullptr if it can.
  const char* defect(std::int32_t priority) const noexcept;

  // Names without the number that the server appends.
  std::string name(std::int32_t priority) const;
  /// Of a DelayQueue.
  std::string name_due(std::int64_t due_ms) const;
  /// Of an IdQueue. `id`: one in which id_defect() finds nothing.
  std::string name_with_id(std::string_view id) const;
  /// Of an item that parse() has found: for another node with all that its name says.
  std::string name_again(const ItemKey& key) const;

  /// nullopt: not an item, as each name of more than 1024 bytes.
  std::optional<ItemKey> parse(std::string_view name) const;
  /// The id of an item of an IdQueue; "" if it has none.
  std::string_view id_of(std::string_view name) const noexcept;

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
  bool of_kazoo() const noexcept { return style_ == Style::kazoo || style_ == Style::kazoo_locking; }
  bool hexadecimal() const noexcept { return kind_ == QueueKind::prioritized && !of_kazoo(); }
  std::string_view prefix() const noexcept;
  /// What stands before the number: its size, and what it says.
  struct Head {
    std::size_t size;
    std::int32_t priority;
    std::int64_t due_ms;
  };
  std::optional<Head> head_of(std::string_view name) const;
  std::optional<std::string_view> between_bars(std::string_view name) const noexcept;

  Style style_;
  QueueKind kind_;
};

/// Why no item can have this id; nullptr if it can.
const char* id_defect(std::string_view id) noexcept;

/// The items among `names`, in the order in which they are to be taken: by priority, lower first, by the time when they are
/// due, then as they were pushed. The server's counter may have wrapped around.
std::vector<ItemKey> in_take_order(const std::vector<std::string>& names, const ItemFormat& format);

}  // namespace zkrecipes::detail
