#include "recipes/jobs/job_format.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zkrecipes {

const char* to_string(JobOutcome outcome) noexcept {
  switch (outcome) {
    case JobOutcome::running: return "running";
    case JobOutcome::succeeded: return "succeeded";
    case JobOutcome::failed: return "failed";
    case JobOutcome::interrupted: return "interrupted";
    case JobOutcome::skipped: return "skipped";
  }
  return "unknown";
}

namespace detail {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array outcomes = {JobOutcome::running, JobOutcome::succeeded, JobOutcome::failed,
                                 JobOutcome::interrupted, JobOutcome::skipped};
constexpr std::size_t most_bytes = 16'384;
constexpr int most_attempts = std::numeric_limits<int>::max() - 1;  // There is a next one.

/// Found while reading. Never leaves this file.
struct Defect {};

std::int64_t number_at(const Json& object, const char* key, std::int64_t least, std::int64_t most) {
  const auto found = object.find(key);
  const bool is_number = found != object.end() && found->is_number_integer();
  if (!is_number) throw Defect{};
  const bool wide = found->is_number_unsigned() &&
                    found->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (wide || found->get<std::int64_t>() < least || found->get<std::int64_t>() > most) throw Defect{};
  return found->get<std::int64_t>();
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) throw Defect{};
  return found->get<std::string>();
}

JobTime time_at(const Json& object, const char* key) {
  const std::optional<JobTime> time = time_of(text_at(object, key));
  if (!time) throw Defect{};
  return *time;
}

JobOutcome outcome_of(const Json& object) {
  const std::string name = text_at(object, "outcome");
  for (const JobOutcome outcome : outcomes) {
    if (name == to_string(outcome)) return outcome;
  }
  throw Defect{};
}

JobRun run_of(const Json& object) {
  if (!object.is_object()) throw Defect{};
  JobRun run;
  run.firing = time_at(object, "firing");
  run.attempt = static_cast<int>(number_at(object, "attempt", 0, most_attempts));
  run.outcome = outcome_of(object);
  run.runner = text_at(object, "runner");
  run.token.value = number_at(object, "token", 0, std::numeric_limits<std::int64_t>::max());
  run.started = time_at(object, "started");
  if (object.contains("duration_ms")) {
    const std::int64_t longest = std::chrono::milliseconds(std::chrono::days(100'000)).count();
    run.duration = std::chrono::milliseconds(number_at(object, "duration_ms", 0, longest));
  }
  if (object.contains("error")) run.error = text_at(object, "error");
  if (object.contains("missed_from")) run.missed_from = time_at(object, "missed_from");
  return run;
}

JobStatus status_of(const Json& object) {
  if (!object.is_object()) throw Defect{};
  JobStatus status;
  status.settled = time_at(object, "settled");
  if (object.contains("running")) status.running = run_of(object["running"]);
  return status;
}

/// What `read` makes of the text; nullopt if it is defective.
template <typename Read>
auto decoded(std::string_view bytes, Read read) -> std::optional<decltype(read(Json()))> {
  if (bytes.size() > most_bytes) return std::nullopt;
  try {
    return read(Json::parse(bytes));
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Defect&) {
    return std::nullopt;
  }
}

Json json_of(const JobRun& run) {
  Json object = Json::object();
  object["firing"] = text_of(run.firing);
  object["attempt"] = run.attempt;
  object["outcome"] = to_string(run.outcome);
  object["runner"] = run.runner;
  object["token"] = run.token.value;
  object["started"] = text_of(run.started);
  if (run.duration) object["duration_ms"] = static_cast<std::int64_t>(run.duration->count());
  if (!run.error.empty()) object["error"] = run.error.substr(0, most_error_bytes);
  if (run.missed_from) object["missed_from"] = text_of(*run.missed_from);
  return object;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::optional<int> digits(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool all = error == std::errc() && rest == end;
  if (!all || value < 0 || text.front() == '-') return std::nullopt;
  return value;
}

}  // namespace

std::string text_of(JobTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss of_day(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), of_day.hours().count(),
                     of_day.minutes().count(), of_day.seconds().count(), of_day.subseconds().count());
}

std::optional<JobTime> time_of(std::string_view text) {
  constexpr std::string_view pattern = "dddd-dd-ddTdd:dd:dd.dddZ";
  if (text.size() != pattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool right = pattern[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == pattern[i];
    if (!right) return std::nullopt;
  }
  const auto part = [text](std::size_t begin, std::size_t size) { return *digits(text.substr(begin, size)); };
  const std::chrono::year_month_day date(std::chrono::year(part(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(part(8, 2))));
  if (!date.ok()) return std::nullopt;
  const JobTime time = std::chrono::sys_days(date) + std::chrono::hours(part(11, 2)) +
                       std::chrono::minutes(part(14, 2)) + std::chrono::seconds(part(17, 2)) +
                       std::chrono::milliseconds(part(20, 3));
  if (text_of(time) != text) return std::nullopt;  // 24:00, 00:60, ...
  return time;
}

std::string record_name(JobTime firing, int attempt) { return fmt::format("{}-{}", text_of(firing), attempt); }

std::optional<RecordName> parse_record_name(std::string_view name) {
  constexpr std::size_t time_size = 24;
  if (name.size() < time_size + 2 || name[time_size] != '-') return std::nullopt;
  const std::optional<JobTime> firing = time_of(name.substr(0, time_size));
  const std::optional<int> attempt = digits(name.substr(time_size + 1));
  if (!firing || !attempt || record_name(*firing, *attempt) != name) return std::nullopt;
  return RecordName{*firing, *attempt};
}

std::string encode(const JobStatus& status) {
  Json object = Json::object();
  object["settled"] = text_of(status.settled);
  if (status.running) object["running"] = json_of(*status.running);
  return dumped(object);
}

std::string encode(const JobRun& run) { return dumped(json_of(run)); }

std::optional<JobStatus> decode_status(std::string_view bytes, JobTime written) {
  if (bytes.empty()) return JobStatus{written, std::nullopt};
  return decoded(bytes, status_of);
}

std::optional<JobRun> decode_run(std::string_view bytes) { return decoded(bytes, run_of); }

}  // namespace detail
}  // namespace zkrecipes
