// Our locks beside Curator, kazoo and a raw loop on the C client, in one run against one server. See README.md.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <zkclient/client.hpp>
#include <zktesting/server.hpp>

#include "child.hpp"
#include "kept_log.hpp"
#include "lock_peer.hpp"
#include "memory.hpp"
#include "our_locks.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "server_bytes.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr const char* usage =
    R"(locks: our locks beside Curator, kazoo and a raw loop

  --rounds N      rounds to measure, each with one slice of every contender (5)
  --seconds S     length of a slice (1)
  --warmup S      before the first round, for the Java machines (8)
  --waiters N     the longest queue that is drained: 10, 100, 1000, 3000 or 10000 (10000); 0: none is
  --json FILE     write the result there as well
  --svg FILE      draw the ratios there
  --quick         a run of a few seconds whose figures mean nothing: does it work?
  --help

Starts a ZooKeeper server of its own, without fsync, and at the end another one with it, whose folder is in $TMPDIR or
else in /var/tmp. Curator and kazoo take part where they are installed (see scripts/setup.sh). The exit status says
whether the run was complete and nobody overlapped, not whether a target was reached.
)";

struct Options {
  int rounds = 5;
  milliseconds slice{1000};
  milliseconds warmup{8000};
  int waiters = 10'000;
  std::vector<int> contenders = {2, 8, 32};
  std::string json_file;
  std::string svg_file;
  bool help = false;
};

// --- The command line ---------------------------------------------------------------------------

double parse_number(std::string_view option, std::string_view text, double least) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) || value > 10'000) {
    throw std::invalid_argument(fmt::format("{} wants a number, not \"{}\"", option, text));
  }
  return value;
}

milliseconds parse_seconds(std::string_view option, std::string_view text, double least) {
  return milliseconds(static_cast<std::int64_t>(1000 * parse_number(option, text, least)));
}

void set(Options& options, std::string_view option, std::string_view value) {
  if (option == "--rounds") {
    options.rounds = static_cast<int>(parse_number(option, value, 1));
  } else if (option == "--seconds") {
    options.slice = parse_seconds(option, value, 0.01);
  } else if (option == "--warmup") {
    options.warmup = parse_seconds(option, value, 0);
  } else if (option == "--waiters") {
    options.waiters = static_cast<int>(parse_number(option, value, 0));
  } else if (option == "--json") {
    options.json_file = value;
  } else if (option == "--svg") {
    options.svg_file = value;
  } else {
    throw std::invalid_argument(fmt::format("unknown option {}", option));
  }
}

Options parse(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    if (option == "--help" || option == "-h") {
      options.help = true;
    } else if (option == "--quick") {
      options.rounds = 1;
      options.slice = 150ms;
      options.warmup = 0ms;
      options.waiters = 100;
      options.contenders = {2, 8};
    } else if (i + 1 == arguments.size()) {
      throw std::invalid_argument(fmt::format("{} is unknown or wants a value", option));
    } else {
      set(options, option, arguments[++i]);
    }
  }
  return options;
}

// --- Who takes part -----------------------------------------------------------------------------

constexpr const char* ours = "zkrecipes";
constexpr const char* ahead = "zkrecipes, look-ahead";
constexpr const char* blocking = "zkrecipes, blocking";
constexpr const char* raw = "raw st loop";
constexpr const char* raw_record = "raw st loop, record";
constexpr const char* raw_mt = "raw mt loop";
constexpr const char* curator = "Curator";
constexpr const char* kazoo = "kazoo";

/// The measures in which a contender takes part.
struct Parts {
  bool uncontended = true;
  bool contended = true;
  bool readers = true;
  int longest_queue = 0;  ///< That it drains. Each waiter is a thread in the libraries that have no other form.
};

struct Peer {
  std::string name;
  std::unique_ptr<bench::LockPeer> locks;
  Parts parts;
};

/// A program that takes part.
struct Program {
  std::string name;
  std::vector<std::string> command;  ///< Without the server and the folder there.
  const char* folder;
  Parts parts;
};

/// The loop of `lock_cycle` on libzookeeper_mt, which can do nothing else.
class MtLoop final : public bench::LockPeer {
 public:
  explicit MtLoop(std::vector<std::string> command) : loop_(std::move(command)) {}
  bench::Outcome cycle(milliseconds duration) override { return {loop_.run(duration), 1, 1, 0}; }
  bench::Outcome contend(int, milliseconds) override { throw std::logic_error(only); }
  bench::Outcome readers(int, milliseconds) override { throw std::logic_error(only); }
  void queue(int) override { throw std::logic_error(only); }
  bench::Outcome drain() override { throw std::logic_error(only); }

 private:
  static constexpr const char* only = "raw_mt only cycles";
  bench::Child loop_;
};

/// A folder that goes with this object.
class Scratch {
 public:
  Scratch() : path_(fs::temp_directory_path() / fmt::format("zkrecipes-bench-{}", ::getpid())) {
    fs::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool runs(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// The command of the Java program; nothing where Curator or a compiler is missing.
std::vector<std::string> curator_command(const Scratch& scratch) {
  const char* chosen = std::getenv("ZKRECIPES_JARS");
  const std::string jars = chosen != nullptr ? chosen : "/usr/share/java";
  std::string path = scratch.path().string();
  for (const char* jar : {"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
                          "guava", "failureaccess", "slf4j-api", "metrics-core", "snappy-java", "slf4j-nop"}) {
    const std::string file = fmt::format("{}/{}.jar", jars, jar);
    if (fs::exists(file)) path += ":" + file;
  }
  const std::string compile =
      fmt::format("javac -d '{}' -cp '{}' '{}/CuratorLocks.java'", scratch.path().string(), path, ZKR_BENCH_SOURCES);
  if (!fs::exists(jars + "/curator-recipes.jar") || !runs(compile)) return {};
  return {"/usr/bin/env", "java", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx512m", "-cp", path, "CuratorLocks"};
}

std::vector<std::string> kazoo_command() {
  const std::string path = fmt::format("PYTHONPATH={}", ZKR_BENCH_PYTHON);
  // A python3 that comes first in the path need not be the one that the system's packages are for.
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (!runs(fmt::format("{} {} -c 'import kazoo'", path, python))) continue;
    return {"/usr/bin/env", path, python, ZKR_BENCH_SOURCES "/kazoo_locks.py"};
  }
  return {};
}

std::vector<Program> find_programs(const Scratch& scratch, bench::Report& report) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  std::vector<Program> programs;
  const auto add = [&](Program program, const char* missing) {
    if (program.command.empty()) {
      report.notes.push_back(fmt::format("{}: left out, {}", program.name, missing));
    } else {
      programs.push_back(std::move(program));
    }
  };
  add({raw, {here / "raw_locks"}, "raw", {.longest_queue = 3'000}}, "");
  add({raw_record,
       {here / "raw_locks", "--record"},
       "record",
       {.uncontended = false, .contended = false, .readers = false, .longest_queue = 3'000}},
      "");
  std::vector<std::string> mt;
  if (fs::exists(here / "raw_mt")) mt.push_back(here / "raw_mt");
  add({raw_mt, std::move(mt), "mt", {.contended = false, .readers = false}},
      "not built: raw_mt, which needs libzookeeper_mt (scripts/setup.sh --bench)");
  add({curator, curator_command(scratch), "curator", {.longest_queue = 3'000}},
      "not installed: libcurator-recipes-java, default-jdk-headless");
  add({kazoo, kazoo_command(), "kazoo", {.longest_queue = 1'000}}, "not installed: python3-kazoo");
  return programs;
}

std::vector<Peer> make_peers(const std::string& server, const std::vector<Program>& programs) {
  const zkclient::Client client(server);
  const auto folder = [&](const char* name) {
    const zkclient::Path path = zkclient::Path("/bench") / name;
    client.ensure(path, zkclient::CreateMode::persistent);
    return path.str();
  };
  std::vector<Peer> peers;
  peers.push_back(
      {ours, bench::make_our_locks(server, folder("ours"), bench::Form::asynchronous), {.longest_queue = 10'000}});
  peers.push_back({ahead,
                   bench::make_our_locks(server, folder("ahead"), bench::Form::look_ahead),
                   {.uncontended = false, .readers = false}});
  peers.push_back({blocking, bench::make_our_locks(server, folder("blocking"), bench::Form::blocking), {}});
  for (const Program& program : programs) {
    std::vector<std::string> command = program.command;
    command.push_back(server);
    command.push_back(folder(program.folder));
    std::unique_ptr<bench::LockPeer> locks;
    if (program.name == raw_mt) {
      locks = std::make_unique<MtLoop>(std::move(command));
    } else {
      locks = std::make_unique<bench::ChildLockPeer>(std::move(command));
    }
    peers.push_back({program.name, std::move(locks), program.parts});
  }
  return peers;
}

/// With fsync, and a folder that ought to be on a disk: the usual place of a server's folder is in memory. No other
/// thread may run.
zktesting::Server make_durable_server() {
  ::setenv("TMPDIR", "/var/tmp", 0);  // Not over the user's own choice.
  zktesting::ServerOptions options;
  options.fsync = true;
  return zktesting::Server(options);
}

// --- The run ------------------------------------------------------------------------------------

constexpr const char* alone = "uncontended";
constexpr const char* alone_durably = "uncontended, fsync";

constexpr int long_queue = 1'000;      ///< From here on what a waiter costs is told and checked.
constexpr int least_hand_overs = 500;  // In drains.
constexpr double most_bytes = 600;     ///< That the server may send for a hand-over in a long queue.

std::optional<double> drain_target(int waiters) {
  if (waiters == 1'000) return 3.0;
  if (waiters == 3'000) return 9.0;
  return std::nullopt;
}

class Run {
 public:
  Run(const Options& options, zktesting::Server& server, std::vector<Peer> peers, bench::Report& report)
      : options_(options), server_(server), peers_(std::move(peers)), report_(report) {}

  /// False when two were inside at once.
  bool measure() {
    warm_up();
    compare_alone(alone);
    for (const int count : options_.contenders) {
      compare(fmt::format("{} contenders", count), &Parts::contended,
              [&](Peer& peer) { return peer.locks->contend(count, options_.slice); });
    }
    compare("8 readers", &Parts::readers, [&](Peer& peer) { return peer.locks->readers(8, options_.slice); });
    idle_memory_ = bench::resident_bytes();
    for (const int waiters : drains())
      drain(waiters);
    add_series();
    add_ratios();
    for (const auto& [name, value] : fairness_)
      report_.figures.push_back({name + ", least / most of the contenders", value});
    for (const auto& [name, value] : bytes_)
      report_.figures.push_back({name + ", bytes from the server per hand-over", value});
    for (const auto& [name, value] : memory_)
      report_.figures.push_back({name + ", bytes of memory per waiter, at most", value});
    check_bytes();
    return overlaps_ == 0;
  }

  /// The same on a server with fsync.
  void measure_durably() {
    warm_up();
    compare_alone(alone_durably);
    add_series();
    ratio(alone_durably, ours, curator, 1.7);
    ratio(alone_durably, ours, raw);
    ratio(alone_durably, ours, raw_mt);
    ratio(alone_durably, blocking, curator);
    ratio(alone_durably, ours, kazoo);
  }

 private:
  void warm_up() {
    const auto end = std::chrono::steady_clock::now() + options_.warmup;
    while (std::chrono::steady_clock::now() < end) {
      for (Peer& peer : peers_) {
        if (peer.parts.contended) (void)peer.locks->contend(2, 100ms);
      }
    }
  }

  std::vector<int> drains() const {
    std::vector<int> lengths = {10, 100, 1'000, 3'000, 10'000};
    std::erase_if(lengths, [&](int waiters) { return waiters > options_.waiters; });
    return lengths;
  }

  static std::string name_of(const std::string& what, const std::string& peer) { return what + ": " + peer; }

  void add(const std::string& name, const bench::Outcome& outcome) {
    const auto found = std::find_if(series_.begin(), series_.end(), [&](const auto& one) { return one.first == name; });
    bench::Series& series =
        found != series_.end() ? found->second : series_.emplace_back(name, bench::Series{name, {}}).second;
    series.samples.push_back(outcome.sample);
    if (outcome.overlaps == 0) return;
    overlaps_ += outcome.overlaps;
    report_.notes.push_back(fmt::format("{}: {} OVERLAPS", name, outcome.overlaps));
  }

  /// One slice of each contender per round, in turns.
  template <typename Work>
  void compare(const std::string& what, bool Parts::*part, Work work) {
    for (int round = 0; round < options_.rounds; ++round) {
      for (const std::size_t i : bench::order_of_round(round, peers_.size())) {
        Peer& peer = peers_[i];
        if (!(peer.parts.*part)) continue;
        const bench::Outcome outcome = work(peer);
        add(name_of(what, peer.name), outcome);
        if (part == &Parts::contended) {
          const double most = static_cast<double>(std::max<std::int64_t>(outcome.most, 1));
          fairness_[name_of(what, peer.name)] = static_cast<double>(outcome.least) / most;
        }
      }
    }
  }

  void compare_alone(const char* what) {
    compare(what, &Parts::uncontended, [&](Peer& peer) { return peer.locks->cycle(options_.slice); });
  }

  void drain(int waiters) {
    const std::string what = fmt::format("drain of {}", waiters);
    for (int round = 0; round < options_.rounds; ++round) {
      for (const std::size_t i : bench::order_of_round(round, peers_.size())) {
        if (waiters <= peers_[i].parts.longest_queue) drain(what, peers_[i], waiters);
      }
    }
  }

  // A short queue is drained many times: a few milliseconds after a pause tell how fast a machine wakes up.
  void drain(const std::string& what, Peer& peer, int waiters) {
    const std::string name = name_of(what, peer.name);
    const int times = std::max(1, least_hand_overs / waiters);
    bench::Outcome sum;
    std::uint64_t sent = 0;
    for (int i = 0; i < times; ++i) {
      peer.locks->queue(waiters);
      if (peer.name == ours && waiters >= long_queue) {  // The only one in this process.
        keep_most(memory_[name], static_cast<double>(bench::resident_bytes() - idle_memory_) / waiters);
      }
      const bench::SentBytes before = bench::bytes_sent_by(server_.port());
      const bench::Outcome outcome = peer.locks->drain();
      sent += bench::sent_between(before, bench::bytes_sent_by(server_.port()));
      sum.sample.cycles += outcome.sample.cycles;
      sum.sample.wall += outcome.sample.wall;
      sum.sample.cpu += outcome.sample.cpu;
      sum.overlaps += outcome.overlaps;
    }
    add(name, sum);
    keep_most(bytes_[name], static_cast<double>(sent) / (times * waiters));
  }

  static void keep_most(double& most, double value) { most = std::max(most, value); }

  void check_bytes() {
    for (const int waiters : drains()) {
      if (waiters < long_queue) continue;
      const std::string name = name_of(fmt::format("drain of {}", waiters), ours);
      const double bytes = bytes_.at(name);
      report_.notes.push_back(fmt::format("{}, {:.0f} bytes from the server per hand-over, at most {:.0f}: {}", name,
                                          bytes, most_bytes, bytes <= most_bytes ? "PASS" : "above target"));
    }
  }

  void add_series() {
    for (const auto& [name, series] : series_)
      report_.series.push_back(series);
  }

  const bench::Series* find(const std::string& name) const {
    const auto found = std::find_if(series_.begin(), series_.end(), [&](const auto& one) { return one.first == name; });
    return found != series_.end() ? &found->second : nullptr;
  }

  void ratio(const std::string& what, const char* contender, const char* reference, std::optional<double> target = {}) {
    const bench::Series* first = find(name_of(what, contender));
    const bench::Series* second = find(name_of(what, reference));
    if (first == nullptr || second == nullptr) return;
    bench::Ratio compared = bench::compare(*first, *second, target);
    compared.reference = reference;
    report_.ratios.push_back(std::move(compared));
  }

  void add_ratios() {
    ratio(alone, ours, curator, 1.9);
    ratio(alone, ours, raw, 0.9);
    ratio(alone, ours, raw_mt);
    ratio(alone, blocking, curator);
    ratio(alone, blocking, raw_mt);
    ratio(alone, ours, kazoo);
    for (const int count : options_.contenders) {
      const std::string what = fmt::format("{} contenders", count);
      const bool has_target = count == 8;
      ratio(what, ours, curator, has_target ? std::optional(1.5) : std::nullopt);
      ratio(what, ahead, curator, has_target ? std::optional(2.0) : std::nullopt);
      ratio(what, ours, kazoo);
      ratio(what, ours, raw);
      ratio(what, ahead, ours);
      ratio(what, blocking, curator);
      ratio(what, raw, curator);  // What is possible at all here.
    }
    ratio("8 readers", ours, curator, 2.0);
    ratio("8 readers", ours, kazoo);
    ratio("8 readers", ours, raw);
    ratio("8 readers", blocking, curator);
    ratio("8 readers", raw, curator);
    for (const int waiters : drains()) {
      const std::string what = fmt::format("drain of {}", waiters);
      ratio(what, ours, curator, drain_target(waiters));
      ratio(what, ours, kazoo);
      ratio(what, ours, raw);
      ratio(what, ours, raw_record);
      ratio(what, raw_record, curator);  // What is possible at all here.
    }
    const bench::Series* shorter = find(name_of("drain of 100", ours));
    const bench::Series* longest = find(name_of("drain of 10000", ours));
    if (shorter != nullptr && longest != nullptr) {
      report_.ratios.push_back(bench::compare(*longest, *shorter, 1 / 1.5));
    }
  }

  const Options& options_;
  zktesting::Server& server_;
  std::vector<Peer> peers_;
  bench::Report& report_;
  std::vector<std::pair<std::string, bench::Series>> series_;  // In the order of their first samples.
  std::map<std::string, double> fairness_;
  std::map<std::string, double> bytes_;
  std::map<std::string, double> memory_;
  std::int64_t idle_memory_ = 0;
  std::int64_t overlaps_ = 0;
};

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file);
}

int run(const Options& options) {
  bench::Report report;
  report.benchmark = "locks";
  report.setting = fmt::format("{} rounds of {} ms for each contender, server of our own, without fsync but where said",
                               options.rounds, options.slice.count());
  const Scratch scratch;
  const std::vector<Program> programs = find_programs(scratch, report);
  bool exclusive = false;
  {
    zktesting::Server server;
    Run all(options, server, make_peers(server.connect_string(), programs), report);
    exclusive = all.measure();
  }
  {
    zktesting::Server server = make_durable_server();
    report.notes.push_back(
        fmt::format("{}: the server wrote below {}", alone_durably, server.directory().parent_path().string()));
    Run(options, server, make_peers(server.connect_string(), programs), report).measure_durably();
  }
  fmt::print("{}", report.text());
  if (!options.json_file.empty()) write(options.json_file, report.json());
  if (!options.svg_file.empty()) write(options.svg_file, bench::svg_of(report));
  return exclusive ? 0 : 1;
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
    fmt::print(stderr, "locks: {}\n{}", error.what(), usage);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "locks: {}\n", error.what());
    return 1;
  }
}
