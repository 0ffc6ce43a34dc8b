#include "recipes/queues/item_format.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/sequence.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::int32_t kazoo_default = 100;
constexpr std::int32_t kazoo_most = 999;
constexpr std::size_t hexadecimal_size = 9;  // "1" or "0", and eight digits.
constexpr char bar = '|';                    // Before and behind a time or an id, as Curator writes them.

// Any client can make a node with a name that is too long for the paths that consumers build of it: of the item, of its
// claim, of its dead letter. No such name is an item's.
constexpr std::size_t longest_name = 1024;
constexpr std::size_t longest_id = 1000;  // With all that stands around it, the name is not too long.
constexpr std::size_t longest_time = 16;  // Digits.

// Curator's serialized form: a version, then for each item a mark, its size and its bytes, and a mark at the end.
constexpr std::uint32_t curator_version = 0x0001'0001;
constexpr char item_follows = 1;
constexpr char end_of_items = 2;

// The standard form is the item's bytes alone. One that was rejected for a reason, or that looks as if it were, has
// before it a mark, the reason's size and the reason.
constexpr std::string_view rejected("\0zkrecipes:rejected\n", 20);

void append_int(std::string& data, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    data += static_cast<char>(value >> static_cast<unsigned>(shift) & 0xFFU);
}

std::optional<std::uint32_t> take_int(std::string_view& data) {
  if (data.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : data.substr(0, 4))
    value = value << 8U | static_cast<unsigned char>(c);
  data.remove_prefix(4);
  return value;
}

std::optional<std::vector<std::string>> decode_curator(std::string_view data) {
  if (take_int(data) != curator_version) return std::nullopt;
  std::vector<std::string> items;
  while (!data.empty() && data.front() == item_follows) {
    data.remove_prefix(1);
    const auto size = take_int(data);
    if (!size || *size > data.size()) return std::nullopt;
    items.emplace_back(data.substr(0, *size));
    data.remove_prefix(*size);
  }
  const bool complete = data.size() == 1 && data.front() == end_of_items;
  if (!complete || items.empty()) return std::nullopt;
  return items;
}

// What `data` holds after the mark, if it has one: the reason, and the item.
struct Rejection {
  std::string_view reason;
  std::string_view item;
};
std::optional<Rejection> split_rejection(std::string_view data) {
  if (!data.starts_with(rejected)) return std::nullopt;
  data.remove_prefix(rejected.size());
  const auto size = take_int(data);
  if (!size || *size > data.size()) return std::nullopt;
  return Rejection{data.substr(0, *size), data.substr(*size)};
}

std::optional<std::int32_t> parse_hexadecimal(std::string_view text) {
  std::uint32_t bits = 0;
  const auto [stop, error] = std::from_chars(text.data() + 1, text.data() + text.size(), bits, 16);
  const auto priority = static_cast<std::int32_t>(bits);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  if (!whole || text.front() != (priority < 0 ? '0' : '1')) return std::nullopt;
  return priority;
}

// As Java's Long.parseLong, which Curator calls, but for zeros that nobody writes.
std::optional<std::int64_t> parse_time(std::string_view text) {
  if (text.size() > longest_time) return std::nullopt;
  std::uint64_t time = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), time, 16);
  constexpr std::uint64_t latest = std::numeric_limits<std::int64_t>::max();
  if (error != std::errc() || stop != text.data() + text.size() || time > latest) return std::nullopt;
  return static_cast<std::int64_t>(time);
}

std::optional<std::int32_t> parse_decimal(std::string_view text) {
  std::uint32_t priority = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), priority);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return static_cast<std::int32_t>(priority);
}

}  // namespace

std::string_view ItemFormat::prefix() const noexcept {
  switch (style_) {
    case Style::standard: return "item-";
    case Style::zookeeper: return "qn-";
    case Style::curator: return "queue-";
    case Style::kazoo:
    case Style::kazoo_locking: break;
  }
  return "entry-";
}

const char* ItemFormat::defect() const noexcept {
  const bool of_curator = style_ == Style::standard || style_ == Style::curator;
  switch (kind_) {
    case QueueKind::plain: break;
    case QueueKind::prioritized: return style_ == Style::zookeeper ? "the layout has no priorities" : nullptr;
    case QueueKind::delayed: return of_curator ? nullptr : "the layout has no delayed items";
    case QueueKind::identified: return of_curator ? nullptr : "the layout has no ids";
  }
  return nullptr;
}

const char* ItemFormat::defect(std::int32_t priority) const noexcept {
  return of_kazoo() && (priority < 0 || priority > kazoo_most) ? "priorities of kazoo's queues are 0 to 999" : nullptr;
}

std::int32_t ItemFormat::usual_priority() const noexcept { return of_kazoo() ? kazoo_default : 0; }

std::string ItemFormat::name(std::int32_t priority) const {
  if (hexadecimal()) {
    return fmt::format("{}{}{:08X}", prefix(), priority < 0 ? '0' : '1', static_cast<std::uint32_t>(priority));
  }
  if (of_kazoo()) return fmt::format("{}{:03}-", prefix(), priority);
  return std::string(prefix());
}

std::string ItemFormat::name_due(std::int64_t due_ms) const {
  return fmt::format("{}{}{:08X}{}", prefix(), bar, due_ms, bar);
}

std::string ItemFormat::name_with_id(std::string_view id) const {
  return fmt::format("{}{}{}{}", prefix(), bar, id, bar);
}

// "" for a name without bars: Curator puts an item back so when its consumer has thrown an exception.
std::optional<std::string_view> ItemFormat::between_bars(std::string_view name) const noexcept {
  name.remove_prefix(prefix().size());
  if (!name.starts_with(bar)) return "";
  const std::size_t end = name.find(bar, 1);
  if (end == std::string_view::npos || end == 1) return std::nullopt;
  return name.substr(1, end - 1);
}

std::optional<ItemFormat::Head> ItemFormat::head_of(std::string_view name) const {
  if (!name.starts_with(prefix())) return std::nullopt;
  Head head{prefix().size(), usual_priority(), 0};
  if (kind_ == QueueKind::delayed || kind_ == QueueKind::identified) {
    const auto text = between_bars(name);
    if (!text) return std::nullopt;
    if (!text->empty()) head.size += text->size() + 2;
    const auto time = kind_ == QueueKind::delayed && !text->empty() ? parse_time(*text) : 0;
    if (!time) return std::nullopt;
    head.due_ms = *time;
    return head;
  }
  std::optional<std::int32_t> priority = head.priority;
  if (hexadecimal()) {
    head.size += hexadecimal_size;
    if (name.size() <= head.size) return std::nullopt;
    priority = parse_hexadecimal(name.substr(prefix().size(), hexadecimal_size));
  } else if (of_kazoo()) {
    head.size = name.find('-', head.size) + 1;
    if (head.size != prefix().size() + 4) return std::nullopt;
    priority = parse_decimal(name.substr(prefix().size(), 3));
  }
  if (!priority) return std::nullopt;
  head.priority = *priority;
  return head;
}

std::optional<ItemKey> ItemFormat::parse(std::string_view name) const {
  if (name.size() > longest_name) return std::nullopt;
  const std::optional<Head> head = head_of(name);
  if (!head) return std::nullopt;
  const auto sequence = sequence_of(name, {name.substr(0, head->size)});
  if (!sequence) return std::nullopt;
  return ItemKey{head->priority, *sequence, std::string(name), head->due_ms};
}

std::string ItemFormat::name_again(const ItemKey& key) const {
  const std::optional<Head> head = head_of(key.name);
  return key.name.substr(0, head ? head->size : 0);
}

std::string_view ItemFormat::id_of(std::string_view name) const noexcept {
  if (kind_ != QueueKind::identified || !name.starts_with(prefix())) return {};
  return between_bars(name).value_or("");
}

std::string ItemFormat::encode(const std::vector<std::string>& items, std::string_view reason) const {
  std::string data;
  if (style_ == Style::standard && (!reason.empty() || items.front().starts_with(rejected))) {
    data = rejected;
    append_int(data, static_cast<std::uint32_t>(reason.size()));
    return data.append(reason).append(items.front());
  }
  if (style_ != Style::curator) return items.front();
  append_int(data, curator_version);
  for (const std::string& item : items) {
    data += item_follows;
    append_int(data, static_cast<std::uint32_t>(item.size()));
    data += item;
  }
  data += end_of_items;
  return data;
}

std::optional<std::vector<std::string>> ItemFormat::decode(std::string data) const {
  if (style_ == Style::curator) return decode_curator(data);
  std::vector<std::string> items;
  const auto rejection = style_ == Style::standard ? split_rejection(data) : std::nullopt;
  items.push_back(rejection ? std::string(rejection->item) : std::move(data));
  return items;
}

std::string ItemFormat::reason(std::string_view data) const {
  const auto rejection = style_ == Style::standard ? split_rejection(data) : std::nullopt;
  return rejection ? std::string(rejection->reason) : std::string();
}

const char* id_defect(std::string_view id) noexcept {
  if (id.empty()) return "the id is empty";
  if (id.find_first_of("/|") != std::string_view::npos) return "the id has a / or a |";
  if (id.size() > longest_id) return "the id is longer than 1000 bytes";
  return nullptr;
}

std::vector<ItemKey> in_take_order(const std::vector<std::string>& names, const ItemFormat& format) {
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<ItemKey>> levels;
  for (const std::string& name : names) {
    if (auto key = format.parse(name)) levels[{key->priority, key->due_ms}].push_back(std::move(*key));
  }
  std::vector<ItemKey> ordered;
  ordered.reserve(names.size());
  for (auto& [level, keys] : levels) {
    // Names made by hand may be so far apart that "precedes" goes round in a circle, which no sort survives: compare
    // the distances from the first one.
    const auto before = [](const ItemKey& a, const ItemKey& b) { return precedes(a.sequence, b.sequence); };
    const auto first = static_cast<std::uint32_t>(std::min_element(keys.begin(), keys.end(), before)->sequence);
    std::sort(keys.begin(), keys.end(), [first](const ItemKey& a, const ItemKey& b) {
      return static_cast<std::uint32_t>(a.sequence) - first < static_cast<std::uint32_t>(b.sequence) - first;
    });
    std::move(keys.begin(), keys.end(), std::back_inserter(ordered));
  }
  return ordered;
}

}  // namespace zkrecipes::detail
