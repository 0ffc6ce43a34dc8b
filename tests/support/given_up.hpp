#pragma once

#include <chrono>

#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "tests/support/testkit.hpp"

namespace testkit {

/// The session of `client`, which is behind `proxy`, gets long to live at the server, whose connection to the client ends. No
/// new one comes about. So the client gives up a session that the server keeps, as one does that was restarted, however slow
/// the machine is.
inline void cut_off_and_keep_session(const zkclient::Client& client, zktesting::Proxy& proxy,
                                     const zktesting::Server& server) {
  const zkclient::Session session = client.connect({.deadline = soon()});
  proxy.refuse(true);
  zktesting::Proxy side(server.connect_string());
  const zkclient::Client keeper(side.connect_string(),
                                {.session_timeout = std::chrono::seconds(60), .resume = session.credentials()});
  EXPECT_EQ(keeper.connect({.deadline = soon()}).id(), session.id());
  side.refuse(true);  // It cannot close the session when it goes.
  side.cut();
}

}  // namespace testkit
