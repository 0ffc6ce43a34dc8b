#include "tools/zkr/doctor/server_probe.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <future>
#include <memory>

#include <fmt/format.h>

#include "tools/zkr/run/descriptor.hpp"
#include "zkclient/detail/servers/hosts.hpp"

namespace zkr {
namespace {

using Clock = std::chrono::steady_clock;

struct Addresses {
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list{nullptr, ::freeaddrinfo};
  std::string trouble;
};

Addresses resolve(const ServerName& server, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(server.host.c_str(), std::to_string(port).c_str(), &hints, &list);
  Addresses addresses;
  if (error != 0) {
    addresses.trouble = ::gai_strerror(error);
  } else {
    addresses.list.reset(list);
  }
  return addresses;
}

bool wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd polled{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

/// Connected to the first address that accepts; closed: none does, and `trouble` says why.
Descriptor connect_to_any(const addrinfo* addresses, Clock::time_point deadline, std::string& trouble) {
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) {
    Descriptor socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int error = 0;
    if (::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      error = ETIMEDOUT;
      if (wait_for(socket.get(), POLLOUT, deadline)) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return socket;
    trouble = std::strerror(error);
  }
  return {};
}

/// Sends `question`, and reads up to the end, or to the deadline.
std::string ask(const Descriptor& socket, std::string_view question, Clock::time_point deadline) {
  constexpr std::size_t limit = 16 << 20;
  std::string answer;
  if (::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) return answer;
  char buffer[16384];
  while (answer.size() < limit && wait_for(socket.get(), POLLIN, deadline)) {
    const ssize_t size = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (size <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(size));
  }
  return answer;
}

std::string ask_again(const addrinfo* addresses, std::string_view question, const ProbeOptions& options) {
  const auto deadline = Clock::now() + options.patience;
  std::string trouble;
  const Descriptor socket = connect_to_any(addresses, deadline, trouble);
  return socket ? ask(socket, question, deadline) : "";
}

std::optional<ServerState> ask_admin_server(const ServerName& server, const ProbeOptions& options) {
  const Addresses addresses = resolve(server, options.admin_port);
  if (!addresses.list) return std::nullopt;
  const std::string question = question_for_admin_server({server.host, options.admin_port});
  const std::string answer = ask_again(addresses.list.get(), question, options);
  const std::size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? std::nullopt : parse_stats(std::string_view(answer).substr(body + 4));
}

// " /10.0.0.8:40000[1](queued=0,recved=12,sent=12,sid=0x1000a2b3c0001,lop=PING,...)"
std::optional<ConnectedSessions> parse_cons(std::string_view answer) {
  if (answer.empty() || answer.find("whitelist") != std::string_view::npos) return std::nullopt;
  ConnectedSessions sessions;
  constexpr std::string_view mark = "sid=0x";
  for (std::size_t at = answer.find(mark); at != std::string_view::npos; at = answer.find(mark, at + 1)) {
    std::uint64_t session = 0;
    std::from_chars(answer.data() + at + mark.size(), answer.data() + answer.size(), session, 16);
    const std::string_view before = answer.substr(0, at);
    const std::size_t begin = before.rfind('/') + 1;
    sessions[static_cast<std::int64_t>(session)] = before.substr(begin, before.rfind('[') - begin);
  }
  return sessions;
}

// "..., sid=0x1000a2b3c0001,lop=SESS,est=1701264000123,to=30000,..."
std::optional<std::chrono::system_clock::time_point> parse_established(std::string_view answer, std::int64_t session) {
  const std::size_t at = answer.find(fmt::format("sid=0x{:x},", static_cast<std::uint64_t>(session)));
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view line = answer.substr(at, answer.find(')', at) - at);
  constexpr std::string_view mark = "est=";
  const std::size_t number = line.find(mark);
  std::int64_t ms = 0;
  if (number == std::string_view::npos) return std::nullopt;
  std::from_chars(line.data() + number + mark.size(), line.data() + line.size(), ms);
  if (ms <= 0) return std::nullopt;
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
}

std::string state_text(const ServerState& state) {
  return fmt::format("{}, {:.1f} ms for a request ({:.0f} at worst), {} requests wait, {} connections", state.mode,
                     state.latency_ms, state.worst_latency_ms, state.outstanding, state.connections);
}

}  // namespace

std::string ServerName::shown() const {
  const bool ip6 = host.find(':') != std::string::npos;
  return ip6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string question_for_admin_server(const ServerName& server) {
  return "GET /commands/stats HTTP/1.0\r\nHost: " + server.shown() + "\r\n\r\n";
}

Probed probe(const ServerName& server, const ProbeOptions& options) {
  Probed probed;
  const std::string check = "server " + server.shown();
  const auto begun = Clock::now();
  const Addresses addresses = resolve(server, server.port);
  const auto looked_up = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  if (!addresses.list) {
    probed.findings.push_back({Gravity::warning, check, "its name is not known: " + addresses.trouble});
    return probed;
  }
  constexpr std::chrono::milliseconds slow(500);
  if (looked_up > slow) {
    probed.findings.push_back(
        {Gravity::warning, check, fmt::format("looking up its name took {} ms", looked_up.count())});
  }
  std::string trouble;
  const auto deadline = Clock::now() + options.patience;
  const Descriptor socket = connect_to_any(addresses.list.get(), deadline, trouble);
  if (!socket) {
    probed.findings.push_back({Gravity::warning, check, "no connection: " + trouble});
    return probed;
  }
  probed.reached = true;
  const std::string answer = ask(socket, "srvr", deadline);
  probed.state = parse_srvr(answer);
  if (!probed.state) probed.state = ask_admin_server(server, options);
  if (probed.state) {
    probed.findings.push_back({Gravity::good, check, state_text(*probed.state)});
    probed.sessions = parse_cons(ask_again(addresses.list.get(), "cons", options));
  } else {
    const bool down = answer.find("not currently serving") != std::string::npos;
    probed.findings.push_back({down ? Gravity::failure : Gravity::note, check, why_closed(answer)});
  }
  return probed;
}

std::optional<std::chrono::system_clock::time_point> connected_since(const ServerName& server, std::int64_t session,
                                                                     const ProbeOptions& options) {
  const Addresses addresses = resolve(server, server.port);
  if (!addresses.list) return std::nullopt;
  return parse_established(ask_again(addresses.list.get(), "cons", options), session);
}

std::vector<Probed> probe_all(const std::string& hosts, const ProbeOptions& options) {
  std::vector<std::future<Probed>> probes;
  for (const auto& host : zkclient::detail::parse_hosts(hosts)) {
    const ServerName server{host.name, host.port};
    probes.push_back(std::async(std::launch::async, [server, options] { return probe(server, options); }));
  }
  std::vector<Probed> all;
  for (auto& pending : probes)
    all.push_back(pending.get());
  return all;
}

}  // namespace zkr
