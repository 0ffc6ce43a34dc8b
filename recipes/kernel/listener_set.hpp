#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/function.hpp>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// States that a listener has still to be told, each in a call of its own. What leads back to a state that it has not
/// been told yet is left out.
template <typename State>
class StateBacklog {
 public:
  using News = State;
  using Listener = zkclient::UniqueFunction<void(State state)>;

  explicit StateBacklog(Listener call) : call_(std::move(call)) {}

  void note(State state) {
    const std::size_t count = waiting_.size();
    if (count >= 2 && waiting_[count - 2] == state) {
      waiting_.pop_back();
    } else {
      waiting_.push_back(state);
    }
  }
  bool empty() const { return waiting_.empty(); }
  State take() {
    const State state = waiting_.front();
    waiting_.erase(waiting_.begin());
    return state;
  }
  void call(State state) { call_(state); }

 private:
  Listener call_;
  std::vector<State> waiting_;
};

/// The listeners of one kind of news of an object. They are called on the callback executor, each one call at a time.
/// The backlog of each (see StateBacklog) says what becomes of news that come faster than it returns; its call() runs
/// without a lock, the rest of it under one. Any thread; in a forked child nothing happens.
template <typename Backlog>
class ListenerSet : public std::enable_shared_from_this<ListenerSet<Backlog>> {
 public:
  using News = typename Backlog::News;

  /// `newest`: what each new listener is told first.
  explicit ListenerSet(std::optional<News> newest = std::nullopt) : newest_(std::move(newest)) {}

  zkclient::Subscription add(const std::shared_ptr<zk::CallbackGroup>& executor, Backlog backlog) {
    auto subscription = std::make_shared<zk::SubscriptionState>(executor);
    const auto added = std::make_shared<Member>(std::move(backlog), subscription->queue());
    subscription->on_end = [weak = this->weak_from_this(), added] {
      if (const auto self = weak.lock()) self->remove(added);
    };
    bool told = false;
    bool is_late = false;
    {
      const std::lock_guard lock(mutex_);
      is_late = stopped_;
      if (!stopped_) {
        std::erase_if(members_, [](const auto& one) { return one->is_over(); });
        members_.push_back(added);
        told = newest_ && added->note(*newest_);
      }
    }
    if (told) added->schedule();
    if (is_late) added->stop();
    return zkclient::Subscription(std::move(subscription));
  }

  /// One call at a time. Takes no lock while it hands a task to the executor: one that was closed runs it at once.
  void tell(News news) {
    std::vector<std::pair<std::shared_ptr<Member>, bool>> told;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
      for (const auto& member : members_)
        told.emplace_back(member, member->note(news));
      newest_ = std::move(news);
    }
    for (const auto& [member, is_idle] : told)
      is_idle ? member->schedule() : member->nudge();
  }

  /// No listener is called from now on. What they hold is released, as they may own what owns this: now, or when a call
  /// that runs has returned. Not on the loop thread.
  void stop() {
    if (process_.forked()) return;
    for (const auto& member : stopped())
      member->stop();
  }
  /// This thread is in a call of one of them.
  bool runs_here() const {
    if (process_.forked()) return false;
    const auto all = members();
    return std::any_of(all.begin(), all.end(), [](const auto& member) { return member->runs_here(); });
  }
  /// After stop(): until those that run have returned.
  void wait() const {
    if (process_.forked()) return;
    for (const auto& member : members())
      member->wait();
  }

 private:
  class Member;
  using Members = std::vector<std::shared_ptr<Member>>;

  void remove(const std::shared_ptr<Member>& member) {
    if (process_.forked()) return;             // A thread of the parent may have had the lock.
    const bool running = member->runs_here();  // It ends its own subscription: wait() has to know of it still.
    member->stop();
    const std::lock_guard lock(mutex_);
    std::erase_if(members_, [&](const auto& one) { return one == member ? !running : one->is_over(); });
  }
  Members members() const {
    const std::lock_guard lock(mutex_);
    return members_;
  }
  Members stopped() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    return members_;
  }

  const zk::ProcessGeneration process_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<News> newest_;
  Members members_;
  bool stopped_ = false;
};

template <typename Backlog>
class ListenerSet<Backlog>::Member : public std::enable_shared_from_this<Member> {
 public:
  Member(Backlog backlog, std::shared_ptr<zk::SerialQueue> queue)
      : backlog_(std::make_unique<Backlog>(std::move(backlog))), queue_(std::move(queue)) {}

  /// True: then schedule(), else nudge().
  bool note(const News& news) {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    backlog_->note(news);
    return !std::exchange(scheduled_, true);
  }
  void schedule() {
    queue_->post([self = this->shared_from_this()] { self->run(); });
  }
  /// What is scheduled may have been dropped by the executor.
  void nudge() { queue_->nudge(); }
  void stop() {
    std::unique_ptr<Backlog> gone;  // Without the lock.
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (runner_ == std::thread::id()) gone.swap(backlog_);
  }
  bool runs_here() const {
    const std::lock_guard lock(mutex_);
    return runner_ == std::this_thread::get_id();
  }
  /// It was stopped, and does not run.
  bool is_over() const {
    const std::lock_guard lock(mutex_);
    return stopped_ && runner_ == std::thread::id();
  }
  void wait() { queue_->close(); }

 private:
  // Goes on when the listener throws: the executor decides what becomes of that.
  struct Next {
    Member& member;
    ~Next() {
      if (member.has_more()) member.schedule();
    }
  };

  bool has_more() {
    std::unique_ptr<Backlog> gone;
    std::unique_lock lock(mutex_);
    if (stopped_) gone.swap(backlog_);
    if (gone) {
      lock.unlock();
      gone.reset();  // It still runs here: its end may close what it owned.
      lock.lock();
    }
    runner_ = {};
    scheduled_ = !stopped_ && !backlog_->empty();
    return scheduled_;
  }

  void run() {
    const Next next{*this};
    std::unique_lock lock(mutex_);
    if (stopped_) return;
    runner_ = std::this_thread::get_id();
    auto news = backlog_->take();
    lock.unlock();
    backlog_->call(std::move(news));
  }

  std::unique_ptr<Backlog> backlog_;  // Until it was stopped, and has returned.
  const std::shared_ptr<zk::SerialQueue> queue_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  bool scheduled_ = false;
  bool stopped_ = false;
  std::thread::id runner_;
};

}  // namespace zkrecipes::detail
