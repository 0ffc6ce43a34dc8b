#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/export.hpp>
#include <zkrecipes/service_provider.hpp>

namespace zkrecipes::detail {

/// A pointer that many threads read and few replace. What std::atomic<std::shared_ptr> is meant to be: the one of
/// libstdc++ 12 lets a reader race with the next writer. It is locked for the copy of a pointer only.
template <typename T>
class SharedCell {
 public:
  std::shared_ptr<T> load() const noexcept {
    const Locked locked(flag_);
    return pointer_;
  }
  /// Hands out the former one, so that it is not destroyed under the lock.
  std::shared_ptr<T> exchange(std::shared_ptr<T> next) noexcept {
    const Locked locked(flag_);
    pointer_.swap(next);
    return next;
  }

 private:
  struct Locked {
    explicit Locked(std::atomic_flag& flag) noexcept : flag_(flag) {
      for (int tries = 0; flag_.test_and_set(std::memory_order_acquire); ++tries) {
        if (tries > 100) std::this_thread::yield();
      }
    }
    ~Locked() { flag_.clear(std::memory_order_release); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    std::atomic_flag& flag_;
  };

  mutable std::atomic_flag flag_ = {};
  std::shared_ptr<T> pointer_;
};

/// Which instance is picked: of facts alone, with the time handed in, and the seed of what is random. update() is called
/// by one thread at a time, the others by any.
class ZKRECIPES_INTERNAL_API ProviderDecider {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit ProviderDecider(ProviderOptions options, std::uint64_t seed = 0);
  ~ProviderDecider();
  ProviderDecider(const ProviderDecider&) = delete;
  ProviderDecider& operator=(const ProviderDecider&) = delete;

  /// The service's list as it is now, ordered by node.
  void update(const std::vector<ListedInstancePtr>& listed, TimePoint now);

  ListedInstancePtr pick(TimePoint now);
  ListedInstancePtr pick(std::string_view key, TimePoint now) const;
  void note_error(const ListedInstance& instance, TimePoint now);
  void note_success(const ListedInstance& instance);
  /// For tests.
  bool out(const ListedInstance& instance, TimePoint now) const;

 private:
  struct Health;
  struct Candidate;
  struct List;
  using ListPtr = std::shared_ptr<const List>;

  std::vector<Candidate> former(const List& last, const std::vector<ListedInstancePtr>& listed, TimePoint now);
  static const Candidate* least_bad(const List& list, TimePoint now);
  static std::vector<const Candidate*> usable(const List& list, TimePoint now);
  bool all_up(const List& list, TimePoint now) const noexcept;
  static const Candidate* stuck_to(const List& list, std::uint64_t serial, TimePoint now);
  const Candidate* sticky(const List& list, TimePoint now);
  const Candidate* turn(const List& list, std::uint64_t number, TimePoint now) const;
  ListedInstancePtr chosen(const List& list, TimePoint now) const;

  const ProviderOptions options_;
  SharedCell<const List> list_;
  std::atomic<std::uint64_t> turn_;
  std::atomic<std::uint64_t> stuck_{0};      // A serial number.
  std::atomic<TimePoint::rep> all_up_from_;  // From then on none is out.
  std::uint64_t next_serial_ = 0;            // Of update() only.
  std::mutex health_mutex_;                  // Of note_error() and note_success().
};

}  // namespace zkrecipes::detail
