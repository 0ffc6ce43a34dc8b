#include "tools/guardian/guardian.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "tools/guardian/connection.hpp"
#include "tools/guardian/control_group.hpp"
#include "tools/guardian/orders.hpp"

// ZooKeeper's protocol: frames of a 4-byte length and a body, numbers big-endian. Two requests are all it takes: the
// handshake that resumes a session, and the one that closes it.

namespace guardian {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// --- By itself ----------------------------------------------------------------------------------------------------

/// Of a run of `zkr` that the owner is part of: the guardian of that run would kill this one with the rest, before this
/// one has done its work.
void shed_limit() {
  rlimit locks{};
  if (::getrlimit(RLIMIT_LOCKS, &locks) != 0) return;
  locks.rlim_cur = locks.rlim_max;
  ::setrlimit(RLIMIT_LOCKS, &locks);
}

/// For the same reason. Others read the bytes where they lie, not `environ`. All other variables stay: OpenSSL and the
/// resolver read some of them when a server is looked for.
void shed_mark() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with(mark_variable))
      std::memset(*entry + mark_variable.size(), 0, text.size() - mark_variable.size());
  }
}

/// The run that the owner is part of sends TERM to all its processes when the owner is gone, and so does a supervisor:
/// this one has its work to do just then.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

// --- From the owner -----------------------------------------------------------------------------------------------

int pidfd_of(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

/// The processes of `zkr`. A front whose keeper is gone ends what runs, but not while it is stopped, with its command.
class Owners {
 public:
  void know(const Orders& orders) {
    if (keeper_ < 0 && orders.keeper > 0) keeper_ = pidfd_of(orders.keeper);
    if (front_ < 0 && orders.front > 0) front_ = pidfd_of(orders.front);
  }
  /// Returns when there is something to be read.
  void watch(int socket) {
    constexpr int pause_ms = 1000;  // It may be stopped once more.
    while (true) {
      std::array<pollfd, 2> polled{{{socket, POLLIN, 0}, {keeper_gone_ ? -1 : keeper_, POLLIN, 0}}};
      ::poll(polled.data(), polled.size(), keeper_gone_ ? pause_ms : -1);
      if (polled[0].revents != 0) return;
      keeper_gone_ = keeper_gone_ || polled[1].revents != 0;
      if (keeper_gone_) ::syscall(SYS_pidfd_send_signal, front_, SIGCONT, nullptr, 0);
    }
  }

 private:
  int keeper_ = -1;
  int front_ = -1;
  bool keeper_gone_ = false;
};

/// Until the owner bids farewell or is gone.
Orders listen_to_owner(int socket) {
  Orders orders;
  Owners owners;
  std::string pending;
  std::array<char, 4096> buffer{};
  while (!orders.farewell) {
    owners.know(orders);
    owners.watch(socket);
    const ssize_t count = ::read(socket, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    pending.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      obey(pending.substr(0, end), orders);
      pending.erase(0, end + 1);
    }
  }
  return orders;
}

// --- What the owner has started -----------------------------------------------------------------------------------

std::string text_of(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; file >= 0 && (size = ::read(file, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(size));
  if (file >= 0) ::close(file);
  return text;
}

/// The variable holds words, with a space between them.
bool is_marked(const std::string& environment, const std::string& mark) {
  const std::size_t equals = mark.find('=');
  const std::string name = mark.substr(0, equals + 1);
  const std::string word = mark.substr(equals + 1);
  if (environment.find(word) == std::string::npos) return false;
  std::istringstream entries(environment);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (!entry.starts_with(name)) continue;
    std::istringstream words(entry.substr(name.size()));
    if (std::find(std::istream_iterator<std::string>(words), {}, word) != std::istream_iterator<std::string>())
      return true;
  }
  return false;
}

/// A process whose first thread has ended has an environment for as long as another one runs: the threads tell.
std::string environment_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::string text = text_of(folder + "/environ");
  if (!text.empty()) return text;
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir((folder + "/task").c_str()), &::closedir);
  while (const dirent* entry = threads && text.empty() ? ::readdir(threads.get()) : nullptr) {
    if (entry->d_name[0] != '.') text = text_of(folder + "/task/" + entry->d_name + "/environ");
  }
  return text;
}

/// Each process may read the limits of each, while the environment of one that guards its memory is a secret of root's.
bool has_limit(pid_t process, std::uint64_t limit) {
  constexpr std::string_view title = "Max file locks";
  const std::string text = text_of("/proc/" + std::to_string(process) + "/limits");
  const std::size_t line = text.find(title);
  if (line == std::string::npos) return false;
  std::istringstream numbers(text.substr(line + title.size()));
  std::uint64_t soft = 0;
  return numbers >> soft && soft == limit;
}

bool thread_has_ended(const std::string& folder) {
  const std::string stat = text_of(folder + "/stat");
  const std::size_t state = stat.rfind(") ");  // Behind the name, which may hold anything.
  return state == std::string::npos || stat[state + 2] == 'Z' || stat[state + 2] == 'X';
}

/// No thread of it runs any more: it waits for its parent, and has its limits still.
bool has_ended(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  if (!thread_has_ended(folder)) return false;
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir((folder + "/task").c_str()), &::closedir);
  while (const dirent* entry = threads ? ::readdir(threads.get()) : nullptr) {
    if (entry->d_name[0] != '.' && !thread_has_ended(folder + "/task/" + entry->d_name)) return false;
  }
  return true;
}

bool is_to_be_killed(pid_t process, const Orders& orders) {
  if (!orders.mark.empty() && is_marked(environment_of(process), orders.mark)) return true;
  return orders.limit != 0 && has_limit(process, orders.limit) && !has_ended(process);
}

/// Pinned before it is looked at: so nothing else is killed than what was seen.
bool kill_if_marked(pid_t process, const Orders& orders) {
  const int pinned = pidfd_of(process);
  if (pinned < 0) return false;
  const bool marked = is_to_be_killed(process, orders);
  if (marked) ::syscall(SYS_pidfd_send_signal, pinned, SIGKILL, nullptr, 0);
  ::close(pinned);
  return marked;
}

/// False: there was none. One that has ended has no environment any more.
bool kill_marked(const Orders& orders) {
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), &::closedir);
  bool found = false;
  while (const dirent* entry = processes ? ::readdir(processes.get()) : nullptr) {
    const pid_t process = std::atoi(entry->d_name);
    if (process > 0 && kill_if_marked(process, orders)) found = true;
  }
  return found;
}

/// False: there was nothing in it, or it cannot be killed as one.
bool kill_cgroup(const std::string& folder) {
  const int file = ::open((folder + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool populated = text_of(folder + "/cgroup.events").find("populated 1") != std::string::npos;
  const bool killed = populated && ::write(file, "1", 1) == 1;
  ::close(file);
  return killed;
}

/// Until nothing of it is left: what is forked while we look is found the next time.
void end_processes(const Orders& orders, Clock::time_point end) {
  const auto kill_them = [&orders] {
    const bool in_cgroup = !orders.cgroup.empty() && kill_cgroup(orders.cgroup);
    const bool marked = kill_marked(orders);
    return in_cgroup || marked;
  };
  for (auto pause = 1ms; kill_them() && Clock::now() < end; pause = std::min(pause * 2, 100ms))
    std::this_thread::sleep_for(pause);  // Some may not be killed by us, or are long in dying.
  if (!orders.cgroup.empty()) remove_control_group(orders.cgroup);
}

// --- To a server --------------------------------------------------------------------------------------------------

template <typename T>
void put(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> shift & 0xff);
}

std::string framed(const std::string& body) {
  std::string frame;
  put(frame, static_cast<std::int32_t>(body.size()));
  return frame + body;
}

std::string handshake(const Session& session) {
  std::string body;
  put(body, std::int32_t{0});  // Protocol version.
  put(body, std::int64_t{0});  // Last transaction seen.
  put(body, session.timeout_ms);
  put(body, session.id);
  put(body, static_cast<std::int32_t>(session.password.size()));
  body += session.password;
  put(body, std::int8_t{0});  // Not read-only.
  return framed(body);
}

std::string close_request() {
  std::string body;
  put(body, std::int32_t{1});    // The request's number.
  put(body, std::int32_t{-11});  // Close the session.
  return framed(body);
}

/// True when the session is over.
bool close_session(const addrinfo& address, const Session& session, const std::optional<Tls>& tls) {
  const auto patience = tls ? 5s : 1s;  // The first handshake of a server may take long.
  Connection connection(address, tls, Clock::now() + patience);
  if (!connection.good() || !connection.send(handshake(session))) return false;
  const std::optional<std::string> answer = connection.receive();
  if (!answer || answer->size() < 16) return false;
  const std::string_view granted_timeout = std::string_view(*answer).substr(4, 4);
  if (granted_timeout == std::string_view("\0\0\0\0", 4)) return true;  // The server does not know it any more.
  return connection.send(close_request()) && connection.receive().has_value();
}

bool close_session(const Server& server, const Session& session, const std::optional<Tls>& tls) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (close_session(*address, session, tls)) return true;
  }
  return false;
}

}  // namespace

int guard(int socket, int claim) {
  block_signals();
  ::setsid();
  shed_limit();
  shed_mark();
  ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that are broken.
  // A password lies in our memory.
  ::prctl(PR_SET_DUMPABLE, 0);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);

  const Orders orders = listen_to_owner(socket);
  if (orders.farewell) return 0;
  constexpr auto without_session = 10s;
  const auto timeout = orders.session ? std::chrono::milliseconds(orders.session->timeout_ms) : without_session;
  const Clock::time_point end = Clock::now() + timeout;
  end_processes(orders, end);
  if (claim >= 0) ::close(claim);
  if (!orders.session) return 0;
  while (Clock::now() < end) {
    const auto closed = [&](const Server& server) { return close_session(server, *orders.session, orders.tls); };
    if (std::any_of(orders.servers.begin(), orders.servers.end(), closed)) return 0;
    std::this_thread::sleep_for(50ms);  // No server answers: a pause before the next round.
  }
  return 1;
}

}  // namespace guardian
