#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipes/coherent/coherent_decider.hpp"
#include "recipes/coherent/coherent_layout.hpp"
#include "recipes/coherent/coherent_reader.hpp"
#include "recipes/kernel/exactly_once_writer.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

/// The writes of one CoherentCache: one at a time for each shard. What has been sent is followed to its end, whether or
/// not its caller still waits, so that no gate stays closed. The members belong to the loop thread.
class CoherentWriter : public std::enable_shared_from_this<CoherentWriter> {
 public:
  CoherentWriter(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<const CoherentLayout> layout,
                 std::shared_ptr<CoherentTable> table, std::shared_ptr<CoherentReader> reader);
  ~CoherentWriter();
  CoherentWriter(const CoherentWriter&) = delete;
  CoherentWriter& operator=(const CoherentWriter&) = delete;

  /// Of `reply` the error counts: node_exists, no_node and bad_version say what an item has that should not, or has not
  /// that should.
  static zk::Awaitable<zk::Reply> write(std::shared_ptr<CoherentWriter> self, ItemWrite write, zk::Call call);
  /// Ends the calls; what has been sent goes on to its end.
  void close();

 private:
  /// One call.
  struct Part;
  /// The writes of one shard, and what is known there.
  struct Line;
  using PartPtr = std::shared_ptr<Part>;

  static zk::Awaitable<void> run(std::shared_ptr<CoherentWriter> self, std::uint32_t shard);
  zk::Awaitable<void> write_one(Line& line, PartPtr part);
  zk::Awaitable<zk::Reply> learn(Line& line, const Part& part, zk::Call call);
  zk::Awaitable<void> refuse(Line& line, PartPtr part, zkclient::Errc why, zk::Call call);
  zk::Awaitable<void> take_step(Line& line, PartPtr part, WriteStep step, zk::Call call);
  zk::Awaitable<void> transact(Line& line, PartPtr part, bool behind_closed, zk::Call call);
  void settle_success(Line& line, const PartPtr& part, const std::string& id, const Written& written);
  static void settle_refusal(Line& line, const PartPtr& part, Written written, std::size_t gate_operations,
                             std::size_t last);
  zk::Awaitable<void> judge(Line& line, PartPtr part, std::string slot, std::string id, std::int32_t expected);
  zk::Awaitable<void> close_gate(Line& line, PartPtr part, zk::Call call);
  zk::Awaitable<void> open_again(Line& line);
  zk::Awaitable<void> find_closing(Line& line);
  zk::Awaitable<void> reopen(Line& line, PartPtr part, zk::Call call);
  zk::Awaitable<void> await_writer(Line& line, zk::Call call);
  zk::Awaitable<void> await_readers(Line& line, PartPtr part, std::optional<WriteFacts::TimePoint> until,
                                    zk::Call call);
  zk::Awaitable<void> prepare(Line& line, PartPtr part, zk::Call call);
  static zk::Call new_wait(Line& line);
  void give_up(Line& line, const PartPtr& part, zkclient::Errc why);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<const CoherentLayout> layout_;
  const std::shared_ptr<CoherentTable> table_;
  const std::shared_ptr<CoherentReader> reader_;
  const std::shared_ptr<ExactlyOnceWriter> writer_;
  std::map<std::uint32_t, std::unique_ptr<Line>> lines_;
};

}  // namespace zkrecipes::detail
