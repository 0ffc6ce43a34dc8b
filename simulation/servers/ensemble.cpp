#include "simulation/servers/ensemble.hpp"

#include "simulation/servers/four_letter_words.hpp"

namespace zktesting::simulated {

Ensemble::Ensemble(EventQueue& events, Network& network, EnsembleOptions options) : options_(std::move(options)) {
  Peers& peers = *this;
  for (Host from = 1; from <= options_.servers; ++from) {
    servers_.push_back(std::make_unique<Server>(events, options_, from, peers));
    for (Host to = 1; to <= options_.servers; ++to) {
      if (from != to) cables_.emplace(std::pair(from, to), std::make_unique<Pipe>(network, from, to));
    }
  }
  for (const auto& server : servers_)
    server->start();
}

void Ensemble::send(Host from, Host to, Message message, Message refused) {
  cables_.at({from, to})->send([this, from, to, message = std::move(message), refused = std::move(refused)] {
    at(to).arrive(from, message, refused);
  });
}

void Ensemble::break_connections(int one, int other) {
  const auto notice = [](Host host) { return [host](Server& server) { server.gone(host); }; };
  at(one).arrive(other, notice(other), {});
  at(other).arrive(one, notice(one), {});
}

std::optional<int> Ensemble::leader() const {
  std::optional<int> found;
  for (const auto& server : servers_) {
    if (!server->serving() || server->leading() == nullptr) continue;
    if (!found || server->disk().current_epoch > at(*found).disk().current_epoch) found = server->host();
  }
  return found;
}

bool Ensemble::complete() const {
  for (const auto& server : servers_) {
    if (!server->serving()) return false;
  }
  return true;
}

// What it has acknowledged may be on its way: so all that it has written counts, committed or not.
bool Ensemble::expendable(int server) const {
  const Disk& lost = at(server).disk();
  std::optional<std::int64_t> epoch;
  for (const auto& other : servers_) {
    if (other->host() == server) continue;
    const Disk& disk = other->disk();
    if (!other->serving() || disk.durable_zxid() < lost.last_zxid()) return false;
    if (disk.accepted_epoch < lost.accepted_epoch || disk.current_epoch != epoch.value_or(disk.current_epoch))
      return false;
    epoch = disk.current_epoch;
  }
  return epoch.has_value();
}

std::string Ensemble::four_letter_word(int server, const std::string& word) const {
  return answer_four_letter_word(at(server), word);
}

}  // namespace zktesting::simulated
