#include "tools/zkr/hold/lease_session.hpp"

#include <chrono>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"
#include "zkclient/detail/servers/hosts.hpp"

namespace zkr {
namespace {

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

void tell_guardian(const GuardianProcess& guardian, const zkclient::StateChange& change) {
  using zkclient::ConnectionState;
  if (change.state == ConnectionState::lost || change.state == ConnectionState::closed) guardian.tell("none");
  if (change.state != ConnectionState::connected) return;
  const zkclient::SessionCredentials session = change.session.credentials();
  guardian.tell(
      fmt::format("session {} {} {}", session.id, change.session.timeout().count(), hexadecimal(session.password)));
}

}  // namespace

bool lost_the_place(const zkclient::Error& error) {
  using zkclient::Errc;
  return error.errc() == Errc::session_lost || error.errc() == Errc::connection_loss || error.errc() == Errc::not_held;
}

zkclient::Subscription guard_sessions(const zkclient::Client& client, const Connection& connection,
                                      const GuardianProcess& guardian) {
  for (const zkclient::detail::Host& host : zkclient::detail::parse_hosts(connection.hosts))
    guardian.tell(fmt::format("server {} {}", host.port, host.name));
  if (const auto& tls = connection.options.tls) {
    guardian.tell(fmt::format("tls {} {} {} {}", hexadecimal(tls->ca_file), hexadecimal(tls->certificate_file),
                              hexadecimal(tls->key_file), hexadecimal(tls->key_passphrase)));
  }
  return client.on_state_change([&guardian](const zkclient::StateChange& change) { tell_guardian(guardian, change); });
}

void require_margin(const RunOptions& options, Duration timeout) {
  if (!options.kill_margin) return;  // Where ours is too long, the session is too short for leases: that is told.
  const Duration margin = kill_margin(timeout, options);
  if (margin <= longest_kill_margin(timeout)) return;
  const auto seconds = [](Duration duration) { return std::chrono::duration<double>(duration).count(); };
  throw Failure(exit_usage, fmt::format("a --kill-margin of {:g} s is too long: {:g} s is the most for a session "
                                        "timeout of {:g} s",
                                        seconds(margin), seconds(longest_kill_margin(timeout)), seconds(timeout)));
}

ControlAnswer held_answer(const std::optional<Lease>& lease) {
  const ControlAnswer over{.code = exit_lost, .text = "the lease is over"};
  if (!lease || lease->state != LeaseState::held) return over;
  const auto left = std::chrono::floor<std::chrono::milliseconds>(lease->valid_until - BootClock::now());
  if (left.count() <= 0) return over;
  return {.code = exit_success, .text = std::to_string(left.count())};
}

}  // namespace zkr
