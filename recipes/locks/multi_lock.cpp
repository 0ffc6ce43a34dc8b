#include <zkrecipes/multi_lock.hpp>

#include <algorithm>
#include <functional>
#include <list>
#include <numeric>

#include <zkclient/error.hpp>

#include "recipes/kernel/lease_core.hpp"
#include "recipes/locks/lock_state.hpp"

namespace zkrecipes {

using namespace words;
using detail::Acquirer;
using detail::Patience;

namespace {

constexpr const char* acquiring_all = "multi lock acquire";
using StopCallback = std::stop_callback<std::function<void()>>;
using Done = zkclient::Handler<std::optional<MultiLease>>;

}  // namespace

MultiLock& MultiLock::add_member(Member member) {
  const auto same = [&](const Member& other) { return other->full_path() == member->full_path(); };
  if (std::any_of(members_.begin(), members_.end(), same)) {
    throw Error(Errc::invalid_argument, "multi lock add", member->path().str(), "it was added already");
  }
  members_.push_back(std::move(member));
  return *this;
}

MultiLock& MultiLock::add(const Acquirable& lock) { return add_member(lock.state().acquirer); }
MultiLock& MultiLock::add_shared(const SharedMutex& mutex) { return add_member(mutex.reader()); }

/// One acquisition: the outcome of each lock starts the next one. Kept alive by the outcome that is awaited.
class MultiLock::Run : public std::enable_shared_from_this<Run> {
 public:
  enum class Form { blocking, asynchronous };

  Run(std::vector<Member> members, Form form, Patience patience, Done done, const CallOptions& call)
      : members_(std::move(members)),
        form_(form),
        patience_(patience),
        done_(std::move(done)),
        leases_(members_.size()) {
    if (members_.empty()) throw Error(Errc::invalid_argument, acquiring_all, "", "there are no locks");
    order_.resize(members_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto before = [&](auto a, auto b) { return members_[a]->full_path() < members_[b]->full_path(); };
    std::sort(order_.begin(), order_.end(), before);
    limits_.deadline = call.deadline;
    limits_.stop = zkclient::AnyStop(call.stop, stop_.get_token());
  }

  /// The blocking form does all before it returns: it must not need the callback executor, on which it may have been
  /// called.
  void start_next() {
    if (next_ == order_.size()) return finish();
    if (form_ == Form::blocking) return take(current().run(patience_, limits_));
    auto next = [self = shared_from_this()](Result<std::optional<Lease>> result) { self->take(std::move(result)); };
    current().start(patience_, std::move(next), limits_);
  }

  /// Blocks. Errors: those of acquire().
  static std::optional<MultiLease> wait(const MultiLock& locks, Patience patience, const CallOptions& call) {
    Result<std::optional<MultiLease>> outcome = std::optional<MultiLease>();
    auto keep = [&outcome](Result<std::optional<MultiLease>> result) { outcome = std::move(result); };
    std::make_shared<Run>(locks.members_, Form::blocking, patience, std::move(keep), call)->start_next();
    return std::move(outcome).value();
  }
  static void start(const MultiLock& locks, Patience patience, Done done, const CallOptions& call) {
    std::make_shared<Run>(locks.members_, Form::asynchronous, patience, std::move(done), call)->start_next();
  }

 private:
  const Acquirer& current() const { return *members_[order_[next_]]; }

  void take(Result<std::optional<Lease>> result) {
    if (!result) return fail(result.error());
    if (!*result) return give_up(std::optional<MultiLease>());
    Lease& lease = leases_[order_[next_]];
    lease = std::move(**result);
    ++next_;
    // A loss ends the wait for the next one.
    endings_.emplace_back(lease.lost(), [stop = stop_, lost = lost_]() mutable {
      lost.request_stop();
      stop.request_stop();
    });
    start_next();
  }

  void fail(const Error& error) {
    if (error.errc() != Errc::cancelled || !lost_.stop_requested()) return give_up(error);
    give_up(Error(loss_at(current()), acquiring_all, current().path().str(),
                  "another lock was lost while this one was waited for"));
  }

  // A lease that goes with its session ends the wait, maybe before the wait hears that this is its own session as well.
  Errc loss_at(const Acquirer& waited_for) const {
    for (const Lease& lease : leases_) {
      if (lease.impl() == nullptr || !waited_for.is_of(lease.impl()->client())) continue;
      const ConnectionState state = lease.impl()->session()->state();
      if (state == ConnectionState::lost) return Errc::session_lost;
      if (state == ConnectionState::closed) return Errc::closed;
    }
    return Errc::not_held;
  }

  void finish() {
    endings_.clear();
    MultiLease all(std::move(leases_));
    if (all.valid()) return done_(std::optional<MultiLease>(std::move(all)));
    done_(
        Error(Errc::not_held, acquiring_all, members_[order_.back()]->path().str(), "another lock was lost meanwhile"));
  }

  // The others are given back before the caller hears of it.
  void give_up(Result<std::optional<MultiLease>> result) {
    endings_.clear();
    leases_.clear();
    done_(std::move(result));
  }

  const std::vector<Member> members_;
  const Form form_;
  const Patience patience_;
  Done done_;
  std::vector<std::size_t> order_;  // Of the full paths.
  std::size_t next_ = 0;
  std::vector<Lease> leases_;
  std::stop_source stop_;
  std::stop_source lost_;
  CallOptions limits_;
  std::list<StopCallback> endings_;
};

MultiLease MultiLock::acquire(const CallOptions& call) { return std::move(*Run::wait(*this, Patience::wait, call)); }

std::optional<MultiLease> MultiLock::try_acquire(const CallOptions& call) {
  return Run::wait(*this, Patience::try_once, call);
}

std::optional<MultiLease> MultiLock::try_acquire_for(Timeout timeout, WaitOptions options) {
  return try_acquire_until(detail::from_now(timeout.get()), std::move(options));
}

std::optional<MultiLease> MultiLock::try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                       WaitOptions options) {
  const detail::TimedCall timed = detail::timed_call(deadline, options);
  const Patience patience = timed.once ? Patience::try_once : Patience::wait;
  const auto connected = [this] {
    return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member->connected(); });
  };
  return detail::unless_late_or_busy(connected, options, [&] { return Run::wait(*this, patience, timed.limits); });
}

void MultiLock::async_acquire(zkclient::Handler<MultiLease> handler, const CallOptions& call) {
  zkclient::detail::require_handler(handler, acquiring_all, "");
  auto wrapped = [handler = std::move(handler)](Result<std::optional<MultiLease>> result) mutable {
    if (result) {
      handler(std::move(**result));
    } else {
      handler(result.error());
    }
  };
  Run::start(*this, Patience::wait, std::move(wrapped), call);
}

void MultiLock::async_try_acquire(zkclient::Handler<std::optional<MultiLease>> handler, const CallOptions& call) {
  zkclient::detail::require_handler(handler, acquiring_all, "");
  Run::start(*this, Patience::try_once, std::move(handler), call);
}

}  // namespace zkrecipes
