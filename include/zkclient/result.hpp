#pragma once

#include <optional>
#include <utility>
#include <variant>

#include <zkclient/error.hpp>
#include <zkclient/function.hpp>

namespace zkclient {

/// A value or the Error that took its place: what asynchronous handlers receive.
/// `value()` throws the error; `operator*` and `operator->` require a value.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// The value. Throws the error if there is none.
  T& value() & {
    require();
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    require();
    return *std::get_if<0>(&state_);
  }
  T value() && {
    require();
    return std::move(*std::get_if<0>(&state_));
  }
  /// The value; requires that there is one.
  T& operator*() noexcept { return *std::get_if<0>(&state_); }
  const T& operator*() const noexcept { return *std::get_if<0>(&state_); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }

  /// The error; requires `!has_value()`.
  const Error& error() const noexcept { return *std::get_if<1>(&state_); }
  /// The error's code, or a default (success) code.
  std::error_code code() const noexcept { return has_value() ? std::error_code() : error().code(); }

 private:
  void require() const {
    if (!has_value()) throw error();
  }
  std::variant<T, Error> state_;
};

/// Nothing, or the Error that took its place.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  /// A failure.
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  /// Throws the error if there is one.
  void value() const {
    if (error_) throw *error_;
  }
  /// As those of every Result.
  const Error& error() const noexcept { return *error_; }
  std::error_code code() const noexcept { return error_ ? error_->code() : std::error_code(); }

 private:
  std::optional<Error> error_;
};

/// Called exactly once, on the callback executor, also when the client is closed.
template <typename T>
using Handler = UniqueFunction<void(Result<T>)>;

}  // namespace zkclient
