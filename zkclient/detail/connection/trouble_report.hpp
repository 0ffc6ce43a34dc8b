#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "zkclient/detail/connection/trouble.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/servers/hosts.hpp"

namespace zkclient::detail {

/// Says why there is no connection: to callers, and in the log at ever longer intervals. Lives on the loop thread,
/// except text().
class TroubleReport {
 public:
  explicit TroubleReport(EventLoop& events) : outage_(events) {}

  /// Any thread: what is known; "" if nothing is, or if there is no trouble.
  std::string text() const;

  void resolved(const Resolution& resolution) { troubles_.resolved(resolution); }
  void note(ServerTrouble trouble) { troubles_.note(std::move(trouble)); }
  /// An attempt to reach one of `hosts` has failed.
  void tell(const std::vector<Host>& hosts);
  /// A connection has begun, and with it the outage ended.
  void forget();
  /// There is no connection.
  void begin_outage(std::chrono::milliseconds patience);
  void stop() noexcept { outage_.cancel(); }

 private:
  void set_text(std::string text);

  mutable std::mutex mutex_;
  std::string text_;  // Guarded by mutex_.
  ServerTroubles troubles_;
  Timer outage_;
  int failed_attempts_ = 0;
  std::chrono::steady_clock::time_point next_line_;
  std::chrono::milliseconds pause_{1000};
};

}  // namespace zkclient::detail
