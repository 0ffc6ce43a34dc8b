#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include "zkclient/detail/lease/lease_keeper.hpp"
#include "zkclient/detail/meter.hpp"
#include "zkclient/detail/metrics/call_record.hpp"
#include "zkclient/detail/metrics/span_teller.hpp"
#include "zkclient/detail/requests/call.hpp"
#include "zkclient/detail/requests/call_budget.hpp"
#include "zkclient/detail/requests/wait.hpp"
#include "zkclient/detail/session/listeners.hpp"
#include "zkclient/detail/session/loop.hpp"

namespace zkclient::detail {

class ClientCore;
class Credentials;
class LoopWatch;
class Sessions;
class WatchRegistry;

/// A call's share of the client's limits, until this goes. Any thread.
class ZKRECIPES_INTERNAL_API Admission {
 public:
  Admission() noexcept = default;
  Admission(std::shared_ptr<ClientCore> core, std::size_t bytes);
  Admission(Admission&&) noexcept = default;
  Admission& operator=(Admission&&) = delete;
  ~Admission();

 private:
  std::shared_ptr<ClientCore> core_;
  std::size_t bytes_ = 0;
};

/// A Client's engine: its sessions, its requests, and what these need. Everything but the members that say otherwise
/// belongs to the loop thread, so nothing here is locked.
class ZKRECIPES_INTERNAL_API ClientCore : public std::enable_shared_from_this<ClientCore> {
 public:
  static std::shared_ptr<ClientCore> start(std::shared_ptr<Loop> loop, std::string_view hosts, ClientOptions options);
  ~ClientCore();

  // --- From any thread ---

  const ClientOptions& options() const noexcept { return options_; }
  const std::shared_ptr<Loop>& loop() const noexcept { return loop_; }
  const std::shared_ptr<CallbackGroup>& callbacks() const noexcept { return callbacks_; }
  std::shared_ptr<SessionState> session() const;
  /// The server of the current session, while it is connected.
  std::optional<std::string> server() const;
  /// Why there is none, as far as that is known; else "".
  std::string trouble() const;
  Op::TimePoint default_deadline() const { return std::chrono::steady_clock::now() + options_.operation_timeout; }
  CallBudget& budget() noexcept { return budget_; }
  bool overloaded() const noexcept { return budget_.exceeded(); }
  /// Null when nothing is to be counted, or told.
  Meter* meter() const noexcept { return meter_.get(); }
  SpanTeller* spans() const noexcept { return spans_.get(); }
  /// Of a call that begins now; null likewise. See CallRecord.
  std::unique_ptr<CallRecord> record(const char* operation, const std::string& path, bool waits,
                                     Errc answer = Errc{}) const;

  /// Starts `op`; its `done` is called once, on the loop thread (or in here, if the loop has stopped).
  /// A stop request ends it with Errc::cancelled, or in_doubt.
  void submit(const std::shared_ptr<Op>& op, const AnyStop& stop = {});
  std::shared_ptr<SubscriptionState> subscribe(StateListener listener);
  void begin_close();
  /// Waits for what begin_close() began.
  void finish_close();

  std::string full(const Path& path) const;             ///< With the prefix. Throws Error (invalid_path: too long).
  std::string stripped(const std::string& path) const;  ///< Without it.

  // --- On the loop thread ---

  bool closing() const noexcept;
  /// The current session.
  const std::shared_ptr<SessionState>& current() const noexcept;
  WatchRegistry& watches() noexcept;
  const std::shared_ptr<LeaseKeeper>& keeper() const noexcept;
  EventLoop& events() noexcept { return loop_->events(); }
  Sessions& sessions() noexcept;
  Credentials& credentials() noexcept;

  /// Sends a request whose paths are full ones; never throws.
  PendingReply launch(Request request, const Call& call);
  /// What was launched in this turn of the loop is on its way when this returns.
  void flush();
  /// Whether what is launched now goes out in this turn of the loop, on the present connection.
  bool sends_at_once();
  PendingReply perform(Request request, const Call& call) { return launch(std::move(request), call); }
  /// The same for a read that arms a watch. `watch` is registered before anything else happens on the loop.
  PendingReply launch_watching(Request request, const Call& call, std::shared_ptr<LoopWatch> watch);
  PendingReply perform_watching(Request request, const Call& call, std::shared_ptr<LoopWatch> watch) {
    return launch_watching(std::move(request), call, std::move(watch));
  }
  /// Waits for a connected session; the reply's `session`.
  Awaitable<Reply> connected(Call call);

 private:
  struct Parts;

  ClientCore(std::shared_ptr<Loop> loop, ClientOptions options);

  void run(const std::shared_ptr<Op>& op);
  void on_closed();

  const std::shared_ptr<Loop> loop_;
  const ClientOptions options_;
  const std::shared_ptr<Meter> meter_;
  const std::shared_ptr<CallbackGroup> callbacks_;
  const std::shared_ptr<SpanTeller> spans_;
  CallBudget budget_;
  std::mutex mutex_;
  std::condition_variable closed_changed_;
  bool closed_ = false;           // Guarded by mutex_.
  std::unique_ptr<Parts> parts_;  // The first to go.
};

}  // namespace zkclient::detail
