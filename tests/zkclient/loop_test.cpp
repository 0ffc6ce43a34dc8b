#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zkclient/detail/loop/awaitable.hpp"
#include "zkclient/detail/loop/cancel_scope.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/requests/wait.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using zkclient::BootClock;
using zkclient::detail::Awaitable;
using zkclient::detail::BootTimer;
using zkclient::detail::CancelScope;
using zkclient::detail::Descriptor;
using zkclient::detail::EventLoop;
using zkclient::detail::Pending;
using zkclient::detail::Signal;
using zkclient::detail::spawn;
using zkclient::detail::Timer;
using zkclient::detail::TimerQueue;

// Runs what it was given, until nothing is left.
void run_to_the_end(EventLoop& loop) {
  loop.close();
  ASSERT_TRUE(loop.run());
}

TEST(LoopTimers, ComeInTheOrderOfTheirTimesWhateverWasSetMovedAndCancelled) {
  struct Clock {
    using time_point = std::chrono::time_point<steady_clock>;
  };
  std::minstd_rand random(4711);
  for (int round = 0; round < 200; ++round) {
    TimerQueue<Clock> queue;
    std::vector<TimerQueue<Clock>::Entry> entries(20);
    std::vector<std::optional<int>> expected(entries.size());
    std::vector<int> order;
    for (int step = 0; step < 100; ++step) {
      const std::size_t which = random() % entries.size();
      if (random() % 4 == 0) {
        queue.cancel(entries[which]);
        expected[which].reset();
      } else {
        const int when = static_cast<int>(random() % 50);
        queue.set(entries[which], Clock::time_point(std::chrono::seconds(when)),
                  [&order, when] { order.push_back(when); });
        expected[which] = when;
      }
    }
    std::vector<int> due;
    for (const auto& when : expected) {
      if (when && *when <= 40) due.push_back(*when);
    }
    std::sort(due.begin(), due.end());
    while (auto task = queue.take_due(Clock::time_point(std::chrono::seconds(40))))
      task();
    EXPECT_EQ(order, due);
    for (std::size_t i = 0; i < entries.size(); ++i)
      EXPECT_EQ(queue.is_set(entries[i]), expected[i].value_or(0) > 40);
    for (auto& entry : entries)
      queue.cancel(entry);
    EXPECT_TRUE(queue.empty());
  }
}

TEST(LoopTimers, OnBothClocksAndNeverTooEarly) {
  EventLoop loop;
  Timer steady(loop);
  BootTimer boot(loop);
  const auto begin = steady_clock::now();
  const auto boot_begin = BootClock::now();
  std::optional<steady_clock::time_point> steady_at;
  std::optional<BootClock::time_point> boot_at;
  steady.set_after(20ms, [&] { steady_at = steady_clock::now(); });
  boot.set_after(10ms, [&] { boot_at = BootClock::now(); });
  run_to_the_end(loop);
  ASSERT_TRUE(steady_at && boot_at);
  EXPECT_GE(*steady_at, begin + 20ms);
  EXPECT_GE(*boot_at, boot_begin + 10ms);
}

// From now on, on this thread: as on a kernel before Linux 5.11.
bool take_precise_wait_away() {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(LoopTimers, OnAKernelThatWaitsInMilliseconds) {
  std::thread([] {
    ASSERT_TRUE(take_precise_wait_away());
    EventLoop loop;
    Timer timer(loop);
    const auto begin = steady_clock::now();
    std::vector<steady_clock::time_point> fired;
    timer.set_after(1500us, [&] {
      fired.push_back(steady_clock::now());
      timer.set_after(1500us, [&] { fired.push_back(steady_clock::now()); });
    });
    run_to_the_end(loop);
    ASSERT_EQ(fired.size(), 2U);
    EXPECT_GE(fired[0], begin + 1500us);
    EXPECT_GE(fired[1], begin + 3ms);
  }).join();
}

TEST(LoopTimers, ACancelledOneDropsItsTask) {
  EventLoop loop;
  const auto owned = std::make_shared<int>(1);
  Timer timer(loop);
  timer.set_after(1h, [owned] { FAIL(); });
  EXPECT_EQ(owned.use_count(), 2);
  timer.cancel();
  EXPECT_EQ(owned.use_count(), 1);
  run_to_the_end(loop);
}

TEST(LoopPosts, KeepTheirOrderWhereverTheyComeFrom) {
  EventLoop loop;
  std::vector<int> seen;
  ASSERT_TRUE(loop.post([&] {
    seen.push_back(1);
    // From another thread, and done before this one posts: so it comes first.
    std::thread([&] { EXPECT_TRUE(loop.post([&] { seen.push_back(2); })); }).join();
    loop.defer([&] { seen.push_back(3); });
    EXPECT_TRUE(loop.post([&] { seen.push_back(4); }));
    loop.close();
  }));
  EXPECT_TRUE(loop.run());
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
}

TEST(LoopPosts, WakeALoopThatSleeps) {
  EventLoop loop;
  std::thread runner([&] { loop.run(); });
  constexpr int count = 20'000;
  std::atomic<int> done{0};
  for (int i = 0; i < count; ++i) {
    const int before = done;
    ASSERT_TRUE(loop.post([&] {
      ++done;
      done.notify_one();
    }));
    if (i % 2 == 0) done.wait(before);  // Half of them meet it asleep, or falling asleep.
  }
  loop.close();
  runner.join();
  EXPECT_EQ(done, count);
  EXPECT_FALSE(loop.post([] {}));
}

TEST(LoopPosts, AnInterruptedLoopGoesOnWhereItWas) {
  EventLoop loop;
  std::vector<int> seen;
  loop.post([&] {
    seen.push_back(1);
    loop.interrupt();
  });
  loop.post([&] { seen.push_back(2); });
  EXPECT_FALSE(loop.run());
  EXPECT_EQ(seen, (std::vector<int>{1}));
  std::thread([&] { run_to_the_end(loop); }).join();  // By another thread, as the runtime does.
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

struct Pipe {
  Pipe() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0); }
  std::array<int, 2> ends{};
};

TEST(LoopDescriptors, AreToldAboutUntilTheyAreReadEmpty) {
  EventLoop loop;
  Pipe pipe;
  std::string got;
  Descriptor reader(loop, [&](bool readable, bool writable) {
    EXPECT_TRUE(readable);
    EXPECT_FALSE(writable);
    char c = 0;
    if (::read(reader.get(), &c, 1) == 1) {
      got += c;
    } else {
      reader.close();
    }
  });
  reader.open(pipe.ends[0]);
  ASSERT_TRUE(reader.listen_for(true, false));
  ASSERT_EQ(::write(pipe.ends[1], "abc", 3), 3);
  ::close(pipe.ends[1]);
  run_to_the_end(loop);
  EXPECT_EQ(got, "abc");
  EXPECT_FALSE(reader.is_open());
}

// Both are ready at once; the one that is told first closes the other, and opens another one in its place, which gets
// the same number.
TEST(LoopDescriptors, AnEventOfOneThatWasClosedIsNotTakenForAnother) {
  EventLoop loop;
  Pipe first;
  Pipe second;
  Pipe third;
  ASSERT_EQ(::write(first.ends[1], "x", 1), 1);
  ASSERT_EQ(::write(second.ends[1], "x", 1), 1);
  int told = 0;
  std::array<std::unique_ptr<Descriptor>, 2> both;
  const auto on_ready = [&](std::size_t self) {
    ++told;
    Descriptor& other = *both[1 - self];
    const int number = other.get();
    other.close();
    ASSERT_EQ(::dup2(third.ends[0], number), number);
    other.open(number);
    ASSERT_TRUE(other.listen_for(true, false));
    both[self]->close();
    loop.defer([&other] { other.close(); });
  };
  both[0] = std::make_unique<Descriptor>(loop, [&](bool, bool) { on_ready(0); });
  both[1] = std::make_unique<Descriptor>(loop, [&](bool, bool) { on_ready(1); });
  both[0]->open(first.ends[0]);
  both[1]->open(second.ends[0]);
  ASSERT_TRUE(both[0]->listen_for(true, false));
  ASSERT_TRUE(both[1]->listen_for(true, false));
  run_to_the_end(loop);
  EXPECT_EQ(told, 1);
  for (const int fd : {first.ends[1], second.ends[1], third.ends[0], third.ends[1]})
    ::close(fd);
}

TEST(LoopDescriptors, MayGoWhileTheyAreTold) {
  EventLoop loop;
  Pipe pipe;
  ASSERT_EQ(::write(pipe.ends[1], "x", 1), 1);
  bool told = false;
  auto owner = std::make_shared<std::optional<Descriptor>>();
  owner->emplace(loop, [&](bool, bool) {
    const auto last = std::move(owner);
    told = true;
  });
  (*owner)->open(pipe.ends[0]);
  ASSERT_TRUE((*owner)->listen_for(true, false));
  run_to_the_end(loop);
  EXPECT_TRUE(told);
  ::close(pipe.ends[1]);
}

TEST(LoopDescriptors, NobodyListensToTroubleThatNobodyAskedAbout) {
  std::clock_t least = CLOCKS_PER_SEC;
  for (int round = 0; round < 10; ++round) {  // A pause may be counted as time that was used: not every time.
    EventLoop loop;
    Pipe pipe;
    Descriptor reader(loop, [&](bool, bool) { FAIL(); });
    reader.open(pipe.ends[0]);
    ASSERT_TRUE(reader.listen_for(true, false));
    ASSERT_TRUE(reader.listen_for(false, false));
    ::close(pipe.ends[1]);
    Timer timer(loop);
    timer.set_after(20ms, [&] { reader.close(); });
    const auto cpu = std::clock();
    run_to_the_end(loop);
    least = std::min(least, std::clock() - cpu);
  }
  EXPECT_LT(least, CLOCKS_PER_SEC / 100);  // It does not spin.
}

// --- Coroutines ---------------------------------------------------------------------------------------------------

class Coroutines : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(zkclient::detail::coroutine::frames(), 0U); }

  // Runs `coroutine` on a loop, to the end of all that it starts.
  void run(const std::function<Awaitable<void>()>& coroutine) {
    loop.post([&] { spawn(coroutine()); });
    run_to_the_end(loop);
  }

  EventLoop loop;
};

Awaitable<int> at_once(int value) { co_return value; }

Awaitable<long> sum_of_a_million() {
  long sum = 0;
  for (int i = 0; i < 1'000'000; ++i)
    sum += co_await at_once(i % 3);
  co_return sum;
}

// The compilers make no tail calls without optimisation, and none under sanitizers.
TEST_F(Coroutines, AMillionAwaitsThatEndAtOnceNeedNoStack) {
  struct Job {
    EventLoop& loop;
    long sum = 0;
  } job{loop};
  const auto body = [](void* argument) -> void* {
    Job& mine = *static_cast<Job*>(argument);
    mine.loop.post([&mine] { spawn([](Job& of) -> Awaitable<void> { of.sum = co_await sum_of_a_million(); }(mine)); });
    mine.loop.close();
    mine.loop.run();
    return nullptr;
  };
  pthread_attr_t small;
  ASSERT_EQ(::pthread_attr_init(&small), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&small, 256 * 1024), 0);
  pthread_t thread{};
  ASSERT_EQ(::pthread_create(&thread, &small, body, &job), 0);
  ::pthread_attr_destroy(&small);
  ASSERT_EQ(::pthread_join(thread, nullptr), 0);
  EXPECT_EQ(job.sum, 999'999);
}

Awaitable<int> countdown(EventLoop& loop, int depth) {
  if (depth == 0) {
    Signal never(loop);
    co_await never.wait(steady_clock::now() + 1ms);
    co_return 0;
  }
  const int below = co_await countdown(loop, depth - 1);
  co_return below + 1;
}

// A chain of a thousand that all wait for the last one, and end one after another.
TEST_F(Coroutines, TheEndOfOneDoesNotGrowTheStackOfTheNext) {
  int result = 0;
  run([&]() -> Awaitable<void> {
    return [](EventLoop& events, int& out) -> Awaitable<void> { out = co_await countdown(events, 1000); }(loop, result);
  });
  EXPECT_EQ(result, 1000);
}

TEST_F(Coroutines, AnExceptionReachesTheOneThatAwaits) {
  struct Fails {
    static Awaitable<int> at_once() {
      throw std::runtime_error("no");
      co_return 1;
    }
    static Awaitable<int> later(EventLoop& loop) {
      Signal never(loop);
      co_await never.wait(steady_clock::now() + 1ms);
      throw std::runtime_error("later");
    }
    static Awaitable<void> run(EventLoop& loop, std::string& caught) {
      try {
        co_await at_once();
      } catch (const std::exception& error) {
        caught = error.what();
      }
      try {
        co_await later(loop);
      } catch (const std::exception& error) {
        caught += error.what();
      }
    }
  };
  std::string caught;
  run([&] { return Fails::run(loop, caught); });
  EXPECT_EQ(caught, "nolater");
}

Awaitable<void> throws() {
  throw std::runtime_error("nobody expects this");
  co_return;
}

void begins_a_root() { spawn(throws()); }

TEST_F(Coroutines, AnExceptionThatNobodyAwaitsEndsTheProcessAndSaysWhere) {
  const auto escape = [] {
    EventLoop events;
    events.post([] { begins_a_root(); });
    events.close();
    events.run();
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(escape(), "escaped from a coroutine of begins_a_root\\(\\): nobody expects this");
}

Awaitable<void> wait_for(EventLoop& loop, std::shared_ptr<CancelScope> cancel, std::vector<std::string>& log) {
  Signal wake(loop);
  const CancelScope::Guard guard(cancel, [&wake] { wake.set(); });
  co_await wake.wait(std::nullopt);
  log.emplace_back("resumed");
}

TEST_F(Coroutines, ACancellationResumesNothingInsideTheRequest) {
  std::vector<std::string> log;
  const auto cancel = std::make_shared<CancelScope>();
  loop.post([&] {
    spawn(wait_for(loop, cancel, log));
    cancel->request();
    log.emplace_back("requested");
  });
  run_to_the_end(loop);
  EXPECT_EQ(log, (std::vector<std::string>{"requested", "resumed"}));
}

TEST_F(Coroutines, AValueArrivesBeforeOrDuringTheWait) {
  std::vector<int> got;
  struct Taker {
    static Awaitable<void> take(Pending<int> value, std::vector<int>& into) {
      const int taken = co_await value.get();
      into.push_back(taken);
    }
  };
  loop.post([&] {
    const Pending<int> early;
    early.arrive(1);
    spawn(Taker::take(early, got));
    const Pending<int> late;
    spawn(Taker::take(late, got));
    EXPECT_EQ(got, (std::vector<int>{1}));
    late.handler()(2);
  });
  run_to_the_end(loop);
  EXPECT_EQ(got, (std::vector<int>{1, 2}));
}

// One thread leaves the loop while a coroutine waits, another one takes it over: it goes on there, on the same loop.
TEST_F(Coroutines, GoOnWithTheThreadThatRunsTheLoop) {
  std::vector<std::thread::id> threads;
  struct Traveller {
    static Awaitable<void> travel(EventLoop& loop, std::vector<std::thread::id>& into) {
      for (int i = 0; i < 3; ++i) {
        Awaitable<int> child = at_once(i);
        (void)co_await std::move(child);
        into.push_back(std::this_thread::get_id());
        EXPECT_EQ(EventLoop::current(), &loop);
        Signal never(loop);
        co_await never.wait(steady_clock::now() + 1ms);
        loop.interrupt();
      }
    }
  };
  loop.post([&] { spawn(Traveller::travel(loop, threads)); });
  loop.close();
  for (bool ended = false; !ended;)
    std::thread([&] { ended = loop.run(); }).join();
  EXPECT_EQ(threads.size(), 3U);
}

TEST_F(Coroutines, ASignalThatWasSetBeforeIsNotWaitedFor) {
  bool over = false;
  run([&] {
    return [](EventLoop& events, bool& out) -> Awaitable<void> {
      Signal signal(events);
      signal.set();
      co_await signal.wait(std::nullopt);
      signal.clear();
      const auto due = steady_clock::now() + 5ms;
      co_await signal.wait(due);
      out = steady_clock::now() >= due;
    }(loop, over);
  });
  EXPECT_TRUE(over);
}

}  // namespace
