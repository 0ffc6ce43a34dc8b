#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>

#include <zkclient/clock.hpp>

namespace zkclient::detail {

/// Finds the requests that are too large for the server. A server drops the connection at once when a request is larger
/// than its `jute.maxbuffer`, without a word, and no request before or after it is answered. So a size that was in
/// flight when a connection broke is suspect: it is sent alone, and what has cost the connection twice that way is
/// refused. A request that is answered clears its size and the smaller ones; time clears all, since a server may be set
/// up anew. Thread safety: none. The clock is the caller's.
class SizeSuspects {
 public:
  using TimePoint = BootClock::time_point;

  /// A server with a smaller limit could not work. Most requests are smaller, and are never taken for too large because
  /// of an outage.
  static constexpr std::size_t least_suspicious = 8 * 1024;
  static constexpr auto memory = std::chrono::minutes(1);
  /// A server does it at once, that is within `at_once` and some round trips. What was in flight for longer waited for
  /// something else.
  static constexpr auto at_once = std::chrono::milliseconds(100);
  static constexpr auto longest_flight = std::chrono::seconds(1);

  /// A request of `bytes`, sent at `sent`, was in flight when the connection broke; `alone`: it was the only one.
  /// `round_trip`: the quickest one on that connection; nothing was answered: zero.
  void lost(std::size_t bytes, bool alone, TimePoint sent, TimePoint now, std::chrono::nanoseconds round_trip = {}) {
    const auto flight = std::clamp<std::chrono::nanoseconds>(4 * round_trip, at_once, longest_flight);
    if (bytes < least_suspicious || now - sent > flight) return;
    Record& record = records_[bytes];
    record.last = now;
    if (alone) ++record.strikes;
    if (records_.size() > most_records) records_.erase(records_.begin());
  }
  void answered(std::size_t bytes) {
    if (!records_.empty()) records_.erase(records_.begin(), records_.upper_bound(bytes));
  }

  bool empty() const noexcept { return records_.empty(); }
  bool is_suspect(std::size_t bytes, TimePoint now) { return find(bytes, now) != nullptr; }
  /// As large as one that has cost the connection twice, or larger.
  bool is_refused(std::size_t bytes, TimePoint now) {
    for (auto place = records_.begin(); place != records_.end() && place->first <= bytes;) {
      if (now - place->second.last > memory) {
        place = records_.erase(place);
      } else if (place->second.strikes >= 2) {
        return true;
      } else {
        ++place;
      }
    }
    return false;
  }

 private:
  struct Record {
    int strikes = 0;
    TimePoint last;
  };
  static constexpr std::size_t most_records = 64;

  const Record* find(std::size_t bytes, TimePoint now) {
    const auto place = records_.find(bytes);
    if (place == records_.end()) return nullptr;
    if (now - place->second.last <= memory) return &place->second;
    records_.erase(place);
    return nullptr;
  }

  std::map<std::size_t, Record> records_;
};

}  // namespace zkclient::detail
