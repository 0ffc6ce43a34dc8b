#include "recipes/jobs/time_zone.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace zkrecipes::detail {

namespace {

using Time = TimeZone::Time;
using Seconds = TimeZone::Seconds;
using Change = TimeZone::Change;

/// Rules are followed up to here; the offset stays afterwards.
constexpr int last_year = 2500;
constexpr std::size_t most_zone_bytes = 1 << 20;
constexpr const char* malformed = "it is no file of the time zone database, or a damaged one";

int year_of(Time time) {
  return static_cast<int>(std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(time)).year());
}

/// Reads what it was given from front to end; fails for ever once it is asked for more than there is.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  std::string_view rest() const { return rest_; }
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  /// Signed, the most significant byte first.
  std::int64_t number(std::size_t size) {
    std::uint64_t value = 0;
    const std::string_view bytes = take(size);
    for (const char byte : bytes)
      value = value << 8U | static_cast<unsigned char>(byte);
    const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes[0]) & 0x80U) != 0;
    if (negative && size < sizeof value) value |= ~std::uint64_t(0) << (8 * size);
    return static_cast<std::int64_t>(value);
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

/// One of the two blocks of a file: the first one has times of four bytes, the second one of eight.
struct Header {
  char version = 0;
  std::size_t isut = 0, isstd = 0, leap = 0, times = 0, types = 0, chars = 0;

  std::size_t size_of_block(std::size_t time) const {
    return times * (time + 1) + types * 6 + chars + leap * (time + 4) + isstd + isut;
  }
};

std::optional<Header> read_header(Bytes& bytes) {
  Header header;
  if (bytes.take(4) != "TZif") return std::nullopt;
  const std::string_view version = bytes.take(16);
  for (std::size_t* count : {&header.isut, &header.isstd, &header.leap, &header.times, &header.types, &header.chars}) {
    const std::int64_t number = bytes.number(4);
    if (number < 0 || number > static_cast<std::int64_t>(most_zone_bytes)) return std::nullopt;
    *count = static_cast<std::size_t>(number);
  }
  if (!bytes.ok() || header.types == 0) return std::nullopt;
  header.version = version.front();
  return header;
}

std::optional<TimeZone> read_changes(Bytes& bytes, const Header& header) {
  std::vector<Change> changes(header.times);
  for (Change& change : changes)
    change.time = Time(Seconds(bytes.number(8)));
  std::vector<std::size_t> kinds(header.times);
  for (std::size_t& kind : kinds)
    kind = static_cast<std::size_t>(bytes.number(1)) & 0xffU;
  std::vector<Seconds> offsets(header.types);
  for (Seconds& offset : offsets) {
    offset = Seconds(bytes.number(4));
    (void)bytes.take(2);
    if (std::chrono::abs(offset) >= widest_offset) return std::nullopt;
  }
  (void)bytes.take(header.chars + header.isstd + header.isut);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (kinds[i] >= offsets.size() || (i > 0 && changes[i].time <= changes[i - 1].time)) return std::nullopt;
    changes[i].offset = offsets[kinds[i]];
  }
  if (!bytes.ok()) return std::nullopt;
  return TimeZone(offsets.front(), std::move(changes));
}

// What the rule at the end of a file says about the time behind the last change that is in it.
std::optional<TimeZone> with_rule(TimeZone zone, std::string_view rule) {
  const auto last = zone.last_change();
  const std::optional<TimeZone> future = zone_of_rule(rule, last ? year_of(*last) : 1970, last_year);
  if (!future) return std::nullopt;
  return zone.followed_by(*future);
}

}  // namespace

// --- The zone -------------------------------------------------------------------------------------------------------

std::vector<Change>::const_iterator TimeZone::after(Time time) const {
  return std::upper_bound(changes_.begin(), changes_.end(), time,
                          [](Time sought, const Change& change) { return sought < change.time; });
}

Seconds TimeZone::offset_at(Time time) const {
  const auto next = after(time);
  return next == changes_.begin() ? first_ : std::prev(next)->offset;
}

std::optional<Time> TimeZone::next_change(Time time) const {
  const auto next = after(time);
  if (next == changes_.end()) return std::nullopt;
  return next->time;
}

std::optional<Time> TimeZone::last_change() const {
  if (changes_.empty()) return std::nullopt;
  return changes_.back().time;
}

// Offset by offset: where the clocks have been put back, two of them would do, and the earlier one counts.
Time TimeZone::reaches(LocalTime local) const {
  const Time as_if_utc(local.time_since_epoch());
  Time time = as_if_utc - widest_offset;
  for (;;) {
    const Time reached = std::max(time, as_if_utc - offset_at(time));
    const std::optional<Time> change = next_change(time);
    if (!change || reached < *change) return reached;
    time = *change;
  }
}

TimeZone TimeZone::followed_by(const TimeZone& future) const {
  TimeZone both = *this;
  if (changes_.empty()) both.first_ = future.first_;
  const auto from = changes_.empty() ? future.changes_.begin() : future.after(changes_.back().time);
  both.changes_.insert(both.changes_.end(), from, future.changes_.end());
  return both;
}

// --- Its file -------------------------------------------------------------------------------------------------------

ReadZone read_zone(std::string_view text) {
  Bytes bytes(text);
  std::optional<Header> header = read_header(bytes);
  if (!header) return {{}, malformed};
  if (header->version < '2') return {{}, "it is of version 1, which ends in 2038"};
  (void)bytes.take(header->size_of_block(4));
  header = read_header(bytes);
  if (!header) return {{}, malformed};
  if (header->leap != 0) return {{}, "it counts leap seconds, which the system's clock does not"};
  std::optional<TimeZone> zone = read_changes(bytes, *header);
  const std::string_view footer = bytes.rest();
  const std::size_t end = footer.find('\n', 1);
  if (!zone || footer.empty() || footer.front() != '\n' || end == std::string_view::npos) return {{}, malformed};
  const std::string_view rule = footer.substr(1, end - 1);
  if (!rule.empty()) zone = with_rule(*std::move(zone), rule);
  if (!zone) return {{}, "its rule for the future is malformed"};
  return {std::move(zone), {}};
}

std::optional<std::string> zone_file(std::string_view name) {
  constexpr std::string_view allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-_/";
  if (name.empty() || name.size() > 200 || name.front() == '/' || name.back() == '/') return std::nullopt;
  if (name.find_first_not_of(allowed) != std::string_view::npos) return std::nullopt;
  const char* directory = ::secure_getenv("TZDIR");
  const bool set = directory != nullptr && *directory != '\0';
  return std::string(set ? directory : "/usr/share/zoneinfo").append("/").append(name);
}

ReadZone load_zone(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(most_zone_bytes, '\0');
  if (stream) stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream.is_open() || stream.bad() || stream.gcount() == 0)
    return {{}, "there is no such file, or it cannot be read"};
  if (!stream.eof()) return {{}, malformed};
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return read_zone(bytes);
}

}  // namespace zkrecipes::detail
