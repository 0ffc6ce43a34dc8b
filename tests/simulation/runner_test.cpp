// The runner of the simulated storm: its options, its books, and how it makes worlds smaller.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "storm/simulated/arguments.hpp"
#include "storm/simulated/campaign.hpp"
#include "storm/simulated/draw.hpp"
#include "storm/simulated/report.hpp"
#include "storm/simulated/shrink.hpp"
#include "storm/simulated/state.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using storm::Arguments;
using storm::MadeTrouble;
using storm::Outcome;
using storm::ScenarioOptions;
using storm::SeedSet;
using storm::State;
using storm::StateError;
using storm::StateFile;
using storm::Trouble;
using storm::UsageError;
using storm::Verdict;
using storm::Workload;
using storm::WorldResult;

// --- Seeds ---------------------------------------------------------------------------------------

TEST(SeedSet, JoinsWhatTouches) {
  SeedSet set;
  for (const std::uint64_t seed : {5U, 1U, 3U, 2U, 9U, 4U, 8U})
    set.add(seed);
  EXPECT_EQ(set.text(), "1-5,8-9");
  set.add(4, 8);
  EXPECT_EQ(set.text(), "1-9");
  EXPECT_EQ(set.size(), 9u);
  EXPECT_TRUE(set.contains(9));
  EXPECT_FALSE(set.contains(10));
  EXPECT_FALSE(set.contains(0));
}

TEST(SeedSet, IsReadAsItIsWritten) {
  for (const std::string text : {"-", "7", "1-3,5,9-18446744073709551614"})
    EXPECT_EQ(SeedSet::parse(text).text(), text);
  for (const std::string text : {"", ",", "1,", "x", "1-", "-1", "3-2", "1-2-3", " 1", "18446744073709551616"})
    EXPECT_THROW(SeedSet::parse(text), std::invalid_argument) << text;
}

// --- Arguments -----------------------------------------------------------------------------------

Arguments parsed(const std::string& line) {
  std::istringstream all(line);
  std::vector<std::string> words;
  for (std::string word; all >> word;)
    words.push_back(word);
  return storm::parse_arguments(words);
}
std::string complaint_about(const std::string& line) {
  try {
    parsed(line);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(StormArguments, SayWhichWorlds) {
  EXPECT_EQ(parsed("").seeds.text(), "1-10");
  EXPECT_EQ(parsed("").workloads.size(), storm::workloads().size());
  const Arguments many = parsed("--workload mutex,queue --seeds 3-5,9 --jobs 2 --for 60 --state f --twice --first");
  ASSERT_EQ(many.workloads.size(), 2u);
  EXPECT_EQ(many.workloads[1]->name, "queue");
  EXPECT_EQ(many.seeds.text(), "3-5,9");
  EXPECT_EQ(many.jobs, 2);
  EXPECT_EQ(many.time, 60s);
  EXPECT_EQ(many.failures, "f.failures");
  EXPECT_TRUE(many.twice && many.first_only);
  EXPECT_FALSE(many.only_report);
  EXPECT_GT(parsed("--for 60").seeds.size(), 1'000'000'000u);
  EXPECT_TRUE(parsed("--fresh 3").seeds.empty());
  EXPECT_TRUE(parsed("--report --state f").only_report);
  EXPECT_FALSE(parsed("--report --state f --seeds 1-2").only_report);
}

TEST(StormArguments, SayWhatIsLeftOut) {
  const Arguments one =
      parsed("--workload mutex --replay 17 --without 3,drift,12 --processes 2 --seconds 9 --course 4");
  EXPECT_TRUE(one.replay);
  EXPECT_EQ(one.seeds.text(), "17");
  EXPECT_EQ(one.worlds.left_out, (std::vector<int>{3, 12}));
  EXPECT_EQ(one.worlds.without, (std::vector<Trouble>{Trouble::drift}));
  EXPECT_EQ(one.worlds.processes, 2);
  EXPECT_EQ(one.worlds.seconds, 9);
  EXPECT_EQ(one.worlds.course, 4u);
  // And that is how it is printed.
  EXPECT_EQ(replay_arguments("mutex", one.worlds),
            "--workload mutex --replay 17 --without drift,3,12 --processes 2 --seconds 9 --course 4");
}

TEST(StormArguments, ThatMakeNoSenseAreRefusedWithASentence) {
  EXPECT_EQ(complaint_about("--frobnicate"), "unknown option --frobnicate: see --help");
  EXPECT_EQ(complaint_about("--seeds"), "--seeds needs a value: see --help");
  EXPECT_EQ(complaint_about("--seeds 5-3"), "--seeds: 5-3 ends before it begins");
  EXPECT_EQ(complaint_about("--jobs 0"), "--jobs: 0 is not between 1 and 1000");
  EXPECT_EQ(complaint_about("--without nonsense"), "--without: \"nonsense\" is not a number");
  EXPECT_NE(complaint_about("--workload nonsense").find("there are: mutex"), std::string::npos);
  EXPECT_NE(complaint_about("--shrink 3"), "");
  EXPECT_NE(complaint_about("--shrink 3 --workload mutex,queue"), "");
  EXPECT_NE(complaint_about("--replay 3 --shrink 3 --workload mutex"), "");
  EXPECT_NE(complaint_about("--replay 3 --seeds 4"), "");
  EXPECT_NE(complaint_about("--replay 3 --state f"), "");
  EXPECT_NE(complaint_about("--without drift --state f"), "");
}

// --- State ---------------------------------------------------------------------------------------

class StormRunner : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

 private:
  testkit::TemporaryFolder folder_;
};

State some_state() {
  WorldResult result;
  result.processor_seconds = 0.25;
  result.outcome.made = {{1, Trouble::drift}, {2, Trouble::kill_server}, {3, Trouble::drift}};
  State state{.program = "0123456789abcdef", .seconds = 40, .workloads = {}};
  state.workloads["mutex"].add(1, result);
  state.workloads["mutex"].add(2, result);
  result.verdict = Verdict::judged;
  state.workloads["queue"].add(7, result);
  return state;
}

TEST_F(StormRunner, StateCountsWorldsAndTroubles) {
  const State state = some_state();
  const storm::Tally& mutex = state.workloads.at("mutex");
  EXPECT_EQ(mutex.seeds.text(), "1-2");
  EXPECT_TRUE(mutex.failed.empty());
  EXPECT_EQ(mutex.milliseconds, 500u);
  EXPECT_EQ(mutex.troubles.at("drift"), (storm::TroubleCount{.worlds = 2, .times = 4}));
  EXPECT_EQ(state.workloads.at("queue").failed.text(), "7");
  const std::string table = table_of(state);
  EXPECT_NE(table.find("drift                            3   100.0%            6"), std::string::npos) << table;
}

TEST_F(StormRunner, StateIsReadAsItWasWritten) {
  const StateFile file(path("state"));
  EXPECT_FALSE(storm::load_state(path("state")));
  file.save(some_state());
  EXPECT_EQ(storm::load_state(path("state")), some_state());  // Although a run has it.
  EXPECT_EQ(file.load_for("0123456789abcdef", 40), some_state());
}

TEST_F(StormRunner, ATornStateIsRefused) {
  const std::string whole = to_text(some_state());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(storm::parse_state(whole.substr(0, size)), StateError) << size;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = changed[at] == '7' ? '8' : '7';
    EXPECT_THROW(storm::parse_state(changed), StateError) << at;
  }
  EXPECT_THROW(storm::parse_state(whole + whole), StateError);
  EXPECT_EQ(storm::parse_state(whole), some_state());
}

TEST_F(StormRunner, AForeignFileIsRefusedAndStaysAsItIs) {
  write(path("letter"), "Dear reader,\n");
  const StateFile file(path("letter"));
  try {
    static_cast<void>(file.load_for("", 0));
    FAIL();
  } catch (const StateError& error) {
    EXPECT_EQ(error.what(), path("letter") + " is not a state of simulated_storm");
  }
  EXPECT_EQ(text_of(path("letter")), "Dear reader,\n");
}

TEST_F(StormRunner, AStateOfOtherWorldsIsRefused) {
  const StateFile file(path("state"));
  file.save(some_state());
  EXPECT_THROW(static_cast<void>(file.load_for("another", 40)), StateError);
  EXPECT_THROW(static_cast<void>(file.load_for("0123456789abcdef", 41)), StateError);
}

TEST_F(StormRunner, AStateHasOneRun) {
  const StateFile file(path("state"));
  EXPECT_THROW(StateFile(path("state")), StateError);
}

// --- Worlds apart, and campaigns -----------------------------------------------------------------

const Workload& any_workload() { return storm::workloads().front(); }

WorldResult apart(const storm::Play& play, std::chrono::seconds processor_time = 60s) {
  return play_apart(play, any_workload(), {.seed = 3, .without = {}, .left_out = {}},
                    {.processor_time = processor_time});
}

TEST_F(StormRunner, AWorldTellsWhatItHasSeen) {
  const WorldResult result = apart([](const Workload& workload, const ScenarioOptions& options) {
    ::fputs("a word\n", stderr);
    Outcome outcome;
    outcome.world = workload.name;
    outcome.story = {"first", "", "third\nline"};
    outcome.faults = {"two holders", "and none"};
    outcome.made = {{4, Trouble::drift}};
    outcome.trace = options.seed;
    outcome.turns = ~std::uint64_t{0};
    return outcome;
  });
  EXPECT_EQ(result.verdict, Verdict::judged);
  EXPECT_EQ(result.said, (std::vector<std::string>{"a word"}));
  EXPECT_EQ(result.outcome.world, any_workload().name);
  EXPECT_EQ(result.outcome.story, (std::vector<std::string>{"first", "", "third line"}));
  EXPECT_EQ(result.outcome.faults, (std::vector<std::string>{"two holders", "and none"}));
  ASSERT_EQ(result.outcome.made.size(), 1u);
  EXPECT_EQ(result.outcome.made[0].number, 4);
  EXPECT_EQ(result.outcome.made[0].kind, Trouble::drift);
  EXPECT_EQ(result.outcome.trace, 3u);
  EXPECT_EQ(result.outcome.turns, ~std::uint64_t{0});
}

TEST_F(StormRunner, AWorldWhoseProcessEndsHasFailed) {
  const WorldResult aborted = apart([](const auto&, const auto&) -> Outcome {
    ::fputs("last words\n", stderr);
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  EXPECT_EQ(aborted.verdict, Verdict::crashed);
  EXPECT_EQ(aborted.outcome.faults, (std::vector<std::string>{"the process was ended by Aborted (signal 6)"}));
  EXPECT_EQ(aborted.said, (std::vector<std::string>{"last words"}));
  const WorldResult left = apart([](const auto&, const auto&) -> Outcome { ::_exit(0); });
  EXPECT_EQ(left.verdict, Verdict::crashed);
}

TEST_F(StormRunner, AWorldThatTakesTooLongHasFailed) {
  const WorldResult result = apart(
      [](const auto&, const auto&) -> Outcome {
        for (volatile std::uint64_t count = 0;;)
          count = count + 1;
      },
      1s);
  EXPECT_EQ(result.verdict, Verdict::out_of_time);
  EXPECT_EQ(result.outcome.faults, (std::vector<std::string>{"out of time: more than 1 s of processor time"}));
  EXPECT_GT(result.processor_seconds, 0);
}

TEST_F(StormRunner, AWorldThatStandsStillHasFailed) {
  const auto stand_still = [](const auto&, const auto&) -> Outcome {
    for (;;)
      ::pause();
  };
  const WorldResult result =
      play_apart(stand_still, any_workload(), {.seed = 3, .without = {}, .left_out = {}}, {.standstill = 1s});
  EXPECT_EQ(result.verdict, Verdict::out_of_time);
  EXPECT_EQ(result.outcome.faults, (std::vector<std::string>{"out of time: stood still for 1 s"}));
  EXPECT_GT(result.said.size(), 1U) << "where it stands";
}

/// Every third seed fails.
Outcome play_thirds(const Workload&, const ScenarioOptions& options) {
  Outcome outcome;
  outcome.made = {{1, Trouble::drift}};
  outcome.trace = options.seed;
  if (options.seed % 3 == 0) outcome.faults.emplace_back("a third");
  return outcome;
}

storm::CampaignOptions two_workloads(const std::string& seeds, int jobs) {
  return {.workloads = {&storm::workloads()[0], &storm::workloads()[1]},
          .seeds = SeedSet::parse(seeds),
          .worlds = {.without = {}, .left_out = {}},
          .bounds = {},
          .jobs = jobs,
          .time = std::nullopt};
}

TEST_F(StormRunner, ACampaignPlaysEachWorldOnce) {
  State state;
  int told = 0;
  const auto tell = [&](const auto&, const auto&, const auto&) { ++told; };
  const auto first = storm::Campaign(two_workloads("1-4", 3), play_thirds, state, tell, [](const State&) {}).run();
  EXPECT_EQ(first.worlds, 8u);
  EXPECT_EQ(first.failed, 2u);
  EXPECT_EQ(told, 8);
  // It goes on where it was.
  const auto second = storm::Campaign(two_workloads("2-7", 2), play_thirds, state, tell, [](const State&) {}).run();
  EXPECT_EQ(second.worlds, 6u);
  EXPECT_EQ(second.failed, 2u);
  ASSERT_EQ(state.workloads.size(), 2u);
  for (const auto& [name, tally] : state.workloads) {
    EXPECT_EQ(tally.seeds.text(), "1-7") << name;
    EXPECT_EQ(tally.failed.text(), "3,6") << name;
    EXPECT_EQ(tally.troubles.at("drift").times, 7u) << name;
  }
}

TEST_F(StormRunner, ACampaignNotesAFailureAtOnce) {
  State state;
  std::vector<std::string> saved;
  auto options = two_workloads("1-100", 1);
  options.first_only = true;
  const auto save = [&](const State& now) { saved.push_back(to_text(now)); };
  const auto result = storm::Campaign(
                          options, play_thirds, state, [](const auto&, const auto&, const auto&) {}, save)
                          .run();
  EXPECT_EQ(result.failed, 1u);
  EXPECT_EQ(result.worlds, 5u);  // Two of seed 1, two of 2, and one of 3.
  ASSERT_FALSE(saved.empty());
  EXPECT_EQ(saved.front(), to_text(state));
}

TEST_F(StormRunner, ACampaignFindsWorldsThatDiffer) {
  State state;
  auto options = two_workloads("1", 1);
  options.twice = true;
  const auto play = [](const Workload&, const ScenarioOptions&) {
    Outcome outcome;
    outcome.trace = static_cast<std::uint64_t>(::getpid());
    return outcome;
  };
  std::vector<std::string> faults;
  const auto tell = [&](const auto&, const auto&, const WorldResult& result) { faults = result.outcome.faults; };
  EXPECT_EQ(storm::Campaign(options, play, state, tell, [](const State&) {}).run().failed, 2u);
  EXPECT_EQ(faults, (std::vector<std::string>{"the same seed gave another world"}));
}

// --- Shrinking -----------------------------------------------------------------------------------

TEST(Judgement, HasNoNamesAndNumbers) {
  EXPECT_EQ(storm::judgement("item 17 was popped twice"), storm::judgement("item 4002 was popped twice"));
  EXPECT_EQ(storm::judgement("valid at once: p1 with token 3"), "valid at once");
  EXPECT_NE(storm::judgement("item 17 was popped twice"), storm::judgement("item 17 was never pushed"));
  EXPECT_NE(storm::judgement("the process was ended by Aborted (signal 6)"),
            storm::judgement("the process was ended by Segmentation fault (signal 11)"));
}

/// A made world: 20 troubles, one a second, in the order of the kinds. It fails as `fails` says.
using Happens = std::function<bool(int number)>;
WorldResult made_world(const ScenarioOptions& options,
                       const std::function<std::vector<std::string>(const Happens&, const ScenarioOptions&)>& judge) {
  WorldResult result;
  const auto left_out = [&](int number) {
    const auto kind = static_cast<Trouble>(number % storm::troubles);
    return std::count(options.left_out.begin(), options.left_out.end(), number) > 0 ||
           std::count(options.without.begin(), options.without.end(), kind) > 0 || number > options.seconds;
  };
  for (int number = 1; number <= 20; ++number) {
    if (!left_out(number)) result.outcome.made.push_back({number, static_cast<Trouble>(number % storm::troubles)});
  }
  result.outcome.faults = judge([&](int number) { return number <= 20 && !left_out(number); }, options);
  result.verdict = result.outcome.faults.empty() ? Verdict::well : Verdict::judged;
  return result;
}

std::vector<int> numbers_of(const WorldResult& result) {
  std::vector<int> numbers;
  for (const MadeTrouble& one : result.outcome.made)
    numbers.push_back(one.number);
  return numbers;
}

TEST(Shrinking, LeavesWhatTheFailureNeeds) {
  const auto judge = [](const Happens& happens, const ScenarioOptions& options) {
    std::vector<std::string> faults;
    if (happens(3) && happens(11) && options.processes >= 2) faults.emplace_back("valid at once: p1 and p2");
    if (!happens(3)) faults.emplace_back("another fault");  // Not that one.
    return faults;
  };
  int trials = 0;
  const storm::Trial trial = [&](const ScenarioOptions& options) {
    ++trials;
    auto chosen = options;
    if (chosen.processes == 0) chosen.processes = 4;
    return made_world(chosen, judge);
  };
  const storm::Smallest smallest = shrink({.seed = 9, .seconds = 40, .without = {}, .left_out = {}}, 4, trial);
  EXPECT_EQ(numbers_of(smallest.result), (std::vector<int>{3, 11}));
  EXPECT_EQ(smallest.options.processes, 2);
  EXPECT_EQ(smallest.options.seconds, 11);
  EXPECT_EQ(smallest.options.seed, 9u);
  EXPECT_EQ(smallest.trials, trials);
  EXPECT_LT(trials, 300);
  EXPECT_EQ(smallest.result.outcome.faults, (std::vector<std::string>{"valid at once: p1 and p2"}));
}

TEST(Shrinking, LeavesNothingOfAWorldThatFailsByItself) {
  const storm::Trial trial = [](const ScenarioOptions& options) {
    return made_world(options, [](const auto&, const auto&) { return std::vector<std::string>{"always"}; });
  };
  const storm::Smallest smallest = shrink({.seconds = 40, .without = {}, .left_out = {}}, 3, trial);
  EXPECT_TRUE(smallest.result.outcome.made.empty());
  EXPECT_EQ(smallest.options.processes, 1);
  EXPECT_EQ(smallest.options.seconds, 1);
  EXPECT_EQ(smallest.options.course, 0u);
}

TEST(Shrinking, TriesOtherCourses) {
  const storm::Trial trial = [](const ScenarioOptions& options) {
    return made_world(options, [](const Happens& happens, const ScenarioOptions& world) {
      // With fewer troubles it shows in another course only.
      const bool shows = happens(3) && (happens(11) || world.course == 2);
      return shows ? std::vector<std::string>{"always"} : std::vector<std::string>();
    });
  };
  const storm::Smallest smallest = shrink({.seconds = 40, .without = {}, .left_out = {}}, 3, trial);
  EXPECT_EQ(numbers_of(smallest.result), (std::vector<int>{3}));
  EXPECT_EQ(smallest.options.course, 2u);
  EXPECT_EQ(numbers_of(shrink({.seconds = 40, .without = {}, .left_out = {}}, 3, trial, {.courses = 2}).result),
            (std::vector<int>{3, 11}));
}

TEST(Shrinking, LeavesAWorldAloneThatDoesNotFail) {
  const storm::Trial trial = [](const ScenarioOptions& options) {
    return made_world(options, [](const auto&, const auto&) { return std::vector<std::string>(); });
  };
  const storm::Smallest smallest = shrink({.seconds = 40, .without = {}, .left_out = {}}, 3, trial);
  EXPECT_FALSE(smallest.first.failed());
  EXPECT_EQ(smallest.trials, 1);
}

TEST(Shrinking, EndsWhenItHasTriedEnough) {
  int trials = 0;
  const storm::Trial trial = [&](const ScenarioOptions& options) {
    ++trials;
    return made_world(options, [](const Happens& happens, const auto&) {
      return happens(3) && happens(11) ? std::vector<std::string>{"always"} : std::vector<std::string>();
    });
  };
  static_cast<void>(shrink({.seconds = 40, .without = {}, .left_out = {}}, 3, trial, {.most_trials = 7}));
  EXPECT_EQ(trials, 7);
}

// --- Real worlds ---------------------------------------------------------------------------------

void wait_for_the_end(storm::Place& place) {
  while (!place.stopped())
    place.pause(200);
}
storm::Faults refuse_isolation(const storm::History& history) {
  for (const storm::Entry& entry : history.entries()) {
    if (entry.what == "isolated") return {"a server was isolated: " + entry.who};
  }
  return {};
}
const Workload made_workload{"made", 3, wait_for_the_end, [](storm::Place&) {}, refuse_isolation};

/// Whom they hit. Turns of others move the time by microseconds, and the end by the sleep of a machine.
std::vector<std::string> isolations_in(const std::vector<std::string>& story) {
  std::vector<std::string> found;
  for (const std::string& line : story) {
    if (line.find(" isolated ") != std::string::npos) found.push_back(line.substr(line.find(" s")));
  }
  return found;
}

/// It is known before the world begins which server that will be.
bool isolates_one_server(std::uint64_t seed) {
  const storm::WorldDraw drawn = storm::draw(seed);
  int isolations = 0;
  bool is_aimed = false;
  for (const storm::Plan& one : plan(drawn, seed, made_workload.processes, drawn.troubled)) {
    if (one.kind != Trouble::isolate_server) continue;
    ++isolations;
    is_aimed = one.aim != storm::Aim::anybody;
  }
  return isolations == 1 && !is_aimed;
}

/// A seed whose world isolates a server, and does other things, too.
std::uint64_t seed_that_isolates() {
  for (std::uint64_t seed = 1;; ++seed) {
    if (!isolates_one_server(seed)) continue;
    const Outcome outcome = run_scenario(made_workload, {.seed = seed, .without = {}, .left_out = {}});
    if (!outcome.faults.empty() && outcome.made.size() > 6) return seed;
  }
}

TEST(ShrinkingOfAWorld, LeavesOneTrouble) {
  const std::uint64_t seed = seed_that_isolates();
  const storm::Trial trial = [](const ScenarioOptions& options) {
    return play_apart(storm::run_scenario, made_workload, options, {});
  };
  const storm::Smallest smallest =
      shrink({.seed = seed, .seconds = storm::drawn_seconds(seed), .without = {}, .left_out = {}}, 3, trial);
  ASSERT_EQ(smallest.result.outcome.made.size(), 1u);
  EXPECT_EQ(smallest.result.outcome.made.front().kind, Trouble::isolate_server);
  EXPECT_EQ(smallest.options.processes, 1);
  // And what is left is as it was in the whole world.
  const auto before = isolations_in(smallest.first.outcome.story);
  const auto after = isolations_in(smallest.result.outcome.story);
  ASSERT_FALSE(after.empty());
  for (const std::string& line : after)
    EXPECT_EQ(std::count(before.begin(), before.end(), line), 1) << line;
}

TEST(StoryOfAWorld, TellsOfServersWithoutAChange) {
  ScenarioOptions options{.seed = 3, .seconds = 5, .without = {}, .left_out = {}};
  const auto play = [&] {  // Apart: the libraries' globals live on from world to world.
    return play_apart(storm::run_scenario, *storm::find_workload("mutex"), options, {}).outcome;
  };
  const Outcome quiet = play();
  options.with_servers = true;
  const Outcome told = play();
  EXPECT_EQ(told.trace, quiet.trace);
  EXPECT_EQ(told.turns, quiet.turns);
  const auto tells = [](const Outcome& outcome, const std::string& what) {
    return std::any_of(outcome.story.begin(), outcome.story.end(),
                       [&](const std::string& line) { return line.find(what) != std::string::npos; });
  };
  EXPECT_TRUE(tells(told, "leads, epoch"));
  EXPECT_TRUE(tells(told, "serves p0: session 0x"));
  EXPECT_TRUE(tells(told, ": create /lock/"));
  EXPECT_FALSE(tells(quiet, "leads, epoch"));
  EXPECT_TRUE(std::is_sorted(
      told.story.begin(), told.story.end(),
      [](const std::string& one, const std::string& other) { return std::stod(one) < std::stod(other); }));
}

TEST(TroublesOfAWorld, DoNotChangeWhenOthersAreLeftOut) {
  const std::uint64_t seed = seed_that_isolates();
  const Outcome whole = run_scenario(made_workload, {.seed = seed, .without = {}, .left_out = {}});
  for (const MadeTrouble& left_out : whole.made) {
    const Outcome rest = run_scenario(made_workload, {.seed = seed, .without = {}, .left_out = {left_out.number}});
    ASSERT_EQ(rest.made.size(), whole.made.size() - 1);
    auto wanted = whole.made;
    std::erase_if(wanted, [&](const MadeTrouble& one) { return one.number == left_out.number; });
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(rest.made[i].number, wanted[i].number);
      EXPECT_EQ(rest.made[i].kind, wanted[i].kind);
    }
  }
}

}  // namespace
