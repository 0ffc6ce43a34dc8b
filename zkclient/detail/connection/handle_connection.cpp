// How the event loop drives the C client's connection, and what it reports.

#include "zkclient/detail/connection/handle.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "zkclient/detail/connection/socket_order.hpp"
#include "zkclient/detail/log.hpp"

namespace zkclient::detail {
namespace {

constexpr auto descriptor_pause = std::chrono::milliseconds(50);   // Before the next attempt to get one.
constexpr auto shortest_attempt = std::chrono::milliseconds(200);  // To connect, at first.
constexpr auto longest_attempt = std::chrono::milliseconds(1000);
constexpr int not_connected_state = 999;  // The C client closed its socket after a failed send, without an event.

// Its socket's connection does not stand yet.
bool connects(zhandle_t* zh) { return zoo_state(zh) == ZOO_CONNECTING_STATE; }

// If not, it makes one as soon as it is asked what it waits for.
bool has_socket(zhandle_t* zh) {
  const int state = zoo_state(zh);
  return state != 0 && state != not_connected_state;
}

}  // namespace

Handle::Handle(EventLoop& events, HandleOwner& owner)
    : events_(events),
      owner_(&owner),
      descriptor_(events,
                  [this](bool, bool writable) {
                    const auto self = shared_from_this();
                    self->on_ready(writable);
                  }),
      timer_(events),
      close_timer_(events) {}

Handle::~Handle() {
  assert(phase_ == Phase::closed || zh_ == nullptr);  // Its owner closes or abandons it.
}

SessionCredentials Handle::credentials() const {
  const clientid_t* identity = zoo_client_id(zh_);
  return {identity->client_id, std::string(identity->passwd, sizeof identity->passwd)};
}

// Not zoo_get_current_server(): its answer is in a buffer that all handles of the process share.
std::optional<std::string> Handle::server() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int fd = descriptor_.is_open() ? descriptor_.get() : -1;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (fd == -1 || ::getpeername(fd, generic, &length) != 0) return std::nullopt;
  const int flags = NI_NUMERICHOST | NI_NUMERICSERV;
  if (::getnameinfo(generic, length, host, sizeof host, port, sizeof port, flags) != 0) return std::nullopt;
  const bool v6 = address.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

std::chrono::milliseconds Handle::timeout() const { return std::chrono::milliseconds(zoo_recv_timeout(zh_)); }

void Handle::watcher(_zhandle*, int type, int state, const char* path, void* context) {
  Handle& self = *static_cast<Handle*>(context);
  if (type == ZOO_SESSION_EVENT) {
    self.session_event(state);
  } else if (type == ZOO_CREATED_EVENT || type == ZOO_DELETED_EVENT || type == ZOO_CHANGED_EVENT ||
             type == ZOO_CHILD_EVENT) {
    self.ready_.push_back({nullptr, HandleEvent::connected, type, path});
  }
}

void Handle::session_event(int state) {
  const auto tell = [this](HandleEvent event) { ready_.push_back({nullptr, event}); };
  if (state == ZOO_CONNECTED_STATE) {
    // Delivered twice now and then; only a change counts.
    if (!connected_) tell(HandleEvent::connected);
    connected_ = true;
    peer_ = server().value_or("");
    bound_what_is_unsent();  // By the timeout that was granted.
    attempt_patience_ = {};
    tls_trouble_.clear();
    cut_reason_.clear();
  } else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
    connected_ = false;
    dead_ = true;
    session_closed_ = state == ZOO_EXPIRED_SESSION_STATE;
    tell(state == ZOO_AUTH_FAILED_STATE ? HandleEvent::auth_failed : HandleEvent::expired);
  } else {
    if (connected_) tell(HandleEvent::disconnected);
    connected_ = false;
  }
}

// After a failed send the C client has closed its socket but kept the requests, whose replies will never come, and
// not told us. Left alone it would mistake the first reply of its next connection for theirs.
void Handle::check_connection() {
  if (!connected_ || zoo_state(zh_) != not_connected_state) return;  // A new handle is in that state, too.
  drop_descriptor();
  flush_broken_connection();
  ready_.push_back({nullptr, HandleEvent::disconnected});
  connected_ = false;
  if (owner_ != nullptr && !peer_.empty()) owner_->on_trouble({peer_, "closed the connection"});
}

// Makes the C client fail those requests: a connection attempt that is cut at once leads it through its clean-up. What it
// says of that attempt's server is no fact.
void Handle::flush_broken_connection() {
  cuts_without_reason_ = true;
  for (int turn = 0; turn < 2; ++turn) {  // The first turn may only note that it is time for another attempt.
    int fd = -1;
    int interest = 0;
    std::chrono::microseconds wait{};
    if (ask_interest(fd, interest, wait) != ZOK) break;
    if (fd == -1) continue;
    ::shutdown(fd, SHUT_RDWR);
    let_process(tls_ ? ZOOKEEPER_READ : ZOOKEEPER_WRITE | ZOOKEEPER_READ);
    break;
  }
  cuts_without_reason_ = false;
}

// A login that failed is told by the state alone.
void Handle::check_login() {
  if (sasl_ == nullptr || dead_ || zoo_state(zh_) != ZOO_AUTH_FAILED_STATE) return;
  connected_ = false;
  dead_ = true;
  ready_.push_back({nullptr, HandleEvent::login_refused});
}

// Mostly the C client has closed it. After a ping that could not be sent it has not: what arrived is read to its end.
void Handle::finish_broken_connection() {
  if (dead_ || !descriptor_.is_open() || zoo_state(zh_) != ZOO_CONNECTED_STATE) return;
  ::shutdown(descriptor_.get(), SHUT_RDWR);
  while (let_process(ZOOKEEPER_READ) == ZOK && !dead_)
    continue;
}

void Handle::schedule_drive() {
  drive_wanted_ = true;
  if (drive_scheduled_) return;
  drive_scheduled_ = true;
  events_.defer([self = shared_from_this()] {
    self->drive_scheduled_ = false;
    if (self->drive_wanted_) self->drive();
  });
}

// Asks the C client what it waits for, and arms that. Also where it connects, pings and finds out about time-outs.
void Handle::drive() {
  send_gathered();
  if (phase_ != Phase::open && phase_ != Phase::draining) return;
  if (aside_) {
    arm_timer(give_up_on_silence());
    return;
  }
  if (dead_) {
    drop_descriptor();
    run_ready();
    return;
  }
  drive_wanted_ = false;
  check_connection();
  forget_closed_socket();
  const bool begins = !has_socket(zh_);
  if (const auto pause = begins ? pause_before_attempt() : std::chrono::nanoseconds::zero(); pause.count() > 0) {
    arm_timer(std::chrono::ceil<std::chrono::microseconds>(pause));
    run_ready();
    return;
  }
  int fd = -1;
  int interest = 0;
  std::chrono::microseconds wait{};
  const auto asked = BootClock::now();
  const int code = begins ? begin_attempt(fd, interest, wait) : ask_interest(fd, interest, wait);
  if (code == ZOK) note_ping(asked, wait);
  if (code != ZOK) {
    check_login();
    finish_broken_connection();
    drop_descriptor();
    if (!dead_) arm_timer(std::chrono::milliseconds(1));
  } else {
    if (fd == -1) drop_descriptor();
    unsent_ = (interest & ZOOKEEPER_WRITE) != 0;
    const bool wants_write = unsent_ || std::exchange(crowded_, false);
    // Before the handshake there is nothing to read, but the C client would.
    const bool wants_read = (interest & ZOOKEEPER_READ) != 0 && !connects(zh_) && !shakes_hands();
    const bool ready =
        fd != -1 && (descriptor_.is_open() || take_descriptor(fd)) && descriptor_.listen_for(wants_read, wants_write);
    arm_timer(wait);
    if (ready && !connected_) arm_timer(give_up_on_silence());
    if (fd != -1 && !ready) arm_timer(descriptor_pause);
    tell_flushed();
  }
  run_ready();
}

// The C client closes its socket whenever it likes, and another thread may get the number at once: the event loop
// therefore works on a duplicate of its own. False when there is none.
bool Handle::take_descriptor(int fd) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // Programs that this process starts must not keep the session's socket open.
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own != -1) {
    descriptor_.open(own);
    bound_what_is_unsent();
  }
  if (own == -1 && owner_ != nullptr)
    owner_->on_trouble({"", std::string("no descriptor is left: ") + std::strerror(errno)});
  attempt_begun_ = std::chrono::steady_clock::now();
  connect_begun_ = BootClock::now();
  return descriptor_.is_open();
}

// A server whose host is gone says nothing, and does not even take what is sent. The C client would wait for two thirds
// of the session's time, and a lease would be lost meanwhile.
void Handle::bound_what_is_unsent() {
  if (!descriptor_.is_open()) return;
  const auto patience = static_cast<unsigned>(std::max(timeout() / 6, longest_attempt).count());
  ::setsockopt(descriptor_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

// A server that accepts and then says nothing (one that is just starting, or hangs) must not cost a lease: the C client
// would wait for two thirds of the session's time. One that is gone must not cost it either, when an ensemble has a new
// leader and this server is asked before the others. Each attempt gets twice as long as the one before, so that a slow
// server is reached all the same. Returns when to look again.
std::chrono::microseconds Handle::give_up_on_silence() {
  if (attempt_patience_ == std::chrono::milliseconds::zero()) {
    attempt_patience_ = std::clamp(timeout() / 6, shortest_attempt, longest_attempt);
  }
  const auto left = attempt_begun_ + attempt_patience_ - std::chrono::steady_clock::now();
  if (left > std::chrono::steady_clock::duration::zero()) {
    return std::chrono::duration_cast<std::chrono::microseconds>(left);
  }
  attempt_patience_ = std::min(attempt_patience_ * 2, timeout());
  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - attempt_begun_);
  cut_attempt(connects(zh_)
                  ? fmt::format("does not answer (for {} ms)", patience.count())
                  : fmt::format("accepted the connection, and did not grant a session within {} ms", patience.count()));
  if (aside_) return std::chrono::seconds(1);  // Its end calls drive().
  check_login();
  forget_closed_socket();
  schedule_drive();
  return std::chrono::seconds(1);
}

// The C client sends each request in two pieces, and the kernel would send each of them in a packet of its own, which
// wakes the server. What is submitted in one turn of the loop goes out together, when the turn ends.
void Handle::gather_packets() {
  if (gathering_ || !descriptor_.is_open()) return;
  constexpr int on = 1;
  gathering_ = ::setsockopt(descriptor_.get(), IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0;
}

void Handle::send_gathered() {
  if (!std::exchange(gathering_, false)) return;
  constexpr int off = 0;
  ::setsockopt(descriptor_.get(), IPPROTO_TCP, TCP_CORK, &off, sizeof off);
}

void Handle::drop_descriptor() {
  descriptor_.close();
  gathering_ = false;
  pinged_.clear();
  next_date_.reset();
  more_to_read_ = false;
}

// A timer that is due earlier stays: it finds nothing to do and arms the next one. That saves a system call per reply.
void Handle::arm_timer(std::chrono::microseconds delay) {
  const auto due = std::chrono::steady_clock::now() + std::max(delay, std::chrono::microseconds(1000));
  if (due < timer_.due()) timer_.set(due, [self = shared_from_this()] { self->drive(); });
}

// At once: the connection ends only when the duplicate is closed, too.
void Handle::forget_closed_socket() {
  if (dead_ || !has_socket(zh_)) drop_descriptor();
}

void Handle::on_ready(bool writable) {
  if (aside_) return;
  if (phase_ == Phase::closing_session) {
    read_close_reply();
  } else {
    // One at a time: sending may lead to another connection. What can be read is told again.
    process(writable ? ZOOKEEPER_WRITE : ZOOKEEPER_READ);
  }
}

void Handle::process(int events) {
  if (aside_ || (phase_ != Phase::open && phase_ != Phase::draining)) return;
  if (shakes_hands()) {
    shake_hands();
    return;
  }
  // What the C client begins to read now it forgets, with its memory, as soon as the connection stands.
  if (connects(zh_) && (events & ZOOKEEPER_WRITE) == 0) {
    drive();
    return;
  }
  if ((events & ZOOKEEPER_READ) != 0 && !answers_as_a_server()) return;
  const bool idle = in_flight_ == 0 && ready_.empty() && connected_;
  next_date_.reset();
  // One call takes one reply. The bound keeps one busy session from starving the others. Nothing more is expected once
  // every request has its reply: if there is an event, epoll tells again (but not of what OpenSSL has decrypted).
  int turn = 0;
  while (turn < 64 && let_process(events) == ZOK) {
    if (dead_ || (events & ZOOKEEPER_READ) == 0) break;
    ++turn;
    if (in_flight_ == 0 && !tls_) break;
  }
  if (idle) tell_answered_pings(turn - static_cast<int>(ready_.size()));  // The others are events.
  check_login();
  forget_closed_socket();
  if (tls_ && turn == 64) read_on();
  run_ready();
  drive();
}

// The C client believes whatever it gets, and would take the first bytes of a web server's answer for a session.
bool Handle::answers_as_a_server() {
  if (tls_ || connected_ || zoo_state(zh_) != ZOO_ASSOCIATING_STATE) return true;
  std::array<char, 24> bytes;
  const ssize_t size = ::recv(descriptor_.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size <= 0) return true;
  const char* const defect = handshake_defect({bytes.data(), static_cast<std::size_t>(size)});
  if (defect == nullptr) return true;
  cut_attempt(defect);
  forget_closed_socket();
  schedule_drive();
  return false;
}

std::chrono::nanoseconds Handle::pause_before_attempt() {
  const std::chrono::nanoseconds left = owner_ != nullptr ? owner_->left_to_keep() : std::chrono::nanoseconds::zero();
  return pace_->wait(std::chrono::steady_clock::now(), {.failed_rounds = 0, .timeout = timeout(), .left = left});
}

// When it has asked all servers the C client only notes that it is time for a pause of its own. We have made ours.
int Handle::begin_attempt(int& fd, int& interest, std::chrono::microseconds& wait) {
  pace_->attempt();
  int code = ask_interest(fd, interest, wait);
  if (code == ZOK && fd == -1) code = ask_interest(fd, interest, wait);
  return code;
}

int Handle::ask_interest(int& fd, int& interest, std::chrono::microseconds& wait) {
  timeval native{};
  int code = 0;
  {
    const LineCollector collector(lines_);
    note_socket_order();
    code = zookeeper_interest(zh_, &fd, &interest, &native);
  }
  wait = std::chrono::seconds(native.tv_sec) + std::chrono::microseconds(native.tv_usec);
  take_lines();
  return code;
}

// The C client pings in zookeeper_interest() when it has sent nothing for a third of the timeout and waits for no reply,
// and does not tell. But the date that it names, of the next ping or of giving up the connection, stays where it is for
// as long as nothing is sent or received: if it has moved on, a ping was sent. (Not how far it moved: a loop that woke a
// millisecond late finds the date of giving up to be the nearer one.)
void Handle::note_ping(BootClock::time_point asked, std::chrono::microseconds wait) {
  constexpr auto rounding = std::chrono::milliseconds(3);
  const bool waits = connected_ && in_flight_ == 0;
  if (waits && next_date_ && asked + wait > *next_date_ + rounding) pinged_.push_back(asked);
  next_date_.reset();
  if (waits) next_date_ = BootClock::now() + wait;
}

// They are answered one after another. Of one that was not noted nothing is told.
void Handle::tell_answered_pings(int answers) {
  for (; answers > 0 && !pinged_.empty(); --answers) {
    const BootClock::time_point sent = pinged_.front();
    pinged_.pop_front();
    if (owner_ != nullptr) owner_->on_ping_answered(sent);
  }
}

int Handle::let_process(int events) {
  int code = 0;
  {
    const LineCollector collector(lines_);
    note_socket_order();
    code = zookeeper_process(zh_, events);
    note_socket_order();
  }
  take_lines();
  return code;
}

// Its log tells why a server could not be reached; no call and no event does.
void Handle::take_lines() {
  for (const std::string& line : std::exchange(lines_, {})) {
    log_line(line);
    std::optional<ServerTrouble> trouble = trouble_in(line);
    if (!trouble || owner_ == nullptr || cuts_without_reason_) continue;
    if (!cut_reason_.empty()) trouble->reason = std::exchange(cut_reason_, {});
    owner_->on_trouble(std::move(*trouble));
  }
}

void Handle::log_line(const std::string& line) {
  if (!log_enabled(LogLevel::info)) return;
  for (const std::string& told : repeated_->add(line, std::chrono::steady_clock::now()))
    log_library_line(told);
}

// Bytes that OpenSSL has decrypted already do not make the socket readable.
void Handle::read_on() {
  if (!descriptor_.is_open() || std::exchange(more_to_read_, true)) return;
  events_.defer([self = shared_from_this()] {
    if (std::exchange(self->more_to_read_, false)) self->on_ready(false);
  });
}

// Tells the owner what the C client reported. The owner may submit, close or abandon this handle meanwhile.
void Handle::run_ready() {
  if (running_ready_) return;
  running_ready_ = true;
  const auto self = shared_from_this();
  // A server that answers, slowly, is worth more patience.
  if (phase_ == Phase::draining && connected_ && !ready_.empty()) arm_close_timer();
  while (!ready_.empty()) {
    Ready item = std::move(ready_.front());
    ready_.pop_front();
    if (owner_ == nullptr) continue;
    if (item.op != nullptr) {
      owner_->on_reply(item.op);
    } else if (item.node_event != 0) {
      owner_->on_node_event(item.node_event, item.path);
    } else {
      owner_->on_handle_event(item.event);
    }
    events_.run_ready();  // Coroutines see things in the order in which they happened.
  }
  running_ready_ = false;
  if (phase_ == Phase::draining) continue_close();
}

}  // namespace zkclient::detail
