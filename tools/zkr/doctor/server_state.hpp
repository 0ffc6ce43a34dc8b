#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zkr {

/// What a server says of itself.
struct ServerState {
  std::string mode;  // "leader", "follower", "observer", "standalone".
  std::uint64_t zxid = 0;
  double latency_ms = 0;  // Of requests, on average, since it was started.
  double worst_latency_ms = 0;
  std::int64_t outstanding = 0;  // Requests that wait.
  std::int64_t connections = 0;
};

/// Of the answer to the four letters "srvr". Nothing: it is none; why_closed() says why.
std::optional<ServerState> parse_srvr(std::string_view answer);
/// Of the admin server's answer to /commands/stats, which is JSON.
std::optional<ServerState> parse_stats(std::string_view answer);
/// "": it is an answer.
std::string why_closed(std::string_view answer);

/// How grave it is.
enum class Gravity { good, note, warning, failure };
const char* to_string(Gravity gravity) noexcept;

/// One thing that was looked at.
struct Finding {
  Gravity gravity = Gravity::good;
  std::string check;  // "server 10.0.0.1:2181", "session", ...
  std::string text;
};

/// What the servers' states mean together. `listed`: so many servers the caller knows; `states`: of those that answered.
std::vector<Finding> judge_ensemble(std::size_t listed, const std::vector<ServerState>& states);

}  // namespace zkr
