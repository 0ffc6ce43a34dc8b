#include <zkclient/types.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>

#include <zkclient/clock.hpp>
#include <zkclient/retry.hpp>
#include <zkclient/session.hpp>
#include <zkclient/watch.hpp>

namespace zkclient {

const char* acl_defect(const AclList& acl) noexcept {
  if (acl.empty()) return "the list is empty";
  for (const Acl& entry : acl) {  // The C client takes them for C strings.
    if (entry.scheme.find('\0') != std::string::npos || entry.id.find('\0') != std::string::npos) {
      return "a scheme or an id holds a zero byte";
    }
  }
  return nullptr;
}

AclList open_acl() { return {Acl{}}; }
AclList read_only_acl() { return {Acl{Acl::read, "world", "anyone"}}; }
AclList creator_all_acl() { return {Acl{Acl::all, "auth", ""}}; }

BootClock::time_point BootClock::now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

std::optional<std::chrono::milliseconds> RetryPolicy::pause(int attempt, std::chrono::milliseconds remaining,
                                                            double random) const noexcept {
  if (attempt < 1 || attempt >= max_attempts) return std::nullopt;
  constexpr std::chrono::milliseconds year = std::chrono::hours(24 * 365);  // "For ever" is too much for a clock.
  const double ceiling = static_cast<double>(std::clamp(max, std::chrono::milliseconds(0), year).count());
  const double growth = std::pow(std::max(multiplier, 1.0), attempt - 1);  // Infinite after many attempts.
  const double raw = initial.count() <= 0 ? 0.0 : static_cast<double>(initial.count()) * growth;
  const double scaled = std::min(raw, ceiling) * (1.0 - std::clamp(jitter, 0.0, 1.0) * random);
  const std::chrono::milliseconds pause(static_cast<std::int64_t>(scaled));
  if (pause >= remaining) return std::nullopt;
  return pause;
}

const char* to_string(ConnectionState state) noexcept {
  switch (state) {
    case ConnectionState::connecting: return "connecting";
    case ConnectionState::connected: return "connected";
    case ConnectionState::suspended: return "suspended";
    case ConnectionState::lost: return "lost";
    case ConnectionState::closed: return "closed";
  }
  return "unknown";
}

const char* to_string(WatchEventType type) noexcept {
  switch (type) {
    case WatchEventType::created: return "created";
    case WatchEventType::deleted: return "deleted";
    case WatchEventType::data_changed: return "data_changed";
    case WatchEventType::children_changed: return "children_changed";
    case WatchEventType::session_lost: return "session_lost";
    case WatchEventType::closed: return "closed";
  }
  return "unknown";
}

}  // namespace zkclient
