#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recipes/kernel/lease_core.hpp"
#include "recipes/kernel/waiter.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

enum class Patience { wait, try_once };

using LeasePtr = std::shared_ptr<LeaseCore>;

/// One attempt of a caller to become a holder, with nodes of one session. A recipe derives its own: run() creates the
/// nodes, decides, waits, and ends in prove_and_grant(). Its destructor has the nodes removed if leaves_nodes().
/// Must not move: its watches know its address.
class Attempt {
 public:
  enum class Outcome {
    granted,
    busy,      ///< Another one holds, and this caller does not wait.
    vanished,  ///< Our nodes are gone, by an operator's hand say: start over with new ones.
    failed,
  };

  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// After `failed`.
  const zkclient::Error& failure() const noexcept { return *failure_; }
  /// After `granted`.
  const std::vector<LeasePtr>& leases() const noexcept { return leases_; }
  const LeasePtr& lease() const noexcept { return leases_.front(); }

 protected:
  /// `operation` and `path`, as the user knows them, go into the failure's text.
  Attempt(std::shared_ptr<zk::ClientCore> client, zk::Call call, std::string operation, std::string path);
  ~Attempt() = default;

  /// The server may have our nodes: the create was sent and has not been refused, and nothing was granted.
  bool leaves_nodes() const noexcept { return may_exist_ && leases_.empty(); }
  /// For the destructor of an attempt with sequential nodes. Those whose names are not known are found by their marker.
  void remove_sequential(const std::string& directory, const std::string& marker,
                         const std::vector<std::string>& paths);

  /// The meaning of a step's end: `vanished` if it is no_node, else `failed`.
  Outcome end(zk::Reply reply);
  Outcome fail(zk::Reply reply);
  Outcome fail(zkclient::Error error);

  /// The first facts of a lease of this session; the recipe adds its node.
  LeaseCore::Grant make_grant(std::string path, std::int64_t czxid) const;
  void grant(LeaseCore::Grant grant);
  /// Has a quorum confirm the session, and our nodes with it (`own_nodes`: a transaction of checks); then grants.
  zk::Awaitable<Outcome> prove_and_grant(zk::Request own_nodes, LeaseCore::Grant grant);

  const std::shared_ptr<zk::ClientCore> client_;
  Waiter waiter_;
  bool may_exist_ = false;  ///< The create was sent and not refused.

 private:
  const std::string operation_;
  const std::string path_;
  std::optional<zkclient::Error> failure_;
  std::vector<LeasePtr> leases_;
};

/// Makes attempts until one has an answer: what it was granted, an empty value if it was busy, or an error. `requeue`:
/// the end of the session is no answer, the next session tries again.
template <typename Make>
auto drive(Make make, bool requeue = false)
    -> zk::Awaitable<zkclient::Result<typename decltype(make())::element_type::Value>> {
  using Value = typename decltype(make())::element_type::Value;
  for (;;) {
    const auto attempt = make();
    const Attempt::Outcome outcome = co_await attempt->run();
    if (outcome == Attempt::Outcome::granted) co_return attempt->take();
    if (outcome == Attempt::Outcome::busy) co_return Value();
    if (outcome == Attempt::Outcome::vanished) continue;
    if (requeue && attempt->failure().errc() == zkclient::Errc::session_lost) continue;
    co_return attempt->failure();
  }
}

}  // namespace zkrecipes::detail
