// Single operations of our Client beside the raw C client: one at a time, and many outstanding. Also what a session and
// a watch cost in memory. See README.md for what the rows mean.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zktesting/environment.hpp>
#include <zktesting/server.hpp>

#include "child.hpp"
#include "kept_log.hpp"
#include "memory.hpp"
#include "report.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using zkclient::any_version;
using zkclient::Client;
using zkclient::Path;
using zkclient::Transaction;

constexpr const char* usage =
    R"(operations: single requests, ours beside the C client's two flavours

  --rounds N        rounds to measure, each with one slice of every contender (9)
  --milliseconds N  length of a slice (400)
  --only NAME       one operation: get, exists, children, set, create_remove, commit, sync, get_acl, set_acl
  --json FILE       write the result there as well
  --memory          measure memory per session and per watch instead
  --quick           a run of a few seconds whose figures mean nothing: does it work?
)";

constexpr std::array<const char*, 9> operations{"get",    "exists", "children", "set",    "create_remove",
                                                "commit", "sync",   "get_acl",  "set_acl"};
constexpr int window = 256;

struct Options {
  int rounds = 9;
  milliseconds slice{400};
  milliseconds warmup{4000};
  std::string only;
  std::string json_file;
  bool memory = false;
  bool help = false;
  int sessions = 1000;
  int watches = 10'000;
};

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& option = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (++i == arguments.size()) throw std::invalid_argument(option + " wants a value");
      return arguments[i];
    };
    if (option == "--help") {
      options.help = true;
    } else if (option == "--quick") {
      options.rounds = 2;
      options.slice = 30ms;
      options.warmup = 0ms;
      options.sessions = 20;
      options.watches = 200;
    } else if (option == "--memory") {
      options.memory = true;
    } else if (option == "--rounds") {
      options.rounds = std::max(1, std::stoi(value()));
    } else if (option == "--milliseconds") {
      options.slice = milliseconds(std::max(1, std::stoi(value())));
    } else if (option == "--only") {
      options.only = value();
      if (std::find(operations.begin(), operations.end(), options.only) == operations.end()) {
        throw std::invalid_argument("unknown operation " + options.only);
      }
    } else if (option == "--json") {
      options.json_file = value();
    } else {
      throw std::invalid_argument("unknown option " + option);
    }
  }
  return options;
}

/// One blocking call after the other.
class Blocking final : public bench::Contender {
 public:
  Blocking(Client client, const Path& parent, std::string operation)
      : client_(std::move(client)),
        node_(parent / "node"),
        temporary_(parent / "temporary"),
        operation_(std::move(operation)) {}

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t cycles = 0;
    for (; stopwatch.running(); ++cycles)
      once();
    return stopwatch.stop(cycles);
  }

 private:
  void once() {
    if (operation_ == "get") {
      client_.get(node_);
    } else if (operation_ == "exists") {
      client_.exists(node_);
    } else if (operation_ == "children") {
      client_.children(node_);
    } else if (operation_ == "set") {
      client_.set(node_, bench::node_data);
    } else if (operation_ == "commit") {
      client_.commit(Transaction().check(node_).set(node_, bench::node_data));
    } else if (operation_ == "sync") {
      client_.sync(node_);
    } else if (operation_ == "get_acl") {
      client_.get_acl(node_);
    } else if (operation_ == "set_acl") {
      client_.set_acl(node_, zkclient::open_acl());
    } else {
      client_.create(temporary_, bench::node_data);
      client_.remove(temporary_);
    }
  }

  const Client client_;
  const Path node_;
  const Path temporary_;
  const std::string operation_;
};

/// Asynchronous calls, `window` of them outstanding; each handler starts the next.
class Pipelined final : public bench::Contender {
 public:
  Pipelined(Client client, const Path& parent, std::string operation)
      : client_(std::move(client)),
        node_(parent / "node"),
        temporary_(parent / "temporary"),
        operation_(std::move(operation)) {}

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    stopwatch_ = &stopwatch;
    {
      const std::lock_guard lock(mutex_);
      cycles_ = 0;
      pending_ = window;
    }
    for (int i = 0; i < window; ++i)
      submit(i);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pending_ == 0; });
    if (failure_) throw zkclient::Error(*failure_);
    return stopwatch.stop(cycles_);
  }

 private:
  template <typename T>
  zkclient::Handler<T> done(int lane) {
    return [this, lane](const zkclient::Result<T>& result) { complete(lane, result); };
  }
  void submit(int lane) {
    if (operation_ == "get") {
      client_.async_get(node_, done<zkclient::NodeData>(lane));
    } else if (operation_ == "exists") {
      client_.async_exists(node_, done<std::optional<zkclient::Stat>>(lane));
    } else if (operation_ == "children") {
      client_.async_children(node_, done<zkclient::Children>(lane));
    } else if (operation_ == "set") {
      client_.async_set(node_, bench::node_data, any_version, done<zkclient::Stat>(lane));
    } else if (operation_ == "commit") {
      client_.async_commit(Transaction().check(node_).set(node_, bench::node_data),
                           done<std::vector<zkclient::OperationResult>>(lane));
    } else if (operation_ == "sync") {
      client_.async_sync(node_, done<void>(lane));
    } else if (operation_ == "get_acl") {
      client_.async_get_acl(node_, done<zkclient::NodeAcl>(lane));
    } else if (operation_ == "set_acl") {
      client_.async_set_acl(node_, zkclient::open_acl(), any_version, done<void>(lane));
    } else {
      const Path path(temporary_.str() + std::to_string(lane));
      client_.async_create(path, bench::node_data, {},
                           [this, lane, path](const zkclient::Result<zkclient::Created>& made) {
                             if (!made) return complete(lane, made);
                             client_.async_remove(path, any_version, done<void>(lane));
                           });
    }
  }
  template <typename Result>
  void complete(int lane, const Result& result) {
    bool more = false;
    {
      const std::lock_guard lock(mutex_);
      if (!result && !failure_) failure_ = result.error();
      ++cycles_;
      more = !failure_ && stopwatch_->running();
      if (!more && --pending_ == 0) changed_.notify_all();
    }
    if (more) submit(lane);
  }

  const Client client_;
  const Path node_;
  const Path temporary_;
  const std::string operation_;
  const bench::Stopwatch* stopwatch_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t cycles_ = 0;
  int pending_ = 0;
  std::optional<zkclient::Error> failure_;
};

std::string beside_this_program(std::string_view name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

struct Row {
  std::unique_ptr<bench::Contender> contender;
  bench::Series series;
};

/// The nodes of one operation, and who works on them.
std::vector<Row> make_rows(const std::string& server, const Client& client, const Path& folder,
                           const std::string& operation) {
  std::vector<Row> rows;
  const auto parent = [&](const char* name) {
    const Path path = folder / (operation + "-" + name);
    client.ensure(path / "node", zkclient::CreateMode::persistent);
    client.set(path / "node", bench::node_data);
    return path;
  };
  const auto add = [&](const std::string& name, std::unique_ptr<bench::Contender> contender) {
    rows.push_back({std::move(contender), {operation + ", " + name, {}}});
  };
  const auto child = [&](const char* program, const char* name, int outstanding) {
    return std::make_unique<bench::Child>(std::vector<std::string>{
        beside_this_program(program), server, parent(name).str(), operation, std::to_string(outstanding)});
  };
  if (std::filesystem::exists(beside_this_program("raw_operations_mt"))) {
    add("mt synchronous", child("raw_operations_mt", "mt", 1));
    add("mt pipelined", child("raw_operations_mt", "mtp", window));
  }
  add("st one by one", child("raw_operations_st", "st", 1));
  add("st pipelined", child("raw_operations_st", "stp", window));
  add("blocking", std::make_unique<Blocking>(client, parent("ours"), operation));
  add("pipelined", std::make_unique<Pipelined>(client, parent("oursp"), operation));
  return rows;
}

void measure(std::vector<Row>& rows, const Options& options) {
  const auto warm = std::chrono::steady_clock::now() + options.warmup / static_cast<int>(operations.size());
  while (std::chrono::steady_clock::now() < warm) {
    for (Row& row : rows)
      (void)row.contender->run(50ms);
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (const std::size_t i : bench::order_of_round(round, rows.size()))
      rows[i].series.samples.push_back(rows[i].contender->run(options.slice));
  }
}

void add_ratios(bench::Report& report, const std::string& operation) {
  const auto find = [&](const std::string& name) {
    return std::find_if(report.series.begin(), report.series.end(),
                        [&](const bench::Series& series) { return series.name == operation + ", " + name; });
  };
  const auto add = [&](const char* contender, const char* reference, std::optional<double> target) {
    if (find(reference) != report.series.end()) {
      report.ratios.push_back(bench::compare(*find(contender), *find(reference), target));
    }
  };
  add("blocking", "mt synchronous", 1.0);
  add("pipelined", "st pipelined", 0.9);
  add("blocking", "st one by one", {});
  add("pipelined", "mt pipelined", {});
}

constexpr const char* every = "every operation";

// What all operations have in common: per round, the geometric mean of their rates. Its spread is much smaller.
bench::Series mean_of(const std::vector<bench::Series>& all, const std::string& row) {
  bench::Series mean{fmt::format("{}, {}", every, row), {}};
  std::vector<const bench::Series*> parts;
  for (const bench::Series& series : all) {
    if (series.name.ends_with(", " + row)) parts.push_back(&series);
  }
  for (std::size_t round = 0; !parts.empty() && round < parts.front()->samples.size(); ++round) {
    double rates = 0;  // Logarithms.
    double cpu = 0;
    for (const bench::Series* part : parts) {
      rates += std::log(std::max(part->samples[round].cycles_per_second(), 1.0));
      cpu += part->samples[round].cpu_us_per_cycle();
    }
    const auto count = static_cast<double>(parts.size());
    const double rate = std::exp(rates / count);
    mean.samples.push_back({std::llround(rate), 1s, std::chrono::microseconds(std::llround(rate * cpu / count))});
  }
  return mean;
}

void add_means(bench::Report& report) {
  std::vector<bench::Series> means;
  for (const char* row : {"mt synchronous", "mt pipelined", "st one by one", "st pipelined", "blocking", "pipelined"}) {
    bench::Series mean = mean_of(report.series, row);
    if (!mean.samples.empty()) means.push_back(std::move(mean));
  }
  std::move(means.begin(), means.end(), std::back_inserter(report.series));
  add_ratios(report, every);
}

// --- Memory -------------------------------------------------------------------------------------

std::int64_t our_bytes_per_session(const std::string& server, int count) {
  zkclient::Runtime runtime;
  std::vector<Client> clients;
  clients.reserve(static_cast<std::size_t>(count));
  clients.emplace_back(runtime, server);
  clients.back().connect();
  const std::int64_t before = bench::resident_bytes();
  for (int i = 0; i < count; ++i)
    clients.emplace_back(runtime, server);
  for (const Client& client : clients)
    client.connect({.deadline = std::chrono::steady_clock::now() + 60s});
  return (bench::resident_bytes() - before) / count;
}

std::int64_t our_bytes_per_watch(const Client& client, const Path& parent, int count) {
  std::vector<zkclient::Watch> watches;
  watches.reserve(static_cast<std::size_t>(count));
  const std::int64_t before = bench::resident_bytes();
  for (int i = 0; i < count; ++i) {
    const Path path(parent.str() + "/temporary" + std::to_string(i));
    watches.push_back(client.exists_and_watch(path, [](const zkclient::WatchEvent&) {}).watch());
  }
  return (bench::resident_bytes() - before) / count;
}

void report_memory(const std::string& server, const Client& client, const Path& folder, const Options& options) {
  const Path parent = folder / "memory";
  client.create(parent);
  const auto raw = [&](const char* what, int count) {
    bench::Child child({beside_this_program("raw_operations_st"), server, parent.str(), what, std::to_string(count)});
    return child.run(0ms).cycles;
  };
  const auto watch = our_bytes_per_watch(client, parent, options.watches);
  const auto session = our_bytes_per_session(server, options.sessions);
  const auto line = [](const char* what, int count, std::int64_t ours, std::int64_t theirs) {
    fmt::print("bytes of resident memory per {} ({} of them): ours {}, raw st {}, ratio {:.2f}\n", what, count, ours,
               theirs, theirs > 0 ? static_cast<double>(ours) / static_cast<double>(theirs) : 0.0);
  };
  line("watch", options.watches, watch, raw("watches", options.watches));
  line("session", options.sessions, session, raw("sessions", options.sessions));
}

void remove_tree(const Client& client, const Path& path) {
  std::error_code ignored;
  for (const std::string& name : client.children(path, {}, ignored).names)
    remove_tree(client, path / name);
  client.remove(path, any_version, {}, ignored);
}

int run(const Options& options) {
  std::optional<zktesting::Server> own_server;
  const auto external = zktesting::external_server();
  if (!external) own_server.emplace();
  const std::string server = external ? *external : own_server->connect_string();
  const Client client(server, {.session_timeout = bench::session_timeout});
  const Path folder(fmt::format("/zkrecipes-bench-{}", ::getpid()));
  client.create(folder);
  if (options.memory) {
    report_memory(server, client, folder, options);
    remove_tree(client, folder);
    return 0;
  }
  bench::Report report;
  report.benchmark = "operations";
  report.setting =
      fmt::format("{} rounds of {} ms for each contender, {} requests outstanding where pipelined, server {}",
                  options.rounds, options.slice.count(), window, external ? *external : "of our own, without fsync");
  for (const std::string operation : operations) {
    if (!options.only.empty() && options.only != operation) continue;
    std::vector<Row> rows = make_rows(server, client, folder, operation);
    measure(rows, options);
    for (Row& row : rows)
      report.series.push_back(std::move(row.series));
    add_ratios(report, operation);
  }
  if (options.only.empty()) add_means(report);
  if (!std::filesystem::exists(beside_this_program("raw_operations_mt"))) {
    report.notes.emplace_back(
        "mt: skipped, there was no libzookeeper_mt when this was built. Run scripts/setup.sh --bench, "
        "then cmake and the build again.");
  }
  remove_tree(client, folder);
  fmt::print("{}", report.text());
  if (!options.json_file.empty()) {
    std::ofstream out(options.json_file);
    out << report.json();
    out.close();
    if (!out) throw std::runtime_error("cannot write " + options.json_file);
  }
  return 0;
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
    ::signal(SIGPIPE, SIG_IGN);  // A child that has ended is told by an exception.
    return run(options);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "operations: {}\n{}", error.what(), usage);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "operations: {}\n", error.what());
    return 1;
  }
}
