#include "zkclient/detail/connection/trouble_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "zkclient/detail/log.hpp"

namespace zkclient::detail {
namespace {

constexpr auto first_pause = std::chrono::milliseconds(1000);
constexpr auto last_pause = std::chrono::milliseconds(60'000);

}  // namespace

std::string TroubleReport::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

std::string TroubleReport::reason() const {
  const std::lock_guard lock(mutex_);
  return text_.empty() ? silence_ : text_;
}

void TroubleReport::set_text(const std::vector<Host>& hosts) {
  const std::lock_guard lock(mutex_);
  text_ = troubles_.text(hosts);
  silence_ = troubles_.silence(hosts);
}

void TroubleReport::resolved(const Resolution& resolution, const std::vector<Host>& hosts) {
  troubles_.resolved(resolution);
  set_text(hosts);
}

// At `warning` not each attempt, of which there may be twenty in a second, but the first one and then ever fewer.
void TroubleReport::tell(const std::vector<Host>& hosts) {
  set_text(hosts);
  ++failed_attempts_;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_line_ || !log_enabled(LogLevel::warning)) return;
  log(LogLevel::warning, fmt::format("no connection, attempt {}: {}", failed_attempts_, text()));
  next_line_ = now + pause_;
  pause_ = std::min(pause_ * 2, last_pause);
}

void TroubleReport::forget() {
  troubles_.clear();
  set_text({});
  failed_attempts_ = 0;
  next_line_ = {};
  pause_ = first_pause;
  outage_.cancel();
}

// Once in each outage, at the level that is always on: a program that waits for a server must not be silent for ever.
void TroubleReport::begin_outage(std::chrono::milliseconds patience, const std::vector<Host>& hosts) {
  troubles_.begin();
  set_text(hosts);
  if (outage_.is_set()) return;
  outage_.set_after(patience, [this, patience] {
    const std::string why = reason();
    log(LogLevel::error, fmt::format("no server for {} ms: {}", patience.count(), why));
  });
}

}  // namespace zkclient::detail
