// Counters beside those of Curator and kazoo: increments per second, and what one costs. Shared values in a contest with
// Curator's. See README.md.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zktesting/proxy.hpp>

#include "child.hpp"
#include "compare_peers.hpp"

namespace {

using std::chrono::milliseconds;
using zkclient::Client;
using zkclient::Path;
using zktesting::RequestType;

constexpr const char* usage = R"(values: increments of a number, ours beside those of Curator and kazoo

)";

constexpr int many = 8;         // Clients.
constexpr int together = 64;    // Calls of one object at a time, where they share transactions.
constexpr milliseconds far{5};  // One way.

/// So many clients, with one object each, add 1 to one number, over and over: `calls` of each at a time.
class Adds final : public bench::Contender {
 public:
  Adds(const std::string& server, const Path& number, int clients, int calls, bool durable) : calls_(calls) {
    zkrecipes::CounterOptions options;
    options.durable = durable;
    for (int i = 0; i < clients; ++i)
      counters_.push_back(std::make_unique<zkrecipes::Counter>(Client(server), number, options));
  }

  /// Throws if the number is not the sum afterwards.
  bench::Sample run(milliseconds duration) override {
    const std::int64_t before = counters_.front()->add(0).after;
    const bench::Stopwatch stopwatch(duration);
    stopwatch_ = &stopwatch;
    added_ = 0;
    failure_.reset();
    running_ = 1;
    for (const auto& counter : counters_) {
      for (int i = 0; i < calls_; ++i) {
        begin();
        next(*counter);
      }
    }
    end();
    {
      std::unique_lock lock(guard_);
      idle_.wait(lock, [this] { return running_ == 0; });
    }
    const bench::Sample sample = stopwatch.stop(added_);
    if (failure_) throw zkclient::Error(*failure_);
    if (counters_.front()->add(0).after != before + added_) throw std::runtime_error("the sum is not exact");
    return sample;
  }

 private:
  void next(zkrecipes::Counter& counter) {
    if (!stopwatch_->running()) return end();
    counter.async_add(1, [this, &counter](zkclient::Result<zkrecipes::CounterChange> change) {
      if (!change) return fail(change.error());
      ++added_;
      next(counter);
    });
  }
  void begin() {
    const std::lock_guard lock(guard_);
    ++running_;
  }
  void end() {
    const std::lock_guard lock(guard_);
    if (--running_ == 0) idle_.notify_all();
  }
  void fail(const zkclient::Error& error) {
    {
      const std::lock_guard lock(guard_);
      failure_ = error;
    }
    end();
  }

  const int calls_;
  std::vector<std::unique_ptr<zkrecipes::Counter>> counters_;
  const bench::Stopwatch* stopwatch_ = nullptr;
  std::atomic<std::int64_t> added_{0};
  std::mutex guard_;
  std::condition_variable idle_;
  int running_ = 0;
  std::optional<zkclient::Error> failure_;
};

/// So many clients update one value, over and over, beside clients of another library that do the same.
class Updates final : public bench::Contender {
 public:
  Updates(const std::string& server, const Path& value, int clients) {
    for (int i = 0; i < clients; ++i)
      values_.push_back(std::make_unique<zkrecipes::SharedValue>(Client(server), value));
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::atomic<std::int64_t> updates{0};
    std::vector<std::future<void>> all;
    for (const auto& value : values_) {
      all.push_back(std::async(std::launch::async, [&] {
        while (stopwatch.running()) {
          (void)value->update([](const zkrecipes::VersionedValue&) { return std::optional<std::string>("ours"); });
          ++updates;
        }
      }));
    }
    for (auto& one : all)
      one.get();
    return stopwatch.stop(updates);
  }

 private:
  std::vector<std::unique_ptr<zkrecipes::SharedValue>> values_;
};

using Maker = std::function<std::unique_ptr<bench::Contender>(const std::string& server, const std::string& path)>;

constexpr const char* one_row = "Counter, 1 client";
constexpr const char* durable_row = "Counter, durable, 1 client";
constexpr const char* shared_row = "Counter, 1 client, 64 adds at a time";
constexpr const char* eight_row = "Counter, 8 clients";
constexpr const char* all_shared_row = "Counter, 8 clients, 64 adds at a time";
constexpr const char* raw_row = "raw loop, the same transaction, 1 client";
constexpr const char* curator_one_row = "Curator DistributedAtomicLong, 1 client";
constexpr const char* curator_eight_row = "Curator DistributedAtomicLong, 8 clients";
constexpr const char* kazoo_one_row = "kazoo Counter, 1 client";
constexpr const char* kazoo_eight_row = "kazoo Counter, 8 clients";

class Values {
 public:
  explicit Values(const bench::RunOptions& options) : options_(options), comparison_(options) {}

  bench::Report run() {
    add(one_row, "one", ours(1, 1));
    add(durable_row, "durable", ours(1, 1, true));
    add(shared_row, "shared", ours(1, together));
    add(eight_row, "eight", ours(many, 1));
    add(all_shared_row, "all-shared", ours(many, together));
    comparison_.add(raw_row, raw());
    add(curator_one_row, "curator-one", curator(1));
    add(curator_eight_row, "curator-eight", curator(many));
    add(kazoo_one_row, "kazoo-one", kazoo(1));
    add(kazoo_eight_row, "kazoo-eight", kazoo(many));
    comparison_.measure();
    comparison_.compare(one_row, curator_one_row, 2.0);
    comparison_.compare(one_row, raw_row, {});
    comparison_.compare(raw_row, curator_one_row, {});
    comparison_.compare(one_row, kazoo_one_row, {});
    comparison_.compare(durable_row, one_row, {});
    comparison_.compare(shared_row, curator_one_row, 20.0);
    comparison_.compare(eight_row, curator_eight_row, 2.0);
    comparison_.compare(eight_row, kazoo_eight_row, {});
    comparison_.compare(all_shared_row, curator_eight_row, 20.0);
    comparison_.compare(all_shared_row, kazoo_eight_row, {});
    for (const Row& row : rows_)
      measure_cost(row);
    for (const int clients : {1, 4})
      contest(clients);
    bench::Report report = comparison_.report("values", "one number for each row");
    report.figures = std::move(figures_);
    return report;
  }

 private:
  struct Row {
    const char* name;
    std::string path;
    Maker make;
  };

  static Maker ours(int clients, int calls, bool durable = false) {
    return [=](const std::string& server, const std::string& path) {
      return std::make_unique<Adds>(server, Path(path) / "number", clients, calls, durable);
    };
  }
  // The ceiling of a client whose calls share nothing: it waits for each transaction, too, but does nothing else.
  std::unique_ptr<bench::Contender> raw() {
    const std::string parent = comparison_.add_parent("raw");
    const Client client(comparison_.server());
    for (const char* name : {"node", "slot"})
      client.create(Path(parent) / name, "0");
    const std::string program = bench::beside_this_program("raw_operations_st");
    return std::make_unique<bench::Child>(
        std::vector<std::string>{program, comparison_.server(), parent, "set_both", "1"});
  }
  Maker curator(int clients) {
    return [this, clients](const std::string& server, const std::string& path) {
      return comparison_.peers().curator({server, path + "/number", "count", std::to_string(clients), "0"});
    };
  }
  Maker kazoo(int clients) {
    return [this, clients](const std::string& server, const std::string& path) {
      return comparison_.peers().kazoo({server, path + "/number", "count", std::to_string(clients), "0"});
    };
  }
  void add(const char* name, const char* directory, Maker make) {
    const std::string path = comparison_.add_parent(directory);
    comparison_.add(name, make(comparison_.server(), path));
    rows_.push_back({name, path, std::move(make)});
  }

  // Over a link so long that nothing else counts.
  void measure_cost(const Row& row) {
    zktesting::Proxy proxy(comparison_.server());
    const auto contender = row.make(proxy.connect_string(), row.path);
    if (contender == nullptr) return;
    (void)contender->run(options_.slice);  // The first changes of a session cost more.
    proxy.delay(zktesting::Direction::both, far);
    const std::size_t before = proxy.request_count(RequestType::any);
    const bench::Sample sample = contender->run(options_.slice);
    if (sample.cycles == 0) return;
    const auto requests = static_cast<double>(proxy.request_count(RequestType::any) - before);
    figures_.push_back({fmt::format("round trips per add: {}", row.name),
                        1e6 / sample.cycles_per_second() / (2e3 * static_cast<double>(far.count()))});
    figures_.push_back({fmt::format("requests per add: {}", row.name), requests / static_cast<double>(sample.cycles)});
  }

  // On one node, at the same time.
  void contest(int clients) {
    const std::string count = std::to_string(clients);
    const Path value = Path(comparison_.add_parent("contest-" + count)) / "value";
    const auto theirs = comparison_.peers().curator({comparison_.server(), value.str(), "share", count, "0"});
    if (theirs == nullptr) return;
    Updates ours(comparison_.server(), value, clients);
    (void)run_both(ours, *theirs, options_.warmup);
    const auto [mine, all] = run_both(ours, *theirs, 3 * options_.slice);
    const std::string who = fmt::format("{} of ours and {} of Curator's", clients, clients);
    figures_.push_back({fmt::format("our share of the updates, {}", who), mine / all});
    figures_.push_back({fmt::format("updates per second of all, {}", who), all / seconds(3 * options_.slice)});
  }
  static std::pair<double, double> run_both(Updates& ours, bench::Contender& theirs, milliseconds duration) {
    auto running = std::async(std::launch::async, [&] { return theirs.run(duration).cycles; });
    const auto mine = static_cast<double>(ours.run(duration).cycles);
    return {mine, mine + static_cast<double>(running.get())};
  }
  static double seconds(milliseconds duration) { return static_cast<double>(duration.count()) / 1e3; }

  const bench::RunOptions options_;
  bench::Comparison comparison_;
  std::vector<Row> rows_;
  std::vector<bench::Figure> figures_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::compare_main("values", usage, {argv + 1, argv + argc},
                             [](const bench::RunOptions& options) { return Values(options).run(); });
}
