// Processes that are paused and killed. The workers are this same program, started with "--worker".

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/words.hpp"

extern char** environ;

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::Holding;

// CLOCK_MONOTONIC is one and the same for all processes.
std::int64_t nanoseconds(SteadyClock::time_point time) { return time.time_since_epoch() / 1ns; }
SteadyClock::time_point at(std::int64_t nanoseconds_since_boot) {
  return SteadyClock::time_point(std::chrono::nanoseconds(nanoseconds_since_boot));
}

// --- The worker ---------------------------------------------------------------------------------------------------
//
// It gets its orders on standard input, a line each, and reports on standard output, a line each. It ends with its
// standard input.

template <typename... Words>
void report(const Words&... words) {
  std::ostringstream line;
  ((line << words << ' '), ...);
  line << '\n';
  const std::string text = line.str();
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
}

/// Waits for a line of orders; false at the end of the input.
bool next_order(std::string& order) { return static_cast<bool>(std::getline(std::cin, order)); }

/// Looks at the lease again and again. When it is found not to be valid any more: reports when it was so last.
class Watchman {
 public:
  explicit Watchman(const Lease& lease)
      : thread_([&lease](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock(mutex);
          SteadyClock::time_point last{};  // Never yet: the process may be paused before the first look.
          while (!stop.stop_requested()) {
            const SteadyClock::time_point now = SteadyClock::now();
            if (!lease.valid()) {
              report("invalid", nanoseconds(last));
              return;
            }
            last = now;
            never.wait_for(lock, stop, 500us, [] { return false; });
          }
        }) {}

 private:
  std::jthread thread_;
};

/// Holds one lease, of a mutex or of an election, and does what it is told.
int hold_one(const std::string& kind, const std::string& hosts, std::chrono::milliseconds session_timeout) {
  const Client client(hosts, {.session_timeout = session_timeout, .server_tick = testkit::server_tick});
  Mutex mutex(client, "/lock");
  LeaderElection election(client, "/election", {.id = "worker"});
  Lease lease;
  Leadership leadership;
  if (kind == "mutex") {
    lease = mutex.acquire();
  } else {
    leadership = election.campaign();
    leadership.proclaim("of the worker");
  }
  Lease& mine = kind == "mutex" ? lease : leadership;
  report("acquired", mine.token().value, nanoseconds(SteadyClock::now()));
  const std::stop_callback told(mine.lost(), [] { report("lost", nanoseconds(SteadyClock::now())); });
  const zkclient::Check guard = mine.guard();
  {
    const Watchman watchman(mine);
    for (std::string order; next_order(order);) {
      if (order == "state") {
        report("state", to_string(mine.state()), mine.valid(), to_string(mine.session()->state()));
      } else if (order == "write") {
        std::error_code error;
        client.commit(Transaction().set("/data", "of the worker").check(guard), {.deadline = soon()}, error);
        report("wrote", error ? error.value() : 0);
      } else if (order == "token") {
        report("token", mine.token().value);
      } else if (order == "proclaim") {
        std::string outcome = "done";
        try {
          leadership.proclaim("late", {.deadline = soon()});
        } catch (const zkclient::Error& error) {
          outcome = error.errc() == Errc::not_held ? "not_held" : "other";
        }
        report("proclaimed", outcome);
      } else if (order == "again") {
        Lease next = mutex.acquire({.deadline = soon()});
        report("acquired", next.token().value, nanoseconds(SteadyClock::now()));
        std::error_code error;
        next.release({.deadline = soon()}, error);
      } else if (order == "release") {
        std::error_code error;
        mine.release({.deadline = soon()}, error);
        report("released", error ? error.value() : 0);
      }
    }
  }
  return EXIT_SUCCESS;
}

constexpr int semaphore_limit = 2;

/// Acquires, holds for a while, releases, until its input ends; reports each holding.
int contend(const std::string& kind, const std::string& hosts, std::chrono::milliseconds session_timeout,
            unsigned seed) {
  std::minstd_rand random(seed);
  const Client client(hosts, {.session_timeout = session_timeout, .server_tick = testkit::server_tick});
  Mutex mutex(client, "/lock");
  UnfairMutex unfair(client, "/lock");
  Semaphore semaphore(client, "/lock", semaphore_limit);
  const auto acquire = [&] {
    const zkclient::CallOptions call{.deadline = soon()};
    if (kind == "unfair") return unfair.acquire(call);
    if (kind == "semaphore") return semaphore.acquire(call);
    return mutex.acquire(call);
  };
  const auto wanted = [] {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, 0) == 0;
  };
  while (wanted()) {
    try {
      Lease lease = acquire();
      const auto acquired = SteadyClock::now();
      if (!lease.valid()) continue;
      report("acquired", lease.token().value, nanoseconds(acquired));
      SteadyClock::time_point last = acquired;
      // Who has to wait for a turn to take one of several comes a while after the one before.
      const auto longest = kind == "semaphore" ? 200'000U : 20'000U;
      const auto end = acquired + std::chrono::microseconds(random() % longest);
      do {
        const SteadyClock::time_point now = SteadyClock::now();
        if (!lease.valid()) break;
        last = now;
        std::this_thread::yield();
      } while (SteadyClock::now() < end);
      std::error_code error;
      // Reported before the release: afterwards the next one may have it already.
      report("held", lease.token().value, nanoseconds(acquired), nanoseconds(last));
      lease.release({.deadline = soon()}, error);
    } catch (const zkclient::Error& error) {
      // Or answers came too late for a session that short.
      const bool expected = error.errc() == Errc::session_lost || error.errc() == Errc::connection_too_slow;
      if (!expected) report("failed", error.what());
    }
  }
  return EXIT_SUCCESS;
}

int run_worker(const std::vector<std::string>& arguments) {
  try {
    const std::chrono::milliseconds timeout(std::stol(arguments.at(2)));
    if (arguments[0] == "contend") {
      return contend(arguments.at(4), arguments[1], timeout, static_cast<unsigned>(std::stoul(arguments.at(3))));
    }
    return hold_one(arguments[0], arguments[1], timeout);
  } catch (const std::exception& error) {
    report("failed", error.what());
    return EXIT_FAILURE;
  }
}

// --- The worker as seen by a test ---------------------------------------------------------------------------------

class Worker {
 public:
  explicit Worker(const std::vector<std::string>& arguments) {
    std::array<int, 2> to_worker{};
    std::array<int, 2> from_worker{};
    if (::pipe2(to_worker.data(), O_CLOEXEC) != 0 || ::pipe2(from_worker.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe");
    }
    std::string self = "/proc/self/exe";
    std::string flag = "--worker";
    std::vector<std::string> copies = arguments;
    std::vector<char*> argv{self.data(), flag.data()};
    for (std::string& copy : copies)
      argv.push_back(copy.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to_worker[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, from_worker[1], STDOUT_FILENO);
    const int error = ::posix_spawn(&pid_, self.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(to_worker[0]);
    ::close(from_worker[1]);
    orders_ = to_worker[1];
    reports_ = from_worker[0];
    if (error != 0) throw std::runtime_error("the worker does not start");
    reader_ = std::thread([this] { read(); });
  }
  ~Worker() {
    kill();
    if (orders_ != -1) ::close(orders_);
    ::close(reports_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void pause() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  void resume() const { ::kill(pid_, SIGCONT); }
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  /// Ends its input and waits until it has ended; its exit code.
  int finish() {
    ::close(orders_);
    orders_ = -1;
    return wait();
  }
  void order(const std::string& what) const {
    const std::string line = what + "\n";
    EXPECT_EQ(::write(orders_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  /// The next report that begins with this word; the words after it. Others may come before or after.
  std::vector<std::string> hear(const std::string& word) {
    std::unique_lock lock(mutex_);
    std::vector<std::string> found;
    const auto heard = [&] {
      for (auto line = lines_.begin(); line != lines_.end(); ++line) {
        if (line->front() != word) continue;
        found.assign(line->begin() + 1, line->end());
        lines_.erase(line);
        return true;
      }
      return false;
    };
    if (!changed_.wait_for(lock, patience, heard)) throw std::runtime_error("the worker does not say: " + word);
    return found;
  }
  std::int64_t hear_number(const std::string& word, std::size_t index = 0) { return std::stoll(hear(word).at(index)); }
  bool has_said(const std::string& word) {
    const std::lock_guard lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) { return line.front() == word; });
  }
  /// All that it reported and nobody took.
  std::vector<std::vector<std::string>> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  /// Until it has ended and all that it said has been heard.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    reader_.join();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void read() {
    std::string pending;
    std::array<char, 4096> buffer{};
    for (;;) {
      const ssize_t count = ::read(reports_, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      pending.append(buffer.data(), static_cast<std::size_t>(count));
      for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
        std::istringstream words(pending.substr(0, end));
        pending.erase(0, end + 1);
        std::vector<std::string> line;
        for (std::string word; words >> word;)
          line.push_back(word);
        if (line.empty()) continue;
        const std::lock_guard lock(mutex_);
        lines_.push_back(std::move(line));
        changed_.notify_all();
      }
    }
  }

  pid_t pid_ = 0;
  int orders_ = -1;
  int reports_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::string>> lines_;
  std::thread reader_;
};

/// What a lock protects: it keeps the highest token it has seen, and refuses lower ones.
class FencedStore {
 public:
  bool put(std::int64_t token) {
    if (token < highest_) return false;
    highest_ = token;
    return true;
  }

 private:
  std::int64_t highest_ = 0;
};

class ProcessFaults : public testkit::FaultTest {
 protected:
  static constexpr const char* brief_session = "8000";
  static constexpr const char* calm_session = "30000";

  ProcessFaults() { client_.create("/data", "0"); }

  Client& client() { return client_; }
  std::vector<std::string> arguments(const std::string& kind, const char* timeout = brief_session) const {
    return {kind, server.connect_string(), timeout};
  }
  bool remain(const Path& path, std::size_t count) {
    return eventually([&] {
      std::error_code error;
      return client_.children(path, {}, error).names.size() == count;
    });
  }

 private:
  Client client_{server.connect_string(), {.session_timeout = 30s}};
};

// With a process that cannot notice anything: what protects is the token and the guard; and the process itself
// finds out with its first look.
TEST_F(ProcessFaults, HolderPausedPastItsSession) {
  FencedStore store;
  Worker worker(arguments("mutex"));
  const std::int64_t token = worker.hear_number("acquired");
  EXPECT_TRUE(store.put(token));
  worker.order("write");
  EXPECT_EQ(worker.hear_number("wrote"), 0);
  EXPECT_EQ(client().get("/data").data, "of the worker");
  worker.pause();

  Mutex mutex(client(), "/lock");
  Lease lease = mutex.acquire({.deadline = soon()});
  const auto acquired = SteadyClock::now();
  EXPECT_GT(lease.token().value, token);
  EXPECT_TRUE(store.put(lease.token().value));
  client().commit(Transaction().set("/data", "of the next").check(lease.guard()));
  EXPECT_FALSE(worker.has_said("lost"));

  worker.order("write");  // It lies there until the process goes on: its first deed is the late write.
  worker.resume();
  // Refused, or sent on a connection that the server had given up: then nobody answers. It has no effect either way.
  const auto wrote = static_cast<Errc>(worker.hear_number("wrote"));
  EXPECT_TRUE(wrote == Errc::session_lost || wrote == Errc::in_doubt) << static_cast<int>(wrote);
  EXPECT_EQ(client().get("/data").data, "of the next");
  EXPECT_LT(at(worker.hear_number("invalid")), acquired) << "its first look found the lease invalid";
  (void)worker.hear("lost");
  worker.order("state");
  const auto state = worker.hear("state");
  EXPECT_EQ(state.at(0), "lost");
  EXPECT_EQ(state.at(1), "0");
  worker.order("token");
  EXPECT_FALSE(store.put(worker.hear_number("token"))) << "its token is stale";
  worker.order("release");
  EXPECT_EQ(worker.hear_number("released"), static_cast<int>(Errc::not_held));
  EXPECT_TRUE(lease.valid()) << "and its release harms nobody";

  worker.order("again");
  ASSERT_TRUE(remain("/lock", 2));
  lease.release();
  EXPECT_GT(worker.hear_number("acquired"), lease.token().value);
  EXPECT_EQ(worker.finish(), EXIT_SUCCESS);
  EXPECT_TRUE(remain("/lock", 0));
}

// Paused for less than its session: nothing is lost at the server, but the process must not go by that. What it says
// after the pause has to be true.
TEST_F(ProcessFaults, HolderPausedForAMoment) {
  Worker worker(arguments("mutex", calm_session));
  const std::int64_t token = worker.hear_number("acquired");
  Mutex mutex(client(), "/lock");
  int held = 0;
  for (int i = 0; i < 3; ++i) {
    worker.pause();
    EXPECT_FALSE(mutex.try_acquire());
    worker.resume();
    worker.order("state");
    if (worker.hear("state").at(1) == "1") {
      const auto contenders = mutex.contenders();
      ASSERT_FALSE(contenders.empty());
      EXPECT_EQ(contenders.front().token.value, token) << "it says that it holds";
      ++held;
    }
  }
  EXPECT_GT(held, 0);
}

TEST_F(ProcessFaults, HolderKilled) {
  auto worker = std::make_unique<Worker>(arguments("mutex"));
  const std::int64_t token = worker->hear_number("acquired");
  Mutex mutex(client(), "/lock");
  EXPECT_FALSE(mutex.try_acquire());
  worker->kill();
  const Lease lease = mutex.acquire({.deadline = soon()});
  EXPECT_GT(lease.token().value, token);
  EXPECT_TRUE(remain("/lock", 1));
}

TEST_F(ProcessFaults, WaiterKilled) {
  Mutex mutex(client(), "/lock");
  Lease lease = mutex.acquire();
  Worker waiter(arguments("mutex"));
  ASSERT_TRUE(remain("/lock", 2));
  Client last_client(server.connect_string(), {.session_timeout = 30s});
  Mutex last(last_client, "/lock");
  auto waiting = testkit::in_thread([&] { return last.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain("/lock", 3));
  waiter.kill();
  ASSERT_TRUE(remain("/lock", 2));
  EXPECT_TRUE(lease.valid());
  EXPECT_NE(waiting.wait_for(0ms), std::future_status::ready) << "its follower is not promoted";
  lease.release();
  EXPECT_TRUE(testkit::result_of(waiting).valid());
}

TEST_F(ProcessFaults, LeaderKilled) {
  Worker worker(arguments("election"));
  const std::int64_t term = worker.hear_number("acquired");
  LeaderElection election(client(), "/election", {.id = "next"});
  EXPECT_EQ(election.leader()->id, "worker");
  EXPECT_EQ(election.leader()->value, "of the worker");
  worker.kill();
  const Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_GT(leadership.token().value, term);
  EXPECT_EQ(election.leader()->id, "next");
  EXPECT_FALSE(election.leader()->value);
}

// Two leaders' functions never run at once, as far as that can be helped: the paused one is told to stop before it
// does anything else.
TEST_F(ProcessFaults, LeaderPausedPastItsSession) {
  Worker worker(arguments("election"));
  const std::int64_t term = worker.hear_number("acquired");
  worker.pause();
  LeaderElection election(client(), "/election", {.id = "next"});
  Leadership leadership = election.campaign({.deadline = soon()});
  const auto acquired = SteadyClock::now();
  EXPECT_GT(leadership.token().value, term);
  leadership.proclaim("of the next");
  worker.order("proclaim");
  worker.resume();
  EXPECT_EQ(worker.hear("proclaimed").at(0), "not_held");
  EXPECT_LT(at(worker.hear_number("invalid")), acquired) << "its first look found the leadership invalid";
  (void)worker.hear("lost");
  EXPECT_EQ(election.leader()->value, "of the next");
  worker.order("state");
  EXPECT_EQ(worker.hear("state").at(0), "lost");
  EXPECT_EQ(worker.finish(), EXIT_SUCCESS);
  EXPECT_TRUE(remain("/election", 1));
}

/// Who held, by token.
using HoldingsByToken = std::map<std::int64_t, Holding>;

/// Processes that contend for a lock of this kind at "/lock", and are killed again and again.
class CrewFaults : public ProcessFaults {
 protected:
  /// Until `proven`, at least.
  HoldingsByToken contend_and_kill(
      const std::string& kind,
      const std::function<bool(const HoldingsByToken&)>& proven = [](const auto&) { return true; });
};

HoldingsByToken CrewFaults::contend_and_kill(const std::string& kind,
                                             const std::function<bool(const HoldingsByToken&)>& proven) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::minstd_rand random(seed);
  HoldingsByToken found;
  const auto collect = [&](Worker& worker) {
    for (const auto& line : worker.lines()) {
      ASSERT_NE(line.front(), "failed") << line.at(1);
      const std::int64_t token = std::stoll(line.at(1));
      Holding& holding = found[token];
      holding.token = token;
      holding.acquired = at(std::stoll(line.at(2)));
      // A worker that was killed while it held had it at least when it said so.
      holding.last_valid = std::max(holding.last_valid, at(std::stoll(line.at(line.front() == "held" ? 3 : 2))));
    }
  };
  const auto start_one = [&] {
    auto all = arguments("contend");
    all.push_back(std::to_string(random()));
    all.push_back(kind);
    return std::make_unique<Worker>(all);
  };
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 4; ++i)
    workers.push_back(start_one());
  const auto end = SteadyClock::now() + 12s;
  const auto enough = [&] { return SteadyClock::now() >= end && found.size() > 20 && proven(found); };
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  int killed = 0;
  std::size_t found_before = 0;
  while (!enough() && SteadyClock::now() < end + patience) {
    never.wait_for(lock, std::chrono::milliseconds(300 + random() % 1500));
    for (const auto& worker : workers)
      collect(*worker);
    // On a slow machine they would all be killed before they hold anything, or before two of them do.
    if (found.size() == found_before || SteadyClock::now() >= end) continue;
    found_before = found.size();
    auto& victim = workers[random() % workers.size()];
    victim->kill();
    ++killed;
    collect(*victim);
    victim = start_one();
  }
  for (auto& worker : workers) {
    EXPECT_EQ(worker->finish(), EXIT_SUCCESS);
    collect(*worker);
  }
  std::cout << found.size() << " holdings, " << killed << " processes killed\n";
  EXPECT_GT(found.size(), 20u);
  return found;
}

class ExclusiveCrewFaults : public CrewFaults, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ExclusiveCrewFaults, ::testing::Values("mutex", "unfair"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(ExclusiveCrewFaults, ManyProcessesNeverHoldAtOnce) {
  testkit::Holdings holdings;
  for (const auto& [token, holding] : contend_and_kill(GetParam()))
    holdings.add(holding);
  holdings.expect_no_overlap();
  EXPECT_TRUE(remain("/lock", 0));
}

std::ptrdiff_t most_at_once(const HoldingsByToken& found) {
  std::ptrdiff_t most = 0;
  for (const auto& [token, one] : found) {
    const SteadyClock::time_point now = one.acquired;
    most = std::max(most, std::count_if(found.begin(), found.end(), [&](const auto& other) {
                      return other.second.acquired <= now && now <= other.second.last_valid;
                    }));
  }
  return most;
}

TEST_F(CrewFaults, ManyProcessesNeverHoldMoreThanTheSemaphoreAllows) {
  const auto at_the_limit = [](const HoldingsByToken& found) { return most_at_once(found) > 1; };
  const HoldingsByToken found = contend_and_kill("semaphore", at_the_limit);
  EXPECT_LE(most_at_once(found), semaphore_limit);
  EXPECT_TRUE(at_the_limit(found)) << "it never came to the limit, so this proved nothing";
  EXPECT_TRUE(remain("/lock/leases", 0));
  EXPECT_TRUE(remain("/lock/locks", 0));
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--worker") {
    return zkrecipes::run_worker(std::vector<std::string>(argv + 2, argv + argc));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
