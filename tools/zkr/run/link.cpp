#include "tools/zkr/run/link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace zkr {

std::pair<Link, Link> Link::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  return {Link(ends[0]), Link(ends[1])};
}

void Link::send(const Message& message, int descriptor) {
  if (message.word == Word::guard) kept_.clear();
  catch_up();
  if (kept_.empty() && try_to_send(message, descriptor)) return;
  kept_.push_back({message, Descriptor(descriptor >= 0 ? ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1)});
}

void Link::catch_up() {
  while (!kept_.empty() && try_to_send(kept_.front().message, kept_.front().descriptor.get()))
    kept_.pop_front();
}

void Link::send_surely(const Message& message) {
  send(message);
  for (; is_behind(); catch_up()) {
    pollfd polled{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&polled, 1, -1);
  }
}

bool Link::try_to_send(const Message& message, int descriptor) {
  iovec content{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL) >= 0) return true;
  if (errno == EPIPE || errno == ECONNRESET) peer_gone_ = true;
  return errno != EAGAIN && errno != EINTR;
}

void Link::say(const std::string& text) {
  Message message{.word = Word::say, .number = dropped_};
  text.copy(message.text, sizeof message.text - 1);
  catch_up();
  dropped_ = kept_.empty() && try_to_send(message, -1) ? 0 : dropped_ + 1;
}

std::optional<Message> Link::receive(Descriptor& descriptor) {
  Message message;
  iovec content{&message, sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  if (size == 0 || (size < 0 && errno == ECONNRESET)) peer_gone_ = true;
  if (size != static_cast<ssize_t>(sizeof message)) return std::nullopt;
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(rights), sizeof number);
    descriptor = Descriptor(number);
  }
  return message;
}

}  // namespace zkr
