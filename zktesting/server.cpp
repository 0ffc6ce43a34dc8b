#include "zktesting/server.hpp"

#include <fmt/format.h>

#include <charconv>

#include "zktesting/detail/endpoint.hpp"
#include "zktesting/detail/server_process.hpp"

namespace zktesting {
namespace {

constexpr int server_start_attempts = 5;
constexpr auto word_timeout = std::chrono::seconds(30);

std::unique_ptr<detail::ServerProcess> start_standalone(const ServerOptions& options) {
  detail::validate(options);
  for (int attempt = 1;; ++attempt) {
    const std::string address = detail::random_loopback_address();
    const auto ports = detail::free_ports<2>(address);
    const detail::Endpoint endpoint{address, ports[0]};
    const std::uint16_t secure_port = options.secure_port ? ports[1] : 0;
    auto process = std::make_unique<detail::ServerProcess>(detail::ServerPlan{
        .options = options, .endpoint = endpoint, .secure_port = secure_port, .members = {}, .id = 0});
    process->launch();
    try {
      process->await_ready();
      return process;
    } catch (const Error&) {
      // Between our choice of the port and the server's bind, another process may have taken it.
      process->kill();
      const bool taken =
          detail::is_taken(endpoint) || (secure_port != 0 && detail::is_taken({endpoint.address, secure_port}));
      if (attempt == server_start_attempts || !taken) {
        throw;
      }
    }
  }
}

std::size_t number(const std::map<std::string, std::string>& stats, const std::string& key) {
  const auto found = stats.find(key);
  std::size_t value = 0;
  if (found == stats.end() ||
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), value).ec != std::errc()) {
    throw Error(fmt::format("the server's statistics have no number \"{}\"", key));
  }
  return value;
}

}  // namespace

Server::Server(ServerOptions options) : process_(start_standalone(options)) {}

Server::Server(std::unique_ptr<detail::ServerProcess> process) : process_(std::move(process)) {}

Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

std::string Server::connect_string() const { return process_->endpoint().text(); }

std::string Server::secure_connect_string() const {
  if (process_->secure_port() == 0) {
    throw Error("this server has no port with TLS (ServerOptions::secure_port)");
  }
  return detail::Endpoint{process_->endpoint().address, process_->secure_port()}.text();
}

std::string Server::address() const { return process_->endpoint().address; }

std::uint16_t Server::port() const { return process_->endpoint().port; }

std::filesystem::path Server::directory() const { return process_->directory(); }

std::string Server::log() const { return process_->log(); }

void Server::start() {
  if (!process_->running()) {
    process_->launch();
    process_->await_ready();
  }
}

void Server::stop() { process_->stop(); }

void Server::kill() { process_->kill(); }

void Server::pause() { process_->pause(); }

void Server::resume() { process_->resume(); }

void Server::restart() {
  kill();
  start();
}

void Server::restart_wiped() {
  process_->wipe();
  start();
}

bool Server::running() const { return process_->running(); }

int Server::pid() const { return process_->pid(); }

std::string Server::four_letter_word(std::string_view word) const {
  if (word.size() != 4) {
    throw Error(fmt::format("\"{}\" does not have four letters", word));
  }
  return detail::ask_server_or_throw(process_->endpoint(), word, detail::Clock::now() + word_timeout);
}

std::map<std::string, std::string> Server::stats() const {
  const std::string text = four_letter_word("mntr");
  std::map<std::string, std::string> result;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    if (const auto tab = line.find('\t'); tab != std::string_view::npos) {
      result.emplace(line.substr(0, tab), line.substr(tab + 1));
    }
    begin = end + 1;
  }
  return result;
}

std::size_t Server::watch_count() const { return number(stats(), "zk_watch_count"); }

std::size_t Server::ephemeral_count() const { return number(stats(), "zk_ephemerals_count"); }

std::size_t Server::znode_count() const { return number(stats(), "zk_znode_count"); }

std::size_t Server::connection_count() const {
  const std::size_t all = number(stats(), "zk_num_alive_connections");
  return all == 0 ? 0 : all - 1;
}

}  // namespace zktesting
