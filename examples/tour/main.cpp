// The tour of the README: five processes elect a leader and take turns under a lock, one is killed,
// one is paused; see director.cpp for the acts. Started as "tour worker ...", it is one of the five. In containers,
// scripts/demo_containers.sh directs five "tour player ...", and "tour judge ..." judges them.

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "director.hpp"
#include "judge.hpp"
#include "worker.hpp"

namespace {

constexpr std::string_view help = R"(Usage: tour [--color | --no-color] [--ascii]

Five processes elect a leader and take turns under a lock on a real ZooKeeper: a show of about 25 s
of what the recipes do when processes die or are paused. Exit code 0 if all was as it should be.

  --color, --no-color  colours; default: if the output is a terminal (NO_COLOR, FORCE_COLOR)
  --ascii              plain characters; default: if the locale is not a UTF-8 one

ZKRECIPES_SERVER=host:port[,host:port...]  use this ZooKeeper instead of starting one
)";

constexpr unsigned watchdog_seconds = 150;

// The last resort, should something block that never should. The workers and our server end by
// themselves when this process is gone.
extern "C" void on_watchdog(int) {
  constexpr std::string_view text = "tour: gave up: it takes far too long\n";
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
  std::_Exit(EXIT_FAILURE);
}

int be_worker(const std::vector<std::string_view>& words) {
  if (words.size() != 6) {
    fmt::print(stderr, "tour: \"worker\" is for the tour's own use\n");
    return EXIT_FAILURE;
  }
  int director = 0;
  std::from_chars(words[5].data(), words[5].data() + words[5].size(), director);
  return tour::run_worker({.name = std::string(words[1]),
                           .connect_string = std::string(words[2]),
                           .prefix = std::string(words[3]),
                           .ledger = words[4],
                           .director = director});
}

int be_player(const std::vector<std::string_view>& words) {
  if (words.size() != 5) {
    fmt::print(stderr, "Usage: tour player NAME HOST:PORT[,HOST:PORT...] ZNODE FOLDER\n");
    return 2;
  }
  return tour::run_player({.name = std::string(words[1]),
                           .connect_string = std::string(words[2]),
                           .prefix = std::string(words[3]),
                           .stage = words[4]});
}

int be_judge(const std::vector<std::string_view>& words) {
  if (words.size() < 2) {
    fmt::print(stderr, "Usage: tour judge FOLDER [NAME OF A PAUSED PLAYER...]\n");
    return 2;
  }
  return tour::judge(words[1], {words.begin() + 2, words.end()}, tour::Look::detect());
}

int give_tour(const std::vector<std::string_view>& words) {
  auto look = tour::Look::detect();
  for (const auto word : words) {
    if (word == "--color" || word == "--no-color") {
      look.colour = word == "--color";
    } else if (word == "--ascii") {
      look.unicode = false;
    } else if (word == "--help" || word == "-h") {
      fmt::print("{}", help);
      return EXIT_SUCCESS;
    } else {
      fmt::print(stderr, "tour: unknown argument \"{}\"; see --help\n", word);
      return 2;
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGALRM, on_watchdog);
  ::alarm(watchdog_seconds);
  const tour::SignalWatch signals;
  try {
    tour::Stage stage;
    signals.check();
    return tour::Director(signals, stage, look).play() ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const tour::Interrupted& interrupted) {
    fmt::print(stderr, "\ntour: interrupted\n");
    return 128 + interrupted.signal;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  try {
    const auto role = words.empty() ? std::string_view() : words[0];
    if (role == "worker") return be_worker(words);
    if (role == "player") return be_player(words);
    if (role == "judge") return be_judge(words);
    return give_tour(words);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tour: FAILED: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
