// The selector by itself, and one test for each row of the table "What goes wrong" in <zkrecipes/leader_selector.hpp>.

#include <zkrecipes/leader_selector.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>

#include "tests/support/recipe_test.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

static_assert(std::is_base_of_v<Leadership, SelectedLeadership>);

void wait_for(const std::stop_token& stop) { EXPECT_TRUE(stopped(stop)); }

/// What on_error was given, taken apart where it was given: ThreadSanitizer does not see how the C++ library counts the
/// owners of an exception, and reports a race when two threads have it.
struct Caught {
  explicit Caught(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& caught) {
      text = caught.what();
      if (const auto* ours = dynamic_cast<const zkclient::Error*>(&caught)) code = ours->code();
    }
  }
  std::string text;
  std::error_code code;
};

/// A task that tells when it runs and with which token, and runs until it is told to stop.
struct Runs {
  struct Run {
    FencingToken term;
    std::stop_token stop;
  };
  Box<Run> begun;
  Box<FencingToken> ended;
  LeaderSelector::Task task() {
    return [this](const std::stop_token& stop, SelectedLeadership& leadership) {
      begun.put({leadership.token(), stop});
      wait_for(stop);
      ended.put(leadership.token());
    };
  }
};

class LeaderSelectorTest : public testkit::RecipeTest {
 protected:
  LeaderSelectorTest() : RecipeTest("/selector") {}

  /// Returns when the client knows.
  static void expire(const Client& client) {
    const auto session = client.connect({.deadline = soon()});
    zktesting::expire(server().connect_string(), session.id(), session.credentials().password);
    EXPECT_TRUE(stopped(session.lost()));
  }
};

TEST_F(LeaderSelectorTest, TheTaskRunsWhileThisProcessLeads) {
  Box<FencingToken> begun;
  std::optional<LeaderSelector> selector;
  selector.emplace(
      client(), "/selector",
      [&](const std::stop_token& stop, SelectedLeadership& leadership) {
        EXPECT_TRUE(selector->is_leader()) << "asked by the leader itself";
        EXPECT_TRUE(leadership.valid());
        EXPECT_NE(leadership.node().find("-lock-"), std::string::npos) << "as Curator's LeaderSelector names it";
        leadership.proclaim("here", {.deadline = soon()});
        leadership.ready({.deadline = soon()});
        client().commit(zkclient::Transaction().check(leadership.guard()));
        begun.put(leadership.token());
        wait_for(stop);
        EXPECT_TRUE(leadership.valid()) << "told to stop, but it leads until it returns";
        EXPECT_FALSE(selector->is_leader());
      },
      LeaderSelectorOptions{.id = "a", .stop_grace = 60s});
  EXPECT_EQ(selector->id(), "a");
  EXPECT_EQ(selector->path(), Path("/selector"));
  EXPECT_FALSE(selector->is_leader());
  Box<std::optional<Leader>> seen;
  const auto subscription = selector->observe([&](const std::optional<Leader>& leader) { seen.put(leader); });
  Box<Leader> awaited;
  selector->async_wait_for_leader({}, [&](zkclient::Result<Leader> result) { awaited.put(std::move(result).value()); },
                                  {.deadline = soon()});
  Box<std::optional<Leader>> changed;
  selector->async_wait_for_change(
      std::nullopt, [&](zkclient::Result<std::optional<Leader>> result) { changed.put(std::move(result).value()); },
      {.deadline = soon()});
  selector->start();
  selector->start();
  const FencingToken term = begun.take();
  EXPECT_EQ(awaited.take().term, term);
  EXPECT_EQ(changed.take()->term, term);
  EXPECT_TRUE(selector->wait_for_leader({}, {.deadline = soon()}).ready);
  EXPECT_EQ(selector->wait_for_change(std::nullopt, {.deadline = soon()})->term, term);
  const auto leader = selector->leader();
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->id, "a");
  EXPECT_EQ(leader->term, term);
  EXPECT_EQ(leader->value, "here");
  EXPECT_TRUE(leader->ready);
  EXPECT_EQ(selector->candidates().size(), 1u);
  (void)seen.take_until([](const std::optional<Leader>& any) { return any && any->ready; });
  selector->close({.deadline = soon()});
  EXPECT_FALSE(selector->is_leader());
  EXPECT_TRUE(names().empty()) << "close() waited until the node was gone";
  selector->close();
  EXPECT_EQ(error_of([&] { selector->start(); }), Errc::closed);
}

TEST_F(LeaderSelectorTest, LeadershipGoesRound) {
  constexpr int count = 3;
  std::atomic<int> inside{0};
  Box<std::pair<int, FencingToken>> terms;
  std::vector<Client> clients;
  std::vector<std::unique_ptr<LeaderSelector>> selectors;
  for (int i = 0; i < count; ++i) {
    clients.push_back(make_client());
    const auto task = [&, i](const std::stop_token&, SelectedLeadership& leadership) {
      EXPECT_EQ(++inside, 1);
      terms.put({i, leadership.token()});
      --inside;
    };
    selectors.push_back(std::make_unique<LeaderSelector>(clients.back(), "/selector", task));
    selectors.back()->start();
  }
  FencingToken last;
  std::vector<int> turns(count);
  while (*std::min_element(turns.begin(), turns.end()) < 5) {
    const auto [who, term] = terms.take();
    EXPECT_GT(term, last);
    last = term;
    ++turns[static_cast<std::size_t>(who)];
  }
  for (const auto& selector : selectors)
    selector->close({.deadline = soon()});
  EXPECT_TRUE(remain(0));
}

TEST_F(LeaderSelectorTest, RequeueOnDemand) {
  Box<FencingToken> terms;
  LeaderSelector selector(
      client(), "/selector",
      [&](const std::stop_token&, SelectedLeadership& leadership) { terms.put(leadership.token()); },
      {.requeue = false});
  selector.requeue();
  EXPECT_TRUE(names().empty()) << "not started";
  selector.start();
  FencingToken last = terms.take();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(remain(0));
    EXPECT_TRUE(terms.empty());
    selector.requeue();
    const FencingToken next = terms.take();
    EXPECT_GT(next, last);
    last = next;
  }
}

TEST_F(LeaderSelectorTest, StepDown) {
  Runs first;
  Runs second;
  LeaderSelector a(client(), "/selector", first.task());
  Client other = make_client();
  LeaderSelector b(other, "/selector", second.task());
  a.step_down();
  a.start();
  (void)first.begun.take();
  b.start();
  ASSERT_TRUE(remain(2));
  a.step_down();
  const FencingToken term = first.ended.take();
  EXPECT_GT(second.begun.take().term, term);
  ASSERT_TRUE(remain(2)) << "a is a candidate again";
  b.step_down();
  EXPECT_GT(first.begun.take().term, second.ended.take());
  EXPECT_TRUE(a.is_leader());
  EXPECT_FALSE(b.is_leader());
}

// --- The watchdog -------------------------------------------------------------------------------------------------

TEST_F(LeaderSelectorTest, TaskStalls) {
  Box<Caught> errors;
  std::binary_semaphore wake_up(0);
  Box<bool> told;
  Box<FencingToken> begun;
  std::atomic<int> runs{0};
  LeaderSelector stalled(
      client(), "/selector",
      [&](const std::stop_token& stop, SelectedLeadership& leadership) {
        const FencingToken term = leadership.token();
        begun.put(term);
        if (++runs > 1) return;
        const std::stop_callback at_once(stop, [&] { told.put(leadership.valid()); });
        wake_up.acquire();  // Deaf to the token.
        EXPECT_TRUE(stop.stop_requested());
        EXPECT_EQ(error_of([&] { leadership.proclaim("late"); }), Errc::not_held);
        ASSERT_FALSE(leadership.valid());
      },
      {.progress_timeout = 300ms, .on_error = [&](const std::exception_ptr& error) { errors.put(Caught(error)); }});
  stalled.start();
  const FencingToken term = begun.take();
  Runs healthy;
  Client other = make_client();
  LeaderSelector next(other, "/selector", healthy.task());
  next.start();
  EXPECT_FALSE(told.take()) << "when it is told, it leads no more";
  EXPECT_GT(healthy.begun.take().term, term) << "while the other task still sits there";
  EXPECT_FALSE(stalled.is_leader());
  EXPECT_TRUE(next.is_leader());
  EXPECT_EQ(errors.take().code, Errc::deadline_exceeded);
  EXPECT_EQ(names().size(), 1u) << "not a candidate before its task has returned";
  wake_up.release();
  EXPECT_TRUE(remain(2));
  next.close({.deadline = soon()});
  EXPECT_GT(begun.take(), term);
  stalled.close({.deadline = soon()});
}

// A stop callback of the task's that blocks does not keep the next one from leading.
TEST_F(LeaderSelectorTest, TaskStallsAndItsStopCallbackBlocks) {
  std::latch inside(1);
  std::latch go_on(1);
  LeaderSelector stalled(client(), "/selector",
                         [&](const std::stop_token& stop, SelectedLeadership&) {
                           inside.count_down();
                           const std::stop_callback blocking(stop, [&] { go_on.wait(); });
                           go_on.wait();
                         },
                         {.requeue = false, .progress_timeout = 100ms});
  stalled.start();
  Runs healthy;
  Client other = make_client();
  LeaderSelector next(other, "/selector", healthy.task());
  inside.wait();
  next.start();
  (void)healthy.begun.take();
  EXPECT_TRUE(next.is_leader());
  EXPECT_FALSE(stalled.is_leader());
  go_on.count_down();
}

TEST_F(LeaderSelectorTest, TaskThatSaysAliveIsLeftAlone) {
  std::atomic<int> errors{0};
  Box<bool> done;
  LeaderSelector selector(
      client(), "/selector",
      [&](const std::stop_token& stop, SelectedLeadership& leadership) {
        const auto end = SteadyClock::now() + 10s;
        while (!stop.stop_requested() && SteadyClock::now() < end) {
          leadership.alive();
          (void)eventually([&] { return stop.stop_requested(); }, 5ms);
        }
        EXPECT_FALSE(stop.stop_requested());
        done.put(leadership.valid());
      },
      {.requeue = false, .progress_timeout = 8s, .on_error = [&](const std::exception_ptr&) { ++errors; }});
  selector.start();
  EXPECT_TRUE(done.take());
  selector.close({.deadline = soon()});
  EXPECT_EQ(errors, 0);
}

// --- Tasks that go wrong ------------------------------------------------------------------------------------------

TEST_F(LeaderSelectorTest, TaskThrows) {
  Box<Caught> errors;
  std::atomic<int> runs{0};
  LeaderSelector selector(client(), "/selector",
                          [&](const std::stop_token& stop, SelectedLeadership&) {
                            if (++runs == 1) throw std::runtime_error("as it happens");
                            if (runs == 2) throw zkclient::Error(Errc::no_node, "get", "/x");
                            wait_for(stop);
                          },
                          {.on_error = [&](const std::exception_ptr& error) { errors.put(Caught(error)); }});
  selector.start();
  EXPECT_EQ(errors.take().text, "as it happens");
  EXPECT_EQ(errors.take().code, Errc::no_node);
  EXPECT_TRUE(eventually([&] { return runs == 3 && selector.is_leader(); }));
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(LeaderSelectorTest, TaskIgnoresItsStopToken) {
  std::latch go_on(1);
  Box<FencingToken> begun;
  LeaderSelector deaf(client(), "/selector",
                      [&](const std::stop_token&, SelectedLeadership& leadership) {
                        begun.put(leadership.token());
                        go_on.wait();
                        EXPECT_FALSE(leadership.valid());
                      },
                      {.requeue = false, .stop_grace = 200ms});
  deaf.start();
  const FencingToken term = begun.take();
  Runs healthy;
  Client other = make_client();
  LeaderSelector next(other, "/selector", healthy.task());
  next.start();
  ASSERT_TRUE(remain(2));
  deaf.step_down();
  EXPECT_FALSE(deaf.is_leader()) << "at once";
  EXPECT_GT(healthy.begun.take().term, term) << "the task still sits there";
  EXPECT_EQ(error_of([&] { deaf.close({.deadline = SteadyClock::now() + 20ms}); }), Errc::deadline_exceeded);
  go_on.count_down();
  deaf.close({.deadline = soon()});
}

// A time that no clock reaches is one that never ends, and not one that is over.
TEST_F(LeaderSelectorTest, TimesMayBeForEver) {
  constexpr auto for_ever = std::chrono::milliseconds::max();
  Box<bool> begun;
  std::atomic<int> errors{0};
  LeaderSelector selector(client(), "/selector",
                          [&](const std::stop_token& stop, SelectedLeadership& leadership) {
                            client().sync("/", {.deadline = soon()});  // Behind the watchdog's first look.
                            EXPECT_TRUE(leadership.valid()) << "it has not stalled";
                            begun.put(true);
                            wait_for(stop);
                            client().sync("/", {.deadline = soon()});  // Behind the watchdog's next look.
                            EXPECT_TRUE(leadership.valid()) << "it may take its time";
                            EXPECT_EQ(names().size(), 1u);
                          },
                          {.requeue = false,
                           .progress_timeout = for_ever,
                           .stop_grace = for_ever,
                           .on_error = [&](const std::exception_ptr&) { ++errors; }});
  selector.start();
  ASSERT_TRUE(begun.take());
  selector.step_down();
  selector.close({.deadline = soon()});
  EXPECT_EQ(errors, 0);
}

// --- Closing ------------------------------------------------------------------------------------------------------

TEST_F(LeaderSelectorTest, CloseGivesUpWhatATaskKeeps) {
  std::latch go_on(1);
  Runs healthy;
  {
    std::latch inside(1);
    LeaderSelector deaf(client(), "/selector",
                        [&](const std::stop_token&, SelectedLeadership&) {
                          inside.count_down();
                          go_on.wait();
                        },
                        {.stop_grace = 1h});
    deaf.start();
    inside.wait();
    Client other = make_client();
    LeaderSelector next(other, "/selector", healthy.task());
    next.start();
    ASSERT_TRUE(remain(2));
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(error_of([&] { deaf.close({.stop = stop.get_token()}); }), Errc::cancelled);
    (void)healthy.begun.take();
    go_on.count_down();
  }
  EXPECT_TRUE(remain(0)) << "the destructors wait";
}

TEST_F(LeaderSelectorTest, CloseWhileWaiting) {
  Runs first;
  Runs second;
  LeaderSelector a(client(), "/selector", first.task());
  a.start();
  (void)first.begun.take();
  Client other = make_client();
  {
    LeaderSelector b(other, "/selector", second.task());
    b.start();
    ASSERT_TRUE(remain(2));
    b.close({.deadline = soon()});
    EXPECT_TRUE(remain(1));
    LeaderSelector c(other, "/selector", second.task());
    c.start();
    ASSERT_TRUE(remain(2));
  }
  EXPECT_TRUE(remain(1));
  { const LeaderSelector never_started(other, "/selector", second.task()); }
  EXPECT_TRUE(second.begun.empty());
  EXPECT_TRUE(a.is_leader());
}

TEST_F(LeaderSelectorTest, ATaskMayCloseOrDestroyItsSelector) {
  const std::size_t threads = testkit::thread_count();
  for (const bool destroy : {false, true}) {
    Box<bool> done;
    auto selector = std::make_shared<std::unique_ptr<LeaderSelector>>();
    *selector = std::make_unique<LeaderSelector>(
        client(), "/selector",
        [selector, destroy, &done](const std::stop_token& stop, SelectedLeadership& leadership) {
          EXPECT_FALSE(stop.stop_requested());
          if (destroy) {
            selector->reset();
          } else {
            (*selector)->close();
          }
          EXPECT_TRUE(stop.stop_requested());
          done.put(leadership.valid());
        },
        LeaderSelectorOptions{.stop_grace = 60s});
    (*selector)->start();
    EXPECT_TRUE(done.take());
    EXPECT_TRUE(remain(0));
    EXPECT_TRUE(done.empty()) << "no further term";
    if (!destroy) selector->reset();
  }
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() <= threads; }));
}

TEST_F(LeaderSelectorTest, OnErrorMayCloseOrDestroyItsSelector) {
  const std::size_t threads = testkit::thread_count();
  for (const bool destroy : {false, true}) {
    Box<bool> done;
    std::unique_ptr<LeaderSelector> selector;
    const auto fail = [](const std::stop_token&, SelectedLeadership&) { throw std::runtime_error("as it happens"); };
    const auto on_error = [&](const std::exception_ptr&) {
      if (destroy) {
        selector.reset();
      } else {
        selector->close({.deadline = soon()});
      }
      done.put(true);
    };
    selector =
        std::make_unique<LeaderSelector>(client(), "/selector", fail, LeaderSelectorOptions{.on_error = on_error});
    selector->start();
    EXPECT_TRUE(done.take());
    EXPECT_TRUE(remain(0));
    selector.reset();
    EXPECT_TRUE(done.empty()) << "neither of them runs again";
  }
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() <= threads; }));
}

// An executor that is gone drops what it is given: what on_error has not been told is told by close(), or the destructor.
TEST_F(LeaderSelectorTest, ErrorsThatNoExecutorTells) {
  zkclient::Runtime runtime({.callback_executor = [](const std::function<void()>&) {}});
  const Client own(runtime, hosts(), {.prefix = prefix()});
  for (const bool closes : {true, false}) {
    Box<Caught> errors;
    Box<bool> begun;
    const auto fail = [&](const std::stop_token&, SelectedLeadership&) {
      begun.put(true);
      throw std::runtime_error("as it happens");
    };
    auto selector = std::make_unique<LeaderSelector>(
        own, "/selector", fail,
        LeaderSelectorOptions{.requeue = false,
                              .on_error = [&](const std::exception_ptr& error) { errors.put(Caught(error)); }});
    selector->start();
    EXPECT_TRUE(begun.take());
    if (closes) selector->close({.deadline = soon()});
    selector.reset();
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors.take().text, "as it happens");
  }
}

TEST_F(LeaderSelectorTest, CloseWaitsForItsErrorsWithinItsLimits) {
  Box<bool> telling;
  std::latch go_on(1);
  const auto fail = [](const std::stop_token&, SelectedLeadership&) { throw std::runtime_error("as it happens"); };
  const auto on_error = [&](const std::exception_ptr&) {
    telling.put(true);
    go_on.wait();
  };
  LeaderSelector selector(client(), "/selector", fail, {.requeue = false, .on_error = on_error});
  selector.start();
  EXPECT_TRUE(telling.take());
  std::stop_source impatient;
  impatient.request_stop();
  EXPECT_EQ(error_of([&] { selector.close({.stop = impatient.get_token()}); }), Errc::cancelled);
  go_on.count_down();
  selector.close({.deadline = soon()});
}

TEST_F(LeaderSelectorTest, ClientClosed) {
  Box<Caught> errors;
  Runs runs;
  Client own = make_client();
  LeaderSelector selector(own, "/selector", runs.task(),
                          {.on_error = [&](const std::exception_ptr& error) { errors.put(Caught(error)); }});
  selector.start();
  const auto run = runs.begun.take();
  own.close();
  EXPECT_TRUE(run.stop.stop_requested());
  EXPECT_FALSE(selector.is_leader());
  (void)runs.ended.take();
  EXPECT_TRUE(eventually([&] { return names().empty(); }));
  selector.close({.deadline = soon()});
  EXPECT_EQ(error_of([&] { selector.start(); }), Errc::closed);
}

TEST_F(LeaderSelectorTest, BadInputIsRefused) {
  const auto nothing = [](const std::stop_token&, SelectedLeadership&) {};
  EXPECT_EQ(error_of([&] { LeaderSelector(client(), "/selector", {}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { LeaderSelector(client(), "relative", nothing); }), Errc::invalid_path);
  EXPECT_EQ(error_of([&] { LeaderSelector(client(), "/selector", nothing, {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { LeaderSelector(client(), "/selector", nothing, {.progress_timeout = -1ms}); }),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { LeaderSelector(client(), "/selector", nothing, {.stop_grace = -1ms}); }),
            Errc::invalid_argument);
}

// --- The connection, the session, the node ------------------------------------------------------------------------

TEST_F(LeaderSelectorTest, CampaignFails) {
  client().create("/selector", "", {.mode = zkclient::CreateMode::ephemeral});
  Box<Caught> errors;
  Runs runs;
  LeaderSelector selector(client(), "/selector", runs.task(),
                          {.on_error = [&](const std::exception_ptr& error) { errors.put(Caught(error)); }});
  const auto begin = SteadyClock::now();
  selector.start();
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(errors.take().code, Errc::no_children_for_ephemerals);
  EXPECT_GE(SteadyClock::now() - begin, 100ms + 200ms + 400ms) << "each pause is twice as long as the one before";
  client().remove("/selector");
  EXPECT_GT(runs.begun.take().term.value, 0);
}

TEST_F(LeaderSelectorTest, SessionLostWhileLeading) {
  NEEDS_CONTROL();
  Client own = make_client({.server_tick = testkit::server_tick});
  Runs runs;
  LeaderSelector selector(own, "/selector", runs.task());
  selector.start();
  for (int i = 0; i < 3; ++i) {
    const auto run = runs.begun.take();
    EXPECT_TRUE(selector.is_leader());
    expire(own);
    EXPECT_EQ(runs.ended.take(), run.term);
  }
  (void)runs.begun.take();
  EXPECT_TRUE(selector.is_leader()) << "a candidate again, with the new session";
}

TEST_F(LeaderSelectorTest, OwnNodeDeletedWhileLeading) {
  Runs runs;
  LeaderSelector selector(client(), "/selector", runs.task());
  selector.start();
  for (int i = 0; i < 3; ++i) {
    const auto run = runs.begun.take();
    Client other = make_client();
    other.remove("/selector/" + selector.leader()->node);
    EXPECT_TRUE(stopped(run.stop));
    EXPECT_EQ(runs.ended.take(), run.term);
  }
}

TEST_F(LeaderSelectorTest, SessionLostWhileWaiting) {
  NEEDS_CONTROL();
  Runs first;
  Runs second;
  LeaderSelector a(client(), "/selector", first.task(), {.id = "a"});
  a.start();
  (void)first.begun.take();
  Client own = make_client();
  LeaderSelector b(own, "/selector", second.task(), {.id = "b"});
  b.start();
  ASSERT_TRUE(remain(2));
  const std::int64_t old_session = own.session().id();
  expire(own);
  ASSERT_TRUE(eventually([&] {
    const auto all = a.candidates();
    return all.size() == 2 && all[1].data == "b" && all[1].session_id != old_session;
  }));
  a.close({.deadline = soon()});
  (void)second.begun.take();
}

TEST_F(LeaderSelectorTest, OwnNodeDeletedWhileWaiting) {
  Runs first;
  Runs second;
  LeaderSelector a(client(), "/selector", first.task(), {.id = "a"});
  a.start();
  (void)first.begun.take();
  Client own = make_client();
  LeaderSelector b(own, "/selector", second.task(), {.id = "b"});
  b.start();
  ASSERT_TRUE(remain(2));
  const std::string deleted = a.candidates()[1].node;
  client().remove(Path("/selector") / deleted);
  a.close({.deadline = soon()});
  (void)second.begun.take();
  EXPECT_NE(b.leader()->node, deleted);
}

TEST_F(LeaderSelectorTest, ConnectionBreaksWhileLeading) {
  NEEDS_CONTROL();
  zktesting::Proxy proxy(server().connect_string());
  Client own(proxy.connect_string(), {.session_timeout = 30s, .prefix = prefix()});
  Runs runs;
  LeaderSelector selector(own, "/selector", runs.task());
  selector.start();
  const auto run = runs.begun.take();
  for (int i = 0; i < 3; ++i) {
    const std::size_t accepted = proxy.accepted_connections();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
    ASSERT_TRUE(eventually([&] { return own.session().state() == ConnectionState::connected; }));
  }
  EXPECT_FALSE(run.stop.stop_requested());
  EXPECT_TRUE(selector.is_leader());
}

// The task of the leader that was cut off has been told before the next one's runs, and is_leader() agrees.
TEST_F(LeaderSelectorTest, StopTokenFiresBeforeAnotherLeads) {
  NEEDS_CONTROL();
  zktesting::Proxy proxy(server().connect_string());
  Client own(proxy.connect_string(), {.session_timeout = testkit::contended_session, .prefix = prefix()});
  Runs cut_off;
  LeaderSelector first(own, "/selector", cut_off.task());
  first.start();
  const auto run = cut_off.begun.take();
  const testkit::StallWatch stalls;
  Box<bool> next;
  LeaderSelector second(client(), "/selector", [&](const std::stop_token& stop, SelectedLeadership&) {
    EXPECT_TRUE(run.stop.stop_requested() || stalls.seen());
    EXPECT_FALSE(first.is_leader());
    next.put(true);
    wait_for(stop);
  });
  second.start();
  ASSERT_TRUE(remain(2));
  proxy.stall(zktesting::Direction::both);
  EXPECT_TRUE(next.take());
  proxy.unstall(zktesting::Direction::both);
  EXPECT_EQ(cut_off.ended.take(), run.term);
}

TEST_F(LeaderSelectorTest, ServerAwayWhileLeadingAndWaiting) {
  zktesting::Server own_server;
  const Client first(own_server.connect_string(), {.session_timeout = 60s, .server_tick = testkit::server_tick});
  const Client second(own_server.connect_string(), {.session_timeout = 60s});
  Box<Caught> errors;
  const auto on_error = [&](const std::exception_ptr& error) { errors.put(Caught(error)); };
  Runs leading;
  Runs waiting;
  LeaderSelector a(first, "/selector", leading.task(), {.on_error = on_error});
  a.start();
  const auto run = leading.begun.take();
  LeaderSelector b(second, "/selector", waiting.task(), {.on_error = on_error});
  b.start();
  ASSERT_TRUE(eventually([&] { return a.candidates().size() == 2; }));
  own_server.stop();
  const auto away = [](const Client& client) { return client.session().state() != ConnectionState::connected; };
  ASSERT_TRUE(eventually([&] { return away(first) && away(second); }));
  own_server.start();
  first.sync("/", {.deadline = soon()});
  EXPECT_TRUE(a.is_leader());
  EXPECT_FALSE(run.stop.stop_requested());
  a.close({.deadline = soon()});
  EXPECT_GT(waiting.begun.take().term, run.term);
  EXPECT_TRUE(errors.empty()) << errors.take().text;
  b.close({.deadline = soon()});
}

TEST_F(LeaderSelectorTest, StartBeforeTheServer) {
  zktesting::Server own_server;
  own_server.stop();
  Client own(own_server.connect_string(), {.session_timeout = 10s});
  Runs runs;
  LeaderSelector selector(own, "/selector", runs.task());
  selector.start();
  EXPECT_FALSE(selector.is_leader());
  own_server.start();
  (void)runs.begun.take();
  EXPECT_TRUE(selector.is_leader());
  selector.close({.deadline = soon()});
  EXPECT_EQ(own_server.ephemeral_count(), 0u);
}

}  // namespace
}  // namespace zkrecipes
