#include "worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <zkclient/client.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>

#include "protocol.hpp"
#include "store.hpp"
#include "unique_fd.hpp"

namespace tour {
namespace {

using namespace std::chrono_literals;

constexpr auto session_timeout = 3000ms;
constexpr auto reconnect_timeout = 20s;
constexpr auto hold_time = 250ms;  // The work that is done under the lock, for people to follow.
constexpr auto rest_time = 200ms;
constexpr auto retry_pause = 200ms;
constexpr auto loss_timeout = 15s;
constexpr int max_failures = 25;

using Reporter = std::function<void(const Event&)>;

void to_standard_output(const Event& event) {
  const auto line = to_line(event);
  // If nobody reads any more, the end of our input tells us.
  [[maybe_unused]] const auto ignored = ::write(STDOUT_FILENO, line.data(), line.size());
}

UniqueFd open_for_appending(const std::filesystem::path& file) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (fd.get() < 0) {
    throw std::system_error(errno, std::generic_category(), file.string());
  }
  return fd;
}

// Waits until the token fires; false if it did not within `time`.
bool wait_for(const std::stop_token& token, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, token, time, [] { return false; });
  return token.stop_requested();
}

// Waits until one of the tokens fires.
void wait_for_either(const std::stop_token& first, const std::stop_token& second) {
  std::mutex mutex;
  std::condition_variable_any changed;
  bool fired = false;
  const std::stop_callback on_second(second, [&] {
    const std::lock_guard guard(mutex);
    fired = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, first, [&] { return fired; });
}

class Worker {
 public:
  Worker(const WorkerOptions& options, Reporter report)
      : name_(options.name),
        report_(std::move(report)),
        store_(options.ledger),
        client_(options.connect_string, {.session_timeout = session_timeout}),
        mutex_(client_, zkclient::Path(options.prefix) / lock_node, {.id = name_}),
        election_(client_, zkclient::Path(options.prefix) / election_node, {.id = name_}) {}

  /// Does what its standard input says.
  int obey();
  /// Works, and does what signals say. They are blocked in all threads.
  int obey_signals(const sigset_t& signals);

 private:
  void start();
  void apply(Command command);
  int leave();
  [[noreturn]] void abandon();

  void take_turns(const std::stop_token& stop);
  void take_turn(const std::stop_token& stop);
  bool append(std::int64_t token);
  void lead(const std::stop_token& stop);

  void attempt(const std::stop_token& stop, const std::function<void()>& step);
  bool working();
  bool take_dwell_order();
  void await_word();

  const std::string name_;
  const Reporter report_;
  Store store_;
  zkclient::Client client_;
  zkrecipes::Mutex mutex_;
  zkrecipes::LeaderElection election_;
  std::int64_t entries_ = 0;

  std::mutex orders_mutex_;
  std::condition_variable_any orders_changed_;
  bool working_ = false;
  bool dwell_ = false;
  bool word_given_ = false;

  // Last, so that they end first.
  std::jthread turns_;
  std::jthread leading_;
};

// ---- The two jobs of a worker --------------------------------------------------------------------

void Worker::take_turn(const std::stop_token& stop) {
  report_({.kind = EventKind::queues});
  zkrecipes::Lease lease = mutex_.acquire({.deadline = {}, .stop = stop});
  const auto token = lease.token().value;
  report_({.kind = EventKind::holds, .token = token});

  wait_for(lease.lost(), hold_time);
  if (!lease.valid()) {
    report_({.kind = EventKind::lost, .token = token});
    return;
  }
  // The lease was valid at the line above. No process can know how long ago that is, at the line
  // below: it may be paused in between for as long as it pleases the machine. Hence the token.
  if (take_dwell_order()) {
    report_({.kind = EventKind::dwells, .token = token});
    await_word();
  }
  if (!append(token)) {
    wait_for(lease.lost(), loss_timeout);
  }
  if (lease.lost().stop_requested()) {
    report_({.kind = EventKind::lost, .token = token});
    return;
  }
  report_({.kind = EventKind::releases, .token = token});
  lease.release();
  report_({.kind = EventKind::released, .token = token});
}

bool Worker::append(std::int64_t token) {
  const Entry entry{.token = token, .worker = name_, .number = entries_ + 1};
  if (const auto highest = store_.append(entry)) {
    report_({.kind = EventKind::refused, .token = token, .number = *highest});
    return false;
  }
  entries_ = entry.number;
  report_({.kind = EventKind::wrote, .token = token, .number = entry.number});
  return true;
}

void Worker::lead(const std::stop_token& stop) {
  zkrecipes::Leadership leadership = election_.campaign({.deadline = {}, .stop = stop});
  const auto term = leadership.token().value;
  report_({.kind = EventKind::leads, .token = term});
  try {
    leadership.proclaim("follow " + name_);
    leadership.ready();
  } catch (const zkclient::Error&) {
    report_({.kind = EventKind::deposed, .token = term});
    throw;
  }
  wait_for_either(stop, leadership.lost());
  if (leadership.lost().stop_requested()) {
    report_({.kind = EventKind::deposed, .token = term});
    return;
  }
  report_({.kind = EventKind::resigned, .token = term});
  leadership.release();
}

void Worker::take_turns(const std::stop_token& stop) {
  attempt(stop, [&] {
    const auto session = client_.connect({.deadline = Clock::now() + reconnect_timeout, .stop = stop});
    report_({.kind = EventKind::joined, .number = session.timeout().count()});
  });
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(orders_mutex_);
      orders_changed_.wait(lock, stop, [this] { return working_; });
    }
    while (working() && !stop.stop_requested()) {
      attempt(stop, [&] { take_turn(stop); });
      wait_for(stop, rest_time);
    }
    report_({.kind = EventKind::rests});
  }
}

// Whatever went wrong is over by now, or will be: the recipes clean up after themselves. So try
// again, unless it is hopeless.
void Worker::attempt(const std::stop_token& stop, const std::function<void()>& step) {
  for (int failures = 0; !stop.stop_requested();) {
    try {
      step();
      return;
    } catch (const zkclient::Error& error) {
      if (stop.stop_requested()) {
        return;
      }
      const bool hopeless = ++failures >= max_failures || error.code() == zkclient::Errc::closed;
      report_({.kind = hopeless ? EventKind::fails : EventKind::retries, .text = error.what()});
    } catch (const std::exception& error) {
      report_({.kind = EventKind::fails, .text = error.what()});
      return;
    }
    wait_for(stop, retry_pause);
  }
}

// ---- Orders --------------------------------------------------------------------------------------

bool Worker::working() {
  const std::lock_guard guard(orders_mutex_);
  return working_;
}

bool Worker::take_dwell_order() {
  const std::lock_guard guard(orders_mutex_);
  return std::exchange(dwell_, false);
}

void Worker::await_word() {
  std::unique_lock lock(orders_mutex_);
  orders_changed_.wait(lock, [this] { return word_given_; });
  word_given_ = false;
}

void Worker::apply(Command command) {
  const std::lock_guard guard(orders_mutex_);
  working_ = command == Command::work || (working_ && command != Command::rest);
  dwell_ = dwell_ || command == Command::dwell;
  word_given_ = word_given_ || command == Command::write;
  orders_changed_.notify_all();
}

void Worker::start() {
  turns_ = std::jthread([this](const std::stop_token& stop) { take_turns(stop); });
  leading_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      attempt(stop, [&] { lead(stop); });
    }
  });
}

int Worker::obey() {
  start();
  LineBuffer lines;
  for (std::array<char, 256> buffer{};;) {
    const auto count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count == 0 || (count < 0 && errno != EINTR)) {
      abandon();
    }
    lines.append({buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))});
    while (const auto line = lines.next()) {
      const auto command = parse_command(*line);
      if (command == Command::leave) {
        return leave();
      }
      if (command) {
        apply(*command);
      }
    }
  }
}

int Worker::obey_signals(const sigset_t& signals) {
  start();
  apply(Command::work);
  for (int signal = 0;;) {
    ::sigwait(&signals, &signal);
    if (signal == SIGTERM || signal == SIGINT) {
      return leave();
    }
    apply(signal == SIGUSR1 ? Command::dwell : Command::write);
  }
}

int Worker::leave() {
  turns_.request_stop();
  leading_.request_stop();
  turns_.join();
  leading_.join();
  client_.close();
  report_({.kind = EventKind::left});
  return EXIT_SUCCESS;
}

// The director is gone without a word, so it could not clean up.
void Worker::abandon() {
  ::alarm(5);
  client_.close();
  std::error_code ignored;
  std::filesystem::remove(store_.file(), ignored);
  std::filesystem::remove(store_.file().parent_path(), ignored);  // if it is empty
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

int run_worker(const WorkerOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  // A paused process does not see the end of its input. Should the director die, the kernel wakes us.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  if (::getppid() != options.director) {
    return EXIT_FAILURE;
  }
  return Worker(options, to_standard_output).obey();
}

int run_player(const PlayerOptions& options) {
  // Before the first thread, which inherits it.
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&signals, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const auto ledger = options.stage / ledger_file;
  open_for_appending(ledger);
  const auto lines = open_for_appending(options.stage / lines_file);
  // One write each: the lines of all players are in the order in which they were written.
  const auto report = [&](const Event& event) {
    const auto line = fmt::format("{} {}", options.name, to_line(event));
    [[maybe_unused]] const auto ignored = ::write(lines.get(), line.data(), line.size());
    to_standard_output(event);
  };
  return Worker({.name = options.name,
                 .connect_string = options.connect_string,
                 .prefix = options.prefix,
                 .ledger = ledger},
                report)
      .obey_signals(signals);
}

}  // namespace tour
