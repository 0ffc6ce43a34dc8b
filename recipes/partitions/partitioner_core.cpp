#include "recipes/partitions/partitioner_core.hpp"

#include <utility>

#include <zkrecipes/hashing.hpp>

#include "recipes/partitions/partition_decider.hpp"
#include "recipes/partitions/partition_format.hpp"

namespace zkrecipes::detail {

using zkclient::Client;

namespace {

constexpr const char* partitioning = "partitioner";

std::uint64_t set_of_members(const Client& client, const PartitionSource& source, double max_load) {
  return set_of(source, source.parent() ? client.impl()->full(*source.parent()) : "", max_load);
}

}  // namespace

std::shared_ptr<PartitionerCore> PartitionerCore::make(Client client, Path path, PartitionSource source,
                                                       Partitioner::OnAcquired on_acquired,
                                                       PartitionerOptions options) {
  const auto refuse = [&path](const char* why) { throw Error(Errc::invalid_argument, partitioning, path.str(), why); };
  if (!on_acquired) refuse("no function");
  if (options.weight > max_weight) refuse("the weight is too large");
  if (!(options.max_load >= 1 && options.max_load <= 1'000)) refuse("max_load must be from 1 to 1,000");
  SlotMemberSpec spec;
  spec.recipe = partitioning;
  spec.operation = "partition take";
  spec.acl = options.acl;
  spec.id = options.id;
  spec.data = options.data;
  spec.settle = options.settle;
  spec.grace = options.grace;
  spec.max_moving = options.max_moving;
  auto member = SlotMember::make(std::move(client), std::move(path), std::move(spec),
                                 [on_acquired = std::move(on_acquired)](const std::string& name, Lease lease) mutable {
                                   on_acquired(Partition(name, std::move(lease)));
                                 });
  return std::make_shared<PartitionerCore>(std::move(member), std::move(source), options);
}

PartitionerCore::PartitionerCore(std::shared_ptr<SlotMember> member, PartitionSource source,
                                 const PartitionerOptions& options)
    : member_(std::move(member)),
      source_(std::move(source)),
      weight_(options.weight),
      max_load_(options.max_load),
      set_(set_of_members(member_->client(), source_, max_load_)) {
  if (!source_.parent()) partitions_ = source_.names();
}

void PartitionerCore::start() {
  const auto weak = weak_from_this();
  const auto news = [weak] {
    if (const auto self = weak.lock()) self->recompute();
  };
  if (!member_->start(share_text({weight_, set_}), news) || !source_.parent()) return;
  CacheOptions options;
  options.data = false;
  const std::lock_guard lock(mutex_);
  names_.emplace(member_->client(), *source_.parent(), std::move(options));
  subscription_ = names_->on_change([weak](const auto&, const Snapshot& now) {
    if (const auto self = weak.lock()) self->note_partitions(now);
  });
}

void PartitionerCore::note_partitions(const Snapshot& nodes) {
  if (!nodes.complete()) return;  // What is known stays.
  std::vector<std::string> names;
  for (const CachedNodePtr& node : nodes.children()) {
    if (member_->can_have(node->name)) names.push_back(node->name);
  }
  {
    const std::lock_guard lock(mutex_);
    partitions_ = std::move(names);
  }
  recompute();
}

// By several threads at once, each with what it has seen: the last one to look counts.
void PartitionerCore::recompute() {
  std::optional<std::vector<Member>> members;
  std::vector<std::string> partitions;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    members = member_->members();
    if (!members || !partitions_) return;
    partitions = *partitions_;
    number = ++computed_;
  }
  const auto trouble = member_->membership().problem();
  OwnPlace own{member_->id(), member_->membership().token()};
  own.name_taken = trouble && trouble->errc() == Errc::node_exists;
  own.set = set_;
  own.max_load = max_load_;
  const auto wanted = decide_wanted(partitions, *members, own);
  if (!wanted) return;
  SlotWish wish;
  for (const std::string& name : *wanted)
    wish[name].emplace_back(member_->own_node());
  member_->want(number, std::move(wish));
}

std::optional<Error> PartitionerCore::problem() const {
  if (member_->forked() || !member_->serves()) return std::nullopt;
  if (auto trouble = member_->problem()) return trouble;
  const std::lock_guard lock(mutex_);
  return names_ ? names_->problem() : std::nullopt;
}

}  // namespace zkrecipes::detail
