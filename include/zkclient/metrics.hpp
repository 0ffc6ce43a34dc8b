#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <zkclient/export.hpp>

namespace zkclient {

namespace detail {
class Meter;
}

/// Durations, counted in buckets whose bounds double: 1 us, 2 us, 4 us, ... 134 s. What took longer than the last bound
/// is counted as well, beyond it.
struct ZKRECIPES_API Histogram {
  static constexpr std::size_t bounds = 28;  ///< How many.
  /// The longest duration that bucket `index` counts.
  static constexpr std::chrono::nanoseconds bound(std::size_t index) noexcept {
    return std::chrono::microseconds(std::int64_t{1} << index);
  }

  std::array<std::uint64_t, bounds + 1> buckets{};  ///< How many durations fell into each; the last one: longer ones.
  std::chrono::microseconds sum{};                  ///< Of all durations.

  /// How many durations were counted.
  std::uint64_t count() const noexcept;
  /// The bound of the bucket that holds the shortest duration, and of the one that holds the longest. Zero when nothing
  /// was counted; nanoseconds::max() for a duration beyond the last bound.
  std::chrono::nanoseconds least() const noexcept;
  std::chrono::nanoseconds most() const noexcept;
  /// The bound of the bucket in which that share (0 to 1) of all durations is reached; zero and max() likewise.
  std::chrono::nanoseconds quantile(double share) const noexcept;
};

/// What clients do and meet, in numbers. Give one object to any number of clients (ClientOptions::metrics), and read it
/// whenever you like: the numbers are sums over these clients, dead ones included, and reading resets nothing. A client
/// without one counts nothing, which costs it a branch.
///
///   const auto metrics = std::make_shared<zkclient::Metrics>();
///   const zkclient::Client client("zk1,zk2,zk3", {.metrics = metrics});
///   ...
///   answer(metrics->to_openmetrics(), zkclient::Metrics::content_type);
///
/// A forked child makes an object of its own: its copy of the parent's goes on from the parent's numbers.
///
/// No number is counted by path: paths are data, and there may be any number of them.
///
/// Thread safety: all members, from any thread; none blocks. A number is exact once what it counts is over; numbers that
/// are read together may be of slightly different instants.
class ZKRECIPES_API Metrics {
 public:
  /// What only grows.
  enum class Counter {
    sessions_opened,     ///< Sessions that a server granted.
    sessions_closed,     ///< Ended by Client::close().
    sessions_expired,    ///< Lost: a server said that the session is over.
    sessions_given_up,   ///< Lost: no server was heard for a whole session timeout.
    sessions_refused,    ///< Lost: credentials or a login were refused, or another session was given in place of it.
    connections_opened,  ///< Connections with a session, the first one of each session included.
    connections_lost,    ///< Connections that broke, and sessions that moved to other servers.
    attempts_failed,     ///< Attempts to connect, and connections, that ended with trouble (Client::trouble()).
    reads,               ///< Requests, by what they did; each is counted once, however often it was sent.
    writes,              ///< Single changes, transactions and heartbeats.
    retries,             ///< Requests that were sent again.
    requests_in_doubt,   ///< Writes whose reply was lost with the connection, heartbeats not among them.
    requests_unsent,     ///< Requests that ended before they were sent: deadline, cancelled, overloaded, closed.
    watch_events,        ///< Events of watches that servers sent.
    leases_granted,  ///< Leases: of locks, leaderships, claims, permits, places in barriers. Memberships and registrations,
                     ///< which come back by themselves, are none.
    leases_released,  ///< Those that were given back, or replaced by another one of the same holder.
    leases_lost,      ///< Those that were lost, for whatever reason.
    calls_failed,     ///< Calls of Client and of recipes that ended with an error.
  };
  /// What rises and falls.
  enum class Gauge {
    sessions_connected,  ///< Sessions that have a connection now.
    requests_pending,    ///< Requests that wait, or are on their way.
    leases_held,         ///< Leases that are held now.
    calls_waiting,  ///< Calls that wait without a deadline of their own: acquire, campaign, pop, barriers, join, wait_...
  };
  /// Durations.
  enum class Timing {
    read,           ///< From a request to its answer, with the time that it waited for a connection.
    write,          ///< The same; heartbeats included.
    heartbeat,      ///< From a heartbeat of leases to its answer: what a quorum needs to prove them.
    validity_left,  ///< How long the leases of a session were still certain when a heartbeat renewed them. The least of
                    ///< them tells how close the session came to losing its leases.
    callback_delay,  ///< From an event to the beginning of its handler or listener: what your own handlers cost.
    call_wait,       ///< How long such calls took (see Gauge::calls_waiting).
    lease_held,      ///< From the grant of a lease to its end.
  };
  static constexpr std::size_t counters = 18;  ///< How many a Counter can be.
  static constexpr std::size_t gauges = 4;     ///< How many a Gauge can be.
  static constexpr std::size_t timings = 7;    ///< How many a Timing can be.

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// What one of them says now.
  std::uint64_t value(Counter counter) const noexcept;
  std::int64_t value(Gauge gauge) const noexcept;
  Histogram histogram(Timing timing) const noexcept;

  /// All numbers as OpenMetrics text, which Prometheus scrapes; names begin with "zkrecipes_", times are in seconds.
  /// Serve it as `content_type`. docs/metrics.md has the names.
  std::string to_openmetrics() const;
  /// The HTTP header Content-Type of that text.
  static constexpr const char* content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";

  const std::shared_ptr<detail::Meter>& impl() const noexcept { return meter_; }  ///< For Client and recipes.

 private:
  std::shared_ptr<detail::Meter> meter_;
};

}  // namespace zkclient
