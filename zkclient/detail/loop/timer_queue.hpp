#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <zkclient/function.hpp>

namespace zkclient::detail {

/// One-shot timers on one clock, by due time: a heap that knows where each of its members is, so that setting and
/// cancelling allocate nothing. Loop thread only.
template <typename Clock>
class TimerQueue {
 public:
  using TimePoint = typename Clock::time_point;

  /// A place in the queue. Its owner outlives what it has set, or cancels it.
  class Entry {
   public:
    Entry() = default;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class TimerQueue;
    static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
    TimePoint due_{};
    UniqueFunction<void()> task_;
    std::size_t place_ = nowhere;
  };

  bool empty() const noexcept { return heap_.empty(); }
  TimePoint next() const noexcept { return heap_.empty() ? TimePoint::max() : heap_.front()->due_; }
  static bool is_set(const Entry& entry) noexcept { return entry.place_ != Entry::nowhere; }
  static TimePoint due(const Entry& entry) noexcept { return is_set(entry) ? entry.due_ : TimePoint::max(); }

  void set(Entry& entry, TimePoint due, UniqueFunction<void()> task) {
    // The former task goes last: its destruction may do anything.
    const UniqueFunction<void()> former = std::exchange(entry.task_, std::move(task));
    entry.due_ = due;
    if (!is_set(entry)) {
      heap_.push_back(&entry);
      entry.place_ = heap_.size() - 1;
    }
    settle(entry.place_);
  }

  void cancel(Entry& entry) noexcept {
    if (!is_set(entry)) return;
    remove(entry);
    const UniqueFunction<void()> former = std::exchange(entry.task_, {});
  }

  /// The task of a timer that is due, or none.
  UniqueFunction<void()> take_due(TimePoint now) {
    if (heap_.empty() || heap_.front()->due_ > now) return {};
    Entry& first = *heap_.front();
    remove(first);
    return std::exchange(first.task_, {});
  }

 private:
  void remove(Entry& entry) noexcept {
    const std::size_t hole = std::exchange(entry.place_, Entry::nowhere);
    Entry* const last = heap_.back();
    heap_.pop_back();
    if (last == &entry) return;
    put(last, hole);
    settle(hole);
  }

  void settle(std::size_t place) noexcept {
    Entry* const entry = heap_[place];
    while (place > 0 && entry->due_ < heap_[(place - 1) / 2]->due_) {
      const std::size_t parent = (place - 1) / 2;
      put(heap_[parent], place);
      place = parent;
    }
    for (;;) {
      std::size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1]->due_ < heap_[child]->due_) ++child;
      if (entry->due_ <= heap_[child]->due_) break;
      put(heap_[child], place);
      place = child;
    }
    put(entry, place);
  }

  void put(Entry* entry, std::size_t place) noexcept {
    heap_[place] = entry;
    entry->place_ = place;
  }

  std::vector<Entry*> heap_;
};

}  // namespace zkclient::detail
