#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <zkclient/types.hpp>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// What is known of a node, by a read of it or by an own write, and whether that still holds. Loop thread only.
struct ValueLook {
  using Clock = std::chrono::steady_clock;
  /// For so long the next transaction may build upon what the last one wrote, although no watch would tell of a
  /// change. Its condition is a version, which a node that is deleted and made again may reach once more; so this is
  /// short.
  static constexpr std::chrono::milliseconds trust_in_own_write{10};

  ValueLook() = default;
  ~ValueLook() {
    if (observer) reply.session->forget(*observer);
  }
  ValueLook(const ValueLook&) = delete;
  ValueLook& operator=(const ValueLook&) = delete;

  zk::PendingReply pending;
  zk::Reply reply;
  std::shared_ptr<zk::LoopWatch> watch;
  std::optional<zk::SessionState::ObserverId> observer;
  std::optional<Clock::time_point> trusted_until;  // Of an own write.
  bool outdated = false;                           // The watch has fired, or the connection has broken.
  bool recalled = false;                           // Not by a read for the call that uses it now.

  /// `written`: with data, stat and session of the node.
  static std::shared_ptr<ValueLook> of_own_write(zk::Reply written) {
    auto look = std::make_shared<ValueLook>();
    look->arrive(std::move(written));
    look->trusted_until = Clock::now() + trust_in_own_write;
    return look;
  }

  bool exists() const noexcept { return reply.ok(); }
  bool usable() const noexcept { return reply.ok() || reply.failed(zkclient::Errc::no_node); }
  /// A watch would tell of a change.
  bool watched() const noexcept { return !trusted_until; }
  // What is not there has no watch. A version of -1 is no condition, so nothing would show that the memory is old.
  bool holds() const noexcept {
    const bool trusted = watched() || Clock::now() < *trusted_until;
    return exists() && !outdated && trusted && reply.stat.version != zkclient::any_version;
  }

  void arrive(zk::Reply with) {
    reply = std::move(with);
    if (!reply.ok()) return;
    const auto is_broken = [this] { return reply.session->raw_state() != zkclient::ConnectionState::connected; };
    outdated = outdated || is_broken();
    if (outdated) return;
    // A deletion and a creation in a break may have led to the same version. The event may come after a write.
    observer = reply.session->observe([this, is_broken] { outdated = outdated || is_broken(); });
  }
};
using ValueLookPtr = std::shared_ptr<ValueLook>;

}  // namespace zkrecipes::detail
