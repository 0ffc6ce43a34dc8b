#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <system_error>

#include <zkclient/export.hpp>

namespace zkclient {

/// Something that took time, and is over. The texts are only good during the call that tells it.
struct Span {
  /// What took time.
  enum class Kind {
    call,       ///< A call of Client or of a recipe, from the call to its result.
    lease,      ///< A lease, from its grant to its end.
    heartbeat,  ///< A heartbeat of a session's leases, from the request to its answer.
  };
  Kind kind;                                    ///< What took time.
  std::string_view operation;                   ///< "mutex acquire", as errors name it; "lease"; "heartbeat".
  std::string_view path;                        ///< Of a call, as errors name it; of a lease, its node; else "".
  std::chrono::system_clock::time_point begin;  ///< By the wall clock.
  std::chrono::nanoseconds duration;            ///< By a clock that nobody sets.
  std::error_code error;                        ///< None if it ended well. Of a lease: not_held, if it was lost.
  std::string_view detail;                      ///< Why it ended so, as far as that is known.
  std::int64_t session;                         ///< The session's id; 0 if that is not known.
  std::int64_t token;                           ///< Of a lease, its fencing token; else 0.
};

ZKRECIPES_API const char* to_string(Span::Kind kind) noexcept;

/// Is told of what takes time, for a log or a tracer; see ClientOptions::observer. One object may serve any number of
/// clients.
///
/// Exceptions that its members throw are ignored.
class ZKRECIPES_API Observer {
 public:
  virtual ~Observer();

  /// Called at the beginning of every call, on the caller's thread: what it returns is handed to on_span() with that
  /// call's span. A tracer returns the span that is current on this thread, as the parent of ours. It should be quick,
  /// and must not call the library. What it returns may be destroyed on any thread, that of the event loop among them.
  virtual std::shared_ptr<const void> capture();

  /// Called at the end of every span, on the callback executor, for one client one after another: a slow one delays
  /// the next ones of it, and nothing else for long. `context`: what capture() returned; null for leases and heartbeats.
  /// Up to 1,000 spans of a client wait; those beyond are dropped. Client::close() waits for those that wait, and after
  /// it none is told.
  virtual void on_span(const Span& span, const std::shared_ptr<const void>& context) = 0;

 protected:
  Observer() = default;
  Observer(const Observer&) = default;
  Observer& operator=(const Observer&) = default;
};

}  // namespace zkclient
