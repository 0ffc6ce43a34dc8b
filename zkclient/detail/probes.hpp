#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <zkclient/clock.hpp>

#if ZKR_PROBES
#include <sys/sdt.h>
#endif

/// Static probes (USDT) of the provider "zkrecipes": places where bpftrace, perf, SystemTap or gdb can look into a running
/// process. Each is a no-op instruction; nothing is called. docs/metrics.md lists their names and arguments, and a test
/// compares that list with the libraries. Without <sys/sdt.h> (ZKRECIPES_PROBES) they are empty.
///
/// Inline always, so that a probe stands where its caller is. Texts end with a zero byte; an error is a number, 0 for none.
namespace zkclient::detail::probe {

#if ZKR_PROBES
#define ZKR_PROBE2(name, ...) STAP_PROBE2(zkrecipes, name, __VA_ARGS__)
#define ZKR_PROBE3(name, ...) STAP_PROBE3(zkrecipes, name, __VA_ARGS__)
#define ZKR_PROBE4(name, ...) STAP_PROBE4(zkrecipes, name, __VA_ARGS__)
#define ZKR_PROBE5(name, ...) STAP_PROBE5(zkrecipes, name, __VA_ARGS__)
#else
#define ZKR_PROBE2(name, ...) ignore(__VA_ARGS__)
#define ZKR_PROBE3(name, ...) ignore(__VA_ARGS__)
#define ZKR_PROBE4(name, ...) ignore(__VA_ARGS__)
#define ZKR_PROBE5(name, ...) ignore(__VA_ARGS__)
template <typename... Arguments>
[[gnu::always_inline]] inline void ignore(const Arguments&...) noexcept {}
#endif

/// A call of a recipe, or one of the client that takes several requests. `id` tells those apart that run at one time.
[[gnu::always_inline]] inline void call_begin(const void* id, const char* operation, const std::string& path) noexcept {
  ZKR_PROBE3(call_begin, id, operation, path.c_str());
}
[[gnu::always_inline]] inline void call_end(const void* id, const char* operation, const std::string& path,
                                            int error) noexcept {
  ZKR_PROBE4(call_end, id, operation, path.c_str(), error);
}

/// A request was handed to the C client, the heartbeats among them. One that is sent again has the same `id`.
[[gnu::always_inline]] inline void request_sent(const void* id, const char* kind, const std::string& path,
                                                int attempt) noexcept {
  ZKR_PROBE4(request_sent, id, kind, path.c_str(), attempt);
}
/// A request is over. `attempts`: how often it was sent; 0 if it never was.
[[gnu::always_inline]] inline void request_done(const void* id, const char* kind, const std::string& path, int error,
                                                int attempts) noexcept {
  ZKR_PROBE5(request_done, id, kind, path.c_str(), error, attempts);
}

/// States are named as ConnectionState's.
[[gnu::always_inline]] inline void session_state(std::int64_t session, const char* from, const char* to,
                                                 const std::string& reason) noexcept {
  ZKR_PROBE4(session_state, session, from, to, reason.c_str());
}

/// A heartbeat of a session's leases leaves, and checks so many nodes; its answer came, or it was lost.
[[gnu::always_inline]] inline void proof_sent(std::int64_t session, std::size_t nodes) noexcept {
  ZKR_PROBE2(proof_sent, session, nodes);
}
[[gnu::always_inline]] inline void proof_received(std::int64_t session, int error) noexcept {
  ZKR_PROBE2(proof_received, session, error);
}
/// A write that was sent at the first time was acknowledged: leases are certain up to the second one. CLOCK_BOOTTIME, ns.
[[gnu::always_inline]] inline void session_proven(std::int64_t session, BootClock::time_point sent,
                                                  BootClock::time_point until) noexcept {
  const std::int64_t sent_ns = sent.time_since_epoch().count();
  const std::int64_t until_ns = until.time_since_epoch().count();
  ZKR_PROBE3(session_proven, session, sent_ns, until_ns);
}

/// `node`: the lease's own, which no other lease ever has.
[[gnu::always_inline]] inline void lease_granted(const std::string& node, std::int64_t session,
                                                 std::int64_t token) noexcept {
  ZKR_PROBE3(lease_granted, node.c_str(), session, token);
}
[[gnu::always_inline]] inline void lease_released(const std::string& node, std::int64_t session,
                                                  std::int64_t token) noexcept {
  ZKR_PROBE3(lease_released, node.c_str(), session, token);
}
/// `cause` has no zero byte at its end: its length is the fifth argument.
[[gnu::always_inline]] inline void lease_lost(const std::string& node, std::int64_t session, std::int64_t token,
                                              std::string_view cause) noexcept {
  ZKR_PROBE5(lease_lost, node.c_str(), session, token, cause.data(), cause.size());
}
/// A waiter sees that the last node before its own is gone: it is next.
[[gnu::always_inline]] inline void hand_over(const std::string& former, const std::string& own,
                                             std::int64_t session) noexcept {
  ZKR_PROBE3(hand_over, former.c_str(), own.c_str(), session);
}

#undef ZKR_PROBE2
#undef ZKR_PROBE3
#undef ZKR_PROBE4
#undef ZKR_PROBE5

}  // namespace zkclient::detail::probe
