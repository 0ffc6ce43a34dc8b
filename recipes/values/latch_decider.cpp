#include "recipes/values/latch_decider.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include <zkclient/types.hpp>

namespace zkrecipes::detail {
namespace {

using zkclient::any_version;
using zkclient::Errc;

constexpr std::int32_t version_before_any = any_version - 1;

LatchAnswer refuse_count(Errc error, std::string why) {
  LatchAnswer answer;
  answer.error = error;
  answer.why = std::move(why);
  return answer;
}

/// Takes "name=number" off the front of `text`.
bool take_field(std::string_view& text, std::string_view name, std::int64_t& value) noexcept {
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool is_before(const LatchRecord& record, const LatchUse& use) noexcept { return record.generation < use.generation; }

/// Why the use cannot begin.
std::string describe_wait(const LatchRecord& record, const LatchUse& use) {
  std::string now = "no generation has begun";
  if (record.left > 0) {
    now = fmt::format("generation {} is not open, and {} are left of it", record.generation, record.left);
  } else if (record.generation > 0) {
    now = fmt::format("generation {} is open, and the next one has not begun", record.generation);
  }
  return fmt::format("{}: generation {} begins when generation {} is open", now, use.generation, use.generation - 1);
}

/// The first count of a use begins it; that of one that is over changes nothing. None is left out: its waiters would
/// find a later one, and pass.
LatchAnswer count_down(LatchRecord& record, std::int64_t by, const LatchUse& use) {
  LatchAnswer found = look_at_latch(record, use);
  if (found.error || record.generation > use.generation) return found;
  const bool is_next = record.left == 0 && record.generation == use.generation - 1;
  if (is_before(record, use) && !is_next) return refuse_count(Errc::not_available, describe_wait(record, use));
  found.left = by < found.left ? found.left - by : 0;
  record = LatchRecord{use.generation, use.count, found.left};
  return found;
}

ValueWrite write_of_latch(const LatchView& view, bool changed) noexcept {
  if (!changed) return view.exists ? ValueWrite::check : ValueWrite::check_absent;
  if (!view.exists) return ValueWrite::create;
  return view.version == version_before_any ? ValueWrite::set_twice : ValueWrite::set;
}

}  // namespace

std::string encode_latch(const LatchRecord& record) {
  return fmt::format("generation={} count={} left={}", record.generation, record.count, record.left);
}

std::optional<LatchRecord> decode_latch(std::string_view data) noexcept {
  LatchRecord record;
  if (data.empty()) return record;
  const bool read = take_field(data, "generation=", record.generation) && take_field(data, " count=", record.count) &&
                    take_field(data, " left=", record.left) && data.empty();
  const bool possible = record.generation > 0 && record.count > 0 && record.left >= 0 && record.left <= record.count;
  if (!read || !possible) return std::nullopt;
  return record;
}

LatchAnswer look_at_latch(const std::optional<LatchRecord>& record, const LatchUse& use) {
  if (!record) return refuse_count(Errc::foreign_node, "the data of the node is no latch");
  LatchAnswer found;
  if (record->generation > use.generation) return found;  // It began when this one was open.
  found.left = is_before(*record, use) ? use.count : record->left;
  if (record->generation == use.generation && record->count != use.count) {
    return refuse_count(Errc::invalid_argument, fmt::format("this generation was begun with a count of {}, not of {}",
                                                            record->count, use.count));
  }
  return found;
}

LatchStep decide_latch(const LatchView& view, const std::vector<std::int64_t>& counts, const LatchUse& use) {
  LatchStep step;
  if (view.exists && view.version == any_version) {
    const LatchAnswer refused = refuse_count(Errc::bad_version, "the version of the node is -1, which means any");
    step.answers.assign(counts.size(), refused);
    return step;
  }
  if (!view.record) {
    step.answers.assign(counts.size(), look_at_latch(view.record, use));
  } else {
    step.record = *view.record;
    for (const std::int64_t by : counts)
      step.answers.push_back(count_down(step.record, by, use));
  }
  step.write = write_of_latch(view, view.record && step.record != *view.record);
  return step;
}

}  // namespace zkrecipes::detail
