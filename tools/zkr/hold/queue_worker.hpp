#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/claim.hpp>

#include "tools/zkr/cli/connection_options.hpp"
#include "tools/zkr/hold/any_queue.hpp"
#include "tools/zkr/hold/control.hpp"
#include "tools/zkr/hold/work_board.hpp"
#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/holder.hpp"
#include "tools/zkr/run/run.hpp"

namespace zkr {

struct WorkRequest {
  Connection connection;
  QueueChoice queue;
  std::string program{};                   // The command's first word.
  std::optional<Duration> idle_exit{};     // End when there was no item for so long.
  int reject_code = 65;                    // Of commands whose item becomes a dead letter at once.
  std::vector<std::string> environment{};  // Further changes of the command's environment.
  RunOptions run{};                        // To be told of.
  std::string control_sockets{};           // Their names' beginning.
  bool quiet = false;                      // Nothing is said but errors.
  bool verbose = false;
};

/// Works on one item of a queue after the other, on one session: it lives in the keeper, and makes a holder for each
/// claim. One command at a time; `board` is shared by all that work together.
class QueueWorker {
 public:
  QueueWorker(WorkRequest request, WorkBoard& board);
  ~QueueWorker();
  QueueWorker(const QueueWorker&) = delete;
  QueueWorker& operator=(const QueueWorker&) = delete;

  /// See RunRequest::make_holder. There may be one at a time.
  std::unique_ptr<Holder> next_claim(const HolderStart& start);
  /// See RunRequest::run_again.
  std::optional<Duration> run_again(const Ending& ending, Cause cause);
  /// Ends the session.
  void close();

 private:
  friend class ClaimHolder;

  /// Makes the client, if there is none.
  void open(const GuardianProcess* guardian);
  void say(const std::string& text, bool error = false);
  std::vector<std::string> take_messages();
  void notify() const;

  const WorkRequest request_;
  WorkBoard& board_;
  Descriptor news_;  // Made in the keeper: what is there before is taken for our caller's, and closed.
  std::optional<zkclient::Client> client_;
  std::optional<zkclient::Subscription> states_;
  std::optional<AnyQueue> queue_;
  bool proven_ = false;                 // Whom the client is, to the servers.
  std::atomic<bool> succeeded_{false};  // The last item has left the queue.
  Duration pause_;                      // After the next failure.
  int claims_ = 0;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

/// One claim. A thread of its own waits for an item and, when the command has ended, commits, rejects or gives back.
class ClaimHolder : public Holder {
 public:
  /// `refused`: why there is no client; nothing: there is one.
  ClaimHolder(QueueWorker& worker, std::exception_ptr refused, Duration pause, std::string control_socket);
  ~ClaimHolder() override;

  int news() const override { return worker_.news_.get(); }
  Lease look() override;
  std::vector<std::string> take_messages() override { return worker_.take_messages(); }
  std::vector<std::string> environment() const override;
  std::optional<std::string> input() const override;
  void release(const std::optional<Ending>& ending) override;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  void work() noexcept;
  void claim_and_hold();
  void connect();
  void find_queue();
  std::optional<zkrecipes::Claim> await_item();
  std::optional<zkrecipes::Claim> await_item_until(std::optional<SteadyTime> deadline);
  std::optional<SteadyTime> idle_at() const;
  bool is_idle() const;
  void hold(zkrecipes::Claim claim);
  void settle();
  void commit();
  void reject();
  void give_back(const std::string& why);
  void rest(Duration pause);

  /// With mutex_.
  const Lease& lease_now();
  void answer(const std::string& request, const ControlReply& reply);
  void finish(LeaseState state, int failure = 0);
  zkclient::CallOptions call(std::optional<SteadyTime> deadline = {}) const;
  bool is_leaving() const { return stop_.stop_requested(); }

  QueueWorker& worker_;
  const std::exception_ptr refused_;
  const Duration pause_;
  const std::string control_socket_;
  const SteadyTime begun_ = std::chrono::steady_clock::now();
  std::stop_source stop_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Lease lease_;
  zkrecipes::Claim claim_;  // Read by the keeper's thread while the state is `held`; then the worker's alone.
  std::optional<Ending> ending_;

  std::unique_ptr<ControlServer> control_;
  std::thread thread_;
};

}  // namespace zkr
