#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <future>
#include <mutex>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <zkrecipes/lease.hpp>
#include <zktesting/server.hpp>

#include "tests/support/testkit.hpp"

/// What the tests of the exclusive recipes share.
namespace testkit {

/// The outcome of something that runs in a thread of its own; throws when it does not end.
template <typename T>
T result_of(std::future<T>& future) {
  if (future.wait_for(patience) != std::future_status::ready) throw std::runtime_error("it does not end");
  return future.get();
}

/// Runs `action` in a thread of its own. A std::async for each lambda would be half of what a test's compilation costs.
template <typename Action, typename Result = std::invoke_result_t<Action&>>
std::future<Result> in_thread(Action action) {
  return std::async(std::launch::async, zkclient::UniqueFunction<Result()>(std::move(action)));
}

/// The session of a holder that has to hear of its end before the next one holds. Five twelfths of it are left for
/// that, which is more than a busy machine makes a thread wait.
inline constexpr auto contended_session = 6s;

/// Who held a lease, and at least from when until when.
struct Holding {
  std::int64_t token = 0;
  SteadyClock::time_point acquired;    ///< After the acquisition had returned.
  SteadyClock::time_point last_valid;  ///< Before the last look at the lease that found it valid; long ago if none did.
};

/// Notices two who held at once: of two leases the one with the lower token must have been over when the other one was
/// acquired.
class Holdings {
 public:
  void add(const Holding& holding) {
    const std::lock_guard lock(mutex_);
    all_.push_back(holding);
  }

  /// Holds `lease` for `time`, or until it is lost. True when it was held to the end.
  bool hold(const zkrecipes::Lease& lease, std::chrono::microseconds time) {
    Holding holding{lease.token().value, SteadyClock::now(), {}};
    const auto end = holding.acquired + time;
    bool valid = true;
    do {
      const auto now = SteadyClock::now();
      valid = lease.valid();
      if (valid) holding.last_valid = now;
      std::this_thread::yield();
    } while (valid && SteadyClock::now() < end);
    add(holding);
    return valid;
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }

  void expect_no_overlap() const {
    const std::lock_guard lock(mutex_);
    std::vector<Holding> ordered = all_;
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
    for (std::size_t i = 1; i < ordered.size(); ++i) {
      EXPECT_LT(ordered[i - 1].token, ordered[i].token) << "two holders with one token";
      for (std::size_t before = 0; before < i; ++before) {
        const auto overlap = ordered[before].last_valid - ordered[i].acquired;
        EXPECT_LE(overlap.count(), 0) << "lease " << ordered[before].token << " was still valid "
                                      << std::chrono::duration_cast<std::chrono::microseconds>(overlap).count()
                                      << " us after lease " << ordered[i].token << " had been acquired";
      }
    }
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Holding> all_;
};

/// One watch at the server.
struct WatchAtServer {
  std::string path;
  std::int64_t session_id = 0;
};

/// All watches that `server` knows of: a zktesting::Server, or a FaultServer.
template <typename AnyServer>
std::vector<WatchAtServer> watches_at(const AnyServer& server) {
  std::istringstream lines(server.four_letter_word("wchp"));
  std::vector<WatchAtServer> watches;
  std::string path;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("/")) path = line;
    if (!line.starts_with("\t0x")) continue;
    std::uint64_t id = 0;
    std::from_chars(line.data() + 3, line.data() + line.size(), id, 16);
    watches.push_back({path, static_cast<std::int64_t>(id)});
  }
  return watches;
}

/// Waits until a session has a watch on a node.
template <typename AnyServer>
[[nodiscard]] bool watch_appears(const AnyServer& server, std::int64_t session_id, const zkclient::Path& path) {
  return eventually([&] {
    const auto watches = watches_at(server);
    return std::any_of(watches.begin(), watches.end(), [&](const WatchAtServer& watch) {
      return watch.session_id == session_id && watch.path == path.str();
    });
  });
}

}  // namespace testkit
