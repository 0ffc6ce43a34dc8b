// What g++ 12 must refuse: a lambda that owns something inside a co_await expression, with a sentence that says what to
// write, and a list in braces. HOW is what stands there.
#include <memory>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <zkclient/asio.hpp>

namespace asio = boost::asio;

asio::awaitable<void> watches(zkclient::Client client) {
  const auto owned = std::make_shared<int>(0);
#if HOW == 0  // Accepted everywhere.
  zkclient::WatchHandler on_event = [owned](const auto&) {};
  co_await zkclient::async_get_and_watch(client, "/", std::move(on_event), asio::use_awaitable);
#elif HOW == 1
  co_await zkclient::async_get_and_watch(
      client, "/", [owned](const auto&) {}, asio::use_awaitable);
#elif HOW == 2
  co_await zkclient::async_get_and_watch(
      client, "/", [owned](const auto&) {}, asio::deferred)(asio::use_awaitable);
#elif HOW == 3
  co_await zkclient::initiate<zkclient::NodeData>([owned](auto handler, const auto&) { handler(zkclient::NodeData()); },
                                                  {}, asio::use_awaitable);
#elif HOW == 4  // The compiler's own refusal.
  co_await zkclient::async_create(client, "/", "", {.acl = {{.permissions = 1, .scheme = "world", .id = "anyone"}}},
                                  asio::use_awaitable);
#endif
}
