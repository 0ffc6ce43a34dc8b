#pragma once

#include "tests/support/contention.hpp"

// The words that tests are written in: of the client, of zktesting, and of the test kit. A test has them by saying
// `using namespace testkit::words;` in its unnamed namespace. What it needs beyond them it names itself.
namespace testkit::words {

using namespace std::chrono_literals;

using testkit::Box;
using testkit::error_of;
using testkit::eventually;
using testkit::in_thread;
using testkit::patience;
using testkit::patient;
using testkit::result_of;
using testkit::soon;
using testkit::SteadyClock;
using testkit::stopped;

using zkclient::any_version;
using zkclient::BootClock;
using zkclient::CallOptions;
using zkclient::Client;
using zkclient::ClientOptions;
using zkclient::ConnectionState;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Session;
using zkclient::Stat;
using zkclient::Transaction;
using zkclient::WatchEvent;
using zkclient::WatchEventType;

using zktesting::Direction;
using zktesting::Fault;
using zktesting::RequestType;

}  // namespace testkit::words
