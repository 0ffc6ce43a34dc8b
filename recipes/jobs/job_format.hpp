#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <zkrecipes/periodic_job.hpp>

/// What is in the nodes of a periodic job. Pure.
namespace zkrecipes::detail {

/// The last time that a name can have.
inline constexpr JobTime last_job_time{std::chrono::sys_days(std::chrono::year(9999) / 12 / 31)};
inline constexpr std::size_t most_error_bytes = 1'000;
inline constexpr std::size_t most_id_bytes = 200;

/// "2026-11-29T02:30:00.000Z": such texts sort as the times do.
std::string text_of(JobTime time);
std::optional<JobTime> time_of(std::string_view text);

/// Of a node of the history.
std::string record_name(JobTime firing, int attempt);
struct RecordName {
  JobTime firing = {};
  int attempt = 0;
  auto operator<=>(const RecordName&) const = default;
};
std::optional<RecordName> parse_record_name(std::string_view name);

/// Text that is not UTF-8 is written with replacement characters, and an error is cut to most_error_bytes.
std::string encode(const JobStatus& status);
std::string encode(const JobRun& run);

/// nullopt: malformed, or of another. `written`: when the node was, which counts if it is empty.
std::optional<JobStatus> decode_status(std::string_view bytes, JobTime written);
std::optional<JobRun> decode_run(std::string_view bytes);

}  // namespace zkrecipes::detail
