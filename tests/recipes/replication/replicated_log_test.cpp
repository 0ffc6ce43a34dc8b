// The example of a replicated log: three processes, each with a folder, while clients append and all kinds of things
// break. ZKRECIPES_SEED repeats a run of the last test, ZKRECIPES_RUNS=number makes it longer.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/recipes/replication/log_support.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/self_process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using testkit::free_address;
using testkit::Line;
using testkit::Minutes;
using testkit::patience;
using zktesting::Direction;
using zktesting::Proxy;

/// A process with a folder, a cable to the server, and one from the other members.
class Member {
 public:
  Member(std::string id, const std::string& hosts, Minutes& minutes)
      : id_(std::move(id)), minutes_(minutes), cable_(hosts), link_(address_text(), {false, ""}) {
    start();
  }

  void start() {
    listening_ = false;
    process_.emplace(
        REPLICATED_LOG,
        std::vector<std::string>{(folder_ / "data").string(), id_, address_.first, std::to_string(address_.second),
                                 link_.connect_string(), cable_.connect_string(), "2000",
                                 std::to_string(testkit::server_tick.count())},
        [this](const auto& words) {
          if (!words.empty() && words[0] == "listening") listening_ = true;
          minutes_.note(id_, words);
        });
    EXPECT_TRUE(eventually([this] { return listening_.load(); }));
  }
  void kill() { process_.reset(); }
  bool runs() const { return process_.has_value(); }
  const testkit::ChildProcess& process() const { return *process_; }
  Proxy& cable() { return cable_; }
  Proxy& link() { return link_; }
  const std::pair<std::string, int>& address() const { return address_; }
  const std::string& id() const { return id_; }

  struct State {
    std::string role, storage;
    std::size_t count = 0;
  };
  State state(std::chrono::seconds limit = 1s) const {
    Line line(address_, limit);
    State state;
    std::string ok;
    std::istringstream(line.ask("state").value_or("")) >> ok >> state.role >> state.count >> state.storage;
    return state;
  }
  /// All that it knows to be acknowledged, as "CLIENT NUMBER TEXT"; nothing if it may not serve reads.
  std::optional<std::vector<std::string>> entries() const {
    Line line(address_, 10s);
    for (std::vector<std::string> all;;) {
      const std::string answer = line.ask("read " + std::to_string(all.size())).value_or("");
      if (answer == "end") return all;
      std::istringstream words(answer);
      std::string ok, epoch, entry;
      words >> ok >> epoch >> std::ws;
      std::getline(words, entry);
      if (ok != "ok") return std::nullopt;
      all.push_back(entry);
    }
  }

  // --- Its folder, while it does not run ---

  void empty_disk() const { std::filesystem::remove_all(folder_ / "data"); }
  std::uintmax_t log_size() const { return std::filesystem::file_size(log()); }
  void tear_to(std::uintmax_t size) const { std::filesystem::resize_file(log(), size); }
  /// Where its first entries end.
  std::uintmax_t size_of(std::size_t entries) const {
    std::ifstream file(log(), std::ios::binary);
    std::uintmax_t size = 0;
    for (std::string line; entries > 0 && std::getline(file, line); --entries)
      size += line.size() + 1;
    return size;
  }
  /// As if it had died in the middle of a write.
  void append_torn_record() const {
    std::ofstream file(log(), std::ios::app | std::ios::binary);
    file << "1234567890123456789 40 1 w 1";
  }

 private:
  std::filesystem::path log() const { return folder_ / "data" / "log"; }
  std::string address_text() const { return address_.first + ":" + std::to_string(address_.second); }

  const std::string id_;
  Minutes& minutes_;
  const std::pair<std::string, int> address_ = free_address();
  testkit::TemporaryFolder folder_;
  Proxy cable_;
  Proxy link_;
  std::atomic<bool> listening_{false};
  std::optional<testkit::ChildProcess> process_;
};

/// Appends one numbered entry after the other. Whoever does not answer "ok" may have it all the same, so it is repeated;
/// now and then it is left at that.
class Writer {
 public:
  Writer(std::string id, const std::vector<std::unique_ptr<Member>>& members, unsigned seed)
      : id_(std::move(id)), members_(members), random_(seed), thread_([this] { run(); }) {}
  ~Writer() { stop(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void stop() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::size_t acknowledged() const { return count_; }
  /// After stop(): where each entry that is acknowledged is, in order of time.
  const std::vector<std::pair<std::string, std::size_t>>& entries() const { return acknowledged_; }

 private:
  void run() {
    for (int number = 1; !ended_; ++number) {
      const std::string entry = id_ + " " + std::to_string(number) + " entry-" + std::to_string(number);
      if (const auto position = append(entry)) {
        acknowledged_.emplace_back(entry, *position);
        ++count_;
      }
    }
  }
  std::optional<std::size_t> append(const std::string& entry) {
    while (!ended_) {
      if (line_ == nullptr) line_ = std::make_unique<Line>(members_[at_]->address());
      const std::optional<std::string> answer = line_->ask("append " + entry);
      if (answer && answer->starts_with("ok ")) return std::stoul(answer->substr(3));
      line_.reset();
      at_ = (at_ + 1) % members_.size();
      if (!answer && random_() % 4 == 0) return std::nullopt;
      if (answer) std::this_thread::sleep_for(5ms);  // The pace of a client that was refused.
    }
    return std::nullopt;
  }

  const std::string id_;
  const std::vector<std::unique_ptr<Member>>& members_;
  std::minstd_rand random_;
  std::size_t at_ = 0;
  std::unique_ptr<Line> line_;
  std::atomic<bool> ended_{false};
  std::atomic<std::size_t> count_{0};
  std::vector<std::pair<std::string, std::size_t>> acknowledged_;
  std::thread thread_;
};

class ReplicatedLog : public testkit::RecipeFaultTest {
 protected:
  ReplicatedLog() : RecipeFaultTest("/replicated_log"), random_(seed_) {
    for (const char* id : {"a", "b", "c"})
      members_.push_back(std::make_unique<Member>(id, server.connect_string(), minutes_));
    EXPECT_TRUE(eventually([this] { return primary() != nullptr && all_in_sync(); }, patience));
    begin_writing();
  }
  void begin_writing() {
    for (const char* id : {"x", "y"})
      writers_.push_back(
          std::make_unique<Writer>(id + std::to_string(writers_.size()), members_, static_cast<unsigned>(random_())));
  }
  void stop_writing() {
    for (const auto& writer : writers_)
      writer->stop();
  }
  void TearDown() override {
    stop_writing();
    RecipeFaultTest::TearDown();
  }

  std::vector<std::unique_ptr<Member>>& members() { return members_; }
  Minutes& minutes() { return minutes_; }
  unsigned seed() const { return seed_; }
  std::size_t random(std::size_t below) { return random_() % below; }

  Member* primary() {
    for (const auto& member : members_) {
      if (member->state().role == "primary") return member.get();
    }
    return nullptr;
  }
  Member& wait_for_primary() {
    Member* found = nullptr;
    EXPECT_TRUE(eventually([&] { return (found = primary()) != nullptr; }, patience));
    return found != nullptr ? *found : *members_[0];
  }
  /// The primary, and the epoch in which it is that: if it ceases to be it before the test does anything, the next epoch
  /// has begun all the same.
  std::pair<Member*, std::int64_t> primary_and_epoch() {
    for (;;) {
      const std::int64_t epoch = agreed_epoch();
      Member& found = wait_for_primary();
      if (agreed_epoch() == epoch || HasFailure()) return {&found, epoch};
    }
  }
  Member& a_secondary() {
    Member* found = nullptr;
    EXPECT_TRUE(eventually(
        [&] {
          for (const auto& member : members_) {
            if (member->state().role == "secondary") found = member.get();
          }
          return found != nullptr;
        },
        patience));
    return found != nullptr ? *found : *members_[0];
  }
  bool all_in_sync() {
    return std::all_of(members_.begin(), members_.end(), [](const auto& member) {
      const std::string role = member->state().role;
      return role == "primary" || role == "secondary";
    });
  }
  /// Clients are told of more entries than so far, and of one of a later epoch than `former`.
  bool goes_on(std::size_t entries = 20, std::int64_t former = 0) {
    const std::size_t before = minutes_.count();
    return eventually([&] { return minutes_.count() >= before + entries && minutes_.last_epoch() > former; }, patience);
  }
  std::string agreed_state() { return the_operator().get("/replicated_log/state", {.deadline = testkit::soon()}).data; }
  std::int64_t agreed_epoch() {
    const std::string key = "epoch=";
    const std::string state = agreed_state();
    return std::stoll(state.substr(state.find(key) + key.size()));
  }
  /// As the group has agreed.
  std::size_t in_sync_besides(const std::string& id) {
    std::istringstream state(agreed_state());
    std::size_t count = 0;
    std::string line;
    std::getline(state, line);
    while (std::getline(state, line))
      count += !id.empty() && line.starts_with(id + " ") ? 0 : 1;
    return count;
  }
  void start_all() {
    for (const auto& member : members_) {
      if (!member->runs()) member->start();
    }
  }
  /// While all are in sync: on a machine that is too busy one may be taken out in this very moment.
  void kill_all() {
    do {
      start_all();
      EXPECT_TRUE(eventually([this] { return all_in_sync(); }, patience));
      for (const auto& member : members_)
        member->kill();
    } while (in_sync_besides("") != members_.size());
  }
  /// All members have one and the same log, with every acknowledged entry in its place, once.
  void expect_nothing_lost() {
    stop_writing();
    std::vector<std::vector<std::string>> logs;
    const auto equal = [&] {
      logs.clear();
      if (!all_in_sync()) return false;
      const std::size_t count = members_[0]->state().count;
      for (const auto& member : members_) {
        const auto entries = member->entries();
        if (!entries || entries->size() != count || member->state().count != count) return false;
        logs.push_back(*entries);
      }
      return true;
    };
    ASSERT_TRUE(eventually(equal, patience));
    for (const auto& log : logs)
      EXPECT_EQ(log, logs[0]);
    std::set<std::string> once;
    for (const std::string& entry : logs[0])
      EXPECT_TRUE(once.insert(entry).second) << "doubled: " << entry;
    for (const auto& writer : writers_) {
      std::optional<std::size_t> before;
      for (const auto& [entry, position] : writer->entries()) {
        ASSERT_LT(position, logs[0].size()) << "lost: " << entry;
        EXPECT_EQ(logs[0][position], entry);
        EXPECT_TRUE(!before || *before < position) << "reordered: " << entry;
        before = position;
      }
    }
    minutes_.expect_one_primary_at_a_time();
  }

 private:
  const unsigned seed_ = testkit::seed();
  std::minstd_rand random_;
  Minutes minutes_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Writer>> writers_;
};

TEST_F(ReplicatedLog, KilledPrimaryLosesNothing) {
  ASSERT_TRUE(goes_on());
  const auto [leading, epoch] = primary_and_epoch();
  Member& victim = *leading;
  victim.kill();
  ASSERT_TRUE(goes_on(20, epoch));
  victim.start();
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, StoppedPrimaryAcknowledgesNothing) {
  ASSERT_TRUE(goes_on());
  const auto [leading, epoch] = primary_and_epoch();
  Member& victim = *leading;
  victim.process().pause();
  Line line(victim.address(), testkit::patience);
  line.send("append late 1 too-late\n");
  ASSERT_TRUE(goes_on(20, epoch));
  victim.process().resume();
  const std::optional<std::string> answer = line.hear();
  EXPECT_FALSE(answer && answer->starts_with("ok")) << *answer;
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, CutOffPrimaryAcknowledgesNothing) {
  ASSERT_TRUE(goes_on());
  const auto [leading, epoch] = primary_and_epoch();
  Member& victim = *leading;
  victim.cable().stall(Direction::both);
  ASSERT_TRUE(goes_on(20, epoch));
  Line line(victim.address(), testkit::patience);
  const std::optional<std::string> answer = line.ask("append late 1 too-late");
  EXPECT_TRUE(answer && answer->starts_with("no")) << answer.value_or("nothing");
  victim.cable().unstall(Direction::both);
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, SilentSecondaryIsTakenOut) {
  ASSERT_TRUE(goes_on());
  Member* victim = nullptr;
  for (std::string role; role != "out" && !HasFailure();) {
    if (victim != nullptr) victim->link().unstall(Direction::both);  // It was about to become the primary.
    victim = &a_secondary();
    victim->link().stall(Direction::both);
    const auto is_out_or_primary = [&] {
      role = victim->state().role;
      return role == "out" || role == "primary";
    };
    ASSERT_TRUE(eventually(is_out_or_primary, patience));
  }
  ASSERT_TRUE(goes_on()) << "two are enough";
  victim->link().unstall(Direction::both);
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, StoppedSecondaryIsTakenOut) {
  ASSERT_TRUE(goes_on());
  Member& victim = a_secondary();
  victim.process().pause();
  ASSERT_TRUE(goes_on(100));
  victim.process().resume();
  expect_nothing_lost();
}

// What one secondary has and the other one has not is not acknowledged, and nobody reads it. When the other one takes
// over, it is cut off.
TEST_F(ReplicatedLog, NewPrimaryMakesAllEqual) {
  ASSERT_TRUE(goes_on());
  stop_writing();
  Member& first = wait_for_primary();
  std::vector<Member*> others;  // In this order they are sent an entry.
  for (const auto& member : members()) {
    if (member.get() != &first) others.push_back(member.get());
  }
  Member& longer = *others[0];
  Member& shorter = *others[1];
  Line line(first.address(), testkit::patience);
  shorter.link().stall(Direction::both);
  line.send("append odd 1 not-everywhere\n");
  ASSERT_TRUE(eventually([&] { return longer.state().count > shorter.state().count; }));
  const std::size_t last = longer.state(patience).count - 1;
  const std::string read = Line(longer.address(), testkit::patience).ask("read " + std::to_string(last)).value_or("");
  longer.kill();
  first.kill();
  const std::string answer = line.hear().value_or("");
  shorter.link().cut();  // What is held there would still reach it, and be taken: no other epoch has begun.
  shorter.link().unstall(Direction::both);
  const bool all = in_sync_besides("") == members().size();  // Else the machine was so slow that one was taken out.
  if (all) {
    EXPECT_FALSE(read.starts_with("ok")) << read;
    EXPECT_FALSE(answer.starts_with("ok")) << answer;
    EXPECT_TRUE(eventually([&] { return shorter.state().role == "primary"; }, patience));
  }
  longer.start();
  EXPECT_TRUE(
      eventually([&] { return primary() != nullptr && longer.state().count == shorter.state().count; }, patience))
      << "before anything new is written";
  begin_writing();
  ASSERT_TRUE(goes_on());
  first.start();
  expect_nothing_lost();
  const auto entries = shorter.entries().value_or(std::vector<std::string>());
  EXPECT_FALSE(all && std::count(entries.begin(), entries.end(), "odd 1 not-everywhere") > 0);
}

TEST_F(ReplicatedLog, LowerEpochIsRefused) {
  ASSERT_TRUE(goes_on());
  const std::string old = "replicate 0 " + std::to_string(minutes().last_epoch() - 1) + " 0 0 14695981039346656037";
  Member& member = a_secondary();
  EXPECT_TRUE(Line(member.address(), testkit::patience).ask(old).value_or("").starts_with("refused"));
  kill_all();
  member.start();
  EXPECT_TRUE(Line(member.address(), testkit::patience).ask(old).value_or("").starts_with("refused")) << "it forgot";
  start_all();
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

// It is the only one that could take over, and has every entry.
TEST_F(ReplicatedLog, TornTailIsCut) {
  ASSERT_TRUE(goes_on());
  Member& torn = a_secondary();
  const std::string storage = torn.state(patience).storage;
  kill_all();
  const auto size = torn.log_size();
  torn.append_torn_record();
  torn.cable().stall(Direction::both);  // As the primary it would begin an epoch there.
  torn.start();
  EXPECT_EQ(torn.log_size(), size);
  torn.cable().unstall(Direction::both);
  ASSERT_TRUE(eventually([&] { return torn.state().role == "primary"; }, patience));
  EXPECT_EQ(torn.state(patience).storage, storage);
  start_all();
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

// It is the only one that is there, but has lost what it had confirmed.
TEST_F(ReplicatedLog, LostTailIsANewStorage) {
  ASSERT_TRUE(goes_on());
  Member& torn = a_secondary();
  const std::string storage = torn.state(patience).storage;
  const std::size_t confirmed = torn.state(patience).count;  // One more may be in the file, and not yet confirmed.
  kill_all();
  torn.tear_to(torn.size_of(confirmed) - 1);
  torn.start();
  ASSERT_TRUE(eventually([&] { return torn.state().role == "out"; }, patience));
  EXPECT_NE(torn.state(patience).storage, storage);
  start_all();
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, EmptiedDiskIsANewStorage) {
  ASSERT_TRUE(goes_on());
  Member& emptied = a_secondary();
  const std::string storage = emptied.state(patience).storage;
  kill_all();
  emptied.empty_disk();
  emptied.start();
  ASSERT_TRUE(eventually([&] { return emptied.state().role == "out"; }, patience));
  EXPECT_NE(emptied.state(patience).storage, storage);
  start_all();
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, BadBytesEndTheirConnection) {
  ASSERT_TRUE(goes_on());
  const std::string long_line(10'000, 'x');
  for (const std::string& bad :
       {std::string("hello"), std::string("read x"), std::string("append"), "append x 1 " + long_line, long_line,
        std::string("replicate 1000000 1 0 0 0"),
        "replicate 1 " + std::to_string(minutes().last_epoch()) + " 0 0 14695981039346656037\nx"}) {
    Line line(members()[0]->address(), testkit::patience);
    EXPECT_FALSE(line.ask(bad)) << bad.substr(0, 40);
  }
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, ClientsThatDoNotListenHarmNobody) {
  for (int i = 0; i < 100; ++i) {
    std::string many;
    for (int j = 0; j < 100; ++j)
      many += "state\n";
    Line(members()[static_cast<std::size_t>(i) % members().size()]->address()).send(many);
  }
  ASSERT_TRUE(goes_on());
  expect_nothing_lost();
}

TEST_F(ReplicatedLog, RandomFaultsLoseNothing) {
  std::cout << "seed " << seed() << " (ZKRECIPES_SEED)\n";
  const char* given = std::getenv("ZKRECIPES_RUNS");
  const int rounds = given != nullptr ? std::atoi(given) : 3;
  std::vector<std::size_t> faults;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(goes_on()) << round;
    // With a member emptied or torn, the other two have to have everything: one at a time.
    ASSERT_TRUE(eventually([this] { return all_in_sync(); }, patience)) << round;
    Member& victim = random(2) == 0 ? wait_for_primary() : *members()[random(3)];
    if (faults.empty()) faults = {0, 1, 2, 3, 4, 5, 6};
    const auto chosen = faults.begin() + static_cast<std::ptrdiff_t>(random(faults.size()));
    std::size_t fault = *chosen;
    faults.erase(chosen);  // Each once before any comes again.
    std::cout << "round " << round << ": fault " << fault << " of " << victim.id() << "\n";
    switch (fault) {
      case 0: victim.process().pause(); break;
      case 1: victim.cable().stall(Direction::both); break;
      case 2: victim.link().stall(Direction::both); break;
      default: victim.kill(); break;
    }
    if (random(3) != 0) {
      EXPECT_TRUE(goes_on()) << round;
    }
    if (!victim.runs() && in_sync_besides(victim.id()) == 0) fault = 6;  // Nobody else has all of it.
    switch (fault) {
      case 0: victim.process().resume(); break;
      case 1: victim.cable().unstall(Direction::both); break;
      case 2: victim.link().unstall(Direction::both); break;
      case 3: victim.empty_disk(); break;
      case 4: victim.append_torn_record(); break;
      case 5: victim.tear_to(random(victim.log_size())); break;
      default: break;
    }
    if (!victim.runs()) victim.start();
  }
  expect_nothing_lost();
}

}  // namespace
}  // namespace zkrecipes
