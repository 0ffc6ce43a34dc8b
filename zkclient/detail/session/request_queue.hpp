#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>

#include <zkclient/client.hpp>

#include "zkclient/detail/connection/trouble_report.hpp"
#include "zkclient/detail/loop/lifeline.hpp"
#include "zkclient/detail/meter.hpp"
#include "zkclient/detail/random.hpp"
#include "zkclient/detail/requests/call.hpp"
#include "zkclient/detail/requests/call_budget.hpp"
#include "zkclient/detail/requests/deadlines.hpp"
#include "zkclient/detail/requests/size_suspects.hpp"

namespace zkclient::detail {

class Connection;

/// A client's requests, from the call to the result: they wait, are sent, and sent again, until they are answered or
/// given up. Lives on the loop thread.
class RequestQueue {
 public:
  /// `meter`: null for none.
  RequestQueue(EventLoop& events, const ClientOptions& options, const TroubleReport& trouble, CallBudget& budget,
               Meter* meter, Lifeline whole);

  /// Where requests are sent from now on.
  void use(Connection& connection) noexcept { connection_ = &connection; }
  /// From now on every request ends with Errc::closed.
  void close() noexcept;

  /// Calls its `done` once, perhaps in here.
  void start(const std::shared_ptr<Op>& op);
  void start(Request request, const Call& call, Op::Done done);
  /// Sends what may be sent.
  void pump();
  /// What was sent is on its way when this returns.
  void flush();
  /// Whether a request that starts now goes out in this turn of the loop.
  bool sends_at_once();
  /// Whether nothing waits.
  bool empty() const noexcept { return waiting_.empty(); }

  /// A reply has come, or was lost. `left`: in that case since the connection was left; it did not break.
  /// `round_trip`: the quickest one on that connection.
  void on_reply(const std::shared_ptr<Op>& op, bool left, std::chrono::nanoseconds round_trip);
  /// Ends an op early. What was sent stays sent: a write is in doubt then.
  void give_up(const std::shared_ptr<Op>& op, Errc code);
  void fail(const std::shared_ptr<Op>& op, Errc code, std::string detail = {});
  /// Fails what waits for a connection: all of it, or only what is bound to one session.
  void fail_waiting(Errc code, const std::string& detail = {}, const SessionState* bound_to = nullptr);
  /// The session is over. What pauses before it is tried again is tried now: it ends, or waits for the next session.
  void end_session();

 private:
  bool room_to_wait();
  void forget_abandoned();
  void judge_size(const std::shared_ptr<Op>& op, bool left, std::chrono::nanoseconds round_trip);
  bool may_send(const Op& op) const;
  static bool comes_too_late(const Op& op);
  bool is_too_large(const Op& op);
  void refuse_size(const std::shared_ptr<Op>& op);
  std::string why_lost(const Op& op) const;
  void retry(const std::shared_ptr<Op>& op);
  void end_pause(const std::shared_ptr<Op>& op);
  void finish(const std::shared_ptr<Op>& op);
  void meter_begin(Op& op);
  void meter_end(const Op& op);

  EventLoop& events_;
  const ClientOptions& options_;
  const TroubleReport& trouble_;
  CallBudget& budget_;
  Meter* const meter_;
  const Lifeline whole_;
  Connection* connection_ = nullptr;
  bool closing_ = false;
  std::deque<std::shared_ptr<Op>> waiting_;  // Those that were given up stay in it for a while.
  std::size_t abandoned_ = 0;                // Of those, about.
  SizeSuspects suspects_;
  std::shared_ptr<Op> alone_;      // The only one in flight but for heartbeats, to see whether it is too large.
  bool alone_is_largest_ = false;  // If a connection breaks no heartbeat was too large.
  std::map<std::shared_ptr<Op>, std::unique_ptr<Timer>> pausing_;  // Reads before their next attempt.
  Deadlines deadlines_;
  std::minstd_rand random_{static_cast<std::uint32_t>(random_seed())};
};

}  // namespace zkclient::detail
