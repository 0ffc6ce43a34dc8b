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

/// How often a holder looks at its lease, before it gives it back. Some hold for longer than a session lasts without its
/// server. `pause`: between two looks, as for Place::pause().
std::uint64_t some_looks(Place& place, std::uint64_t pause);

/// As the habits of the world are.
zkclient::ClientOptions some_client_options(Place& place);

/// Connects, and calls `use` with the client; again, with a new session, when that fails, until the process is to stop.
template <typename Use>
void with_sessions(Place& place, Use use) {
  while (!place.stopped()) {
    try {
      zkclient::Client client(place.servers(), some_client_options(place));
      client.connect(within(std::chrono::seconds(20)));
      // No lease lives on a session that is shorter than a tick: the next one is longer, perhaps.
      const bool is_too_short = client.session().timeout() < place.tick();
      const std::uint64_t last = is_too_short ? 1 : place.habits().last_use_one_in;
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
