#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <zkclient/types.hpp>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/value_look.hpp"
#include "recipes/values/value_part.hpp"
#include "recipes/values/value_write.hpp"
#include "recipes/values/write_marker.hpp"
#include "recipes/values/write_pace.hpp"

namespace zkrecipes::detail {

struct ValueOptions {
  zkclient::AclList acl;
  bool durable = false;
  std::chrono::milliseconds max_marker_age{0};
};

/// The changes of one node, by one Counter or SharedValue. One transaction is on its way at a time, for the calls that
/// have come until then:
///
///   look at the node, unless it is known, until it is this writer's turn; work out the transaction; write it, and read
///   the node behind it in the same flight, unless one change follows the other; answer the calls
///
/// The node is known for as long as the watch that the read armed has not fired, and the connection has not broken; or
/// for an instant after an own change: see ValueLook. The members belong to the loop thread, but for make().
///
/// A Kind says what the node holds: counter_kind.hpp, shared_value_kind.hpp. It has
///
///   Request, Answer, Step        what a caller wants, what it gets, and one transaction for callers: its `write`
///                                (ValueWrite) and its `answers`, each with an `error` and a `why`
///   read                         the request that tells what is to be known of the node: get or exists
///   most_calls                   that share a transaction
///   decide(look, requests)       the Step; the look is that at the node
///   data(step)                   that is written
///   is_regardless(request)       that it is right whichever node it was written to
///   needs_a_read(request)        that what is remembered does not do
///   has_looked(request)          that it goes on from an earlier look of its caller, which waited for the turn
///   refusal(request, write, code)   the answer that a refusal is; else it is tried again
template <typename Kind>
class ValueCore : public std::enable_shared_from_this<ValueCore<Kind>> {
 public:
  using Request = typename Kind::Request;
  using Answer = typename Kind::Answer;
  using Step = typename Kind::Step;
  using Outcome = ValueOutcome<Kind>;

  /// Any thread; any thread may drop it.
  static std::shared_ptr<ValueCore> make(std::shared_ptr<zk::ClientCore> client, std::string node, Kind kind,
                                         ValueOptions options);
  ValueCore(std::shared_ptr<zk::ClientCore> client, std::string node, Kind kind, ValueOptions options);
  ValueCore(const ValueCore&) = delete;
  ValueCore& operator=(const ValueCore&) = delete;

  static zk::Awaitable<Outcome> change(std::shared_ptr<ValueCore> self, Request request, zk::Call call);
  /// The node, remembered or read. Its failure may be that there is none.
  static zk::Awaitable<zk::Reply> look(std::shared_ptr<ValueCore> self, zk::Call call);

 private:
  using Part = ValuePart<Kind>;
  using Batch = std::vector<std::shared_ptr<Part>>;

  void start_soon();
  static zk::Awaitable<void> run(std::shared_ptr<ValueCore> self);
  zk::Awaitable<void> run_once();
  ValueLookPtr recall();
  /// Sees the node; fails when it cannot be read.
  zk::Awaitable<ValueLookPtr> see(zk::Call call);
  ValueLookPtr launch_look(const zk::Call& call);
  zk::Awaitable<void> remember(ValueLookPtr look);
  void remember_own_write(const Step& step, zk::Reply written);
  static zk::Awaitable<void> watch_again(std::shared_ptr<ValueCore> self);
  zk::Awaitable<void> rest(WritePace::Duration pause, std::shared_ptr<zk::SessionState> session);
  zk::Awaitable<void> transact(ValueLookPtr seen);
  zk::Awaitable<void> settle(Step step, ValueLookPtr seen, Written written);
  zk::Awaitable<void> settle_success(Step step, ValueLookPtr seen, zk::Reply reply);
  zk::Awaitable<void> settle_refusal(const Step& step, Written written);
  void answer_the_refused(ValueWrite write, int code);
  /// The session is over, or the slot is gone, and the answer has not come.
  zk::Awaitable<void> settle_doubt(Step step, ValueLookPtr seen, Written written);
  bool is_marked(const Step& step) const noexcept;
  zk::Awaitable<bool> still_there(ValueLookPtr seen, ValueLookPtr behind);
  std::vector<zkclient::Transaction::Operation> operations(const Step& step, const ValueLook& seen) const;
  zk::Call new_wait();
  void answer_all(const Step& step);
  /// Those whose answer does not depend on the node that was read are answered; the others fail.
  void answer_the_regardless(const Step& step, const zk::Reply& failure);
  static void answer(Part& part, const Answer& with);
  void repeat();
  static void fail_all(Batch batch, const zk::Reply& reply);
  void give_up(const std::shared_ptr<Part>& part, zkclient::Errc why);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::string node_;
  const Kind kind_;
  const zkclient::AclList acl_;
  const std::shared_ptr<ExactlyOnceWriter> writer_;
  const std::unique_ptr<WriteMarker> marker_;  // Null: not durable.
  Batch waiting_;
  Batch batch_;                                                           // In the transaction.
  enum class Progress { idle, unsent, sent } progress_ = Progress::idle;  // Of the transaction.
  bool running_ = false;
  std::shared_ptr<zk::CancelScope> wait_;  // Of what is being done for them: requested when nobody wants it any more.
  ValueLookPtr known_;
  ValueLookPtr behind_;  // Sent with the transaction.
  WritePace pace_;
  ValueLook::Clock::time_point last_change_;        // When it was answered.
  std::shared_ptr<zk::SessionState> last_session_;  // Of the last transaction.
  zk::Timer unwatched_;                             // No watch tells that known_ has changed: arm one.
};

}  // namespace zkrecipes::detail
