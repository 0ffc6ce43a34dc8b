#pragma once

#include <functional>
#include <memory>

#include <zkclient/export.hpp>

namespace zkclient {

namespace detail {
class Loop;
}

/// Runs a task at some later time, on a thread of its own choice, but never inside the call. An executor that throws, or
/// that destroys the task, has dropped it: its handler is never called. For what comes one call at a time (listeners, what
/// a recipe tells its owner of a role or a replica), and for what a cache asks (its filter, the predicate of a wait), it is
/// asked again half a second later. The loss of a session or lease, and a request to give a lease back, are told all the
/// same, by a thread of the library's own.
using Executor = std::function<void(std::function<void()>)>;

/// On which threads a runtime runs the user's code.
struct RuntimeOptions {
  /// Where handlers and listeners run. Default: on the two threads of the runtime, to which up to
  /// `max_callback_threads - 1` others are added only while a handler blocks, and more than that only to signal the
  /// loss of a session or lease, which waits for no handler. An executor of your own signals it when it gets to it, and
  /// Client::close() itself runs what it has not begun. Tasks of one listener never overlap and keep their order.
  Executor callback_executor = {};
  int max_callback_threads = 16;  ///< See `callback_executor`. At least 1.
};

/// The two threads of the library, which take turns in running the event loop, and handlers and listeners. Any number
/// of Clients may share one Runtime; a Client that is given none makes its own.
///
/// No user code ever runs inside the event loop: a slow handler delays other clients, heartbeats and blocking calls by
/// two milliseconds at most, until the other thread has taken the loop over, and handlers may make blocking calls.
///
/// Thread safety: all members. The destructor closes every Client that still uses this runtime and joins the
/// threads (it only detaches them when it runs inside a handler).
/// Errors: the constructor throws Error (Errc::library_conflict) in a process that also loaded libzookeeper_mt,
/// which exports the same symbols as the library that is used here.
class ZKRECIPES_API Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const std::shared_ptr<detail::Loop>& impl() const noexcept { return loop_; }  ///< For Client and recipes.

 private:
  std::shared_ptr<detail::Loop> loop_;
};

}  // namespace zkclient
