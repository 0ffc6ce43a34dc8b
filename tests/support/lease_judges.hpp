#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkrecipes/mutex.hpp>

#include "tests/support/testkit.hpp"

/// Who judges a lease: its holder, and an observer that sees when its node goes.
namespace testkit {

/// In milliseconds.
inline long since(zkclient::BootClock::time_point begin, zkclient::BootClock::time_point end) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(end - begin).count());
}

/// By the clock of leases, which is one and the same for all processes.
inline std::int64_t boot_ns() { return zkclient::BootClock::now().time_since_epoch().count(); }

/// A lease, and when its holder was told that it is over.
class Holder {
 public:
  explicit Holder(zkrecipes::Lease lease, std::string session_node = {})
      : lease_(std::move(lease)),
        session_node_(std::move(session_node)),
        session_(*lease_.session()),
        told_(lease_.lost(), [this] { lost_at_ = zkclient::BootClock::now(); }) {}
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  const zkrecipes::Lease& lease() const { return lease_; }
  const zkclient::Session& session() const { return session_; }
  /// When lost() fired; nothing if it has not.
  std::optional<zkclient::BootClock::time_point> lost_at() const {
    const zkclient::BootClock::time_point at = lost_at_;
    return at == zkclient::BootClock::time_point{} ? std::nullopt : std::optional(at);
  }
  /// As told by the session itself: the lease says nothing any more once it is lost.
  zkclient::BootClock::time_point valid_until() const { return session_.valid_until(); }
  /// Goes only with the session. The lease's own node may go before: if the session outlives a lease that is lost, the
  /// client removes it, and valid_until() goes on.
  const std::string& session_node() const { return session_node_; }

 private:
  zkrecipes::Lease lease_;
  std::string session_node_;
  zkclient::Session session_;
  std::atomic<zkclient::BootClock::time_point> lost_at_{zkclient::BootClock::time_point{}};
  std::stop_callback<std::function<void()>> told_;
};

/// ZKRECIPES_SEED, or a random one.
inline unsigned seed() {
  const char* given = std::getenv("ZKRECIPES_SEED");
  return given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
}

/// Sees when nodes vanish: asks a server that is on the healthy side of every fault, again and again.
class Observer {
 public:
  Observer(const std::string& hosts, std::vector<std::string> nodes)
      : client_(hosts, {.session_timeout = std::chrono::seconds(20)}),
        nodes_(std::move(nodes)),
        gone_(nodes_.size()),
        there_(nodes_.size()) {
    client_.connect({.deadline = soon()});
    thread_ = std::thread([this] { watch(); });
  }
  ~Observer() {
    ended_ = true;
    thread_.join();
  }
  /// When the answer came in which the node was missing for the first time.
  std::optional<zkclient::BootClock::time_point> gone(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return gone_[index];
  }
  /// When the last question was asked whose answer still had the node.
  zkclient::BootClock::time_point last_there(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return there_[index];
  }
  bool all_gone() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(gone_.begin(), gone_.end(), [](const auto& at) { return at.has_value(); });
  }

 private:
  void watch() {
    while (!ended_ && !all_gone()) {
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (gone(i)) continue;
        std::error_code error;
        const auto asked = zkclient::BootClock::now();
        const bool there = client_.exists(zkclient::Path(nodes_[i]), {.deadline = soon()}, error).has_value();
        const auto answered = zkclient::BootClock::now();
        if (error) continue;
        const std::lock_guard lock(mutex_);
        if (there) {
          there_[i] = asked;
        } else {
          gone_[i] = answered;
        }
      }
      std::this_thread::sleep_for(
          std::chrono::milliseconds(1));  // The resolution. Without it a processor does nothing else.
    }
  }

  zkclient::Client client_;
  const std::vector<std::string> nodes_;
  mutable std::mutex mutex_;
  std::vector<std::optional<zkclient::BootClock::time_point>> gone_;
  std::vector<zkclient::BootClock::time_point> there_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// How late this process gets the processor: the worst case so far. A violation on a machine that stands still for
/// longer than the margins is another finding than one on an idle machine.
class Metronome {
 public:
  ~Metronome() {
    ended_ = true;
    thread_.join();
  }
  long worst_ms() const { return worst_; }

 private:
  void run() {
    while (!ended_) {
      const auto before = zkclient::BootClock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // The measurement itself.
      worst_ = std::max<long>(worst_, since(before, zkclient::BootClock::now()) - 5);
    }
  }
  std::atomic<long> worst_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_{[this] { run(); }};
};

/// How much this machine makes everybody wait: what a short sleep took too long.
class Stalls {
 public:
  std::int64_t during(std::int64_t from, std::int64_t to) const {
    const std::lock_guard lock(mutex_);
    std::int64_t sum = 0;
    for (const auto& [when, late] : late_) {
      if (when >= from && when <= to + late) sum += late;
    }
    return sum;
  }
  /// The longest one.
  std::int64_t worst(std::int64_t from, std::int64_t to) const {
    const std::lock_guard lock(mutex_);
    std::int64_t worst = 0;
    for (const auto& [when, late] : late_) {
      if (when >= from && when <= to) worst = std::max(worst, late);
    }
    return worst;
  }

 private:
  static constexpr std::int64_t pace_ns = 10'000'000;

  mutable std::mutex mutex_;
  std::vector<std::pair<std::int64_t, std::int64_t>> late_;
  std::jthread thread_{[this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      const std::int64_t before = boot_ns();
      never.wait_for(lock, stop, std::chrono::nanoseconds(pace_ns), [] { return false; });
      const std::int64_t late = boot_ns() - before - pace_ns;
      if (late < 2 * pace_ns) continue;
      const std::lock_guard own(mutex_);
      late_.emplace_back(before, late);
    }
  }};
};

/// Whether a holder was told before its node was gone, or would have been, had this process not stood still when its
/// time was up.
inline bool told_in_time(const Holder& holder, zkclient::BootClock::time_point gone, const Stalls& stalls) {
  (void)eventually([&] { return holder.lost_at().has_value(); });  // It may be about to be told.
  const auto told = holder.lost_at();
  if (!told) return false;
  const auto in_ns = [](zkclient::BootClock::time_point at) { return at.time_since_epoch().count(); };
  // A stall that lasted until its time was up began before.
  const std::int64_t stalled = stalls.during(in_ns(holder.valid_until() - std::chrono::seconds(3)), in_ns(*told));
  return *told - std::chrono::nanoseconds(stalled) < gone;
}

/// The lease on /locks/`number`. Sessions this short may end on a machine that is too busy before anything was broken.
inline std::unique_ptr<Holder> hold(const zkclient::Client& client, std::size_t number) {
  const zkclient::Path path("/locks/" + std::to_string(number));
  zkrecipes::Mutex mutex(client, path);
  for (;;) {
    try {
      zkrecipes::Lease lease = mutex.acquire({.deadline = soon()});
      std::string session_node =
          client.create(path / "session-", "", {.mode = zkclient::CreateMode::ephemeral_sequential}).path;
      if (lease.valid()) return std::make_unique<Holder>(std::move(lease), std::move(session_node));
    } catch (const zkclient::Error& error) {
      const bool by_a_busy_machine = error.kind() == zkclient::ErrorKind::session_lost ||
                                     error.kind() == zkclient::ErrorKind::in_doubt ||
                                     error.errc() == zkclient::Errc::connection_too_slow;
      if (!by_a_busy_machine) throw;
    }
  }
}

}  // namespace testkit
