#include "simulation/servers/connection.hpp"

#include <utility>

namespace zktesting::simulated {

using namespace std::chrono_literals;

namespace {
/// The real server looks for idle connections this often, and gives those without a session so long.
constexpr Nanos idle_interval = 10s;
}  // namespace

Connection::Connection(Process& process, FrameHandler& handler, ConnectionId id, Output output, std::int32_t max_buffer)
    : auth({{"ip", output.ip}}),
      process_(process),
      handler_(handler),
      id_(id),
      output_(std::move(output)),
      frames_(max_buffer),
      heard_at_(process.now()),
      idle_(process, lane::client(id)) {
  watch_idleness();
}

void Connection::receive(std::string_view bytes) {
  process_.arrive(lane::client(id_), [self = weak_from_this(), bytes = std::string(bytes)] {
    if (const auto connection = self.lock()) connection->read(bytes);
  });
}

void Connection::closed() {
  process_.arrive(lane::client(id_), [self = weak_from_this()] {
    if (const auto connection = self.lock()) connection->leave();
  });
}

void Connection::read(std::string_view bytes) {
  if (!open_) return;
  heard_at_ = process_.now();
  frames_.add(bytes);
  handle_frames();
}

void Connection::handle_frames() {
  if (handling_) return;
  handling_ = true;
  const auto self = shared_from_this();
  if (!greeted_) {
    if (const auto word = frames_.four_letter_word()) {
      handler_.four_letter_word(*this, *word);
      close();
    }
  }
  while (open_ && reading_) {
    if (frames_.bad()) {
      close();
      break;
    }
    const auto frame = frames_.next();
    if (!frame) {
      if (!frames_.bad()) break;
      continue;
    }
    handle(*frame);
  }
  handling_ = false;
}

void Connection::handle(const std::string& frame) {
  ++counts.received;
  if (!greeted_) {
    greeted_ = true;
    const auto request = decode_connect(frame);
    return request ? handler_.connect(*this, *request) : close();
  }
  auto request = decode_request(frame);
  if (!request) return close();
  counts.last_xid = request->xid;
  counts.last_op = request->op;
  handler_.request(*this, std::move(*request));
}

void Connection::send(std::string frame) {
  if (open_) output_.bytes(std::move(frame));
}

void Connection::reply(std::int32_t xid, Zxid zxid, std::int32_t error, std::string_view body) {
  ++counts.sent;
  counts.last_zxid = zxid;
  send(encode_reply(xid, zxid, error, body));
}

void Connection::close() {
  if (!open_) return;
  const auto self = shared_from_this();
  leave();
  output_.close();
}

void Connection::leave() {
  if (!open_) return;
  open_ = false;
  idle_.stop();
  handler_.gone(*this);
}

void Connection::resume_reading() {
  reading_ = true;
  handle_frames();
}

void Connection::establish(Millis agreed) {
  timeout = agreed;
  established = true;
}

Nanos Connection::idle_deadline() const {
  const Nanos limit = established ? Nanos(std::chrono::milliseconds(timeout)) : idle_interval;
  return ((heard_at_ + limit) / idle_interval + 1) * idle_interval;
}

void Connection::watch_idleness() {
  idle_.set(idle_deadline() - process_.now(), [this] {
    if (process_.now() >= idle_deadline()) return close();
    watch_idleness();
  });
}

}  // namespace zktesting::simulated
