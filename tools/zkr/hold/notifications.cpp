#include "tools/zkr/hold/notifications.hpp"

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "tools/zkr/hold/unix_address.hpp"

namespace zkr {
namespace {

constexpr std::size_t longest_notification = 4096;  // As systemd takes it.

struct Received {
  std::string text;
  std::optional<uid_t> user;
};

/// Descriptors that come along find no room, and are closed.
Received receive_from(const Descriptor& socket) {
  std::array<char, longest_notification> text{};
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  Received received;
  if (size > 0) received.text.assign(text.data(), static_cast<std::size_t>(size));
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_CREDENTIALS) return received;
  ucred sender{};
  std::memcpy(&sender, CMSG_DATA(head), sizeof sender);
  received.user = sender.uid;
  return received;
}

/// Our caller would take the command's process for ours, and its descriptors for those of a process that goes on.
bool concerns_the_caller(const std::string& line) {
  constexpr std::array<std::string_view, 6> not_its{"MAINPID=", "MAINPIDFDID=", "FDSTORE",
                                                    "FDNAME=",  "FDPOLL=",      "BARRIER="};
  return std::none_of(not_its.begin(), not_its.end(),
                      [&line](std::string_view name) { return line.starts_with(name); });
}

void pass_on_to_caller(const std::string& text) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || text.empty() || (name[0] != '@' && name[0] != '/')) return;
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UnixAddress address = name[0] == '@' ? abstract_address(name + 1) : file_address(name);
  ::sendto(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT, address.get(), address.size);
}

}  // namespace

std::unique_ptr<Notifications> Notifications::open(const std::string& name, Hear hear) {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const UnixAddress address = abstract_address(name);
  if (::bind(socket.get(), address.get(), address.size) != 0) return nullptr;
  return std::unique_ptr<Notifications>(new Notifications(std::move(socket), std::move(hear)));
}

Notifications::Notifications(Descriptor socket, Hear hear)
    : socket_(std::move(socket)), hear_(std::move(hear)), thread_([this] { listen(); }) {}

Notifications::~Notifications() {
  ended_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);  // Ends recvmsg().
  thread_.join();
}

void Notifications::listen() {
  while (!ended_) {
    const Received received = receive_from(socket_);
    if (received.user && (*received.user == ::geteuid() || *received.user == 0)) take(received.text);
  }
}

void Notifications::take(const std::string& message) const {
  std::istringstream lines(message);
  std::string passed_on;
  for (std::string line; std::getline(lines, line);) {
    hear_(line);
    if (concerns_the_caller(line)) passed_on += line + "\n";
  }
  pass_on_to_caller(passed_on);
}

}  // namespace zkr
