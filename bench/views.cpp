// Caches beside those of Curator and kazoo: until ready, from a change to the listener, and what they ask the server.
// See README.md.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/tree_cache.hpp>
#include <zktesting/proxy.hpp>

#include "compare_peers.hpp"
#include "memory.hpp"

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using zkclient::Client;
using zkclient::Path;
using zktesting::RequestType;

constexpr const char* usage =
    R"(views: caches, ours beside those of Curator and kazoo

  --nodes N       children of the cached node (200)
)";

constexpr std::size_t data_size = 100;

/// Opens a cache, waits until it is ready, closes it, over and over.
class Opens final : public bench::Contender {
 public:
  Opens(const std::string& server, std::string path) : client_(server), path_(std::move(path)) { client_.connect(); }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t opened = 0;
    for (; stopwatch.running(); ++opened)
      zkrecipes::ChildrenCache(client_, path_).wait_ready();
    return stopwatch.stop(opened);
  }

 private:
  Client client_;
  const Path path_;
};

/// One session changes a node, the cache of another one tells its listener; then the next change.
class Changes final : public bench::Contender {
 public:
  Changes(const std::string& writer, const std::string& reader, std::string path)
      : writer_(writer),
        reader_(reader),
        path_(std::move(path)),
        cache_(reader_, path_),
        subscription_(cache_.on_change([this](const std::vector<zkrecipes::Change>&, const zkrecipes::Snapshot& now) {
          const std::lock_guard lock(mutex_);
          seen_ = now.root() == nullptr ? "" : now.root()->data;
          changed_.notify_one();
        })) {
    cache_.wait_ready();
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t changes = 0;
    for (; stopwatch.running(); ++changes) {
      const std::string next = std::to_string(++last_);
      writer_.set(path_, next);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return seen_ == next; });
    }
    return stopwatch.stop(changes);
  }

 private:
  Client writer_;
  Client reader_;
  const Path path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string seen_;
  std::int64_t last_ = 0;
  zkrecipes::NodeCache cache_;
  zkclient::Subscription subscription_;
};

/// Holds a cache of a tree.
class Holds final : public bench::Contender {
 public:
  Holds(const std::string& server, const std::string& path) : cache_(Client(server), path) { cache_.wait_ready(); }
  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::this_thread::sleep_for(duration);
    return stopwatch.stop(1);
  }

 private:
  zkrecipes::TreeCache cache_;
};

using Maker = std::function<std::unique_ptr<bench::Contender>(const std::string& server, const std::string& path)>;

/// Requests of one contender through a proxy of its own, but for heartbeats.
class Counted {
 public:
  Counted(const std::string& server, const std::string& path, const Maker& make)
      : proxy_(server), contender_(make(proxy_.connect_string(), path)) {}

  bool is_there() const { return contender_ != nullptr; }
  double per_cycle(milliseconds duration) {
    const std::size_t before = requests();
    const bench::Sample sample = contender_->run(duration);
    return static_cast<double>(requests() - before) / static_cast<double>(sample.cycles);
  }
  /// The connection breaks, and nothing has changed.
  double at_a_reconnection() {
    const std::size_t before = requests();
    proxy_.cut();
    // Until nothing more comes.
    std::size_t last = before;
    for (int quiet = 0; quiet < 3;) {
      contender_->run(milliseconds(1000));
      const std::size_t now = requests();
      quiet = now != before && now == last ? quiet + 1 : 0;
      last = now;
    }
    return static_cast<double>(last - before);
  }

 private:
  std::size_t requests() const { return proxy_.request_count(RequestType::any); }

  zktesting::Proxy proxy_;
  std::unique_ptr<bench::Contender> contender_;
};

class Views {
 public:
  explicit Views(const bench::RunOptions& options) : options_(options), comparison_(options) {
    directory_ = comparison_.add_parent("directory");
    changing_ = comparison_.add_parent("changing");
    zkclient::Transaction children;
    for (int i = 0; i < options.nodes; ++i)
      children.create(Path(directory_) / fmt::format("node-{:06}", i), std::string(data_size, 'x'));
    Client(comparison_.server()).commit(children);
  }

  bench::Report run() {
    const Maker ours = [](const std::string& server, const std::string& path) {
      return std::make_unique<Opens>(server, path);
    };
    const Maker our_changes = [](const std::string& server, const std::string& path) {
      return std::make_unique<Changes>(server, server, path);
    };
    const Maker our_tree = [](const std::string& server, const std::string& path) {
      return std::make_unique<Holds>(server, path);
    };
    add("ChildrenCache until ready", directory_, ours);
    add("Curator PathChildrenCache until ready", directory_, curator("open-path"));
    add("Curator CuratorCache until ready", directory_, curator("open-cache"));
    add("kazoo TreeCache until ready", directory_, kazoo("open-tree"));
    add("NodeCache, a change", changing_, our_changes);
    add("Curator NodeCache, a change", changing_ + "-curator", curator("change"));
    add("kazoo DataWatch, a change", changing_ + "-kazoo", kazoo("change"));
    comparison_.measure();
    comparison_.compare("ChildrenCache until ready", "Curator PathChildrenCache until ready", 1.5);
    comparison_.compare("ChildrenCache until ready", "Curator CuratorCache until ready", {});
    comparison_.compare("ChildrenCache until ready", "kazoo TreeCache until ready", 2.0);
    comparison_.compare("NodeCache, a change", "Curator NodeCache, a change", {});
    comparison_.compare("NodeCache, a change", "kazoo DataWatch, a change", {});
    count_requests();
    count("TreeCache", our_tree);
    count("Curator TreeCache", curator("hold-tree"));
    count("Curator CuratorCache", curator("hold-cache"));
    count("kazoo TreeCache", kazoo("hold-tree"));
    measure_distance();
    measure_size();
    bench::Report report =
        comparison_.report("views", fmt::format("{} children of {} bytes", options_.nodes, data_size));
    report.figures = std::move(figures_);
    return report;
  }

 private:
  Maker curator(std::string kind) {
    return [this, kind = std::move(kind)](const std::string& server, const std::string& path) {
      return comparison_.peers().curator({server, path, kind, "0", "0"});
    };
  }
  Maker kazoo(std::string kind) {
    return [this, kind = std::move(kind)](const std::string& server, const std::string& path) {
      return comparison_.peers().kazoo({server, path, kind, "0", "0"});
    };
  }
  void add(const char* name, const std::string& path, const Maker& make) {
    Client(comparison_.server()).ensure(path, zkclient::CreateMode::persistent);
    rows_.push_back({name, path, make});
    comparison_.add(name, make(comparison_.server(), path));
  }

  void count_requests() {
    for (const Row& row : rows_) {
      Counted counted(comparison_.server(), row.path, row.make);
      if (!counted.is_there()) continue;
      figures_.push_back({fmt::format("requests: {}", row.name), counted.per_cycle(options_.slice)});
    }
  }
  void count(const char* name, const Maker& make) {
    Counted counted(comparison_.server(), directory_, make);
    if (!counted.is_there()) return;
    figures_.push_back({fmt::format("requests at a reconnection: {}", name), counted.at_a_reconnection()});
  }

  // From the answer to the writer, who is near, to the listener, who is far.
  void measure_distance() {
    constexpr milliseconds one_way{10};
    zktesting::Proxy far(comparison_.server());
    Changes changes(comparison_.server(), far.connect_string(), changing_);
    far.delay(zktesting::Direction::both, one_way);
    const double micros = 1e6 / changes.run(options_.slice).cycles_per_second();
    figures_.push_back({"round trips from a change to the listener", micros / (2e3 * one_way.count())});
  }

  void measure_size() {
    constexpr int nodes = 10'000;
    constexpr int batch = 500;
    const std::string path = comparison_.add_parent("large");
    const Client client(comparison_.server());
    const std::string data(data_size, 'x');
    std::vector<std::string> names;
    for (int i = 0; i < nodes; i += batch) {
      zkclient::Transaction children;
      for (int k = i; k < i + batch; ++k) {
        names.push_back(fmt::format("node-{:06}", k));
        children.create(Path(path) / names.back(), data);
      }
      client.commit(children);
    }
    const std::int64_t before = bench::resident_bytes();
    zkrecipes::ChildrenCache cache(client, path);
    const auto begin = Clock::now();
    const zkrecipes::Snapshot snapshot = cache.wait_ready();
    const auto ready = Clock::now();
    figures_.push_back(
        {"ms until ready, 10,000 children", std::chrono::duration<double, std::milli>(ready - begin).count()});
    figures_.push_back({"bytes for each of them, its watch and the C client's share included",
                        static_cast<double>(bench::resident_bytes() - before) / nodes});
    constexpr int turns = 1'000'000;
    const auto from = Clock::now();
    std::size_t found = 0;
    for (std::size_t i = 0; i < turns; ++i)
      found += snapshot.find(names[i * 7919 % names.size()]) != nullptr ? 1U : 0U;
    const std::chrono::duration<double, std::nano> took = Clock::now() - from;
    if (found != turns) throw std::runtime_error("a child was not found");
    figures_.push_back({"find() in ns, 10,000 children", took.count() / turns});
  }

  struct Row {
    const char* name;
    std::string path;
    Maker make;
  };

  const bench::RunOptions options_;
  bench::Comparison comparison_;
  std::string directory_;
  std::string changing_;
  std::vector<Row> rows_;
  std::vector<bench::Figure> figures_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::compare_main("views", usage, {argv + 1, argv + argc},
                             [](const bench::RunOptions& options) { return Views(options).run(); });
}
