#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <zkclient/error.hpp>
#include <zkrecipes/two_phase_commit.hpp>

#include "tests/support/testkit.hpp"

/// What the tests of the two-phase commit share.
namespace testkit {

/// A log in memory, which survives its participant and can be made to fail.
class MemoryLog final : public zkrecipes::ParticipantLog {
 public:
  explicit MemoryLog(std::string identity) : identity_(std::move(identity)) {}

  std::string identity() const override { return identity_; }
  std::vector<zkrecipes::LoggedTransaction> open() const override {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  void append(zkrecipes::LogEntry entry, std::string_view id, std::string_view data) override {
    const std::lock_guard lock(mutex_);
    if (fail_at_ == entry) throw std::runtime_error("the log has failed");
    auto found = std::find_if(live_.begin(), live_.end(), [&](const auto& one) { return one.id == id; });
    const auto from = found == live_.end() ? zkrecipes::LogState::none : found->state;
    const auto to = zkrecipes::advance(from, entry);
    if (!to) throw std::logic_error(std::string("illegal transition: ") + to_string(from) + ", " + to_string(entry));
    if (found == live_.end()) found = live_.insert(live_.end(), {std::string(id), *to, std::string(data)});
    found->state = *to;
    if (*to == zkrecipes::LogState::none) live_.erase(found);
    entries_.push_back(std::string(to_string(entry)));
  }
  void sync() override {
    const std::lock_guard lock(mutex_);
    entries_.emplace_back("sync");
    synced_ = live_;
  }

  /// What is on the disk when the process dies: the entries that were not synced are lost.
  std::shared_ptr<MemoryLog> after_a_crash() const {
    auto left = std::make_shared<MemoryLog>(identity_);
    const std::lock_guard lock(mutex_);
    left->live_ = synced_;
    left->synced_ = synced_;
    return left;
  }

  void fail_at(std::optional<zkrecipes::LogEntry> entry) {
    const std::lock_guard lock(mutex_);
    fail_at_ = entry;
  }
  void forget_all() {
    const std::lock_guard lock(mutex_);
    live_.clear();
    synced_.clear();
  }
  std::vector<std::string> entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  bool empty() const { return open().empty(); }

 private:
  const std::string identity_;
  mutable std::mutex mutex_;
  std::vector<zkrecipes::LoggedTransaction> live_;
  std::vector<zkrecipes::LoggedTransaction> synced_;
  std::vector<std::string> entries_;
  std::optional<zkrecipes::LogEntry> fail_at_;
};

/// A participant that remembers what it was asked to do. Its log and memory survive `stop` and `start`.
class TestParticipant {
 public:
  TestParticipant(zkclient::Client client, zkclient::Path path, std::string name,
                  zkrecipes::CommitParticipantOptions options = {}, const std::string& log = {})
      : client_(std::move(client)),
        path_(std::move(path)),
        name_(std::move(name)),
        options_(std::move(options)),
        log_(std::make_shared<MemoryLog>(log.empty() ? "log of " + name_ : log)) {}
  ~TestParticipant() {
    stop();
    bury();
  }
  TestParticipant(const TestParticipant&) = delete;
  TestParticipant& operator=(const TestParticipant&) = delete;

  /// What it does, before it is noted down; may block or throw.
  std::function<zkrecipes::CommitVote(const zkrecipes::CommitTransaction&)> on_prepare = [](const auto&) {
    return zkrecipes::CommitVote::yes();
  };
  std::function<void(const zkrecipes::CommitTransaction&)> on_commit = [](const auto&) {};
  std::function<void(const zkrecipes::CommitTransaction&)> on_abort = [](const auto&) {};

  void use(zkclient::Client client) { client_ = std::move(client); }

  void start() {
    stop_ = std::stop_source();
    participant_ = std::make_unique<zkrecipes::CommitParticipant>(client_, path_, name_, log_, options_);
    zkrecipes::CommitHandlers handlers;
    alive_ = std::make_shared<std::atomic<bool>>(true);
    handlers.prepare = [this, alive = alive_](const zkrecipes::CommitTransaction& transaction) {
      auto vote = on_prepare(transaction);
      if (*alive) note(transaction, "prepare");
      return vote;
    };
    handlers.commit = [this, alive = alive_](const zkrecipes::CommitTransaction& transaction) {
      on_commit(transaction);
      if (*alive) note(transaction, "commit");
    };
    handlers.abort = [this, alive = alive_](const zkrecipes::CommitTransaction& transaction) {
      on_abort(transaction);
      if (*alive) note(transaction, "abort");
    };
    serving_ = true;
    ended_ = std::make_shared<Box<zkclient::Result<void>>>();
    participant_->async_serve(std::move(handlers),
                              [ended = ended_](zkclient::Result<void> result) { ended->put(std::move(result)); },
                              {.stop = stop_.get_token()});
  }
  /// Waits until it is there.
  void start(const zkclient::Client& observer) {
    start();
    if (!eventually([&] { return observer.exists(path_ / ("participants/" + name_)).has_value(); })) {
      throw std::runtime_error("the participant does not appear");
    }
  }
  /// How serve ended, if it was running.
  std::optional<zkclient::Result<void>> stop() {
    if (!std::exchange(serving_, false)) return std::nullopt;
    stop_.request_stop();
    return ended_->take();
  }
  zkclient::Result<void> end() {
    serving_ = false;
    return ended_->take();
  }
  /// As after a kill -9 of its process, which its client stands for: its session ends, its log loses what was not
  /// synced, and the function that it is in goes on, but nobody hears of that any more. To be started again with
  /// another client.
  void die() {
    serving_ = false;
    *alive_ = false;
    log_ = log_->after_a_crash();
    auto closed = std::async(std::launch::async, [client = client_]() mutable { client.close(); });
    dead_.push_back({std::move(participant_), std::move(closed)});
  }
  /// Waits until the functions of those that have died have returned.
  void bury() {
    for (const Life& life : dead_)
      life.closed.wait();
    dead_.clear();
  }

  zkrecipes::CommitParticipant& participant() { return *participant_; }
  MemoryLog& log() { return *log_; }
  const std::string& name() const { return name_; }
  std::vector<std::string> calls(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(id);
    return found == calls_.end() ? std::vector<std::string>() : found->second;
  }
  std::vector<std::string> ids() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [id, calls] : calls_)
      all.push_back(id);
    return all;
  }
  std::string payload() const {
    const std::lock_guard lock(mutex_);
    return payload_;
  }

 private:
  struct Life {
    std::unique_ptr<zkrecipes::CommitParticipant> participant;
    std::future<void> closed;
  };

  void note(const zkrecipes::CommitTransaction& transaction, const char* what) {
    const std::lock_guard lock(mutex_);
    calls_[transaction.id].emplace_back(what);
    payload_ = transaction.payload;
  }

  zkclient::Client client_;
  const zkclient::Path path_;
  const std::string name_;
  const zkrecipes::CommitParticipantOptions options_;
  std::shared_ptr<MemoryLog> log_;
  std::unique_ptr<zkrecipes::CommitParticipant> participant_;
  std::shared_ptr<std::atomic<bool>> alive_;
  std::vector<Life> dead_;
  std::stop_source stop_;
  std::shared_ptr<Box<zkclient::Result<void>>> ended_;
  bool serving_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> calls_;
  std::string payload_;
};

/// Where a participant waits until a test lets it go on.
struct Gate {
  Box<std::string> reached;  ///< The ids of transactions.
  Box<int> open;
};

/// Has a participant wait in prepare().
inline void hold(TestParticipant& participant, Gate& gate, bool agrees = true) {
  participant.on_prepare = [&gate, agrees](const zkrecipes::CommitTransaction& transaction) {
    gate.reached.put(transaction.id);
    gate.open.take();
    return agrees ? zkrecipes::CommitVote::yes() : zkrecipes::CommitVote::no("no");
  };
}

}  // namespace testkit
