#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <zkrecipes/counter.hpp>

#include "recipes/values/counter_decider.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

namespace zk = zkclient::detail;

/// What is known of a counter's node, and for how long. Loop thread only.
class CounterLook {
 public:
  using Clock = std::chrono::steady_clock;
  /// For so long the next transaction may build upon what the last one wrote, although no watch would tell of a
  /// change. Its condition is a version, which a node that is deleted and made again may reach once more; so this is
  /// short.
  static constexpr std::chrono::milliseconds trust_in_own_write{10};

  /// Sends a read that arms a watch. pending() has the answer, for arrive().
  static std::shared_ptr<CounterLook> launch(const std::shared_ptr<zk::ClientCore>& client, const std::string& node,
                                             const zk::Call& call);
  /// What a transaction of ours has just written. `written`: with data, stat and session of the node.
  static std::shared_ptr<CounterLook> of_own_write(zk::Reply written);

  CounterLook() = default;
  ~CounterLook();
  CounterLook(const CounterLook&) = delete;
  CounterLook& operator=(const CounterLook&) = delete;

  const zk::PendingReply& pending() const noexcept { return pending_; }
  void arrive(zk::Reply reply);
  /// It may be old already.
  void outdate() noexcept { outdated_ = true; }

  const zk::Reply& reply() const noexcept { return reply_; }
  bool exists() const noexcept { return reply_.ok(); }
  bool usable() const noexcept { return reply_.ok() || reply_.failed(zkclient::Errc::no_node); }
  /// No change is known of, and one would be known, or trust_in_own_write lasts. What is not there has no watch. A
  /// version of -1 is no condition, so nothing would show that the memory is old.
  bool holds() const noexcept;
  /// A watch would tell of a change.
  bool watched() const noexcept { return !trusted_until_; }
  CounterView view(CounterEncoding encoding) const;

 private:
  bool is_broken() const noexcept;

  zk::PendingReply pending_;
  zk::Reply reply_;
  std::shared_ptr<zk::LoopWatch> watch_;
  std::optional<zk::SessionState::ObserverId> observer_;
  std::optional<Clock::time_point> trusted_until_;  // Of an own write.
  bool outdated_ = false;                           // The watch has fired, or the connection has broken.
};

}  // namespace zkrecipes::detail
