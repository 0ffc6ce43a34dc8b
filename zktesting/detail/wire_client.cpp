#include "zktesting/detail/wire_client.hpp"

#include <fmt/format.h>

#include <concepts>

#include "zktesting/error.hpp"

namespace zktesting::detail {
namespace {

constexpr std::int32_t ping_xid = -2;
constexpr std::size_t reply_header_size = 16;  // xid, zxid, error
constexpr std::int32_t largest_reply = 64 << 20;

template <std::signed_integral T>
void put(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8) {
    out += static_cast<char>((value >> shift) & 0xff);
  }
}

void put_buffer(std::string& out, std::string_view bytes) {
  put(out, static_cast<std::int32_t>(bytes.size()));
  out += bytes;
}

std::string framed(std::string_view body) {
  std::string frame;
  put_buffer(frame, body);
  return frame;
}

template <std::signed_integral T>
T get(std::string_view bytes, std::size_t offset) {
  if (bytes.size() < offset + sizeof(T)) {
    throw Error("a server's answer is shorter than it should be");
  }
  std::make_unsigned_t<T> value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[offset + i]);
  }
  return static_cast<T>(value);
}

}  // namespace

std::int32_t get_int32(std::string_view bytes, std::size_t offset) { return get<std::int32_t>(bytes, offset); }

std::int64_t get_int64(std::string_view bytes, std::size_t offset) { return get<std::int64_t>(bytes, offset); }

std::string read_frame(Socket& socket, Deadline deadline) {
  const std::int32_t size = get_int32(socket.read(4, deadline), 0);
  if (size < 0 || size > largest_reply) {
    throw Error(fmt::format("a server's answer claims a length of {}", size));
  }
  return socket.read(static_cast<std::size_t>(size), deadline);
}

ConnectReply read_connect_reply(Socket& socket, Deadline deadline) {
  // protocol version, timeout, session id, password; then perhaps a flag that does not matter here.
  const std::string reply = read_frame(socket, deadline);
  ConnectReply result;
  result.session_timeout = std::chrono::milliseconds(get_int32(reply, 4));
  result.session.id = get_int64(reply, 8);
  const std::int32_t size = get_int32(reply, 16);
  if (size < 0 || reply.size() < 20 + static_cast<std::size_t>(size)) {
    throw Error("a server's answer to the handshake is cut short");
  }
  result.session.password = reply.substr(20, static_cast<std::size_t>(size));
  if (result.session_timeout.count() <= 0) {
    result.session.id = 0;
  }
  return result;
}

std::string WireClient::connect_frame(std::chrono::milliseconds session_timeout, const SessionId& session) {
  std::string body;
  put<std::int32_t>(body, 0);  // protocol version
  put<std::int64_t>(body, 0);  // last zxid seen
  put(body, static_cast<std::int32_t>(session_timeout.count()));
  put(body, session.id);
  put_buffer(body, session.password);
  body += '\0';  // read-only mode not wanted
  return framed(body);
}

std::string WireClient::request_frame(std::int32_t xid, std::int32_t type, std::string_view body) {
  std::string request;
  put(request, xid);
  put(request, type);
  request += body;
  return framed(request);
}

std::string WireClient::path_body(std::string_view path, bool watch) {
  std::string body;
  put_buffer(body, path);
  body += watch ? '\1' : '\0';
  return body;
}

std::string WireClient::create_body(std::string_view path, std::string_view data, Mode mode) {
  std::string body;
  put_buffer(body, path);
  put_buffer(body, data);
  put<std::int32_t>(body, 1);  // one ACL entry: all clients may do everything
  put<std::int32_t>(body, 0x1f);
  put_buffer(body, "world");
  put_buffer(body, "anyone");
  put(body, static_cast<std::int32_t>(mode));
  return body;
}

WireClient::WireClient(const Endpoint& endpoint, std::chrono::milliseconds session_timeout,
                       std::chrono::milliseconds call_timeout, const SessionId& resume)
    : call_timeout_(call_timeout), socket_(endpoint, Clock::now() + call_timeout) {
  const Deadline end = deadline();
  socket_.write(connect_frame(session_timeout, resume), end);
  const ConnectReply reply = read_connect_reply(socket_, end);
  session_ = reply.session;
  session_timeout_ = reply.session_timeout;
}

std::int32_t WireClient::send(std::int32_t type, std::string_view body) {
  const std::int32_t xid = type == 11 ? ping_xid : next_xid_++;
  socket_.write(request_frame(xid, type, body), deadline());
  return xid;
}

std::int32_t WireClient::receive(std::int32_t xid, std::string* body) {
  const Deadline end = deadline();
  for (;;) {
    const std::string reply = read_frame(socket_, end);
    if (get_int32(reply, 0) != xid) {
      continue;  // a watch event, or the reply to a request without a caller
    }
    const std::int32_t error = get_int32(reply, 12);
    if (body != nullptr) {
      *body = reply.substr(reply_header_size);
    }
    return error;
  }
}

std::int32_t WireClient::create(std::string_view path, std::string_view data, Mode mode) {
  return receive(send(1, create_body(path, data, mode)));
}

std::int32_t WireClient::remove(std::string_view path) {
  std::string body;
  put_buffer(body, path);
  put<std::int32_t>(body, -1);  // any version
  return receive(send(2, body));
}

std::int32_t WireClient::set_data(std::string_view path, std::string_view data) {
  std::string body;
  put_buffer(body, path);
  put_buffer(body, data);
  put<std::int32_t>(body, -1);
  return receive(send(5, body));
}

std::int32_t WireClient::exists(std::string_view path, bool watch) { return receive(send(3, path_body(path, watch))); }

std::int32_t WireClient::ping() { return receive(send(11, "")); }

std::int32_t WireClient::close_session() { return receive(send(-11, "")); }

std::optional<std::string> WireClient::get_data(std::string_view path) {
  std::string body;
  const std::int32_t error = receive(send(4, path_body(path, false)), &body);
  if (error == no_node) {
    return std::nullopt;
  }
  if (error != ok) {
    throw Error(fmt::format("cannot read {}: error {}", path, error));
  }
  const std::int32_t size = get_int32(body, 0);
  return size <= 0 ? std::string() : body.substr(4, static_cast<std::size_t>(size));
}

}  // namespace zktesting::detail
