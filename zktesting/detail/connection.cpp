#include "zktesting/detail/connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>

#include "zktesting/detail/wire_client.hpp"

namespace zktesting::detail {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// A slow reader must not make us swallow everything that the other side has.
constexpr std::size_t most_output = 4 << 20;
/// How long a doomed connection may take for what has to happen first.
constexpr std::chrono::milliseconds doom_patience{1000};
constexpr std::chrono::milliseconds between_connects{20};
constexpr std::int32_t notification_xid = -1;
constexpr std::size_t session_id_end = 20;  // In the reply to a handshake.

bool given_up(tcp::socket& socket) {
  pollfd poll{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&poll, 1, 0) > 0;
}

void close_with_reset(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

void prepare(tcp::socket& socket) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
}

}  // namespace

Connection::Connection(Relay& relay, tcp::socket client)
    : relay_(relay),
      client_(std::move(client)),
      server_(client_.get_executor()),
      to_server_(Way::to_server, client_, server_),
      to_client_(Way::to_client, server_, client_),
      opaque_(!relay.options().parse),
      announced_(!relay.options().election),
      doom_timer_(client_.get_executor()),
      connect_deadline_(Clock::now() + relay.options().connect_patience),
      connect_timer_(client_.get_executor()) {
  prepare(client_);
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
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    reset();
    return;
  }
  server_.assign(tcp::v4(), fd);
  prepare(server_);
  state_ = State::connecting;
  const Endpoint& target = relay_.options().target;
  server_.async_connect({asio::ip::make_address(target.address), target.port},
                        [self = shared_from_this()](error_code error) {
                          if (self->state_ == State::closed) {
                            return;
                          }
                          if (error) {
                            self->handle_refusal();
                            return;
                          }
                          self->state_ = State::open;
                          self->proceed();
                        });
}

void Connection::handle_refusal() {
  if (Clock::now() >= connect_deadline_ || given_up(client_)) {
    reset();
    return;
  }
  error_code ignored;
  server_.close(ignored);
  connect_timer_.expires_after(between_connects);
  connect_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->state_ == State::connecting) {
      self->state_ = State::fresh;
      self->connect();
    }
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
  half.from.async_wait(tcp::socket::wait_read, [self = shared_from_this(), &half](error_code error) {
    half.awaiting_readable = false;
    if (self->state_ != State::open) {
      return;
    }
    if (error) {
      self->reset();
      return;
    }
    self->read(half);
  });
}

void Connection::read(Half& half) {
  if (relay_.stalled(half.way)) {
    return;
  }
  error_code error;
  auto& scratch = relay_.scratch();
  const std::size_t size = half.from.read_some(asio::buffer(scratch), error);
  if (error == asio::error::eof) {
    half.ended = true;
  } else if (error && error != asio::error::would_block && error != asio::error::interrupted) {
    reset();
    return;
  }
  half.input.append(scratch.data(), size);
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
    const Verdict verdict = half.way == Way::to_server ? judge_request(half) : judge_reply(half, position);
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
    error_code error;
    const std::size_t size =
        half.to.write_some(asio::buffer(chunk.bytes.data() + chunk.written, chunk.bytes.size() - chunk.written), error);
    if (error == asio::error::would_block) {
      half.awaiting_writable = true;
      half.to.async_wait(tcp::socket::wait_write, [self = shared_from_this(), &half](error_code) {
        half.awaiting_writable = false;
        if (self->state_ == State::open) {
          self->advance(half);
        }
      });
      return;
    }
    if (error) {
      reset();
      return;
    }
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
  half.timer.expires_at(due);
  half.timer.async_wait([self = shared_from_this(), &half](error_code) {
    half.awaiting_due = false;
    if (self->state_ == State::open) {
      self->advance(half);
    }
  });
}

void Connection::propagate_end(Half& half) {
  if (doom_ || !half.ended || half.shut || !half.input.empty() || !half.output.empty()) {
    return;
  }
  error_code ignored;
  half.to.shutdown(tcp::socket::shutdown_send, ignored);
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

Connection::Verdict Connection::judge_request(Half& half) {
  const FrameScanner::Head& head = half.scanner.head();
  const auto type = head.first ? RequestType::connect : static_cast<RequestType>(head.type.value_or(0));
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
      return Verdict::pass;  // a watch event
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
      last_byte = static_cast<char>(last_byte ^ 1);
      fault->mark_happened();
    }
  }
  if (head.first) {
    connect_pending_ = false;
  } else {
    pending_.erase(*head.xid);
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
      asio::post(loop->context(), [weak] {
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
  if (fault->kind == FaultKind::drop_reply) {
    to_client_.discarding = true;
    to_server_.output.clear();
    to_server_.output_size = 0;
  }
  doom_timer_.expires_after(doom_patience + relay_.delay(Way::to_server) + relay_.delay(Way::to_client));
  doom_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->state_ == State::open) {
      self->close();
    }
  });
}

void Connection::check_doom() {
  if (!doom_ || !to_client_.output.empty()) {
    return;
  }
  const bool replies_missing = !pending_.empty() || connect_pending_;
  if (doom_->kind == FaultKind::drop_reply || to_client_.ended || (to_server_.output.empty() && !replies_missing)) {
    close();
  }
}

void Connection::close() {
  // An orderly end: what the client has been sent is read before the end.
  const auto self = shared_from_this();
  state_ = State::closed;
  error_code ignored;
  client_.shutdown(tcp::socket::shutdown_send, ignored);
  client_.close(ignored);
  server_.close(ignored);
  to_server_.timer.cancel();
  to_client_.timer.cancel();
  doom_timer_.cancel();
  connect_timer_.cancel();
  to_client_.held.reset();
  relay_.forget(self);
  if (doom_) {
    doom_->mark_happened();
  }
}

void Connection::reset() {
  if (state_ != State::closed) {
    close_with_reset(client_);
    if (server_.is_open()) {
      close_with_reset(server_);
    }
    close();
  }
}

}  // namespace zktesting::detail
