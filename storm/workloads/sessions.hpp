#pragma once

#include <chrono>
#include <utility>

#include <zkclient/client.hpp>
#include <zkclient/error.hpp>

#include "storm/place.hpp"

namespace storm {

inline zkclient::CallOptions within(std::chrono::milliseconds time) {
  return {.deadline = std::chrono::steady_clock::now() + time};
}

/// For how long a holder keeps its lease: for a number of looks that is drawn once. Some hold for longer than a session
/// lasts without its server. When the pace slows down meanwhile, as it does when the troubles are over, a hold does not
/// become longer: the others have to have their turn. Then it looks once more: a holder that was stopped for long has to say
/// what it believes. `pause`: between two looks, as for Place::pause().
class Hold {
 public:
  Hold(Place& place, std::uint64_t pause);
  [[nodiscard]] bool goes_on() const { return looks_ > 0; }
  [[nodiscard]] bool is_last() const { return looks_ == 1; }
  void looked() {
    --looks_;
    if (looks_ > 1 && std::chrono::steady_clock::now() >= until_) looks_ = 1;
  }

 private:
  std::uint64_t looks_;
  std::chrono::steady_clock::time_point until_;
};

/// As the habits of the world are.
zkclient::ClientOptions some_client_options(Place& place);

/// No lease lives on a session that is shorter than a tick: the next one is longer, perhaps.
inline bool is_too_short_for_leases(const Place& place, const zkclient::Client& client) {
  return client.session().timeout() < place.tick();
}

/// Connects, and calls `use` with the client; again, with a new session, when that fails, until the process is to stop.
template <typename Use>
void with_sessions(Place& place, Use use) {
  while (!place.stopped()) {
    try {
      zkclient::Client client(place.servers(), some_client_options(place));
      client.connect(within(std::chrono::seconds(20)));
      const std::uint64_t last = is_too_short_for_leases(place, client) ? 1 : place.habits().last_use_one_in;
      while (!place.stopped()) {
        use(client);
        if (last != 0 && place.below(last) == 0) break;
      }
    } catch (const zkclient::Error& error) {
      place.note("error", 0, 0, error.what());
      place.pause(500);
    }
  }
}

/// At the end: what is below `path` but should not be there. Sessions of killed processes last for a while.
void expect_nothing_below(Place& place, const std::string& path);

}  // namespace storm
