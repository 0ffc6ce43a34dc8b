// How long it takes until the next one leads, as ratios, beside Apache Curator's LeaderLatch; and what it costs to ask
// "do I lead?". See README.md.

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>
#include <zkrecipes/guardian.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "kept_log.hpp"
#include "statistics.hpp"

extern char** environ;

namespace {

using namespace std::chrono_literals;
using zkclient::Client;
using zkrecipes::Leadership;
using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    R"(election: how long until the next one leads, ours beside Curator's LeaderLatch

  --rounds N      resignations to measure, for each contender (30)
  --kills N       kills to measure, for each contender (3)
  --quick         one of each, whose figures mean nothing: does it work?
  --help

Starts a ZooKeeper server of its own, without fsync.
)";

constexpr auto long_session = 30s;
constexpr auto one_way = std::chrono::milliseconds(10);
constexpr auto short_session = std::chrono::milliseconds(4000);  // Of those who are killed.

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

std::string curator_classpath() {
  const char* given = std::getenv("ZKRECIPES_JARS");
  const std::string jars = given != nullptr ? given : "/usr/share/java";
  if (!std::filesystem::exists(jars + "/curator-recipes.jar")) return {};
  std::string path;
  for (const char* jar : {"curator-recipes", "curator-framework", "curator-client", "guava", "zookeeper"})
    path += jars + "/" + jar + ".jar:";
  return path;
}

/// A program that is told and tells, a line each; killed at the end if it was not before.
class Program {
 public:
  explicit Program(std::vector<std::string> command) {
    std::array<int, 2> input{};
    std::array<int, 2> output{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) throw std::bad_alloc();
    std::vector<char*> argv;
    for (std::string& argument : command)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    output_ = output[0];
    if (error != 0) throw std::runtime_error(command.front() + " does not start");
  }
  ~Program() {
    kill();
    ::close(input_);
    ::close(output_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void tell() const {
    if (::write(input_, "\n", 1) != 1) throw std::runtime_error("a program has ended");
  }
  std::string hear() const {
    std::string line;
    char byte = 0;
    while (::read(output_, &byte, 1) == 1) {
      if (byte == '\n') return line;
      line += byte;
    }
    throw std::runtime_error("a program has ended");
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  int output_ = -1;
};

/// Samples in microseconds.
struct Row {
  std::string name;
  std::vector<double> samples = {};
};

void print(const Row& row, const Row& reference) {
  const bench::Summary own = bench::summarize(row.samples);
  const bench::Summary other = bench::summarize(reference.samples);
  fmt::print("  {:<42} {:>9.2f} x   median {:>10.0f} us, quartiles {:.0f} to {:.0f}, {} samples\n", row.name,
             own.median / other.median, own.median, own.lower_quartile, own.upper_quartile, row.samples.size());
}

/// Microseconds of one of 5.
template <typename Operation>
double mean_of(const Operation& operation) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 5; ++i)
    operation();
  return microseconds(Clock::now() - begin) / 5;
}

/// The next leader's handler, after the first one's resign().
template <typename AnyElection>
double takeover(const Client& first, const Client& second, const std::string& path) {
  AnyElection leader(first, path);
  AnyElection next(second, path);
  const Leadership leadership = leader.campaign();
  auto told = std::make_shared<std::promise<Clock::time_point>>();
  std::future<Clock::time_point> when = told->get_future();
  auto kept = std::make_shared<std::optional<Leadership>>();
  next.async_campaign([told, kept](zkclient::Result<Leadership> result) {
    told->set_value(Clock::now());
    if (result) *kept = std::move(*result);
  });
  // Its requests have been answered when another of the same session's has; twice, since the second follows the first.
  for (int i = 0; i < 5; ++i)
    second.sync("/");
  const Clock::time_point begin = Clock::now();
  leader.resign();
  const double took = microseconds(when.get() - begin);
  next.resign();
  return took;
}

/// The next leader's handler, after the kill -9 of a process that leads on /hold.
double after_a_kill(const Client& client, std::vector<std::string> command) {
  Program holder(std::move(command));
  (void)holder.hear();
  zkrecipes::LeaderElection next(client, "/hold");
  auto told = std::async(std::launch::async, [&] {
    const Leadership leadership = next.campaign();
    const Clock::time_point now = Clock::now();
    return now;
  });
  while (next.candidates().size() < 2) {
  }
  const Clock::time_point begin = Clock::now();
  holder.kill();
  const double took = microseconds(told.get() - begin);
  next.resign();
  return took;
}

/// Leads on /hold until it is killed.
int hold(const std::string& hosts, bool guarded) {
  const Client client(hosts, {.session_timeout = short_session});
  std::optional<zkrecipes::Guardian> guardian;
  if (guarded) guardian.emplace(client, hosts);
  zkrecipes::LeaderElection election(client, "/hold");
  const Leadership leadership = election.campaign();
  std::cout << "leads" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  return EXIT_SUCCESS;
}

/// Nanoseconds of one question.
double cost_of_asking(const Client& client, int questions) {
  std::promise<double> answer;
  std::optional<zkrecipes::LeaderSelector> selector;
  const auto task = [&](const std::stop_token&, zkrecipes::SelectedLeadership&) {
    int yes = 0;
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < questions; ++i)
      yes += selector->is_leader() ? 1 : 0;
    const double total = microseconds(Clock::now() - begin) * 1000;
    answer.set_value(yes == questions ? total / questions : -1);
  };
  selector.emplace(client, "/selector", task, zkrecipes::LeaderSelectorOptions{.requeue = false});
  selector->start();
  return answer.get_future().get();
}

/// Those of Curator are missing if that is not installed.
std::vector<std::string> curator_command(const std::string& mode, const std::string& hosts) {
  const std::string classpath = curator_classpath();
  if (classpath.empty()) return {};
  return {"java", "-cp", classpath, CURATOR_TAKEOVER, mode, hosts, std::to_string(short_session.count())};
}

void compare_takeovers(const std::string& hosts, int rounds, const char* where) {
  const Client first(hosts, {.session_timeout = long_session});
  const Client second(hosts, {.session_timeout = long_session});
  std::optional<Program> curator;
  if (const auto command = curator_command("takeover", hosts); !command.empty()) {
    curator.emplace(command);
    (void)curator->hear();
  }
  const std::string written = first.create("/written-", "", {.mode = zkclient::CreateMode::ephemeral_sequential}).path;
  Row read{"one round trip, a read"};
  Row write{"one round trip, a write"};
  Row fair{"LeaderElection"};
  Row unfair{"UnfairLeaderElection"};
  Row latch{"Curator LeaderLatch"};
  for (int i = 0; i < rounds; ++i) {
    read.samples.push_back(mean_of([&] { (void)first.exists(written); }));
    write.samples.push_back(mean_of([&] { first.set(written, "x", zkclient::any_version); }));
    fair.samples.push_back(takeover<zkrecipes::LeaderElection>(first, second, "/fair"));
    unfair.samples.push_back(takeover<zkrecipes::UnfairLeaderElection>(first, second, "/unfair"));
    if (!curator) continue;
    curator->tell();
    latch.samples.push_back(std::stod(curator->hear()));
  }
  fmt::print("From resign() to the next leader's handler, in round trips of a write, {}\n", where);
  for (const Row* row : {&read, &write, &fair, &unfair, &latch})
    if (!row->samples.empty()) print(*row, write);
}

int run(int rounds, int kills) {
  const zktesting::Server server;
  const std::string hosts = server.connect_string();
  compare_takeovers(hosts, rounds, "on loopback");
  {
    // Long beside the changes of threads, which on loopback cost as much as the round trips that are to be counted.
    zktesting::Proxy network(hosts);
    network.delay(zktesting::Direction::both, one_way);
    const std::string where = fmt::format("over {} ms of network each way", one_way.count());
    compare_takeovers(network.connect_string(), rounds, where.c_str());
  }

  const Client first(hosts, {.session_timeout = long_session});
  Row killed{"LeaderElection"};
  Row guarded{"LeaderElection, with a guardian"};
  Row killed_latch{"Curator LeaderLatch"};
  for (int i = 0; i < kills; ++i) {
    killed.samples.push_back(after_a_kill(first, {"/proc/self/exe", "--hold", hosts}));
    guarded.samples.push_back(after_a_kill(first, {"/proc/self/exe", "--hold-guarded", hosts}));
    if (const auto command = curator_command("hold", hosts); !command.empty())
      killed_latch.samples.push_back(after_a_kill(first, command));
  }
  const Row timeout{"", {microseconds(short_session)}};
  fmt::print("From a leader's kill -9 to the next one's campaign() (a LeaderElection), in session timeouts\n");
  for (const Row* row : {&killed, &guarded, &killed_latch})
    if (!row->samples.empty()) print(*row, timeout);
  fmt::print("LeaderSelector::is_leader(): {:.0f} ns\n", cost_of_asking(first, 1'000'000));
  if (curator_classpath().empty()) fmt::print("Apache Curator is not installed: its rows are missing.\n");
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) try {
  const bench::KeptLog kept;
  ::setenv("ZKRECIPES_GUARDIAN", GUARDIAN, 0);  // The one that was just built.
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  int rounds = 30;
  int kills = 3;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&] {
      if (++i == arguments.size()) throw std::invalid_argument(argument + " wants a value");
      return arguments[i];
    };
    // Not for people: what runs in the processes that are killed.
    if (argument == "--hold") return hold(value(), false);
    if (argument == "--hold-guarded") return hold(value(), true);
    if (argument == "--rounds") {
      rounds = std::max(1, std::stoi(value()));
    } else if (argument == "--kills") {
      kills = std::max(1, std::stoi(value()));
    } else if (argument == "--quick") {
      rounds = kills = 1;
    } else if (argument == "--help") {
      std::cout << usage;
      return EXIT_SUCCESS;
    } else {
      throw std::invalid_argument("unknown option " + argument);
    }
  }
  return run(rounds, kills);
} catch (const std::invalid_argument& error) {
  std::cerr << "election: " << error.what() << "\n" << usage;
  return 2;
} catch (const std::exception& error) {
  std::cerr << "election: " << error.what() << "\n";
  return EXIT_FAILURE;
}
