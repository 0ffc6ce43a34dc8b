#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkrecipes/placement.hpp>
#include <zkrecipes/replica_group.hpp>

#include "tests/support/recipe_test.hpp"

namespace testkit {

/// The disks of all hosts, and what was acknowledged: a judge of all that hosts do.
class Disks {
 public:
  /// A replica's: the entries of its partition.
  struct Disk {
    std::int64_t epoch = 0;  // Lower ones are refused.
    std::vector<int> entries = {};
  };

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // --- Under the lock ---

  /// The storage that the host has for the partition; made if there is none.
  std::string storage(const std::string& partition, const std::string& host) {
    std::string& storage = storages_[{partition, host}];
    if (storage.empty()) storage = host + "-" + std::to_string(++made_);
    disks_[partition].try_emplace(storage);
    return storage;
  }
  void erase(const std::string& partition, const std::string& host) {
    const auto found = storages_.find({partition, host});
    if (found == storages_.end()) return;
    disks_[partition].erase(found->second);
    storages_.erase(found);
  }
  /// Null: it was erased.
  Disk* find(const std::string& partition, const std::string& storage) {
    const auto found = disks_[partition].find(storage);
    return found == disks_[partition].end() ? nullptr : &found->second;
  }
  void acknowledge(const std::string& partition, std::int64_t epoch, int entry) {
    auto& [last_epoch, entries] = acknowledged_[partition];
    EXPECT_GE(epoch, last_epoch) << "two primaries of " << partition;
    last_epoch = epoch;
    entries.push_back(entry);
  }
  const std::vector<int>& acknowledged(const std::string& partition) { return acknowledged_[partition].second; }

 private:
  std::mutex mutex_;
  int made_ = 0;
  std::map<std::pair<std::string, std::string>, std::string> storages_;
  std::map<std::string, std::map<std::string, Disk>> disks_;  // By partition and storage.
  std::map<std::string, std::pair<std::int64_t, std::vector<int>>> acknowledged_;
};

/// A replica that writes to the disks of all that are in sync, while it is the primary.
class TestLog {
 public:
  TestLog(const zkclient::Client& client, const zkrecipes::HostedReplica& replica, const std::string& host,
          Disks& disks)
      : partition_(replica.partition), disks_(disks) {
    const auto lock = disks_.lock();
    storage_ = disks_.storage(partition_, host);
    zkrecipes::ReplicaHandlers told;
    told.become_primary = [this](const zkrecipes::PrimaryTerm& term) { lead(term); };
    told.become_secondary = [this](const zkrecipes::SecondaryTerm& term) { follow(term.epoch); };
    zkrecipes::ReplicaGroupOptions options;
    options.minimum = 2;
    options.settle = std::chrono::milliseconds(100);
    options.read_term = std::chrono::seconds(1);
    group_.emplace(client, replica.group, zkrecipes::Replica{host, storage_, "at-" + host}, std::move(told), options);
  }

  /// As the primary: takes in who has come, takes out who is gone, and writes.
  void tend() try {
    const std::lock_guard tending(tending_);
    if (closing_) return;
    const auto state = group_->state();
    const bool leads = group_->role() == zkrecipes::ReplicaRole::primary && group_->may_serve_reads();
    if (!leads || !state) return;
    std::set<std::string> there;
    for (const zkrecipes::ReplicaMember& member : group_->members()) {
      there.insert(member.storage);
      const zkrecipes::InSyncReplica* in_sync = state->find(member.id);
      if (in_sync == nullptr || in_sync->storage != member.storage) take_in(member);
    }
    std::vector<std::string> gone;
    for (const zkrecipes::InSyncReplica& one : state->in_sync) {
      if (!there.contains(one.storage)) gone.push_back(one.id);
    }
    if (!gone.empty()) group_->shrink(gone, {.deadline = soon()});
    write();
  } catch (const zkclient::Error&) {
    // It is the primary no more, or cut off: the next look tells.
  }

  /// It was told to close. As the primary it takes all others out, since they do not answer.
  void lose_the_others() try {
    const std::lock_guard tending(tending_);
    closing_ = true;
    std::vector<std::string> others;
    for (const zkrecipes::InSyncReplica& one : group_->in_sync()) {
      if (one.storage != storage_) others.push_back(one.id);
    }
    group_->shrink(others, {.deadline = soon()});
  } catch (const zkclient::Error&) {
    // It is not the primary.
  }

 private:
  /// All that are in sync get what this one has. One whose disk is gone cannot confirm anything any more.
  void lead(const zkrecipes::PrimaryTerm& term) {
    const auto lock = disks_.lock();
    Disks::Disk* own = disks_.find(partition_, storage_);
    if (own == nullptr || own->epoch > term.epoch) return;
    own->epoch = term.epoch;
    epoch_ = term.epoch;
    for (const zkrecipes::InSyncReplica& one : term.in_sync)
      copy_to(one.storage);
  }
  void follow(std::int64_t epoch) {
    const auto lock = disks_.lock();
    Disks::Disk* own = disks_.find(partition_, storage_);
    if (own != nullptr) own->epoch = std::max(own->epoch, epoch);
  }
  bool copy_to(const std::string& storage) {
    const Disks::Disk* own = disks_.find(partition_, storage_);
    Disks::Disk* other = disks_.find(partition_, storage);
    if (own == nullptr || other == nullptr || own->epoch > epoch_ || other->epoch > epoch_) return false;
    if (other != own) *other = *own;
    return true;
  }
  /// Under the lock from the copy to the answer: nothing is written that it lacks.
  void take_in(const zkrecipes::ReplicaMember& member) {
    const auto lock = disks_.lock();
    if (copy_to(member.storage)) group_->expand(epoch_, member.id, member.storage, {.deadline = soon()});
  }
  void write() {
    const auto lock = disks_.lock();
    if (!group_->may_write()) return;
    const int entry = next_entry_++;
    Disks::Disk* own = disks_.find(partition_, storage_);
    if (own == nullptr || own->epoch > epoch_) return;
    own->entries.push_back(entry);
    const auto all = group_->in_sync();
    const bool confirmed =
        std::all_of(all.begin(), all.end(), [this](const auto& one) { return copy_to(one.storage); });
    if (confirmed && group_->may_write()) disks_.acknowledge(partition_, epoch_, entry);
  }

  const std::string partition_;
  Disks& disks_;
  std::string storage_;
  std::int64_t epoch_ = 0;  // Under the lock of the disks.
  std::mutex tending_;
  bool closing_ = false;  // Guarded by tending_.
  static inline std::atomic<int> next_entry_{0};
  std::optional<zkrecipes::ReplicaGroup> group_;  // The first to go: its handlers use all of these.
};

/// A host whose replicas are on `disks`.
class TestHost {
 public:
  TestHost(const zkclient::Client& client, zkrecipes::ReplicaHost host, Disks& disks)
      : client_(client),
        disks_(disks),
        hosted_(client, "/app", std::move(host), handlers()),
        tending_([this] { tend(); }) {
    hosted_.start();
  }
  ~TestHost() {
    ended_ = true;
    tending_.join();
  }
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;

  zkrecipes::HostedReplicas& hosted() { return hosted_; }
  const zkclient::Client& client() const { return client_; }
  int closed() const { return closed_; }
  int erased() const { return erased_; }
  /// The next replicas to be closed lose the others first.
  void lose_the_others(int replicas) { losing_ = replicas; }

 private:
  zkrecipes::HostedReplicasHandlers handlers() {
    zkrecipes::HostedReplicasHandlers handlers;
    handlers.open = [this](const zkrecipes::HostedReplica& replica) {
      auto log = std::make_shared<TestLog>(client_, replica, hosted_.id(), disks_);
      const std::lock_guard lock(mutex_);
      EXPECT_TRUE(logs_.emplace(replica.partition, std::move(log)).second) << "opened twice";
    };
    handlers.close = [this](const zkrecipes::HostedReplica& replica) {
      std::unique_lock lock(mutex_);
      const auto closed = logs_.extract(replica.partition);
      EXPECT_FALSE(closed.empty());
      lock.unlock();
      if (losing_-- > 0) closed.mapped()->lose_the_others();
      ++closed_;
    };
    handlers.erase = [this](const zkrecipes::HostedReplica& replica) {
      const auto disks = disks_.lock();
      disks_.erase(replica.partition, hosted_.id());
      ++erased_;
    };
    return handlers;
  }
  void tend() {
    for (; !ended_; std::this_thread::sleep_for(std::chrono::milliseconds(10))) {  // The pace of the looks.
      std::vector<std::shared_ptr<TestLog>> all;
      {
        const std::lock_guard lock(mutex_);
        for (const auto& [partition, log] : logs_)
          all.push_back(log);
      }
      for (const auto& log : all)
        log->tend();
    }
  }

  const zkclient::Client client_;
  Disks& disks_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<TestLog>> logs_;
  std::atomic<int> closed_{0};
  std::atomic<int> erased_{0};
  std::atomic<int> losing_{0};
  zkrecipes::HostedReplicas hosted_;
  std::atomic<bool> ended_{false};
  std::thread tending_;
};

}  // namespace testkit
