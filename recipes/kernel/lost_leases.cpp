#include "recipes/kernel/lost_leases.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace zkrecipes::detail {
namespace {

constexpr std::size_t shown_paths = 3;
constexpr auto gathering_time = std::chrono::milliseconds(50);

// Those that are gathered, of all clients. No thread waits for the lock: after a fork it may be held for ever.
struct Gathering {
  std::mutex mutex;
  std::vector<std::weak_ptr<LostLeases>> lost;
};
Gathering& gathering() {
  static auto* const all = new Gathering;  // Never destroyed: a lease may be lost until the very end.
  return *all;
}

zk::Awaitable<void> tell_soon(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<LostLeases> lost) {
  zk::Signal never(client->events());
  co_await never.wait(std::chrono::steady_clock::now() + gathering_time);
  zk::log(zkclient::LogLevel::warning, lost->text(), lost->fields());
}

}  // namespace

void LostLeases::add(const std::string& path) {
  if (++count_ > shown_paths) return;
  if (count_ > 1) paths_ += ", ";
  paths_ += path;
}

std::string LostLeases::text() const {
  if (count_ == 1) return fmt::format("lease lost: {}: {}", paths_, cause_);
  const std::string more = count_ > shown_paths ? fmt::format(" and {} more", count_ - shown_paths) : "";
  return fmt::format("{} leases lost: {}{}: {}", count_, paths_, more, cause_);
}

zk::LogFields LostLeases::fields() const {
  return {.path = count_ == 1 ? client_->stripped(paths_) : std::string(), .source = "zkrecipes"};
}

void warn_of_loss(const std::shared_ptr<zk::ClientCore>& client, const std::string& path, std::string cause) {
  const auto lost = std::make_shared<LostLeases>(client.get(), std::move(cause));
  lost->add(path);
  Gathering& all = gathering();
  if (const std::unique_lock lock(all.mutex, std::try_to_lock); lock) {
    std::erase_if(all.lost, [](const auto& other) { return other.expired(); });
    for (const auto& weak : all.lost) {
      const auto other = weak.lock();
      if (other == nullptr || !other->are_of(*lost)) continue;
      other->add(path);
      return;
    }
    all.lost.push_back(lost);
  }
  zk::spawn(tell_soon(client, lost));
}

}  // namespace zkrecipes::detail
