#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/clock.hpp>
#include <zkrecipes/replica_group.hpp>

#include "tests/support/recipe_test.hpp"

namespace testkit {

/// A member, and what it was told.
class TestReplica {
 public:
  using Options = zkrecipes::ReplicaGroupOptions;

  TestReplica(const zkclient::Client& client, const std::string& id, Options options = {},
              const std::string& storage = "disk")
      : TestReplica(client, id, storage, std::move(options), std::make_shared<Told>()) {}

  zkrecipes::ReplicaGroup* operator->() { return &group_; }
  zkrecipes::ReplicaGroup& group() { return group_; }

  bool is(zkrecipes::ReplicaRole role) {
    return eventually([&] { return group_.role() == role; });
  }
  bool may_write() {
    return eventually([&] { return group_.may_write(); });
  }
  bool may_serve_reads() {
    return eventually([&] { return group_.may_serve_reads(); });
  }
  std::vector<std::string> in_sync() const {
    std::vector<std::string> ids;
    for (const auto& one : group_.in_sync())
      ids.push_back(one.id);
    return ids;
  }
  /// Those that the state names, as this member sees it.
  std::vector<std::string> seen_in_sync() const {
    std::vector<std::string> ids;
    const auto state = group_.state();
    if (state) {
      for (const auto& one : state->in_sync)
        ids.push_back(one.id);
    }
    return ids;
  }
  bool sees(const std::string& id, const std::string& storage = "disk") {
    return eventually([&] {
      for (const auto& one : group_.members()) {
        if (one.id == id && one.storage == storage) return true;
      }
      return false;
    });
  }
  std::optional<zkclient::Errc> problem() const {
    const auto found = group_.problem();
    return found ? std::optional(found->errc()) : std::nullopt;
  }
  std::int64_t epoch() const { return primary_terms().back().second.epoch; }
  /// When become_primary() was called, and for which term.
  std::vector<std::pair<zkclient::BootClock::time_point, zkrecipes::PrimaryTerm>> primary_terms() const {
    const std::lock_guard lock(told_->mutex);
    return told_->primary;
  }
  std::vector<zkrecipes::SecondaryTerm> secondary_terms() const {
    const std::lock_guard lock(told_->mutex);
    return told_->secondary;
  }
  std::vector<zkrecipes::ReplicaRole> idle() const {
    const std::lock_guard lock(told_->mutex);
    return told_->idle;
  }

 private:
  struct Told {
    std::mutex mutex;
    std::vector<std::pair<zkclient::BootClock::time_point, zkrecipes::PrimaryTerm>> primary;
    std::vector<zkrecipes::SecondaryTerm> secondary;
    std::vector<zkrecipes::ReplicaRole> idle;
  };
  static zkrecipes::ReplicaHandlers handlers_of(const std::shared_ptr<Told>& told) {
    zkrecipes::ReplicaHandlers handlers;
    handlers.become_primary = [told](const zkrecipes::PrimaryTerm& term) {
      const std::lock_guard lock(told->mutex);
      told->primary.emplace_back(zkclient::BootClock::now(), term);
    };
    handlers.become_secondary = [told](const zkrecipes::SecondaryTerm& term) {
      const std::lock_guard lock(told->mutex);
      told->secondary.push_back(term);
    };
    handlers.become_idle = [told](zkrecipes::ReplicaRole role) {
      const std::lock_guard lock(told->mutex);
      told->idle.push_back(role);
    };
    return handlers;
  }
  TestReplica(const zkclient::Client& client, const std::string& id, const std::string& storage, Options options,
              std::shared_ptr<Told> told)
      : told_(told), group_(client, "/replicas", {id, storage, "at-" + id}, handlers_of(told), std::move(options)) {}

  const std::shared_ptr<Told> told_;
  zkrecipes::ReplicaGroup group_;
};

/// Asks a member again and again, and keeps when it was allowed for the last time.
class LastAllowed {
 public:
  explicit LastAllowed(std::function<bool()> ask)
      : thread_([this, ask = std::move(ask)] {
          while (!ended_) {
            const auto before = zkclient::BootClock::now();
            if (ask()) last_ = before;
            std::this_thread::sleep_for(std::chrono::microseconds(100));  // The pace of the looks.
          }
        }) {}
  ~LastAllowed() {
    ended_ = true;
    thread_.join();
  }
  LastAllowed(const LastAllowed&) = delete;
  LastAllowed& operator=(const LastAllowed&) = delete;
  zkclient::BootClock::time_point at() const { return last_; }

 private:
  std::atomic<bool> ended_{false};
  std::atomic<zkclient::BootClock::time_point> last_{zkclient::BootClock::time_point{}};
  std::thread thread_;
};

/// Brings `other` up as a secondary in sync.
inline void take_in(TestReplica& primary, TestReplica& other, const std::string& id,
                    const std::string& storage = "disk") {
  ASSERT_TRUE(primary.may_write());
  ASSERT_TRUE(primary.sees(id, storage));
  primary->expand(primary.epoch(), id, storage, {.deadline = soon()});
  ASSERT_TRUE(other.is(zkrecipes::ReplicaRole::secondary));
}

}  // namespace testkit
