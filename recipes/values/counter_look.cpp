#include "recipes/values/counter_look.hpp"

#include <utility>

#include "recipes/values/counter_format.hpp"

namespace zkrecipes::detail {

std::shared_ptr<CounterLook> CounterLook::launch(const std::shared_ptr<zk::ClientCore>& client, const std::string& node,
                                                 const zk::Call& call) {
  auto look = std::make_shared<CounterLook>();
  const auto outdate = [weak = std::weak_ptr(look)](zkclient::WatchEventType) {
    if (const auto seen = weak.lock()) seen->outdate();
  };
  look->watch_ = std::make_shared<zk::LoopWatch>(client, zk::WatchRegistry::Kind::data, outdate);
  zk::Request get = zk::make_request(zk::OpType::get, node);
  look->pending_ = client->launch_watching(std::move(get), call, look->watch_);
  return look;
}

std::shared_ptr<CounterLook> CounterLook::of_own_write(zk::Reply written) {
  auto look = std::make_shared<CounterLook>();
  look->arrive(std::move(written));
  look->trusted_until_ = Clock::now() + trust_in_own_write;
  return look;
}

CounterLook::~CounterLook() {
  if (observer_) reply_.session->forget(*observer_);
}

void CounterLook::arrive(zk::Reply reply) {
  reply_ = std::move(reply);
  if (!reply_.ok()) return;
  outdated_ = outdated_ || is_broken();
  if (outdated_) return;
  // A deletion and a creation in a break may have led to the same version. The event may come after a write.
  observer_ = reply_.session->observe([this] { outdated_ = outdated_ || is_broken(); });
}

bool CounterLook::holds() const noexcept {
  const bool trusted = !trusted_until_ || Clock::now() < *trusted_until_;
  return exists() && !outdated_ && trusted && reply_.stat.version != zkclient::any_version;
}

CounterView CounterLook::view(CounterEncoding encoding) const {
  CounterView seen;
  seen.exists = exists();
  if (!seen.exists) return seen;
  seen.value = decode_counter(reply_.data, encoding);
  seen.version = reply_.stat.version;
  return seen;
}

bool CounterLook::is_broken() const noexcept {
  return reply_.session->raw_state() != zkclient::ConnectionState::connected;
}

}  // namespace zkrecipes::detail
