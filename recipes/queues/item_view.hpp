#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <zkclient/clock.hpp>

#include "recipes/queues/candidate_items.hpp"
#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes::detail {

/// What one consumer knows of the items in the current session: the list, whether it has changed since, and what was
/// read ahead. It keeps a watch on each folder. Loop thread only, apart from the constructor.
class ItemView : public std::enable_shared_from_this<ItemView> {
 public:
  using SessionPtr = std::shared_ptr<zk::SessionState>;

  /// `wake` is set when something may have changed.
  ItemView(QueueSpecPtr spec, std::shared_ptr<zk::Signal> wake);
  ~ItemView();
  ItemView(const ItemView&) = delete;
  ItemView& operator=(const ItemView&) = delete;

  /// False if it is the same as before. A new session knows nothing.
  bool begin_session(const SessionPtr& session);
  const SessionPtr& session() const noexcept { return session_; }
  const std::shared_ptr<zk::LeaseKeeper>& keeper() const noexcept { return keeper_; }
  /// For requests of this session.
  zk::Call bound_call() const;

  bool listed() const noexcept { return listed_; }
  bool changed() const noexcept { return changed_; }
  bool is_stale() const;
  CandidateItems& candidates() noexcept { return candidates_; }
  const CandidateItems& candidates() const noexcept { return candidates_; }

  /// Looks at the clock: items that are due now become candidates.
  void note_time();
  /// When to look at it next; nullopt if no item waits for its time.
  std::optional<std::chrono::steady_clock::time_point> next_look_at_clock() const;

  /// Reads the lists.
  zk::Awaitable<zk::Reply> list();
  /// Asks whether items were added, or have come back, since the list was read: it is stale then.
  zk::Awaitable<zk::Reply> check();

  /// Whether a consumer has claimed the item at a claim_place(), which no list shows: no_node if not. Otherwise the list is stale
  /// as soon as that claim ends.
  zk::Awaitable<zk::Reply> find_claim_elsewhere(ItemKey key, std::int32_t version, std::int64_t czxid);

  // Changes by this consumer itself.
  void tries(const ItemKey& key);
  void lost_race();
  void won();
  /// By a transaction of this session, which was sent then, so that the list is none the older for it. `sent`: as
  /// zk::Reply::sent; the epoch if its reply was lost.
  void own_claim_deleted(const SessionPtr& session, zkclient::BootClock::time_point sent);
  void let_go(const SessionPtr& session, const ItemKey& key);
  /// The folders may have changed.
  void mark_changed();
  /// The list is not to be trusted any more.
  void mark_stale();

  // Reading ahead. Versions tell whether an item was changed since.
  void read_ahead();
  /// The read of an item, if it was read ahead; once.
  std::optional<zk::PendingReply> take_read(const std::string& name);
  void note_size(std::size_t size) noexcept { usual_size_ = size; }

 private:
  void learn(zk::Reply& listed, const zk::Reply& claimed);
  zk::Awaitable<zk::Reply> watch_claim(std::string place);
  void watch_folder();
  void folder_replaced();
  std::uint32_t own_claims_deleted(const zk::Reply& read) const;

  const QueueSpecPtr spec_;
  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<zk::Signal> wake_;
  SessionPtr session_;
  std::shared_ptr<zk::LeaseKeeper> keeper_;
  std::optional<zk::SessionState::ObserverId> observer_;

  CandidateItems candidates_;
  bool listed_ = false;
  bool changed_ = true;  // Since the list was read, or it may have.
  std::chrono::steady_clock::time_point listed_at_{};
  std::chrono::steady_clock::time_point lost_race_at_{};
  std::size_t taken_since_ = 0;
  std::size_t length_ = 0;  // Of the list when it was read.
  FolderChanges items_seen_;
  FolderChanges claims_seen_;
  std::int64_t claims_czxid_ = 0;
  std::vector<zkclient::BootClock::time_point> own_claims_deleted_;  // When that was sent: those that the list lacks.
  std::shared_ptr<zk::LoopWatch> items_watch_;
  std::shared_ptr<zk::LoopWatch> claims_watch_;
  std::shared_ptr<zk::LoopWatch> folder_watch_;  // Of the items' folder itself.
  std::int64_t folder_czxid_ = 0;
  std::map<std::string, std::shared_ptr<zk::LoopWatch>> claims_elsewhere_;  // Of other consumers, by their paths.

  std::unordered_map<std::string, zk::PendingReply> read_;
  std::size_t ahead_ = 0;
  std::size_t usual_size_ = 0;
};

}  // namespace zkrecipes::detail
