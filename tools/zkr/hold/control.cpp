#include "tools/zkr/hold/control.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/hold/unix_address.hpp"

namespace zkr {
namespace {

constexpr std::size_t longest_message = std::size_t{160} * 1024;  // Of what a socket takes by default.
constexpr timeval server_patience{.tv_sec = 1, .tv_usec = 0};     // For a request.
constexpr timeval client_patience{.tv_sec = 20, .tv_usec = 0};    // For an answer.

Descriptor new_socket() { return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

/// Whose the other end is.
std::optional<uid_t> user_of(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

/// It is this user's, or root's.
bool of_this_user(const Descriptor& socket) {
  const auto user = user_of(socket);
  return user && (*user == ::geteuid() || *user == 0);
}

[[noreturn]] void fail_to_ask(const std::string& why) {
  throw Failure(exit_system, "the keeper of a lease that a caller may hold cannot be asked: " + why);
}

std::optional<std::string> receive(const Descriptor& socket, const timeval& patience) {
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string text(longest_message, '\0');
  const ssize_t size = ::recv(socket.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return text;
}

bool send(const Descriptor& socket, const std::string& text) {
  return ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(text.size());
}

}  // namespace

std::unique_ptr<ControlServer> ControlServer::open(const std::string& name, Answer answer) {
  const UnixAddress address = abstract_address(name);
  Descriptor listener = new_socket();
  if (::bind(listener.get(), address.get(), address.size) != 0 || ::listen(listener.get(), 16) != 0) return nullptr;
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(listener), std::move(answer)));
}

ControlServer::ControlServer(Descriptor listener, Answer answer)
    : listener_(std::move(listener)), answer_(std::move(answer)), thread_([this] { serve(); }) {}

ControlServer::~ControlServer() {
  ::shutdown(listener_.get(), SHUT_RDWR);  // Ends accept().
  thread_.join();
}

void ControlServer::serve() {
  while (true) {
    Descriptor asker(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!asker) return;
    serve_one(std::move(asker));
  }
}

void ControlServer::serve_one(Descriptor asker) {
  if (!of_this_user(asker)) return;
  const auto request = receive(asker, server_patience);
  if (request) answer_(*request, ControlReply(std::move(asker)));
}

void ControlReply::operator()(const ControlAnswer& answer) const {
  send(*asker_, static_cast<char>(answer.code) + answer.text);
}

std::optional<ControlAnswer> ask_control(const std::string& name, const std::string& request) {
  const UnixAddress address = abstract_address(name);
  const Descriptor socket = new_socket();
  if (::connect(socket.get(), address.get(), address.size) != 0) {
    if (errno != ECONNREFUSED) fail_to_ask(std::strerror(errno));
    return std::nullopt;
  }
  if (!of_this_user(socket)) return std::nullopt;  // A stranger has taken the name: the keeper is gone.
  if (::geteuid() != 0 && user_of(socket) != ::geteuid()) fail_to_ask("it belongs to root");
  if (!send(socket, request)) return std::nullopt;
  errno = 0;
  const auto answer = receive(socket, client_patience);
  if (!answer && errno == EAGAIN) fail_to_ask("it does not answer");
  if (!answer) return std::nullopt;
  return ControlAnswer{.code = static_cast<std::uint8_t>((*answer)[0]), .text = answer->substr(1)};
}

}  // namespace zkr
