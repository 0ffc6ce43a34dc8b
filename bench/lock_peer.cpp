#include "lock_peer.hpp"

#include <iostream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace bench {
namespace {

constexpr std::chrono::milliseconds patience{60'000};
/// For what takes as long as it takes.
constexpr std::chrono::milliseconds long_patience{600'000};

std::string line_of(const Outcome& outcome) {
  return fmt::format("done {} {} {} {} {} {}", outcome.sample.cycles, outcome.sample.wall.count(),
                     outcome.sample.cpu.count(), outcome.least, outcome.most, outcome.overlaps);
}

std::string obey(LockPeer& peer, const std::string& line) {
  std::istringstream in(line);
  std::string word;
  int first = 0;
  int second = 0;
  in >> word >> first >> second;
  if (word == "cycle") return line_of(peer.cycle(std::chrono::milliseconds(first)));
  if (word == "contend") return line_of(peer.contend(first, std::chrono::milliseconds(second)));
  if (word == "readers") return line_of(peer.readers(first, std::chrono::milliseconds(second)));
  if (word == "drain") return line_of(peer.drain());
  if (word != "queue") throw std::runtime_error("unknown command: " + line);
  peer.queue(first);
  return "queued";
}

}  // namespace

Outcome ChildLockPeer::ask(const std::string& command, std::chrono::milliseconds limit) {
  const std::string line = child_.ask(command, limit);
  std::istringstream in(line);
  std::string word;
  std::int64_t wall_us = 0;
  std::int64_t cpu_us = 0;
  Outcome outcome;
  in >> word >> outcome.sample.cycles >> wall_us >> cpu_us >> outcome.least >> outcome.most >> outcome.overlaps;
  if (!in || word != "done") throw std::runtime_error(command + ": " + line);
  outcome.sample.wall = std::chrono::microseconds(wall_us);
  outcome.sample.cpu = std::chrono::microseconds(cpu_us);
  return outcome;
}

Outcome ChildLockPeer::cycle(std::chrono::milliseconds duration) {
  return ask(fmt::format("cycle {}", duration.count()), duration + patience);
}

Outcome ChildLockPeer::contend(int contenders, std::chrono::milliseconds duration) {
  return ask(fmt::format("contend {} {}", contenders, duration.count()), duration + patience);
}

Outcome ChildLockPeer::readers(int contenders, std::chrono::milliseconds duration) {
  return ask(fmt::format("readers {} {}", contenders, duration.count()), duration + patience);
}

void ChildLockPeer::queue(int waiters) {
  const std::string line = child_.ask(fmt::format("queue {}", waiters), long_patience);
  if (line != "queued") throw std::runtime_error("queue: " + line);
}

Outcome ChildLockPeer::drain() { return ask("drain", long_patience); }

int lock_peer_main(int argc, char** argv, const MakeLockPeer& make) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " <host:port> <folder>\nlocks starts this program.\n";
    return 2;
  }
  try {
    const std::unique_ptr<LockPeer> peer = make(argv[1], argv[2]);
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line);)
      std::cout << obey(*peer, line) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << "error " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace bench
