// The world's threads, clocks and waits, without ZooKeeper.

#include <gtest/gtest.h>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cfenv>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <future>
#include <latch>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include <zktesting/simulation.hpp>

namespace zktesting {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Runs `body` as a process until it has ended, and gives back the trace.
std::uint64_t run(std::uint64_t seed, const std::function<void()>& body, Schedule schedule = Schedule::random) {
  Simulation world({.seed = seed, .schedule = schedule});
  SimulatedProcess& process = world.process("p", [&](SimulatedProcess&) { body(); });
  EXPECT_TRUE(world.run_until([&] { return !process.running(); }, 1h, 1s));
  return world.trace();
}

/// Threads that meet at a mutex, a condition and pauses; returns the order in which they did.
std::string order_of(std::uint64_t seed, Schedule schedule) {
  std::string order;
  run(
      seed,
      [&] {
        std::mutex mutex;
        std::condition_variable condition;
        std::vector<std::jthread> threads;
        for (char name = 'a'; name < 'e'; ++name) {
          threads.emplace_back([&, name] {
            for (int i = 0; i < 5; ++i) {
              std::unique_lock lock(mutex);
              order += name;
              condition.notify_one();
              condition.wait_for(lock, 3ms);
            }
          });
        }
      },
      schedule);
  return order;
}

TEST(SimulatedKernel, ASeedGivesTheSameOrderAndAnotherSeedAnother) {
  for (const Schedule schedule : {Schedule::random, Schedule::priorities}) {
    std::set<std::string> orders;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::string order = order_of(seed, schedule);
      EXPECT_EQ(order, order_of(seed, schedule)) << seed;
      orders.insert(order);
    }
    EXPECT_GT(orders.size(), 10u);
  }
}

TEST(SimulatedKernel, AMinuteIsShort) {
  Simulation world;
  const auto before = steady_clock::now();
  const auto wall = std::chrono::system_clock::now();
  world.run_for(60s);
  EXPECT_GE(steady_clock::now() - before, 60s);
  EXPECT_LT(steady_clock::now() - before, 61s);
  EXPECT_GE(std::chrono::system_clock::now() - wall, 60s);
}

TEST(SimulatedKernel, PausesEndInTheirOrder) {
  std::string order;
  run(1, [&] {
    std::jthread slow([&] {
      std::this_thread::sleep_for(2s);
      order += 's';
    });
    std::jthread quick([&] {
      std::this_thread::sleep_for(1s);
      order += 'q';
    });
  });
  EXPECT_EQ(order, "qs");
}

TEST(SimulatedKernel, FuturesLatchesAtomicsAndSharedMutexesWait) {
  int sum = 0;
  run(1, [&] {
    std::latch latch(3);
    std::atomic<int> level{0};
    std::shared_mutex mutex;
    auto first = std::async(std::launch::async, [&] {
      const std::shared_lock lock(mutex);
      std::this_thread::sleep_for(10ms);
      latch.count_down();
      return 1;
    });
    auto second = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(1ms);
      const std::unique_lock lock(mutex);
      latch.count_down();
      level = 5;
      level.notify_all();
      return 2;
    });
    level.wait(0);
    latch.arrive_and_wait();
    sum = first.get() + second.get() + level;
  });
  EXPECT_EQ(sum, 8);
}

TEST(SimulatedKernel, AStaticIsMadeOnceAlthoughItsMakerBlocks) {
  std::atomic<int> made{0};
  run(7, [&] {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        static const int once = [&] {
          std::this_thread::sleep_for(5ms);
          return ++made;
        }();
        EXPECT_EQ(once, 1);
      });
    }
  });
}

// Threads of the world share a real one.
TEST(SimulatedKernel, AThreadLocalErrnoAndASignalMaskAreOfTheirThread) {
  run(1, [] {
    std::atomic<int> wrong{0};
    const auto look = [&wrong](int number) {
      thread_local int mine = 0;
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, number);
      ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
      for (int i = 0; i < 100; ++i) {
        mine = number * 1000 + i;
        errno = mine;
        std::this_thread::yield();
        if (mine != number * 1000 + i || errno != mine) ++wrong;
        try {
          std::this_thread::sleep_for(1ms);
          throw number;
        } catch (int caught) {
          std::this_thread::yield();
          if (caught != number) ++wrong;
        }
      }
      ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
      for (int signal = 1; signal <= 8; ++signal) {
        if ((sigismember(&set, signal) == 1) != (signal == number)) ++wrong;
      }
    };
    std::vector<std::thread> threads;
    threads.reserve(8);
    for (int number = 1; number <= 8; ++number)
      threads.emplace_back(look, number);
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(wrong, 0);
  });
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  EXPECT_EQ(sigismember(&now, 1), 0) << "outside of the world";
}

TEST(SimulatedKernel, AThreadRoundsAsItLikes) {
  run(1, [] {
    int before = 0;
    int after = 0;
    std::thread other([&] {
      std::fesetround(FE_UPWARD);
      before = std::fegetround();
      std::this_thread::sleep_for(2s);
      after = std::fegetround();
    });
    std::this_thread::sleep_for(1s);
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    other.join();
    EXPECT_EQ(before, FE_UPWARD);
    EXPECT_EQ(after, FE_UPWARD);
  });
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

// A thread gets the memory of one that is gone.
TEST(SimulatedKernel, ThreadsAfterAWorldHaveNothingOfItsUnfinishedOnes) {
  std::atomic<int> ran{0};
  for (int round = 0; round < 3; ++round) {
    {
      Simulation world({.seed = 1});
      world.process("p", [](SimulatedProcess&) {
        std::thread endless([] { std::this_thread::sleep_for(10h); });
        endless.join();
      });
      world.run_for(1s);
    }
    std::latch all(4);
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        all.arrive_and_wait();
        ++ran;
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
  EXPECT_EQ(ran, 12);
}

TEST(SimulatedKernel, AThreadMayExitWhereItIs) {
  run(1, [] {
    pthread_t thread{};
    int cleaned = 0;
    const auto body = [](void* count) -> void* {
      struct AtEnd {
        int* cleaned;
        ~AtEnd() {
          std::this_thread::sleep_for(1s);
          ++*cleaned;
        }
      } const at_end{static_cast<int*>(count)};
      std::this_thread::sleep_for(1s);
      ::pthread_exit(count);
    };
    ASSERT_EQ(::pthread_create(&thread, nullptr, body, &cleaned), 0);
    void* result = nullptr;
    ASSERT_EQ(::pthread_join(thread, &result), 0);
    EXPECT_EQ(result, &cleaned);
    EXPECT_EQ(cleaned, 1);
  });
}

TEST(SimulatedKernel, WhatAThreadLocalsDestructorWaitsForHappens) {
  run(1, [] {
    std::atomic<int> ended{0};
    struct Slow {
      std::atomic<int>* ended = nullptr;
      Slow() = default;
      Slow(const Slow&) = delete;
      Slow& operator=(const Slow&) = delete;
      ~Slow() {
        std::this_thread::sleep_for(10s);
        ++*ended;
      }
    };
    const auto begin = steady_clock::now();
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&ended] {
        thread_local Slow slow;
        slow.ended = &ended;
        std::this_thread::sleep_for(1s);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(ended, 3);
    EXPECT_LT(steady_clock::now() - begin, 12s) << "they wait side by side";
  });
}

TEST(SimulatedKernel, AKilledProcessRunsNoDestructor) {
  bool destroyed = false;
  struct Witness {
    bool& told;
    ~Witness() { told = true; }
  };
  {
    Simulation world;
    SimulatedProcess& process = world.process("p", [&](SimulatedProcess&) {
      const Witness witness{destroyed};
      std::this_thread::sleep_for(1h);
    });
    world.run_for(1s);
    EXPECT_TRUE(process.running());
    world.kill(process);
    EXPECT_FALSE(process.running());
    world.run_for(2h);
  }
  EXPECT_FALSE(destroyed);
}

TEST(SimulatedKernel, APausedProcessStandsStillAndItsClockGoesOn) {
  Simulation world;
  int steps = 0;
  steady_clock::duration longest{};
  SimulatedProcess& process = world.process("p", [&](SimulatedProcess& me) {
    for (auto last = steady_clock::now(); !me.stop_token().stop_requested(); ++steps) {
      std::this_thread::sleep_for(100ms);
      longest = std::max(longest, steady_clock::now() - std::exchange(last, steady_clock::now()));
    }
  });
  world.run_for(1s);
  world.pause(process);
  const int before = steps;
  world.run_for(10s);
  EXPECT_EQ(steps, before);
  world.resume(process);
  world.run_for(1s);
  EXPECT_GT(steps, before);
  EXPECT_GE(longest, 10s);
  world.stop(process);
  EXPECT_TRUE(world.run_until([&] { return !process.running(); }, 1s));
}

TEST(SimulatedKernel, AMachineThatSleepsCountsItOnTheBootClockOnly) {
  Simulation world;
  const auto shown = [](clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  std::chrono::nanoseconds monotonic{};
  std::chrono::nanoseconds boot{};
  SimulatedProcess& process = world.process("p", [&](SimulatedProcess&) {
    const auto monotonic_before = shown(CLOCK_MONOTONIC);
    const auto boot_before = shown(CLOCK_BOOTTIME);
    std::this_thread::sleep_for(2s);
    monotonic = shown(CLOCK_MONOTONIC) - monotonic_before;
    boot = shown(CLOCK_BOOTTIME) - boot_before;
  });
  world.run_for(1s);
  world.sleep_machine(process, 30s);
  world.run_for(2s);
  EXPECT_FALSE(process.running());
  EXPECT_GE(monotonic, 2s);
  EXPECT_LT(monotonic, 3s);
  EXPECT_GE(boot, 32s);
}

TEST(SimulatedKernel, WhatCountsByAnotherClockEndsWhileTheMachineSleeps) {
  Simulation world;
  using std::chrono::system_clock;
  std::chrono::nanoseconds monotonic_timer{};
  std::chrono::nanoseconds boot_timer{};
  std::chrono::nanoseconds steady_wait{};
  std::chrono::nanoseconds wall_wait{};
  const auto wait_by_timer = [&](clockid_t clock) {
    const int timer = ::timerfd_create(clock, TFD_CLOEXEC);
    itimerspec in_ten_seconds{};
    in_ten_seconds.it_value.tv_sec = 10;
    ::timerfd_settime(timer, 0, &in_ten_seconds, nullptr);
    std::uint64_t expired = 0;
    EXPECT_EQ(::read(timer, &expired, sizeof expired), static_cast<ssize_t>(sizeof expired));
    ::close(timer);
    return world.now();
  };
  const auto wait_by = [&](auto until) {
    std::mutex mutex;
    std::condition_variable condition;
    std::unique_lock lock(mutex);
    EXPECT_EQ(condition.wait_until(lock, until), std::cv_status::timeout);
    return world.now();
  };
  SimulatedProcess& process = world.process("p", [&](SimulatedProcess&) {
    std::jthread one([&] { monotonic_timer = wait_by_timer(CLOCK_MONOTONIC); });
    std::jthread two([&] { boot_timer = wait_by_timer(CLOCK_BOOTTIME); });
    std::jthread three([&] { steady_wait = wait_by(steady_clock::now() + 10s); });
    std::jthread four([&] { wall_wait = wait_by(system_clock::now() + 10s); });
  });
  world.run_for(1s);
  world.sleep_machine(process, 30s);
  world.run_for(20s);
  EXPECT_FALSE(process.running());
  // From 1 s to 31 s it slept: what was due then comes when it is awake.
  EXPECT_LT(boot_timer, 32s);
  EXPECT_LT(wall_wait, 32s);
  EXPECT_GE(monotonic_timer, 40s);
  EXPECT_GE(steady_wait, 40s);
}

TEST(SimulatedKernel, PipesAndPairsOfSocketsWait) {
  run(1, [] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    std::string read;
    std::jthread reader([&] {
      char buffer[16];
      for (ssize_t size = 0; (size = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        read.append(buffer, static_cast<std::size_t>(size));
    });
    for (const std::string word : {"one ", "two ", "three"}) {
      std::this_thread::sleep_for(1s);
      ASSERT_EQ(::write(ends[1], word.data(), word.size()), static_cast<ssize_t>(word.size()));
    }
    ::close(ends[1]);
    reader.join();
    EXPECT_EQ(read, "one two three");
    ::close(ends[0]);

    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    char byte = 'x';
    EXPECT_EQ(::read(ends[0], &byte, 1), -1);
    EXPECT_EQ(errno, EAGAIN);
    ASSERT_EQ(::write(ends[1], "y", 1), 1);
    const int epoll = ::epoll_create1(0);
    epoll_event event{.events = EPOLLIN, .data = {.fd = ends[0]}};
    ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
    ASSERT_EQ(::epoll_wait(epoll, &event, 1, -1), 1);
    EXPECT_EQ(event.events, static_cast<std::uint32_t>(EPOLLIN));
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    EXPECT_EQ(::epoll_wait(epoll, &event, 1, 0), 0);
    ::close(ends[1]);
    ASSERT_EQ(::epoll_wait(epoll, &event, 1, -1), 1);
    EXPECT_EQ(::read(ends[0], &byte, 1), 0);
    ::close(ends[0]);  // It leaves the set.
    EXPECT_EQ(::epoll_wait(epoll, &event, 1, 0), 0);
    ::close(epoll);
  });
}

TEST(SimulatedKernel, ADuplicateKeepsAFileOpenAndItsClosedNumberLeavesTheSet) {
  run(1, [] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const int again = ::dup(ends[0]);
    const int epoll = ::epoll_create1(0);
    for (const int end : {ends[0], again}) {
      epoll_event event{.events = EPOLLIN, .data = {.fd = end}};
      ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, end, &event), 0);
    }
    epoll_event events[4];
    ASSERT_EQ(::write(ends[1], "x", 1), 1);
    EXPECT_EQ(::epoll_wait(epoll, events, 4, 0), 2);
    ::close(ends[0]);
    ASSERT_EQ(::epoll_wait(epoll, events, 4, 0), 1);
    EXPECT_EQ(events[0].data.fd, again);
    ::close(epoll);
    ::close(again);
    ::close(ends[1]);
  });
}

TEST(SimulatedKernel, ClocksDrift) {
  Simulation world;
  steady_clock::duration took{};
  bool slept = false;
  SimulatedProcess& process = world.process("p", [&](SimulatedProcess&) {
    const auto before = steady_clock::now();
    while (!slept)
      std::this_thread::sleep_for(1s);
    took = steady_clock::now() - before;
  });
  world.drift(process, 0.001);
  world.run_for(1000s);
  slept = true;
  world.run_for(5s);
  EXPECT_GE(took, 1001s - 1ms);
  EXPECT_LE(took, 1003s);
}

using SimulatedKernelDeathTest = ::testing::Test;

TEST(SimulatedKernelDeathTest, ABusyWaitEndsWithASentence) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(run(1,
                   [] {
                     for (;;)
                       std::this_thread::yield();
                   }),
               "\"p\" is busy waiting");
}

}  // namespace
}  // namespace zktesting
