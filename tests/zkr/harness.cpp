#include "tests/zkr/harness.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/zkr/wire.hpp"
#include "tools/zkr/run/lease_page.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

std::vector<char*> argv_of(const Words& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words)
    pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Its standard output. A front lets it go, so the pipe is at its end when the command's tree is gone.
bool holds_our_pipe(pid_t front) {
  std::error_code gone;
  const auto target = std::filesystem::read_symlink("/proc/" + std::to_string(front) + "/fd/1", gone);
  return target.string().starts_with("pipe");
}

bool signal_pending(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("ShdPnd:")) return line.find_first_not_of("0", 8) != std::string::npos;
  }
  return false;
}

bool readable(int descriptor, bool wait) {
  pollfd polled{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, wait ? -1 : 0) == 1;
}

Duration nanoseconds_at(const Descriptor& page, std::size_t offset) {
  std::int64_t nanoseconds = 0;
  if (::pread(page.get(), &nanoseconds, sizeof nanoseconds, static_cast<off_t>(offset)) <= 0) return Duration::zero();
  return Duration(nanoseconds);
}

class EndWhatIsLeft : public testing::EmptyTestEventListener {
 public:
  EndWhatIsLeft() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  // Children of the program's own, such as servers, stay.
  void OnTestStart(const testing::TestInfo&) override { own_ = PinnedProcess(::getpid()).children(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    ProcessTree left;
    for (const pid_t child : own_)
      left.spare(child);
    do {
      if (test.result()->Failed()) left.kill();
    } while (reap_orphans() || (test.result()->Failed() && !left.empty()));
  }

 private:
  /// Whether there was one to be reaped.
  bool reap_orphans() const {
    bool any = false;
    for (const pid_t child : PinnedProcess(::getpid()).children()) {
      if (std::find(own_.begin(), own_.end(), child) == own_.end()) any = ::waitpid(child, nullptr, WNOHANG) > 0 || any;
    }
    return any;
  }

  std::vector<pid_t> own_;
};

}  // namespace

PipeEnds::PipeEnds() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  out = Descriptor(ends[0]);
  in = Descriptor(ends[1]);
}

void end_what_tests_leave() { testing::UnitTest::GetInstance()->listeners().Append(new EndWhatIsLeft); }

Folder::Folder() : path_(std::filesystem::temp_directory_path() / "zkr-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder");
}

Folder::~Folder() { std::filesystem::remove_all(path_); }

// ---- Lines -------------------------------------------------------------------------------------------------------

bool Lines::read_more(bool wait) {
  if (ended_ || !readable(source_.get(), wait)) return false;
  std::array<char, 65536> buffer{};
  const ssize_t size = ::read(source_.get(), buffer.data(), buffer.size());
  if (size <= 0) {
    ended_ = true;
    return false;
  }
  text_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

std::optional<std::string> Lines::next_line() {
  const std::size_t end = text_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  if (!line.starts_with("t ")) all_.push_back(line);
  if (line.starts_with("t ")) last_tick_ = Instant(Duration(std::stoll(line.substr(2))));
  return line;
}

std::optional<std::string> Lines::await(const std::string& beginning) {
  do {
    while (auto line = next_line()) {
      if (line->starts_with(beginning)) return line;
    }
  } while (read_more(true));
  return std::nullopt;
}

Words Lines::rest() {
  Words all;
  do {
    while (auto line = next_line()) {
      if (!line->starts_with("t ")) all.push_back(*line);
    }
  } while (read_more(true));
  return all;
}

bool Lines::ended_now() {
  while (read_more(false)) {
  }
  return ended_;
}

// ---- LeaseHand ---------------------------------------------------------------------------------------------------

LeaseHand::LeaseHand(const std::string& path) : listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 1) != 0)
    throw std::runtime_error("nowhere to listen: " + path);
}

pid_t LeaseHand::meet() {
  keeper_ = Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ucred peer{};
  socklen_t size = sizeof peer;
  ::getsockopt(keeper_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer.pid;
}

void LeaseHand::set(const Lease& lease) {
  last_ = lease;
  ::send(keeper_.get(), &lease, sizeof lease, MSG_NOSIGNAL);
}

bool LeaseHand::await_release() {
  char word = 0;
  return ::recv(keeper_.get(), &word, 1, 0) == 1;
}

bool LeaseHand::released_now() { return readable(keeper_.get(), false) && await_release(); }

void LeaseHand::confirm_release() {
  last_.state = LeaseState::gone;
  set(last_);
}

Lease long_lease() {
  Lease lease = lease_to_kill_at(BootClock::now() + 10h, 1s);
  lease.timeout = 40s;
  return lease;
}

Lease lease_to_kill_at(Instant instant, Duration margin, Duration doubt) {
  Lease lease;
  lease.state = LeaseState::held;
  lease.timeout = 120s;
  lease.granted_at = BootClock::now();
  lease.valid_until = instant + margin;
  // At a quarter of T after the proof, doubt begins.
  lease.proven_at = instant - doubt - lease.timeout / 4;
  lease.token = 17;
  return lease;
}

// ---- Rig ---------------------------------------------------------------------------------------------------------

Rig::Rig(const Words& command, const RigSetup& setup) : hand_(folder_ / "lease") {
  PipeEnds input;
  PipeEnds output;
  Words words{rig_program(), folder_ / "lease"};
  words.insert(words.end(), setup.options.begin(), setup.options.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  const std::vector<char*> argv = argv_of(words);
  if (setup.open_to_all) {
    std::filesystem::permissions(folder_ / "", std::filesystem::perms::all);
    std::filesystem::permissions(folder_ / "lease", std::filesystem::perms::all);
  }
  front_ = ::fork();
  if (front_ == 0) {
    forget_signal_state();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // A test that is killed leaves nothing either.
    ::dup2(input.out.get(), STDIN_FILENO);
    ::dup2(output.in.get(), STDOUT_FILENO);
    setup.before_exec();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  input_ = std::move(input.in);
  lines_ = Lines(std::move(output.out));
  keeper_ = hand_.meet();
  const pid_t front = PinnedProcess(keeper_).status().value().parent;  // Not `front_` if there is something between.
  await([front] { return !holds_our_pipe(front); });
  if (setup.grant) hand_.set(long_lease());
}

Rig::~Rig() {
  if (status_) return;
  ::kill(front_, SIGKILL);  // Of a test that has failed.
  ::waitpid(front_, nullptr, 0);
}

void Rig::signal(int signal) const { ::kill(front_, signal); }

void Rig::next_run(bool grant) {
  hand_.meet();
  if (grant) hand_.set(long_lease());
}

void Rig::type(const std::string& text) const {
  EXPECT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void Rig::expect_release_of_empty_tree() {
  EXPECT_TRUE(hand_.await_release());
  EXPECT_TRUE(lines_.ended_now()) << "something of the command runs after the release";
  hand_.confirm_release();
}

int Rig::await_end() {
  int status = 0;
  ::waitpid(front_, &status, 0);
  status_ = status;
  return status;
}

void forget_signal_state() {
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// ---- Words -------------------------------------------------------------------------------------------------------

Words puppet(const std::string& words) {
  Words all{PUPPET};
  std::istringstream source(words);
  for (std::string word; source >> word;)
    all.push_back(word);
  return all;
}

std::string rig_program() { return RIG; }

char state_of(pid_t process) {
  const auto status = PinnedProcess(process).status();
  return status ? status->state : 'X';
}

Descriptor page_of(pid_t front) {
  const std::string folder = "/proc/" + std::to_string(front) + "/fd";
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
    if (std::filesystem::read_symlink(entry, gone).string().find("zkr-lease") != std::string::npos)
      return Descriptor(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
  }
  return Descriptor();
}

Instant valid_until_on_page(const Descriptor& page) {
  return Instant(nanoseconds_at(page, offsetof(LeasePage::Content, valid_until)));
}

Instant valid_until_on_page(pid_t front) { return valid_until_on_page(page_of(front)); }

Duration timeout_on_page(const Descriptor& page) { return nanoseconds_at(page, offsetof(LeasePage::Content, timeout)); }

void await(const std::function<bool()>& condition) {
  const Instant broken = BootClock::now() + 10min;  // Ends a run that is broken.
  while (!condition()) {
    if (BootClock::now() > broken) throw std::runtime_error("it never comes");
    ::sched_yield();
  }
}

void await_signals_taken(pid_t process) {
  await([process] { return !signal_pending(process) && state_of(process) == 'S'; });
}

pid_t number_in(const std::string& line) { return std::stoi(line.substr(line.find(' ') + 1)); }

std::string exited(int code) { return "exit " + std::to_string(code); }
std::string killed_by(int signal) { return "signal " + std::to_string(signal); }
std::string told(int status) { return WIFEXITED(status) ? exited(WEXITSTATUS(status)) : killed_by(WTERMSIG(status)); }

}  // namespace zkr
