// The end of a handle.

#include "zkclient/detail/connection/handle.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <zookeeper/zookeeper.h>

#include <array>
#include <cassert>
#include <cstdint>

namespace zkclient::detail {
namespace {

constexpr std::uint32_t close_xid = 0x7fffff00U;  // No request of the C client has such a number.

}  // namespace

void Handle::close(std::chrono::milliseconds patience, UniqueFunction<void()> done) {
  assert(phase_ == Phase::open || phase_ == Phase::idle);
  closed_ = std::move(done);
  phase_ = Phase::draining;
  close_patience_ = patience;
  arm_close_timer();
  events_.defer([self = shared_from_this()] { self->continue_close(); });
}

void Handle::arm_close_timer() {
  close_timer_.set_after(close_patience_, [self = shared_from_this()] { self->end_patience(); });
}

// What is awaited may have come, when the server was in time and only this thread was late. Then the session would stay
// at the server, with its nodes.
void Handle::end_patience() {
  if (phase_ == Phase::draining && connected_ && descriptor_.is_open()) {
    const int awaited = in_flight_;
    process(ZOOKEEPER_READ);
    if (phase_ != Phase::draining || in_flight_ < awaited) return;  // The timer runs anew.
  }
  finish_close();
}

void Handle::continue_close() {
  if (phase_ != Phase::draining || running_ready_) return;
  if (aside_ || zh_ == nullptr || dead_ || !connected_) {
    finish_close();
  } else if (in_flight_ == 0) {
    close_session();
  }
}

// zookeeper_close() blocks for up to 1.5 s waiting for the server, which would stop every other session of this
// loop. So the closing request is sent here, the server's answer (the end of the connection) is awaited by the loop,
// and zookeeper_close() then finds a connection that is already down.
void Handle::close_session() {
  int fd = -1;
  int interest = 0;
  timeval wait{};
  const int code = zookeeper_interest(zh_, &fd, &interest, &wait);
  if (code != ZOK || fd == -1 || !connected_ || !descriptor_.is_open()) {
    finish_close();
    return;
  }
  if ((interest & ZOOKEEPER_WRITE) != 0) {  // A request is still partly unsent; on_ready() comes back here.
    descriptor_.listen_for(true, true);
    return;
  }
  if (tls_) {
    phase_ = Phase::closing_session;
    arm_close_timer();
    close_session_aside();
    return;
  }
  const std::array<std::uint32_t, 3> frame = {htonl(8), htonl(close_xid), htonl(static_cast<std::uint32_t>(-11))};
  const ssize_t sent = ::send(descriptor_.get(), frame.data(), sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(sizeof frame)) {
    finish_close();
    return;
  }
  phase_ = Phase::closing_session;
  arm_close_timer();
  read_close_reply();
}

// Reads until the server has closed the connection, which it does once the session is gone. A server that dies closes it as
// well, but has not answered. With TLS the answer is not seen here.
void Handle::read_close_reply() {
  std::array<char, 4096> buffer;
  const int fd = descriptor_.get();
  for (;;) {
    const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    for (ssize_t i = 0; i < count; ++i) {
      last_word_ = last_word_ << 8 | static_cast<unsigned char>(buffer[static_cast<std::size_t>(i)]);
      if (last_word_ == close_xid) close_answered_ = true;
    }
    if (count > 0) continue;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      descriptor_.listen_for(true, false);
      return;
    }
    session_closed_ = count == 0 && (tls_ || close_answered_);
    finish_close();
    return;
  }
}

void Handle::finish_close() {
  if (phase_ == Phase::closed) return;
  if (aside_) {  // Its end comes back here.
    cut_connection();
    return;
  }
  const auto self = shared_from_this();
  abandon();
  run_ready();  // Requests that never got a reply.
  owner_ = nullptr;
  if (closed_) {
    UniqueFunction<void()> done = std::move(closed_);
    done();
  }
}

void Handle::drop() {
  assert(!running_ready_);
  if (aside_) {
    cut_connection();
    end_aside();
  }
  abandon();
  run_ready();
  owner_ = nullptr;
}

// Requests in flight end with a loss.
void Handle::abandon() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  timer_.cancel();
  close_timer_.cancel();
  connected_ = false;
  if (zh_ == nullptr) {
    drop_descriptor();
    return;
  }
  cut_connection();
  drop_descriptor();
  zookeeper_close(zh_);
  zh_ = nullptr;
  if (!running_ready_ && !ready_.empty()) events_.defer([self = shared_from_this()] { self->run_ready(); });
}

// Takes the connection down before zookeeper_close(), which would otherwise wait for the server.
void Handle::cut_connection() {
  int fd = -1;
  if (descriptor_.is_open()) {
    fd = descriptor_.get();
  } else if (zh_ != nullptr && zoo_state(zh_) == ZOO_CONNECTED_STATE) {
    int interest = 0;
    timeval wait{};
    zookeeper_interest(zh_, &fd, &interest, &wait);
  }
  if (fd != -1) ::shutdown(fd, SHUT_RDWR);
}

}  // namespace zkclient::detail
