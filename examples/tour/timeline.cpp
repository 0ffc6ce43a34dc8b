#include "timeline.hpp"

#include <fmt/format.h>
#include <langinfo.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace tour {
namespace {

constexpr std::size_t width = 100;
constexpr std::size_t columns_before_text = 7 + 2;  // the time; a cell takes 6

struct Symbols {
  std::string_view leads;
  std::string_view waits;
  std::string_view holds;
  std::string_view paused;
  std::string_view dead;
  std::string_view rule;
};

constexpr Symbols unicode_symbols{"★", "·", "●", "‖", "✗", "─"};
constexpr Symbols ascii_symbols{"*", ".", "#", "=", "x", "-"};

const Symbols& symbols(const Look& look) { return look.unicode ? unicode_symbols : ascii_symbols; }

std::string_view escape(Tone tone) {
  switch (tone) {
    case Tone::plain: return "";
    case Tone::quiet: return "\x1b[90m";
    case Tone::strong: return "\x1b[1m";
    case Tone::leader: return "\x1b[1;33m";
    case Tone::holder: return "\x1b[1;37;42m";
    case Tone::bad: return "\x1b[1;31m";
    case Tone::good: return "\x1b[1;32m";
    case Tone::director: return "\x1b[1;36m";
  }
  return "";
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

void print(std::string_view text) {
  fmt::print("{}\n", text);
  if (std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot write the output");
  }
}

}  // namespace

Look Look::detect() {
  Look look;
  std::setlocale(LC_CTYPE, "");
  look.unicode = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  look.colour = ::isatty(STDOUT_FILENO) == 1 && !dumb && !is_set("NO_COLOR");
  if (is_set("FORCE_COLOR") && std::string_view(std::getenv("FORCE_COLOR")) != "0") {
    look.colour = true;
  }
  return look;
}

Timeline::Timeline(const std::vector<std::string>& names, Look look) : look_(look) {
  for (const auto& name : names) {
    lanes_.push_back({.name = name});
  }
}

std::string Timeline::paint(std::string_view text, Tone tone) const {
  if (!look_.colour || tone == Tone::plain || text.empty()) {
    return std::string(text);
  }
  return fmt::format("{}{}\x1b[0m", escape(tone), text);
}

void Timeline::line(std::string_view text, Tone tone) const { print(paint(text, tone)); }

void Timeline::legend() const {
  const auto& signs = symbols(look_);
  print(fmt::format("  {}  {} leads   {} holds the lock   {} waits for it   {} paused   {} killed",
                    paint("signs ", Tone::quiet), paint(signs.leads, Tone::leader),
                    paint(fmt::format(" {} ", signs.holds), Tone::holder), signs.waits, paint(signs.paused, Tone::bad),
                    paint(signs.dead, Tone::bad)));
}

void Timeline::act(std::string_view title, const std::vector<std::string>& explanation) const {
  std::string rule;
  for (std::size_t column = title.size() + 4; column < width; ++column) {
    rule += symbols(look_).rule;
  }
  const auto dash = symbols(look_).rule;
  print("");
  print(fmt::format("{}{} {} {}", paint(dash, Tone::quiet), paint(dash, Tone::quiet), paint(title, Tone::strong),
                    paint(rule, Tone::quiet)));
  for (const auto& text : explanation) {
    print("   " + text);
  }
  print("");
}

void Timeline::heads() const {
  std::string heads = fmt::format("{:>{}}  ", "ms", columns_before_text - 2);
  for (const auto& lane : lanes_) {
    heads += fmt::format(" {:<5}", lane.name);
  }
  heads.erase(heads.find_last_not_of(' ') + 1);
  print(paint(heads, Tone::quiet));
}

// Six columns: the leader's sign, and in the middle of the next three what it does.
std::string Timeline::cell(const Lane& lane) const {
  const auto& signs = symbols(look_);
  std::string_view sign = " ";
  Tone tone = Tone::plain;
  if (lane.health == Lane::Health::dead) {
    sign = signs.dead;
    tone = Tone::bad;
  } else if (lane.health == Lane::Health::paused) {
    sign = signs.paused;
    tone = Tone::bad;
  } else if (lane.lock == Lane::Lock::holds) {
    sign = signs.holds;
    tone = Tone::holder;
  } else if (lane.lock == Lane::Lock::waits) {
    sign = signs.waits;
  }
  return fmt::format(" {}{} ", lane.leads ? paint(signs.leads, Tone::leader) : " ",
                     paint(fmt::format(" {} ", sign), tone));
}

void Timeline::row(Clock::time_point at, std::string_view text, Tone tone) const {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(at - start_).count();
  std::string line = fmt::format("{:>{}}  ", ms, columns_before_text - 2);
  for (const auto& lane : lanes_) {
    line += cell(lane);
  }
  const std::size_t room = width - columns_before_text - 6 * lanes_.size() - 1;
  print(fmt::format("{} {}", line, paint(text.substr(0, room), tone)));
}

void Timeline::check(bool passed, std::string_view text) const {
  const auto mark = passed ? paint("[ ok ]", Tone::good) : paint("[FAIL]", Tone::bad);
  print(fmt::format("  {} {}", mark, text));
}

}  // namespace tour
