// A user's program that asks for a guardian: the library has to find zkrecipes-guardian, where a package put it.
#include <iostream>
#include <zkclient/client.hpp>
#include <zkrecipes/guardian.hpp>

int main() {
  const zkclient::Client client("127.0.0.1:1");
  try {
    const zkrecipes::Guardian guardian(client, "127.0.0.1:1");
    std::cout << "guardian: process " << guardian.process_id() << '\n';
    return 0;
  } catch (const zkclient::Error& error) {
    std::cout << "guardian: " << error.what() << '\n';
    return 1;
  }
}
