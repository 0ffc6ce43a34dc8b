// libc's descriptors and sockets, as the world's threads see them.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "simulation/kernel/descriptors.hpp"
#include "simulation/kernel/kernel.hpp"
#include "simulation/seam/anchors.hpp"
#include "simulation/seam/real.hpp"

using zktesting::simulated::Deadline;
using zktesting::simulated::Descriptors;
using zktesting::simulated::File;
using zktesting::simulated::Kernel;
using zktesting::simulated::Nanos;
using zktesting::simulated::Socket;

namespace {

// The world may be over when a descriptor of its is used: then it is closed already.
Descriptors* table() { return Kernel::instance() == nullptr ? nullptr : &Kernel::instance()->descriptors(); }
bool ours(int descriptor) { return Descriptors::is_ours(descriptor) && table() != nullptr; }

int fails(int error) {
  errno = error;
  return -1;
}
Nanos nanos(const timespec& time) { return std::chrono::seconds(time.tv_sec) + Nanos(time.tv_nsec); }
timespec to_timespec(Nanos time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
}

std::uint32_t ready(int descriptor) {
  File* const file = table()->find(descriptor);
  return file == nullptr ? 0 : file->ready();
}

int poll_ours(pollfd* descriptors, nfds_t count, std::optional<Nanos> limit) {
  Kernel& kernel = *Kernel::instance();
  kernel.step();
  std::optional<Deadline> deadline;
  if (limit) deadline = kernel.world_time_of(Kernel::current()->process->host, *limit);
  for (bool in_time = true;;) {
    int found = 0;
    for (nfds_t i = 0; i < count; ++i) {
      const auto wanted = static_cast<std::uint32_t>(descriptors[i].events) | POLLERR | POLLHUP;
      descriptors[i].revents =
          ours(descriptors[i].fd) ? static_cast<short>(ready(descriptors[i].fd) & wanted) : short{0};
      if (descriptors[i].revents != 0) ++found;
    }
    if (found > 0 || !in_time || (limit && *limit == Nanos{})) return found;
    in_time = kernel.block(table(), deadline);
  }
}

int set_flags(File& file, int flags) {
  file.nonblocking = (flags & O_NONBLOCK) != 0;
  return 0;
}

}  // namespace

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  const bool tcp = domain == AF_INET && (type & 0xF) == SOCK_STREAM;
  if (Kernel::current() == nullptr) return ZKR_REAL(socket)(domain, type, protocol);
  if (!tcp) return fails(EAFNOSUPPORT);
  return table()->socket((type & SOCK_NONBLOCK) != 0);
}
int connect(int descriptor, const sockaddr* to, socklen_t size) {
  if (!ours(descriptor)) return ZKR_REAL(connect)(descriptor, to, size);
  sockaddr_in address{};
  std::memcpy(&address, to, std::min(size, static_cast<socklen_t>(sizeof address)));
  return table()->connect(descriptor, address);
}
int bind(int descriptor, const sockaddr* to, socklen_t size) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(bind)(descriptor, to, size);
  sockaddr_in address{};
  std::memcpy(&address, to, std::min(size, static_cast<socklen_t>(sizeof address)));
  return table()->bind(descriptor, address);
}
int listen(int descriptor, int waiting) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(listen)(descriptor, waiting);
  return table()->listen(descriptor);
}
int accept4(int descriptor, sockaddr* from, socklen_t* size, int flags) {
  if (!ours(descriptor)) return ZKR_REAL(accept4)(descriptor, from, size, flags);
  sockaddr_in address{};
  const int accepted = table()->accept(descriptor, &address, (flags & SOCK_NONBLOCK) != 0);
  if (accepted < 0 || from == nullptr) return accepted;
  std::memcpy(from, &address, std::min(*size, static_cast<socklen_t>(sizeof address)));
  *size = sizeof address;
  return accepted;
}
int accept(int descriptor, sockaddr* from, socklen_t* size) { return accept4(descriptor, from, size, 0); }
ssize_t send(int descriptor, const void* from, size_t size, int flags) {
  if (!ours(descriptor)) return ZKR_REAL(send)(descriptor, from, size, flags);
  return table()->write(descriptor, from, size);
}
ssize_t recv(int descriptor, void* to, size_t size, int flags) {
  if (!ours(descriptor)) return ZKR_REAL(recv)(descriptor, to, size, flags);
  if ((flags & MSG_PEEK) != 0) return table()->peek(descriptor, to, size);
  if ((flags & MSG_DONTWAIT) != 0) {
    File* const file = table()->find(descriptor);
    return file == nullptr ? fails(EBADF) : file->read(to, size);
  }
  return table()->read(descriptor, to, size);
}
ssize_t write(int descriptor, const void* from, size_t size) {
  if (!ours(descriptor)) return ZKR_REAL(write)(descriptor, from, size);
  return table()->write(descriptor, from, size);
}
ssize_t read(int descriptor, void* to, size_t size) {
  if (!ours(descriptor)) return ZKR_REAL(read)(descriptor, to, size);
  return table()->read(descriptor, to, size);
}
ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (!ours(descriptor)) return ZKR_REAL(writev)(descriptor, parts, count);
  std::string all;
  for (int i = 0; i < count; ++i)
    all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return table()->write(descriptor, all.data(), all.size());
}
ssize_t readv(int descriptor, const iovec* parts, int count) {
  if (!ours(descriptor)) return ZKR_REAL(readv)(descriptor, parts, count);
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > 0) return table()->read(descriptor, parts[i].iov_base, parts[i].iov_len);
  }
  return 0;
}
ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  if (!ours(descriptor)) return ZKR_REAL(sendmsg)(descriptor, message, flags);
  return writev(descriptor, message->msg_iov, static_cast<int>(message->msg_iovlen));
}
ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  if (!ours(descriptor)) return ZKR_REAL(recvmsg)(descriptor, message, flags);
  return readv(descriptor, message->msg_iov, static_cast<int>(message->msg_iovlen));
}
int shutdown(int descriptor, int how) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(shutdown)(descriptor, how);
  Socket* const socket = table()->find_socket(descriptor);
  if (socket == nullptr) return fails(ENOTSOCK);
  if (how != SHUT_RD) socket->shutdown();
  return 0;
}
int close(int descriptor) {
  if (!Descriptors::is_ours(descriptor)) return ZKR_REAL(close)(descriptor);
  return table() == nullptr ? 0 : table()->close(descriptor);
}

int pipe2(int ends[2], int flags) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(pipe2)(ends, flags);
  table()->pipe(ends, (flags & O_NONBLOCK) != 0);
  return 0;
}
int pipe(int ends[2]) noexcept { return Kernel::current() == nullptr ? ZKR_REAL(pipe)(ends) : pipe2(ends, 0); }
int socketpair(int domain, int type, int protocol, int ends[2]) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(socketpair)(domain, type, protocol, ends);
  if (domain != AF_UNIX || (type & 0xF) != SOCK_STREAM) return fails(EAFNOSUPPORT);
  table()->socketpair(ends, (type & SOCK_NONBLOCK) != 0);
  return 0;
}

int dup(int descriptor) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(dup)(descriptor);
  return table()->duplicate(descriptor);
}

int getsockopt(int descriptor, int level, int name, void* value, socklen_t* size) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(getsockopt)(descriptor, level, name, value, size);
  Socket* const socket = table()->find_socket(descriptor);
  if (socket == nullptr) return fails(ENOTSOCK);
  std::memset(value, 0, *size);
  if (level == SOL_SOCKET && name == SO_ERROR && *size >= sizeof(int)) {
    const int error = socket->take_error();
    std::memcpy(value, &error, sizeof error);
  }
  return 0;
}
int setsockopt(int descriptor, int level, int name, const void* value, socklen_t size) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(setsockopt)(descriptor, level, name, value, size);
  Socket* const socket = table()->find_socket(descriptor);
  if (socket == nullptr || level != SOL_SOCKET || name != SO_LINGER || size < sizeof(linger)) return 0;
  linger chosen{};
  std::memcpy(&chosen, value, sizeof chosen);
  socket->resets_when_closed = chosen.l_onoff != 0 && chosen.l_linger == 0;
  return 0;
}
int getpeername(int descriptor, sockaddr* to, socklen_t* size) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(getpeername)(descriptor, to, size);
  const Socket* const socket = table()->find_socket(descriptor);
  if (socket == nullptr || !socket->is_connected()) return fails(ENOTCONN);
  std::memcpy(to, &socket->peer(), std::min(*size, static_cast<socklen_t>(sizeof(sockaddr_in))));
  *size = sizeof(sockaddr_in);
  return 0;
}
int getsockname(int descriptor, sockaddr* to, socklen_t* size) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(getsockname)(descriptor, to, size);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(static_cast<std::uint16_t>(descriptor));
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Socket* const socket = table()->find_socket(descriptor);
  if (socket != nullptr && socket->own.sin_port != 0) own = socket->own;
  std::memcpy(to, &own, std::min(*size, static_cast<socklen_t>(sizeof own)));
  *size = sizeof own;
  return 0;
}

int fcntl(int descriptor, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (!ours(descriptor)) return ZKR_REAL(fcntl)(descriptor, command, argument);
  File* const file = table()->find(descriptor);
  if (file == nullptr) return fails(EBADF);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) return table()->duplicate(descriptor);
  if (command == F_GETFL) return O_RDWR | (file->nonblocking ? O_NONBLOCK : 0);
  if (command == F_SETFL) return set_flags(*file, static_cast<int>(reinterpret_cast<std::intptr_t>(argument)));
  return 0;  // FD_CLOEXEC: nothing is executed.
}
int fcntl64(int descriptor, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  return fcntl(descriptor, command, argument);
}
int ioctl(int descriptor, unsigned long request, ...) noexcept {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (!ours(descriptor)) return ZKR_REAL(ioctl)(descriptor, request, argument);
  File* const file = table()->find(descriptor);
  if (file == nullptr) return fails(EBADF);
  if (request != FIONBIO) return fails(ENOTTY);
  file->nonblocking = *static_cast<const int*>(argument) != 0;
  return 0;
}

int poll(pollfd* descriptors, nfds_t count, int limit) {
  bool any = false;
  for (nfds_t i = 0; i < count; ++i)
    any = any || ours(descriptors[i].fd);
  if (Kernel::current() == nullptr || (!any && count > 0)) return ZKR_REAL(poll)(descriptors, count, limit);
  return poll_ours(descriptors, count,
                   limit < 0 ? std::nullopt : std::optional<Nanos>(std::chrono::milliseconds(limit)));
}

int epoll_create1(int flags) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(epoll_create1)(flags);
  return table()->epoll_create();
}
int epoll_create(int size) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(epoll_create)(size);
  return table()->epoll_create();
}
int epoll_ctl(int epoll, int what, int descriptor, epoll_event* event) noexcept {
  if (!ours(epoll)) return ZKR_REAL(epoll_ctl)(epoll, what, descriptor, event);
  return table()->epoll_ctl(epoll, what, descriptor, event);
}
int epoll_wait(int epoll, epoll_event* events, int size, int limit) {
  if (!ours(epoll)) return ZKR_REAL(epoll_wait)(epoll, events, size, limit);
  return table()->epoll_wait(epoll, events, size,
                             limit < 0 ? std::nullopt : std::optional<Nanos>(std::chrono::milliseconds(limit)));
}
int epoll_pwait(int epoll, epoll_event* events, int size, int limit, const sigset_t* signals) {
  if (!ours(epoll)) return ZKR_REAL(epoll_pwait)(epoll, events, size, limit, signals);
  return epoll_wait(epoll, events, size, limit);
}
int epoll_pwait2(int epoll, epoll_event* events, int size, const timespec* limit, const sigset_t* signals) {
  if (!ours(epoll)) return ZKR_REAL(epoll_pwait2)(epoll, events, size, limit, signals);
  return table()->epoll_wait(epoll, events, size, limit == nullptr ? std::nullopt : std::optional(nanos(*limit)));
}
int eventfd(unsigned count, int flags) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(eventfd)(count, flags);
  return table()->eventfd(count, (flags & EFD_SEMAPHORE) != 0, (flags & EFD_NONBLOCK) != 0);
}
int timerfd_create(clockid_t clock, int flags) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(timerfd_create)(clock, flags);
  return table()->timerfd_create(clock, (flags & TFD_NONBLOCK) != 0);
}
int timerfd_settime(int descriptor, int flags, const itimerspec* time, itimerspec* before) noexcept {
  if (!ours(descriptor)) return ZKR_REAL(timerfd_settime)(descriptor, flags, time, before);
  if (before != nullptr) *before = {.it_interval = to_timespec(Nanos{}), .it_value = to_timespec(Nanos{})};
  return table()->timerfd_settime(descriptor, (flags & TFD_TIMER_ABSTIME) != 0, nanos(time->it_value),
                                  nanos(time->it_interval));
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* limit, const sigset_t* signals) {
  if (Kernel::current() == nullptr) return ZKR_REAL(ppoll)(descriptors, count, limit, signals);
  return poll_ours(descriptors, count, limit == nullptr ? std::nullopt : std::optional(nanos(*limit)));
}

// What programs call that were compiled with _FORTIFY_SOURCE.
int __poll_chk(pollfd* descriptors, nfds_t count, int limit, size_t /*room*/) {
  return poll(descriptors, count, limit);
}
ssize_t __read_chk(int descriptor, void* to, size_t size, size_t /*room*/) { return read(descriptor, to, size); }
ssize_t __recv_chk(int descriptor, void* to, size_t size, size_t /*room*/, int flags) {
  return recv(descriptor, to, size, flags);
}

int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** result) {
  if (Kernel::current() == nullptr) return ZKR_REAL(getaddrinfo)(host, service, hints, result);
  in_addr numeric{};
  if (host == nullptr) return EAI_NONAME;
  const bool is_name = ::inet_pton(AF_INET, host, &numeric) != 1;
  if (is_name && hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  const auto port = htons(static_cast<std::uint16_t>(service == nullptr ? 0 : std::atoi(service)));
  const std::vector<std::uint32_t> addresses = is_name ? table()->resolve(host) : std::vector{numeric.s_addr};
  addrinfo** next = result;
  for (const std::uint32_t address : addresses) {
    auto* const made = static_cast<addrinfo*>(std::calloc(1, sizeof(addrinfo) + sizeof(sockaddr_in)));
    auto* const to = reinterpret_cast<sockaddr_in*>(made + 1);
    to->sin_family = AF_INET;
    to->sin_addr.s_addr = address;
    to->sin_port = port;
    made->ai_family = AF_INET;
    made->ai_socktype = SOCK_STREAM;
    made->ai_protocol = IPPROTO_TCP;
    made->ai_addrlen = sizeof(sockaddr_in);
    made->ai_addr = reinterpret_cast<sockaddr*>(to);
    *next = made;
    next = &made->ai_next;
  }
  return addresses.empty() ? EAI_NONAME : 0;
}
void freeaddrinfo(addrinfo* list) noexcept {
  if (Kernel::current() == nullptr) return ZKR_REAL(freeaddrinfo)(list);
  while (list != nullptr)
    std::free(std::exchange(list, list->ai_next));
}

}  // extern "C"

void zktesting::simulated::anchor_descriptors() {}
