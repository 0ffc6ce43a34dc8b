#include "recipes/configuration/configuration_format.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace zkrecipes::detail {
namespace {

constexpr std::string_view record_mark = "configuration 1";
constexpr std::string_view file_mark = "zkrecipes configuration file 1\n";
constexpr std::string_view report_mark = "configuration report 1";
constexpr std::string_view history_prefix = "r-";
constexpr std::size_t history_digits = 19;  // As many as the largest revision has.
constexpr std::size_t checksum_digits = 16;
constexpr std::size_t longest_reason = 500;  // In bytes. A report is for people, and must always fit.

template <typename Number>
std::optional<Number> number(std::string_view text, int base = 10) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// A program that shows it counts the nanoseconds of its system clock. What has no place there is none.
std::int64_t clock_time(std::int64_t ms) {
  using Clock = std::chrono::system_clock;
  const auto ms_of = [](Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  };
  return ms >= ms_of(Clock::time_point::min()) && ms <= ms_of(Clock::time_point::max()) ? ms : 0;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

/// Takes the line up to the next newline off.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Values may be of any bytes, so they are written behind their size: "5:value\n".
void put(std::string& out, std::string_view text) {
  fmt::format_to(std::back_inserter(out), "{}:{}\n", text.size(), text);
}

std::optional<std::string_view> take(std::string_view& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto size = number<std::size_t>(text.substr(0, colon));
  const std::size_t rest = text.size() - colon - 1;
  if (!size || *size >= rest || text[colon + 1 + *size] != '\n') return std::nullopt;
  const std::string_view taken = text.substr(colon + 1, *size);
  text.remove_prefix(colon + 1 + *size + 1);
  return taken;
}

bool take_mark(std::string_view& text, std::string_view mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  return true;
}

std::uint64_t checksum_of_text(std::string_view text) {
  ConfigurationChecksum sum;
  sum.add(text, {});
  return sum.value();
}

ConfigurationRecord record_of(const ConfigurationValues& values) {
  ConfigurationRecord record;
  record.revision = values.revision;
  record.checksum = checksum_of(values.values);
  record.time_ms = values.published.time_since_epoch().count();
  record.writer = "-";
  record.publisher = values.publisher;
  record.note = values.note;
  return record;
}

}  // namespace

std::string encode(const ConfigurationRecord& record) {
  std::string text =
      fmt::format("{}\nrevision {}\nchecksum {:016x}\ntime {}\nwriter {}\nby {}\n", record_mark, record.revision,
                  record.checksum, record.time_ms, record.writer, one_line(record.publisher));
  if (!record.note.empty()) text += fmt::format("note {}\n", one_line(record.note));
  return text;
}

std::optional<ConfigurationRecord> decode_record(std::string_view text) {
  if (text.empty()) return ConfigurationRecord();
  if (take_line(text) != record_mark) return std::nullopt;
  ConfigurationRecord record;
  bool summed = false;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, space);
    const std::string_view value = line.substr(space + 1);
    if (name == "revision") {
      record.revision = number<std::int64_t>(value).value_or(0);
    } else if (name == "checksum") {
      const auto sum = number<std::uint64_t>(value, 16);
      summed = value.size() == checksum_digits && sum.has_value();
      record.checksum = sum.value_or(0);
    } else if (name == "time") {
      record.time_ms = clock_time(number<std::int64_t>(value).value_or(0));
    } else if (name == "writer") {
      record.writer = value;
    } else if (name == "by") {
      record.publisher = value;
    } else if (name == "note") {
      record.note = value;
    }
  }
  const bool counted = record.revision >= 1 && record.revision <= last_revision;
  if (!counted || !summed || record.writer.empty()) return std::nullopt;
  return record;
}

// FNV-1a.
void ConfigurationChecksum::add(std::string_view text) noexcept {
  const auto byte = [this](unsigned char next) { state_ = (state_ ^ next) * 0x100000001b3U; };
  for (std::size_t i = 0, size = text.size(); i < sizeof(size); ++i, size >>= 8U)
    byte(static_cast<unsigned char>(size));
  for (const char c : text)
    byte(static_cast<unsigned char>(c));
}

void ConfigurationChecksum::add(std::string_view key, std::string_view value) noexcept {
  add(key);
  add(value);
}

std::uint64_t checksum_of(const ConfigurationValues::Map& values) noexcept {
  ConfigurationChecksum sum;
  for (const auto& [key, value] : values)
    sum.add(key, value.text);
  return sum.value();
}

std::string encode(const ConfigurationUndo& undo) {
  std::string text;
  put(text, undo.record.revision == 0 ? std::string() : encode(undo.record));
  for (const auto& [key, value] : undo.replaced) {
    put(text, key);
    put(text, value ? "+" + *value : "-");
  }
  return text;
}

std::optional<ConfigurationUndo> decode_undo(std::string_view text) {
  const auto head = take(text);
  if (!head) return std::nullopt;
  const auto record = decode_record(*head);
  if (!record) return std::nullopt;
  ConfigurationUndo undo{*record, {}};
  while (!text.empty()) {
    const auto key = take(text);
    const auto value = key ? take(text) : std::nullopt;
    if (!value || (*value != "-" && !value->starts_with('+'))) return std::nullopt;
    auto& replaced = undo.replaced[std::string(*key)];
    if (value->starts_with('+')) replaced = value->substr(1);
  }
  return undo;
}

std::string history_name(std::int64_t revision) {
  return fmt::format("{}{:0{}}", history_prefix, revision, history_digits);
}

std::optional<std::int64_t> revision_of_history(std::string_view name) {
  if (!name.starts_with(history_prefix)) return std::nullopt;
  const auto revision = number<std::int64_t>(name.substr(history_prefix.size()));
  return revision && *revision >= 0 ? revision : std::nullopt;
}

std::string encode(const ConfigurationReport& report, std::int64_t epoch) {
  std::string text = fmt::format("{}\n", report_mark);
  if (epoch != 0) text += fmt::format("of {}\n", epoch);
  if (report.applied) text += fmt::format("applied {}\n", *report.applied);
  if (report.refused) text += fmt::format("refused {}\n", *report.refused);
  if (!report.why.empty()) text += fmt::format("why {}\n", one_line(report.why.substr(0, longest_reason)));
  return text;
}

std::optional<ConfigurationReport> decode_report(std::string_view id, std::string_view text) {
  if (take_line(text) != report_mark) return std::nullopt;
  ConfigurationReport report;
  report.id = id;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view name = line.substr(0, space);
    const std::string_view value = line.substr(std::min(space + 1, line.size()));
    if (name == "applied") {
      report.applied = number<std::int64_t>(value);
    } else if (name == "refused") {
      report.refused = number<std::int64_t>(value);
    } else if (name == "why") {
      report.why = value;
    }
  }
  return report;
}

std::int64_t epoch_of_report(std::string_view text) {
  constexpr std::string_view mark = "of ";
  (void)take_line(text);
  const std::string_view line = take_line(text);
  return line.starts_with(mark) ? number<std::int64_t>(line.substr(mark.size())).value_or(0) : 0;
}

std::string encode_file(std::string_view path, const ConfigurationValues& values) {
  std::string text(file_mark);
  put(text, path);
  put(text, values.revision == 0 ? std::string() : encode(record_of(values)));
  for (const auto& [key, value] : values.values) {
    put(text, key);
    put(text, value.text);
  }
  return fmt::format("{:016x}\n", checksum_of_text(text)) + text;
}

std::optional<ConfigurationValues> decode_file(std::string_view path, std::string_view text) {
  const auto sum = number<std::uint64_t>(take_line(text), 16);
  if (!sum || *sum != checksum_of_text(text) || !take_mark(text, file_mark)) return std::nullopt;
  if (take(text) != path) return std::nullopt;
  const auto head = take(text);
  const auto record = head ? decode_record(*head) : std::nullopt;
  if (!record) return std::nullopt;
  ConfigurationValues values;
  values.revision = record->revision;
  values.publisher = record->publisher;
  values.note = record->note;
  values.published = decltype(values.published)(std::chrono::milliseconds(record->time_ms));
  while (!text.empty()) {
    const auto key = take(text);
    const auto value = key ? take(text) : std::nullopt;
    if (!value) return std::nullopt;
    values.values[std::string(*key)].text = *value;
  }
  return values;
}

const char* key_defect(std::string_view key) noexcept {
  if (key.empty()) return "the key is empty";
  if (key.front() == '-' || key.find("/-") != std::string_view::npos) {
    return "a component of the key begins with '-', as the recipe's own nodes do";
  }
  return nullptr;
}

}  // namespace zkrecipes::detail
