// Reads and writes of a coherent cache: a hit beside the reads that ask a server, and what a write waits for. See
// README.md.

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zktesting/proxy.hpp>

#include "compare_peers.hpp"

namespace {

using std::chrono::milliseconds;
using zkclient::Client;
using zkclient::Path;
using zktesting::Direction;

constexpr const char* usage = R"(coherent: reads and writes of a coherent cache

)";

constexpr const char* item = "a";
constexpr milliseconds far{5};  // One way.
constexpr milliseconds term{2000};
constexpr int writes_of_a_figure = 9;

/// Times in milliseconds.
template <typename Work>
double time_of(Work work) {
  const auto begin = bench::Stopwatch::Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(bench::Stopwatch::Clock::now() - begin).count();
}

zkrecipes::CoherentCacheOptions one_shard() {
  zkrecipes::CoherentCacheOptions options;
  options.shards = 1;
  options.lease_term = term;
  return options;
}

/// Reads an item that is in memory.
class Hits final : public bench::Contender {
 public:
  Hits(const std::string& server, const Path& path) : cache_(Client(server), path, one_shard()) {
    cache_.put(item, "value");
  }

  bench::Sample run(milliseconds duration) override {
    constexpr int at_a_time = 1000;  // The clock that says when to stop takes as long as a hit.
    (void)cache_.get(item);
    const bench::Stopwatch stopwatch(duration);
    std::int64_t reads = 0;
    for (; stopwatch.running(); reads += at_a_time) {
      for (int i = 0; i < at_a_time; ++i)
        (void)cache_.get(item);
    }
    return stopwatch.stop(reads);
  }

 private:
  zkrecipes::CoherentCache cache_;
};

/// Reads it from the server; `synced`: behind a sync, in one flight.
class Gets final : public bench::Contender {
 public:
  Gets(const std::string& server, const Path& path, bool synced)
      : client_(server), node_(path / "items" / item), synced_(synced) {
    zkrecipes::CoherentCache(client_, path, one_shard()).put(item, "value");
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t reads = 0;
    for (; stopwatch.running(); ++reads) {
      if (synced_) client_.async_sync(node_, [](const zkclient::Result<void>&) {});
      (void)client_.get(node_);
    }
    return stopwatch.stop(reads);
  }

 private:
  Client client_;
  const Path node_;
  const bool synced_;
};

/// So many caches, of a few sessions.
class Readers {
 public:
  Readers(const std::string& server, const Path& path, int count) {
    constexpr int sessions = 10;
    for (int i = 0; i < std::min(count, sessions); ++i)
      clients_.emplace_back(server);
    for (int i = 0; i < count; ++i) {
      const Client& client = clients_[static_cast<std::size_t>(i % sessions)];
      caches_.push_back(std::make_unique<zkrecipes::CoherentCache>(client, path, one_shard()));
    }
  }

  /// Until each of them has a lease.
  void read() {
    for (const auto& cache : caches_) {
      while (cache->statistics().leases == 0)
        (void)cache->get(item);
    }
  }

 private:
  std::vector<Client> clients_;
  std::vector<std::unique_ptr<zkrecipes::CoherentCache>> caches_;
};

constexpr const char* hit_row = "CoherentCache, hit";
constexpr const char* get_row = "get";
constexpr const char* synced_row = "sync and get";

class Coherent {
 public:
  explicit Coherent(const bench::RunOptions& options) : comparison_(options) {}

  bench::Report run() {
    comparison_.add(hit_row, std::make_unique<Hits>(comparison_.server(), new_cache("hit")));
    comparison_.add(get_row, std::make_unique<Gets>(comparison_.server(), new_cache("get"), false));
    comparison_.add(synced_row, std::make_unique<Gets>(comparison_.server(), new_cache("synced"), true));
    comparison_.measure();
    comparison_.compare(hit_row, get_row, {});
    comparison_.compare(hit_row, synced_row, {});
    measure_hit();
    for (const int readers : {0, 1, 10, 100})
      measure_writes(readers);
    measure_stopped_reader();
    bench::Report report = comparison_.report("coherent", "one item");
    report.figures = std::move(figures_);
    return report;
  }

 private:
  /// A node that is there already is none of a cache.
  Path new_cache(const std::string& name) { return Path(comparison_.add_parent(name)) / "cache"; }

  void measure_hit() {
    Hits hits(comparison_.server(), new_cache("one-hit"));
    const bench::Sample sample = hits.run(milliseconds(500));
    figures_.push_back({"ns per hit", 1e9 / sample.cycles_per_second()});
  }

  // Over a link so long that nothing else counts.
  void measure_writes(int readers) {
    const Path path = new_cache(fmt::format("write-{}", readers));
    zktesting::Proxy proxy(comparison_.server());
    zkrecipes::CoherentCache writer(Client(proxy.connect_string()), path, one_shard());
    writer.put(item, "0");
    Readers others(proxy.connect_string(), path, readers);
    others.read();
    proxy.delay(Direction::both, far);
    std::vector<double> times;
    for (int i = 0; i < writes_of_a_figure; ++i) {
      others.read();
      times.push_back(time_of([&] { writer.put(item, std::to_string(i)); }));
    }
    const double median = bench::summarize(times).median;
    figures_.push_back(
        {fmt::format("round trips per write: {} readers", readers), median / (2.0 * static_cast<double>(far.count()))});
  }

  void measure_stopped_reader() {
    const Path path = new_cache("stopped");
    zktesting::Proxy proxy(comparison_.server());
    zkrecipes::CoherentCache writer(Client(comparison_.server()), path, one_shard());
    writer.put(item, "0");
    Readers stopped(proxy.connect_string(), path, 1);
    double longest = 0;
    for (int i = 0; i < 3; ++i) {
      stopped.read();
      proxy.stall(Direction::both);
      longest = std::max(longest, time_of([&] { writer.put(item, std::to_string(i)); }));
      proxy.unstall(Direction::both);
    }
    figures_.push_back(
        {"longest write while a reader is stopped, in lease terms", longest / static_cast<double>(term.count())});
  }

  bench::Comparison comparison_;
  std::vector<bench::Figure> figures_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::compare_main("coherent", usage, {argv + 1, argv + argc},
                             [](const bench::RunOptions& options) { return Coherent(options).run(); });
}
