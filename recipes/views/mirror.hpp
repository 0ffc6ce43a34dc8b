#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/cache.hpp>

#include "recipes/kernel/listener_set.hpp"
#include "recipes/kernel/waiting_calls.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/views/guarded_predicate.hpp"
#include "recipes/views/mirror_model.hpp"
#include "recipes/views/name_judge.hpp"
#include "recipes/views/shared_sync.hpp"

namespace zkrecipes::detail {

/// What wait_until() waits for; its caller's until the call is over.
using SnapshotPredicate = GuardedPredicate<Snapshot>;

/// What a listener has still to be told of snapshots: the net difference between the one it saw last and the newest. At
/// most two snapshots are kept for it.
class ChangeBacklog {
 public:
  using News = Snapshot;

  explicit ChangeBacklog(Cache::Listener call) : call_(std::move(call)) {}
  void note(Snapshot newest) { newest_ = std::move(newest); }
  bool empty() const { return !newest_; }
  Snapshot take() { return *std::exchange(newest_, std::nullopt); }
  void call(const Snapshot& newest);

 private:
  Cache::Listener call_;
  Snapshot seen_;      // By call().
  bool told_ = false;  // The same.
  std::optional<Snapshot> newest_;
};

/// A MirrorModel at work: follows the client's sessions, sends the model's reads, passes events and replies on to it,
/// and hands out its snapshots. Lives on the loop thread, but for the members that say otherwise; kept alive by its
/// coroutine, until close() or the client's end.
class Mirror : public std::enable_shared_from_this<Mirror> {
 public:
  /// Any thread.
  static std::shared_ptr<Mirror> start(std::shared_ptr<zk::ClientCore> client, MirrorScope scope);
  Mirror(std::shared_ptr<zk::ClientCore> client, MirrorScope scope);

  // --- Any thread ---

  const std::shared_ptr<zk::ClientCore>& client() const noexcept { return client_; }
  Snapshot snapshot() const;
  CacheState state() const;
  std::optional<zkclient::Error> problem() const;
  std::optional<zkclient::BootClock::time_point> as_of() const;
  zkclient::Subscription on_change(Cache::Listener listener);
  zkclient::Subscription on_state(Cache::StateListener listener);
  void close();

  // --- Calls ---

  /// Each of them waits for the own writes that were answered before it was called; see contain().
  static zk::Awaitable<zkclient::Result<Snapshot>> wait_ready(std::shared_ptr<Mirror> self, zk::Call call);
  static zk::Awaitable<zkclient::Result<Snapshot>> refresh(std::shared_ptr<Mirror> self, ReadBarrier barrier,
                                                           zk::Call call);
  static zk::Awaitable<zkclient::Result<Snapshot>> wait_until(std::shared_ptr<Mirror> self,
                                                              std::shared_ptr<SnapshotPredicate> predicate,
                                                              zk::Call call);

 private:
  using Waiter = WaitingCalls::Waiter;
  using Waiting = WaitingCalls::Waiting;
  using PathsPtr = std::shared_ptr<const std::vector<std::string>>;
  class SessionWatch;
  struct Answer;

  static zk::Awaitable<void> run(std::shared_ptr<Mirror> self);
  static zk::Awaitable<void> keep_young(std::shared_ptr<Mirror> self);
  static zk::Awaitable<void> read(std::shared_ptr<Mirror> self, MirrorRead read,
                                  std::shared_ptr<zk::SessionState> session);
  zk::Request request_of(const MirrorRead& read) const;
  std::shared_ptr<zk::LoopWatch> watch_of(const MirrorRead& read);
  void on_reply(const MirrorRead& read, zk::Reply reply, std::shared_ptr<void> watch);
  /// Any thread. Then a thread of the parent may have held mutex_, and nobody releases it.
  bool forked() const noexcept { return client_->loop()->forked(); }
  bool over() const { return ended_->requested() || client_->closing(); }
  void follow(const std::shared_ptr<zk::SessionState>& session);
  void on_session_state();
  void on_own_write(const std::shared_ptr<zk::SessionState>& told);
  void finish();

  void schedule();
  void work();
  void ask_filter();
  void ask_filter(PathsPtr paths);
  void ask_predicate(std::shared_ptr<SnapshotPredicate> predicate, Snapshot about, std::shared_ptr<Answer> answer,
                     std::shared_ptr<Waiter> waiting) const;
  void publish(SnapshotPtr published);
  void tell_state();
  void note_settled(bool settled);
  void take_age() const;
  zkclient::Error error(zkclient::Errc code, const char* operation, std::string_view detail = {}) const;
  zkclient::Error ended_wait(zkclient::Errc code, const char* operation, std::string_view awaited) const;
  const char* contents_of(ReadBarrier barrier) const;
  std::uint64_t hurry_to(std::uint64_t mark);
  zk::Awaitable<zk::Reply> pass(ReadBarrier barrier, zk::Call call);
  /// A snapshot that contains what `barrier` says. What this client has written needs no request, unless a reply was lost.
  static zk::Awaitable<zkclient::Result<Snapshot>> contain(std::shared_ptr<Mirror> self, const char* operation,
                                                           ReadBarrier barrier, zk::Call call);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::string path_;
  const std::string full_path_;
  const std::chrono::milliseconds max_age_;
  const std::shared_ptr<zk::CancelScope> ended_ = std::make_shared<zk::CancelScope>();

  const std::shared_ptr<NamePredicate> include_;  // Called for names that the model wants to be judged.
  std::shared_ptr<SharedSync> sync_;
  MirrorModel model_;
  std::shared_ptr<zk::SessionState> session_;  // That the model knows.
  bool connected_ = false;                     // As the model knows it.
  bool scheduled_ = false;
  bool finished_ = false;
  std::uint64_t own_mark_ = 0;  // All up to this number has to be in what is read next: own writes are among it.
  std::uint64_t doubts_ = 0;    // Own writes of which no event in this session tells,
  std::uint64_t resolved_ = 0;  // and how many of them are up to own_mark_ by now.
  std::uint64_t synced_ = 0;    // How many are older than a sync of this mirror that was answered.
  zk::Timer timer_;
  zk::Timer filter_pause_;  // Until the filter is asked again, whose call the executor has dropped.
  zk::Signal session_over_;
  WaitingCalls waiting_;

  const std::shared_ptr<ListenerSet<ChangeBacklog>> change_listeners_ = std::make_shared<ListenerSet<ChangeBacklog>>();
  const std::shared_ptr<ListenerSet<StateBacklog<CacheState>>> state_listeners_ =
      std::make_shared<ListenerSet<StateBacklog<CacheState>>>(CacheState::loading);
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Snapshot snapshot_;
  CacheState state_ = CacheState::loading;
  std::optional<MirrorProblem> problem_;
  bool closed_ = false;  // By its user.
  // All that this session has been told of is in the snapshot. Null: not now.
  std::shared_ptr<const zk::SessionState> settled_on_;
  mutable zkclient::BootClock::time_point as_of_{};
};

}  // namespace zkrecipes::detail
