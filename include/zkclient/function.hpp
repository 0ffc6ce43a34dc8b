#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace zkclient {

template <typename Signature>
class UniqueFunction;

/// A move-only callable: what `std::move_only_function` is in C++23. Handlers may therefore own promises,
/// leases and other things that cannot be copied.
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() noexcept = default;
  UniqueFunction(std::nullptr_t) noexcept {}

  /// Keeps a copy of the callable, or what was moved in.
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> && std::is_invocable_r_v<R, F&, Args...>)
      UniqueFunction(F&& function)
      : target_(new Model<std::decay_t<F>>(std::forward<F>(function))) {}

  /// Calls it; requires that there is one.
  R operator()(Args... args) { return target_->call(std::forward<Args>(args)...); }
  explicit operator bool() const noexcept { return target_ != nullptr; }

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual R call(Args... args) = 0;
  };
  template <typename F>
  struct Model final : Concept {
    explicit Model(F&& f) : function(std::move(f)) {}
    explicit Model(const F& f) : function(f) {}
    R call(Args... args) override { return static_cast<R>(function(std::forward<Args>(args)...)); }
    F function;
  };
  std::unique_ptr<Concept> target_;
};

}  // namespace zkclient
