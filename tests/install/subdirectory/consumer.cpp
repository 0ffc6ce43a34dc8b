// A user's program that compiles, links and runs without a server. It needs the client alone, which is compiled in a
// quarter of the time of all libraries.
#include <iostream>
#include <zkclient/client.hpp>
#include <zkclient/path.hpp>

int main() {
  const zkclient::Path path("/services/x");
  const zkclient::Client client("127.0.0.1:1");
  std::cout << "consumer: " << path.str() << '\n';
}
