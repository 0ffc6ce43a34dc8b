#include "storm/simulated/apart.hpp"

#include <execinfo.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "storm/simulated/seeds.hpp"

namespace storm {
namespace {

constexpr std::size_t most_said = 200;  // Lines.
constexpr int tell_where = SIGUSR2;     // To a world that stands still.
// What a world that waits may use: its watchdog looks at it from time to time.
constexpr std::chrono::milliseconds least_progress{10};
constexpr std::chrono::seconds longest_answer{10};
constexpr std::chrono::milliseconds between_looks{500};
constexpr char mark = '\x01';  // Begins a line of the report: others are what the world says on stderr.

/// The turns go from thread to thread twice as fast when no other processor has to be woken.
void stay_on_one_processor(int wanted) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  int chosen = ::sched_getcpu();
  if (wanted >= 0 && ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 0) {
    int skip = wanted % CPU_COUNT(&allowed);
    chosen = 0;
    while (!CPU_ISSET(chosen, &allowed) || skip-- > 0)
      ++chosen;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

std::string line(const char* what, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("{}{} {}\n", mark, what, text);
}

std::string report(const Outcome& outcome) {
  std::string text = line("world", outcome.world);
  for (const std::string& one : outcome.story)
    text += line("story", one);
  for (const std::string& fault : outcome.faults)
    text += line("fault", fault);
  for (const MadeTrouble& one : outcome.made)
    text += line("made", fmt::format("{} {}", one.number, static_cast<int>(one.kind)));
  text += line("trace", fmt::format("{} {}", outcome.trace, outcome.turns));
  return text + line("end", "");
}

void write_all(int to, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(to, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

void set_bound(std::chrono::seconds processor_time) {
  const auto seconds = static_cast<rlim_t>(processor_time.count());
  const rlimit limit{.rlim_cur = seconds, .rlim_max = seconds + 5};
  ::setrlimit(RLIMIT_CPU, &limit);
}

/// A signal for the process goes to its first thread, which is the world's driver.
void be_ready_to_tell_where() {
  static void* frames[64];
  ::backtrace(frames, 1);  // The first one loads a library.
  std::signal(tell_where, [](int) {
    ::backtrace_symbols_fd(frames, ::backtrace(frames, std::size(frames)), STDERR_FILENO);
    ::_exit(EXIT_FAILURE);
  });
}

/// True: this was its last line.
bool take_line(const std::string& what, const std::string& rest, Outcome& outcome) {
  std::istringstream words(rest);
  if (what == "world") outcome.world = rest;
  if (what == "story") outcome.story.push_back(rest);
  if (what == "fault") outcome.faults.push_back(rest);
  if (what == "trace") words >> outcome.trace >> outcome.turns;
  if (what == "made") {
    MadeTrouble one;
    int kind = 0;
    words >> one.number >> kind;
    one.kind = static_cast<Trouble>(kind);
    outcome.made.push_back(one);
  }
  return what == "end";
}

/// True: it is whole.
bool parse_report(const std::string& text, WorldResult& result) {
  bool whole = false;
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    const auto at = one.find(mark);
    if (at != 0 && !one.empty()) result.said.push_back(one.substr(0, at));
    if (at == std::string::npos) continue;
    const auto space = one.find(' ', at);
    if (space == std::string::npos) continue;
    whole = take_line(one.substr(at + 1, space - at - 1), one.substr(space + 1), result.outcome) || whole;
  }
  if (result.said.size() > most_said) {
    const auto half = static_cast<std::ptrdiff_t>(most_said / 2);
    result.said.erase(result.said.begin() + half, result.said.end() - half);
    result.said.insert(result.said.begin() + half, "...");
  }
  return whole;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("the process was ended by {} (signal {})", ::strsignal(WTERMSIG(status)), WTERMSIG(status));
  return fmt::format("the process ended itself (exit status {})", WEXITSTATUS(status));
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::well: return "well";
    case Verdict::judged: return "judged";
    case Verdict::crashed: return "crashed";
    case Verdict::out_of_time: return "out of time";
  }
  return "?";
}

bool WorldResult::same_as(const WorldResult& other) const {
  return verdict == other.verdict && outcome.faults == other.outcome.faults && outcome.story == other.outcome.story &&
         outcome.trace == other.outcome.trace && outcome.turns == other.outcome.turns;
}

std::string judgement(const std::string& fault) {
  constexpr int most_words = 6;
  std::istringstream words(fault);
  std::string found;
  std::string word;
  for (int i = 0; i < most_words && words >> word; ++i) {
    const bool colon = word.back() == ':';
    const bool name = std::any_of(word.begin(), word.end(), [](unsigned char letter) {
      return std::isdigit(letter) != 0 || letter == '/' || letter == '"';
    });
    found += (found.empty() ? "" : " ") + (name ? std::string("_") : word.substr(0, word.size() - (colon ? 1 : 0)));
    if (colon && !name) break;
  }
  return found;
}

Apart::Apart(const Play& play, const Workload& workload, const ScenarioOptions& options, const Bounds& bounds,
             int processor)
    : bounds_(bounds) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error(fmt::format("pipe: {}", std::strerror(errno)));
  std::fflush(nullptr);
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGINT, SIG_IGN);  // A terminal sends it to all; the world is to come to its end.
    std::signal(SIGTERM, SIG_DFL);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    set_bound(bounds_.processor_time);
    be_ready_to_tell_where();
    stay_on_one_processor(processor);
    const std::string text = report(play(workload, options));
    std::fflush(nullptr);
    write_all(STDERR_FILENO, text);
    ::_exit(0);
  }
  ::close(ends[1]);
  descriptor_ = ends[0];
}

Apart::~Apart() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

bool Apart::listen() {
  char buffer[65536];
  ssize_t size = 0;
  do {
    size = ::read(descriptor_, buffer, sizeof buffer);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return false;
  told_.append(buffer, static_cast<std::size_t>(size));
  return true;
}

std::chrono::nanoseconds Apart::processor_time() const {
  clockid_t clock = 0;
  timespec used{};
  if (::clock_getcpuclockid(child_, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return used_;
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

void Apart::look_at_the_clock() {
  const auto now = Clock::now();
  if (asked_) {
    if (now - *asked_ >= longest_answer) ::kill(child_, SIGKILL);
    return;
  }
  const auto used = processor_time();
  if (used - used_ >= least_progress) {
    used_ = used;
    went_on_ = now;
  }
  if (now - went_on_ < bounds_.standstill) return;
  asked_ = now;
  ::kill(child_, tell_where);
}

WorldResult Apart::result() {
  WorldResult result;
  int status = 0;
  rusage used{};
  while (::wait4(child_, &status, 0, &used) < 0 && errno == EINTR) {
  }
  child_ = -1;
  result.processor_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  const bool whole = parse_report(told_, result);
  if (whole && status == 0) {
    result.verdict = result.outcome.faults.empty() ? Verdict::well : Verdict::judged;
    return result;
  }
  const bool too_long = WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU;
  result.verdict = too_long || asked_ ? Verdict::out_of_time : Verdict::crashed;
  std::string fault = how_it_ended(status);
  if (too_long) fault = fmt::format("out of time: more than {} s of processor time", bounds_.processor_time.count());
  if (asked_) fault = fmt::format("out of time: stood still for {} s", bounds_.standstill.count());
  result.outcome.faults.push_back(fault);
  return result;
}

WorldResult play_apart(const Play& play, const Workload& workload, const ScenarioOptions& options,
                       const Bounds& bounds) {
  Apart apart(play, workload, options, bounds);
  pollfd world{.fd = apart.descriptor(), .events = POLLIN, .revents = 0};
  do {
    apart.look_at_the_clock();
    ::poll(&world, 1, static_cast<int>(between_looks.count()));
  } while (world.revents == 0 || apart.listen());
  return apart.result();
}

}  // namespace storm
