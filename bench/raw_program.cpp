#include "raw_program.hpp"

#include <poll.h>
#include <unistd.h>

#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace bench {
namespace {

constexpr int idle_ms = 200;

// The next line of the standard input; nothing at its end. Keeps the contender's session alive.
std::optional<std::string> next_line(Contender& contender) {
  std::string line;
  for (;;) {
    pollfd readable{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, idle_ms) == 0) {
      contender.keep_alive();
      continue;
    }
    char byte = 0;
    if (::read(STDIN_FILENO, &byte, 1) != 1) {
      return std::nullopt;
    }
    if (byte == '\n') {
      return line;
    }
    line.push_back(byte);
  }
}

}  // namespace

int raw_main(int argc, char** argv, const MakeContender& make) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " <host:port> <parent>\nlock_cycle starts this program.\n";
    return 2;
  }
  try {
    const std::unique_ptr<Contender> contender = make(argv[1], argv[2]);
    std::cout << "ready" << std::endl;
    while (const std::optional<std::string> line = next_line(*contender)) {
      std::istringstream in(*line);
      std::string word;
      std::int64_t duration_ms = 0;
      if (!(in >> word >> duration_ms) || word != "run") {
        throw std::runtime_error("unknown command: " + *line);
      }
      const Sample sample = contender->run(std::chrono::milliseconds(duration_ms));
      std::cout << "done " << sample.cycles << ' ' << sample.wall.count() << ' ' << sample.cpu.count() << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cout << "error " << error.what() << std::endl;
    return 1;
  }
}

void require_ok(int code, std::string_view call) {
  if (code != 0) {
    throw std::runtime_error(std::string(call) + " failed with code " + std::to_string(code));
  }
}

void require_alone(char* const* children, int count, std::string_view node) {
  if (count != 1 || !node.ends_with(children[0])) {
    throw std::runtime_error("another client is below the parent of " + std::string(node));
  }
}

}  // namespace bench
