// One test for each row of the table "What goes wrong" in <zkrecipes/periodic_job.hpp>, and what the job promises besides.
// Firings are of the year 2001, so all of them are due: no test waits for a clock.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/periodic_job.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers jobs_on_real_servers{"PeriodicJobFaults.BeginOrEndLost", "PeriodicJobFaults.RunnerDies",
                                                  "PeriodicJobFaults.HostsClockIsAhead"};

/// What on_error was given, taken apart where it was given.
struct Reported {
  explicit Reported(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& caught) {
      text = caught.what();
      if (const auto* ours = dynamic_cast<const Error*>(&caught)) code = ours->errc();
    } catch (int) {
      text = "no exception of the standard";
    }
  }
  std::string text;
  std::optional<Errc> code;
};

class PeriodicJobFaults : public testkit::RecipeFaultTest {
 protected:
  PeriodicJobFaults() : RecipeFaultTest("/job") { the_operator().create("/job/state", settled_before(1)); }

  struct Begun {
    int number = 0;  ///< Of the firing.
    int attempt = 0;
    FencingToken token = {};
    std::stop_token stop = {};
  };

  static JobTime firing(int number) {
    return std::chrono::sys_days(std::chrono::year(2001) / 1 / 1) + std::chrono::hours(number);
  }
  static int number_of(JobTime time) { return static_cast<int>((time - firing(0)) / 1h); }
  static std::string settled_before(int number) {
    return R"({"settled":"2001-01-01T0)" + std::to_string(number - 1) + R"(:00:00.000Z"})";
  }
  /// The firings 1 to `count`.
  static Schedule schedule(int count) {
    return [count](JobTime after) -> std::optional<JobTime> {
      const JobTime next = every(1h)(after).value();
      return next > firing(count) ? std::nullopt : std::optional(next);
    };
  }

  PeriodicJobOptions options(std::string id, RunnerDied runner_died = RunnerDied::run_again) {
    return {.missed = MissedFirings::all,
            .runner_died = runner_died,
            .id = std::move(id),
            .on_error = [errors = errors](const std::exception_ptr& error) { errors->put(Reported(error)); }};
  }
  /// Tells of each run, which ends at once.
  PeriodicJob::Task quick() {
    return [begun = begun](const std::stop_token& stop, const JobFiring& firing) { begun->put(told(stop, firing)); };
  }
  /// The first attempt of each firing runs until it is told to stop.
  PeriodicJob::Task until_stopped() {
    return [begun = begun](const std::stop_token& stop, const JobFiring& firing) {
      begun->put(told(stop, firing));
      const bool first = firing.attempt() == 1;
      EXPECT_TRUE(!first || stopped(stop));
    };
  }
  static Begun told(const std::stop_token& stop, const JobFiring& firing) {
    return {number_of(firing.time()), firing.attempt(), firing.lease().token(), stop};
  }
  void expect_next(int number, int attempt = 1) {
    const Begun next = begun->take();
    EXPECT_EQ(next.number, number);
    EXPECT_EQ(next.attempt, attempt);
  }

  PeriodicJob watcher() { return PeriodicJob(the_operator(), "/job", schedule(0), quick()); }
  bool all_settled(int count) {
    const PeriodicJob job = watcher();
    return eventually([&] { return job.status(patient())->settled == firing(count); });
  }
  /// "1-2 succeeded b", ...: the earliest first.
  std::vector<std::string> history() {
    std::vector<std::string> all;
    for (const JobRun& run : watcher().history(patient())) {
      all.push_back(std::to_string(number_of(run.firing)) + "-" + std::to_string(run.attempt) + " " +
                    to_string(run.outcome) + " " + run.runner);
    }
    std::reverse(all.begin(), all.end());
    return all;
  }
  using Texts = std::vector<std::string>;

  /// The runner's.
  std::vector<std::string> names() override {
    std::vector<std::string> all = RecipeFaultTest::names("/job");
    std::erase_if(all, [](const std::string& name) { return name.find("runner") == std::string::npos; });
    return all;
  }

  // Shared with what runs on other threads: the last on_error may come when the test is over.
  const std::shared_ptr<Box<Begun>> begun = std::make_shared<Box<Begun>>();
  const std::shared_ptr<Box<Reported>> errors = std::make_shared<Box<Reported>>();
};

TEST_F(PeriodicJobFaults, RunsEachFiringOnceAndRecordsIt) {
  const Client client = calm_direct();
  FencingToken token;
  PeriodicJob job(
      client, "/job", schedule(2),
      [&](const std::stop_token& stop, const JobFiring& firing) {
        EXPECT_TRUE(firing.lease().valid());
        client.commit(Transaction().check(firing.lease().guard()), patient());
        const auto status = watcher().status(patient());
        ASSERT_TRUE(status && status->running);
        EXPECT_EQ(status->running->firing, firing.time());
        EXPECT_EQ(status->running->outcome, JobOutcome::running);
        EXPECT_EQ(status->running->token, firing.lease().token());
        token = firing.lease().token();
        begun->put(told(stop, firing));
      },
      options("a"));
  EXPECT_EQ(job.id(), "a");
  EXPECT_EQ(job.path(), Path("/job"));
  EXPECT_FALSE(job.is_running());
  job.start();
  job.start();
  expect_next(1);
  expect_next(2);
  EXPECT_TRUE(all_settled(2));
  job.close(patient());
  job.close();
  EXPECT_EQ(error_of([&] { job.start(); }), Errc::closed);
  const std::vector<JobRun> runs = job.history(patient());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].firing, firing(2)) << "the latest first";
  EXPECT_EQ(runs[0].outcome, JobOutcome::succeeded);
  EXPECT_EQ(runs[0].runner, "a");
  EXPECT_EQ(runs[0].token, token);
  EXPECT_GT(runs[0].started, firing(2));
  EXPECT_TRUE(runs[0].duration);
  EXPECT_EQ(runs[0].error, "");
  EXPECT_FALSE(job.status(patient())->running);
  EXPECT_TRUE(remain(0));
  EXPECT_TRUE(errors->empty());
}

TEST_F(PeriodicJobFaults, ANewJobBeginsNow) {
  the_operator().remove("/job/state");
  const PeriodicJob asked = watcher();
  EXPECT_FALSE(asked.status(patient()));
  EXPECT_TRUE(asked.history(patient()).empty());
  Client client = calm_direct();
  PeriodicJob job(client, "/job", every(1h), quick(), options("a"));
  job.start();
  EXPECT_TRUE(eventually([&] { return job.status(patient()).has_value(); }));
  job.close(patient());
  EXPECT_TRUE(begun->empty());
  EXPECT_TRUE(job.history(patient()).empty());
}

// Those whom the servers refuse take turns with those that they do not.
TEST_F(PeriodicJobFaults, NeverTwoAtATime) {
  for (const RunnerDied died : {RunnerDied::run_again, RunnerDied::never_again}) {
    constexpr int count = 9;
    the_operator().set("/job/state", settled_before(1));
    std::mutex mutex;
    std::set<const Lease*> leases;  // Of the functions that run.
    std::map<int, int> times;
    std::vector<Client> clients;
    std::vector<std::unique_ptr<PeriodicJob>> jobs;
    for (const char* id : {"a", "b", "c"}) {
      clients.push_back(contended_proxied());
      const auto task = [&](const std::stop_token&, const JobFiring& firing) {
        {
          const std::lock_guard lock(mutex);
          for (const Lease* other : leases) {
            const bool others = other->valid();  // Before the own one, which was valid then if it still is.
            EXPECT_FALSE(others && firing.lease().valid());
          }
          leases.insert(&firing.lease());
          ++times[number_of(firing.time())];
        }
        std::this_thread::yield();
        const std::lock_guard lock(mutex);
        leases.erase(&firing.lease());
      };
      jobs.push_back(std::make_unique<PeriodicJob>(clients.back(), "/job", schedule(count), task, options(id, died)));
      jobs.back()->start();
    }
    flap(static_cast<unsigned>(died) + 1, [&] { return watcher().status(patient())->settled == firing(count); });
    proxy.refuse(false);
    EXPECT_TRUE(all_settled(count));
    for (const auto& job : jobs)
      job->close(patient());
    std::set<int> succeeded;
    for (const JobRun& run : watcher().history(patient())) {
      if (run.outcome == JobOutcome::succeeded) {
        EXPECT_TRUE(succeeded.insert(number_of(run.firing)).second);
      }
    }
    for (int number = 1; number <= count; ++number) {
      if (died == RunnerDied::run_again) {
        EXPECT_GE(times[number], 1);
        EXPECT_TRUE(succeeded.contains(number));
      } else {
        EXPECT_LE(times[number], 1);
      }
    }
    for (const std::string& name : RecipeFaultTest::names("/job/history"))
      the_operator().remove(Path("/job/history") / name);
  }
}

TEST_F(PeriodicJobFaults, ServerNotUpYet) {
  const Client client = calm_direct();
  server.kill();
  PeriodicJob job(client, "/job", schedule(1), quick(), options("a"));
  job.start();
  server.start();
  expect_next(1);
  EXPECT_TRUE(all_settled(1));
  EXPECT_EQ(history(), Texts{"1-1 succeeded a"});
}

TEST_F(PeriodicJobFaults, RequestFails) {
  using zkclient::Acl;
  the_operator().set_acl("/job/state", {Acl{Acl::read | Acl::admin, "world", "anyone"}});
  const Client client = calm_direct();
  PeriodicJob job(client, "/job", schedule(1), quick(), options("a"));
  job.start();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(errors->take().code, Errc::no_auth);
  EXPECT_TRUE(begun->empty()) << "no run without its begin on record";
  the_operator().set_acl("/job/state", zkclient::open_acl());
  expect_next(1);
}

// Each transaction in turn is lost, before it is applied or after: claims, begins and ends of runs.
TEST_F(PeriodicJobFaults, BeginOrEndLost) {
  const Client client = calm_proxied();
  constexpr int count = 9;
  std::vector<Fault> faults;
  for (int i = 0; i < 12; ++i)
    faults.push_back(lose(i % 2 == 0));
  PeriodicJob job(client, "/job", schedule(count), quick(), options("a"));
  job.start();
  Texts expected;
  for (int number = 1; number <= count; ++number) {
    expect_next(number);
    expected.push_back(std::to_string(number) + "-1 succeeded a");
  }
  for (Fault& fault : faults)
    EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(all_settled(count));
  job.close(patient());
  EXPECT_EQ(history(), expected);
  EXPECT_TRUE(errors->empty());
}

TEST_F(PeriodicJobFaults, RunnerDies) {
  for (const RunnerDied died : {RunnerDied::run_again, RunnerDied::never_again}) {
    const bool again = died == RunnerDied::run_again;
    const int first = again ? 1 : 3;
    Client mortal = calm_direct();
    PeriodicJob dies(mortal, "/job", schedule(first), until_stopped(), options("a", died));
    dies.start();
    const Begun run = begun->take();
    EXPECT_EQ(run.number, first);
    const Client client = calm_direct();
    PeriodicJob next(client, "/job", schedule(first + 1), quick(), options("b", died));
    next.start();
    EXPECT_TRUE(watches(client, "/job/runner"));
    EXPECT_TRUE(begun->empty());
    mortal.close();
    EXPECT_TRUE(run.stop.stop_requested());
    if (again) {
      const Begun repeated = begun->take();
      EXPECT_EQ(repeated.attempt, 2);
      EXPECT_GT(repeated.token, run.token);
    }
    expect_next(first + 1);
    EXPECT_TRUE(all_settled(first + 1));
  }
  EXPECT_EQ(history(),
            (Texts{"1-1 interrupted a", "1-2 succeeded b", "2-1 succeeded b", "3-1 interrupted a", "4-1 succeeded b"}));
}

TEST_F(PeriodicJobFaults, SessionLostWhileRunning) {
  const Client client = calm_direct();
  PeriodicJob job(client, "/job", schedule(1), until_stopped(), options("a"));
  job.start();
  const Begun first = begun->take();
  EXPECT_TRUE(job.is_running());
  expire(client);
  EXPECT_TRUE(stopped(first.stop));
  const Reported error = errors->take();
  EXPECT_EQ(error.code, Errc::not_held);
  EXPECT_NE(error.text.find("2001-01-01T01:00:00.000Z was not recorded"), std::string::npos) << error.text;
  expect_next(1, 2);
  EXPECT_TRUE(all_settled(1));
  EXPECT_EQ(history(), (Texts{"1-1 interrupted a", "1-2 succeeded a"}));
}

TEST_F(PeriodicJobFaults, ConnectionBreaksWhileRunning) {
  const Client client = calm_proxied();
  PeriodicJob job(
      client, "/job", schedule(2),
      [&](const std::stop_token& stop, const JobFiring& firing) {
        proxy.cut();
        EXPECT_TRUE(reaches(client, ConnectionState::connected));
        begun->put(told(stop, firing));
      },
      options("a"));
  job.start();
  expect_next(1);
  expect_next(2);
  EXPECT_TRUE(all_settled(2));
  EXPECT_EQ(history(), (Texts{"1-1 succeeded a", "2-1 succeeded a"}));
}

// It has lost its lease before another one runs. That tells its stop token at once, but on a thread that may be slow.
TEST_F(PeriodicJobFaults, CutOffWhileRunning) {
  const Client client = contended_proxied();
  Box<bool> next_began;
  std::atomic<const Lease*> lease{nullptr};
  PeriodicJob cut_off(
      client, "/job", schedule(1),
      [&](const std::stop_token& stop, const JobFiring& firing) {
        lease = &firing.lease();
        begun->put(told(stop, firing));
        EXPECT_TRUE(stopped(stop));
        next_began.take();
      },
      options("a"));
  cut_off.start();
  const Begun first = begun->take();
  const Client other = calm_direct();
  PeriodicJob next(
      other, "/job", schedule(1),
      [&](const std::stop_token& stop, const JobFiring& firing) {
        EXPECT_FALSE(lease.load()->valid());
        EXPECT_FALSE(cut_off.is_running());
        EXPECT_TRUE(stopped(first.stop));
        next_began.put(true);
        begun->put(told(stop, firing));
      },
      options("b"));
  next.start();
  refuse_and_cut();
  expect_next(1, 2);
  EXPECT_TRUE(all_settled(1));
  proxy.refuse(false);
  EXPECT_EQ(errors->take().code, Errc::not_held);
  EXPECT_EQ(history(), (Texts{"1-1 interrupted a", "1-2 succeeded b"}));
}

TEST_F(PeriodicJobFaults, RunnersNodeDeletedByHand) {
  const Client client = calm_direct();
  PeriodicJob job(client, "/job", schedule(1), until_stopped(), options("a"));
  job.start();
  const Begun first = begun->take();
  ASSERT_EQ(names().size(), 2u);
  for (const std::string& name : names())
    the_operator().remove(Path("/job") / name);
  EXPECT_TRUE(stopped(first.stop));
  EXPECT_EQ(errors->take().code, Errc::not_held);
  const Begun second = begun->take();
  EXPECT_EQ(second.attempt, 2);
  EXPECT_GT(second.token, first.token);
  EXPECT_TRUE(all_settled(1));
}

TEST_F(PeriodicJobFaults, FunctionThrows) {
  const Client client = calm_direct();
  PeriodicJob job(
      client, "/job", schedule(3),
      [&](const std::stop_token& stop, const JobFiring& firing) {
        begun->put(told(stop, firing));
        if (firing.time() == PeriodicJobFaults::firing(1)) throw std::runtime_error("disk full");
        if (firing.time() == PeriodicJobFaults::firing(2)) throw 7;
      },
      options("a"));
  job.start();
  for (int number = 1; number <= 3; ++number)
    expect_next(number);
  EXPECT_EQ(errors->take().text, "disk full");
  EXPECT_EQ(errors->take().text, "no exception of the standard");
  EXPECT_TRUE(all_settled(3));
  EXPECT_EQ(history(), (Texts{"1-1 failed a", "2-1 failed a", "3-1 succeeded a"}));
  EXPECT_EQ(job.history(patient())[2].error, "disk full");
  EXPECT_NE(job.history(patient())[1].error, "");
}

TEST_F(PeriodicJobFaults, FunctionThrowsAfterItWasToldToStop) {
  for (const RunnerDied died : {RunnerDied::run_again, RunnerDied::never_again}) {
    const int first = died == RunnerDied::run_again ? 1 : 3;
    const Client client = calm_direct();
    PeriodicJob unfinished(
        client, "/job", schedule(first),
        [&](const std::stop_token& stop, const JobFiring& firing) {
          begun->put(told(stop, firing));
          EXPECT_TRUE(stopped(stop));
          throw std::runtime_error("not finished");
        },
        options("a", died));
    unfinished.start();
    expect_next(first);
    unfinished.close(patient());
    EXPECT_TRUE(watcher().status(patient())->running);
    PeriodicJob next(client, "/job", schedule(first + 1), quick(), options("b", died));
    next.start();
    if (died == RunnerDied::run_again) expect_next(first, 2);
    expect_next(first + 1);
    EXPECT_TRUE(all_settled(first + 1));
  }
  EXPECT_EQ(history(),
            (Texts{"1-1 interrupted a", "1-2 succeeded b", "2-1 succeeded b", "3-1 interrupted a", "4-1 succeeded b"}));
}

TEST_F(PeriodicJobFaults, FunctionIgnoresItsStopToken) {
  std::latch go_on(1);
  const Client client = calm_direct();
  PeriodicJob deaf(
      client, "/job", schedule(1),
      [&](const std::stop_token& stop, const JobFiring& firing) {
        begun->put(told(stop, firing));
        if (firing.attempt() == 1) go_on.wait();
      },
      options("a"));
  deaf.start();
  const Begun first = begun->take();
  const Client other = calm_direct();
  PeriodicJob next(other, "/job", schedule(1), quick(), options("b"));
  next.start();
  expire(client);
  expect_next(1, 2);
  EXPECT_TRUE(all_settled(1));
  EXPECT_TRUE(stopped(first.stop));
  EXPECT_FALSE(deaf.is_running());
  EXPECT_EQ(error_of([&] { deaf.close({.deadline = SteadyClock::now() + 20ms}); }), Errc::deadline_exceeded);
  std::stop_source impatient;
  impatient.request_stop();
  EXPECT_EQ(error_of([&] { deaf.close({.stop = impatient.get_token()}); }), Errc::cancelled);
  go_on.count_down();
  deaf.close(patient());
  EXPECT_EQ(history(), (Texts{"1-1 interrupted a", "1-2 succeeded b"}));
}

TEST_F(PeriodicJobFaults, FiringsWereMissed) {
  const Client client = calm_direct();
  PeriodicJobOptions last = options("a");
  last.missed = MissedFirings::last;
  PeriodicJob one(client, "/job", schedule(4), quick(), last);
  one.start();
  expect_next(4);
  EXPECT_TRUE(all_settled(4));
  EXPECT_EQ(one.history(patient()).front().missed_from, firing(1));
  one.close(patient());

  PeriodicJobOptions skip = options("a");
  skip.missed = MissedFirings::skip;
  PeriodicJob none(client, "/job", schedule(6), quick(), skip);
  none.start();
  EXPECT_TRUE(all_settled(6));
  none.close(patient());
  EXPECT_TRUE(begun->empty());
  EXPECT_EQ(history(), (Texts{"4-1 succeeded a", "6-0 skipped a"}));
  EXPECT_EQ(none.history(patient()).front().missed_from, firing(5));
}

// It runs nothing, and skips nothing, before its time by the server's clock, less the bound.
TEST_F(PeriodicJobFaults, HostsClockIsAhead) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const JobTime due = now + 1h;
  const Schedule once = [due](JobTime after) { return after < due ? std::optional(due) : std::nullopt; };
  the_operator().set("/job/state", "");  // All before now is settled.
  const Client client = calm_direct();
  Box<bool> asked;
  PeriodicJobOptions ahead = options("a");
  ahead.missed = MissedFirings::skip;
  ahead.grace = 1h;
  ahead.clock = [&] {
    asked.put(true);
    return std::chrono::system_clock::now() + 1h + 5min;
  };
  {
    PeriodicJob job(client, "/job", once, quick(), ahead);
    job.start();
    asked.take();  // It takes the firing for due,
    asked.take();  // and asks again with the lease and the server's time at hand.
    EXPECT_TRUE(remain(0)) << "it has given the lease back";
    job.close(patient());
  }
  EXPECT_TRUE(begun->empty());
  EXPECT_TRUE(history().empty());
  ahead.max_early = 2h;
  PeriodicJob early(client, "/job", once, quick(), ahead);
  early.start();
  (void)begun->take();
  EXPECT_TRUE(eventually([&] { return !early.history(patient()).empty(); }));
  EXPECT_LT(early.history(patient()).front().started, due);
  EXPECT_GE(early.history(patient()).front().started, due - ahead.max_early);
}

// Firings that are due by the bound alone are not taken for missed: no host whose clock is right has seen them pass.
TEST_F(PeriodicJobFaults, HostsClockIsAheadOfSeveralFirings) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const Schedule three = [now](JobTime after) -> std::optional<JobTime> {
    for (int number = 1; number <= 3; ++number) {
      if (after < now + number * 10min) return now + number * 10min;
    }
    return std::nullopt;
  };
  const Client client = calm_direct();
  for (const MissedFirings missed : {MissedFirings::skip, MissedFirings::last}) {
    the_operator().set("/job/state", "");  // All before now is settled.
    PeriodicJobOptions ahead = options("a");
    ahead.missed = missed;
    ahead.grace = 1ms;
    ahead.max_early = 1h;
    ahead.clock = [] { return std::chrono::system_clock::now() + 2h; };
    Box<JobTime> ran;
    PeriodicJob job(
        client, "/job", three, [&](const std::stop_token&, const JobFiring& firing) { ran.put(firing.time()); }, ahead);
    job.start();
    for (int number = 1; number <= 3; ++number)
      EXPECT_EQ(ran.take(), now + number * 10min);
    job.close(patient());
    for (const JobRun& run : job.history(patient()))
      EXPECT_FALSE(run.missed_from);
  }
}

TEST_F(PeriodicJobFaults, RemovedByHand) {
  const Client client = calm_direct();
  PeriodicJob job(
      client, "/job", schedule(4),
      [&](const std::stop_token& stop, const JobFiring& firing) {
        begun->put(told(stop, firing));
        if (firing.time() == PeriodicJobFaults::firing(2)) {
          for (const std::string& name : RecipeFaultTest::names("/job/history"))
            the_operator().remove(Path("/job/history") / name);
          the_operator().remove("/job/history");
        }
        if (firing.time() == PeriodicJobFaults::firing(3)) the_operator().remove("/job/state");
      },
      options("a"));
  job.start();
  for (int number = 1; number <= 3; ++number)
    expect_next(number);
  EXPECT_EQ(errors->take().code, Errc::bad_version);
  EXPECT_TRUE(eventually([&] { return watcher().status(patient()).has_value(); })) << "made again";
  EXPECT_GT(watcher().status(patient())->settled, firing(4)) << "all before that is settled";
  EXPECT_EQ(history(), Texts{"2-1 succeeded a"});
  // The same firing once more, by an operator's wish: its record is written anew.
  job.close(patient());
  the_operator().set("/job/state", settled_before(2));
  PeriodicJob again(client, "/job", schedule(2), quick(), options("b"));
  again.start();
  expect_next(2);
  EXPECT_TRUE(all_settled(2));
  EXPECT_EQ(history(), Texts{"2-1 succeeded b"});
}

// By a right that is missing; a quota that is full is refused in the same place.
TEST_F(PeriodicJobFaults, HistoryCannotBeWritten) {
  using zkclient::Acl;
  the_operator().create("/job/history", "", {.acl = zkclient::AclList{Acl{Acl::read, "world", "anyone"}}});
  const Client client = calm_direct();
  PeriodicJob job(client, "/job", schedule(2), quick(), options("a"));
  job.start();
  expect_next(1);
  expect_next(2);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(errors->take().code, Errc::no_auth);
  EXPECT_TRUE(all_settled(2));
  EXPECT_TRUE(history().empty());
}

// Each attempt that ends without a word leaves a record, too: a function that kills its process leaves many.
TEST_F(PeriodicJobFaults, RecordsOfInterruptedRunsAreRemoved) {
  PeriodicJobOptions few = options("a");
  few.history = 3;
  const Client client = calm_direct();
  for (int attempt = 1; attempt <= 6; ++attempt) {
    PeriodicJob job(
        client, "/job", schedule(1),
        [&](const std::stop_token& stop, const JobFiring& firing) {
          begun->put(told(stop, firing));
          EXPECT_TRUE(stopped(stop));
          throw std::runtime_error("not finished");
        },
        few);
    job.start();
    expect_next(1, attempt);
    job.close(patient());
  }
  EXPECT_EQ(history(), (Texts{"1-3 interrupted a", "1-4 interrupted a", "1-5 interrupted a"}));
}

TEST_F(PeriodicJobFaults, StateIsNotOurs) {
  the_operator().set("/job/state", "my own notes");
  const Client client = calm_direct();
  PeriodicJob job(client, "/job", schedule(1), quick(), options("a"));
  job.start();
  const Reported error = errors->take();
  EXPECT_EQ(error.code, Errc::foreign_node);
  EXPECT_NE(error.text.find("/job/state"), std::string::npos) << error.text;
  EXPECT_EQ(error_of([&] { (void)job.status(patient()); }), Errc::foreign_node);
  the_operator().set("/job/state", settled_before(1));
  expect_next(1);
}

TEST_F(PeriodicJobFaults, ScheduleIsWrong) {
  const Client client = calm_direct();
  std::atomic<int> asked{0};
  const Schedule wrong = [&asked, good = schedule(1)](JobTime after) -> std::optional<JobTime> {
    const int times = ++asked;
    if (times == 1) throw std::runtime_error("no idea");
    if (times == 2) return after;
    if (times == 3) throw Error(Errc::closed, "get", "/of/another/client");
    return good(after);
  };
  PeriodicJob job(client, "/job", wrong, quick(), options("a"));
  job.start();
  EXPECT_EQ(errors->take().text, "no idea");
  EXPECT_EQ(errors->take().code, Errc::invalid_argument);
  EXPECT_EQ(errors->take().code, Errc::closed);
  expect_next(1);
}

TEST_F(PeriodicJobFaults, ClientClosed) {
  Client client = calm_direct();
  PeriodicJob job(client, "/job", schedule(2), until_stopped(), options("a"));
  job.start();
  const Begun run = begun->take();
  client.close();
  EXPECT_TRUE(stopped(run.stop));
  const Reported error = errors->take();
  EXPECT_NE(error.text.find("was not recorded"), std::string::npos) << error.text;
  job.close(patient());
  EXPECT_TRUE(begun->empty());
  EXPECT_TRUE(errors->empty()) << "that its client is closed is no failure";
  EXPECT_EQ(error_of([&] { (void)job.history(); }), Errc::closed);
}

// --- Closing ----------------------------------------------------------------------------------------------------------

TEST_F(PeriodicJobFaults, CloseRecordsARunThatReturns) {
  const Client client = calm_direct();
  PeriodicJob job(client, "/job", schedule(2), until_stopped(), options("a"));
  job.start();
  expect_next(1);
  job.close(patient());
  EXPECT_EQ(history(), Texts{"1-1 succeeded a"});
  EXPECT_EQ(watcher().status(patient())->settled, firing(1));
}

TEST_F(PeriodicJobFaults, ClosedByItsFunctionAndByItsErrors) {
  const Client client = calm_direct();
  std::unique_ptr<PeriodicJob> job;
  const auto destroy = [&](const std::stop_token& stop, const JobFiring& firing) {
    job->close();
    job.reset();
    begun->put(told(stop, firing));
  };
  job = std::make_unique<PeriodicJob>(client, "/job", schedule(1), destroy, options("a"));
  job->start();
  EXPECT_TRUE(begun->take().stop.stop_requested());
  EXPECT_TRUE(all_settled(1)) << "the function has returned";
  PeriodicJobOptions closing = options("a");
  Box<bool> closed;
  closing.on_error = [&](const std::exception_ptr&) {
    job->close(patient());
    closed.put(true);
  };
  const auto fail = [](const std::stop_token&, const JobFiring&) { throw std::runtime_error("as it happens"); };
  job = std::make_unique<PeriodicJob>(client, "/job", schedule(2), fail, closing);
  job->start();
  closed.take();
  EXPECT_TRUE(all_settled(2));
}

TEST_F(PeriodicJobFaults, CloseWaitsForItsErrorsWithinItsLimits) {
  const Client client = calm_direct();
  Box<bool> telling;
  std::latch go_on(1);
  PeriodicJobOptions slow = options("a");
  slow.on_error = [&](const std::exception_ptr&) {
    telling.put(true);
    go_on.wait();
  };
  const auto fail = [](const std::stop_token&, const JobFiring&) { throw std::runtime_error("as it happens"); };
  PeriodicJob job(client, "/job", schedule(1), fail, slow);
  job.start();
  EXPECT_TRUE(all_settled(1));
  telling.take();
  EXPECT_EQ(error_of([&] { job.close({.deadline = SteadyClock::now() + 20ms}); }), Errc::deadline_exceeded);
  std::stop_source impatient;
  impatient.request_stop();
  EXPECT_EQ(error_of([&] { job.close({.stop = impatient.get_token()}); }), Errc::cancelled);
  go_on.count_down();
  job.close(patient());
}

// An executor that is gone drops what it is given: what on_error has not been told is told by close(), or the destructor.
TEST_F(PeriodicJobFaults, ErrorsThatNoExecutorTells) {
  zkclient::Runtime runtime({.callback_executor = [](const std::function<void()>&) {}});
  for (const bool closes : {true, false}) {
    const Client client(runtime, proxy.connect_string(), {.session_timeout = calm});
    auto job = std::make_unique<PeriodicJob>(
        client, "/job", schedule(1),
        [&](const std::stop_token& stop, const JobFiring& firing) {
          begun->put(told(stop, firing));
          EXPECT_TRUE(stopped(stop));
          const zkclient::Session session = client.session();
          expire(client);
          // Else the end of the run may be on its way when the session ends, and be in doubt.
          EXPECT_TRUE(eventually([&] { return session.state() == zkclient::ConnectionState::lost; }));
        },
        options("a"));
    job->start();
    (void)begun->take();
    if (closes) job->close(patient());
    job = nullptr;
    ASSERT_EQ(errors->size(), 1u);
    const Reported error = errors->take();
    EXPECT_EQ(error.code, Errc::not_held);
    EXPECT_NE(error.text.find("was not recorded"), std::string::npos) << error.text;
  }
}

TEST_F(PeriodicJobFaults, OldRecordsAreRemoved) {
  const Client client = calm_direct();
  the_operator().create("/job/history", "");
  the_operator().create("/job/history/notes", "of a person");
  the_operator().create("/job/history/2001-01-01T00:00:00.000Z-1", "no record");
  PeriodicJobOptions few = options("a");
  few.history = 3;
  PeriodicJob job(client, "/job", schedule(6), quick(), few);
  job.start();
  for (int number = 1; number <= 6; ++number)
    expect_next(number);
  const Texts latest{"4-1 succeeded a", "5-1 succeeded a", "6-1 succeeded a"};
  EXPECT_TRUE(eventually([&] { return history() == latest; }));
  EXPECT_EQ(RecipeFaultTest::names("/job/history").size(), 4u) << "of others nothing is removed";
}

// With the right to create, and without that to delete.
TEST_F(PeriodicJobFaults, OldRecordsCannotBeRemoved) {
  using zkclient::Acl;
  const zkclient::AclList growing{Acl{Acl::read | Acl::create, "world", "anyone"}};
  the_operator().create("/job/history", "", {.acl = growing});
  const Client client = calm_direct();
  PeriodicJobOptions one = options("a");
  one.history = 1;
  PeriodicJob job(client, "/job", schedule(3), quick(), one);
  job.start();
  for (int number = 1; number <= 3; ++number)
    expect_next(number);
  for (int number = 2; number <= 3; ++number)
    EXPECT_EQ(errors->take().code, Errc::no_auth);
  EXPECT_TRUE(all_settled(3));
  EXPECT_EQ(history().size(), 3u);
}

TEST_F(PeriodicJobFaults, BadArguments) {
  const Client client = calm_direct();
  const auto refused = [&](const Path& path, const Schedule& when, const PeriodicJob::Task& task,
                           const PeriodicJobOptions& given) {
    try {
      const PeriodicJob job(client, path, when, task, given);
    } catch (const Error& error) {
      EXPECT_EQ(error.operation(), "periodic job");
      EXPECT_EQ(error.path(), path.str());
      EXPECT_NE(error.detail(), "");
      return error.errc();
    }
    return Errc::closed;
  };
  const auto with = [&](const PeriodicJobOptions& given) { return refused("/job", every(1h), quick(), given); };
  EXPECT_EQ(refused("/job", {}, quick(), {}), Errc::invalid_argument);
  EXPECT_EQ(refused("/job", every(1h), {}, {}), Errc::invalid_argument);
  EXPECT_EQ(refused("/", every(1h), quick(), {}), Errc::invalid_argument);
  EXPECT_EQ(with({.grace = -1ms}), Errc::invalid_argument);
  EXPECT_EQ(with({.missed = MissedFirings::skip, .grace = 0ms}), Errc::invalid_argument);
  EXPECT_EQ(with({.max_early = -1ms}), Errc::invalid_argument);
  EXPECT_EQ(with({.max_early = 25h}), Errc::invalid_argument);
  EXPECT_EQ(with({.history = 0}), Errc::invalid_argument);
  EXPECT_EQ(with({.history = 10'001}), Errc::invalid_argument);
  EXPECT_EQ(with({.id = std::string(201, 'x')}), Errc::invalid_argument);
  EXPECT_EQ(with({.clock = {}}), Errc::invalid_argument);
  EXPECT_EQ(with({.acl = {}}), Errc::invalid_acl);
}

}  // namespace
}  // namespace zkrecipes
