// Never two leaders: five processes, an ensemble of three servers, and everything that can happen to them. The
// processes are this same program, started with "--worker". For longer than half a minute: ZKRECIPES_SOAK=seconds;
// to repeat a run: ZKRECIPES_SEED.

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zktesting/ensemble.hpp>

#include "tests/support/cabled_process.hpp"
#include "tests/support/ensembles.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/testkit.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::boot_ns;
using testkit::eventually;
using testkit::SteadyClock;
using zkclient::Client;

constexpr auto session_timeout = 2000ms;
constexpr auto longest_gap = session_timeout + 30s;  // Processes and servers may be late by as much on a busy machine.

/// In a file that all the processes map, so that what a process wrote there survives its kill -9.
struct Term {
  std::atomic<std::int64_t> token;
  std::atomic<std::int64_t> pid;
  std::atomic<std::int64_t> began;       ///< After the first look that found the leadership valid; 0: none did.
  std::atomic<std::int64_t> last_valid;  ///< Before the last look that did.
};
struct Log {
  static constexpr std::size_t capacity = 100'000;
  std::atomic<std::size_t> used;
  std::array<Term, capacity> terms;
};

Log* map_log(int descriptor) {
  void* memory = ::mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for the log");
  return static_cast<Log*>(memory);
}

// --- The worker ---------------------------------------------------------------------------------------------------

/// Every other term outlives any fault, so that a leader who is cut off past its session has to find out by itself.
std::chrono::milliseconds length_of_a_term(int number, std::minstd_rand& random) {
  const std::chrono::milliseconds some(100 + random() % 1000);
  return number % 2 == 0 ? 3 * session_timeout + some : some;
}

/// Leads for `time`, or for as long as it is valid.
void lead(const Leadership& leadership, std::chrono::milliseconds time, Log& log, const std::stop_token& stop) {
  const std::size_t slot = log.used++;
  if (slot >= Log::capacity) return;
  Term& term = log.terms[slot];
  term.token = leadership.token().value;
  term.pid = ::getpid();
  const std::int64_t end = boot_ns() + time / 1ns;
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  for (;;) {
    const std::int64_t now = boot_ns();
    if (!leadership.valid()) return;
    if (term.began == 0) term.began = boot_ns();
    term.last_valid = now;  // Also when the time is up: maybe because this process was paused for long.
    if (now > end || stop.stop_requested()) return;
    never.wait_for(lock, 200us);
  }
}

template <typename AnyElection>
void campaign_until(const std::stop_token& stop, const std::string& kind, const std::string& hosts, Log& log,
                    unsigned seed) {
  std::minstd_rand random(seed);
  const Client client(hosts, {.session_timeout = session_timeout, .server_tick = testkit::server_tick});
  AnyElection election(client, zkclient::Path("/") / kind);
  for (int number = 0; !stop.stop_requested(); ++number) {
    try {
      const Leadership leadership = election.campaign({.stop = stop});
      lead(leadership, length_of_a_term(number, random), log, stop);
      election.resign();
    } catch (const zkclient::Error&) {
      // Of no interest here: the directory of what can go wrong has tests of its own.
    }
  }
}

int run_worker(const std::string& kind, const std::string& hosts, unsigned seed) {
  Log& log = *map_log(STDOUT_FILENO);
  std::stop_source stop;
  const std::jthread watcher([&] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    stop.request_stop();
  });
  if (kind == "fair") {
    campaign_until<LeaderElection>(stop.get_token(), kind, hosts, log, seed);
  } else {
    campaign_until<UnfairLeaderElection>(stop.get_token(), kind, hosts, log, seed);
  }
  return EXIT_SUCCESS;
}

/// Runs run_worker() in a process of its own.
class Worker : public testkit::CabledProcess {
 public:
  Worker(std::string kind, const zktesting::Ensemble& ensemble, int log, unsigned seed)
      : CabledProcess(ensemble, log), kind_(std::move(kind)) {
    start(seed);
  }
  void start(unsigned seed) { CabledProcess::start({"--worker", kind_, hosts(), std::to_string(seed)}); }

 private:
  const std::string kind_;
};

// --- The director -------------------------------------------------------------------------------------------------

enum class FaultKind { killed, paused, paused_for_a_moment, silent, unplugged, stranded, server };

class NeverTwoLeaders : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t crew_size = 5;

  static void SetUpTestSuite() {
    zktesting::EnsembleOptions options;
    options.sync_limit = 8;  // Twice the session timeout: so long an isolated follower goes on serving its clients.
    ensemble_ = new zktesting::Ensemble(options);
  }
  static void TearDownTestSuite() {
    delete ensemble_;
    ensemble_ = nullptr;
  }

  NeverTwoLeaders() : descriptor_(::memfd_create("leaders", MFD_CLOEXEC)) {
    if (::ftruncate(descriptor_, sizeof(Log)) != 0) throw std::runtime_error("no log");
    log_ = map_log(descriptor_);
    for (std::size_t i = 0; i < crew_size; ++i)
      crew_.push_back(std::make_unique<Worker>(GetParam(), *ensemble_, descriptor_, static_cast<unsigned>(random_())));
  }

 public:
  ~NeverTwoLeaders() override {
    crew_.clear();
    ::munmap(log_, sizeof(Log));
    ::close(descriptor_);
  }

 protected:
  /// Who became leader last; any worker while there was none.
  Worker& newest_leader() {
    const std::size_t used = log_->used;
    const std::int64_t pid = used != 0 ? log_->terms[used - 1].pid.load() : 0;
    for (const auto& worker : crew_) {
      if (worker->pid() == pid) return *worker;
    }
    return *crew_[random_() % crew_.size()];
  }
  bool somebody_leads_after(std::int64_t when) const {
    const std::size_t used = std::min(log_->used.load(), Log::capacity);
    return used != 0 && std::any_of(log_->terms.begin(), log_->terms.begin() + static_cast<std::ptrdiff_t>(used),
                                    [&](const Term& term) { return term.last_valid > when; });
  }

  void one_fault();
  void heal(bool all);
  void later(std::chrono::milliseconds delay, Worker* whom, std::function<void()> action) {
    repairs_.push_back({boot_ns() + delay / 1ns, whom, std::move(action)});
  }
  bool impaired(const Worker& worker) const {
    return std::any_of(repairs_.begin(), repairs_.end(), [&](const Repair& repair) { return repair.whom == &worker; });
  }
  void isolate(std::size_t server, std::chrono::milliseconds time);
  void break_a_server();
  void wait_for_quorum();
  void strand(Worker& victim, std::chrono::milliseconds time);
  FaultKind next_fault();
  void report();

  struct Repair {
    std::int64_t due;
    Worker* whom;  // Null: a server.
    std::function<void()> action;
  };
  static unsigned choose_seed() {
    const char* given = std::getenv("ZKRECIPES_SEED");
    return given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  }

  static inline zktesting::Ensemble* ensemble_ = nullptr;
  const unsigned seed_ = choose_seed();
  std::minstd_rand random_{seed_};
  int descriptor_;
  Log* log_ = nullptr;
  std::vector<std::unique_ptr<Worker>> crew_;
  std::vector<Repair> repairs_;
  std::optional<std::size_t> killed_;  // The server that is to stay so for now.
  std::vector<FaultKind> deck_;
  std::vector<std::int64_t> faults_;  // When.
  std::map<std::string, int> kinds_;
  std::vector<std::pair<std::int64_t, std::int64_t>> outages_;
  testkit::Stalls stalls_;
};

void NeverTwoLeaders::isolate(std::size_t server, std::chrono::milliseconds time) {
  constexpr std::array modes{zktesting::Isolation::freeze, zktesting::Isolation::deaf, zktesting::Isolation::mute};
  ensemble_->isolate(server, modes[random_() % modes.size()]);
  later(time, nullptr, [server] { ensemble_->heal(server); });
}

void NeverTwoLeaders::break_a_server() {
  const std::size_t server = random_() % 3 != 0 ? ensemble_->leader().value_or(0) : random_() % ensemble_->size();
  const std::int64_t begin = boot_ns();
  if (random_() % 2 == 0) {
    ++kinds_["server killed"];
    ensemble_->kill(server);
    killed_ = server;
    later(1500ms, nullptr, [this, server] {
      ensemble_->restart(server);
      killed_.reset();
    });
  } else {
    ++kinds_["server isolated"];
    isolate(server, 3000ms);
  }
  wait_for_quorum();
  outages_.emplace_back(begin, boot_ns());
}

void NeverTwoLeaders::wait_for_quorum() {
  const auto end = SteadyClock::now() + testkit::patience;
  for (;;) {
    testkit::restart_who_has_died(*ensemble_, killed_);
    try {
      return ensemble_->wait_for_quorum(10s);
    } catch (const zktesting::Error&) {
      if (SteadyClock::now() > end) throw;
    }
  }
}

// With a server that is isolated, goes on answering what needs no quorum, and cannot be left for another one.
void NeverTwoLeaders::strand(Worker& victim, std::chrono::milliseconds time) {
  const std::optional<std::size_t> server = victim.server();
  if (!server) return;
  ++kinds_["stranded with its server"];
  const std::int64_t begin = boot_ns();
  victim.unplug(server);
  later(time, &victim, [&victim] { victim.mend(); });
  isolate(*server, time);
  wait_for_quorum();
  outages_.emplace_back(begin, boot_ns());
}

// Each kind once, in random order, before any comes again; first of all the one of which only its clock tells a leader.
FaultKind NeverTwoLeaders::next_fault() {
  using enum FaultKind;
  if (deck_.empty()) {
    deck_ = {killed, paused, paused_for_a_moment, server, unplugged, silent, stranded};
    std::shuffle(deck_.begin(), deck_.end(), random_);
    if (faults_.empty()) std::iter_swap(std::find(deck_.begin(), deck_.end(), silent), deck_.end() - 1);
  }
  const FaultKind kind = deck_.back();
  deck_.pop_back();
  return kind;
}

void NeverTwoLeaders::one_fault() {
  const bool first = faults_.empty();
  Worker& victim = first || random_() % 4 != 0 ? newest_leader() : *crew_[random_() % crew_.size()];
  if (impaired(victim) || repairs_.size() > 1) return;
  const auto past_session = session_timeout + std::chrono::milliseconds(600 + random_() % 1000);
  const bool broken =
      std::any_of(repairs_.begin(), repairs_.end(), [](const auto& any) { return any.whom == nullptr; });
  switch (next_fault()) {
    case FaultKind::killed:
      ++kinds_["process killed"];
      victim.kill();
      victim.start(static_cast<unsigned>(random_()));
      break;
    case FaultKind::paused:
      ++kinds_["process paused past its session"];
      victim.pause();
      later(past_session, &victim, [&victim] { victim.resume(); });
      break;
    case FaultKind::paused_for_a_moment:
      ++kinds_["process paused for a moment"];
      victim.pause();
      later(std::chrono::milliseconds(random_() % 800), &victim, [&victim] { victim.resume(); });
      break;
    case FaultKind::silent:
      ++kinds_["cables silent"];
      victim.stall(zktesting::Direction::both);
      later(past_session, &victim, [&victim] { victim.mend(); });
      break;
    case FaultKind::unplugged:
      ++kinds_["cables unplugged"];
      victim.unplug();
      later(past_session, &victim, [&victim] { victim.mend(); });
      break;
    case FaultKind::stranded:
      if (!broken) strand(victim, past_session);
      break;
    case FaultKind::server:
      if (!broken) break_a_server();
      break;
  }
  faults_.push_back(boot_ns());
}

// Whatever is due.
void NeverTwoLeaders::heal(bool all) {
  for (std::size_t i = 0; i < repairs_.size();) {
    if (!all && repairs_[i].due > boot_ns()) {
      ++i;
      continue;
    }
    const auto action = std::move(repairs_[i].action);
    const bool of_a_server = repairs_[i].whom == nullptr;
    repairs_.erase(repairs_.begin() + static_cast<std::ptrdiff_t>(i));
    const std::int64_t begin = boot_ns();
    action();
    if (!of_a_server) continue;
    wait_for_quorum();
    outages_.emplace_back(begin, boot_ns());
  }
}

// No two who believed at once, and no long time without anybody.
void NeverTwoLeaders::report() {
  struct Interval {
    std::int64_t token, began, last_valid;
  };
  std::vector<Interval> terms;
  const std::size_t used = std::min(log_->used.load(), Log::capacity);
  for (std::size_t i = 0; i < used; ++i) {
    const Term& term = log_->terms[i];
    if (term.began != 0 && term.last_valid != 0) terms.push_back({term.token, term.began, term.last_valid});
  }
  std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  std::int64_t longest = 0;
  std::int64_t valid_until_now = 0;
  for (std::size_t i = 0; i + 1 < terms.size(); ++i) {
    const Interval& next = terms[i + 1];
    valid_until_now = std::max(valid_until_now, terms[i].last_valid);
    EXPECT_LT(terms[i].token, next.token) << "two terms with one number";
    EXPECT_LE(valid_until_now, next.began)
        << "term " << next.token << " began while an earlier leader was still valid, for another "
        << (valid_until_now - next.began) / 1000 << " us";
    std::int64_t from = valid_until_now;
    for (const std::int64_t fault : faults_) {
      if (fault > from && fault < next.began) from = fault;
    }
    for (const auto& [begin, end] : outages_) {
      if (begin < next.began && end > from) from = std::min(end, next.began);
    }
    const std::int64_t gap = next.began - from;
    longest = std::max(longest, gap);
    EXPECT_LE(gap, longest_gap / 1ns + stalls_.during(from, next.began))
        << "nobody led after the last fault for " << gap / 1'000'000 << " ms";
  }
  std::cout << terms.size() << " terms, longest time without a leader " << longest / 1'000'000 << " ms\n";
  for (const auto& [kind, count] : kinds_)
    std::cout << "  " << count << " x " << kind << "\n";
  EXPECT_GE(terms.size(), 2u) << "nobody took over";
}

TEST_P(NeverTwoLeaders, WhateverHappens) {
  std::cout << "seed " << seed_ << " (ZKRECIPES_SEED)\n";
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const auto time = soak != nullptr ? std::chrono::seconds(std::stol(soak)) : 8s;
  ASSERT_TRUE(eventually([&] { return somebody_leads_after(0); }));
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const auto end = SteadyClock::now() + time;
  while (SteadyClock::now() < end) {
    never.wait_for(lock, std::chrono::milliseconds(100 + random_() % 700));
    heal(false);
    one_fault();
  }
  heal(true);
  const std::int64_t healed = boot_ns();
  faults_.push_back(healed);
  EXPECT_TRUE(eventually([&] { return somebody_leads_after(healed); }));
  for (const auto& worker : crew_)
    EXPECT_EQ(worker->finish(), EXIT_SUCCESS);
  report();
}

INSTANTIATE_TEST_SUITE_P(Elections, NeverTwoLeaders, testing::Values("fair", "unfair"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  if (argc > 4 && std::string_view(argv[1]) == "--worker") {
    return zkrecipes::run_worker(argv[2], argv[3], static_cast<unsigned>(std::stoul(argv[4])));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
