#include "simulation/network/network.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace zktesting::simulated {

/// Outlives the pipe while an event of its is queued.
struct Pipe::Flow {
  struct Message {
    Nanos due{};
    Arrive arrive;
  };
  std::deque<Message> messages;
  bool scheduled = false;
};

void Network::cut(Host from, Host to) { cut_.insert({from, to}); }

void Network::mend(Host from, Host to) {
  if (cut_.erase({from, to}) == 0) return;
  for (const auto& [number, pipe] : pipes_) {
    if (pipe->from_ == from && pipe->to_ == to) pipe->schedule();
  }
}

void Network::lose_all() {
  std::vector<std::deque<Pipe::Flow::Message>> lost;  // Whose ends may be the ends of pipes.
  for (const auto& [number, pipe] : pipes_)
    lost.push_back(std::exchange(pipe->flow_->messages, {}));
}

void Network::stall(Host from, Host to, Nanos until) {
  for (const auto& [number, pipe] : pipes_) {
    if (pipe->from_ == from && pipe->to_ == to) pipe->stalled_until_ = std::max(pipe->stalled_until_, until);
  }
}

Nanos Network::draw_latency(Host from, Host to) {
  const auto found = latencies_.find({from, to});
  const Latency& latency = found == latencies_.end() ? usual_ : found->second;
  return Nanos(events_.random().between(latency.least.count(), std::max(latency.least, latency.most).count()));
}

Pipe::Pipe(Network& network, Host from, Host to)
    : network_(network), from_(from), to_(to), number_(++network.pipes_made_), flow_(std::make_shared<Flow>()) {
  network_.pipes_.emplace(number_, this);
}

Pipe::~Pipe() {
  network_.pipes_.erase(number_);
  flow_->messages.clear();
}

void Pipe::send(Arrive arrive) {
  const Nanos due = network_.events().now() + network_.draw_latency(from_, to_);
  const Nanos before = flow_->messages.empty() ? Nanos{} : flow_->messages.back().due;
  flow_->messages.push_back({std::max(due, before), std::move(arrive)});
  schedule();
}

void Pipe::schedule() {
  if (flow_->scheduled || flow_->messages.empty() || network_.is_cut(from_, to_)) return;
  flow_->scheduled = true;
  network_.events().at(std::max(flow_->messages.front().due, stalled_until_), [this, flow = flow_] {
    flow->scheduled = false;
    if (flow->messages.empty()) return;  // Destroyed, perhaps.
    if (network_.is_cut(from_, to_)) return;
    if (network_.events().now() < stalled_until_) return schedule();
    const Arrive arrive = std::move(flow->messages.front().arrive);
    flow->messages.pop_front();
    schedule();
    arrive();
  });
}

}  // namespace zktesting::simulated
