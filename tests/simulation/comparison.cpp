#include "comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wire_text.hpp"

namespace zktesting::simulated {

RealConnection::RealConnection(const detail::Endpoint& server, std::chrono::milliseconds timeout,
                               const detail::SessionId& session)
    : socket_(server, end()), frames_(64 << 20) {
  socket_.write(detail::WireClient::connect_frame(timeout, session), end());
  const std::optional<std::string> reply = next();
  if (!reply) throw Error("the server has closed a connection that was to begin");
  Decoder in(*reply);
  in.int32();
  in.int32();
  session_.id = in.int64();
  session_.password = in.string();
}

std::optional<std::string> RealConnection::next() {
  for (;;) {
    if (auto frame = frames_.next()) return frame;
    std::array<char, 65536> bytes;
    const std::size_t size = socket_.read_some(bytes, end());
    if (size == 0) return std::nullopt;
    frames_.add({bytes.data(), size});
  }
}

std::string Story::text() const {
  std::string text;
  for (const Line& line : lines_) {
    text += fmt::format("{} {} ", line.client, line.what);
    if (!line.frame.empty())
      text += text_of(line.frame, *line.request);
    else if (line.request)
      text += fmt::format("{}: {}", line.request->xid, text_of(*line.request));
    text += "\n";
  }
  return text;
}

void Story::add(Line line) {
  constexpr std::size_t remembered = 120;
  lines_.push_back(std::move(line));
  if (lines_.size() > remembered) lines_.pop_front();
}

Comparison::Comparison(std::vector<detail::Endpoint> servers, Model& model, Times& times, std::size_t clients)
    : servers_(std::move(servers)), model_(model), times_(times), clients_(clients) {
  for (std::size_t i = 0; i < clients; ++i)
    clients_[i].server = i % servers_.size();
}

void Comparison::open(Client& client, std::chrono::milliseconds timeout) {
  client.real = std::make_unique<RealConnection>(servers_[client.server], timeout);
  client.model = model_.open(client.real->session().id, client.real->address(), client.server);
  story_.says(number_of(client), fmt::format("has a new session, {:x}", client.real->session().id));
}

void Comparison::resume(Client& client) {
  const detail::SessionId session = client.real->session();
  client.real = std::make_unique<RealConnection>(servers_[client.server], longest_session, session);
  model_.drop(client.model);
  client.model = model_.resume(session.id, client.real->address(), client.server);
  client.asked.clear();
  story_.says(number_of(client), fmt::format("resumes its session at server {}", client.server));
}

std::string Comparison::frame_of(Client& client, Request& request) {
  request.xid = ++xid_;
  if (request.op == Op::ping) request.xid = xid::ping;
  if (request.op == Op::auth) request.xid = xid::auth;
  if (request.op == Op::set_watches || request.op == Op::set_watches2) request.xid = xid::set_watches;
  story_.asks(number_of(client), request);
  return encode_request(request);
}

void Comparison::add(Client& client, Request request) {
  client.bytes += Encoder().buffer(frame_of(client, request)).bytes();
  client.asked.push_back(std::move(request));
}

void Comparison::add_cut(Client& client, Request request, std::size_t by) {
  const std::string frame = frame_of(client, request);
  constexpr std::size_t header = 8;
  const std::string_view rest = std::string_view(frame).substr(0, std::max(header, frame.size() - by));
  story_.says(number_of(client), "cuts that short");
  client.bytes += Encoder().buffer(rest).bytes();
  client.asked.push_back(std::move(request));
}

void Comparison::add_bytes(Client& client, std::string_view bytes, std::string_view what) {
  story_.says(number_of(client), fmt::format("sends {}", what));
  client.bytes += bytes;
}

bool Comparison::flush(Client& client) {
  client.real->send(client.bytes);
  model_.receive(client.model, client.bytes, client.asked.size());
  client.bytes.clear();
  while (!model_.connection(client.model).sent.empty()) {
    const std::optional<std::string> real = client.real->next();
    if (!real) return differ(client, "the real server has closed the connection");
    if (!compare(client, *real)) return false;
  }
  if (ended(client)) return ends(client);
  return client.asked.empty() || differ(client, "the model does not answer");
}

bool Comparison::differ(const Client& client, std::string_view what) {
  story_.says(number_of(client), fmt::format("finds a difference: {}", what));
  return false;
}

/// With the model's times in place of the real ones.
std::string Comparison::with_times(std::string frame, const Request& asked) {
  for (const std::size_t at : stats_in(frame, asked)) {
    const Stat stat = Decoder(std::string_view(frame).substr(at)).stat();
    const Millis ctime = times_.replaced(stat.czxid, stat.ctime);
    const Millis mtime = times_.replaced(stat.mzxid, stat.mtime);
    frame.replace(at + 16, 16, Encoder().int64(ctime).int64(mtime).bytes());
  }
  return frame;
}

/// With the real session's number, too.
std::string Comparison::of_model(std::string frame, const Request& asked) {
  for (const std::size_t at : stats_in(frame, asked)) {
    const Stat stat = Decoder(std::string_view(frame).substr(at)).stat();
    const Millis ctime = times_of_model_.replaced(stat.czxid, stat.ctime);
    const Millis mtime = times_of_model_.replaced(stat.mzxid, stat.mtime);
    frame.replace(at + 16, 16, Encoder().int64(ctime).int64(mtime).bytes());
    frame.replace(at + 44, 8, Encoder().int64(model_.real_session(stat.ephemeral_owner)).bytes());
  }
  return frame;
}

bool Comparison::compare(Client& client, const std::string& heard) {
  std::deque<std::string>& sent = model_.connection(client.model).sent;
  const Request asked = is_event(heard) || client.asked.empty() ? Request() : client.asked.front();
  const std::string real = with_times(heard, asked);
  story_.hears(number_of(client), asked, real);
  if (sent.empty()) return differ(client, "the model has sent nothing");
  const Request expected = is_event(sent.front()) || client.asked.empty() ? Request() : client.asked.front();
  const std::string model = of_model(sent.front(), expected);
  if (real != model) return differ(client, "the model's is\n  " + text_of(model, expected));
  sent.pop_front();
  if (is_event(real) || client.asked.empty()) return true;
  if ((asked.op == Op::create || asked.op == Op::create2) && real.size() > 16)
    created_ = Decoder(std::string_view(real).substr(16)).string();
  client.asked.pop_front();
  return true;
}

bool Comparison::ends(Client& client) {
  try {
    const std::optional<std::string> more = client.real->next();
    return !more || differ(client, "the model has closed the connection, the real server sent " + text_of(*more, {}));
  } catch (const detail::TimedOut&) {
    return differ(client, "the real server does not close the connection");
  } catch (const Error&) {
    return true;  // Reset: the server has closed with something unread.
  }
}

}  // namespace zktesting::simulated
