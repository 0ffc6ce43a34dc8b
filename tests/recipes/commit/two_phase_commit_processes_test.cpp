// A bank whose branches are processes, each with a file of its own, and transfers between them: kill -9 for anybody at
// any step (also between two lines of the log), lost replies, servers that die. At the end no transfer was done by
// half.
//
// Servers die one at a time, and the next one only when all serve again. ZooKeeper 3.8 and 3.9.0 forget acknowledged
// writes otherwise: a server that is killed while it catches up with its leader has noted the new epoch, but not what
// it was sent, and is elected all the same (ZOOKEEPER-4643, 4646, 4785). No recipe can make up for that. A witness
// tells whether it has happened.
//
// The short run is part of the suite; ZKRECIPES_SOAK=<seconds> makes it longer, ZKRECIPES_SEED=<number> repeats a run
// (as far as processes can be repeated).

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zktesting/ensemble.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/testkit.hpp"

extern char** environ;

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::soon;
using testkit::SteadyClock;
using zkclient::Client;

constexpr int branches = 3;
constexpr int coordinators = 2;
constexpr auto session_timeout = 2s;

/// Three servers and five processes take their time on a busy machine.
[[nodiscard]] bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = 2min) {
  return testkit::eventually(condition, limit);
}

std::string branch_name(int i) { return "branch" + std::to_string(i); }

// --- The books of a branch ----------------------------------------------------------------------------------------

/// Lines "commit <id> <amount>..." and "abort <id>"; each is one write, which a kill cannot tear.
class Books {
 public:
  explicit Books(const std::filesystem::path& file) : file_(file) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string what;
      std::string id;
      words >> what >> id;
      (what == "commit" ? committed_ : aborted_).insert(id);
      if (what == "commit") {
        std::getline(words >> std::ws, payloads_[id]);
        ++commit_lines_;
      }
    }
    descriptor_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (descriptor_ == -1) throw std::runtime_error("the books cannot be opened");
  }
  ~Books() { ::close(descriptor_); }
  Books(const Books&) = delete;
  Books& operator=(const Books&) = delete;

  void commit(const CommitTransaction& transaction) {
    if (aborted_.contains(transaction.id)) throw std::logic_error("committed after it was aborted");
    if (!committed_.insert(transaction.id).second) return;  // Done before the crash.
    append("commit " + transaction.id + " " + transaction.payload + "\n");
  }
  void abort(const CommitTransaction& transaction) {
    if (committed_.contains(transaction.id)) throw std::logic_error("aborted after it was committed");
    if (aborted_.insert(transaction.id).second) append("abort " + transaction.id + "\n");
  }

  const std::set<std::string>& committed() const { return committed_; }
  const std::set<std::string>& aborted() const { return aborted_; }
  const std::map<std::string, std::string>& payloads() const { return payloads_; }
  std::size_t commit_lines() const { return commit_lines_; }

 private:
  void append(const std::string& line) const {
    if (::write(descriptor_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw std::runtime_error("the books cannot be written");
    }
  }
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::set<std::string> committed_;
  std::set<std::string> aborted_;
  std::map<std::string, std::string> payloads_;
  std::size_t commit_lines_ = 0;
};

// --- The processes ------------------------------------------------------------------------------------------------

/// Kills this very process, now and then.
class Fate {
 public:
  Fate(unsigned seed, unsigned one_in) : random_(seed), one_in_(one_in) {}
  void tempt() {
    const std::lock_guard lock(mutex_);
    if (one_in_ != 0 && random_() % one_in_ == 0) ::kill(::getpid(), SIGKILL);
  }

 private:
  std::mutex mutex_;
  std::minstd_rand random_;
  const unsigned one_in_;
};

/// Tempts fate before and after everything that is written down, and knows when nothing is open any more.
class FatefulLog final : public ParticipantLog {
 public:
  FatefulLog(const std::filesystem::path& file, std::shared_ptr<Fate> fate)
      : log_(file, {.checkpoint_bytes = 16'384}), fate_(std::move(fate)), open_(log_.open().size()) {}
  std::string identity() const override { return log_.identity(); }
  std::vector<LoggedTransaction> open() const override { return log_.open(); }
  void append(LogEntry entry, std::string_view id, std::string_view data) override {
    fate_->tempt();
    log_.append(entry, id, data);
    const std::lock_guard lock(mutex_);
    if (entry == LogEntry::begin) ++open_;
    if (entry == LogEntry::end) --open_;
    changed_.notify_all();
  }
  void sync() override {
    fate_->tempt();
    log_.sync();
    fate_->tempt();
  }
  void wait_until_nothing_is_open(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [this] { return open_ == 0; });
  }

 private:
  FileLog log_;
  std::shared_ptr<Fate> fate_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t open_;
};

/// Ends with its standard input.
bool wanted() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) == 0;
}

void report(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
}

/// Ends with its standard input; if it `settles`, only when its log has nothing open then.
int be_branch(const std::string& hosts, const std::string& name, const std::string& folder, unsigned seed,
              unsigned one_in, bool settles) {
  const auto fate = std::make_shared<Fate>(seed, one_in);
  Books books(folder + "/" + name + ".books");
  const auto log = std::make_shared<FatefulLog>(folder + "/" + name + ".log", fate);
  const Client client(hosts, {.session_timeout = session_timeout, .server_tick = testkit::server_tick});
  CommitParticipant participant(client, "/bank", name, log, {.absence_grace = 500ms, .sweep_interval = 1s});
  CommitHandlers handlers;
  handlers.prepare = [&](const CommitTransaction& transaction) {
    fate->tempt();
    if (std::hash<std::string>()(transaction.id + name) % 12 == 0) return CommitVote::no("no funds");
    return CommitVote::yes();
  };
  handlers.commit = [&](const CommitTransaction& transaction) {
    fate->tempt();
    books.commit(transaction);
    fate->tempt();
  };
  handlers.abort = [&](const CommitTransaction& transaction) {
    fate->tempt();
    books.abort(transaction);
    fate->tempt();
  };
  std::stop_source stop;
  std::jthread watch_input([&](const std::stop_token& failed) {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    if (settles) log->wait_until_nothing_is_open(failed);
    stop.request_stop();
  });
  participant.serve(std::move(handlers), {.stop = stop.get_token()});
  return EXIT_SUCCESS;
}

int be_coordinator(const std::string& hosts, unsigned seed) {
  std::minstd_rand random(seed);
  // Handlers use these until the client is closed, which has the last ones run.
  testkit::Box<int> ended;
  std::atomic<bool> recovering{false};
  const Client client(hosts, {.session_timeout = session_timeout, .server_tick = testkit::server_tick});
  CommitCoordinator coordinator(client, "/bank", {.absence_grace = 500ms});
  constexpr int at_once = 8;
  int running = 0;
  // What those have left that were killed before; also this may be killed at any step.
  const auto recover = [&] {
    if (!recovering.exchange(true)) coordinator.async_recover([&](const auto&) { recovering = false; });
  };
  while (wanted() || running > 0) {
    if (wanted()) recover();
    while (running < at_once && wanted()) {
      std::vector<int> order(branches);
      for (int i = 0; i < branches; ++i)
        order[static_cast<std::size_t>(i)] = i;
      std::shuffle(order.begin(), order.end(), random);
      const std::size_t count = 2 + random() % 2;
      std::vector<std::string> names;
      std::string payload;
      const int amount = static_cast<int>(1 + random() % 100);
      for (std::size_t i = 0; i < count; ++i) {
        names.push_back(branch_name(order[i]));
        const int share = i == 0 ? -amount * static_cast<int>(count - 1) : amount;
        payload += names.back() + " " + std::to_string(share) + " ";
      }
      const CommitOptions options{.timeout = std::chrono::milliseconds(300 + random() % 1500),
                                  .variant = random() % 2 == 0 ? CommitVariant::mediated : CommitVariant::all_to_all};
      ++running;
      try {
        coordinator.async_run(names, payload, options, [&](zkclient::Result<CommitOutcome> outcome) {
          if (outcome) {
            report((outcome->committed ? "committed " : "aborted ") + outcome->id);
          } else if (outcome.code() != zkclient::Errc::in_doubt && outcome.code() != zkclient::Errc::no_node) {
            report(std::string("failed ") + outcome.error().what());
          }
          ended.put(1);
        });
      } catch (const std::exception& error) {
        report(std::string("failed ") + error.what());
        return EXIT_FAILURE;
      }
    }
    if (running > 0) {
      (void)eventually([&] { return !ended.empty(); });  // An election may take longer than a box waits.
      ended.take();
      --running;
    }
  }
  return EXIT_SUCCESS;
}

int run_worker(const std::vector<std::string>& arguments) {
  try {
    if (arguments.at(0) == "branch") {
      return be_branch(arguments.at(1), arguments.at(2), arguments.at(3),
                       static_cast<unsigned>(std::stoul(arguments.at(4))),
                       static_cast<unsigned>(std::stoul(arguments.at(5))), arguments.at(6) == "settles");
    }
    return be_coordinator(arguments.at(1), static_cast<unsigned>(std::stoul(arguments.at(2))));
  } catch (const std::exception& error) {
    report(std::string("failed ") + error.what());
    return EXIT_FAILURE;
  }
}

/// A process of ours; gone at the latest with this object.
class Worker {
 public:
  Worker(const std::vector<std::string>& arguments, const std::filesystem::path& output) {
    std::array<int, 2> input{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const int out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    std::string self = "/proc/self/exe";
    std::string flag = "--worker";
    std::vector<std::string> copies = arguments;
    std::vector<char*> argv{self.data(), flag.data()};
    for (std::string& copy : copies)
      argv.push_back(copy.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    const int error = ::posix_spawn(&pid_, self.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(out);
    input_ = input[1];
    if (error != 0) throw std::runtime_error("the worker does not start");
  }
  ~Worker() {
    if (input_ != -1) ::close(input_);
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }
  /// True once it has ended, by whatever hand.
  bool ended() {
    int status = 0;
    if (pid_ != 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      clean_ = WIFEXITED(status) ? WEXITSTATUS(status) == EXIT_SUCCESS : WTERMSIG(status) == SIGKILL;
    }
    return pid_ == 0;
  }
  /// It ended as it should, or was killed.
  bool clean() const { return clean_; }
  void finish() {
    if (input_ != -1) ::close(std::exchange(input_, -1));
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  bool clean_ = true;
};

// --- The servers --------------------------------------------------------------------------------------------------

/// Creates nodes all the time, and knows which of them ZooKeeper has acknowledged.
class Witness {
 public:
  explicit Witness(const std::string& hosts) : client_(hosts) {
    client_.ensure("/witness", zkclient::CreateMode::persistent, {.deadline = soon()});
  }
  void write() {
    const std::string name = "n" + std::to_string(next_++);
    client_.async_create(zkclient::Path("/witness") / name, "", {}, [kept = kept_, name](auto created) {
      const std::lock_guard lock(kept->mutex);
      if (created) kept->names.insert(name);
    });
  }
  /// What was acknowledged, and is not there.
  std::vector<std::string> lost() const {
    client_.sync("/witness", {.deadline = soon()});
    const auto found = client_.children("/witness", {.deadline = soon()}).names;
    const std::set<std::string> there(found.begin(), found.end());
    std::vector<std::string> lost;
    const std::lock_guard lock(kept_->mutex);
    std::set_difference(kept_->names.begin(), kept_->names.end(), there.begin(), there.end(), std::back_inserter(lost));
    return lost;
  }

 private:
  struct Kept {
    std::mutex mutex;
    std::set<std::string> names;
  };
  const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  int next_ = 0;
  Client client_;
};

/// Kills servers and starts them again, in a thread of its own.
class Outages {
 public:
  Outages(zktesting::Ensemble& ensemble, unsigned seed)
      : ensemble_(ensemble), random_(seed), thread_([this](const std::stop_token& stop) { run(stop); }) {}
  /// No more of them: when it returns, all servers serve.
  void end() {
    thread_.request_stop();
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }
  int kills() const { return kills_; }

 private:
  void run(const std::stop_token& stop) {
    try {
      while (pause(stop)) {
        const std::size_t chosen = random_() % ensemble_.size();
        ensemble_.kill(chosen);
        ++kills_;
        pause(stop);
        ensemble_.restart(chosen);
        ensemble_.wait_for_all(2min);
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  bool pause(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, std::chrono::milliseconds(random_() % 1200), [] { return false; });
    return !stop.stop_requested();
  }

  zktesting::Ensemble& ensemble_;
  std::minstd_rand random_;
  int kills_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;
};

// --- The test -----------------------------------------------------------------------------------------------------

class Bank {
 public:
  explicit Bank(unsigned seed) : random_(seed) {
    for (std::size_t i = 0; i < ensemble_.size(); ++i) {
      proxies_.emplace_back(ensemble_.connect_string(i));
      hosts_ += (i == 0 ? "" : ",") + proxies_.back().connect_string();
    }
  }

  void open() {
    for (int i = 0; i < branches; ++i)
      workers_.push_back(start_branch(i, 0));
    const Client client(ensemble_.connect_string());
    ASSERT_TRUE(eventually([&] {
      std::error_code error;
      return client.children("/bank/participants", {}, error).names.size() == branches;
    }));
    for (int i = 0; i < coordinators; ++i)
      workers_.push_back(start_coordinator());
  }

  void run(std::chrono::milliseconds time) {
    const auto end = SteadyClock::now() + time;
    Outages outages(ensemble_, static_cast<unsigned>(random_()));
    std::vector<zktesting::Fault> armed;
    while (SteadyClock::now() < end) {
      pause();
      bury(true);
      witness_.write();
      const auto what = random_() % 20;
      if (what < 4) {
        workers_[random_() % workers_.size()]->kill();
        ++kills_;
      } else if (what < 10) {
        armed.push_back(proxies_[random_() % proxies_.size()].drop_next_reply(zktesting::RequestType::multi));
      } else if (what < 12) {
        armed.push_back(proxies_[random_() % proxies_.size()].drop_next_request(zktesting::RequestType::multi));
      } else if (what == 12) {
        proxies_[random_() % proxies_.size()].cut();
      }
    }
    for (zktesting::Fault& fault : armed)
      fault.cancel();
    outages.end();
    outages_ = outages.kills();
  }

  /// No more faults: everything has to come to its end.
  void settle() {
    // A machine may have been too slow for any before.
    EXPECT_TRUE(eventually([&] {
      bury(false);
      return something_is_committed();
    }));
    for (std::size_t i = branches; i < workers_.size(); ++i)
      workers_[i]->finish();
    EXPECT_TRUE(eventually([&] {
      bool all = true;
      for (std::size_t i = branches; i < workers_.size(); ++i)
        all = workers_[i]->ended() && all;
      return all;
    }));
    const Client client(ensemble_.connect_string());
    // Those that fate still has in its hand are replaced. Their successors may find in their logs what was aborted and
    // removed in the meantime: the tree does not tell when they have undone that, but their logs do.
    for (int i = 0; i < branches; ++i) {
      workers_[static_cast<std::size_t>(i)]->finish();
      EXPECT_TRUE(eventually([&] { return workers_[static_cast<std::size_t>(i)]->ended(); }));
      workers_[static_cast<std::size_t>(i)] = start_branch(i, 0, true);
    }
    CommitCoordinator coordinator(client, "/bank");
    const std::size_t left = coordinator.transactions({.deadline = SteadyClock::now() + 2min}).size();
    const auto begun = SteadyClock::now();
    const bool settled = eventually(
        [&] {
          try {
            (void)coordinator.recover({.deadline = soon()});
            return client.children("/bank/transactions", {.deadline = soon()}).names.empty();
          } catch (const zkclient::Error&) {
            return false;  // There were too many for a machine so busy; the next round is for the rest.
          }
        },
        5min);
    std::cout << left << " transactions were left, which took " << (SteadyClock::now() - begun) / 1ms << " ms\n";
    EXPECT_TRUE(settled) << describe(coordinator.transactions());
    for (int i = 0; i < branches; ++i)
      EXPECT_TRUE(client.children(zkclient::Path("/bank/inbox") / branch_name(i), {.deadline = soon()}).names.empty());
    for (int i = 0; i < branches; ++i)
      workers_[static_cast<std::size_t>(i)]->finish();
    EXPECT_TRUE(eventually([&] {
      return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->ended(); });
    })) << "a branch does not come to the end of what its log has open";
    for (std::size_t i = 0; i < workers_.size(); ++i)
      EXPECT_TRUE(workers_[i]->clean()) << "worker " << i << " has failed";
  }

  void audit() {
    const auto lost = witness_.lost();
    ASSERT_TRUE(lost.empty()) << "ZooKeeper has lost " << lost.size() << " acknowledged writes: " << lost.front()
                              << " to " << lost.back();
    std::map<std::string, std::unique_ptr<Books>> books;
    std::map<std::string, std::string> committed;  // By whomever.
    for (int i = 0; i < branches; ++i) {
      const std::string name = branch_name(i);
      books[name] = std::make_unique<Books>(folder_ / (name + ".books"));
      EXPECT_EQ(books[name]->commit_lines(), books[name]->committed().size()) << name << " has done something twice";
      for (const std::string& id : books[name]->committed())
        EXPECT_FALSE(books[name]->aborted().contains(id)) << name << " has done both: " << id;
      committed.insert(books[name]->payloads().begin(), books[name]->payloads().end());
      const FileLog log(folder_ / (name + ".log"));
      for (const LoggedTransaction& open : log.open())
        ADD_FAILURE() << name << " is not done with " << open.id << ": " << to_string(open.state);
    }
    int sum = 0;
    for (const auto& [id, payload] : committed) {
      std::istringstream words(payload);
      std::string name;
      for (int share = 0; words >> name >> share;) {
        sum += share;
        EXPECT_TRUE(books.at(name)->committed().contains(id))
            << id << " was not committed by " << name << ": " << payload;
      }
    }
    EXPECT_EQ(sum, 0);
    std::size_t told = 0;
    std::ifstream reports(folder_ / "reports");
    for (std::string line; std::getline(reports, line);) {
      std::istringstream words(line);
      std::string what;
      std::string id;
      words >> what >> id;
      if (what == "committed" || what == "aborted") {
        ++told;
        EXPECT_EQ(committed.contains(id), what == "committed") << "somebody was told that it was " << line;
      } else {
        ADD_FAILURE() << line;
      }
    }
    std::cout << told << " transactions with an answer, " << committed.size() << " committed, " << kills_
              << " processes killed and " << deaths_ << " died in all, " << outages_ << " servers killed\n";
    EXPECT_GT(committed.size(), 0U);
  }

 private:
  std::unique_ptr<Worker> start_branch(int i, unsigned one_in, bool settles = false) {
    return std::make_unique<Worker>(
        std::vector<std::string>{"branch", hosts_, branch_name(i), folder_.path().string(), std::to_string(random_()),
                                 std::to_string(one_in), settles ? "settles" : "stops"},
        folder_ / "reports");
  }
  std::unique_ptr<Worker> start_coordinator() {
    return std::make_unique<Worker>(std::vector<std::string>{"coordinator", hosts_, std::to_string(random_())},
                                    folder_ / "reports");
  }
  void pause() {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, std::chrono::milliseconds(random_() % 60));
  }
  void bury(bool fateful) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i]->ended()) continue;
      ++deaths_;
      EXPECT_TRUE(workers_[i]->clean()) << "worker " << i << " ended by itself";
      workers_[i] = i < branches ? start_branch(static_cast<int>(i), fateful ? 150 : 0) : start_coordinator();
    }
  }
  bool something_is_committed() const {
    std::ifstream reports(folder_ / "reports");
    for (std::string line; std::getline(reports, line);) {
      if (line.starts_with("committed ")) return true;
    }
    return false;
  }
  static std::string describe(const std::vector<CommitStatus>& transactions) {
    std::ostringstream text;
    for (const CommitStatus& status : transactions) {
      text << status.id << (status.outcome ? status.outcome->committed ? " committed" : " aborted" : " open") << ", "
           << status.participants.size() << " participants, " << status.voted.size() << " votes, "
           << status.acknowledged.size() << " acknowledgements" << (status.coordinated ? ", coordinated" : "") << "\n";
    }
    return text.str();
  }

  std::minstd_rand random_;
  zktesting::Ensemble ensemble_;
  std::vector<zktesting::Proxy> proxies_;
  std::string hosts_;
  testkit::TemporaryFolder folder_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Witness witness_{ensemble_.connect_string()};
  int outages_ = 0;
  int kills_ = 0;
  int deaths_ = 0;
};

TEST(TwoPhaseCommitProcesses, MoneyIsNeitherMadeNorLost) {
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const char* chosen = std::getenv("ZKRECIPES_SEED");
  const unsigned seed = chosen != nullptr ? static_cast<unsigned>(std::stoul(chosen)) : std::random_device()();
  std::cout << "ZKRECIPES_SEED=" << seed << "\n";
  SCOPED_TRACE("ZKRECIPES_SEED=" + std::to_string(seed));
  Bank bank(seed);
  bank.open();
  if (HasFatalFailure()) return;
  bank.run(soak != nullptr ? std::chrono::seconds(std::stol(soak)) : 6s);
  bank.settle();
  bank.audit();
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
