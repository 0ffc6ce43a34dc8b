#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/clock.hpp>
#include <zkclient/export.hpp>
#include <zkclient/result.hpp>
#include <zkclient/session.hpp>
#include <zkclient/types.hpp>

#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

namespace detail {
class ClaimState;
}

/// An item of a queue that is being worked on: still in the queue, but no other worker gets it. commit() takes it out
/// for good. A claim that is given back, dropped, or whose session ends lets the item go back to the place it had; so
/// an item may be worked on more than once, and never is lost.
///
/// It keeps neither its queue nor its client open: it is lost when the last Client, or the last recipe with one, goes.
///
/// Thread safety: const members from any thread; moving, committing and giving back like any other object.
class ZKRECIPES_API [[nodiscard]] Claim {
 public:
  /// An empty claim, also what was moved from: valid() is false; commit(), give_back() and reject() fail with not_held.
  Claim() noexcept;
  explicit Claim(std::unique_ptr<detail::ClaimState> state) noexcept;  ///< For recipes.
  Claim(Claim&&) noexcept;
  /// Gives back what it stood for, without waiting.
  Claim& operator=(Claim&& other) noexcept;
  /// Gives the item back without waiting, unless it was committed or given back before. Never throws.
  ~Claim();

  /// The item; "" for an empty claim.
  const std::string& data() const noexcept;
  /// All items of the node. More than one only if Curator put them there together (QueueLayout::curator()).
  const std::vector<std::string>& items() const noexcept;
  /// The name of the item's node, and its priority.
  const std::string& node() const noexcept;
  std::int32_t priority() const noexcept;
  /// The id that it has in an IdQueue; "" if it has none.
  std::string id() const;
  /// Why it was rejected, if this is a dead letter: see reject(). "" otherwise, and in layouts of other libraries.
  const std::string& reason() const noexcept;
  /// How often this item was claimed, this time included (with prefetch also by workers that never looked at it).
  int deliveries() const noexcept;

  /// True while no other worker can have the item, by this process's own clock; no round trip.
  bool valid() const noexcept;
  /// Until when no other worker can have the item, unless an operator deletes the claim by hand: with each heartbeat of
  /// the session it moves forward. In the past when the claim is not valid. By this process's own clock, no round trip.
  zkclient::BootClock::time_point valid_until() const noexcept;
  /// Fires once when the claim is lost, before another consumer can have the item; see Lease::lost().
  std::stop_token lost() const noexcept;
  /// The session that the claim belongs to; nullopt for an empty claim.
  std::optional<zkclient::Session> session() const;

  /// Takes the item out of the queue, if it is still ours. Errors: not_held (lost, or ended before: the item may go, or
  /// have gone, to another consumer), in_doubt (the deadline, a stop request, or the end of the session or of the
  /// client came before the answer), and those common to all operations of Client. After in_doubt and not_held the
  /// claim is over.
  void commit(const zkclient::CallOptions& call = {});
  void async_commit(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// Lets others have the item, in its old place. Returns when that has happened; when the call ends early
  /// (deadline_exceeded, cancelled) it happens in the background. Errors: not_held, and those common to all operations.
  void give_back(const zkclient::CallOptions& call = {});
  void async_give_back(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// Keeps the item from all consumers for `delay`, and gives it back then; sooner if this session ends. Returns at
  /// once, with an empty claim. Errors: not_held.
  void give_back_after(Timeout delay);
  /// Moves the item to the queue's dead letters, however often it was claimed: for one that no worker can digest. Claim
  /// it there to read `reason` (at most 4 KiB), which layouts of other libraries have no place for. Otherwise as
  /// give_back(). If the session ends before the answer comes, the item may be in its old place instead: in_doubt; or is
  /// certainly there: not_held. Errors: these, invalid_argument, and those of give_back().
  void reject(std::string_view reason, const zkclient::CallOptions& call = {});
  void async_reject(std::string_view reason, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

 private:
  std::unique_ptr<detail::ClaimState> state_;
};

}  // namespace zkrecipes
