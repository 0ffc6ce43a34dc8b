// How often an uncontended lock is taken and given back: our Mutex beside raw programs on the two
// flavours of the C client. See README.md for what the rows mean.

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>
#include <zktesting/environment.hpp>
#include <zktesting/server.hpp>

#include "child.hpp"
#include "kept_log.hpp"
#include "report.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr const char* usage =
    R"(lock_cycle: uncontended acquire + release, ours beside the C client's two flavours

  --rounds N      rounds to measure, each with one slice of every contender (9)
  --seconds S     length of a slice (1.5)
  --warmup S      before the first round, for the server's Java machine (8)
  --json FILE     write the result there as well
  --quick         a run of a few seconds whose figures mean nothing: does it work?
  --help

Starts a ZooKeeper server of its own, without fsync, unless ZKRECIPES_SERVER=host:port names one.
The exit status says whether the run was complete, not whether a target was reached.
)";

struct Options {
  int rounds = 9;
  milliseconds slice{1500};
  milliseconds warmup{8000};
  std::string json_file;
  bool help = false;
};

// --- The command line ---------------------------------------------------------------------------

double parse_number(std::string_view option, std::string_view text, double least) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) || value > 3600) {
    throw std::invalid_argument(fmt::format("{} wants a number, not \"{}\"", option, text));
  }
  return value;
}

milliseconds parse_seconds(std::string_view option, std::string_view text, double least) {
  return milliseconds(static_cast<std::int64_t>(1000 * parse_number(option, text, least)));
}

Options parse(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    if (option == "--help" || option == "-h") {
      options.help = true;
      continue;
    }
    if (option == "--quick") {
      options.rounds = 2;
      options.slice = 200ms;
      options.warmup = 500ms;
      continue;
    }
    if (option != "--rounds" && option != "--seconds" && option != "--warmup" && option != "--json") {
      throw std::invalid_argument(fmt::format("unknown option {}", option));
    }
    if (++i == arguments.size()) {
      throw std::invalid_argument(fmt::format("{} wants a value", option));
    }
    const std::string_view value = arguments[i];
    if (option == "--rounds") options.rounds = static_cast<int>(parse_number(option, value, 1));
    if (option == "--seconds") options.slice = parse_seconds(option, value, 0.01);
    if (option == "--warmup") options.warmup = parse_seconds(option, value, 0);
    if (option == "--json") options.json_file = value;
  }
  return options;
}

// --- Our contenders -----------------------------------------------------------------------------

/// acquire() in a loop. The lease goes at the end of each cycle: with a release that is awaited, or
/// by its destructor, which does not wait.
class Blocking final : public bench::Contender {
 public:
  enum class Release { awaited, dropped };
  Blocking(const zkclient::Client& client, const zkclient::Path& path, Release release)
      : mutex_(client, path), release_(release) {}

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t cycles = 0;
    while (stopwatch.running()) {
      zkrecipes::Lease lease = mutex_.acquire();
      if (release_ == Release::awaited) {
        lease.release();
      }
      ++cycles;
    }
    return stopwatch.stop(cycles);
  }

 private:
  zkrecipes::Mutex mutex_;
  const Release release_;
};

/// async_acquire(), whose handler drops its lease and starts the next one.
class Chain final : public bench::Contender {
 public:
  Chain(const zkclient::Client& client, const zkclient::Path& path) : mutex_(client, path) {}

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    cycles_ = 0;
    done_ = false;
    next(stopwatch);
    std::unique_lock lock(guard_);
    changed_.wait(lock, [this] { return done_; });
    if (failure_) {
      throw zkclient::Error(*failure_);
    }
    return stopwatch.stop(cycles_);
  }

 private:
  void next(const bench::Stopwatch& stopwatch) {
    mutex_.async_acquire([this, &stopwatch](zkclient::Result<zkrecipes::Lease> result) {
      if (!result) {
        finish(result.error());
        return;
      }
      { const zkrecipes::Lease lease = std::move(result).value(); }
      ++cycles_;
      if (stopwatch.running()) {
        next(stopwatch);
      } else {
        finish({});
      }
    });
  }

  void finish(std::optional<zkclient::Error> failure) {
    const std::lock_guard lock(guard_);
    failure_ = std::move(failure);
    done_ = true;
    changed_.notify_all();
  }

  zkrecipes::Mutex mutex_;
  std::int64_t cycles_ = 0;  // Only one handler runs at a time.
  std::mutex guard_;
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<zkclient::Error> failure_;
};

// --- The run ------------------------------------------------------------------------------------

/// The folder on the server in which each contender has its parent node.
class Folder {
 public:
  explicit Folder(zkclient::Client client)
      : client_(std::move(client)), path_(fmt::format("/zkrecipes-bench-{}", ::getpid())) {
    client_.ensure(path_, zkclient::CreateMode::persistent);
  }
  ~Folder() {
    for (const auto& parent : parents_)
      remove(parent);
    remove(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// Persistent: a container would be removed between two slices.
  zkclient::Path add(std::string_view name) {
    zkclient::Path parent = path_ / name;
    client_.create(parent);
    parents_.push_back(parent);
    return parent;
  }

 private:
  void remove(const zkclient::Path& path) {
    std::error_code ignored;  // Of use on a server that is not ours, and not vital there.
    client_.remove(path, zkclient::any_version, {}, ignored);
  }

  zkclient::Client client_;
  zkclient::Path path_;
  std::vector<zkclient::Path> parents_;
};

struct Row {
  std::unique_ptr<bench::Contender> contender;
  bench::Series series;
};

std::string beside_this_program(std::string_view name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

constexpr const char* mt_row = "mt sequence";
constexpr const char* st_row = "st pipelined";
constexpr const char* dropped_row = "Mutex, lease dropped";
constexpr const char* awaited_row = "Mutex, release awaited";
constexpr const char* async_row = "Mutex, asynchronous";
constexpr const char* counted_row = "Mutex, dropped, counted";
constexpr const char* observed_row = "Mutex, dropped, observed";

/// Told of each span, and makes nothing of it.
struct Listener final : zkclient::Observer {
  void on_span(const zkclient::Span&, const std::shared_ptr<const void>&) override {}
};

/// The contenders' clients: one as most programs have it, and one each that counts, and that counts and tells.
struct Clients {
  explicit Clients(const std::string& server)
      : plain(server, {.session_timeout = bench::session_timeout}),
        counted(server, {.session_timeout = bench::session_timeout, .metrics = std::make_shared<zkclient::Metrics>()}),
        observed(server, {.session_timeout = bench::session_timeout,
                          .metrics = std::make_shared<zkclient::Metrics>(),
                          .observer = std::make_shared<Listener>()}) {}

  zkclient::Client plain;
  zkclient::Client counted;
  zkclient::Client observed;
};

std::vector<Row> make_rows(const std::string& server, const Clients& clients, Folder& folder,
                           std::vector<std::string>& notes) {
  std::vector<Row> rows;
  const auto add = [&rows](const char* name, std::unique_ptr<bench::Contender> contender) {
    rows.push_back({std::move(contender), {name, {}}});
  };
  const auto child = [&](const std::string& program, std::string_view parent) {
    return std::make_unique<bench::Child>(std::vector<std::string>{program, server, folder.add(parent).str()});
  };
  if (const std::string mt = beside_this_program("raw_mt"); std::filesystem::exists(mt)) {
    add(mt_row, child(mt, "mt"));
  } else {
    notes.push_back(
        fmt::format("{}: skipped, there was no libzookeeper_mt when this was built. "
                    "Run scripts/setup.sh --bench, then cmake and the build again.",
                    mt_row));
  }
  using Release = Blocking::Release;
  add(st_row, child(beside_this_program("raw_st"), "st"));
  add(dropped_row, std::make_unique<Blocking>(clients.plain, folder.add("md"), Release::dropped));
  add(awaited_row, std::make_unique<Blocking>(clients.plain, folder.add("mr"), Release::awaited));
  add(async_row, std::make_unique<Chain>(clients.plain, folder.add("ma")));
  add(counted_row, std::make_unique<Blocking>(clients.counted, folder.add("mc"), Release::dropped));
  add(observed_row, std::make_unique<Blocking>(clients.observed, folder.add("mo"), Release::dropped));
  return rows;
}

void warm_up(std::vector<Row>& rows, milliseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    for (Row& row : rows) {
      (void)row.contender->run(100ms);
    }
  }
}

void measure(std::vector<Row>& rows, const Options& options) {
  const bool show_progress = ::isatty(STDERR_FILENO) != 0;
  for (int round = 0; round < options.rounds; ++round) {
    if (show_progress) {
      fmt::print(stderr, "\rround {} of {} ", round + 1, options.rounds);
    }
    for (const std::size_t i : bench::order_of_round(round, rows.size()))
      rows[i].series.samples.push_back(rows[i].contender->run(options.slice));
  }
  if (show_progress) {
    fmt::print(stderr, "\r{:30}\r", "");
  }
}

void add_ratios(bench::Report& report) {
  const auto find = [&](std::string_view name) {
    return std::find_if(report.series.begin(), report.series.end(),
                        [&](const bench::Series& series) { return series.name == name; });
  };
  const auto add = [&](const char* contender, const char* reference, std::optional<double> target) {
    if (find(reference) != report.series.end()) {
      report.ratios.push_back(bench::compare(*find(contender), *find(reference), target));
    }
  };
  add(dropped_row, mt_row, 1.3);
  add(awaited_row, mt_row, {});
  add(async_row, mt_row, {});
  add(async_row, st_row, 0.9);
  add(dropped_row, st_row, {});
  add(counted_row, dropped_row, {});
  add(observed_row, dropped_row, {});
}

bench::Report run(const Options& options) {
  std::optional<zktesting::Server> own_server;
  const auto external = zktesting::external_server();
  if (!external) own_server.emplace();
  const std::string server = external ? *external : own_server->connect_string();

  const Clients clients(server);
  bench::Report report;
  report.benchmark = "lock_cycle";
  report.setting = fmt::format("{} rounds of {} ms for each contender, server {}", options.rounds,
                               options.slice.count(), external ? *external : "of our own, without fsync");
  Folder folder(clients.plain);
  std::vector<Row> rows = make_rows(server, clients, folder, report.notes);
  warm_up(rows, options.warmup);
  measure(rows, options);
  for (Row& row : rows)
    report.series.push_back(std::move(row.series));
  add_ratios(report);
  return report;
}

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) {
    throw std::runtime_error("cannot write " + file);
  }
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
    const bench::Report report = run(options);
    fmt::print("{}", report.text());
    if (!options.json_file.empty()) write(options.json_file, report.json());
    return 0;
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "lock_cycle: {}\n{}", error.what(), usage);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lock_cycle: {}\n", error.what());
    return 1;
  }
}
