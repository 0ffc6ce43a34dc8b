#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace zkr {

/// What processes that work on one queue together tell each other: memory that is the same after a fork.
class WorkBoard {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  /// `most_items`: so many items may be claimed by all together. Errors: std::system_error.
  explicit WorkBoard(std::optional<std::uint64_t> most_items);
  ~WorkBoard();
  WorkBoard(const WorkBoard&) = delete;
  WorkBoard& operator=(const WorkBoard&) = delete;

  /// To be had before an item is claimed. False: there are no more.
  bool take_ticket();
  /// No item was claimed with it.
  void return_ticket() { content_->tickets.fetch_add(1); }

  void item_begins() { content_->at_work.fetch_add(1); }
  void item_ends();
  /// When the last item ended, or this began. Nothing: one is being worked on.
  std::optional<SteadyTime> idle_since() const;

 private:
  struct Content {
    std::atomic<std::int64_t> tickets;
    std::atomic<std::int64_t> at_work;
    std::atomic<std::int64_t> idle_since;
  };
  Content* content_;
};

}  // namespace zkr
