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

/// Connects, and calls `use` with the client; again, with a new session, when that fails, until the process is to stop.
template <typename Use>
void with_sessions(Place& place, Use use) {
  while (!place.stopped()) {
    try {
      zkclient::Client client(place.servers(),
                              {.session_timeout = std::chrono::milliseconds(2000 + place.below(8000)),
                               .server_tick = place.tick(),  // Sessions may be shorter than two of them.
                               .operation_timeout = std::chrono::seconds(10)});
      client.connect(within(std::chrono::seconds(20)));
      while (!place.stopped())
        use(client);
    } catch (const zkclient::Error& error) {
      place.note("error", 0, 0, error.what());
      place.pause(500);
    }
  }
}

/// At the end: what is below `path` but should not be there. Sessions of killed processes last for a while.
void expect_nothing_below(Place& place, const std::string& path);

}  // namespace storm
