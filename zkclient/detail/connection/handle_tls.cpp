// What is different with TLS. The C client does the handshake in one call, which blocks until the server has answered,
// for ever if it does not; and only zookeeper_close(), which blocks as well, can close the session. Both run in a
// thread of their own, so that a server that hangs does not stop all the sessions of the loop. Until such a thread has
// come back the C client's handle is its own; shutting the socket down brings it back.

#include "zkclient/detail/connection/handle.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <zookeeper/zookeeper.h>

#include <array>
#include <cassert>
#include <system_error>

#include <fmt/format.h>

#include "zkclient/detail/connection/security.hpp"
#include "zkclient/detail/log.hpp"
#include "zkclient/detail/process.hpp"

namespace zkclient::detail {
namespace {

constexpr int before_handshake_state = 7;  // ZOO_SSL_CONNECTING_STATE, which the header leaves out.

}  // namespace

struct Handle::Aside {
  UniqueFunction<void()> work;
  UniqueFunction<void()> then;
  std::vector<std::string> lines;  // That the C client logged.
};

void Handle::run_aside(UniqueFunction<void()> work, UniqueFunction<void()> then) {
  assert(!aside_);
  aside_ = true;
  descriptor_.listen_for(false, false);
  const auto task = std::make_shared<Aside>();
  task->work = std::move(work);
  task->then = std::move(then);
  const auto body = [self = shared_from_this(), task] {
    {
      const LineCollector collector(task->lines);
      task->work();
    }
    self->events_.post([self, task] {
      self->end_aside();
      for (const std::string& line : task->lines)
        self->log_line(line);
      task->then();
    });
  };
  try {
    helper_ = start_thread("zk-tls", body);
  } catch (const std::system_error&) {  // No thread to be had: late is better than never.
    body();
  }
}

void Handle::end_aside() {
  if (helper_.joinable()) helper_.join();
  aside_ = false;
}

bool Handle::shakes_hands() const { return tls_ && zoo_state(zh_) == before_handshake_state; }

void Handle::shake_hands() {
  struct Outcome {
    int code = 0;
    TlsTrouble trouble = {};
  };
  const auto outcome = std::make_shared<Outcome>();
  run_aside(
      [zh = zh_, outcome] {
        outcome->code = zookeeper_process(zh, ZOOKEEPER_WRITE);
        if (outcome->code != ZOK) outcome->trouble = last_tls_trouble();
      },
      [self = shared_from_this(), outcome] {
        if (self->phase_ == Phase::closed) return;
        if (outcome->code != ZOK) self->handshake_failed(outcome->trouble.reason, outcome->trouble.permanent);
        self->forget_closed_socket();
        self->run_ready();
        self->drive();
      });
}

// The same reason is told once.
void Handle::handshake_failed(const std::string& reason, bool permanent) {
  if (const auto address = server(); address && owner_ != nullptr) {
    owner_->on_trouble({*address, fmt::format("did not agree on TLS: {}", reason)});
  }
  if (!reason.empty() && reason != tls_trouble_) {
    tls_trouble_ = reason;
    const LogLevel level = permanent ? LogLevel::error : LogLevel::warning;
    if (log_enabled(level)) log(level, fmt::format("TLS with {}: {}", server().value_or("a server"), reason));
  }
  // When it could not load its files the C client forgets to close the socket, and would try again at once.
  if (shakes_hands()) cut_attempt("did not agree on TLS: " + reason);
}

// Makes the C client give the current attempt to connect up. What it would do on a socket that can be written to is to
// begin a handshake.
void Handle::cut_attempt(std::string reason) {
  cut_reason_ = std::move(reason);
  if (descriptor_.is_open()) {
    ::shutdown(descriptor_.get(), SHUT_RDWR);
    std::array<char, 4096> rest;  // Bytes that have arrived could still be read.
    while (!tls_ && ::recv(descriptor_.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0)
      continue;
  }
  if (!aside_) let_process(tls_ ? ZOOKEEPER_READ : ZOOKEEPER_WRITE | ZOOKEEPER_READ);
}

// The C client begins each frame by writing its length from a variable on the stack. If the socket's buffer is full
// just then, OpenSSL insists on being given the same address again, which the C client cannot, and the connection is
// lost. So nothing is begun while the buffer is nearly full.
bool Handle::has_room() {
  if (!tls_ || !connected_ || !descriptor_.is_open()) return true;
  pollfd socket{descriptor_.get(), POLLOUT, 0};
  if (!unsent_ && ::poll(&socket, 1, 0) == 1) return true;
  flush_wanted_ = crowded_ = true;
  schedule_drive();
  return false;
}

void Handle::close_session_aside() {
  run_aside([zh = std::exchange(zh_, nullptr)] { zookeeper_close(zh); },
            [self = shared_from_this()] {
              if (self->phase_ == Phase::closing_session) self->read_close_reply();
            });
}

}  // namespace zkclient::detail
