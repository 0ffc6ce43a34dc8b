#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/cache.hpp>
#include <zkrecipes/service_instance.hpp>

namespace zkrecipes {

namespace detail {
class ProviderCore;
}  // namespace detail

/// Which one is picked of the instances that are up.
enum class PickStrategy {
  round_robin,  ///< One after another.
  random,       ///< Each with the same chance.
  sticky,       ///< The same one for as long as it is listed and not out, whatever becomes of its data.
};

/// Which instances are out for a while, because calls to them fail: see ServiceProvider::note_error().
/// Times of more than a year count as a year.
struct HealthOptions {
  int errors = 2;                                ///< So many within `window` put an instance out. At least 1.
  std::chrono::milliseconds window{30'000};      ///< See `errors`.
  std::chrono::milliseconds pause{5'000};        ///< The first one. Each further one is twice as long,
  std::chrono::milliseconds max_pause{300'000};  ///< up to this. A success, or a quiet time as long, starts anew.
};

struct ProviderOptions {
  PickStrategy strategy = PickStrategy::round_robin;  ///< Without a function of one's own, see `choose`.
  /// Instead of `strategy`: picks one of `up`, which is not empty, or null. Called in the thread that calls pick(), also
  /// by several at once. What it throws comes out of pick().
  std::function<ListedInstancePtr(const std::vector<ListedInstancePtr>& up)> choose = {};
  HealthOptions health = {};  ///< When an instance is out for a while.
  /// When the last instance of the service is gone, those that vanished so recently can still be picked, with
  /// `confirmed` false: if ZooKeeper lost all sessions at once, the services may well be there. Zero: never.
  /// More than a year counts as a year.
  std::chrono::milliseconds last_resort{30'000};
};

/// The difference that one instance makes.
struct InstanceChange {
  Change::Kind kind = Change::Kind::added;  ///< changed: updated; replaced: registered anew.
  ListedInstancePtr before = {};            ///< Null: added.
  ListedInstancePtr after = {};             ///< Null: removed.
};

/// The instances of one service, kept up to date by watches, and a choice among them. Made by
/// ServiceDirectory::provider(); see ServiceDirectory for what goes wrong.
///
/// Cost: as a ChildrenCache. pick() asks no server, and takes about 100 ns while no instance is out. Threads wait for
/// each other only while one of them copies a pointer.
///
/// Thread safety: all members, also from listeners. The object keeps its client open. A moved-from object may only be
/// destroyed or assigned to. In a forked child state() is closed, nothing is listed or picked, and calls end with
/// Errc::forked.
class ZKRECIPES_API ServiceProvider {
 public:
  /// Gets the changes, and the listing with them.
  using Listener =
      zkclient::UniqueFunction<void(const std::vector<InstanceChange>& changes, const ServiceListing& now)>;
  /// Gets the new state.
  using StateListener = zkclient::UniqueFunction<void(CacheState state)>;

  ServiceProvider(ServiceProvider&&) noexcept;
  ServiceProvider& operator=(ServiceProvider&&) noexcept;
  /// As close().
  ~ServiceProvider();

  /// What is known to be listed; nothing before wait_ready(). What this provider's directory has registered, updated and
  /// unregistered is in it, and in pick(), when that call returns. Does not block.
  ServiceListing instances() const;
  /// An instance that is enabled and not out; if all are out, the one with the fewest errors. Null: there is none.
  /// Does not block.
  [[nodiscard]] ListedInstancePtr pick() const;
  /// The same one for the same key, for as long as it is listed and not out; when an instance comes or goes, only the
  /// keys that it gets or had are moved (rendezvous hashing by the names of their nodes). Whatever the strategy. Takes time
  /// for each instance, about 10 ns.
  [[nodiscard]] ListedInstancePtr pick(std::string_view key) const;

  /// A call to an instance that pick() returned failed, or worked. Both concern this incarnation of it, also after
  /// updates; the clock is the steady one. Errors of one that is out do not prolong that. Neither blocks.
  void note_error(const ListedInstancePtr& instance) const;
  void note_success(const ListedInstancePtr& instance) const;

  /// Waits for the first list, and for all that this client has registered, updated and unregistered before; for ever
  /// unless `call` has a deadline or a stop token. Afterwards instances() and pick() know of it, too. Sends no request, as
  /// Cache::wait_ready(). Errors: as there.
  ServiceListing wait_ready(const zkclient::CallOptions& call = {}) const;
  void async_wait_ready(zkclient::Handler<ServiceListing> handler, const zkclient::CallOptions& call = {}) const;

  /// Calls `listener` with all instances as `added` as soon as there is a list, then with each net difference, on the
  /// callback executor, one call at a time. Nodes that are no instances make no difference. Errors: invalid_argument
  /// (no listener).
  zkclient::Subscription on_change(Listener listener) const;
  /// As Cache::on_state().
  zkclient::Subscription on_state(StateListener listener) const;
  /// stale: disconnected, or catching up; the list stays, and pick() goes on. Does not block.
  CacheState state() const noexcept;
  /// Why nodes of the service are missing in the list: foreign_node (the first one that is no instance), or as
  /// Cache::problem(). nullopt: none is missing. Does not block.
  std::optional<zkclient::Error> problem() const;

  /// As Cache::close(). The last list stays, and can be picked from.
  void close();

  /// The service's name.
  const std::string& name() const noexcept;

  explicit ServiceProvider(std::shared_ptr<detail::ProviderCore> core) noexcept;

 private:
  std::shared_ptr<detail::ProviderCore> core_;
};

}  // namespace zkrecipes
