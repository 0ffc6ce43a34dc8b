#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// What the tests of the examples with logs share: how to talk to their processes, and what these print.
namespace testkit {

inline sockaddr_in loopback(const std::string& address, int port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

/// An address that nobody else has, and a port there that is free. A member that starts again has it again.
inline std::pair<std::string, int> free_address() {
  std::random_device random;
  const auto byte = [&] { return std::to_string(1 + random() % 250); };
  const std::string address = "127." + byte() + "." + byte() + "." + byte();
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in bound = loopback(address, 0);
  socklen_t size = sizeof bound;
  const bool good = ::bind(socket, reinterpret_cast<sockaddr*>(&bound), size) == 0 &&
                    ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) == 0;
  ::close(socket);
  if (!good) throw std::runtime_error("no port is free");
  return {address, ntohs(bound.sin_port)};
}

/// A client's connection. Nothing: no answer within the time, or it is broken, and stays so.
class Line {
 public:
  explicit Line(const std::pair<std::string, int>& to, std::chrono::seconds limit = std::chrono::seconds(1))
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval time{limit.count(), 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    const sockaddr_in address = loopback(to.first, to.second);
    open_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Line() { ::close(socket_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void send(const std::string& text) {
    open_ = open_ && ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  std::optional<std::string> hear() {
    for (char bytes[4096]; open_ && received_.find('\n') == std::string::npos;) {
      const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
      if (count < 0 && errno == EINTR) continue;  // Linux ends a wait that has a limit when the process is stopped.
      open_ = count > 0;
      if (open_) received_.append(bytes, static_cast<std::size_t>(count));
    }
    if (!open_) return std::nullopt;
    const std::size_t end = received_.find('\n');
    const std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  }
  std::optional<std::string> ask(const std::string& text) {
    send(text + "\n");
    return hear();
  }
  bool open() const { return open_; }

 private:
  const int socket_;
  bool open_ = false;
  std::string received_;
};

struct Acknowledgement {
  std::string member;
  std::int64_t epoch = 0;
  std::size_t position = 0;
  std::int64_t time = 0;  // When the member certainly was the primary, by CLOCK_BOOTTIME.
};

/// What the members say.
class Minutes {
 public:
  void note(const std::string& member, const std::vector<std::string>& words) {
    if (words.size() != 4 || words[0] != "acknowledged") return;
    const std::lock_guard lock(mutex_);
    all_.push_back({member, std::stoll(words[1]), std::stoul(words[2]), std::stoll(words[3])});
  }
  std::int64_t last_epoch() const {
    const std::lock_guard lock(mutex_);
    std::int64_t last = 0;
    for (const Acknowledgement& one : all_)
      last = std::max(last, one.epoch);
    return last;
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }
  /// Each epoch has one member, and its time is over when the next one begins.
  void expect_one_primary_at_a_time() const {
    const std::lock_guard lock(mutex_);
    std::map<std::int64_t, std::vector<Acknowledgement>> terms;
    for (const Acknowledgement& one : all_)
      terms[one.epoch].push_back(one);
    std::int64_t before = 0;
    const auto by_time = [](const auto& a, const auto& b) { return a.time < b.time; };
    for (const auto& [epoch, all] : terms) {
      const auto [first, last] = std::minmax_element(all.begin(), all.end(), by_time);
      EXPECT_GT(first->time, before) << "epoch " << epoch << " overlaps with one before it";
      before = std::max(before, last->time);
      for (const Acknowledgement& one : all)
        EXPECT_EQ(one.member, all.front().member) << "two primaries of epoch " << epoch;
    }
    std::cout << all_.size() << " acknowledged in " << terms.size() << " epochs\n";
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Acknowledgement> all_;
};

}  // namespace testkit
