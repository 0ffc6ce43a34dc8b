#include "storm/workloads/sessions.hpp"

#include <algorithm>
#include <thread>

namespace storm {

namespace {

std::uint64_t mean_pause_of(const Habits& habits, std::uint64_t pause) {
  return std::max<std::uint64_t>(1, pause * habits.pause_quarters / 8);
}

std::uint64_t some_looks(Place& place, std::uint64_t pause) {
  const Habits& habits = place.habits();
  if (place.below(habits.long_hold_one_in) != 0) return 1 + place.below(2000 / pause);
  const auto longest = static_cast<std::uint64_t>(habits.most_session.count()) * 3 / 2 / mean_pause_of(habits, pause);
  return 1 + place.below(2 * std::clamp<std::uint64_t>(longest, 10, 800));
}

}  // namespace

Hold::Hold(Place& place, std::uint64_t pause)
    : looks_(some_looks(place, pause)),
      until_(std::chrono::steady_clock::now() + std::chrono::seconds(1) +
             std::chrono::milliseconds(looks_ * mean_pause_of(place.habits(), pause) * 5 / 4)) {}

zkclient::ClientOptions some_client_options(Place& place) {
  const Habits& habits = place.habits();
  const auto spread = static_cast<std::uint64_t>((habits.most_session - habits.least_session).count());
  zkclient::ClientOptions options;
  options.session_timeout = habits.least_session + std::chrono::milliseconds(place.below(spread + 1));
  options.server_tick = place.tick();  // Sessions may be shorter than two of them.
  options.operation_timeout = std::chrono::seconds(10);
  options.retry.max_attempts = habits.read_attempts;
  return options;
}

void expect_nothing_below(Place& place, const std::string& path) {
  zkclient::Client client(place.servers(), {.session_timeout = std::chrono::seconds(10)});
  client.connect(within(std::chrono::seconds(60)));
  std::string left;
  for (int attempt = 0; attempt < 100; ++attempt) {
    left.clear();
    try {
      for (const std::string& child : client.children(path).names)
        left += " " + child;
    } catch (const zkclient::Error& error) {
      if (error.code() != zkclient::Errc::no_node) throw;
    }
    if (left.empty()) return;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  place.note("left behind", 0, 0, path + ":" + left);
}

}  // namespace storm
