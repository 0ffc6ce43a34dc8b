#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include <zkclient/export.hpp>

/// The coroutine type of everything that runs on the event loop.
///
/// A coroutine starts when it is awaited, and runs inside that call until it waits for the first time. If it ends
/// there, the one that awaits goes on without a pause. Otherwise that one is resumed through the loop's queue, never
/// from inside another coroutine's call: no stack grows, however many waits end at once, also where the compiler makes
/// no tail calls. Nothing is ever destroyed while it waits: what it waits for ends, and it goes on to its end.
namespace zkclient::detail {

namespace coroutine {

/// Lets a suspended coroutine go on, soon, on the loop that this thread runs.
ZKRECIPES_INTERNAL_API void resume_later(std::coroutine_handle<> suspended);

/// Frames that exist now, in the whole process. For tests.
std::size_t frames() noexcept;

ZKRECIPES_INTERNAL_API void* allocate_frame(std::size_t size);
ZKRECIPES_INTERNAL_API void free_frame(void* frame) noexcept;

/// A root coroutine let an exception escape: says so, and ends the process.
[[noreturn]] void die(const char* where) noexcept;

struct Framed {
  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame) noexcept { free_frame(frame); }
};

class PromiseBase : public Framed {
 public:
  struct Ending {
    bool await_ready() const noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      const std::coroutine_handle<> waiting = ended.promise().waiting_;
      if (waiting) resume_later(waiting);
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  Ending final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }
  void wait(std::coroutine_handle<> waiting) noexcept { waiting_ = waiting; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::coroutine_handle<> waiting_;
  std::exception_ptr error_;
};

template <typename T>
class Promise : public PromiseBase {
 public:
  template <typename U = T>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  void return_void() const noexcept {}
  void take() const { rethrow(); }
};

}  // namespace coroutine

/// Awaited once, by one coroutine, on the loop thread.
template <typename T>
class [[nodiscard]] Awaitable {
 public:
  struct promise_type : coroutine::Promise<T> {
    Awaitable get_return_object() noexcept {
      return Awaitable(std::coroutine_handle<promise_type>::from_promise(*this));
    }
  };

  Awaitable(Awaitable&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  Awaitable& operator=(Awaitable&&) = delete;
  ~Awaitable() {
    if (coroutine_) coroutine_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) {
    coroutine_.resume();
    if (coroutine_.done()) return false;
    coroutine_.promise().wait(waiting);
    return true;
  }
  T await_resume() { return coroutine_.promise().take(); }

 private:
  explicit Awaitable(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

namespace coroutine {

/// A coroutine that no other one awaits: starts at once, and destroys itself at its end.
struct Root {
  struct promise_type : Framed {
    promise_type(Awaitable<void>&, const char* from) noexcept : where(from) {}
    Root get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { die(where); }
    const char* const where;
  };
};

}  // namespace coroutine

/// Runs a coroutine as a root, on the loop thread, from here until it waits for the first time. An exception that
/// escapes from it ends the process, and names the function that called this.
ZKRECIPES_INTERNAL_API void spawn(Awaitable<void> coroutine, const char* from = __builtin_FUNCTION());

}  // namespace zkclient::detail
