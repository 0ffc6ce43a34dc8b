// What is in the nodes of a periodic job: bytes written by hand, and what is refused.

#include "recipes/jobs/job_format.hpp"

#include <gtest/gtest.h>

#include <random>

namespace zkrecipes::detail {
namespace {

using namespace std::chrono_literals;

constexpr const char* record =
    R"({"firing":"2026-11-29T02:30:00.000Z","attempt":2,"outcome":"failed","runner":"host:17","token":4294967302,)"
    R"("started":"2026-11-29T02:30:00.004Z","duration_ms":1500,"error":"disk \"a\" full",)"
    R"("missed_from":"2026-11-28T02:30:00.000Z"})";

JobRun recorded_run() {
  JobRun run;
  run.firing = std::chrono::sys_days(std::chrono::year(2026) / 11 / 29) + 2h + 30min;
  run.attempt = 2;
  run.outcome = JobOutcome::failed;
  run.runner = "host:17";
  run.token.value = 4294967302;
  run.started = run.firing + 4ms;
  run.duration = 1500ms;
  run.error = "disk \"a\" full";
  run.missed_from = run.firing - std::chrono::days(1);
  return run;
}

TEST(JobFormat, BytesWrittenByHand) {
  EXPECT_EQ(encode(recorded_run()), record);
  EXPECT_EQ(decode_run(record), recorded_run());
  const std::string state = std::string(R"({"settled":"2026-11-28T02:30:00.000Z","running":)") + record + "}";
  const auto status = decode_status(state, {});
  ASSERT_TRUE(status);
  EXPECT_EQ(status->running, recorded_run());
  EXPECT_EQ(encode(*status), state);
  EXPECT_EQ(encode(JobStatus{status->settled, std::nullopt}), R"({"settled":"2026-11-28T02:30:00.000Z"})");
}

TEST(JobFormat, ByAnOperatorsHand) {
  EXPECT_EQ(decode_status("", JobTime(5s))->settled, JobTime(5s)) << "empty: when it was written counts";
  EXPECT_EQ(decode_status(" { \"settled\" : \"1970-01-01T00:00:07.000Z\", \"note\": 1 }\n", {})->settled, JobTime(7s));
}

TEST(JobFormat, RefusesWhatIsNotOurs) {
  const std::string whole(record);
  const auto with = [&](std::string_view what, std::string_view instead) {
    std::string text = whole;
    const std::size_t found = text.find(what);
    EXPECT_NE(found, std::string::npos) << what;
    return text.replace(found, what.size(), instead);
  };
  for (const std::string& text :
       {std::string("x"), std::string("[]"), std::string("{}"), std::string("7"), whole + "x",
        with("2026-11-29T02", "2026-11-29T24"), with("2026-11-29", "2026-02-30"), with("2", "3x"),
        with("\"attempt\":2", "\"attempt\":-1"), with("\"attempt\":2", "\"attempt\":2.5"),
        with("\"attempt\":2", "\"attempt\":99999999999"), with("\"attempt\":2", "\"attempt\":2147483647"),
        with("failed", "fine"), with("\"host:17\"", "17"), with("4294967302", "18446744073709551615"),
        with("1500", "\"1500\""), with("1500", "-1"), std::string(20'000, ' ') + whole, std::string(10'000, '[')}) {
    EXPECT_FALSE(decode_run(text)) << text.substr(0, 200);
    const std::string state = R"({"settled":"2026-11-28T02:30:00.000Z","running":)" + text + "}";
    EXPECT_FALSE(decode_status(state, {})) << text.substr(0, 200);
  }
  EXPECT_FALSE(decode_status("{}", {}));
  EXPECT_FALSE(decode_status(R"({"settled":7})", {}));
}

TEST(JobFormat, ErrorsOfAnyBytes) {
  JobRun run = recorded_run();
  run.error = std::string(5'000, '\xff') + "x";
  const std::string bytes = encode(run);
  const auto read = decode_run(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->error.size(), 3 * most_error_bytes) << "replacement characters of three bytes";
  run.error = std::string(3, '\0') + "\x01\n\"";
  EXPECT_EQ(decode_run(encode(run)), run);
  std::minstd_rand random(2);
  for (int i = 0; i < 1'000; ++i) {
    std::string damaged = bytes.substr(0, 300);
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)decode_run(damaged);
  }
}

TEST(JobFormat, TimesAndNames) {
  EXPECT_EQ(text_of(JobTime(0ms)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(time_of("9999-12-31T23:59:59.999Z"), last_job_time + 24h - 1ms);
  std::minstd_rand random(4);
  JobTime before{};
  for (int i = 0; i < 2'000; ++i) {
    const JobTime time(std::chrono::milliseconds(random() * 100'000LL + random() % 1'000));
    ASSERT_EQ(time_of(text_of(time)), time);
    ASSERT_EQ(text_of(before) < text_of(time), before < time) << "texts sort as times do";
    const RecordName name{time, static_cast<int>(random() % 1'000)};
    ASSERT_EQ(parse_record_name(record_name(name.firing, name.attempt)), name);
    before = time;
  }
  for (const char* name :
       {"", "x", "2026-11-29T02:30:00.000Z", "2026-11-29T02:30:00.000Z-", "2026-11-29T02:30:00.000Z-01",
        "2026-11-29T02:30:00.000Z--1", "2026-11-29T02:30:00.000Z-1x", "2026-11-29T02:30:00.000Z+1"})
    EXPECT_FALSE(parse_record_name(name)) << name;
}

TEST(JobFormat, Outcomes) {
  for (const JobOutcome outcome :
       {JobOutcome::running, JobOutcome::succeeded, JobOutcome::failed, JobOutcome::interrupted, JobOutcome::skipped}) {
    JobRun run;
    run.outcome = outcome;
    EXPECT_EQ(decode_run(encode(run)), run) << to_string(outcome);
  }
}

}  // namespace
}  // namespace zkrecipes::detail
