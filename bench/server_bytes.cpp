#include "server_bytes.hpp"

// Before <netinet/tcp.h> could be: its tcp_info is an older one, without the bytes.
#include <linux/tcp.h>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace bench {
namespace {

constexpr std::uint32_t established = 1U << 1U;  // TCP_ESTABLISHED of the kernel.

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

class Diagnosis {
 public:
  Diagnosis() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {
    if (socket_ < 0) fail("socket");
  }
  ~Diagnosis() { ::close(socket_); }
  Diagnosis(const Diagnosis&) = delete;
  Diagnosis& operator=(const Diagnosis&) = delete;

  void add_to(SentBytes& sent, std::uint8_t family, std::uint16_t port) {
    ask(family);
    for (;;) {
      const ssize_t received = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (received < 0) fail("recv");
      auto left = static_cast<std::uint32_t>(received);
      for (auto* header = reinterpret_cast<nlmsghdr*>(buffer_.data()); NLMSG_OK(header, left);
           header = NLMSG_NEXT(header, left)) {
        if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) return;
        add_connection(sent, *header, port);
      }
    }
  }

 private:
  void ask(std::uint8_t family) {
    struct {
      nlmsghdr header;
      inet_diag_req_v2 request;
    } message{};
    message.header.nlmsg_len = sizeof message;
    message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.request.sdiag_family = family;
    message.request.sdiag_protocol = IPPROTO_TCP;
    message.request.idiag_ext = 1U << (INET_DIAG_INFO - 1U);
    message.request.idiag_states = established;
    if (::send(socket_, &message, sizeof message, 0) < 0) fail("send");
  }

  static void add_connection(SentBytes& sent, nlmsghdr& header, std::uint16_t port) {
    auto* connection = static_cast<inet_diag_msg*>(NLMSG_DATA(&header));
    if (ntohs(connection->id.idiag_sport) != port) return;
    auto left = static_cast<std::uint32_t>(header.nlmsg_len - NLMSG_LENGTH(sizeof *connection));
    for (auto* item = reinterpret_cast<rtattr*>(connection + 1); RTA_OK(item, left); item = RTA_NEXT(item, left)) {
      if (item->rta_type != INET_DIAG_INFO) continue;
      tcp_info info{};
      std::memcpy(&info, RTA_DATA(item), std::min<std::size_t>(sizeof info, RTA_PAYLOAD(item)));
      const auto& cookie = connection->id.idiag_cookie;
      sent[(std::uint64_t{cookie[1]} << 32U) | cookie[0]] = info.tcpi_bytes_acked;
    }
  }

  int socket_;
  alignas(nlmsghdr) std::array<char, 65536> buffer_{};
};

}  // namespace

SentBytes bytes_sent_by(std::uint16_t port) {
  Diagnosis diagnosis;
  SentBytes sent;
  diagnosis.add_to(sent, AF_INET, port);
  diagnosis.add_to(sent, AF_INET6, port);
  return sent;
}

std::uint64_t sent_between(const SentBytes& before, const SentBytes& after) {
  std::uint64_t sum = 0;
  for (const auto& [connection, bytes] : after) {
    const auto known = before.find(connection);
    sum += bytes - (known != before.end() ? known->second : 0);
  }
  return sum;
}

}  // namespace bench
