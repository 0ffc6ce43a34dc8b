// One command under an uncontended lock: `zkr lock PATH -- true` beside `flock FILE true` and `etcdctl lock NAME true`.
// Then what a waiter costs that waits. See README.md.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>

#include "compare_peers.hpp"
#include "folder.hpp"

extern char** environ;

namespace {

using std::chrono::milliseconds;

constexpr const char* usage =
    R"(zkr: commands under a lock, a process each: zkr lock beside flock and etcdctl lock

)";
constexpr const char* our_row = "zkr lock";
constexpr const char* flock_row = "flock";
constexpr const char* etcd_row = "etcdctl lock";

using Command = std::vector<std::string>;

/// So no contender waits for a disk, as our server does not.
std::filesystem::path in_memory() {
  return std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                             : std::filesystem::temp_directory_path();
}

/// A process whose output nobody reads. It is ended with this object.
class Process {
 public:
  explicit Process(Command command) {
    posix_spawn_file_actions_t actions{};
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<char*> arguments;
    for (std::string& argument : command)
      arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const int error = ::posix_spawnp(&number_, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::system_error(error, std::generic_category(), command.front());
  }
  ~Process() {
    if (number_ < 0) return;
    ::kill(number_, SIGTERM);
    ::waitpid(number_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t number() const { return number_; }
  /// Waits for its end. User and system time, with that of the children that it has waited for.
  std::chrono::microseconds finish(const std::string& what) {
    int status = 0;
    rusage used{};
    while (::wait4(number_, &status, 0, &used) < 0 && errno == EINTR) {
    }
    number_ = -1;
    if (status != 0) throw std::runtime_error(what + " failed");
    const auto sum = [](const timeval& time) {
      return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    };
    return sum(used.ru_utime) + sum(used.ru_stime);
  }

 private:
  pid_t number_ = -1;
};

/// Runs a command, again and again.
class Runs final : public bench::Contender {
 public:
  explicit Runs(Command command) : command_(std::move(command)) { (void)Process(command_).finish(command_.front()); }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t count = 0;
    std::chrono::microseconds used{};
    for (; stopwatch.running(); ++count)
      used += Process(command_).finish(command_.front());
    bench::Sample sample = stopwatch.stop(count);
    sample.cpu = used;
    return sample;
  }

 private:
  Command command_;
};

// --- etcd -----------------------------------------------------------------------------------------

/// Ports that nobody listens at. Another program may take one before etcd does: it says so then.
std::vector<int> free_ports(std::size_t count) {
  std::vector<int> sockets;
  std::vector<int> ports;
  for (std::size_t i = 0; i < count; ++i) {
    sockets.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(sockets.back(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::system_error(errno, std::generic_category(), "a free port");
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets)
    ::close(socket);
  return ports;
}

std::string url(int port) { return fmt::format("http://127.0.0.1:{}", port); }

class Etcd {
 public:
  Etcd(const bench::Folder& folder, const std::vector<int>& ports)
      : endpoint_(url(ports[0])),
        server_({"etcd", "--name", "one", "--data-dir", (folder.path() / "etcd").string(), "--listen-client-urls",
                 url(ports[0]), "--advertise-client-urls", url(ports[0]), "--listen-peer-urls", url(ports[1]),
                 "--initial-advertise-peer-urls", url(ports[1]), "--initial-cluster", "one=" + url(ports[1])}) {
    for (int tries = 0;; ++tries) {
      try {
        (void)Process(command({"endpoint", "health"})).finish("etcd");
        return;
      } catch (const std::runtime_error&) {
        if (tries == 30) throw;
        std::this_thread::sleep_for(milliseconds(300));
      }
    }
  }

  [[nodiscard]] Command command(const Command& words) const {
    Command all{"env", "ETCDCTL_API=3", "etcdctl", "--endpoints", endpoint_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

 private:
  std::string endpoint_;
  Process server_;
};

/// Whether the shell would find it.
bool is_there(const std::string& program) {
  const char* const path = ::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const auto colon = folders.find(':');
    if (::access((folders.substr(0, colon) + "/" + program).c_str(), X_OK) == 0) return true;
    folders = colon == std::string::npos ? "" : folders.substr(colon + 1);
  }
  return false;
}

// --- What a waiter costs --------------------------------------------------------------------------

struct Cost {
  std::int64_t bytes = 0;  ///< Each process's share of its pages.
  int threads = 0;
  int processes = 0;
};

void add_cost(pid_t process, Cost& cost) {
  const std::string folder = fmt::format("/proc/{}/", process);
  ++cost.processes;
  std::string word;
  for (std::ifstream pages(folder + "smaps_rollup"); pages >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "Pss:" && pages >> kilobytes) cost.bytes += kilobytes * 1024;
  }
  for (std::ifstream status(folder + "status"); status >> word;) {
    int threads = 0;
    if (word == "Threads:" && status >> threads) cost.threads += threads;
  }
  for (const auto& task : std::filesystem::directory_iterator(folder + "task")) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;)
      add_cost(child, cost);
  }
}

/// What `waiter` costs while `holder` holds what both want.
Cost cost_of_waiting(const Command& holder, const Command& waiter) {
  constexpr milliseconds to_settle{3000};
  const Process holds(holder);
  std::this_thread::sleep_for(to_settle);
  const Process waits(waiter);
  std::this_thread::sleep_for(to_settle);
  Cost cost;
  add_cost(waits.number(), cost);
  return cost;
}

void tell_cost(bench::Report& report, const std::string& row, const Cost& cost) {
  report.figures.push_back({row + " that waits: KiB", static_cast<double>(cost.bytes) / 1024});
  report.figures.push_back({row + " that waits: threads", static_cast<double>(cost.threads)});
  report.figures.push_back({row + " that waits: processes", static_cast<double>(cost.processes)});
}

// --- The run --------------------------------------------------------------------------------------

bench::Report run(const bench::RunOptions& options) {
  bench::Comparison comparison(options);
  const bench::Folder folder(in_memory());
  const auto ours = [&](const std::string& path, const Command& words) {
    Command all{ZKR, "--server", comparison.server(), "lock", path, "--"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  const auto file = [&](const Command& words) {
    Command all{"flock", (folder.path() / "lock").string()};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  const bool with_etcd = !options.alone && is_there("etcd") && is_there("etcdctl");
  std::unique_ptr<Etcd> etcd;
  if (with_etcd) etcd = std::make_unique<Etcd>(folder, free_ports(2));

  comparison.add(our_row, std::make_unique<Runs>(ours(comparison.add_parent("once"), {"true"})));
  comparison.add(flock_row, std::make_unique<Runs>(file({"true"})));
  if (etcd) comparison.add(etcd_row, std::make_unique<Runs>(etcd->command({"lock", "once", "true"})));
  comparison.measure();
  comparison.compare(our_row, etcd_row, 1.0);
  comparison.compare(our_row, flock_row, {});
  bench::Report report = comparison.report("zkr", "an uncontended lock around `true`, a process each");
  if (!with_etcd) report.notes.emplace_back("etcd is not installed: packages etcd-server and etcd-client.");

  const Command sleep{"sleep", "60"};
  const std::string held = comparison.add_parent("held");
  tell_cost(report, our_row, cost_of_waiting(ours(held, sleep), ours(held, {"true"})));
  tell_cost(report, flock_row, cost_of_waiting(file(sleep), file({"true"})));
  if (etcd) {
    Command holder = sleep;
    holder.insert(holder.begin(), {"lock", "held"});
    tell_cost(report, etcd_row, cost_of_waiting(etcd->command(holder), etcd->command({"lock", "held", "true"})));
  }
  return report;
}

}  // namespace

int main(int argc, char** argv) { return bench::compare_main("zkr", usage, {argv + 1, argv + argc}, run); }
