#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <zkclient/error.hpp>
#include <zkrecipes/two_phase_commit.hpp>

#include "recipes/commit/commit_record.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// Calls a participant's functions and writes its log, on the callback executor: the other half of what serves. Takes
/// all that is waiting at once, so that one fsync does for all of it:
///
///   write down what begins and what was decided; sync; prepare and apply, writing down what was done; sync; report
class HandlerExecutor : public std::enable_shared_from_this<HandlerExecutor> {
 public:
  enum class Kind { prepare, commit, abort, end };
  struct Result {
    bool ready = false;                   ///< Prepared, and logged so.
    std::string reason = {};              ///< Why not; or what commit() or abort() threw.
    bool thrown = false;                  ///< commit() or abort() threw: to be done again.
    std::optional<LogState> logged = {};  ///< Where the log is now, if it is known.
  };
  struct Job {
    Kind kind = Kind::prepare;
    CommitTransaction transaction;
    std::int64_t tree = 0;                        ///< For `begin`.
    LogState logged = LogState::none;             ///< Where the log is.
    zkclient::UniqueFunction<void(Result)> done;  ///< On the loop thread.
    Result result = {};
  };

  HandlerExecutor(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<ParticipantLog> log, CommitHandlers handlers)
      : client_(std::move(client)), log_(std::move(log)), handlers_(std::move(handlers)) {}

  /// From the loop thread. Does nothing any more once the log has failed or finish() was called.
  void submit(Job job);
  /// From the loop thread: drops what has not begun, and calls `done` when nothing runs any more: on the callback
  /// executor, or in here if that drops its tasks.
  void finish(zkclient::UniqueFunction<void()> done);
  /// The error of the log, if it has failed.
  std::optional<zkclient::Error> failure() const;
  /// Called on the loop thread when it fails.
  void on_failure(std::function<void()> failed) { failed_ = std::move(failed); }

 private:
  class Turn;
  void run();
  void end_turn(bool may_go_on);
  void let_go();
  void run_batch(std::deque<Job>& batch);
  void write_what_comes(std::deque<Job>& batch);
  void prepare(Job& job);
  void apply(Job& job);
  void append(Job& job, LogEntry entry, std::string_view data = {});
  void report(std::deque<Job> batch);
  void fail(const std::string& why, std::optional<zkclient::Error> error);

  const std::shared_ptr<zk::ClientCore> client_;
  std::shared_ptr<ParticipantLog> log_;
  CommitHandlers handlers_;
  std::function<void()> failed_;
  mutable std::mutex mutex_;
  std::deque<Job> waiting_;
  zkclient::UniqueFunction<void()> finished_;
  std::optional<zkclient::Error> failure_;
  bool running_ = false;  // Or a turn is on its way.
  bool finishing_ = false;
  bool dirty_ = false;  // Something durable waits for the disk.
};

}  // namespace zkrecipes::detail
