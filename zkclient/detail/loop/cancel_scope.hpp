#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace zkclient::detail {

/// The wish to end something: requested once, from then on for ever.
class CancelScope : public std::enable_shared_from_this<CancelScope> {
 public:
  using Action = std::function<void()>;

  bool requested() const noexcept { return requested_; }
  void request() {
    requested_ = true;
    while (!actions_.empty()) {
      const auto first = actions_.extract(actions_.begin());
      first.mapped()();
    }
  }

  /// Runs an action upon the request, unless the guard is gone by then.
  class Guard {
   public:
    Guard() noexcept = default;
    Guard(std::shared_ptr<CancelScope> scope, Action action) : scope_(std::move(scope)) {
      if (scope_ == nullptr) return;
      id_ = scope_->next_id_++;
      scope_->actions_.emplace(id_, std::move(action));
    }
    Guard(Guard&& other) noexcept : scope_(std::move(other.scope_)), id_(other.id_) {}
    Guard& operator=(Guard&& other) noexcept {
      reset();
      scope_ = std::move(other.scope_);
      id_ = other.id_;
      return *this;
    }
    ~Guard() { reset(); }
    void reset() noexcept {
      if (const auto scope = std::move(scope_)) scope->actions_.erase(id_);
    }

   private:
    std::shared_ptr<CancelScope> scope_;
    std::uint64_t id_ = 0;
  };

 private:
  std::map<std::uint64_t, Action> actions_;
  std::uint64_t next_id_ = 1;
  bool requested_ = false;
};

}  // namespace zkclient::detail
