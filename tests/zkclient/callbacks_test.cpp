#include "zkclient/detail/loop/callbacks.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <zkclient/error.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/threads.hpp"

namespace {

using testkit::count_threads;
using testkit::eventually;
using zkclient::detail::CallbackGroup;
using zkclient::detail::CallbackPool;
using zkclient::detail::LoopPause;
using zkclient::detail::SerialQueue;
using zkclient::detail::Task;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto patience = 60s;

// Opens once.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// Does for the pool what the event loop does: relieves it every few milliseconds while it has a backlog.
class Reliever {
 public:
  static constexpr auto period = 5ms;

  void start() {
    const std::lock_guard lock(mutex_);
    candidates_ = true;
    changed_.notify_all();
  }
  void run(CallbackPool& pool) {
    thread_ = std::thread([this, &pool] {
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return candidates_ || ended_; });
        if (ended_) return;
        candidates_ = false;
        do {
          changed_.wait_for(lock, period, [this] { return ended_; });
          if (ended_) return;
          lock.unlock();
          const bool again = pool.relieve();
          lock.lock();
          if (!again) break;
        } while (true);
      }
    });
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool candidates_ = false;
  bool ended_ = false;
  std::thread thread_;
};

// While it lives the system starts no thread: its stack would be larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge{};
    EXPECT_EQ(::pthread_attr_init(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 52), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    EXPECT_EQ(::pthread_setattr_default_np(&before_), 0);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

// An event loop without events: it runs what a test asks for.
class JobLoop {
 public:
  LoopPause run() {
    std::unique_lock lock(mutex_);
    EXPECT_EQ(thread_, std::thread::id()) << "two threads run it";
    thread_ = std::this_thread::get_id();
    changed_.notify_all();
    while (!inline_task_) {
      changed_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
      if (jobs_.empty()) break;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
    thread_ = {};
    return std::exchange(inline_task_, false) ? LoopPause::inline_task : LoopPause::end;
  }
  void post(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }
  // In a job.
  void pause() {
    const std::lock_guard lock(mutex_);
    inline_task_ = true;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  bool here() {
    const std::lock_guard lock(mutex_);
    return thread_ == std::this_thread::get_id();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::thread::id thread_;  // That runs it.
  bool inline_task_ = false;
  bool ended_ = false;
};

// Nobody takes the loop over because an inline task lasts.
struct PatientPool {
  static constexpr int max_threads = 4;

  ~PatientPool() { stop(); }
  void stop() {
    loop.end();
    pool.stop();
  }
  void post_from_loop(Task task) {
    loop.post([this, task = std::make_shared<Task>(std::move(task))] {
      if (pool.schedule(*task, false, true) == CallbackPool::Place::inline_task) loop.pause();
    });
  }

  JobLoop loop;
  CallbackPool pool{max_threads, [this] { return loop.run(); }, [] {}, 24h};
};

class CallbackPoolTest : public ::testing::Test {
 protected:
  void TearDown() override { stop(); }
  void stop() {
    reliever.end();
    loop.end();
    pool.stop();
  }
  bool post(Task task, bool urgent = false) {
    return pool.schedule(task, urgent, false) != CallbackPool::Place::stopped;
  }
  // In a job of the loop.
  void post_from_loop(Task task) {
    EXPECT_TRUE(loop.here());
    if (pool.schedule(task, false, true) == CallbackPool::Place::inline_task) loop.pause();
  }
  // All but that of the loop, until `release` is open.
  bool block_all_threads(Gate& release) {
    for (int i = 0; i < max_threads; ++i) {
      post([&] {
        ++threads_blocked;
        release.wait();
      });
    }
    return eventually([&] { return threads_blocked == max_threads; });
  }
  // Lives for longer than the tasks that wait for it.
  Gate& gate() { return gates.emplace_back(); }

  static constexpr int max_threads = 4;
  std::deque<Gate> gates;
  std::atomic<int> threads_blocked{0};
  Reliever reliever;
  JobLoop loop;
  CallbackPool pool{max_threads, [this] { return loop.run(); }, [this] { reliever.start(); }};
  bool relieved = (reliever.run(pool), true);
};

TEST_F(CallbackPoolTest, TasksStartInOrderOneAtATime) {
  constexpr int tasks = 300;
  std::mutex mutex;
  std::vector<int> order;
  std::map<std::thread::id, std::vector<int>> by_worker;
  std::atomic<int> running{0};
  std::atomic<bool> overlapped{false};
  const auto all_in_turn = [&] {
    overlapped = false;
    order.clear();
    by_worker.clear();
    for (int i = 0; i < tasks; ++i) {
      EXPECT_TRUE(post([&, i] {
        if (running.fetch_add(1) != 0) overlapped = true;
        {
          const std::lock_guard lock(mutex);
          order.push_back(i);
          by_worker[std::this_thread::get_id()].push_back(i);
        }
        running.fetch_sub(1);
      }));
    }
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex);
      return order.size() >= tasks && running == 0;
    }));
    const std::lock_guard lock(mutex);
    for (const auto& [worker, its] : by_worker)
      EXPECT_TRUE(std::is_sorted(its.begin(), its.end()));
    const bool in_order = std::is_sorted(order.begin(), order.end());
    std::sort(order.begin(), order.end());
    std::vector<int> each_once(tasks);
    std::iota(each_once.begin(), each_once.end(), 0);
    EXPECT_TRUE(order == each_once);
    return in_order && !overlapped;
  };
  // A task that is descheduled for longer than the pool's patience loses its turn to the next one: not every time.
  bool in_turn = false;
  const auto end = SteadyClock::now() + patience;
  while (!in_turn && !HasFailure() && SteadyClock::now() < end) {
    in_turn = all_in_turn();
    if (!in_turn) GTEST_LOG_(INFO) << "a task lost its turn on a busy machine";
  }
  EXPECT_TRUE(in_turn);
}

TEST_F(CallbackPoolTest, ATaskThatSleepsDelaysTheOthersByNoMoreThanItsPatience) {
  Gate& release = gate();
  Gate& blocked = gate();
  Gate& other = gate();
  post([&] {
    blocked.open();
    release.wait();
  });
  ASSERT_TRUE(blocked.wait());
  const auto begin = SteadyClock::now();
  post([&] { other.open(); });
  ASSERT_TRUE(other.wait()) << "waits for the task that sleeps";
  EXPECT_LT(SteadyClock::now() - begin, patience / 2) << "that one sleeps for twice as long";
  release.open();
}

TEST_F(CallbackPoolTest, SeveralTasksThatSleepDelayNobodyElse) {
  Gate& release = gate();
  std::atomic<int> blocked{0};
  for (int i = 0; i < max_threads - 1; ++i) {
    post([&] {
      ++blocked;
      release.wait();
    });
  }
  ASSERT_TRUE(eventually([&] { return blocked == max_threads - 1; }));
  Gate& other = gate();
  post([&] { other.open(); });
  EXPECT_TRUE(other.wait());
  release.open();
}

TEST_F(CallbackPoolTest, TasksWaitWhenAllThreadsSleepAndRunInTheEnd) {
  Gate& release = gate();
  std::atomic<int> blocked{0};
  std::atomic<int> later{0};
  for (int i = 0; i < max_threads; ++i) {
    post([&] {
      ++blocked;
      release.wait();
    });
  }
  for (int i = 0; i < 10; ++i)
    post([&] { ++later; });
  ASSERT_TRUE(eventually([&] { return blocked == max_threads; }));
  EXPECT_EQ(later, 0);
  release.open();
  EXPECT_TRUE(eventually([&] { return later == 10; }));
}

TEST_F(CallbackPoolTest, UrgentTasksWaitForNobody) {
  Gate& release = gate();
  Gate& blocked = gate();
  post([&] {
    blocked.open();
    release.wait();
  });
  ASSERT_TRUE(blocked.wait());
  reliever.end();  // No relief: an urgent task needs none.
  std::atomic<int> ordinary{0};
  for (int i = 0; i < 5; ++i)
    post([&] { ++ordinary; });
  Gate& urgent = gate();
  post([&] { urgent.open(); }, true);
  EXPECT_TRUE(urgent.wait());
  EXPECT_EQ(ordinary, 0) << "without relief nothing else can have run";
  release.open();
  EXPECT_TRUE(eventually([&] { return ordinary == 5; }));
}

TEST_F(CallbackPoolTest, SeveralUrgentTasksDoNotWaitForEachOther) {
  Gate& release = gate();
  std::atomic<int> running{0};
  for (int i = 0; i < max_threads; ++i) {
    post(
        [&] {
          ++running;
          release.wait();
        },
        true);
  }
  EXPECT_TRUE(eventually([&] { return running == max_threads; }));
  release.open();
}

TEST_F(CallbackPoolTest, TasksWaitWhileThereIsNoThreadToBeHad) {
  Gate& release = gate();
  Gate& blocked = gate();
  Gate& ordinary = gate();
  Gate& urgent = gate();
  std::atomic<int> done{0};
  post([&] {
    blocked.open();
    release.wait();
  });
  ASSERT_TRUE(blocked.wait());
  {
    const NoThreads scarcity;
    post(
        [&] {
          ++done;
          urgent.open();
        },
        true);
    post([&] {
      ++done;
      ordinary.open();
    });
    EXPECT_FALSE(eventually([&] { return done > 0; }, 100ms)) << "the scarcity is none";
  }
  EXPECT_TRUE(urgent.wait());
  EXPECT_TRUE(ordinary.wait());
  release.open();
}

TEST_F(CallbackPoolTest, WithoutAThreadThereIsNoPool) {
  const NoThreads scarcity;
  EXPECT_THROW(CallbackPool(
                   1, [] { return LoopPause::end; }, [] {}),
               zkclient::Error);
}

TEST_F(CallbackPoolTest, HelpersGoAwayWhenTheyAreNotNeeded) {
  const std::size_t before = count_threads();
  Gate& release = gate();
  ASSERT_TRUE(block_all_threads(release));
  EXPECT_EQ(count_threads(), before + max_threads - 1);
  release.open();
  EXPECT_TRUE(eventually([&] { return count_threads() == before; })) << count_threads() << " instead of " << before;
  Gate& still_works = gate();
  post([&] { still_works.open(); });
  EXPECT_TRUE(still_works.wait());
}

TEST_F(CallbackPoolTest, AHelperStaysWhileATaskSleeps) {
  Gate& release = gate();
  Gate& blocked = gate();
  post([&] {
    blocked.open();
    release.wait();
  });
  ASSERT_TRUE(blocked.wait());
  Gate& helped = gate();
  post([&] { helped.open(); });
  ASSERT_TRUE(helped.wait());
  const std::size_t with_helper = count_threads();
  // Longer than a helper has to be idle before it goes.
  EXPECT_FALSE(eventually([&] { return count_threads() < with_helper; }, 2500ms)) << "nobody is left for the next task";
  Gate& later = gate();
  post([&] { later.open(); });
  EXPECT_TRUE(later.wait());
  release.open();
}

TEST_F(CallbackPoolTest, AnUrgentTaskThatSleepsDelaysNobodyElse) {
  Gate& release = gate();
  Gate& blocked = gate();
  post(
      [&] {
        blocked.open();
        release.wait();
      },
      true);
  ASSERT_TRUE(blocked.wait());
  Gate& other = gate();
  post([&] { other.open(); });
  EXPECT_TRUE(other.wait());
  release.open();
}

// Which takes the only thread, that was to run the other task.
TEST_F(CallbackPoolTest, AnUrgentTaskThatOvertakesAnotherOneMayWaitForIt) {
  std::atomic<int> ended{0};
  constexpr int rounds = 200;
  for (int round = 1; round <= rounds && !HasFailure(); ++round) {
    Gate& other = gate();
    post([&] { other.open(); });
    post(
        [&] {
          EXPECT_TRUE(other.wait());
          ++ended;
        },
        true);
    ASSERT_TRUE(eventually([&] { return ended == round; }, 2 * patience));
  }
}

TEST_F(CallbackPoolTest, StopRunsWhatIsQueued) {
  Gate& release = gate();
  Gate& blocked = gate();
  std::atomic<int> ran{0};
  post([&] {
    blocked.open();
    release.wait();
  });
  ASSERT_TRUE(blocked.wait());
  reliever.end();
  for (int i = 0; i < 100; ++i)
    post([&] { ++ran; });
  std::thread opener([&] { release.open(); });
  stop();
  opener.join();
  EXPECT_EQ(ran, 100);
}

TEST_F(CallbackPoolTest, RefusesAfterStopAndLeavesTheTaskAlone) {
  stop();
  int calls = 0;
  Task task = [&] { ++calls; };
  EXPECT_EQ(pool.schedule(task, false, false), CallbackPool::Place::stopped);
  EXPECT_EQ(pool.schedule(task, true, false), CallbackPool::Place::stopped);
  EXPECT_FALSE(pool.relieve());
  ASSERT_TRUE(task);
  task();
  EXPECT_EQ(calls, 1);
}

TEST_F(CallbackPoolTest, MayBeStoppedFromInside) {
  Gate& stopped = gate();
  post([&] {
    stop();
    stopped.open();
  });
  EXPECT_TRUE(stopped.wait());
  EXPECT_FALSE(post([] {}));
}

TEST_F(CallbackPoolTest, MayBeStoppedFromAnInlineTask) {
  for (int round = 0; round < 50; ++round) {
    PatientPool patient;
    Gate stopped;
    patient.post_from_loop([&] {
      patient.stop();
      stopped.open();
    });
    ASSERT_TRUE(stopped.wait());
  }
}

// What an event brings is done without a change of threads.
TEST_F(CallbackPoolTest, TheThreadOfTheLoopRunsAFewTasksItself) {
  int inline_tasks = 0;
  EXPECT_TRUE(eventually([&] {
    Gate done;
    std::thread::id of_loop;
    std::thread::id of_task;
    loop.post([&] {
      of_loop = std::this_thread::get_id();
      post_from_loop([&] {
        EXPECT_FALSE(loop.here()) << "it has left the loop";
        of_task = std::this_thread::get_id();
        done.open();
      });
      EXPECT_TRUE(loop.here());
    });
    EXPECT_TRUE(done.wait());
    // The idle thread, when it looks after the loop, takes a task that waits.
    if (of_task == of_loop) ++inline_tasks;
    return inline_tasks == 5;
  }));
}

TEST_F(CallbackPoolTest, TheLoopGoesOnWhileAnInlineTaskTakesLong) {
  for (int round = 0; round < 50; ++round) {
    Gate& release = gate();
    Gate& other = gate();
    loop.post([&] { post_from_loop([&] { EXPECT_TRUE(release.wait()); }); });
    loop.post([&] { release.open(); });
    ASSERT_TRUE(release.wait()) << "nobody took the loop over";
    loop.post([&] { post_from_loop([&] { other.open(); }); });
    ASSERT_TRUE(other.wait());
  }
}

TEST_F(CallbackPoolTest, TheLoopGoesOnAtOnceWhenATaskIsAboutToWait) {
  for (int round = 0; round < 50; ++round) {
    PatientPool patient;
    Gate release;
    std::atomic<bool> released{false};
    patient.post_from_loop([&] {
      patient.loop.post([&] { release.open(); });
      CallbackPool::about_to_wait();
      released = release.wait();
    });
    ASSERT_TRUE(release.wait());
    patient.stop();
    ASSERT_TRUE(released);
  }
}

// It has the parent's pool, whose lock another of the parent's threads may have had at that moment.
TEST_F(CallbackPoolTest, AChildThatAnInlineTaskForksWaitsForNoLockOfTheParent) {
  Gate done;
  PatientPool patient;
  patient.post_from_loop([&] {
    std::atomic<bool> locking{false};
    std::jthread locker([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        patient.pool.relieve();
        locking = true;
      }
    });
    EXPECT_TRUE(eventually([&] { return locking.load(); }));
    for (int round = 0; round < 50; ++round) {
      const pid_t child = ::fork();
      if (child == 0) {
        CallbackPool::about_to_wait();
        ::_exit(0);
      }
      int status = 0;
      const bool ended = eventually([&] { return ::waitpid(child, &status, WNOHANG) != 0; }, 30s);
      EXPECT_TRUE(ended) << "round " << round;
      if (ended) continue;
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    done.open();
  });
  EXPECT_TRUE(done.wait());
}

TEST_F(CallbackPoolTest, StopWaitsForAnInlineTask) {
  for (int round = 0; round < 50; ++round) {
    PatientPool patient;
    Gate begun;
    Gate release;
    std::atomic<bool> done{false};
    patient.post_from_loop([&] {
      begun.open();
      done = release.wait();
    });
    ASSERT_TRUE(begun.wait());
    std::thread opener([&] { release.open(); });
    patient.stop();
    EXPECT_TRUE(done);
    opener.join();
  }
}

// A loop that has to stay on its thread returns only to leave its tasks to others.
TEST_F(CallbackPoolTest, ALoopMayRefuseToBeLeft) {
  JobLoop own;
  CallbackPool pool_of_own(
      max_threads, [&] { return own.run() == LoopPause::end ? LoopPause::end : LoopPause::pass_on; }, [] {}, 24h);
  for (int round = 0; round < 50; ++round) {
    Gate done;
    std::thread::id of_loop;
    std::thread::id of_task;
    Task task = [&] {
      of_task = std::this_thread::get_id();
      done.open();
    };
    own.post([&] {
      of_loop = std::this_thread::get_id();
      if (pool_of_own.schedule(task, false, true) == CallbackPool::Place::inline_task) own.pause();
    });
    EXPECT_TRUE(done.wait());
    EXPECT_NE(of_task, of_loop);
  }
  own.end();
  pool_of_own.stop();
}

TEST_F(CallbackPoolTest, TheLoopGoesOnWhileAllTasksWaitForIt) {
  constexpr int tasks = max_threads;
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> done{0};
    std::deque<Gate> rounds(tasks);
    for (Gate& release : rounds) {
      loop.post([&] {
        post_from_loop([&] {
          loop.post([&] { release.open(); });
          CallbackPool::about_to_wait();
          EXPECT_TRUE(release.wait());
          ++done;
        });
      });
    }
    ASSERT_TRUE(eventually([&] { return done == tasks; }));
  }
}

// Only one thread is left, and it has the loop.
TEST_F(CallbackPoolTest, WithoutAnIdleThreadTheLoopIsNotLeft) {
  Gate& release = gate();
  ASSERT_TRUE(block_all_threads(release));
  reliever.end();
  std::atomic<int> ran{0};
  post([&] { ++ran; });
  pool.relieve();
  ASSERT_TRUE(pool.relieve());  // Now nobody has the turn.
  Gate& job = gate();
  loop.post([&] { post_from_loop([&] { ++ran; }); });
  loop.post([&] { job.open(); });
  EXPECT_TRUE(job.wait());
  EXPECT_EQ(ran, 0);
  release.open();
  EXPECT_TRUE(eventually([&] { return ran == 2; }));
}

TEST_F(CallbackPoolTest, AnUrgentTaskWaitsForNoInlineTask) {
  for (int round = 0; round < 50; ++round) {
    Gate& release = gate();
    Gate& blocked = gate();
    loop.post([&] {
      post_from_loop([&] {
        blocked.open();
        release.wait();
      });
    });
    ASSERT_TRUE(blocked.wait());
    Gate& urgent = gate();
    Gate& job = gate();
    post(
        [&] {
          EXPECT_TRUE(job.wait()) << "the thread that was to look after the loop runs this";
          urgent.open();
        },
        true);
    loop.post([&] { job.open(); });
    ASSERT_TRUE(urgent.wait());
    release.open();
  }
}

TEST_F(CallbackPoolTest, TasksOfTheLoopKeepTheirOrder) {
  constexpr int jobs = 304;
  reliever.end();  // Nobody loses his turn.
  std::mutex mutex;
  std::vector<int> order;
  for (int i = 0; i < jobs; ++i) {
    loop.post([&, i] {
      for (int k = 0; k < i % 8; ++k) {
        post_from_loop([&, number = 8 * i + k] {
          const std::lock_guard lock(mutex);
          order.push_back(number);
        });
      }
    });
  }
  Gate& last = gate();
  loop.post([&] { post_from_loop([&] { last.open(); }); });
  ASSERT_TRUE(last.wait());
  const std::lock_guard lock(mutex);
  EXPECT_EQ(order.size(), jobs / 8 * (0u + 1 + 2 + 3 + 4 + 5 + 6 + 7));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(CallbackPoolTest, WhatATaskOwnsGoesWithIt) {
  reliever.end();  // Nobody loses his turn.
  auto owned = std::make_shared<int>(1);
  Gate& next = gate();
  const std::weak_ptr<int> weak = owned;
  post([owned = std::move(owned)] {});
  bool gone = false;
  post([&] {
    gone = weak.expired();
    next.open();
  });
  ASSERT_TRUE(next.wait());
  EXPECT_TRUE(gone);
}

class CallbackGroupTest : public CallbackPoolTest {
 protected:
  std::shared_ptr<CallbackGroup> make_group() {
    return std::make_shared<CallbackGroup>([this](Task task, bool urgent) { post(std::move(task), urgent); }, false);
  }
  std::shared_ptr<CallbackGroup> group = make_group();
};

TEST_F(CallbackGroupTest, WaitReturnsWhenAllTasksHaveRun) {
  std::atomic<int> ran{0};
  for (int i = 0; i < 200; ++i) {
    group->post([&] { ++ran; }, i % 7 == 0);
  }
  group->wait();
  EXPECT_EQ(ran, 200);
  group->wait();
}

TEST_F(CallbackGroupTest, WaitsOnlyForItsOwn) {
  const auto other = make_group();
  Gate& release = gate();
  Gate& blocked = gate();
  other->post([&] {
    blocked.open();
    release.wait();
  });
  ASSERT_TRUE(blocked.wait());
  std::atomic<bool> ran{false};
  group->post([&] { ran = true; });
  group->wait();
  EXPECT_TRUE(ran);
  release.open();
  other->wait();
}

TEST_F(CallbackGroupTest, DoesNotWaitInsideOneOfItsTasks) {
  Gate& waited = gate();
  group->post([&] {
    group->wait();
    waited.open();
  });
  EXPECT_TRUE(waited.wait());
  group->wait();
}

TEST_F(CallbackGroupTest, CountsATaskThatTheExecutorDropped) {
  const auto dropping = std::make_shared<CallbackGroup>([](Task, bool) {}, false);
  dropping->post([] { FAIL() << "was to be dropped"; });
  dropping->wait();
}

TEST_F(CallbackGroupTest, WaitCoversWhatATaskPosts) {
  std::atomic<int> depth{0};
  std::function<void()> nest = [&] {
    if (++depth < 50) group->post([&] { nest(); });
  };
  group->post([&] { nest(); });
  group->wait();
  EXPECT_EQ(depth, 50);
}

class SerialQueueTest : public CallbackGroupTest {
 protected:
  std::shared_ptr<SerialQueue> queue = std::make_shared<SerialQueue>(group);
};

TEST_F(SerialQueueTest, TasksOfOneQueueNeverOverlapAndKeepTheirOrder) {
  constexpr int queues = 4;
  constexpr int tasks = 200;
  struct State {
    std::shared_ptr<SerialQueue> queue;
    std::atomic<int> running{0};
    std::atomic<bool> overlapped{false};
    std::vector<int> order;
  };
  std::vector<State> states(queues);
  for (State& state : states)
    state.queue = std::make_shared<SerialQueue>(group);
  for (int i = 0; i < tasks; ++i) {
    for (State& state : states) {
      state.queue->post([&state, i] {
        if (state.running.fetch_add(1) != 0) state.overlapped = true;
        state.order.push_back(i);                           // Not locked: ThreadSanitizer would notice an overlap.
        if (i % 50 == 0) std::this_thread::sleep_for(8ms);  // Long enough to lose the turn.
        state.running.fetch_sub(1);
      });
    }
  }
  group->wait();
  for (const State& state : states) {
    EXPECT_FALSE(state.overlapped);
    ASSERT_EQ(state.order.size(), static_cast<std::size_t>(tasks));
    for (int i = 0; i < tasks; ++i)
      ASSERT_EQ(state.order[static_cast<std::size_t>(i)], i);
  }
}

TEST_F(SerialQueueTest, ASlowQueueDelaysOnlyItself) {
  const auto other = std::make_shared<SerialQueue>(group);
  Gate& release = gate();
  Gate& blocked = gate();
  std::atomic<bool> behind{false};
  queue->post([&] {
    blocked.open();
    release.wait();
  });
  queue->post([&] { behind = true; });
  ASSERT_TRUE(blocked.wait());
  Gate& free = gate();
  other->post([&] { free.open(); });
  EXPECT_TRUE(free.wait());
  EXPECT_FALSE(behind);
  release.open();
  group->wait();
  EXPECT_TRUE(behind);
}

TEST_F(SerialQueueTest, ABusyQueueDoesNotStarveAnother) {
  reliever.end();
  const auto other = std::make_shared<SerialQueue>(group);
  std::atomic<int> busy{0};
  std::atomic<int> busy_before_other{-1};
  Gate& ready = gate();
  Gate& begin = gate();
  queue->post([&] {
    ready.open();
    begin.wait();
  });
  ASSERT_TRUE(ready.wait());
  for (int i = 0; i < 10'000; ++i)
    queue->post([&] { ++busy; });
  other->post([&] { busy_before_other = busy.load(); });
  begin.open();
  group->wait();
  EXPECT_EQ(busy, 10'000);
  EXPECT_LT(busy_before_other, 1'000);
}

TEST_F(SerialQueueTest, CloseWaitsForWhatRunsAndRefusesWhatComes) {
  Gate& release = gate();
  Gate& blocked = gate();
  std::atomic<bool> finished{false};
  std::atomic<bool> late{false};
  queue->post([&] {
    blocked.open();
    release.wait();
    finished = true;
  });
  ASSERT_TRUE(blocked.wait());
  std::thread opener([&] { release.open(); });
  queue->close();
  EXPECT_TRUE(finished) << "closed before the running task ended";
  opener.join();
  queue->post([&] { late = true; });
  group->wait();
  EXPECT_FALSE(late);
}

TEST_F(SerialQueueTest, CloseDropsWhatIsQueued) {
  Gate& release = gate();
  Gate& blocked = gate();
  std::atomic<bool> ran{false};
  group->post([&] {  // Keeps the turn, so that the queue cannot begin.
    blocked.open();
    release.wait();
  });
  ASSERT_TRUE(blocked.wait());
  reliever.end();
  queue->post([&] { ran = true; });
  queue->close();
  release.open();
  group->wait();
  EXPECT_FALSE(ran);
}

TEST_F(SerialQueueTest, ATurnThatTheExecutorDroppedIsTakenForTheNextTask) {
  bool drops = true;
  const auto fickle = std::make_shared<CallbackGroup>(
      [&](Task task, bool) {
        if (!drops) task();
      },
      false);
  const auto of_it = std::make_shared<SerialQueue>(fickle);
  std::vector<int> ran;
  of_it->post([&] { ran.push_back(1); });
  EXPECT_TRUE(ran.empty());
  drops = false;
  of_it->post([&] { ran.push_back(2); });
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST_F(SerialQueueTest, ATurnThatTheExecutorDroppedIsAskedForAgainLater) {
  bool drops = true;
  std::deque<Task> delayed;
  const auto fickle = std::make_shared<CallbackGroup>(
      [&](Task task, bool) {
        if (!drops) task();
      },
      true, nullptr, [&](Task task) { delayed.push_back(std::move(task)); });
  const auto run_delayed = [&] {
    ASSERT_EQ(delayed.size(), 1u);
    Task task = std::move(delayed.front());
    delayed.pop_front();
    task();
  };
  const auto of_it = std::make_shared<SerialQueue>(fickle);
  int ran = 0;
  of_it->post([&] { ++ran; });
  run_delayed();
  drops = false;
  run_delayed();
  EXPECT_EQ(ran, 1);
  drops = true;
  of_it->post([&] { ++ran; });
  of_it->close();
  drops = false;
  run_delayed();
  EXPECT_EQ(ran, 1) << "closed";
  EXPECT_TRUE(delayed.empty());
}

TEST_F(SerialQueueTest, MayBeClosedFromInside) {
  Gate& closed = gate();
  std::atomic<bool> ran{false};
  queue->post([&] {
    queue->close();
    closed.open();
  });
  queue->post([&] { ran = true; });
  ASSERT_TRUE(closed.wait());
  group->wait();
  EXPECT_FALSE(ran);
}

}  // namespace
