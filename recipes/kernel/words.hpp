#pragma once

#include "zkclient/detail/recipe_api.hpp"

// The client's words that recipes are written in. A recipe's header or source, which is in zkrecipes::detail, has them by
// including this; a source in zkrecipes says `using namespace words;` first. What a source needs beyond them it names itself.
namespace zkrecipes::words {

namespace zk = zkclient::detail;

using zk::Awaitable;
using zk::Call;
using zk::CallForm;
using zk::OpType;
using zk::PendingReply;
using zk::Reply;
using zk::Request;
using zk::SessionState;

using zkclient::any_version;
using zkclient::BootClock;
using zkclient::CallOptions;
using zkclient::Check;
using zkclient::ConnectionState;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;
using zkclient::WatchEventType;

}  // namespace zkrecipes::words

namespace zkrecipes::detail {

using namespace words;

}  // namespace zkrecipes::detail
