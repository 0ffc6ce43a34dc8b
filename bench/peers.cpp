#include "peers.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>

#include "child.hpp"

namespace bench {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

std::string find_jars() {
  const char* chosen = std::getenv("ZKRECIPES_JARS");
  const std::string jars = chosen != nullptr ? chosen : "/usr/share/java";
  if (!fs::exists(jars + "/curator-recipes.jar")) return {};
  std::string path;
  for (const char* jar : {"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
                          "guava", "failureaccess", "slf4j-api", "metrics-core", "snappy-java"}) {
    const std::string file = fmt::format("{}/{}.jar", jars, jar);
    if (fs::exists(file)) path += ":" + file;
  }
  return path;
}

double parse_number(const std::string& option, const std::string& text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) || value > most) {
    throw std::invalid_argument(fmt::format("{} wants a number, not \"{}\"", option, text));
  }
  return value;
}

}  // namespace

Peers::Peers(bool none) {
  std::string pattern = (fs::temp_directory_path() / "zkrecipes-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
  if (none) return;
  if (const std::string jars = find_jars(); !jars.empty()) {
    const std::string path = folder_ + jars;
    if (succeeds(fmt::format("javac -d '{}' -cp '{}' '{}'/Curator*.java", folder_, path, ZKR_BENCH_PEERS))) {
      classpath_ = path;
    }
  }
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (python_.empty() && succeeds(fmt::format("{} -c 'import kazoo'", python))) python_ = python;
  }
  if (classpath_.empty()) notes.emplace_back("Curator: skipped (libcurator-recipes-java, default-jdk-headless)");
  if (python_.empty()) notes.emplace_back("kazoo: skipped (python3-kazoo)");
}

Peers::~Peers() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::unique_ptr<Contender> Peers::curator(const std::vector<std::string>& arguments) {
  if (classpath_.empty()) return nullptr;
  std::vector<std::string> command = {"java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", classpath_, "CuratorBench"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return std::make_unique<Child>(std::move(command));
}

std::unique_ptr<Child> Peers::kazoo(const std::vector<std::string>& arguments) {
  if (python_.empty()) return nullptr;
  std::vector<std::string> command = {python_, ZKR_BENCH_PEERS "/kazoo_bench.py"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return std::make_unique<Child>(std::move(command));
}

const char* const run_options_usage = R"(  --rounds N      rounds to measure, each with one slice of every contender (7)
  --seconds S     length of a slice (2)
  --warmup S      of every contender, before the first round (4)
  --alone         without the other libraries
  --json FILE     write the result there as well
  --quick         a run of a few seconds whose figures mean nothing: does it work?
  --help

Starts a ZooKeeper server of its own, without fsync, unless ZKRECIPES_SERVER=host:port names one.
)";

RunOptions parse_run_options(const std::vector<std::string>& arguments) {
  RunOptions options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& option = arguments[i];
    if (option == "--help" || option == "-h") {
      options.help = true;
      continue;
    }
    if (option == "--alone") {
      options.alone = true;
      continue;
    }
    if (option == "--quick") {
      options.rounds = 1;
      options.slice = milliseconds(200);
      options.warmup = milliseconds(0);
      continue;
    }
    const std::string value = i + 1 < arguments.size() ? arguments[++i] : "";
    const auto time = [&] { return milliseconds(static_cast<int>(1000 * parse_number(option, value, 0, 3600))); };
    if (option == "--rounds") {
      options.rounds = static_cast<int>(parse_number(option, value, 1, 1000));
    } else if (option == "--seconds") {
      options.slice = time();
    } else if (option == "--warmup") {
      options.warmup = time();
    } else if (option == "--pairs") {
      options.pairs = static_cast<int>(parse_number(option, value, 1, 100));
    } else if (option == "--backlog") {
      options.backlog = static_cast<int>(parse_number(option, value, 0, 1'000'000));
    } else if (option == "--nodes") {
      options.nodes = static_cast<int>(parse_number(option, value, 1, 5'000));
    } else if (option == "--json") {
      options.json_file = value;
    } else {
      throw std::invalid_argument(fmt::format("unknown option {}", option));
    }
  }
  return options;
}

}  // namespace bench
