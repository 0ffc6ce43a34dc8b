// Never two: five calls of `zkr`, an ensemble of three servers, and all that can happen to either. Their commands write
// into one file, and the file is judged: behind the first line of a token stands no line of an older one. For longer
// than some seconds: ZKRECIPES_SOAK=seconds; to repeat the choices of a run: ZKRECIPES_SEED.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zktesting/ensemble.hpp>

#include "tests/support/cabled_process.hpp"
#include "tests/support/ensembles.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/testkit.hpp"
#include "tests/zkr/lease_told.hpp"
#include "tests/zkr/zkr_process.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using zktesting::Direction;

const bool no_contender_stays = (end_what_tests_leave(), true);

constexpr std::chrono::milliseconds session_timeout = 4s;
/// Ten times as long; but a short run would wait for the end of such a session most of the time.
std::chrono::milliseconds other_session_timeout() {
  return std::getenv("ZKRECIPES_SOAK") != nullptr ? session_timeout * 10 : session_timeout * 3 / 2;
}
/// A command is killed two seconds before its lock can be another's. A machine on which processes wait for a good part
/// of that cannot be judged.
constexpr Duration longest_stall = 500ms;

// --- What was written ---------------------------------------------------------------------------------------------

/// Reads the file as it grows.
class Judge {
 public:
  struct Line {
    std::string who;
    pid_t process = -1;
    std::uint64_t token = 0;
    Instant at{};
  };

  explicit Judge(const std::string& file) : file_(::open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644)) {}

  void read_new() {
    std::array<char, 65536> buffer{};
    for (ssize_t size = 0; (size = ::read(file_.get(), buffer.data(), buffer.size())) > 0;)
      text_.append(buffer.data(), static_cast<std::size_t>(size));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1)
      judge(parsed(text_.substr(begin, end - begin)));
    text_.erase(0, begin);
  }
  /// The newest line of a command itself, not of what it has started.
  const Line& newest() const { return newest_; }
  std::size_t terms() const { return terms_; }
  std::size_t not_counted() const { return not_counted_; }

 private:
  static Line parsed(const std::string& text) {
    std::istringstream words(text);
    Line line;
    std::int64_t at = 0;
    words >> line.who >> line.process >> line.token >> at;
    line.at = Instant(Duration(at));
    return line;
  }

  void judge(const Line& line) {
    if (line.token < token_) return blame(line, "wrote after one with a newer token");
    if (line.token > token_) {
      if (line.at < last_of_older_) blame(line, "wrote before one with an older token had ended");
      token_ = line.token;
      ++terms_;
    }
    last_of_older_ = std::max(last_of_older_, line.at);
    if (!line.who.ends_with('d')) newest_ = line;
  }
  /// Once for each token.
  void blame(const Line& line, const char* what) {
    if (!blamed_.insert(line.token).second) return;
    const auto from = (line.at - 2 * session_timeout).time_since_epoch().count();
    if (Duration(stalls_.worst(from, testkit::boot_ns())) > longest_stall) {
      ++not_counted_;
      return;
    }
    ADD_FAILURE() << line.who << " with token " << line.token << " " << what << "; the newest is " << token_;
  }

  Descriptor file_;
  std::string text_;
  std::uint64_t token_ = 0;
  Instant last_of_older_{};
  Line newest_;
  std::size_t terms_ = 0;
  std::size_t not_counted_ = 0;
  std::set<std::uint64_t> blamed_;
  testkit::Stalls stalls_;
};

// --- The contenders -----------------------------------------------------------------------------------------------

/// A host with cables to each server: the `zkr` that runs there, and what is left of those before it.
struct Contender {
  explicit Contender(const zktesting::Ensemble& ensemble, std::string its_name)
      : cables(ensemble), name(std::move(its_name)) {}

  void start(const Words& words) {
    if (zkr) former.push_back(std::move(zkr));
    zkr = std::make_unique<ZkrProcess>(words);
    guarded = true;
  }
  /// Whether nothing can write any more of what has ended. What was written is read, so that nobody waits for that.
  bool former_gone() {
    std::erase_if(former, [](const auto& one) { return one->lines().ended_now() && one->errors().ended_now(); });
    (void)zkr->lines().ended_now();
    (void)zkr->errors().ended_now();
    return former.empty();
  }

  testkit::Cables cables;
  std::string name;
  std::unique_ptr<ZkrProcess> zkr;
  std::vector<std::unique_ptr<ZkrProcess>> former;
  bool guarded = true;  // Its guardian can act.
};

std::chrono::milliseconds timeout_of(const Contender& one) {
  return one.name == "f" ? other_session_timeout() : session_timeout;
}

/// Its place in the queue has to go with it: if nobody gave that back, all others would wait for most of the run.
bool has_long_session(const Contender& one) { return timeout_of(one) > 2 * session_timeout; }

bool is_ours(const std::string& name) { return name.starts_with("zkr") || name == "lease-guardian"; }

/// Of what the test has started, orphans included.
bool none_of_ours_lives() {
  const std::vector<pid_t> children = PinnedProcess(::getpid()).children();
  return std::none_of(children.begin(), children.end(),
                      [](pid_t child) { return is_ours(short_name_of(child)) && PinnedProcess(child).lives(); });
}

// --- The director -------------------------------------------------------------------------------------------------

class NeverTwo : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { ensemble_ = new zktesting::Ensemble; }
  static void TearDownTestSuite() {
    delete ensemble_;
    ensemble_ = nullptr;
  }

  NeverTwo() {
    for (const char* name : {"a", "b", "c", "e", "f"})  // What a command has started writes the name with a "d".
      crew_.push_back(std::make_unique<Contender>(*ensemble_, name));
  }

  void run(Instant end);
  void finish();
  void tell() const;
  std::string path() const { return "/never-two-" + GetParam(); }

  static inline zktesting::Ensemble* ensemble_ = nullptr;

 private:
  /// False: it makes no sense now.
  using Fault = bool (NeverTwo::*)(Contender& victim);
  struct Kind {
    const char* name;
    Fault fault;
  };
  struct Repair {
    Instant due;
    Contender* whom;  // Null: a server.
    std::function<void()> action;
  };

  int random(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  std::chrono::milliseconds some_time(int from, int to) { return std::chrono::milliseconds(random(from, to)); }
  std::chrono::milliseconds past_session() { return session_timeout + some_time(600, 1600); }

  Words words_for(const Contender& one);
  void renew_who_has_ended();
  Contender& holder();
  bool impaired(const Contender& one) const;
  void later(std::chrono::milliseconds delay, Contender* whom, std::function<void()> action);
  void repair(bool all);
  void one_fault();
  const Kind& next_kind();

  bool kill_front(Contender& victim);
  bool kill_keeper(Contender& victim);
  bool kill_front_and_keeper(Contender& victim);
  bool kill_guardian(Contender& victim);
  bool kill_command(Contender& victim);
  bool stop_front(Contender& victim);
  bool stop_front_and_kill_keeper(Contender& victim);
  bool stop_keeper(Contender& victim);
  bool stop_guardian(Contender& victim);
  bool stop_command(Contender& victim);
  bool cut_both_ways(Contender& victim) { return cut(victim, Direction::both); }
  bool make_deaf(Contender& victim) { return cut(victim, Direction::to_client); }
  bool make_mute(Contender& victim) { return cut(victim, Direction::to_server); }
  bool unplug(Contender& victim);
  bool kill_a_leader(Contender& victim);
  bool cut(Contender& victim, Direction direction);
  bool kill_child(Contender& victim, const char* name);
  bool stop_for(Contender& victim, pid_t process, std::chrono::milliseconds time);

  const unsigned seed_ = testkit::seed();
  std::minstd_rand random_{seed_};
  Folder folder_;
  const std::string file_ = folder_ / "log";
  Judge judge_{file_};
  std::vector<std::unique_ptr<Contender>> crew_;
  std::vector<Repair> repairs_;
  std::optional<std::size_t> dead_server_;
  std::vector<const Kind*> deck_;
  std::map<std::string, int> done_;
};

/// Half of the commands end soon, the others not by themselves; some of those obey no TERM, nor does what they start.
Words NeverTwo::words_for(const Contender& one) {
  const bool ends = random(0, 1) == 0;
  const std::string ignore = !ends && random(0, 1) == 0 ? "ignore 15 " : "";
  const auto log = [this](const std::string& name, int milliseconds) {
    return "log " + file_ + " " + name + " " + std::to_string(milliseconds);
  };
  constexpr int for_ever = 100'000'000;
  // One of another session timeout takes nothing from the others too early, nor they from it.
  const auto timeout = timeout_of(one);
  Words words{
      GetParam(), path(), "--server", one.cables.hosts(), "--session-timeout", std::to_string(timeout.count()) + "ms",
      "--"};
  const Words command = puppet(ignore + "daemon [ " + ignore + log(one.name + "d", for_ever) + " ] " +
                               log(one.name, ends ? random(50, 600) : for_ever));
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

void NeverTwo::renew_who_has_ended() {
  for (const auto& one : crew_) {
    if (!one->zkr || one->zkr->ended_now()) one->start(words_for(*one));
    one->former_gone();
  }
}

Contender& NeverTwo::holder() {
  const auto found =
      std::find_if(crew_.begin(), crew_.end(), [this](const auto& one) { return one->name == judge_.newest().who; });
  return found != crew_.end() ? **found : *crew_[0];
}

bool NeverTwo::impaired(const Contender& one) const {
  return std::any_of(repairs_.begin(), repairs_.end(), [&one](const Repair& repair) { return repair.whom == &one; });
}

void NeverTwo::later(std::chrono::milliseconds delay, Contender* whom, std::function<void()> action) {
  repairs_.push_back({BootClock::now() + delay, whom, std::move(action)});
}

void NeverTwo::repair(bool all) {
  const Instant now = BootClock::now();
  std::vector<Repair> kept;
  for (Repair& repair : std::exchange(repairs_, {})) {
    if (all || repair.due <= now) {
      repair.action();
    } else {
      kept.push_back(std::move(repair));
    }
  }
  repairs_ = std::move(kept);
  testkit::restart_who_has_died(*ensemble_, dead_server_);
}

// Each kind once, in random order, before any comes again.
const NeverTwo::Kind& NeverTwo::next_kind() {
  static constexpr std::array<Kind, 15> kinds{{
      {"front killed", &NeverTwo::kill_front},
      {"keeper killed", &NeverTwo::kill_keeper},
      {"front and keeper killed", &NeverTwo::kill_front_and_keeper},
      {"guardian killed", &NeverTwo::kill_guardian},
      {"command killed", &NeverTwo::kill_command},
      {"front stopped", &NeverTwo::stop_front},
      {"front stopped, keeper killed", &NeverTwo::stop_front_and_kill_keeper},
      {"keeper stopped", &NeverTwo::stop_keeper},
      {"guardian stopped", &NeverTwo::stop_guardian},
      {"command stopped", &NeverTwo::stop_command},
      {"cut off both ways", &NeverTwo::cut_both_ways},
      {"hears nothing", &NeverTwo::make_deaf},
      {"is not heard", &NeverTwo::make_mute},
      {"unplugged", &NeverTwo::unplug},
      {"leader of the servers killed", &NeverTwo::kill_a_leader},
  }};
  if (deck_.empty()) {
    for (const Kind& kind : kinds)
      deck_.push_back(&kind);
    std::shuffle(deck_.begin(), deck_.end(), random_);
  }
  const Kind& kind = *deck_.back();
  deck_.pop_back();
  return kind;
}

void NeverTwo::one_fault() {
  Contender& victim = random(0, 3) != 0 ? holder() : *crew_[static_cast<std::size_t>(random(0, 4))];
  if (impaired(victim)) return;
  const Kind& kind = next_kind();
  if ((this->*kind.fault)(victim)) ++done_[kind.name];
}

bool NeverTwo::kill_child(Contender& victim, const char* name) {
  const auto child = victim.zkr->child_now(name);
  if (child) ::kill(*child, SIGKILL);
  return child.has_value();
}

bool NeverTwo::kill_front(Contender& victim) {
  victim.zkr->signal(SIGKILL);
  return true;
}

bool NeverTwo::kill_keeper(Contender& victim) { return kill_child(victim, "zkr-keeper"); }

bool NeverTwo::kill_front_and_keeper(Contender& victim) {
  const auto keeper = victim.zkr->child_now("zkr-keeper");
  if (!victim.guarded || !keeper) return false;
  ::kill(victim.zkr->front(), SIGKILL);
  ::kill(*keeper, SIGKILL);
  return true;
}

bool NeverTwo::kill_guardian(Contender& victim) {
  if (has_long_session(victim)) return false;
  victim.guarded = false;
  return kill_child(victim, "lease-guardian");
}

bool NeverTwo::kill_command(Contender& victim) {
  const auto keeper = victim.zkr->child_now("zkr-keeper");
  if (!keeper || victim.name != judge_.newest().who) return false;
  const PinnedProcess command(judge_.newest().process);
  const auto status = command.status();
  return status && status->parent == *keeper && command.signal(SIGKILL) == 0;
}

/// Whatever else becomes of it meanwhile.
bool NeverTwo::stop_for(Contender& victim, pid_t process, std::chrono::milliseconds time) {
  const auto pinned = std::make_shared<PinnedProcess>(process);
  later(time, &victim, [pinned] { pinned->signal(SIGCONT); });
  return pinned->signal(SIGSTOP) == 0;
}

bool NeverTwo::stop_front(Contender& victim) { return stop_for(victim, victim.zkr->front(), some_time(200, 6000)); }

bool NeverTwo::stop_front_and_kill_keeper(Contender& victim) {
  return victim.guarded && stop_for(victim, victim.zkr->front(), past_session()) && kill_keeper(victim);
}

bool NeverTwo::stop_keeper(Contender& victim) {
  const auto keeper = victim.zkr->child_now("zkr-keeper");
  return keeper && stop_for(victim, *keeper, random(0, 2) == 0 ? some_time(50, 1000) : past_session());
}

bool NeverTwo::stop_guardian(Contender& victim) {
  const auto guardian = victim.zkr->child_now("lease-guardian");
  if (!guardian || has_long_session(victim)) return false;
  victim.guarded = false;
  return stop_for(victim, *guardian, past_session());
}

bool NeverTwo::stop_command(Contender& victim) {
  if (victim.name != judge_.newest().who) return false;
  const auto keeper = victim.zkr->child_now("zkr-keeper");
  const PinnedProcess command(judge_.newest().process);
  const auto status = command.status();
  if (!keeper || !status || status->parent != *keeper || command.signal(SIGSTOP) != 0) return false;
  const auto front = std::make_shared<PinnedProcess>(victim.zkr->front());  // It stops with it.
  later(some_time(200, 6000), &victim, [front] { front->signal(SIGCONT); });
  return true;
}

bool NeverTwo::cut(Contender& victim, Direction direction) {
  victim.cables.stall(direction);
  later(past_session(), &victim, [&victim] { victim.cables.mend(); });
  // Either of the two that enforce the deadline may be stopped as well.
  const auto keeper = victim.zkr->child_now("zkr-keeper");
  switch (random(0, 3)) {
    case 0: stop_for(victim, victim.zkr->front(), past_session()); break;
    case 1:
      if (keeper) stop_for(victim, *keeper, past_session());
      break;
    default: break;
  }
  return true;
}

bool NeverTwo::unplug(Contender& victim) {
  victim.cables.unplug();
  later(random(0, 1) == 0 ? some_time(50, 1000) : past_session(), &victim, [&victim] { victim.cables.mend(); });
  return true;
}

bool NeverTwo::kill_a_leader(Contender&) {
  const auto leader = ensemble_->leader();
  if (!leader || dead_server_) return false;
  ensemble_->kill(*leader);
  dead_server_ = leader;
  later(1500ms, nullptr, [this, leader] {
    ensemble_->restart(*leader);
    dead_server_.reset();
  });
  return true;
}

void NeverTwo::run(Instant end) {
  const auto go_on = [this] {
    repair(false);
    renew_who_has_ended();
    judge_.read_new();
  };
  ASSERT_TRUE(eventually([&] {
    go_on();
    return judge_.terms() > 0;
  }));
  constexpr std::size_t least = 5;
  while (BootClock::now() < end || judge_.terms() < least) {
    one_fault();
    const Instant next = BootClock::now() + some_time(50, 600);
    (void)eventually([&] {
      go_on();
      return BootClock::now() >= next;
    });
  }
}

/// All of ours are killed. Then nothing runs, no node is left, and the lock is free.
void NeverTwo::finish() {
  repair(true);
  for (const auto& one : crew_)
    one->zkr->signal(SIGKILL);
  EXPECT_TRUE(eventually([this] {
    testkit::restart_who_has_died(*ensemble_);
    return std::all_of(crew_.begin(), crew_.end(), [](const auto& one) {
      return one->former_gone() && one->zkr->lines().ended_now() && one->zkr->ended_now();
    });
  })) << "something of a command runs";
  EXPECT_TRUE(eventually(none_of_ours_lives)) << "something of zkr runs";
  judge_.read_new();
  ensemble_->wait_for_quorum(120s);
  const zkclient::Client client(ensemble_->connect_string());
  std::string left;
  EXPECT_TRUE(eventually([&] {
    left.clear();
    std::error_code error;
    for (const std::string& name : client.children(zkclient::Path(path()), testkit::patient(), error).names)
      left += " " + name;
    if (error && error != zkclient::Errc::no_node) left = error.message();  // A container goes when it is empty.
    return left.empty();
  })) << "left:"
      << left;
  ZkrProcess last({GetParam(), path(), "--server", ensemble_->connect_string(), "-c", "exit 7"});
  EXPECT_EQ(last.end(), exited(7));
}

void NeverTwo::tell() const {
  std::cout << "seed " << seed_ << " (ZKRECIPES_SEED), " << judge_.terms()
            << " terms; overlaps on a machine that stood still, not counted: " << judge_.not_counted() << "\n";
  for (const auto& [name, count] : done_)
    std::cout << "  " << count << " x " << name << "\n";
}

TEST_P(NeverTwo, WhateverHappens) {
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  run(BootClock::now() + (soak != nullptr ? std::chrono::seconds(std::stol(soak)) : 5s));
  finish();
  tell();
}

TEST_P(NeverTwo, Z7NewLeaderOfTheServersCostsNothing) {
  constexpr Duration timeout = 12s;
  Words words{GetParam(), path() + "-kept", "--server", ensemble_->connect_string(), "--session-timeout", "12s", "--"};
  const Words command = puppet("signals env ZKR_SOCKET read exit 0");
  words.insert(words.end(), command.begin(), command.end());
  ZkrProcess zkr(words);
  const std::size_t leader = testkit::roles_of(*ensemble_).leader;
  LeaseTold told(zkr.lines().await("ZKR_SOCKET=").value_or(""));
  ASSERT_TRUE(told.await_steady(timeout));
  const Instant begun = BootClock::now();
  ensemble_->kill(leader);
  ASSERT_TRUE(told.await_proof(timeout / 6) || zkr.ended_now());
  const Duration outage = BootClock::now() - begun;
  ensemble_->restart(leader);
  if (outage >= free_outage(timeout)) GTEST_SKIP() << "no lease was proven for " << outage / 1ms << " ms";
  zkr.type("go\n");
  EXPECT_EQ(zkr.lines().rest(), Words{"line go"});
  EXPECT_EQ(zkr.end(), exited(0));
}

INSTANTIATE_TEST_SUITE_P(Zkr, NeverTwo, testing::Values("lock", "lead"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace zkr
