#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <zkrecipes/id_blocks.hpp>

#include "recipes/kernel/waiting_calls.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/block_stock.hpp"
#include "recipes/values/counter_kind.hpp"

namespace zkrecipes::detail {

/// The ids of one IdBlocks, and the reservation of the next block: one at a time, which goes on until it has an answer,
/// whether or not somebody waits for it.
class BlockCore : public std::enable_shared_from_this<BlockCore> {
 public:
  BlockCore(std::shared_ptr<zk::ClientCore> client, const std::string& node, const IdBlocksOptions& options);

  // --- From any thread ---
  /// An id, if there is one at hand; begins a reservation when it is time for that.
  std::optional<std::int64_t> take();
  /// The owner is gone: a reservation that nobody waits for ends.
  void abandon() noexcept;

  // --- On the loop thread ---
  /// Waits for one. `operation` and `path` go into the error's text.
  static zk::Awaitable<zkclient::Result<std::int64_t>> next(std::shared_ptr<BlockCore> self, const char* operation,
                                                            std::string path, zk::Call call);

 private:
  using Waiting = WaitingCalls::Waiting;

  static zk::Awaitable<void> reserve(std::shared_ptr<BlockCore> self);
  void end_what_nobody_waits_for();

  const std::shared_ptr<zk::ClientCore> client_;
  const std::int64_t block_;
  const std::shared_ptr<CounterCore> counter_;

  std::mutex mutex_;
  BlockStock stock_;  // Guarded by mutex_, as the next one.
  bool reserving_ = false;

  // Loop thread only.
  WaitingCalls calls_;
  int waiting_ = 0;
  bool ownerless_ = false;
  std::uint64_t failures_ = 0;
  zk::Reply failure_;  // The last one.
  const std::shared_ptr<zk::CancelScope> abandoned_ = std::make_shared<zk::CancelScope>();
};

}  // namespace zkrecipes::detail
