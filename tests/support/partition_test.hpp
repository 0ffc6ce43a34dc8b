#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <zkrecipes/partitioner.hpp>

#include "tests/support/recipe_test.hpp"

/// What the tests of partitions share.
namespace testkit {

/// What all owners of all partitions together do, judged by one clock: when one gets a partition, the one before must
/// know by then that it has not got it any more.
class Ledger {
 public:
  void note(const std::shared_ptr<zkrecipes::Partition>& partition) {
    const std::lock_guard lock(mutex_);
    ++grants_;
    auto& last = last_[partition->name()];
    const bool owned = last != nullptr && last->valid();
    if (!partition->valid()) return;  // Told so late that it is over; the next owner may have been noted.
    EXPECT_FALSE(owned) << "two owners of " << partition->name();
    if (last != nullptr) {
      EXPECT_LT(tokens_[partition->name()], partition->token().value);
    }
    last = partition;
    tokens_[partition->name()] = partition->token().value;
  }
  std::size_t grants() const {
    const std::lock_guard lock(mutex_);
    return grants_;
  }

 private:
  mutable std::mutex mutex_;
  std::size_t grants_ = 0;
  std::map<std::string, std::shared_ptr<zkrecipes::Partition>> last_;
  std::map<std::string, std::int64_t> tokens_;
};

/// A member that keeps what it gets, and gives it back when it is asked to.
class PartitionWorker {
 public:
  struct Behaviour {
    bool gives_back = true;
    std::shared_ptr<Ledger> ledger = {};
  };

  PartitionWorker(const zkclient::Client& client, const zkclient::Path& path, zkrecipes::PartitionSource source,
                  zkrecipes::PartitionerOptions options, Behaviour behaviour)
      : behaviour_(std::move(behaviour)),
        partitioner_(
            std::in_place, client, path, std::move(source),
            [this](zkrecipes::Partition partition) { keep(std::move(partition)); }, std::move(options)) {
    partitioner_->start();
  }
  ~PartitionWorker() {
    partitioner_.reset();
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }

  zkrecipes::Partitioner& partitioner() { return *partitioner_; }
  /// What it was given, and is valid; soon the same as Partitioner::owned().
  std::vector<std::string> owned() const {
    std::vector<std::string> names;
    for (const auto& [name, token] : tokens())
      names.push_back(name);
    return names;
  }
  std::size_t count() const { return owned().size(); }
  bool has(const std::string& name) const {
    const auto names = owned();
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  std::map<std::string, zkrecipes::FencingToken> tokens() const {
    std::map<std::string, zkrecipes::FencingToken> tokens;
    const std::lock_guard lock(mutex_);
    for (const auto& [name, kept] : kept_) {
      if (kept.partition->valid()) tokens[name] = kept.partition->token();
    }
    return tokens;
  }
  /// Of the one that was got last.
  std::shared_ptr<zkrecipes::Partition> partition(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(name);
    return found == kept_.end() ? nullptr : found->second.partition;
  }
  /// Partitions that it was given, each time that it was.
  int given() const { return given_; }
  int lost() const { return lost_; }
  int asked() const { return asked_; }

 private:
  struct Kept {
    std::shared_ptr<zkrecipes::Partition> partition;
    std::unique_ptr<std::stop_callback<std::function<void()>>> asked = {};
    std::unique_ptr<std::stop_callback<std::function<void()>>> lost = {};
  };
  using Callback = std::stop_callback<std::function<void()>>;

  void keep(zkrecipes::Partition got) {
    const auto partition = std::make_shared<zkrecipes::Partition>(std::move(got));
    if (behaviour_.ledger != nullptr) behaviour_.ledger->note(partition);
    Kept kept{partition};
    const auto revoke = partition->revoke_requested();
    const auto lost = partition->lost();
    kept.lost = std::make_unique<Callback>(lost, [this] { ++lost_; });
    {
      const std::lock_guard lock(mutex_);
      std::swap(kept_[partition->name()], kept);
      ++given_;
    }
    auto asked = std::make_unique<Callback>(revoke, [this, partition] {
      ++asked_;
      if (behaviour_.gives_back) partition->async_release([](const zkclient::Result<void>&) {});
    });
    const std::lock_guard lock(mutex_);
    kept_[partition->name()].asked = std::move(asked);
  }

  const Behaviour behaviour_;
  mutable std::mutex mutex_;
  std::map<std::string, Kept> kept_;
  std::atomic<int> given_{0};
  std::atomic<int> lost_{0};
  std::atomic<int> asked_{0};
  std::optional<zkrecipes::Partitioner> partitioner_;
};

/// All partitions have one owner among the workers.
template <typename Workers>
bool all_owned(const Workers& workers, std::size_t count) {
  std::set<std::string> names;
  std::size_t total = 0;
  for (const auto& worker : workers) {
    const auto owned = worker->owned();
    total += owned.size();
    names.insert(owned.begin(), owned.end());
  }
  return total == count && names.size() == count;
}

}  // namespace testkit
