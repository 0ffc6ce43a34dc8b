#include "zktesting/detail/connection.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zktesting/detail/wire_client.hpp"

namespace zktesting::detail {
namespace {

using Event = EventLoop::Event;

/// A slow reader must not make us swallow everything that the other side has.
constexpr std::size_t most_output = 4 << 20;
/// How long a doomed connection may take for what has to happen first.
constexpr std::chrono::milliseconds doom_patience{5000};
constexpr std::chrono::milliseconds between_connects{20};
constexpr std::int32_t notification_xid = -1;
constexpr std::size_t session_id_end = 20;  // In the reply to a handshake.
constexpr std::size_t zxid_begin = 8;       // In the head of a reply, and in the request of a handshake.
constexpr std::size_t zxid_end = 16;

bool given_up(const UniqueFd& socket) {
  pollfd poll{socket.get(), POLLRDHUP, 0};
  return ::poll(&poll, 1, 0) > 0;
}

void send_at_once(const UniqueFd& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Connection::Connection(Relay& relay, UniqueFd client)
    : relay_(relay),
      loop_(*relay.loop()),
      client_(std::move(client)),
      to_server_(Way::to_server, client_, server_),
      to_client_(Way::to_client, server_, client_),
      opaque_(!relay.options().parse),
      announced_(!relay.options().election),
      connect_deadline_(Clock::now() + relay.options().connect_patience) {
  send_at_once(client_);
}

void Connection::proceed() {
  if (state_ == State::fresh) {
    connect();
  } else if (state_ == State::open) {
    advance(to_server_);
    if (state_ == State::open) {
      advance(to_client_);
    }
  }
}

void Connection::connect() {
  // While packets are held a connection could not come about either.
  if (relay_.stalled(Way::to_server) || relay_.stalled(Way::to_client)) {
    was_held_ = true;
    return;
  }
  if (was_held_ && given_up(client_)) {
    reset();
    return;
  }
  server_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!server_) {
    reset();
    return;
  }
  send_at_once(server_);
  state_ = State::connecting;
  const sockaddr_in target = relay_.options().target.to_sockaddr();
  if (::connect(server_.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0 &&
      errno != EINPROGRESS) {
    handle_refusal();
    return;
  }
  loop_.await(server_.get(), Event::writable, [self = shared_from_this()] { self->finish_connect(); });
}

void Connection::finish_connect() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(server_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    handle_refusal();
    return;
  }
  state_ = State::open;
  proceed();
}

void Connection::handle_refusal() {
  if (Clock::now() >= connect_deadline_ || given_up(client_)) {
    reset();
    return;
  }
  disconnect(server_, false);
  connect_timer_ = loop_.at(Clock::now() + between_connects, [self = shared_from_this()] {
    self->state_ = State::fresh;
    self->connect();
  });
}

void Connection::advance(Half& half) {
  if (relay_.stalled(half.way)) {
    return;
  }
  scan(half);
  write(half);
  if (state_ == State::open) {
    propagate_end(half);
  }
  if (state_ == State::open) {
    check_doom();
  }
  if (state_ == State::open) {
    await_readable(half);
  }
}

void Connection::await_readable(Half& half) {
  if (half.awaiting_readable || half.ended || half.held || half.output_size >= most_output) {
    return;
  }
  half.awaiting_readable = true;
  loop_.await(half.from.get(), Event::readable, [self = shared_from_this(), &half] {
    half.awaiting_readable = false;
    self->read(half);
  });
}

void Connection::read(Half& half) {
  if (relay_.stalled(half.way)) {
    return;
  }
  auto& scratch = relay_.scratch();
  const ssize_t size = ::read(half.from.get(), scratch.data(), scratch.size());
  if (size < 0 && !would_block(errno)) {
    reset();
    return;
  }
  if (size == 0) {
    half.ended = true;
  } else if (size > 0) {
    half.input.append(scratch.data(), static_cast<std::size_t>(size));
  }
  advance(half);
}

void Connection::scan(Half& half) {
  if (half.held) {
    return;
  }
  if (half.discarding) {
    half.input.clear();
    return;
  }
  if (half.way == Way::to_server && !announced_ && !rewrite_announcement(half.input)) {
    return;
  }
  std::size_t position = 0;
  while (!opaque_) {
    const FrameScanner::Step step = half.scanner.next(half.input, position);
    if (step == FrameScanner::Step::not_ours) {
      opaque_ = true;
      break;
    }
    if (step == FrameScanner::Step::need) {
      break;
    }
    const Verdict verdict = half.way == Way::to_server ? judge_request(half, position) : judge_reply(half, position);
    if (verdict != Verdict::pass) {
      break;
    }
    half.scanner.accept();
  }
  // What a broken-off stream ends with is passed on as it is.
  const bool all = opaque_ || (half.ended && !half.held && !half.discarding);
  enqueue(half, all ? half.input.size() : position);
  if (half.discarding) {
    half.input.clear();
  }
}

void Connection::enqueue(Half& half, std::size_t size) {
  if (size > 0) {
    Chunk chunk{half.input.substr(0, size), 0, Clock::now() + relay_.delay(half.way)};
    half.output.push_back(std::move(chunk));
    half.output_size += size;
  }
  half.input.erase(0, size);
}

void Connection::write(Half& half) {
  while (!half.output.empty() && !half.awaiting_writable) {
    Chunk& chunk = half.output.front();
    if (chunk.due > Clock::now()) {
      await_due(half, chunk.due);
      return;
    }
    const ssize_t sent =
        ::send(half.to.get(), chunk.bytes.data() + chunk.written, chunk.bytes.size() - chunk.written, MSG_NOSIGNAL);
    if (sent < 0 && would_block(errno)) {
      half.awaiting_writable = true;
      loop_.await(half.to.get(), Event::writable, [self = shared_from_this(), &half] {
        half.awaiting_writable = false;
        self->advance(half);
      });
      return;
    }
    if (sent < 0) {
      reset();
      return;
    }
    const auto size = static_cast<std::size_t>(sent);
    relay_.count_bytes(half.way, size);
    chunk.written += size;
    half.output_size -= size;
    if (chunk.written == chunk.bytes.size()) {
      half.output.pop_front();
    }
  }
}

void Connection::await_due(Half& half, Clock::time_point due) {
  if (half.awaiting_due) {
    return;
  }
  half.awaiting_due = true;
  half.timer = loop_.at(due, [self = shared_from_this(), &half] {
    half.awaiting_due = false;
    self->advance(half);
  });
}

void Connection::propagate_end(Half& half) {
  if (doom_ || !half.ended || half.shut || !half.input.empty() || !half.output.empty()) {
    return;
  }
  ::shutdown(half.to.get(), SHUT_WR);
  half.shut = true;
  if (to_server_.shut && to_client_.shut) {
    close();
  }
}

bool Connection::rewrite_announcement(std::string& input) {
  // int64 protocol version (negative), int64 id, then the address with its length.
  constexpr std::size_t address_at = 20;
  if (input.size() < address_at) {
    return false;
  }
  const std::int64_t version = get_int64(input, 0);
  const auto length = static_cast<std::uint32_t>(get_int32(input, address_at - 4));
  if (version < 0 && length < 4096) {
    if (input.size() < address_at + length) {
      return false;
    }
    const std::string address = relay_.announcement().text();
    input.replace(address_at, length, address);
    input[address_at - 1] = static_cast<char>(address.size());
    input.replace(address_at - 4, 3, 3, '\0');
  }
  announced_ = true;
  return true;
}

Connection::Verdict Connection::judge_request(Half& half, std::size_t position) {
  const FrameScanner::Head& head = half.scanner.head();
  const auto type = head.first ? RequestType::connect : static_cast<RequestType>(head.type.value_or(0));
  if (head.first && half.input.size() >= position + zxid_end) {  // No client sends less.
    relay_.note_handshake(get_int64(half.input, position + zxid_begin));
  }
  relay_.count_request(type);
  if (auto fault = relay_.strike(false, type)) {
    doom(fault);
    return Verdict::drop;
  }
  if (head.first) {
    connect_pending_ = true;
  } else if (head.xid) {
    pending_[*head.xid] = type;
  }
  return Verdict::pass;
}

Connection::Verdict Connection::judge_reply(Half& half, std::size_t position) {
  const FrameScanner::Head& head = half.scanner.head();
  auto type = RequestType::connect;
  if (!head.first) {
    const auto found = pending_.find(head.xid.value_or(notification_xid));
    if (found == pending_.end()) {
      return head.xid == notification_xid ? judge_event(half, position) : Verdict::pass;
    }
    type = found->second;
  }
  if (half.pass_next) {
    half.pass_next = false;
  } else if (auto fault = relay_.strike(true, type)) {
    if (fault->kind == FaultKind::drop_reply) {
      doom(fault);
      return Verdict::drop;
    }
    if (fault->kind == FaultKind::hold_reply) {
      hold(half, fault);
      return half.held ? Verdict::hold : Verdict::pass;
    }
    if (half.input.size() >= position + session_id_end) {  // No server sends less.
      char& last_byte = half.input[position + session_id_end - 1];
      fault->happen([&last_byte] { last_byte = static_cast<char>(last_byte ^ 1); });
    }
  }
  if (head.first) {
    connect_pending_ = false;
  } else {
    pending_.erase(*head.xid);
  }
  return Verdict::pass;
}

Connection::Verdict Connection::judge_event(Half& half, std::size_t position) {
  if (auto fault = relay_.strike_event()) {
    doom(fault);
    return Verdict::drop;
  }
  const std::optional<std::int64_t>& zxid = relay_.event_stamp();
  if (zxid && half.input.size() >= position + zxid_end) {  // No server sends less.
    for (std::size_t i = 0; i < zxid_end - zxid_begin; ++i) {
      half.input[position + zxid_end - 1 - i] = static_cast<char>(static_cast<std::uint64_t>(*zxid) >> (8 * i));
    }
  }
  return Verdict::pass;
}

void Connection::hold(Half& half, const std::shared_ptr<FaultState>& fault) {
  const std::lock_guard lock(fault->mutex);
  if (fault->finished) {
    return;
  }
  half.held = fault;
  fault->happened = true;
  fault->resume = [weak_loop = std::weak_ptr(relay_.loop()), weak = weak_from_this()] {
    if (const auto loop = weak_loop.lock()) {
      loop->post([weak] {
        if (const auto self = weak.lock()) {
          self->release_held();
        }
      });
    }
  };
  fault->changed.notify_all();
}

void Connection::release_held() {
  if (state_ == State::open && to_client_.held) {
    to_client_.held.reset();
    to_client_.pass_next = true;
    advance(to_client_);
  }
}

void Connection::doom(const std::shared_ptr<FaultState>& fault) {
  doom_ = fault;
  to_server_.discarding = true;
  if (fault->kind != FaultKind::drop_request) {
    to_client_.discarding = true;
    to_server_.output.clear();
    to_server_.output_size = 0;
  }
  loop_.cancel(doom_timer_);
  const auto patience = doom_patience + relay_.delay(Way::to_server) + relay_.delay(Way::to_client);
  doom_timer_ = loop_.at(Clock::now() + patience, [self = shared_from_this()] { self->close(); });
}

void Connection::check_doom() {
  if (!doom_ || !to_client_.output.empty()) {
    return;
  }
  const bool replies_missing = !pending_.empty() || connect_pending_;
  if (doom_->kind != FaultKind::drop_request || to_client_.ended || (to_server_.output.empty() && !replies_missing)) {
    close();
  }
}

void Connection::close(bool with_reset) {
  const auto self = shared_from_this();
  state_ = State::closed;
  for (const EventLoop::TimerId timer : {to_server_.timer, to_client_.timer, doom_timer_, connect_timer_}) {
    loop_.cancel(timer);
  }
  to_client_.held.reset();
  relay_.forget(self);
  if (doom_) {
    doom_->happen([&] { disconnect_both(with_reset); });
  } else {
    disconnect_both(with_reset);
  }
}

void Connection::disconnect_both(bool with_reset) {
  if (!with_reset) {  // An orderly end: what the client has been sent is read before the end.
    ::shutdown(client_.get(), SHUT_WR);
  }
  disconnect(client_, with_reset);
  disconnect(server_, with_reset);
}

void Connection::disconnect(UniqueFd& socket, bool with_reset) {
  if (!socket) {
    return;
  }
  if (with_reset) {
    const linger at_once{1, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  loop_.forget(socket.get());
  socket.reset();
}

void Connection::reset() {
  if (state_ != State::closed) {
    close(true);
  }
}

}  // namespace zktesting::detail
