#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <zkclient/log.hpp>
#include <zkclient/session.hpp>

#include "zkclient/detail/request.hpp"

struct _zhandle;

namespace zkclient::detail {

namespace asio = boost::asio;

/// `flushed`: an `authenticate` that had to wait for unsent requests may be submitted again.
enum class HandleEvent { connected, disconnected, expired, auth_failed, flushed };

/// What a handle tells its owner. Never called from inside the C client, so everything is allowed in there.
class HandleOwner {
 public:
  virtual ~HandleOwner() = default;
  virtual void on_handle_event(HandleEvent event) = 0;
  /// `type` is the C client's event type (1 created, 2 deleted, 3 changed, 4 child).
  virtual void on_node_event(int type, const std::string& path) = 0;
  /// The reply of `op` is in `op.code` and `op.reply`.
  virtual void on_reply(const std::shared_ptr<Op>& op) = 0;
};

/// One handle of the C client, driven by the event loop. Only handle*.cpp include zookeeper.h.
///
/// The C client calls back in the middle of its own work. Its callbacks therefore only copy what they got into a
/// queue, which is worked off as soon as the C client has returned.
class Handle : public std::enable_shared_from_this<Handle> {
 public:
  Handle(asio::io_context& context, HandleOwner& owner);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// Process-wide settings of the C client.
  static void initialize_library();
  static void set_library_log_level(LogLevel level) noexcept;

  /// Starts to connect to `addresses` ("ip:port,..."), resuming `resume` if it has an id.
  void open(const std::string& addresses, std::chrono::milliseconds timeout, const SessionCredentials& resume);

  /// Sends `op`; only while connected. False when the connection turned out to be broken: nothing was sent.
  bool submit(const std::shared_ptr<Op>& op);
  /// Before the first request of a handle: proves all these identities. Does nothing later.
  void authenticate_first(const std::vector<std::shared_ptr<Credential>>& credentials);
  bool connected() const noexcept { return connected_; }
  int in_flight() const noexcept { return in_flight_; }
  SessionCredentials credentials() const;
  std::chrono::milliseconds timeout() const;
  /// The "ip:port" that it is connected to.
  std::optional<std::string> server() const;

  /// Ends the session at the server (as far as it can be reached: a server that says nothing for `patience` is given up)
  /// and frees the C client's handle; then calls `done`. Requests in flight get their replies first. Nothing is told to
  /// the owner afterwards.
  void close(std::chrono::milliseconds patience, UniqueFunction<void()> done);
  /// Frees the handle at once, without a word to the server, which keeps the session until its timeout. What was heard
  /// already is told to the owner before this returns, requests in flight end with a loss; then nothing more is told.
  /// Not from inside a call to the owner.
  void drop();

 private:
  struct Ready {
    std::shared_ptr<Op> op;
    HandleEvent event = HandleEvent::connected;
    int node_event = 0;
    std::string path = {};
  };
  enum class Phase { idle, open, draining, saying_goodbye, closed };

  static void watcher(_zhandle* zh, int type, int state, const char* path, void* context);
  friend struct Callbacks;

  void session_event(int state);
  int send(Op& op);
  int authenticate(const std::shared_ptr<Credential>& credential);
  void tell_flushed();
  void drive();
  void schedule_drive();
  bool take_descriptor(int fd);
  void drop_descriptor();
  void stop_listening();
  void arm_read();
  void arm_write();
  void arm_timer(std::chrono::microseconds delay);
  void on_readable();
  void on_writable();
  void process(int events);
  std::chrono::microseconds give_up_on_silence(int fd);
  void check_connection();
  void forget_closed_socket();
  void finish_broken_connection();
  void flush_broken_connection();
  void run_ready();
  void arm_close_timer();
  void continue_close();
  void say_goodbye();
  void read_goodbye();
  void finish_close();
  void abandon();
  void cut_connection();

  asio::io_context& context_;
  HandleOwner* owner_;
  _zhandle* zh_ = nullptr;
  Phase phase_ = Phase::idle;
  bool connected_ = false;
  bool dead_ = false;
  int in_flight_ = 0;
  asio::posix::stream_descriptor descriptor_;
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool listens_for_write_ = false;
  bool drive_scheduled_ = false;
  bool running_ready_ = false;
  bool fresh_ = true;          // Nothing was handed to the C client yet.
  bool flush_wanted_ = false;  // Somebody waits for HandleEvent::flushed.
  std::vector<std::shared_ptr<Credential>> authenticated_;
  std::chrono::steady_clock::time_point attempt_begun_;
  std::chrono::milliseconds attempt_patience_{0};  // Zero: not yet known.
  unsigned generation_ = 0;                        // Of the descriptor; stale waits are ignored.
  asio::steady_timer timer_;
  std::chrono::steady_clock::time_point timer_due_ = std::chrono::steady_clock::time_point::max();
  asio::steady_timer close_timer_;
  std::chrono::milliseconds close_patience_{0};
  UniqueFunction<void()> closed_;
  std::deque<Ready> ready_;
};

}  // namespace zkclient::detail
