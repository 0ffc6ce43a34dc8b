#include "zktesting/proxy.hpp"

#include "zktesting/detail/relay.hpp"

namespace zktesting {

Fault::Fault(std::shared_ptr<detail::FaultState> state) : state_(std::move(state)) {}

bool Fault::wait(std::chrono::milliseconds timeout) const { return state_->wait(timeout); }

bool Fault::happened() const { return state_->is_happened(); }

void Fault::cancel() { state_->finish(); }

HeldReply::HeldReply(std::shared_ptr<detail::FaultState> state) : state_(std::move(state)) {}

HeldReply::~HeldReply() { release(); }

HeldReply& HeldReply::operator=(HeldReply&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
  }
  return *this;
}

bool HeldReply::wait(std::chrono::milliseconds timeout) const { return state_->wait(timeout); }

bool HeldReply::happened() const { return state_->is_happened(); }

void HeldReply::release() {
  if (state_) {
    state_->finish();
  }
}

Proxy::Proxy(std::string_view target, ProxyOptions options)
    : relay_(std::make_unique<detail::Relay>(std::make_shared<detail::EventLoop>(),
                                             detail::RelayOptions{.target = detail::parse_endpoint(target),
                                                                  .listen_address = std::move(options.listen_address),
                                                                  .parse = options.parse,
                                                                  .election = false,
                                                                  .connect_patience = {}})) {}

Proxy::~Proxy() = default;
Proxy::Proxy(Proxy&&) noexcept = default;
Proxy& Proxy::operator=(Proxy&&) noexcept = default;

std::string Proxy::connect_string() const { return relay_->endpoint().text(); }

void Proxy::cut() { relay_->cut(); }

void Proxy::refuse(bool on) { relay_->refuse(on); }

bool Proxy::refuses() const { return relay_->refuses(); }

void Proxy::stall(Direction direction) { relay_->stall(direction, true); }

void Proxy::unstall(Direction direction) { relay_->stall(direction, false); }

void Proxy::delay(Direction direction, std::chrono::milliseconds by) { relay_->delay(direction, by); }

Fault Proxy::drop_next_reply(RequestType type) { return Fault(relay_->arm(detail::FaultKind::drop_reply, type)); }

Fault Proxy::drop_next_request(RequestType type) { return Fault(relay_->arm(detail::FaultKind::drop_request, type)); }

Fault Proxy::forge_next_session() { return Fault(relay_->arm(detail::FaultKind::forge_session, RequestType::connect)); }

HeldReply Proxy::hold_next_reply(RequestType type) {
  return HeldReply(relay_->arm(detail::FaultKind::hold_reply, type));
}

Fault Proxy::drop_next_event(std::size_t passed) {
  return Fault(relay_->arm(detail::FaultKind::drop_event, RequestType::any, passed));
}

void Proxy::stamp_events(std::optional<std::int64_t> zxid) { relay_->stamp_events(zxid); }

std::int64_t Proxy::last_seen_zxid() const { return relay_->last_seen_zxid(); }

std::size_t Proxy::request_count(RequestType type) const { return relay_->request_count(type); }

bool Proxy::wait_for_requests(RequestType type, std::size_t count, std::chrono::milliseconds timeout) const {
  return relay_->wait_for_requests(type, count, timeout);
}

std::size_t Proxy::byte_count(Direction direction) const { return relay_->byte_count(direction); }

std::size_t Proxy::dropped_replies() const { return relay_->dropped(detail::FaultKind::drop_reply); }

std::size_t Proxy::dropped_requests() const { return relay_->dropped(detail::FaultKind::drop_request); }

std::size_t Proxy::connections() const { return relay_->connections(); }

std::size_t Proxy::accepted_connections() const { return relay_->accepted(); }

}  // namespace zktesting
