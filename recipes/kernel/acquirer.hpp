#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/lease.hpp>

#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/timed.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

/// The facts that make a recipe acquirable. The names of the operations go into error texts and are not copied.
struct Acquisition {
  zkclient::Client client;  ///< Stays open for as long as it is used here.
  zkclient::Path path;      ///< As the user wrote it.
  const char* recipe;       ///< "mutex"
  const char* operation;    ///< "mutex acquire"
  /// Runs on the loop thread; null when `patience` is try_once and it is not free.
  std::function<zk::Awaitable<zkclient::Result<LeasePtr>>(Patience patience, zk::Call call)> contend;
  /// "mutex contenders". Both only of a recipe that lists its contenders.
  const char* listing = nullptr;
  std::function<zk::Awaitable<zkclient::Result<std::vector<Contender>>>(zk::Call call)> list = {};
};

/// The forms in which a lease can be asked for, over the coroutine that gets it. See Acquirable. A call
/// does not need the object any more once it has returned.
class Acquirer {
 public:
  explicit Acquirer(Acquisition acquisition);

  Lease acquire(const zkclient::CallOptions& call) const;
  std::optional<Lease> try_acquire(const zkclient::CallOptions& call) const;
  std::optional<Lease> try_acquire_for(std::chrono::nanoseconds timeout, const WaitOptions& options) const;
  std::optional<Lease> try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                         const WaitOptions& options) const;
  void async_acquire(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call) const;
  void async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const zkclient::CallOptions& call) const;
  std::vector<Contender> contenders(const zkclient::CallOptions& call) const;
  void async_contenders(zkclient::Handler<std::vector<Contender>> handler, const zkclient::CallOptions& call) const;

  /// acquire() and try_acquire() as one: empty only when `patience` is try_once. Blocks.
  zkclient::Result<std::optional<Lease>> run(Patience patience, const zkclient::CallOptions& call) const;
  /// The same; returns at once.
  void start(Patience patience, zkclient::Handler<std::optional<Lease>> handler,
             const zkclient::CallOptions& call) const;

  const char* recipe() const noexcept { return this_.recipe; }
  const zkclient::Path& path() const noexcept { return this_.path; }
  /// With the client's prefix: the same for all clients.
  std::string full_path() const { return client()->full(this_.path); }
  bool connected() const { return is_connected(client()); }
  bool is_of(const std::shared_ptr<zk::ClientCore>& core) const noexcept { return client() == core; }

 private:
  const std::shared_ptr<zk::ClientCore>& client() const noexcept { return this_.client.impl(); }
  zk::CallForm form(Patience patience) const;
  zk::CallForm form_of_listing() const;
  zk::Work<std::optional<Lease>> work(Patience patience) const;
  zk::Work<std::vector<Contender>> listing_work() const;

  const Acquisition this_;
};

}  // namespace zkrecipes::detail
