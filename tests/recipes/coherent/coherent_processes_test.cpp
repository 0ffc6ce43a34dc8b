// Readers that are stopped and killed, and writers that are killed, whatever they are at. The workers are this same
// program, started with "--worker".

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/coherent_cache.hpp>

#include "storm/checkers/linearizable.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/self_process.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using storm::Operation;
using testkit::SelfProcess;

constexpr auto worker_term = 800ms;

// CLOCK_MONOTONIC is one and the same for all processes.
std::int64_t nanoseconds_now() { return SteadyClock::now().time_since_epoch() / 1ns; }

/// Nothing if that does not work.
std::optional<std::int64_t> value_of(CoherentCache& cache, const CallOptions& call) {
  try {
    const CoherentItemPtr item = cache.get("a", call);
    return item->exists ? std::stoll(item->data) : Operation::absent;
  } catch (const zkclient::Error&) {
    return std::nullopt;
  }
}

// --- The worker -----------------------------------------------------------------------------------------------------

template <typename... Words>
void report(const Words&... words) {
  std::ostringstream line;
  ((line << words << ' '), ...);
  line << '\n';
  const std::string text = line.str();
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
}

/// Until it is killed.
int run_worker(std::string_view kind, const std::string& hosts, std::int64_t first_value) {
  const bool reads = kind == "reader";
  const Client client(hosts, {.session_timeout = reads ? 60s : 2s});
  CoherentCache cache(client, "/coherent", {.lease_term = reads ? worker_term : 0ms});
  if (reads) client.create("/alive", "", {.mode = CreateMode::ephemeral}, patient());
  report("pid", ::getpid());
  for (std::int64_t value = first_value;; ++value) {
    const std::int64_t begin = nanoseconds_now();
    if (reads) {
      const auto found = value_of(cache, {.deadline = SteadyClock::now() + 500ms});
      if (found) report("read", begin, nanoseconds_now(), *found);
      std::this_thread::sleep_for(1ms);  // The pace of the reader: a part of the experiment.
    } else {
      report("begin", begin, value);
      try {
        cache.put("a", std::to_string(value), {.deadline = soon()});
        report("end", nanoseconds_now(), value);
      } catch (const zkclient::Error& error) {
        // A session as short as this may end on a busy machine. Then the write has no end: it may have been applied, or not.
        if (error.errc() != Errc::in_doubt) throw;
      }
    }
  }
}

// --- The tests ------------------------------------------------------------------------------------------------------

class CoherentProcesses : public testkit::RecipeFaultTest {
 protected:
  CoherentProcesses() : RecipeFaultTest("/coherent") { the_operator().set("/coherent", "coherent 1 shards=1"); }

  std::vector<std::string> arguments(const char* kind, std::int64_t first_value = 0) {
    return {"--worker", kind, server.connect_string(), std::to_string(first_value)};
  }
  void hear(const std::vector<std::string>& words) {
    const std::lock_guard lock(mutex_);
    if (words.size() == 2 && words[0] == "pid") pid_ = std::stoi(words[1]);
    if (words.size() == 4 && words[0] == "read") {
      add(Operation::read, std::stoll(words[1]), std::stoll(words[2]), std::stoll(words[3]));
    }
    if (words.size() == 3 && words[0] == "begin") begun_[std::stoll(words[2])] = std::stoll(words[1]);
    if (words.size() == 3 && words[0] == "end") {
      const std::int64_t value = std::stoll(words[2]);
      add(Operation::write, begun_.at(value), std::stoll(words[1]), value);
      begun_.erase(value);
    }
  }
  std::unique_ptr<SelfProcess> start(std::vector<std::string> arguments) {
    pid_ = 0;
    auto process = std::make_unique<SelfProcess>(std::move(arguments), [this](const auto& words) { hear(words); });
    EXPECT_TRUE(eventually([&] { return pid_ != 0; }));
    return process;
  }
  void record(Operation::Kind kind, std::int64_t begin, std::int64_t end, std::int64_t value) {
    const std::lock_guard lock(mutex_);
    add(kind, begin, end, value);
  }
  void write(CoherentCache& cache, std::int64_t value) {
    const std::int64_t begin = nanoseconds_now();
    cache.put("a", std::to_string(value), {.deadline = soon()});
    record(Operation::write, begin, nanoseconds_now(), value);
  }
  std::size_t reads_of(std::int64_t value) {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const Operation& one : history_)
      count += one.kind == Operation::read && one.value == value ? 1 : 0;
    return count;
  }
  std::size_t writes() {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const Operation& one : history_)
      count += one.kind == Operation::write ? 1 : 0;
    return count;
  }
  /// Those whose end was not heard of may have been applied.
  void expect_linearizable() {
    const std::lock_guard lock(mutex_);
    for (const auto& [value, begin] : begun_)
      add(Operation::write, begin, Operation::never, value);
    const storm::LinearizabilityVerdict verdict = storm::judge_operations(history_);
    EXPECT_EQ(verdict.answer, storm::LinearizabilityVerdict::linearizable)
        << "no order of " << history_.size() << " operations explains the " << to_string(verdict.culprit);
  }
  std::atomic<pid_t> pid_{0};

 private:
  void add(Operation::Kind kind, std::int64_t begin, std::int64_t end, std::int64_t value) {
    Operation operation;
    operation.kind = kind;
    operation.begin = begin;
    operation.end = end;
    operation.value = value;
    history_.push_back(operation);
  }

  std::mutex mutex_;
  std::vector<Operation> history_;
  std::map<std::int64_t, std::int64_t> begun_;  // Writes that have not ended: when, by value.
};

// A process that cannot notice anything. Its first read afterwards finds out.
TEST_F(CoherentProcesses, V73AReaderThatIsStoppedOrKilledDelaysAWriteByItsTermAtMost) {
  CoherentCache writer(the_operator(), "/coherent");
  write(writer, 1);
  auto reader = start(arguments("reader"));
  ASSERT_TRUE(eventually([&] { return reads_of(1) > 50; }));
  std::int64_t value = 2;
  // Longer, if the reader had no lease when it was stopped.
  for (; value < 6 || (writer.statistics().closings < 4 && value < 60); ++value) {
    ::kill(pid_, SIGSTOP);
    write(writer, value);
    EXPECT_TRUE(the_operator().exists("/alive")) << "the write has not waited for the end of its session";
    ::kill(pid_, SIGCONT);
    ASSERT_TRUE(eventually([&] { return reads_of(value) > 50; }));
  }
  reader.reset();  // Killed: its session lives on for a minute.
  write(writer, value);
  EXPECT_TRUE(the_operator().exists("/alive")) << "the write has not waited for the end of its session";
  EXPECT_EQ(names("/coherent/holders/0").size(), 0U);
  EXPECT_GE(writer.statistics().closings, 4U);
  expect_linearizable();
}

TEST_F(CoherentProcesses, V75WritersThatAreKilledWhateverTheyAreAt) {
  std::atomic<bool> ended{false};
  const Client client = calm_direct();
  CoherentCache near(the_operator(), "/coherent", {.lease_term = worker_term});
  CoherentCache far(client, "/coherent", {.lease_term = worker_term});
  std::vector<std::future<void>> reading;
  for (CoherentCache* cache : {&near, &far}) {
    reading.push_back(in_thread([&, cache] {
      while (!ended) {
        const std::int64_t begin = nanoseconds_now();
        const auto found = value_of(*cache, {.deadline = SteadyClock::now() + 500ms});
        if (found) record(Operation::read, begin, nanoseconds_now(), *found);
        std::this_thread::sleep_for(500us);  // The pace of the reader: a part of the experiment.
      }
    }));
  }
  std::mt19937 random(std::random_device{}());
  for (std::int64_t life = 1; life <= 8; ++life) {
    const std::size_t before = writes();
    auto writer = start(arguments("writer", life * 1'000'000));
    EXPECT_TRUE(eventually([&] { return writes() >= before + 10; }, testkit::patience));
    testkit::let_age(std::chrono::milliseconds(random() % 20));
    writer.reset();
  }
  CoherentCache last(the_operator(), "/coherent");
  write(last, 1);
  EXPECT_TRUE(eventually([&] { return reads_of(1) > 10; }));
  EXPECT_TRUE(eventually([&] { return near.statistics().hits + far.statistics().hits > 20; }));
  ended = true;
  for (auto& one : reading)
    result_of(one);
  expect_linearizable();
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  if (argc > 4 && std::string_view(argv[1]) == "--worker") {
    return zkrecipes::run_worker(argv[2], argv[3], std::stoll(argv[4]));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
