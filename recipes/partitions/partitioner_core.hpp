#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/partitioner.hpp>

#include "recipes/partitions/slot_member.hpp"

namespace zkrecipes::detail {

/// What a partitioner does: news of the members and of the source become what its member's slots shall be. Any thread; it
/// computes on the callback executor.
class PartitionerCore : public std::enable_shared_from_this<PartitionerCore> {
 public:
  static std::shared_ptr<PartitionerCore> make(zkclient::Client client, zkclient::Path path, PartitionSource source,
                                               Partitioner::OnAcquired on_acquired, PartitionerOptions options);
  PartitionerCore(std::shared_ptr<SlotMember> member, PartitionSource source, const PartitionerOptions& options);

  void start();
  const std::shared_ptr<SlotMember>& member() const noexcept { return member_; }
  std::optional<zkclient::Error> problem() const;

 private:
  void note_partitions(const Snapshot& nodes);
  void recompute();

  const std::shared_ptr<SlotMember> member_;
  const PartitionSource source_;
  const std::uint32_t weight_;
  const double max_load_;
  const std::uint64_t set_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<std::vector<std::string>> partitions_;
  std::uint64_t computed_ = 0;
  std::optional<ChildrenCache> names_;  // Made by start(), for good.
  zkclient::Subscription subscription_;
};

}  // namespace zkrecipes::detail
