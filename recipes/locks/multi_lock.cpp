#include <zkrecipes/multi_lock.hpp>

#include <algorithm>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <numeric>

#include <zkclient/error.hpp>

#include "recipes/kernel/timed.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes {

using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

constexpr const char* operation = "multi lock acquire";
using StopCallback = std::stop_callback<std::function<void()>>;

}  // namespace

// --- MultiLease ---------------------------------------------------------------------------------------------------

struct MultiLease::State {
  explicit State(std::vector<Lease> held) : leases(std::move(held)) {
    for (const Lease& lease : leases)
      on_loss.emplace_back(lease.lost(), [lost = lost]() mutable { lost.request_stop(); });
  }

  std::vector<Lease> leases;
  std::stop_source lost;
  std::list<StopCallback> on_loss;  // Goes before what it calls.
};

MultiLease::MultiLease() noexcept = default;
MultiLease::MultiLease(std::vector<Lease> leases) : state_(std::make_unique<State>(std::move(leases))) {}
MultiLease::MultiLease(MultiLease&&) noexcept = default;
MultiLease& MultiLease::operator=(MultiLease&&) noexcept = default;
MultiLease::~MultiLease() = default;

bool MultiLease::valid() const noexcept {
  return state_ != nullptr && !state_->leases.empty() &&
         std::all_of(state_->leases.begin(), state_->leases.end(), [](const Lease& lease) { return lease.valid(); });
}

std::stop_token MultiLease::lost() const noexcept {
  return state_ != nullptr ? state_->lost.get_token() : std::stop_token();
}

zkclient::BootClock::time_point MultiLease::valid_until() const noexcept {
  auto earliest = zkclient::BootClock::time_point::max();
  if (!valid()) return zkclient::BootClock::time_point::min();
  for (const Lease& lease : state_->leases)
    earliest = std::min(earliest, lease.valid_until());
  return earliest;
}

const std::vector<Lease>& MultiLease::leases() const noexcept {
  static const std::vector<Lease> none;
  return state_ != nullptr ? state_->leases : none;
}

void MultiLease::guard(zkclient::Transaction& transaction) const {
  if (leases().empty()) throw Error(Errc::not_held, "guard", "", "the lease is empty");
  for (const Lease& lease : leases())
    transaction.check(lease.guard());
}

void MultiLease::release(const CallOptions& call) {
  if (leases().empty()) throw Error(Errc::not_held, "release", "", "the lease is empty");
  std::exception_ptr first;
  for (auto lease = state_->leases.rbegin(); lease != state_->leases.rend(); ++lease) {
    try {
      lease->release(call);
    } catch (const Error&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

void MultiLease::async_release(zkclient::Handler<void> handler, const CallOptions& call) {
  if (leases().empty()) throw Error(Errc::not_held, "release", "", "the lease is empty");
  if (!handler) throw Error(Errc::invalid_argument, "release", leases().front().node(), "there is no handler");
  struct Pending {
    std::mutex mutex;
    std::size_t left;
    Result<void> first = {};  // Error of all; like release().
    zkclient::Handler<void> handler;
  };
  const auto pending = std::make_shared<Pending>();
  pending->left = leases().size();
  pending->handler = std::move(handler);
  const auto one_done = [pending](Result<void> released) {
    {
      const std::lock_guard lock(pending->mutex);
      if (!released && pending->first) pending->first = released;
      if (--pending->left > 0) return;
    }
    pending->handler(std::move(pending->first));
  };
  for (auto lease = state_->leases.rbegin(); lease != state_->leases.rend(); ++lease)
    lease->async_release(one_done, call);
}

// --- MultiLock ----------------------------------------------------------------------------------------------------

MultiLock& MultiLock::add_member(Member member) {
  const auto same = [&](const Member& other) { return other.full_path == member.full_path; };
  if (std::any_of(members_.begin(), members_.end(), same)) {
    throw Error(Errc::invalid_argument, "multi lock add", member.path.str(), "it was added already");
  }
  members_.push_back(std::move(member));
  return *this;
}

namespace {

// The four forms of a lock as one.
template <typename Lock, typename Acquire, typename TryAcquire, typename AsyncAcquire, typename AsyncTryAcquire>
auto start_with(Lock& lock, Acquire acquire, TryAcquire try_acquire, AsyncAcquire async_acquire,
                AsyncTryAcquire async_try_acquire) {
  return [=, &lock](auto form, bool once, zkclient::Handler<std::optional<Lease>> next, const CallOptions& call) {
    if (form != decltype(form)::blocking) {
      if (once) return (lock.*async_try_acquire)(std::move(next), call);
      auto wrapped = [next = std::move(next)](Result<Lease> result) mutable {
        if (result) {
          next(std::optional<Lease>(std::move(*result)));
        } else {
          next(result.error());
        }
      };
      return (lock.*async_acquire)(std::move(wrapped), call);
    }
    Result<std::optional<Lease>> result = std::optional<Lease>();
    try {
      *result = once ? (lock.*try_acquire)(call) : std::optional<Lease>((lock.*acquire)(call));
    } catch (const Error& error) {
      result = error;
    }
    next(std::move(result));
  };
}

}  // namespace

MultiLock& MultiLock::add(Mutex& mutex) {
  return add_member(
      {mutex.path(), mutex.full_path(),
       start_with(mutex, &Mutex::acquire, &Mutex::try_acquire, &Mutex::async_acquire, &Mutex::async_try_acquire),
       [&mutex] { return mutex.connected(); }});
}

MultiLock& MultiLock::add(UnfairMutex& mutex) {
  return add_member({mutex.path(), mutex.full_path(),
                     start_with(mutex, &UnfairMutex::acquire, &UnfairMutex::try_acquire, &UnfairMutex::async_acquire,
                                &UnfairMutex::async_try_acquire),
                     [&mutex] { return mutex.connected(); }});
}

MultiLock& MultiLock::add(SharedMutex& mutex) {
  return add_member({mutex.path(), mutex.full_path(),
                     start_with(mutex, &SharedMutex::acquire, &SharedMutex::try_acquire, &SharedMutex::async_acquire,
                                &SharedMutex::async_try_acquire),
                     [&mutex] { return mutex.connected(); }});
}

MultiLock& MultiLock::add_shared(SharedMutex& mutex) {
  return add_member({mutex.path(), mutex.full_path(),
                     start_with(mutex, &SharedMutex::acquire_shared, &SharedMutex::try_acquire_shared,
                                &SharedMutex::async_acquire_shared, &SharedMutex::async_try_acquire_shared),
                     [&mutex] { return mutex.connected(); }});
}

/// One acquisition: the outcome of each lock starts the next one. Kept alive by the outcome that is awaited.
class MultiLock::Run : public std::enable_shared_from_this<Run> {
 public:
  Run(std::vector<Member> members, Form form, bool once, zkclient::Handler<std::optional<MultiLease>> done,
      const CallOptions& call)
      : members_(std::move(members)), form_(form), once_(once), done_(std::move(done)), leases_(members_.size()) {
    order_.resize(members_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto before = [&](auto a, auto b) { return members_[a].full_path < members_[b].full_path; };
    std::sort(order_.begin(), order_.end(), before);
    limits_.deadline = call.deadline;
    limits_.stop = zkclient::AnyStop(call.stop, stop_.get_token());
  }

  void start_next() {
    if (next_ == order_.size()) return finish();
    members_[order_[next_]].start(
        form_, once_,
        [self = shared_from_this()](Result<std::optional<Lease>> result) { self->take(std::move(result)); }, limits_);
  }

 private:
  const Member& current() const { return members_[order_[next_]]; }

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
    give_up(
        Error(Errc::not_held, operation, current().path.str(), "another lock was lost while this one was waited for"));
  }

  void finish() {
    endings_.clear();
    MultiLease all(std::move(leases_));
    if (all.valid()) return done_(std::optional<MultiLease>(std::move(all)));
    done_(Error(Errc::not_held, operation, members_[order_.back()].path.str(), "another lock was lost meanwhile"));
  }

  // The others are given back before the caller hears of it.
  void give_up(Result<std::optional<MultiLease>> result) {
    endings_.clear();
    leases_.clear();
    done_(std::move(result));
  }

  const std::vector<Member> members_;
  const Form form_;
  const bool once_;
  zkclient::Handler<std::optional<MultiLease>> done_;
  std::vector<std::size_t> order_;  // Of the full paths.
  std::size_t next_ = 0;
  std::vector<Lease> leases_;
  std::stop_source stop_;
  std::stop_source lost_;
  CallOptions limits_;
  std::list<StopCallback> endings_;
};

void MultiLock::start(Form form, bool once, zkclient::Handler<std::optional<MultiLease>> handler,
                      const CallOptions& call) const {
  if (members_.empty()) throw Error(Errc::invalid_argument, operation, "", "there are no locks");
  std::make_shared<Run>(members_, form, once, std::move(handler), call)->start_next();
}

std::optional<MultiLease> MultiLock::run(bool once, const CallOptions& call) const {
  Result<std::optional<MultiLease>> outcome = std::optional<MultiLease>();
  auto keep = [&outcome](Result<std::optional<MultiLease>> result) { outcome = std::move(result); };
  start(Form::blocking, once, std::move(keep), call);
  return std::move(outcome).value();
}

MultiLease MultiLock::acquire(const CallOptions& call) { return std::move(*run(false, call)); }

std::optional<MultiLease> MultiLock::try_acquire(const CallOptions& call) { return run(true, call); }

void MultiLock::async_acquire(zkclient::Handler<MultiLease> handler, const CallOptions& call) {
  zkclient::detail::require_handler(handler, operation, "");
  auto wrapped = [handler = std::move(handler)](Result<std::optional<MultiLease>> result) mutable {
    if (result) {
      handler(std::move(**result));
    } else {
      handler(result.error());
    }
  };
  start(Form::asynchronous, false, std::move(wrapped), call);
}

void MultiLock::async_try_acquire(zkclient::Handler<std::optional<MultiLease>> handler, const CallOptions& call) {
  zkclient::detail::require_handler(handler, operation, "");
  start(Form::asynchronous, true, std::move(handler), call);
}

std::optional<MultiLease> MultiLock::try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options) {
  return try_acquire_until(detail::from_now(timeout), std::move(options));
}

std::optional<MultiLease> MultiLock::try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                       WaitOptions options) {
  const bool once = detail::is_over(deadline);
  const CallOptions call = detail::timed_call(deadline, options);
  const auto connected = [this] {
    return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.connected(); });
  };
  return detail::unless_late_or_busy(connected, options, [&] { return run(once, call); });
}

}  // namespace zkrecipes
