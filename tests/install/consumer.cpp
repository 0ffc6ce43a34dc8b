// A user's program: it compiles, links and runs without a server.
#include <iostream>
#include <zkclient/client.hpp>
#include <zkclient/path.hpp>
#include <zkrecipes/mutex.hpp>
#include <zktesting/server.hpp>

// Never called with more than the program name: links zktesting without starting a server.
static void start_server() { zktesting::Server server; }

int main(int argc, char**) {
  if (argc > 1) {
    start_server();
  }
  const zkclient::Path path("/locks/x");
  zkclient::Client client("127.0.0.1:1");
  const zkrecipes::Mutex mutex(client, path);
  std::cout << "consumer: " << path.str() << '\n';
}
