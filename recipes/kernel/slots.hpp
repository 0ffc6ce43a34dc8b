#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/growing_pause.hpp"
#include "recipes/kernel/slot_decider.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The name of a holder's node in its slot's directory.
inline constexpr const char* slot_owner = "owner";

/// The constants of a member's slots. Paths are full ones unless it says otherwise.
///
///   directory
///    '-- <slot>   container: one for each, so that a taking lists no other slot
///         '-- owner, _c_<uuid>-owner   see single_node.hpp
struct SlotsSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< The recipe's, as the user knows it.
  std::string directory;
  std::string data;  ///< Of the owner's nodes.
  zkclient::AclList acl;
  const char* operation = "";  ///< For error texts.
  std::chrono::milliseconds settle{0};
  std::chrono::milliseconds grace{0};
  std::size_t max_moving = 1;  ///< Slots that are asked back at a time.
};

/// The slots that a member wants, each with the checks that stand in the transaction of its taking: that the member's own
/// node is there, say. See SingleNodeSpec::conditions.
using SlotWish = std::map<std::string, std::vector<zkclient::Transaction::Operation>>;

/// The slots that one member wants or has. It takes those that nobody holds, waits for the others by one watch each, and
/// hands over what it does not want any more. Nothing is held by two members: each holding is a lease of a single node.
/// Lives on the loop thread, but for the members that say otherwise; kept alive by its coroutines.
class Slots : public std::enable_shared_from_this<Slots> {
 public:
  /// Told on the loop thread of each slot that was taken. The one who gets the lease gives it back.
  using Taken = std::function<void(const std::string& slot, const LeasePtr& lease)>;

  Slots(SlotsSpec spec, Taken taken);

  // --- Any thread ---

  /// Those whose leases are valid, ordered.
  std::vector<std::string> held() const;
  /// Why a slot could not be taken or looked at, the last time; nullopt: nothing is wrong.
  std::optional<zkclient::Error> problem() const;

  // --- Loop thread ---

  /// From here on these are wanted. Hand-overs begin when `settle` has passed without another call of this. A call with
  /// a lower number than an earlier one has is ignored.
  void want(std::uint64_t number, const SlotWish& wanted);
  /// From here on nothing is: all are handed over, without a wait for `settle`.
  void hand_over_all();
  /// The same, and what is held is lost now, with this cause: the holders are told, then the nodes go.
  void end(std::string_view cause);
  /// Waits until, after one of these two, nothing is held any more.
  static zk::Awaitable<zkclient::Result<void>> until_empty(std::shared_ptr<Slots> self, zk::Call call);

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    bool wanted = false;
    bool busy = false;    // A coroutine is at work on it, or it waits for its turn.
    bool moving = false;  // The user was asked to give it back.
    SlotHolder holder = SlotHolder::unknown;
    std::vector<zkclient::Transaction::Operation> conditions = {};
    LeasePtr lease = nullptr;
    std::shared_ptr<zk::LoopWatch> watch = nullptr;  // On the other holder's node.
  };

  SlotStep step_of(const Slot& slot) const { return decide_slot(slot.wanted, slot.lease != nullptr, slot.holder); }
  void consider(const std::string& name);
  void consider_all();
  void send();
  void work(const std::string& name);
  static zk::Awaitable<void> look(std::shared_ptr<Slots> self, std::string name);
  static zk::Awaitable<void> take(std::shared_ptr<Slots> self, std::string name);
  static zk::Awaitable<void> hold(std::shared_ptr<Slots> self, std::string name, LeasePtr lease);
  static zk::Awaitable<void> limit_hand_over(std::shared_ptr<Slots> self, LeasePtr lease);
  static zk::Awaitable<void> settle(std::shared_ptr<Slots> self);
  static zk::Awaitable<void> pause(std::shared_ptr<Slots> self, Clock::time_point until);
  static zk::Awaitable<void> pause_for_slowness(std::shared_ptr<Slots> self);
  void quick_again();
  void begin_hand_overs();
  void done(const std::string& name);
  void granted(const std::string& name, LeasePtr lease);
  void show_problem(const zkclient::Error& error);
  void clear_problem();
  std::string directory_of(const std::string& name) const { return zk::child_path(spec_.directory, name); }
  zk::Call call() const;

  const SlotsSpec spec_;
  const Taken taken_;
  std::map<std::string, Slot> slots_;
  std::deque<std::string> waiting_;  // For their turn.
  std::size_t in_flight_ = 0;
  std::size_t moving_ = 0;
  std::uint64_t newest_ = 0;  // Of the wishes.
  bool leaving_ = false;
  bool settling_ = false;
  bool slow_ = false;                 // The connection was too slow for a lease, and no slot was taken since.
  bool trying_ = false;               // One of the slots is about to be tried again for that.
  GrowingPause slowness_;             // Before it is.
  std::optional<std::string> cause_;  // Of the end.
  Clock::time_point settled_;         // When hand-overs may begin.
  std::shared_ptr<zk::CancelScope> news_ =
      std::make_shared<zk::CancelScope>();  // Until there is a reason to try again.
  const std::shared_ptr<zk::CancelScope> leave_ = std::make_shared<zk::CancelScope>();
  const std::shared_ptr<zk::CancelScope> empty_ = std::make_shared<zk::CancelScope>();

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, LeasePtr> held_;
  std::optional<zkclient::Error> problem_;
};

}  // namespace zkrecipes::detail
