#pragma once

#include <chrono>
#include <cstddef>

#include <zktesting/proxy.hpp>

#include "tests/support/testkit.hpp"

namespace testkit {

/// The session of `client`, which is behind `proxy`, gets long to live at the server, whose connection to the client ends. No
/// new one comes about. So the client gives up a session that the server keeps, as one does that was restarted, however slow
/// the machine is.
inline void cut_off_and_keep_session(const zkclient::Client& client, zktesting::Proxy& proxy,
                                     const FaultServer& server) {
  const zkclient::Session session = client.connect({.deadline = soon()});
  proxy.refuse(true);
  zktesting::Proxy side(server.connect_string());
  const zkclient::Client keeper(side.connect_string(),
                                {.session_timeout = std::chrono::seconds(60), .resume = session.credentials()});
  EXPECT_EQ(keeper.connect({.deadline = soon()}).id(), session.id());
  side.refuse(true);  // It cannot close the session when it goes.
  side.cut();
}

/// The client takes its session for lost, while the server keeps it, and its nodes. Afterwards the proxy refuses nobody.
/// How often the client came back: more than once, if it had given an attempt up before the forged answer came.
inline std::size_t lose_session(const zkclient::Client& client, zktesting::Proxy& proxy) {
  const zkclient::Session session = client.session();
  std::size_t attempts = 0;
  EXPECT_TRUE(eventually([&] {
    ++attempts;
    const zktesting::Fault forged = proxy.forge_next_session();
    proxy.cut();
    proxy.refuse(false);
    EXPECT_TRUE(forged.wait(patience));
    EXPECT_TRUE(eventually([&] { return session.state() != zkclient::ConnectionState::suspended; }));
    return session.state() == zkclient::ConnectionState::lost;
  }));
  EXPECT_TRUE(stopped(session.lost()));
  return attempts;
}

}  // namespace testkit
