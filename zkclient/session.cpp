#include <zkclient/session.hpp>

#include "zkclient/detail/requests/session_state.hpp"

namespace zkclient {

std::int64_t Session::id() const noexcept { return state_->id(); }
std::chrono::milliseconds Session::timeout() const noexcept { return state_->timeout(); }
ConnectionState Session::state() const noexcept { return state_->state(); }
std::stop_token Session::lost() const noexcept { return state_->lost(); }
BootClock::time_point Session::valid_until() const noexcept { return state_->valid_until(); }
BootClock::time_point Session::proven_at() const noexcept { return state_->proven_at(); }
SessionCredentials Session::credentials() const { return {state_->id(), state_->password()}; }

}  // namespace zkclient
