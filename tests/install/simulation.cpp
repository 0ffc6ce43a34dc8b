// A user's test in the simulated world: two processes take turns at a lock of three servers.
#include <chrono>
#include <iostream>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>
#include <zktesting/simulation.hpp>

int main() {
  zktesting::Simulation world({.servers = 3});
  int turns = 0;
  const auto take_turn = [&turns](zktesting::SimulatedProcess& me) {
    const zkclient::Client client(me.servers());
    zkrecipes::Mutex mutex(client, "/locks/x");
    const zkrecipes::Lease lease = mutex.acquire();
    ++turns;
  };
  world.process("a", take_turn);
  world.process("b", take_turn);
  const bool done = world.run_until([&turns] { return turns == 2; }, std::chrono::minutes(1));
  std::cout << "simulation: " << turns << " turns\n";
  return done ? 0 : 1;
}
