#include "our_locks.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <latch>
#include <mutex>
#include <numeric>
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

/// Chains of handlers that have not ended.
class Outstanding {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++left_;
  }
  void end(const zkclient::Result<Lease>& last) {
    const std::lock_guard lock(mutex_);
    if (!last && !failure_) failure_ = last.error();
    if (--left_ == 0) done_.notify_all();
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

/// What contender `i` does to get the lock, in both forms.
struct Acquire {
  std::function<Lease(std::size_t i)> blocking;
  std::function<void(std::size_t i, zkclient::Handler<Lease>)> asynchronous;
};

/// The contenders of one slice of time.
class Crew {
 public:
  Crew(int count, bool exclusive, const Acquire& acquire)
      : exclusive_(exclusive), acquire_(acquire), cycles_(static_cast<std::size_t>(count)) {}

  Outcome run_threads(milliseconds duration) {
    std::latch start(static_cast<std::ptrdiff_t>(cycles_.size()) + 1);
    std::mutex guard;
    std::exception_ptr failure;
    std::vector<std::jthread> crew;
    for (std::size_t i = 0; i < cycles_.size(); ++i) {
      crew.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          while (stopwatch_->running()) {
            const Lease lease = acquire_.blocking(i);
            visit(i);
          }
        } catch (...) {
          const std::lock_guard lock(guard);
          failure = std::current_exception();
        }
      });
    }
    stopwatch_.emplace(duration);
    start.arrive_and_wait();
    crew.clear();
    if (failure != nullptr) std::rethrow_exception(failure);
    return outcome();
  }

  Outcome run_handlers(milliseconds duration) {
    stopwatch_.emplace(duration);
    for (std::size_t i = 0; i < cycles_.size(); ++i) {
      outstanding_.begin();
      go_round(i);
    }
    outstanding_.join();
    return outcome();
  }

 private:
  void go_round(std::size_t i) {
    acquire_.asynchronous(i, [this, i](zkclient::Result<Lease> result) {
      if (result) {
        visit(i);
        *result = Lease();
        if (stopwatch_->running()) return go_round(i);
      }
      outstanding_.end(result);
    });
  }
  /// With the lock.
  void visit(std::size_t i) {
    ++cycles_[i];
    if (!exclusive_) return;
    if (inside_.fetch_add(1) != 0) ++overlaps_;
    inside_.fetch_sub(1);
  }
  Outcome outcome() const {
    const auto [least, most] = std::minmax_element(cycles_.begin(), cycles_.end());
    return {stopwatch_->stop(std::accumulate(cycles_.begin(), cycles_.end(), std::int64_t{0})), *least, *most,
            overlaps_};
  }

  const bool exclusive_;
  const Acquire& acquire_;
  std::vector<std::int64_t> cycles_;
  std::optional<Stopwatch> stopwatch_;
  std::atomic<int> inside_{0};
  std::atomic<std::int64_t> overlaps_{0};
  Outstanding outstanding_;
};

class OurLocks final : public LockPeer {
 public:
  OurLocks(std::string server, zkclient::Path folder, Form form)
      : server_(std::move(server)), folder_(std::move(folder)), form_(form) {
    client(0).ensure(folder_ / "drain", zkclient::CreateMode::persistent);
  }

  Outcome cycle(milliseconds duration) override { return run_mutex("cycle", 1, duration); }
  Outcome contend(int contenders, milliseconds duration) override { return run_mutex("contend", contenders, duration); }
  Outcome readers(int contenders, milliseconds duration) override {
    std::deque<zkrecipes::SharedMutex> locks;
    for (int i = 0; i < contenders; ++i)
      locks.emplace_back(client(i), folder_ / "readers");
    const Acquire acquire{
        [&](std::size_t i) { return locks[i].acquire_shared(); },
        [&](std::size_t i, zkclient::Handler<Lease> handler) { locks[i].async_acquire_shared(std::move(handler)); }};
    return run(contenders, false, acquire, duration);
  }

  void queue(int waiters) override {
    mutexes_.clear();
    for (std::size_t i = 0; i < drain_sessions; ++i)
      mutexes_.emplace_back(client(static_cast<int>(i)), folder_ / "drain", options());
    held_ = mutexes_.front().acquire();
    // Each of them lists all before it, and replies to those who come at once would hold up everything else.
    constexpr int at_once = 200;
    for (int queued = 0; queued < waiters;) {
      const int more = std::min(at_once, waiters - queued);
      for (int i = 0; i < more; ++i)
        wait_for(mutexes_[static_cast<std::size_t>(i) % drain_sessions]);
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
  /// A waiter of a drain gives the lock back as soon as it has it.
  void wait_for(zkrecipes::Mutex& mutex) {
    drain_.begin();
    mutex.async_acquire([this](zkclient::Result<Lease> result) {
      if (result) *result = Lease();
      drain_.end(result);
    });
  }

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
      locks.emplace_back(client(i), folder_ / name, options());
    const Acquire acquire{
        [&](std::size_t i) { return locks[i].acquire(); },
        [&](std::size_t i, zkclient::Handler<Lease> handler) { locks[i].async_acquire(std::move(handler)); }};
    return run(contenders, true, acquire, duration);
  }
  Outcome run(int contenders, bool exclusive, const Acquire& acquire, milliseconds duration) const {
    Crew crew(contenders, exclusive, acquire);
    return form_ == Form::blocking ? crew.run_threads(duration) : crew.run_handlers(duration);
  }
  zkrecipes::MutexOptions options() const { return {.look_ahead = form_ == Form::look_ahead}; }

  const std::string server_;
  const zkclient::Path folder_;
  const Form form_;
  zkclient::Runtime runtime_;
  std::deque<zkclient::Client> clients_;
  std::deque<zkrecipes::Mutex> mutexes_;
  Lease held_;
  Outstanding drain_;
  int waiters_ = 0;
};

}  // namespace

std::unique_ptr<LockPeer> make_our_locks(const std::string& server, const std::string& folder, Form form) {
  return std::make_unique<OurLocks>(server, folder, form);
}

}  // namespace bench
