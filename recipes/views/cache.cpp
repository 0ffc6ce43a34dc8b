#include <zkrecipes/cache.hpp>

#include <utility>

#include "recipes/views/mirror.hpp"

namespace zkrecipes {

using namespace words;
using detail::Mirror;

namespace {

void check(const CacheOptions& options, const zkclient::Path& path) {
  const auto at_least_zero = [&path](std::chrono::milliseconds value, const char* option) {
    if (value.count() < 0)
      throw Error(Errc::invalid_argument, "cache", path.str(), std::string(option) + " is negative");
  };
  at_least_zero(options.max_delay, "max_delay");
  at_least_zero(options.quiet, "quiet");
  at_least_zero(options.max_age, "max_age");
}

detail::MirrorScope at(detail::MirrorScope scope, const zkclient::Client& client, const zkclient::Path& path) {
  check(scope.options, path);
  scope.path = path.str();
  scope.full_path = client.impl()->full(path);
  return scope;
}

CallForm form(const Mirror& mirror, const char* operation, const zkclient::Path& path) {
  return CallForm(mirror.client(), operation, path.str());
}

auto ready_work(std::shared_ptr<Mirror> mirror) {
  return [mirror = std::move(mirror)](Call call) { return Mirror::wait_ready(mirror, std::move(call)); };
}

auto refresh_work(std::shared_ptr<Mirror> mirror, ReadBarrier barrier) {
  return [mirror = std::move(mirror), barrier](Call call) { return Mirror::refresh(mirror, barrier, std::move(call)); };
}

using GuardedPredicatePtr = std::shared_ptr<detail::SnapshotPredicate>;

GuardedPredicatePtr guard(Cache::Predicate predicate, const zkclient::Path& path) {
  if (!predicate) throw Error(Errc::invalid_argument, "wait_until", path.str(), "no predicate");
  return std::make_shared<detail::SnapshotPredicate>(std::move(predicate));
}

auto until_work(std::shared_ptr<Mirror> mirror, GuardedPredicatePtr predicate) {
  return [mirror = std::move(mirror), predicate = std::move(predicate)](Call call) {
    return Mirror::wait_until(mirror, predicate, std::move(call));
  };
}

}  // namespace

Cache::Cache(zkclient::Client client, zkclient::Path path, const detail::MirrorScope& scope)
    : client_(std::move(client)),
      path_(std::move(path)),
      mirror_(Mirror::start(client_.impl(), at(scope, client_, path_))) {}

Cache::~Cache() {
  if (mirror_ != nullptr) mirror_->close();
}

Cache::Cache(Cache&& other) noexcept = default;

Cache& Cache::operator=(Cache&& other) noexcept {
  if (this == &other) return *this;
  if (mirror_ != nullptr) mirror_->close();
  client_ = std::move(other.client_);
  path_ = std::move(other.path_);
  mirror_ = std::move(other.mirror_);
  return *this;
}

Snapshot Cache::snapshot() const noexcept { return mirror_->snapshot(); }
CacheState Cache::state() const noexcept { return mirror_->state(); }
std::optional<Error> Cache::problem() const { return mirror_->problem(); }
std::optional<zkclient::BootClock::time_point> Cache::as_of() const { return mirror_->as_of(); }

Snapshot Cache::wait_ready(const CallOptions& call) const {
  return form(*mirror_, "wait for cache", path_).endless().wait(call, ready_work(mirror_));
}
void Cache::async_wait_ready(zkclient::Handler<Snapshot> handler, const CallOptions& call) const {
  form(*mirror_, "wait for cache", path_).endless().start(call, ready_work(mirror_), std::move(handler));
}

Snapshot Cache::refresh(ReadBarrier barrier, const CallOptions& call) const {
  return form(*mirror_, "refresh cache", path_).wait(call, refresh_work(mirror_, barrier));
}
void Cache::async_refresh(ReadBarrier barrier, zkclient::Handler<Snapshot> handler, const CallOptions& call) const {
  form(*mirror_, "refresh cache", path_).start(call, refresh_work(mirror_, barrier), std::move(handler));
}

Snapshot Cache::wait_until(Predicate predicate, const CallOptions& call) const {
  const GuardedPredicatePtr guarded = guard(std::move(predicate), path_);
  const struct End {
    detail::SnapshotPredicate& predicate;
    ~End() { predicate.end(); }
  } end{*guarded};
  return form(*mirror_, "wait for change", path_).endless().wait(call, until_work(mirror_, guarded));
}
void Cache::async_wait_until(Predicate predicate, zkclient::Handler<Snapshot> handler, const CallOptions& call) const {
  zk::require_handler(handler, "wait for change", path_.str());
  const GuardedPredicatePtr guarded = guard(std::move(predicate), path_);
  auto told = [guarded, loop = mirror_->client()->loop(),
               handler = std::move(handler)](zkclient::Result<Snapshot> result) mutable {
    if (!loop->on_loop()) guarded->end();  // The loop never waits: then the executor has ended.
    handler(std::move(result));
  };
  form(*mirror_, "wait for change", path_).endless().start(call, until_work(mirror_, guarded), std::move(told));
}

zkclient::Subscription Cache::on_change(Listener listener) const { return mirror_->on_change(std::move(listener)); }
zkclient::Subscription Cache::on_state(StateListener listener) const { return mirror_->on_state(std::move(listener)); }

void Cache::close() {
  const auto mirror = mirror_;  // A listener that is released may have owned this object.
  mirror->close();
}

}  // namespace zkrecipes
