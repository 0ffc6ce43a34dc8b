#include "zktesting/expire.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "zktesting/detail/wire_client.hpp"

namespace zktesting {
namespace {

using namespace detail;

constexpr std::size_t password_size = 16;
constexpr std::int32_t close_session = -11;
constexpr std::chrono::milliseconds any_session_timeout{10'000};

/// A server that sits on an attempt is asked again after this time.
constexpr std::chrono::milliseconds attempt_timeout{500};

/// Whether an attempt that failed may have reached the server.
bool was_heard(const Error& error) {
  return dynamic_cast<const ConnectionClosed*>(&error) != nullptr || dynamic_cast<const TimedOut*>(&error) != nullptr;
}

/// False: the server says that there is no such session.
bool close_once(const Endpoint& endpoint, const SessionId& session, Deadline deadline) {
  Socket socket(endpoint, deadline);
  // Both in one go: the server has the close in its hands before the owner can reconnect.
  socket.write(
      WireClient::connect_frame(any_session_timeout, session) + WireClient::request_frame(1, close_session, ""),
      deadline);
  if (read_connect_reply(socket, deadline).session.id == 0) {
    return false;
  }
  while (get_int32(read_frame(socket, deadline), 0) != 1) {
  }
  return true;
}

}  // namespace

void expire(std::string_view connect_string, std::int64_t session_id, std::string_view password,
            std::chrono::milliseconds timeout) {
  if (password.size() != password_size) {
    throw Error(fmt::format("a session's password has 16 bytes, not {}", password.size()));
  }
  if (session_id == 0) {
    throw Error("0 is not the id of a session");
  }
  const auto endpoints = parse_endpoints(connect_string);
  const Deadline deadline = Clock::now() + timeout;
  const SessionId session{session_id, std::string(password)};
  // When the owner takes its session back through another connection, the server drops ours, or
  // leaves it unanswered: then our close may have been heard or not, and "no such session" is good
  // news from then on.
  bool contested = false;
  for (std::size_t attempt = 0;; ++attempt) {
    const Deadline end = std::min(deadline, Clock::now() + attempt_timeout);
    try {
      if (close_once(endpoints[attempt % endpoints.size()], session, end) || contested) {
        return;
      }
      break;
    } catch (const Error& error) {
      contested = contested || was_heard(error);
      const bool all_tried = attempt + 1 >= endpoints.size() && !contested;
      if (all_tried || Clock::now() >= deadline) {
        throw Error(fmt::format("session {:#x} could not be expired: {}", session_id, error.what()));
      }
    }
  }
  throw Error(fmt::format("{}: no session {:#x} with this password", connect_string, session_id));
}

}  // namespace zktesting
