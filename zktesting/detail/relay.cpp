#include "zktesting/detail/relay.hpp"

#include <sys/socket.h>

#include <algorithm>

#include "zktesting/detail/connection.hpp"

namespace zktesting::detail {
namespace {

bool is_any(RequestType type) { return type != RequestType::connect && type != RequestType::ping; }

bool matches(RequestType wanted, RequestType type) {
  return wanted == type || (wanted == RequestType::any && is_any(type));
}

template <class Function>
void for_each_way(Direction direction, Function function) {
  if (direction != Direction::to_client) {
    function(static_cast<std::size_t>(Way::to_server));
  }
  if (direction != Direction::to_server) {
    function(static_cast<std::size_t>(Way::to_client));
  }
}

}  // namespace

Relay::Relay(std::shared_ptr<EventLoop> loop, RelayOptions options)
    : loop_(std::move(loop)), options_(std::move(options)), endpoint_{options_.listen_address, 0} {
  if (endpoint_.address.empty()) {
    endpoint_.address = random_loopback_address();
  }
  loop_->run([this] { listen(); });
}

Relay::~Relay() {
  loop_->run([this] {
    stop_listening();
    reset_all();
  });
}

void Relay::listen() {
  listener_ = listen_on(endpoint_);
  // Only once: other threads may be reading it when the relay listens again, at the same place.
  if (endpoint_.port == 0) endpoint_ = local_endpoint(listener_.get());
  accept_some();
}

void Relay::stop_listening() {
  if (!listener_) return;
  loop_->forget(listener_.get());
  listener_.reset();
}

void Relay::accept_some() {
  for (;;) {
    UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) {
      break;
    }
    ++accepted_;
    auto connection = std::make_shared<Connection>(*this, std::move(client));
    connections_.insert(connection);
    connection->proceed();
  }
  loop_->await(listener_.get(), EventLoop::Event::readable, [this] { accept_some(); });
}

void Relay::reset_all() {
  const auto connections = connections_;
  for (const auto& connection : connections) {
    connection->reset();
  }
}

void Relay::cut() {
  loop_->run([this] { reset_all(); });
}

void Relay::refuse(bool on) {
  loop_->run([this, on] {
    if (on) {
      stop_listening();
    } else if (!listener_) {
      listen();
    }
  });
}

bool Relay::refuses() const {
  bool refuses = false;
  loop_->run([&] { refuses = !listener_; });
  return refuses;
}

void Relay::stall(Direction direction, bool on) {
  loop_->run([this, direction, on] {
    for_each_way(direction, [&](std::size_t way) { stalled_[way] = on; });
    const auto connections = connections_;
    for (const auto& connection : connections) {
      connection->proceed();
    }
  });
}

void Relay::delay(Direction direction, std::chrono::milliseconds by) {
  if (by.count() < 0) {
    throw Error("a delay cannot be negative");
  }
  loop_->run([this, direction, by] { for_each_way(direction, [&](std::size_t way) { delay_[way] = by; }); });
}

std::shared_ptr<FaultState> Relay::arm(FaultKind kind, RequestType type, std::size_t passed) {
  if (!options_.parse) {
    throw Error("this proxy does not look at the bytes (ProxyOptions::parse): no faults");
  }
  auto fault = std::make_shared<FaultState>(kind, type);
  fault->passed = passed;
  loop_->run([this, fault] { armed_.push_back(fault); });
  return fault;
}

void Relay::announce_as(Endpoint endpoint) {
  loop_->run([this, &endpoint] { announcement_ = std::move(endpoint); });
}

std::shared_ptr<FaultState> Relay::strike(bool reply, RequestType type) {
  std::erase_if(armed_, [](const auto& fault) { return fault->is_finished(); });
  const auto found = std::find_if(armed_.begin(), armed_.end(), [&](const auto& fault) {
    if (fault->kind == FaultKind::drop_event) return false;
    return reply == (fault->kind != FaultKind::drop_request) && matches(fault->type, type);
  });
  if (found == armed_.end()) {
    return nullptr;
  }
  auto fault = *found;
  armed_.erase(found);
  if (fault->kind == FaultKind::drop_reply || fault->kind == FaultKind::drop_request) {
    const std::lock_guard lock(counts_mutex_);
    ++dropped_[fault->kind];
  }
  return fault;
}

std::shared_ptr<FaultState> Relay::strike_event() {
  std::erase_if(armed_, [](const auto& fault) { return fault->is_finished(); });
  const auto found = std::find_if(armed_.begin(), armed_.end(),
                                  [](const auto& fault) { return fault->kind == FaultKind::drop_event; });
  if (found == armed_.end()) return nullptr;
  auto fault = *found;
  if (fault->passed > 0) {
    --fault->passed;
    return nullptr;
  }
  armed_.erase(found);
  return fault;
}

void Relay::stamp_events(std::optional<std::int64_t> zxid) {
  if (!options_.parse) {
    throw Error("this proxy does not look at the bytes (ProxyOptions::parse): events pass as they come");
  }
  loop_->run([this, zxid] { event_stamp_ = zxid; });
}

void Relay::count_request(RequestType type) {
  const std::lock_guard lock(counts_mutex_);
  ++requests_[type];
  if (is_any(type)) {
    ++requests_[RequestType::any];
  }
  counts_changed_.notify_all();
}

std::size_t Relay::request_count(RequestType type) const {
  const std::lock_guard lock(counts_mutex_);
  const auto found = requests_.find(type);
  return found == requests_.end() ? 0 : found->second;
}

bool Relay::wait_for_requests(RequestType type, std::size_t count, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(counts_mutex_);
  return counts_changed_.wait_for(lock, timeout, [&] {
    const auto found = requests_.find(type);
    return count == 0 || (found != requests_.end() && found->second >= count);
  });
}

std::size_t Relay::byte_count(Direction direction) const {
  // On the loop: bytes that a client has received are counted before anything else happens there.
  return loop_->run([this, direction] {
    std::size_t sum = 0;
    for_each_way(direction, [&](std::size_t way) { sum += bytes_[way]; });
    return sum;
  });
}

std::size_t Relay::dropped(FaultKind kind) const {
  const std::lock_guard lock(counts_mutex_);
  const auto found = dropped_.find(kind);
  return found == dropped_.end() ? 0 : found->second;
}

std::size_t Relay::connections() const {
  return loop_->run([this] { return connections_.size(); });
}

}  // namespace zktesting::detail
