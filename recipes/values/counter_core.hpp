#pragma once

#include <memory>
#include <string>
#include <vector>

#include <zkrecipes/counter.hpp>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/values/counter_decider.hpp"
#include "recipes/values/counter_look.hpp"
#include "recipes/values/write_marker.hpp"
#include "recipes/values/write_pace.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

namespace zk = zkclient::detail;

/// The changes of one Counter. One transaction is on its way at a time, for all calls that have come until then:
///
///   look at the node, unless it is known; work out the transaction; write it, and read the node behind it in the same
///   flight, unless one change follows the other; answer the calls
///
/// The node is known for as long as the watch that the read armed has not fired, and the connection has not broken; or
/// for an instant after an own change: see CounterLook. The members belong to the loop thread, but for make().
class CounterCore : public std::enable_shared_from_this<CounterCore> {
 public:
  /// Any thread; any thread may drop it.
  static std::shared_ptr<CounterCore> make(std::shared_ptr<zk::ClientCore> client, std::string node,
                                           CounterOptions options);
  CounterCore(std::shared_ptr<zk::ClientCore> client, std::string node, CounterOptions options);
  CounterCore(const CounterCore&) = delete;
  CounterCore& operator=(const CounterCore&) = delete;

  /// How one request ended; the reply has the error.
  struct Outcome {
    zk::Reply reply;
    CounterAnswer answer;
  };
  static zk::Awaitable<Outcome> change(std::shared_ptr<CounterCore> self, CounterRequest request, zk::Call call);
  /// The node's number, remembered or read.
  static zk::Awaitable<zkclient::Result<std::int64_t>> look(std::shared_ptr<CounterCore> self, const char* operation,
                                                            std::string path, zk::Call call);

 private:
  /// One call.
  struct Part;
  using Batch = std::vector<std::shared_ptr<Part>>;
  using LookPtr = std::shared_ptr<CounterLook>;

  void start_soon();
  static zk::Awaitable<void> run(std::shared_ptr<CounterCore> self);
  zk::Awaitable<void> run_once();
  /// Sees the node; fails when it cannot be read.
  zk::Awaitable<LookPtr> see(zk::Call call);
  zk::Awaitable<void> remember(LookPtr look);
  void remember_own_write(const CounterStep& step, zk::Reply written);
  static zk::Awaitable<void> watch_again(std::shared_ptr<CounterCore> self);
  zk::Awaitable<void> make_way();
  zk::Awaitable<void> transact(LookPtr seen);
  zk::Awaitable<void> settle(CounterStep step, LookPtr seen, Written written);
  zk::Awaitable<void> settle_success(CounterStep step, LookPtr seen, zk::Reply reply);
  zk::Awaitable<void> settle_refusal(const CounterStep& step, Written written);
  /// The session is over, or the slot is gone, and the answer has not come.
  zk::Awaitable<void> settle_doubt(CounterStep step, LookPtr seen, Written written);
  static bool is_conditional(const CounterStep& step);
  bool is_marked(const CounterStep& step) const noexcept;
  zk::Awaitable<bool> still_there(LookPtr seen, LookPtr behind);
  std::vector<zkclient::Transaction::Operation> operations(const CounterStep& step, const CounterLook& seen) const;
  zk::Call new_wait();
  void answer_all(const CounterStep& step);
  void repeat();
  static void fail_all(Batch batch, const zk::Reply& reply);
  void give_up(const std::shared_ptr<Part>& part, zkclient::Errc why);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::string node_;
  const CounterOptions options_;
  const std::shared_ptr<ExactlyOnceWriter> writer_;
  const std::unique_ptr<WriteMarker> marker_;  // Null: not durable.
  Batch waiting_;
  Batch batch_;                                                           // In the transaction.
  enum class Progress { idle, unsent, sent } progress_ = Progress::idle;  // Of the transaction.
  bool running_ = false;
  std::shared_ptr<zk::CancelScope> wait_;  // Of what is being done for them: requested when nobody wants it any more.
  LookPtr known_;
  LookPtr behind_;  // Sent with the transaction.
  WritePace pace_;
  CounterLook::Clock::time_point last_change_;      // When it was answered.
  std::shared_ptr<zk::SessionState> last_session_;  // Of the last transaction.
  zk::Timer unwatched_;                             // No watch tells that known_ has changed: arm one.
};

}  // namespace zkrecipes::detail
