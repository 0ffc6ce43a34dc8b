#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "recipes/kernel/growing_pause.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/replication/placement_decider.hpp"

/// When a host may erase a copy, asked again and again until it may: see may_erase().
namespace zkrecipes::detail {

/// A copy whose replica was closed.
struct ClosedCopy {
  ClosedCopy(std::shared_ptr<zk::ClientCore> core, const Path& placements, std::string name, std::string host_id);

  const std::shared_ptr<zk::ClientCore> client;
  const std::string partition;
  const std::string host;
  // As the user wrote them.
  const Path group;
  const Path placement_node;
  // Full paths.
  const std::string members;
  const std::string state;
  const std::string placement;
  std::atomic<bool> kept = false;    ///< Nobody asks any more: it was opened again, say.
  std::atomic<bool> rests = false;   ///< The permission was of no use: a pause comes before the next look.
  GrowingPause pauses;               ///< Before the next look. Loop thread.
  BootClock::time_point allowed_at;  ///< When the last state was read. Loop thread, until the permission is there.
  std::mutex mutex;
  std::optional<Error> problem;  ///< Guarded by mutex. Why nobody can say whether it may.
};
using ClosedCopyPtr = std::shared_ptr<ClosedCopy>;

/// Ends when the copy may be erased. Fails some time after it is kept, or when the client is closed.
Awaitable<Result<void>> until_erasable(ClosedCopyPtr copy, Call call);

}  // namespace zkrecipes::detail
