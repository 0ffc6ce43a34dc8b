#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/export.hpp>
#include <zktesting/error.hpp>

namespace zktesting {

namespace detail {
class Relay;
struct FaultState;
}  // namespace detail

enum class Direction { to_server, to_client, both };

/// The kinds of request, by their numbers in ZooKeeper's protocol.
enum class RequestType : std::int32_t {
  any = 0,        ///< Every kind but `connect` and `ping`, which come at moments of their own.
  connect = -10,  ///< The handshake that opens or resumes a session.
  create = 1,
  remove = 2,
  exists = 3,
  get_data = 4,
  set_data = 5,
  get_acl = 6,
  set_acl = 7,
  get_children = 8,
  sync = 9,
  ping = 11,
  get_children2 = 12,
  check = 13,
  multi = 14,
  create2 = 15,
  reconfig = 16,
  check_watches = 17,
  remove_watches = 18,
  create_container = 19,
  create_ttl = 21,
  auth = 100,
  set_watches = 101,
  close_session = -11,
};

/// A fault that was armed. Copies stand for the same fault; it stays armed when they are gone.
class ZKRECIPES_API Fault {
 public:
  /// Waits until the fault has happened (and the connection is cut, if it does that). False: not within `timeout`.
  [[nodiscard]] bool wait(std::chrono::milliseconds timeout) const;
  /// Whether `wait` would return true at once.
  [[nodiscard]] bool happened() const;
  /// Disarms it if it has not happened yet.
  void cancel();

 private:
  friend class Proxy;
  explicit Fault(std::shared_ptr<detail::FaultState> state);
  std::shared_ptr<detail::FaultState> state_;
};

/// A reply that is held back, together with all that follows it on the same connection.
class ZKRECIPES_API [[nodiscard]] HeldReply {
 public:
  HeldReply(HeldReply&&) noexcept = default;
  HeldReply& operator=(HeldReply&& other) noexcept;
  /// Releases.
  ~HeldReply();
  /// Waits until the reply has arrived from the server and is held: the request has been applied.
  [[nodiscard]] bool wait(std::chrono::milliseconds timeout) const;
  [[nodiscard]] bool happened() const;
  /// Lets the reply and what follows go on; disarms if nothing is held yet. May be repeated.
  void release();

 private:
  friend class Proxy;
  explicit HeldReply(std::shared_ptr<detail::FaultState> state);
  std::shared_ptr<detail::FaultState> state_;
};

struct ProxyOptions {
  /// False: the bytes are not looked at; then neither faults nor request counts are to be had. (A
  /// connection that begins with a four-letter word is passed on unseen in any case.)
  bool parse = true;
  /// Where to listen; empty: a random 127.a.b.c of its own. The port is always the kernel's choice.
  std::string listen_address;
};

/// A TCP proxy in front of one server, which can do to a connection whatever a network can, and
/// drop exactly the message that a test needs dropped.
///
/// Every verb concerns all the connections of this proxy, and has taken effect when it returns. One
/// thread per proxy. Thread safety: every member may be called from any thread. Every failure is an
/// `Error`.
class ZKRECIPES_API Proxy {
 public:
  /// Listens; `target` is "host:port" (IPv4 or a name; looked up once). The target need not be up:
  /// each new connection tries it, and is reset if it refuses.
  explicit Proxy(std::string_view target, ProxyOptions options = {});
  /// Resets the connections and stops listening.
  ~Proxy();
  Proxy(Proxy&&) noexcept;
  Proxy& operator=(Proxy&&) noexcept;

  /// "127.a.b.c:port" for the client. Stays the same for the life of the proxy.
  [[nodiscard]] std::string connect_string() const;

  /// Resets all the existing connections, on both sides.
  void cut();
  /// True: new connections are refused (ECONNREFUSED), existing ones stay. False: listens again.
  void refuse(bool on);
  [[nodiscard]] bool refuses() const;
  /// Holds the bytes of a direction: nothing is lost, nothing is closed, not even noticed. New
  /// connections are accepted, and reach the server after `unstall` (unless the client has given
  /// up).
  void stall(Direction direction);
  void unstall(Direction direction);
  /// Each byte of a direction arrives that much later; 0 ends it (for bytes that come from then
  /// on).
  void delay(Direction direction, std::chrono::milliseconds by);

  /// The next reply to a request of this kind, on whichever connection, is thrown away: the server
  /// has done what was asked, the client does not learn it. Replies before it are delivered; then
  /// both sides of that connection are closed (a client could not go on with a reply missing).
  /// Faults of the same kind that are armed several times happen one after the other.
  Fault drop_next_reply(RequestType type);
  /// The next request of this kind is thrown away: the server never sees it. What was sent before
  /// it is answered (at most 5 s is waited for that), then the connection is closed.
  Fault drop_next_request(RequestType type);
  /// The next answer to a handshake names the id of another session. A client that asked for its
  /// old session has to see that it did not get it. The connection stays.
  Fault forge_next_session();
  /// The next reply to a request of this kind is held until released.
  HeldReply hold_next_reply(RequestType type);
  /// Of the watch events from now on, on whichever connection, `passed` are delivered, and the next one is thrown away;
  /// then both sides of its connection are closed. So the connection breaks between two events of one transaction.
  Fault drop_next_event(std::size_t passed = 0);
  /// From now on watch events name this transaction, as those of servers from 3.9 on name the one that they tell of;
  /// those of older servers say -1. nullopt: they pass as they come.
  void stamp_events(std::optional<std::int64_t> zxid);

  /// Requests that clients have sent, dropped ones and those on closed connections included.
  [[nodiscard]] std::size_t request_count(RequestType type) const;
  /// Waits until `request_count(type)` is at least `count`. False: not within `timeout`.
  [[nodiscard]] bool wait_for_requests(RequestType type, std::size_t count, std::chrono::milliseconds timeout) const;
  /// The newest transaction that the client has seen, by the latest handshake; 0 in that of a new session, and before any.
  [[nodiscard]] std::int64_t last_seen_zxid() const;
  /// Bytes handed to the other side so far. Dropped ones are not counted; `both` is the sum.
  [[nodiscard]] std::size_t byte_count(Direction direction) const;
  [[nodiscard]] std::size_t dropped_replies() const;
  [[nodiscard]] std::size_t dropped_requests() const;
  /// Client connections that are open now, held ones included.
  [[nodiscard]] std::size_t connections() const;
  /// Client connections accepted so far.
  [[nodiscard]] std::size_t accepted_connections() const;

 private:
  std::unique_ptr<detail::Relay> relay_;
};

}  // namespace zktesting
