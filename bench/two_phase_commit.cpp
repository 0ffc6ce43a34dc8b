// Two-phase commit: how long a transaction takes, how many there are in a second, and how many requests each makes to
// ZooKeeper, beside the fewest with which the protocol can be run. See README.md.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "folder.hpp"
#include "kept_log.hpp"
#include "statistics.hpp"

namespace {

using namespace std::chrono_literals;
using zkrecipes::CommitOptions;
using zkrecipes::CommitOutcome;
using zkrecipes::CommitVariant;
using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    R"(two_phase_commit: latency, rate and requests of transactions with 2, 8 and 32 participants, in both variants

  --transactions N  measured one by one, for each row (300)
  --seconds S       of 64 transactions at once, for each row (3)
  --json FILE       write the result there as well
  --quick           a run of a few seconds whose figures mean nothing: does it work?
  --help

Starts a ZooKeeper server of its own, without fsync. All participants are in this process, each with a session and a log
of its own, which is written with fsync, into $TMPDIR or /tmp.
The exit status says whether the run was complete, not whether a target was reached.
)";

struct Options {
  int transactions = 300;
  std::chrono::milliseconds slice = 3s;
  std::vector<int> participants{2, 8, 32};
  std::string json_file;
  bool help = false;
};

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& option = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (++i == arguments.size()) throw std::invalid_argument(option + " wants a value");
      return arguments[i];
    };
    const auto number = [&] {
      const int parsed = std::stoi(value());
      if (parsed < 1 || parsed > 1'000'000) throw std::invalid_argument(option + " wants a positive number");
      return parsed;
    };
    if (option == "--help") {
      options.help = true;
    } else if (option == "--quick") {
      options.transactions = 5;
      options.slice = 50ms;
      options.participants = {2};
    } else if (option == "--transactions") {
      options.transactions = number();
    } else if (option == "--seconds") {
      options.slice = std::chrono::seconds(number());
    } else if (option == "--json") {
      options.json_file = value();
    } else {
      throw std::invalid_argument("unknown option " + option);
    }
  }
  return options;
}

/// The fewest requests of one transaction, if everything comes in the best order. Of each participant: read the inbox,
/// read the transaction, have the decision watched, vote, read the decision, acknowledge; all to all: look at the
/// votes. Of the coordinator: begin, have the decision watched, learn that the votes are there (all to all: read the
/// decision), learn that the acknowledgements are there, remove. And one of any process: decide.
int fewest_requests(CommitVariant variant, int participants) {
  return (variant == CommitVariant::mediated ? 6 : 7) * participants + 6;
}

/// Participants that agree to everything, until the end of this object.
class Crowd {
 public:
  Crowd(zkclient::Runtime& runtime, const std::string& server, const bench::Folder& folder, int count) {
    for (int i = 0; i < count; ++i) {
      names_.push_back(fmt::format("participant-{}", i));
      clients_.emplace_back(runtime, server);
      participants_.push_back(std::make_unique<zkrecipes::CommitParticipant>(
          clients_.back(), "/bench", names_.back(),
          std::make_shared<zkrecipes::FileLog>(folder.path() / fmt::format("{}-{}.log", count, i)),
          zkrecipes::CommitParticipantOptions{.sweep_interval = 0ms}));
      zkrecipes::CommitHandlers handlers;
      handlers.prepare = [](const auto&) { return zkrecipes::CommitVote::yes(); };
      handlers.commit = [](const auto&) {};
      handlers.abort = [](const auto&) {};
      participants_.back()->async_serve(std::move(handlers),
                                        [this](const zkclient::Result<void>&) {
                                          const std::lock_guard lock(mutex_);
                                          ++ended_;
                                          changed_.notify_all();
                                        },
                                        {.stop = stop_.get_token()});
    }
    while (count != static_cast<int>(present()))
      std::this_thread::yield();
  }
  ~Crowd() {
    stop_.request_stop();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == participants_.size(); });
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::size_t present() const {
    std::error_code error;
    return clients_.front().children("/bench/participants", {}, error).names.size();
  }

  std::vector<std::string> names_;
  std::vector<zkclient::Client> clients_;
  std::vector<std::unique_ptr<zkrecipes::CommitParticipant>> participants_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ended_ = 0;
};

struct Row {
  CommitVariant variant = CommitVariant::mediated;
  int participants = 0;
  bench::Summary latency_us;
  double per_second = 0;
  double requests = 0;
  int fewest = 0;
};

void require(const CommitOutcome& outcome) {
  if (!outcome.committed) throw std::runtime_error("a transaction was aborted: " + outcome.reason);
}

void wait_until_empty(const zkclient::Client& client) {
  const auto end = Clock::now() + 30s;
  while (client.exists("/bench/transactions")->children_count != 0) {
    if (Clock::now() > end) throw std::runtime_error("transactions are left");
    std::this_thread::yield();
  }
}

bench::Summary measure_latency(zkrecipes::CommitCoordinator& coordinator, const Crowd& crowd, CommitVariant variant,
                               int count) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    require(coordinator.run(crowd.names(), "payload", {.variant = variant}));
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return bench::summarize(std::move(samples));
}

/// 64 at once, each followed by the next one, until the time is over.
double measure_rate(zkrecipes::CommitCoordinator& coordinator, const Crowd& crowd, CommitVariant variant,
                    std::chrono::milliseconds slice) {
  constexpr int at_once = 64;
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int running = at_once;
    int done = 0;
    std::string failure;
  } state;
  const auto begin = Clock::now();
  const auto end = begin + slice;
  const CommitOptions options{.variant = variant, .wait = CommitOptions::Wait::applied};
  std::function<void(zkclient::Result<CommitOutcome>)> next = [&](zkclient::Result<CommitOutcome> outcome) {
    {
      const std::lock_guard lock(state.mutex);
      if (!outcome) state.failure = outcome.error().what();
      if (outcome && !outcome->committed) state.failure = outcome->reason;
      ++state.done;
      if (!state.failure.empty() || Clock::now() >= end) {
        --state.running;
        state.changed.notify_all();
        return;
      }
    }
    coordinator.async_run(crowd.names(), "payload", options, next);
  };
  for (int i = 0; i < at_once; ++i)
    coordinator.async_run(crowd.names(), "payload", options, next);
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.running == 0; });
  if (!state.failure.empty()) throw std::runtime_error(state.failure);
  return state.done / std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One after the other, through a proxy that counts. Pings are not counted.
double count_requests(const std::string& server, zkclient::Runtime& runtime, const bench::Folder& folder,
                      CommitVariant variant, int participants, int transactions) {
  const zktesting::Proxy proxy(server);
  const Crowd crowd(runtime, proxy.connect_string(), folder, participants);
  const zkclient::Client client(runtime, proxy.connect_string());
  const zkclient::Client observer(runtime, server);
  zkrecipes::CommitCoordinator coordinator(client, "/bench");
  const CommitOptions options{.variant = variant, .wait = CommitOptions::Wait::applied};
  require(coordinator.run(crowd.names(), "payload", options));
  wait_until_empty(observer);
  // What the beginning has left behind (a watch that is taken back a second later, say) is not a transaction's.
  std::this_thread::sleep_for(transactions > 10 ? 1500ms : 10ms);
  const std::size_t before = proxy.request_count(zktesting::RequestType::any);
  for (int i = 0; i < transactions; ++i)
    require(coordinator.run(crowd.names(), "payload", options));
  wait_until_empty(observer);
  return static_cast<double>(proxy.request_count(zktesting::RequestType::any) - before) / transactions;
}

Row measure(const std::string& server, CommitVariant variant, int participants, const Options& options) {
  zkclient::Runtime runtime;
  const bench::Folder folder;
  Row row{variant, participants, {}, 0, 0, fewest_requests(variant, participants)};
  {
    const Crowd crowd(runtime, server, folder, participants);
    const zkclient::Client client(runtime, server);
    zkrecipes::CommitCoordinator coordinator(client, "/bench");
    (void)measure_latency(coordinator, crowd, variant, options.transactions / 5);
    row.latency_us = measure_latency(coordinator, crowd, variant, options.transactions);
    row.per_second = measure_rate(coordinator, crowd, variant, options.slice);
    wait_until_empty(client);
  }
  row.requests = count_requests(server, runtime, folder, variant, participants, std::max(5, options.transactions / 5));
  return row;
}

const char* name_of(CommitVariant variant) { return variant == CommitVariant::mediated ? "mediated" : "all-to-all"; }

std::string text_of(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:<11} {:>12} {:>10} {:>10} {:>10} {:>9} {:>8} {:>6}\n", "variant", "participants",
                                 "median us", "quartile 3", "per second", "requests", "fewest", "ratio");
  for (const Row& row : rows) {
    const double ratio = row.requests / row.fewest;
    text += fmt::format("{:<11} {:>12} {:>10.0f} {:>10.0f} {:>10.0f} {:>9.1f} {:>8} {:>6.2f} {}\n",
                        name_of(row.variant), row.participants, row.latency_us.median, row.latency_us.upper_quartile,
                        row.per_second, row.requests, row.fewest, ratio, ratio <= 1.2 ? "PASS" : "above 1.2");
  }
  return text;
}

std::string json_of(const std::vector<Row>& rows) {
  std::string text = "[";
  for (const Row& row : rows) {
    text += fmt::format(
        R"({}{{"variant":"{}","participants":{},"median_us":{:.0f},"per_second":{:.0f},"requests":{:.2f},"fewest":{}}})",
        text.size() > 1 ? "," : "", name_of(row.variant), row.participants, row.latency_us.median, row.per_second,
        row.requests, row.fewest);
  }
  return text + "]\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bench::KeptLog kept;
    const Options options = parse({argv + 1, argv + argc});
    if (options.help) {
      fmt::print("{}", usage);
      return 0;
    }
    const zktesting::Server server;
    std::vector<Row> rows;
    for (const int participants : options.participants) {
      for (const CommitVariant variant : {CommitVariant::mediated, CommitVariant::all_to_all})
        rows.push_back(measure(server.connect_string(), variant, participants, options));
    }
    fmt::print("{}", text_of(rows));
    if (!options.json_file.empty()) {
      std::ofstream out(options.json_file);
      out << json_of(rows);
      if (!out.flush()) throw std::runtime_error("cannot write " + options.json_file);
    }
    return 0;
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "two_phase_commit: {}\n{}", error.what(), usage);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "two_phase_commit: {}\n", error.what());
    return 1;
  }
}
