#include "zktesting/detail/server_process.hpp"

#include <fmt/format.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "zktesting/detail/java.hpp"
#include "zktesting/detail/socket.hpp"

namespace zktesting::detail {
namespace {

namespace fs = std::filesystem;

constexpr auto stop_timeout = std::chrono::seconds(10);
constexpr auto kill_timeout = std::chrono::seconds(30);
constexpr auto pause_timeout = std::chrono::seconds(10);
constexpr std::size_t log_tail_lines = 40;

// In memory, and with room for some servers: containers often have 64 MB there.
bool is_spacious_tmpfs(const char* path) {
  constexpr long tmpfs_magic = 0x01021994;
  constexpr unsigned long long room = 512ULL << 20;
  struct statfs info {};
  return ::statfs(path, &info) == 0 && static_cast<long>(info.f_type) == tmpfs_magic &&
         info.f_bavail * static_cast<unsigned long long>(info.f_bsize) >= room;
}

fs::path base_directory() {
  if (const char* chosen = std::getenv("TMPDIR"); chosen != nullptr && *chosen != '\0') {
    return fs::absolute(chosen);
  }
  if (is_spacious_tmpfs("/dev/shm") && ::access("/dev/shm", W_OK | X_OK) == 0) {
    return "/dev/shm";
  }
  return "/tmp";
}

fs::path make_directory() {
  std::string pattern = base_directory() / "zktesting-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw Error(errno_text("cannot create a folder " + pattern + " (TMPDIR chooses the place)"));
  }
  return pattern;
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string tail(const std::string& text, std::size_t lines) {
  std::size_t begin = text.size();
  for (std::size_t seen = 0; begin > 0; --begin) {
    if (text[begin - 1] == '\n' && begin != text.size() && ++seen == lines) {
      break;
    }
  }
  return text.substr(begin);
}

/// Whether every thread of a process is stopped.
bool all_threads_stopped(pid_t pid) {
  std::error_code error;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    const std::string stat = read_file(task.path() / "stat");
    const auto name_end = stat.rfind(')');
    if (name_end != std::string::npos && stat.compare(name_end, 3, ") T") != 0) {
      return false;
    }
  }
  return !error;
}

void check_line(std::string_view what, std::string_view text) {
  if (text.empty() || text.find_first_of("\r\n") != std::string_view::npos) {
    throw Error(fmt::format("server options: {} \"{}\" is empty or has a line break", what, text));
  }
}

}  // namespace

void validate(const ServerOptions& options) {
  const auto in_range = [](std::string_view name, std::chrono::milliseconds value, long least) {
    if (value.count() < least || value.count() > 2'000'000'000) {
      throw Error(fmt::format("server options: {} = {} ms is out of range", name, value.count()));
    }
  };
  in_range("tick", options.tick, 10);
  in_range("min_session_timeout", options.min_session_timeout, 1);
  in_range("max_session_timeout", options.max_session_timeout, 1);
  in_range("container_check_interval", options.container_check_interval, 1);
  in_range("start_timeout", options.start_timeout, 1);
  if (options.min_session_timeout > options.max_session_timeout) {
    throw Error("server options: min_session_timeout is greater than max_session_timeout");
  }
  static const std::set<std::string_view> ours{
      "clientPort",       "clientPortAddress",      "dataDir", "dataLogDir", "dynamicConfigFile",
      "secureClientPort", "secureClientPortAddress"};
  for (const auto& [key, value] : options.config) {
    check_line("config key", key);
    check_line("config value", value);
    if (ours.contains(key) || key.starts_with("server.")) {
      throw Error(fmt::format("server options: {} is not to be set by the user", key));
    }
  }
  for (const auto& flag : options.jvm_flags) {
    if (!flag.starts_with('-')) {
      throw Error(fmt::format("server options: \"{}\" is not a flag of java", flag));
    }
  }
}

std::string ask_server_or_throw(const Endpoint& endpoint, std::string_view word, Deadline deadline) {
  Socket socket(endpoint, deadline);
  socket.write(word, deadline);
  return socket.read_all(deadline);
}

std::optional<std::string> ask_server(const Endpoint& endpoint, std::string_view word, Deadline deadline) {
  try {
    return ask_server_or_throw(endpoint, word, deadline);
  } catch (const Error&) {
    return std::nullopt;
  }
}

ServerProcess::ServerProcess(ServerPlan plan) : plan_(std::move(plan)) {
  // Look for java before there is anything to clean up.
  std::ignore = java_command(plan_.options, "/");
  directory_ = make_directory();
  try {
    auto command = java_command(plan_.options, directory_ / "tmp");
    command.push_back(directory_ / "zoo.cfg");
    fs::create_directory(directory_ / "tmp");
    guard_ = std::make_unique<Guard>(directory_, command);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
    throw;
  }
}

std::map<std::string, std::string> ServerProcess::configuration() const {
  const ServerOptions& options = plan_.options;
  const auto number = [](std::chrono::milliseconds value) { return std::to_string(value.count()); };
  std::map<std::string, std::string> result{
      {"tickTime", number(options.tick)},
      {"minSessionTimeout", number(options.min_session_timeout)},
      {"maxSessionTimeout", number(options.max_session_timeout)},
      {"maxClientCnxns", "0"},
      {"admin.enableServer", "false"},
      {"4lw.commands.whitelist", "*"},
      {"reconfigEnabled", "true"},
      {"standaloneEnabled", "true"},
      {"extendedTypesEnabled", "true"},
  };
  for (const auto& [key, value] : options.config) {
    result[key] = value;
  }
  result["dataDir"] = directory_ / "data";
  result["clientPort"] = std::to_string(plan_.endpoint.port);
  result["clientPortAddress"] = plan_.endpoint.address;
  if (plan_.secure_port != 0) {
    result["secureClientPort"] = std::to_string(plan_.secure_port);
    result["secureClientPortAddress"] = plan_.endpoint.address;
    result["serverCnxnFactory"] = "org.apache.zookeeper.server.NettyServerCnxnFactory";
  }
  for (const auto& [key, value] : plan_.members) {
    result[key] = value;
  }
  return result;
}

void ServerProcess::write_files() {
  // A server with dynamic reconfiguration rewrites its zoo.cfg: what is there is the truth.
  if (fs::exists(directory_ / "zoo.cfg")) {
    return;
  }
  fs::create_directories(directory_ / "data");
  if (plan_.id != 0) {
    std::ofstream(directory_ / "data" / "myid") << plan_.id << '\n';
  }
  std::ofstream file(directory_ / "zoo.cfg");
  for (const auto& [key, value] : configuration()) {
    file << key << '=' << value << '\n';
  }
  if (!file.flush()) {
    throw Error("cannot write " + (directory_ / "zoo.cfg").string());
  }
}

ServerProcess::~ServerProcess() { show_log_if_it_failed(std::uncaught_exceptions() > exceptions_); }

std::string ServerProcess::ending() const {
  return died() ? fmt::format(", which has ended by itself with status {}", guard_->exit_status()) : "";
}

void ServerProcess::show_log_if_it_failed(bool failing) const noexcept {
  try {
    if (!died() && !(failing && wanted_)) return;
    const std::string text = fmt::format("zktesting: the end of the log of the server on {}{}:\n{}\n",
                                         plan_.endpoint.text(), ending(), end_of_log());
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
  } catch (const std::exception&) {
    // The exception that is on its way matters more.
  }
}

void ServerProcess::launch() {
  const std::lock_guard lock(mutex_);
  if (!guard_->running()) {
    write_files();
    guard_->launch();
    paused_ = false;
    wanted_ = true;
  }
}

void ServerProcess::await_ready() {
  const std::string_view sign = plan_.id == 0 ? "Mode:" : "";
  const std::lock_guard lock(mutex_);
  const auto started = Clock::now();
  for (;;) {
    // The wait between two probes is a wait for the process's end.
    if (guard_->wait_for_exit(Clock::now() + std::chrono::milliseconds(10))) {
      fail(fmt::format("the server on {} ended during its start with status {}", plan_.endpoint.text(),
                       guard_->exit_status()));
    }
    const auto asked = Clock::now();
    const auto answer = ask_server(plan_.endpoint, "srvr", asked + probe_timeout(asked - started));
    if (answer && !answer->empty() && answer->find(sign) != std::string::npos) {
      return;
    }
    if (Clock::now() - started >= plan_.options.start_timeout) {
      fail(fmt::format("the server on {} does not serve after {} ms: {}", plan_.endpoint.text(),
                       plan_.options.start_timeout.count(), answer.value_or("it does not answer")));
    }
  }
}

void ServerProcess::fail(const std::string& what) const {
  throw Error(fmt::format("{}; the end of its log:\n{}", what, end_of_log()));
}

void ServerProcess::stop() {
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  guard_->signal(SIGTERM);
  guard_->signal(SIGCONT);  // a paused process takes the SIGTERM only then
  if (!guard_->wait_for_exit(Clock::now() + stop_timeout)) {
    guard_->signal(SIGKILL);
    if (!guard_->wait_for_exit(Clock::now() + kill_timeout)) {
      throw Error(fmt::format("process {} survives a SIGKILL", guard_->pid()));
    }
  }
}

void ServerProcess::kill() {
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  guard_->signal(SIGKILL);
  if (!guard_->wait_for_exit(Clock::now() + kill_timeout)) {
    throw Error(fmt::format("process {} survives a SIGKILL", guard_->pid()));
  }
}

void ServerProcess::pause() {
  const std::lock_guard lock(mutex_);
  const pid_t pid = guard_->pid();
  if (pid == 0) {
    throw Error(fmt::format("the server on {} does not run: cannot pause it", plan_.endpoint.text()));
  }
  guard_->signal(SIGSTOP);
  paused_ = true;
  // Each thread stops when it notices; until then it could still answer a client.
  const Deadline deadline = Clock::now() + pause_timeout;
  while (!all_threads_stopped(pid)) {
    if (Clock::now() > deadline) {
      throw Error(fmt::format("process {} does not stop", pid));
    }
    std::this_thread::yield();
  }
}

void ServerProcess::resume() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  guard_->signal(SIGCONT);
}

void ServerProcess::wipe() {
  kill();
  const std::lock_guard lock(mutex_);
  for (const auto& entry : fs::directory_iterator(directory_)) {
    const auto name = entry.path().filename();
    if (name == "data" || name.string().starts_with("zoo.cfg")) {
      fs::remove_all(entry.path());
    }
  }
}

bool ServerProcess::running() const {
  const std::lock_guard lock(mutex_);
  return guard_->running();
}

bool ServerProcess::paused() const {
  const std::lock_guard lock(mutex_);
  return paused_ && guard_->running();
}

bool ServerProcess::died() const {
  const std::lock_guard lock(mutex_);
  return wanted_ && !guard_->running();
}

std::string ServerProcess::end_of_log() const { return tail(log(), log_tail_lines); }

int ServerProcess::pid() const {
  const std::lock_guard lock(mutex_);
  return guard_->pid();
}

std::string ServerProcess::log() const { return read_file(directory_ / "log"); }

}  // namespace zktesting::detail
