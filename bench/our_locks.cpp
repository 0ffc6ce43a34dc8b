#include "our_locks.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>

#include <zkclient/client.hpp>
#include <zkclient/runtime.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/shared_mutex.hpp>

namespace bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using zkrecipes::Lease;

constexpr std::size_t drain_sessions = 8;

/// The waiters of a drain: each gives the lock back as soon as it has it.
class Drain {
 public:
  void wait_for(zkrecipes::Mutex& mutex) {
    {
      const std::lock_guard lock(mutex_);
      ++left_;
    }
    mutex.async_acquire([this](zkclient::Result<Lease> result) {
      { const std::optional<Lease> lease = result ? std::optional<Lease>(std::move(*result)) : std::nullopt; }
      const std::lock_guard lock(mutex_);
      if (!result && !failure_) failure_ = result.error();
      if (--left_ == 0) done_.notify_all();
    });
  }
  void join() {
    {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [this] { return left_ == 0; });
    }
    rethrow();
  }
  void rethrow() {
    const std::lock_guard lock(mutex_);
    if (failure_) throw zkclient::Error(*failure_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  int left_ = 0;
  std::optional<zkclient::Error> failure_;
};

class OurLocks final : public LockPeer {
 public:
  OurLocks(std::string server, zkclient::Path folder, bool look_ahead)
      : server_(std::move(server)), folder_(std::move(folder)), look_ahead_(look_ahead) {
    client(0).ensure(folder_ / "drain", zkclient::CreateMode::persistent);
  }

  Outcome cycle(milliseconds duration) override { return run_mutex("cycle", 1, duration); }
  Outcome contend(int contenders, milliseconds duration) override { return run_mutex("contend", contenders, duration); }
  Outcome readers(int contenders, milliseconds duration) override {
    std::deque<zkrecipes::SharedMutex> locks;
    for (int i = 0; i < contenders; ++i)
      locks.emplace_back(client(i), folder_ / "readers");
    return run(contenders, duration, [&](int i, auto&& inside) {
      const Lease lease = locks[static_cast<std::size_t>(i)].acquire_shared();
      (void)inside;
    });
  }

  void queue(int waiters) override {
    mutexes_.clear();
    for (std::size_t i = 0; i < drain_sessions; ++i)
      mutexes_.emplace_back(client(static_cast<int>(i)), folder_ / "drain",
                            zkrecipes::MutexOptions{.look_ahead = look_ahead_});
    held_ = mutexes_.front().acquire();
    // Each of them lists all before it, and replies to those who come at once would hold up everything else.
    constexpr int at_once = 200;
    for (int queued = 0; queued < waiters;) {
      const int more = std::min(at_once, waiters - queued);
      for (int i = 0; i < more; ++i)
        drain_.wait_for(mutexes_[static_cast<std::size_t>(i) % drain_sessions]);
      queued += more;
      while (client(0).exists(folder_ / "drain")->children_count <= queued) {
        drain_.rethrow();
        std::this_thread::sleep_for(1ms);
      }
    }
    std::this_thread::sleep_for(300ms);  // Until the last ones have set their watches.
    waiters_ = waiters;
  }
  Outcome drain() override {
    const Stopwatch stopwatch(0ms);
    held_ = Lease();
    drain_.join();
    return {stopwatch.stop(waiters_), 1, 1, 0};
  }

 private:
  zkclient::Client& client(int i) {
    zkclient::ClientOptions options;
    options.session_timeout = session_timeout;
    while (clients_.size() <= static_cast<std::size_t>(i)) {
      clients_.emplace_back(runtime_, server_, options);
      clients_.back().connect();
    }
    return clients_[static_cast<std::size_t>(i)];
  }

  Outcome run_mutex(const char* name, int contenders, milliseconds duration) {
    std::deque<zkrecipes::Mutex> locks;
    for (int i = 0; i < contenders; ++i)
      locks.emplace_back(client(i), folder_ / name, zkrecipes::MutexOptions{.look_ahead = look_ahead_});
    return run(contenders, duration, [&](int i, auto&& inside) {
      const Lease lease = locks[static_cast<std::size_t>(i)].acquire();
      inside();
    });
  }

  /// `work(i, inside)` goes round once, and calls `inside` where nobody else may be.
  template <typename Work>
  Outcome run(int count, milliseconds duration, Work work) {
    std::atomic<int> inside{0};
    std::atomic<std::int64_t> overlaps{0};
    std::vector<std::int64_t> cycles(static_cast<std::size_t>(count));
    std::latch start(count + 1);
    std::optional<Stopwatch> stopwatch;
    std::vector<std::jthread> crew;
    std::mutex guard;
    std::exception_ptr failure;
    for (int i = 0; i < count; ++i) {
      client(i);
      crew.emplace_back([&, i] {
        const auto enter = [&] {
          if (inside.fetch_add(1) != 0) ++overlaps;
          inside.fetch_sub(1);
        };
        try {
          start.arrive_and_wait();
          for (; stopwatch->running(); ++cycles[static_cast<std::size_t>(i)])
            work(i, enter);
        } catch (...) {
          const std::lock_guard lock(guard);
          failure = std::current_exception();
        }
      });
    }
    stopwatch.emplace(duration);
    start.arrive_and_wait();
    crew.clear();
    if (failure != nullptr) std::rethrow_exception(failure);
    std::int64_t sum = 0;
    for (const std::int64_t one : cycles)
      sum += one;
    const auto [least, most] = std::minmax_element(cycles.begin(), cycles.end());
    return {stopwatch->stop(sum), *least, *most, overlaps};
  }

  const std::string server_;
  const zkclient::Path folder_;
  const bool look_ahead_;
  zkclient::Runtime runtime_;
  std::deque<zkclient::Client> clients_;
  std::deque<zkrecipes::Mutex> mutexes_;
  Lease held_;
  Drain drain_;
  int waiters_ = 0;
};

}  // namespace

std::unique_ptr<LockPeer> make_our_locks(const std::string& server, const std::string& folder, bool look_ahead) {
  return std::make_unique<OurLocks>(server, folder, look_ahead);
}

}  // namespace bench
