// A user's program with the opt-in headers: it compiles, links and runs without a server.
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <iostream>
#include <zkclient/format.hpp>
#include <zkrecipes/asio.hpp>
#include <zkrecipes/format.hpp>

int main() {
  const zkclient::Client client("127.0.0.1:1");
  auto future =
      zkclient::async_get(client, "/config", {.deadline = std::chrono::steady_clock::now()}, boost::asio::use_future);
  try {
    future.get();
  } catch (const zkclient::Error& error) {
    std::cout << fmt::format("opt-in consumer: {}\n", error);
  }
}
