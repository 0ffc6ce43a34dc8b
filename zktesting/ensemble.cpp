#include "zktesting/ensemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <thread>

#include "zktesting/detail/relay.hpp"
#include "zktesting/detail/server_process.hpp"
#include "zktesting/detail/wire_client.hpp"

namespace zktesting {
namespace {

using namespace detail;

constexpr int ensemble_start_attempts = 3;
constexpr std::chrono::seconds start_patience{40};
constexpr std::chrono::milliseconds between_probes{20};
/// A busy machine can keep an answer back for that long.
constexpr std::chrono::seconds role_patience{3};
constexpr std::chrono::milliseconds peer_patience{1000};
constexpr std::chrono::milliseconds write_timeout{5000};

/// The way from one server to another: one address with a port for each purpose.
struct Link {
  std::unique_ptr<Relay> quorum;
  std::unique_ptr<Relay> election;
};

struct Role {
  bool leads = false;
  bool follows = false;
  std::uint64_t epoch = 0;
};

/// Nothing if the server does not serve, or does not answer for as long as `patience`. Asks at least once.
std::optional<Role> ask_role(const Endpoint& endpoint, Clock::duration patience) {
  const Deadline deadline = Clock::now() + patience;
  auto answer = ask_server(endpoint, "srvr", Clock::now() + probe_timeout(patience));
  while (!answer && Clock::now() < deadline) {
    std::this_thread::sleep_for(between_probes);
    answer = ask_server(endpoint, "srvr", Clock::now() + probe_timeout(patience));
  }
  if (!answer || answer->find("Mode:") == std::string::npos) {
    return std::nullopt;
  }
  Role role;
  role.leads = answer->find("Mode: leader") != std::string::npos;
  role.follows = answer->find("Mode: follower") != std::string::npos;
  if (const auto at = answer->find("Zxid: 0x"); at != std::string::npos) {
    std::uint64_t zxid = 0;
    std::from_chars(answer->data() + at + 8, answer->data() + answer->size(), zxid, 16);
    role.epoch = zxid >> 32;
  }
  return role;
}

std::optional<std::size_t> leader_of(const std::map<std::size_t, Role>& roles) {
  std::optional<std::size_t> result;
  for (const auto& [index, role] : roles) {
    if (role.leads && (!result || role.epoch > roles.at(*result).epoch)) {
      result = index;
    }
  }
  return result;
}

/// Whether the ensemble commits what is written through this server. A server that has lost its
/// leader without noticing still calls itself a follower, and one that has just been elected may
/// not serve yet: only a write tells.
bool commits(const Endpoint& endpoint, Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  const auto timeout = std::min(left, write_timeout);
  try {
    WireClient client(endpoint, write_timeout, timeout);
    const std::string path = fmt::format("/zktesting-probe-{:x}", client.session().id);
    return client.connected() && client.create(path, "", WireClient::ephemeral) == WireClient::ok &&
           client.remove(path) == WireClient::ok && client.close_session() == WireClient::ok;
  } catch (const Error&) {
    return false;
  }
}

void validate(const EnsembleOptions& options) {
  detail::validate(options.server);
  if (options.server.secure_port) {
    throw Error("ensemble options: secure_port is for a single server only");
  }
  if (options.size < 3 || options.size > 9 || options.size % 2 == 0) {
    throw Error(fmt::format("ensemble options: size {} is not an odd number from 3 to 9", options.size));
  }
  if (options.init_limit < 1 || options.sync_limit < 1) {
    throw Error("ensemble options: init_limit and sync_limit have to be positive");
  }
  if (options.isolable && options.server.config.contains("reconfigEnabled")) {
    throw Error("ensemble options: reconfigEnabled cannot be set while isolable is true");
  }
}

}  // namespace

struct Ensemble::Impl {
  explicit Impl(EnsembleOptions wanted) : options(std::move(wanted)) {}

  void build();
  void make_links(const std::vector<std::string>& addresses, const std::vector<std::pair<Endpoint, Endpoint>>& peers);
  [[nodiscard]] std::map<std::string, std::string> members(
      std::size_t self, const std::vector<std::pair<Endpoint, Endpoint>>& peers) const;
  void apply_isolation();
  void check(std::size_t index) const;
  [[nodiscard]] Endpoint endpoint(std::size_t index) const { return {servers[index].address(), servers[index].port()}; }
  /// Of those that serve, and answer within `patience` each (paused ones: no longer than once is asked).
  [[nodiscard]] std::map<std::size_t, Role> roles(Clock::duration patience) const;
  [[nodiscard]] std::vector<std::size_t> majority_to_try(Clock::duration patience) const;
  [[nodiscard]] std::vector<std::size_t> running_to_try(Clock::duration patience) const;
  /// Waits until what `choose` returns is not empty and each of these commits.
  void wait_until_committing(std::chrono::milliseconds timeout,
                             std::vector<std::size_t> (Impl::*choose)(Clock::duration) const);
  [[nodiscard]] bool all_run() const;
  [[nodiscard]] std::string describe() const;

  const EnsembleOptions options;
  std::shared_ptr<EventLoop> loop;
  std::map<std::pair<std::size_t, std::size_t>, Link> links;  ///< By (from, to).
  std::vector<Server> servers;
  std::mutex isolation_mutex;
  std::vector<std::optional<Isolation>> isolated;
};

void Ensemble::Impl::build() {
  servers.clear();
  links.clear();
  loop = std::make_shared<EventLoop>();
  isolated.assign(options.size, std::nullopt);
  std::vector<std::string> addresses;
  std::vector<std::uint16_t> client_ports;
  std::vector<std::pair<Endpoint, Endpoint>> peers;  // for the quorum, for the election
  for (std::size_t i = 0; i < options.size; ++i) {
    const std::string address = random_loopback_address();
    const auto [client, quorum, election] = free_ports<3>(address);
    addresses.push_back(address);
    client_ports.push_back(client);
    peers.push_back({{address, quorum}, {address, election}});
  }
  if (options.isolable) {
    make_links(addresses, peers);
  }
  for (std::size_t i = 0; i < options.size; ++i) {
    ServerPlan plan{.options = options.server,
                    .endpoint = {addresses[i], client_ports[i]},
                    .members = members(i, peers),
                    .id = static_cast<int>(i) + 1};
    auto process = std::make_unique<ServerProcess>(std::move(plan));
    process->launch();
    servers.push_back(Server(std::move(process)));
  }
}

void Ensemble::Impl::make_links(const std::vector<std::string>& addresses,
                                const std::vector<std::pair<Endpoint, Endpoint>>& peers) {
  for (std::size_t from = 0; from < addresses.size(); ++from) {
    for (std::size_t to = 0; to < addresses.size(); ++to) {
      if (from != to) {
        const std::string address = random_loopback_address();
        Link& link = links[{from, to}];
        const auto relay = [&](const Endpoint& target, bool election) {
          return std::make_unique<Relay>(loop, RelayOptions{.target = target,
                                                            .listen_address = address,
                                                            .parse = false,
                                                            .election = election,
                                                            .connect_patience = peer_patience});
        };
        link.quorum = relay(peers[to].first, false);
        link.election = relay(peers[to].second, true);
      }
    }
  }
  for (auto& [ends, link] : links) {
    link.election->announce_as(links[{ends.second, ends.first}].election->endpoint());
  }
}

std::map<std::string, std::string> Ensemble::Impl::members(
    std::size_t self, const std::vector<std::pair<Endpoint, Endpoint>>& peers) const {
  std::map<std::string, std::string> result{
      {"initLimit", std::to_string(options.init_limit)},
      {"syncLimit", std::to_string(options.sync_limit)},
  };
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const auto link = links.find({self, i});
    const auto [quorum, election] =
        link == links.end() ? peers[i] : std::pair(link->second.quorum->endpoint(), link->second.election->endpoint());
    result[fmt::format("server.{}", i + 1)] = fmt::format("{}:{}:{}", quorum.address, quorum.port, election.port);
  }
  if (options.isolable) {
    // A leader tells the others its own list of servers, and they would act on it.
    result["reconfigEnabled"] = "false";
  }
  return result;
}

void Ensemble::Impl::check(std::size_t index) const {
  if (index >= servers.size()) {
    throw Error(fmt::format("there is no server {} in an ensemble of {}", index, servers.size()));
  }
}

std::map<std::size_t, Role> Ensemble::Impl::roles(Clock::duration patience) const {
  std::map<std::size_t, Role> result;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (servers[i].running()) {
      if (const auto role = ask_role(endpoint(i), servers[i].process_->paused() ? Clock::duration() : patience)) {
        result[i] = *role;
      }
    }
  }
  return result;
}

std::vector<std::size_t> Ensemble::Impl::majority_to_try(Clock::duration patience) const {
  const auto leader = leader_of(roles(patience));
  return leader ? std::vector{*leader} : std::vector<std::size_t>{};
}

std::vector<std::size_t> Ensemble::Impl::running_to_try(Clock::duration patience) const {
  std::vector<std::size_t> result;
  const auto all = roles(patience);
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (all.contains(i)) {
      result.push_back(i);
    } else if (servers[i].running()) {
      return {};
    }
  }
  return result.size() > servers.size() / 2 ? result : std::vector<std::size_t>{};
}

void Ensemble::Impl::wait_until_committing(std::chrono::milliseconds timeout,
                                           std::vector<std::size_t> (Impl::*choose)(Clock::duration) const) {
  const auto started = Clock::now();
  const Deadline deadline = started + timeout;
  for (;;) {
    const auto chosen = (this->*choose)(probe_timeout(Clock::now() - started));
    if (!chosen.empty() &&
        std::all_of(chosen.begin(), chosen.end(), [&](std::size_t i) { return commits(endpoint(i), deadline); })) {
      return;
    }
    if (Clock::now() >= deadline) {
      throw Error(fmt::format("the ensemble does not serve after {} ms: {}", timeout.count(), describe()));
    }
    std::this_thread::sleep_for(between_probes);
  }
}

bool Ensemble::Impl::all_run() const {
  return std::all_of(servers.begin(), servers.end(), [](const Server& server) { return server.running(); });
}

std::string Ensemble::Impl::describe() const {
  std::string text;
  const auto all = roles(role_patience);
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const auto role = all.find(i);
    const std::string_view state = !servers[i].running()  ? "not running"
                                   : role == all.end()    ? "not serving"
                                   : role->second.leads   ? "leader"
                                   : role->second.follows ? "follower"
                                                          : "of unknown role";
    text += fmt::format("{}server {} ({}) is {}", i == 0 ? "" : ", ", i, servers[i].connect_string(), state);
    if (servers[i].process_->died()) {
      text += fmt::format(": it has ended by itself; the end of its log:\n{}", servers[i].process_->end_of_log());
    }
  }
  return text;
}

void Ensemble::Impl::apply_isolation() {
  const auto is = [&](std::size_t index, Isolation mode) { return isolated[index] == mode; };
  for (const auto& [ends, link] : links) {
    const auto [from, to] = ends;
    const bool frozen = is(from, Isolation::freeze) || is(to, Isolation::freeze);
    const bool hold_out = frozen || is(from, Isolation::mute) || is(to, Isolation::deaf);
    const bool hold_back = frozen || is(from, Isolation::deaf) || is(to, Isolation::mute);
    const bool severed = is(from, Isolation::sever) || is(to, Isolation::sever);
    for (Relay* relay : {link.quorum.get(), link.election.get()}) {
      relay->stall(Direction::to_server, hold_out);
      relay->stall(Direction::to_client, hold_back);
      relay->refuse(severed);
      if (severed) {
        relay->cut();
      }
    }
  }
}

Ensemble::Ensemble(EnsembleOptions options) {
  validate(options);
  impl_ = std::make_unique<Impl>(std::move(options));
  for (int attempt = 1;; ++attempt) {
    impl_->build();
    try {
      wait_for_all(start_patience * attempt);
      if (impl_->all_run()) {
        return;
      }
      throw Error("not all servers of the ensemble run: " + impl_->describe());
    } catch (const Error&) {
      if (attempt == ensemble_start_attempts) {
        throw;
      }
    }
  }
}

Ensemble::~Ensemble() = default;
Ensemble::Ensemble(Ensemble&&) noexcept = default;
Ensemble& Ensemble::operator=(Ensemble&&) noexcept = default;

std::size_t Ensemble::size() const { return impl_->servers.size(); }

std::string Ensemble::connect_string() const {
  std::string result;
  for (const Server& each : impl_->servers) {
    if (!result.empty()) result += ',';
    result += each.connect_string();
  }
  return result;
}

std::string Ensemble::connect_string(std::size_t index) const {
  impl_->check(index);
  return impl_->servers[index].connect_string();
}

Server& Ensemble::server(std::size_t index) {
  impl_->check(index);
  return impl_->servers[index];
}

std::optional<std::size_t> Ensemble::leader() const { return leader_of(impl_->roles(role_patience)); }

std::vector<std::size_t> Ensemble::followers() const {
  std::vector<std::size_t> result;
  for (const auto& [index, role] : impl_->roles(role_patience)) {
    if (role.follows) {
      result.push_back(index);
    }
  }
  return result;
}

void Ensemble::wait_for_quorum(std::chrono::milliseconds timeout) {
  impl_->wait_until_committing(timeout, &Impl::majority_to_try);
}

void Ensemble::wait_for_all(std::chrono::milliseconds timeout) {
  impl_->wait_until_committing(timeout, &Impl::running_to_try);
}

void Ensemble::stop(std::size_t index) { server(index).stop(); }

void Ensemble::kill(std::size_t index) { server(index).kill(); }

void Ensemble::pause(std::size_t index) { server(index).pause(); }

void Ensemble::resume(std::size_t index) { server(index).resume(); }

void Ensemble::restart(std::size_t index) { server(index).restart(); }

void Ensemble::isolate(std::size_t index, Isolation mode) {
  impl_->check(index);
  if (!impl_->options.isolable) {
    throw Error("this ensemble was started with isolable = false: its servers talk directly");
  }
  const std::lock_guard lock(impl_->isolation_mutex);
  impl_->isolated[index] = mode;
  impl_->apply_isolation();
}

void Ensemble::heal(std::size_t index) {
  impl_->check(index);
  const std::lock_guard lock(impl_->isolation_mutex);
  impl_->isolated[index].reset();
  impl_->apply_isolation();
}

std::size_t Ensemble::peer_bytes() const {
  std::size_t sum = 0;
  for (const auto& [ends, link] : impl_->links) {
    sum += link.quorum->byte_count(Direction::both) + link.election->byte_count(Direction::both);
  }
  return sum;
}

std::size_t Ensemble::peer_bytes(std::size_t index) const {
  impl_->check(index);
  std::size_t sum = 0;
  for (const auto& [ends, link] : impl_->links) {
    if (ends.first == index || ends.second == index) {
      sum += link.quorum->byte_count(Direction::both) + link.election->byte_count(Direction::both);
    }
  }
  return sum;
}

}  // namespace zktesting
