#include "tools/zkr/hold/control.hpp"

#include <poll.h>
#include <sys/socket.h>
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

using Patience = std::optional<std::chrono::milliseconds>;  // Nothing: for as long as the other end is there.

constexpr std::size_t longest_message = std::size_t{160} * 1024;  // Of what a socket takes by default.
constexpr std::chrono::seconds server_patience(1);                // For a request.

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

/// False: there is nothing to be read in time. A stop and a SIGCONT end poll() early, also without a handler.
bool await_message(const Descriptor& socket, Patience patience) {
  const auto end = std::chrono::steady_clock::now() + patience.value_or(std::chrono::milliseconds::zero());
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd polled{.fd = socket.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&polled, 1, patience ? static_cast<int>(std::max<std::int64_t>(left, 0)) : -1);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

/// Nothing: the other end is gone; or there is nothing in time, which `late` says.
std::optional<std::string> receive(const Descriptor& socket, Patience patience, bool& late) {
  late = !await_message(socket, patience);
  if (late) return std::nullopt;
  std::string text(longest_message, '\0');
  const ssize_t size = ::recv(socket.get(), text.data(), text.size(), MSG_DONTWAIT);
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
  bool late = false;
  const auto request = receive(asker, server_patience, late);
  if (request) answer_(*request, ControlReply(std::move(asker)));
}

void ControlReply::operator()(const ControlAnswer& answer) const {
  send(*asker_, static_cast<char>(answer.code) + answer.text);
}

std::optional<ControlAnswer> ask_control(const std::string& name, const std::string& request, Patience patience) {
  const UnixAddress address = abstract_address(name);
  const Descriptor socket = new_socket();
  if (::connect(socket.get(), address.get(), address.size) != 0) {
    if (errno != ECONNREFUSED) fail_to_ask(std::strerror(errno));
    return std::nullopt;
  }
  if (!of_this_user(socket)) return std::nullopt;  // A stranger has taken the name: the keeper is gone.
  if (::geteuid() != 0 && user_of(socket) != ::geteuid()) fail_to_ask("it belongs to root");
  if (!send(socket, request)) return std::nullopt;
  bool late = false;
  const auto answer = receive(socket, patience, late);
  if (late) fail_to_ask("it does not answer");
  if (!answer) return std::nullopt;
  return ControlAnswer{.code = static_cast<std::uint8_t>((*answer)[0]), .text = answer->substr(1)};
}

}  // namespace zkr
