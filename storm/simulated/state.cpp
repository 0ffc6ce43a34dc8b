#include "storm/simulated/state.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace storm {
namespace {

constexpr const char* heading = "simulated_storm state 1";

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3u;
  return hash;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw StateError(fmt::format("{} cannot be read", path));
  return text.str();
}

[[noreturn]] void fail(const std::string& path) {
  throw StateError(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
}

void write_through(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) fail(path);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 &&
                       ::fsync(::fileno(file)) == 0;
  if (std::fclose(file) != 0 || !written) fail(path);
}

/// Words of a line, one after the other.
class Words {
 public:
  explicit Words(const std::string& line) : words_(line) {}
  std::string next() {
    std::string word;
    if (!(words_ >> word)) throw std::invalid_argument("a line is too short");
    return word;
  }
  std::uint64_t number() { return parse_number(next()); }
  void expect(const std::string& wanted) {
    if (next() != wanted) throw std::invalid_argument("\"" + wanted + "\" is missing");
  }
  void end() {
    std::string more;
    if (words_ >> more) throw std::invalid_argument("a line is too long");
  }

 private:
  std::istringstream words_;
};

void parse_line(const std::string& line, State& state, Tally*& tally) {
  Words words(line);
  const std::string what = words.next();
  if (what == "workload") {
    tally = &state.workloads[words.next()];
  } else if (tally == nullptr) {
    throw std::invalid_argument("\"workload\" is missing");
  } else if (what == "seeds") {
    tally->seeds = SeedSet::parse(words.next());
  } else if (what == "failed") {
    tally->failed = SeedSet::parse(words.next());
  } else if (what == "milliseconds") {
    tally->milliseconds = words.number();
  } else if (what == "trouble") {
    TroubleCount& count = tally->troubles[words.next()];
    count.worlds = words.number();
    count.times = words.number();
  } else {
    throw std::invalid_argument("\"" + what + "\" is unknown");
  }
  words.end();
}

State parse_body(const std::string& body) {
  State state;
  std::istringstream lines(body);
  std::string line;
  std::getline(lines, line);  // The heading.
  const auto next = [&](const char* name) {
    std::getline(lines, line);
    Words words(line);
    words.expect(name);
    return words.next();
  };
  state.program = next("program");
  state.seconds = static_cast<int>(parse_number(next("seconds")));
  Tally* tally = nullptr;
  while (std::getline(lines, line))
    parse_line(line, state, tally);
  return state;
}

}  // namespace

void Tally::add(std::uint64_t seed, const WorldResult& result) {
  seeds.add(seed);
  if (result.failed()) failed.add(seed);
  milliseconds += static_cast<std::uint64_t>(std::lround(result.processor_seconds * 1000));
  std::set<Trouble> seen;
  for (const MadeTrouble& one : result.outcome.made) {
    TroubleCount& count = troubles[to_string(one.kind)];
    ++count.times;
    if (seen.insert(one.kind).second) ++count.worlds;
  }
}

std::string to_text(const State& state) {
  std::string text = fmt::format("{}\nprogram {}\nseconds {}\n", heading, state.program, state.seconds);
  for (const auto& [name, tally] : state.workloads) {
    text += fmt::format("workload {}\nseeds {}\nfailed {}\nmilliseconds {}\n", name, tally.seeds.text(),
                        tally.failed.text(), tally.milliseconds);
    for (const auto& [kind, count] : tally.troubles)
      text += fmt::format("trouble {} {} {}\n", kind, count.worlds, count.times);
  }
  return text + fmt::format("end {:016x}\n", hash_of(text));
}

State parse_state(const std::string& text) {
  if (text.rfind(std::string(heading) + "\n", 0) != 0) throw StateError("is not a state of simulated_storm");
  const auto end = text.rfind("end ");
  if (end == std::string::npos || text[end - 1] != '\n' ||
      text.substr(end) != fmt::format("end {:016x}\n", hash_of(text.substr(0, end))))
    throw StateError("is torn, or was changed by hand: its last line does not fit");
  try {
    return parse_body(text.substr(0, end));
  } catch (const std::invalid_argument& error) {
    throw StateError(fmt::format("is no state that this program knows: {}", error.what()));
  }
}

std::optional<State> load_state(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  try {
    return parse_state(text);
  } catch (const StateError& error) {
    throw StateError(fmt::format("{} {}", path, error.what()));
  }
}

std::string identity_of_this_program() { return fmt::format("{:016x}", hash_of(read_file("/proc/self/exe"))); }

StateFile::StateFile(std::string path) : path_(std::move(path)) {
  const std::string name = path_ + ".lock";
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail(name);
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(lock_);
  throw StateError(fmt::format("{} is in use by another run", path_));
}

StateFile::~StateFile() { ::close(lock_); }

State StateFile::load_for(const std::string& program, int seconds) const {
  const auto found = load_state(path_);
  if (!found) return {.program = program, .seconds = seconds, .workloads = {}};
  if (found->program != program)
    throw StateError(
        fmt::format("{} is of another build of this program ({}, and this one is {}): its worlds were "
                    "others. Name a new file",
                    path_, found->program, program));
  if (found->seconds != seconds)
    throw StateError(
        fmt::format("{} is of worlds with --seconds {}, not {}. Name a new file", path_, found->seconds, seconds));
  return *found;
}

void StateFile::save(const State& state) const {
  const std::string fresh = path_ + ".new";
  write_through(fresh, to_text(state));
  if (std::rename(fresh.c_str(), path_.c_str()) != 0) fail(path_);
  auto folder = std::filesystem::path(path_).parent_path();
  if (folder.empty()) folder = ".";
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  ::fsync(opened);
  ::close(opened);
}

}  // namespace storm
