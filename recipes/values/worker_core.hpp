#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <zkrecipes/worker_id.hpp>

#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/id_generator.hpp"

namespace zkrecipes::detail {

/// The constants of one WorkerIds. Shared, because every call needs it until its end.
struct WorkerSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< As the user wrote it.
  std::string held;  ///< Full, as all that follow.
  std::string times;
  WorkerIdOptions options;

  int count() const noexcept { return 1 << options.layout.worker_bits; }
  std::int64_t now() const;  ///< Milliseconds since 1970.
};
using WorkerSpecPtr = std::shared_ptr<const WorkerSpec>;

/// A worker number while its lease lasts: makes the ids, and reserves the time for them.
///
///   begin: read the time that the former owners reserved; reserve more
///   keep_ahead: sleep until half of it is left, or somebody needs more; reserve more
///
/// The members belong to the loop thread, apart from the first ones.
class WorkerCore : public std::enable_shared_from_this<WorkerCore> {
 public:
  WorkerCore(WorkerSpecPtr spec, int number, LeasePtr lease);
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  // --- From any thread ---
  int number() const noexcept { return number_; }
  std::int64_t next();
  /// No more ids. What is reserved and not needed goes back, if it is called before the lease is given back.
  void close() noexcept;

  // --- On the loop thread ---
  /// Fails with session_lost when the lease is over.
  zk::Awaitable<zk::Reply> begin(zk::Call call);
  /// Goes on until the lease is over.
  static zk::Awaitable<void> keep_ahead(std::shared_ptr<WorkerCore> self);

 private:
  zk::Awaitable<zk::Reply> look(zk::Call call);
  zk::Awaitable<zk::Reply> reserve(zk::Call call);
  zk::Awaitable<zk::Reply> write(std::int64_t until, zk::Call call);
  zk::Request writing(std::int64_t until) const;
  std::int64_t wanted();
  bool is_more(std::int64_t until);
  std::chrono::milliseconds pause();
  void give_rest_back();
  zk::Call bound_call() const;

  const WorkerSpecPtr spec_;
  const int number_;
  const std::string node_;  // With the time.
  const LeasePtr lease_;

  std::mutex mutex_;
  std::optional<IdGenerator> generator_;  // Guarded by mutex_, as the following two.
  bool closed_ = false;
  bool asked_ = false;  // For more time.

  // Loop thread only.
  enum class Node { unknown, missing, present } stored_ = Node::unknown;
  std::int32_t version_ = 0;  // If it is present.
  std::int64_t found_ = 0;    // The time that was there.
  bool overtaken_ = false;    // The last write found the time of another owner.
  std::shared_ptr<zk::CancelScope> wake_ = std::make_shared<zk::CancelScope>();
};

}  // namespace zkrecipes::detail
