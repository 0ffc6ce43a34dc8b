#pragma once

#include <optional>
#include <utility>

namespace zkrecipes::detail {

/// A task for the callback executor, which may destroy it instead of running it: then `dropped` is called, in the
/// destructor, by whatever thread that is, which may be the event loop's.
template <typename Run, typename Dropped>
class DroppableTask {
 public:
  DroppableTask(Run run, Dropped dropped) : run_(std::move(run)), dropped_(std::move(dropped)) {}
  DroppableTask(DroppableTask&& other) noexcept
      : run_(std::move(other.run_)), dropped_(std::exchange(other.dropped_, std::nullopt)) {}
  DroppableTask& operator=(DroppableTask&&) = delete;
  ~DroppableTask() {
    if (dropped_) (*dropped_)();
  }

  void operator()() {
    dropped_.reset();
    run_();
  }

 private:
  Run run_;
  std::optional<Dropped> dropped_;
};

}  // namespace zkrecipes::detail
