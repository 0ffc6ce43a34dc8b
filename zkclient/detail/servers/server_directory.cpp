#include "zkclient/detail/servers/server_directory.hpp"

#include <algorithm>
#include <utility>

namespace zkclient::detail {
namespace {

constexpr auto first_look_up_pause = std::chrono::milliseconds(200);
constexpr auto last_look_up_pause = std::chrono::milliseconds(5000);

}  // namespace

ServerDirectory::ServerDirectory(EventLoop& events, Resolver& resolver, Lifeline whole, std::vector<Host> hosts,
                                 Found found)
    : whole_(std::move(whole)),
      found_(std::move(found)),
      resolver_(resolver),
      hosts_(std::move(hosts)),
      look_up_timer_(events) {}

void ServerDirectory::look_up() {
  if (numeric()) {
    found_(resolve(hosts_));
  } else if (look_up_ == nullptr) {
    look_up_ = resolver_.look_up(hosts_, [this, whole = whole_](const Resolution& resolution) {
      const auto alive = whole.lock();
      if (alive == nullptr) return;
      look_up_ = nullptr;
      found_(resolution);
    });
  }
}

void ServerDirectory::look_up_later() {
  if (look_up_timer_.is_set()) return;
  // Spread, so that many clients do not ask at the same instant.
  const double share = std::uniform_real_distribution<double>(0.75, 1.25)(random_);
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(look_up_pause_ * share);
  look_up_pause_ = std::min(look_up_pause_ * 2, last_look_up_pause);
  look_up_timer_.set_after(pause, [this, whole = whole_] {
    if (const auto alive = whole.lock()) look_up();
  });
}

void ServerDirectory::stop_planning() {
  look_up_timer_.cancel();
  look_up_pause_ = first_look_up_pause;
}

std::uint64_t ServerDirectory::replace(std::vector<Host> hosts) {
  hosts_ = std::move(hosts);
  return ++newest_;
}

void ServerDirectory::set_applied() {
  applied_ = newest_;
  wake_waiters();
}

void ServerDirectory::wake_waiters() const {
  for (const auto& wake : waiters_)
    wake();
}

}  // namespace zkclient::detail
