#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/log.hpp>
#include <zkclient/session.hpp>

#include "zkclient/detail/connection/connect_pace.hpp"
#include "zkclient/detail/connection/repeated_lines.hpp"
#include "zkclient/detail/connection/trouble.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/requests/request.hpp"

struct _zhandle;

namespace zkclient {
struct SaslOptions;
struct TlsOptions;
}  // namespace zkclient

namespace zkclient::detail {

class SaslLogin;

/// `flushed`: what had to wait for unsent requests (an `authenticate`, or for `has_room`) may be submitted again.
/// `login_refused`: SASL failed; the session is over.
enum class HandleEvent { connected, disconnected, expired, auth_failed, login_refused, flushed };

/// The options with which a handle is opened.
struct HandleOptions {
  std::string addresses;  ///< "ip:port,..."
  std::chrono::milliseconds timeout;
  SessionCredentials resume = {};  ///< If it has an id.
  const TlsOptions* tls = nullptr;
  const SaslOptions* sasl = nullptr;
  /// Shared by the handles of a client, of which one tries to connect.
  std::shared_ptr<ConnectPace> pace = std::make_shared<ConnectPace>();
  std::shared_ptr<RepeatedLines> repeated = std::make_shared<RepeatedLines>();
};

/// The calls of a handle to its owner. Never called from inside the C client, so everything is allowed in there.
class HandleOwner {
 public:
  virtual ~HandleOwner() = default;
  virtual void on_handle_event(HandleEvent event) = 0;
  /// A ping, sent at `sent` or later, was answered.
  virtual void on_ping_answered(BootClock::time_point sent) = 0;
  /// An attempt to talk to a server failed, or a connection broke.
  virtual void on_trouble(ServerTrouble trouble) = 0;
  /// How long the lease or the session can still be kept that is lost first; zero: there is none.
  virtual std::chrono::nanoseconds left_to_keep() const = 0;
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
  Handle(EventLoop& events, HandleOwner& owner);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// Process-wide settings of the C client.
  static void initialize_library();
  static void set_library_log_level(LogLevel level) noexcept;

  /// Starts to connect.
  void open(const HandleOptions& options);

  /// Sends `op`; only while connected. False when the connection turned out to be broken: nothing was sent.
  bool submit(const std::shared_ptr<Op>& op);
  /// Whether the connection can take a request now; if not, HandleEvent::flushed tells when to ask again.
  bool has_room();
  /// Before the first request of a handle: proves all these identities. Does nothing later.
  void authenticate_first(const std::vector<std::shared_ptr<Credential>>& credentials);
  /// Sends what was submitted in this turn of the loop, before the turn ends.
  void send_gathered();
  bool connected() const noexcept { return connected_; }
  int in_flight() const noexcept { return in_flight_; }
  SessionCredentials credentials() const;
  std::chrono::milliseconds timeout() const;
  /// When the attempt that led to the connection had begun.
  BootClock::time_point connect_begun() const noexcept { return connect_begun_; }
  /// The "ip:port" that it is connected to.
  std::optional<std::string> server() const;

  /// Ends the session at the server (as far as it can be reached: a server that says nothing for `patience` is given
  /// up) and frees the C client's handle; then calls `done`. Requests in flight get their replies first. Nothing is
  /// told to the owner afterwards.
  void close(std::chrono::milliseconds patience, UniqueFunction<void()> done);
  /// The server has ended the session: it said so, or it has followed close().
  bool session_closed() const noexcept { return session_closed_; }
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
  enum class Phase { idle, open, draining, closing_session, closed };

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
  void gather_packets();
  void bound_what_is_unsent();
  void arm_timer(std::chrono::microseconds delay);
  void on_ready(bool writable);
  void process(int events);
  void read_on();
  std::chrono::microseconds give_up_on_silence();
  bool answers_as_a_server();
  int ask_interest(int& fd, int& interest, std::chrono::microseconds& wait);
  void note_ping(BootClock::time_point asked, std::chrono::microseconds wait);
  void tell_answered_pings(int answers);
  int let_process(int events);
  std::chrono::nanoseconds pause_before_attempt();
  int begin_attempt(int& fd, int& interest, std::chrono::microseconds& wait);
  void take_lines();
  void log_line(const std::string& line);
  void check_connection();
  void check_login();
  void forget_closed_socket();
  void finish_broken_connection();
  void flush_broken_connection();
  void run_ready();
  void arm_close_timer();
  void end_patience();
  void continue_close();
  void close_session();
  void read_close_reply();
  void finish_close();
  void abandon();
  void cut_connection();

  // TLS: handle_tls.cpp.
  struct Aside;
  /// The C client's messages of this thread go into `lines` while it exists.
  struct LineCollector {
    explicit LineCollector(std::vector<std::string>& lines);
    ~LineCollector();
    LineCollector(const LineCollector&) = delete;
    LineCollector& operator=(const LineCollector&) = delete;
    std::vector<std::string>* const former;
  };
  void run_aside(UniqueFunction<void()> work, UniqueFunction<void()> then);
  void end_aside();
  bool shakes_hands() const;
  void shake_hands();
  void handshake_failed(const std::string& reason, bool permanent);
  void cut_attempt(std::string reason);
  void close_session_aside();

  EventLoop& events_;
  HandleOwner* owner_;
  _zhandle* zh_ = nullptr;
  Phase phase_ = Phase::idle;
  bool connected_ = false;
  bool dead_ = false;
  bool session_closed_ = false;
  bool close_answered_ = false;
  std::uint32_t last_word_ = 0;  // Of what the server has sent since it was asked to close the session.
  int in_flight_ = 0;
  BootClock::time_point last_sent_{};
  Descriptor descriptor_;
  bool drive_scheduled_ = false;
  bool drive_wanted_ = false;  // What the C client waits for may have changed since it was asked.
  bool gathering_ = false;     // The kernel keeps what is sent until drive().
  bool running_ready_ = false;
  bool fresh_ = true;          // Nothing was handed to the C client yet.
  bool flush_wanted_ = false;  // The owner waits for HandleEvent::flushed.
  std::vector<std::shared_ptr<Credential>> authenticated_;
  std::chrono::steady_clock::time_point attempt_begun_;
  BootClock::time_point connect_begun_;            // The same instant.
  std::chrono::milliseconds attempt_patience_{0};  // Zero: not yet known.
  std::deque<BootClock::time_point> pinged_;       // When it sent the pings that are not answered yet, at the earliest.
  std::optional<BootClock::time_point> next_date_;  // Of the C client; nothing was sent or received since it was named.
  Timer timer_;
  Timer close_timer_;
  std::chrono::milliseconds close_patience_{0};
  UniqueFunction<void()> closed_;
  std::deque<Ready> ready_;
  bool tls_ = false;
  bool aside_ = false;         // A thread has the C client's handle.
  bool unsent_ = false;        // The C client waits until it can write.
  bool crowded_ = false;       // So do we.
  bool more_to_read_ = false;  // Inside OpenSSL, perhaps.
  std::thread helper_;
  std::string tls_trouble_;         // The last one that was told.
  std::vector<std::string> lines_;  // That the C client logged in its last call.
  std::shared_ptr<RepeatedLines> repeated_;
  std::shared_ptr<ConnectPace> pace_;
  std::string peer_;  // That the last connection was with.
  bool cuts_without_reason_ = false;
  std::string cut_reason_;  // Of an attempt that was cut here, which the C client takes for a broken one.
  std::shared_ptr<SaslLogin> sasl_;
};

}  // namespace zkclient::detail
