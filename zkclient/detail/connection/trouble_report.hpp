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
  /// The same for a call that waited in vain: if nothing is known yet, that the servers are silent.
  std::string reason() const;

  void resolved(const Resolution& resolution, const std::vector<Host>& hosts);
  void note(ServerTrouble trouble) { troubles_.note(std::move(trouble)); }
  /// An attempt to reach one of `hosts` has failed.
  void tell(const std::vector<Host>& hosts);
  /// A connection has begun, and with it the outage ended.
  void forget();
  /// There is no connection to any of `hosts`.
  void begin_outage(std::chrono::milliseconds patience, const std::vector<Host>& hosts);
  void stop() noexcept { outage_.cancel(); }

 private:
  void set_text(const std::vector<Host>& hosts);

  mutable std::mutex mutex_;
  std::string text_;     // Guarded by mutex_.
  std::string silence_;  // Guarded by mutex_: in place of an empty text, while there is no connection.
  ServerTroubles troubles_;
  Timer outage_;
  int failed_attempts_ = 0;
  std::chrono::steady_clock::time_point next_line_;
  std::chrono::milliseconds pause_{1000};
};

}  // namespace zkclient::detail
