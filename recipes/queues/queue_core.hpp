#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <zkrecipes/queue.hpp>

#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/kernel/lease_core.hpp"
#include "recipes/queues/candidate_items.hpp"
#include "recipes/queues/item_format.hpp"

namespace zkrecipes::detail {

/// What makes a queue. Folders are full paths.
struct QueueSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< The recipe's, as the user wrote it.
  std::string items;
  std::string claims;
  std::string slots;         ///< See ExactlyOnceWriter.
  std::string dead_letters;  ///< Another queue's items.
  ItemFormat format{QueueLayout::Style::standard, false};
  bool prioritized = false;
  /// Others claim without writing to the item, so its version does not tell.
  bool foreign_claims = false;
  zkclient::AclList acl;
  std::string id;
  std::size_t capacity = 0;
  int max_deliveries = 0;
  int prefetch = 0;
};

/// What was taken out of the queue, or claimed.
struct Taken {
  ItemKey key;
  std::vector<std::string> items;
  std::string reason = {};   ///< Why it was rejected, before it came into this queue.
  std::int32_t version = 0;  ///< Of a claimed item: its node's. Nobody else has claimed it since while it has that.
  LeasePtr lease = {};       ///< Of a claim.
  std::optional<std::string> rejection = {};  ///< Why its owner rejects it.
  std::shared_ptr<bool> abandoned = {};       ///< The claim's owner is gone while it was being committed.
};

enum class TakeKind { pop, claim };

/// What a push does when there is no room.
enum class WhenFull { wait, refuse, ignore };

/// One queue as one object of the user's knows it. All calls that want an item share one list of items, one watch on
/// each folder, and what was read ahead; a dispatcher hands out what may be tried, in the order of the calls, and many
/// are tried at a time. Loop thread only, apart from the constructor.
class QueueCore : public std::enable_shared_from_this<QueueCore> {
 public:
  /// It is destroyed on the loop, whoever lets go of it last.
  static std::shared_ptr<QueueCore> make(QueueSpec spec);
  ~QueueCore();
  QueueCore(const QueueCore&) = delete;
  QueueCore& operator=(const QueueCore&) = delete;

  const QueueSpec& spec() const noexcept { return spec_; }

  /// Of a claim whose owner is gone.
  static zk::Awaitable<void> give_back_abandoned(std::shared_ptr<QueueCore> self, Taken claim);
  /// nullopt: `patience` is try_once, and there is nothing to take.
  zk::Awaitable<zkclient::Result<std::optional<Taken>>> take(TakeKind kind, Patience patience, zk::Call call);
  /// All or none. False: there is no room, and it is refused then. `reason`: of what was rejected before.
  zk::Awaitable<zkclient::Result<bool>> push(std::vector<std::string> items, std::int32_t priority, WhenFull when_full,
                                             zk::Call call, std::string reason = {});
  /// Errors: not_held; after in_doubt the claim is over as well.
  zk::Awaitable<zkclient::Result<void>> commit(Taken claim, zk::Call call);
  /// `seen`: it counts as delivered. Otherwise it never was. It goes on in the background when `call` ends early.
  zk::Awaitable<zkclient::Result<void>> give_back(Taken claim, bool seen, zk::Call call);
  /// Keeps it for `delay`, then gives it back; a claim that is lost, or given back by somebody else, meanwhile is over.
  static zk::Awaitable<void> give_back_later(std::shared_ptr<QueueCore> self, Taken claim,
                                             std::chrono::milliseconds delay);
  zk::Awaitable<zkclient::Result<std::optional<std::string>>> peek(zk::Call call);
  zk::Awaitable<zkclient::Result<std::vector<QueueItem>>> list(zk::Call call);
  zk::Awaitable<zkclient::Result<std::size_t>> size(zk::Call call);
  /// The user's object is gone: what was claimed ahead goes back.
  void retire();

 private:
  struct TakeRequest;
  using TakeRequestPtr = std::shared_ptr<TakeRequest>;

  static constexpr std::size_t window = 32;  ///< Items that are being taken at a time.

  explicit QueueCore(QueueSpec spec);

  // queue_core.cpp: the dispatcher.
  void kick();
  static zk::Awaitable<void> dispatch(std::shared_ptr<QueueCore> self);
  void begin_session(const std::shared_ptr<zk::SessionState>& session);
  void serve();
  void answer_tries();
  bool must_look() const;
  bool is_stale() const;
  bool may_try() const;
  void lost_race();
  zk::Awaitable<zk::Reply> look();
  zk::Awaitable<zk::Reply> check();
  zk::Awaitable<zk::Reply> read_lists();
  void read_ahead();
  TakeRequestPtr first_waiting(std::optional<TakeKind> kind = {}) const;
  void start(TakeRequestPtr want, ItemKey key);
  void fail_waiting(const zk::Reply& why);
  void drop(const TakeRequestPtr& want);
  zkclient::Error error(const zk::Reply& reply, const char* operation) const;

  // queue_take.cpp: one item.
  enum class Attempted { done, gone, again, failed };
  static zk::Awaitable<void> attempt(std::shared_ptr<QueueCore> self, TakeRequestPtr want, ItemKey key, TakeKind kind);
  zk::Awaitable<Attempted> try_take(TakeRequestPtr& want, ItemKey key, TakeKind kind, zk::Reply& failure);
  zk::Awaitable<Attempted> write_take(TakeRequestPtr want, Taken taken, std::string data, TakeKind kind,
                                      zk::Reply& failure);
  zk::Awaitable<zk::Reply> make_folders(zk::Call call, bool with_dead_letters = false);
  zk::Awaitable<bool> grant(Taken& taken, zk::Reply written, std::string text, std::shared_ptr<zk::LeaseKeeper> keeper,
                            std::shared_ptr<zk::SessionState> session);
  void deliver(const TakeRequestPtr& want, Taken taken, TakeKind kind);
  static zk::Awaitable<void> put_back(std::shared_ptr<QueueCore> self, Taken taken);
  void watch_folder();
  void folder_replaced();
  std::string claim_path(const ItemKey& key) const;
  std::string item_path(const ItemKey& key) const;

  // queue_claims.cpp
  zk::Awaitable<Written> write_return(const Taken& claim, bool seen, zk::Call call);
  static zk::Awaitable<void> return_in_background(std::shared_ptr<QueueCore> self, Taken claim, bool seen);
  void returned(const Taken& claim, bool buried);
  void claim_removed(const Taken& claim);
  void claim_over(const Taken& claim);
  static zk::Awaitable<void> remove_claim(std::shared_ptr<QueueCore> self, ItemKey key, std::int32_t version,
                                          std::shared_ptr<zk::SessionState> session);
  void keep(const Taken& claim);
  bool to_be_buried(const Taken& claim, bool seen) const;
  void prefetch();
  std::optional<Taken> from_stash();
  static zk::Awaitable<void> return_unused(std::shared_ptr<QueueCore> self);

  // queue_push.cpp
  zk::Awaitable<Written> push_in_turn(std::vector<zkclient::Transaction::Operation> operations, bool& full,
                                      zk::Call call);
  zk::Awaitable<zk::Reply> wait_for_room(std::size_t count, zk::Call call);
  zk::Awaitable<zk::Reply> take_turn(zk::Call call);

  const QueueSpec spec_;
  // Apart, so that takes that are refused because others were faster hold up nothing else.
  const std::shared_ptr<ExactlyOnceWriter> pusher_;
  const std::shared_ptr<ExactlyOnceWriter> taker_;
  const std::shared_ptr<ExactlyOnceWriter> ender_;   // Of claims.
  std::deque<std::shared_ptr<zk::Signal>> fillers_;  // Pushes with a limit; the first one has its turn.
  CandidateItems candidates_;
  std::chrono::steady_clock::time_point beaten_at_{};
  std::deque<TakeRequestPtr> wants_;
  std::uint64_t wants_made_ = 0;
  std::uint64_t looked_for_ = 0;  // Wants up to this one were there when we looked last.
  zk::Signal wake_;               // Of the dispatcher.
  bool dispatching_ = false;
  std::size_t in_flight_ = 0;
  std::minstd_rand random_;

  // What is known of the current session's view.
  std::shared_ptr<zk::SessionState> session_;
  std::shared_ptr<zk::LeaseKeeper> keeper_;
  std::optional<zk::SessionState::ObserverId> observer_;
  bool listed_ = false;
  bool changed_ = true;  // Since the list was read, or it may have.
  std::chrono::steady_clock::time_point listed_at_{};
  std::size_t taken_since_ = 0;
  std::size_t length_ = 0;  // Of the list when it was read.
  FolderChanges items_seen_;
  FolderChanges claims_seen_;
  std::int64_t claims_czxid_ = 0;
  std::uint32_t own_claims_deleted_ = 0;  // As FolderChanges::deleted.
  std::shared_ptr<zk::LoopWatch> items_watch_;
  std::shared_ptr<zk::LoopWatch> claims_watch_;
  std::shared_ptr<zk::LoopWatch> folder_watch_;  // Of the items' folder itself.
  std::int64_t folder_czxid_ = 0;
  std::unordered_map<std::string, zk::PendingReply> read_;
  std::size_t ahead_ = 0;
  std::size_t usual_size_ = 0;

  // Claims that nobody has asked for yet.
  std::deque<Taken> stash_;
  std::size_t prefetching_ = 0;
  std::chrono::steady_clock::time_point last_claim_{};
  zk::Signal idle_;  // Of return_unused().
  bool returning_ = false;
  bool retired_ = false;
};

}  // namespace zkrecipes::detail
