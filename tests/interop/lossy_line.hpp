#pragma once

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/testkit.hpp"

namespace testkit {

/// A line of our side to a server that loses replies. The other libraries have lines of their own, which do not.
class LossyLine {
 public:
  /// To the shared server, for what stands below `prefix`.
  explicit LossyLine(const zkclient::Path& prefix)
      : LossyLine(zktesting::SharedServer::instance().connect_string(), prefix) {}
  /// Its session is so long that no hiccup of the machine ends it.
  LossyLine(const std::string& hosts, const zkclient::Path& prefix)
      : proxy_(hosts),
        client_(proxy_.connect_string(), {.session_timeout = std::chrono::seconds(30), .prefix = prefix}) {}

  zkclient::Client& client() { return client_; }

  /// What `action` returns. On its way the reply to a request of this kind is lost: the server has done what was asked.
  template <typename Action>
  auto lose_reply(zktesting::RequestType type, Action&& action) {
    const Expected expected(proxy_.drop_next_reply(type));
    return std::forward<Action>(action)();
  }
  /// The next event of a watch is lost, and the connection with it.
  zktesting::Fault lose_event() { return proxy_.drop_next_event(); }

 private:
  /// The fault has happened when the action ends, or the test fails.
  class Expected {
   public:
    explicit Expected(zktesting::Fault fault) : fault_(std::move(fault)) {}
    ~Expected() {
      EXPECT_TRUE(fault_.wait(patience)) << "no such reply came";
      fault_.cancel();
    }
    Expected(const Expected&) = delete;
    Expected& operator=(const Expected&) = delete;

   private:
    zktesting::Fault fault_;
  };

  zktesting::Proxy proxy_;
  zkclient::Client client_;
};

}  // namespace testkit
