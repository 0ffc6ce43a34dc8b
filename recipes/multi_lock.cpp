#include <zkrecipes/multi_lock.hpp>

#include <algorithm>
#include <exception>
#include <list>
#include <numeric>

#include <zkclient/error.hpp>

namespace zkrecipes {

using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;

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

// --- MultiLock ----------------------------------------------------------------------------------------------------

MultiLock& MultiLock::add_member(Member member) {
  const auto same = [&](const Member& other) { return other.path == member.path; };
  if (std::any_of(members_.begin(), members_.end(), same)) {
    throw Error(Errc::invalid_argument, "multi lock add", member.path.str(), "it was added already");
  }
  members_.push_back(std::move(member));
  return *this;
}

MultiLock& MultiLock::add(Mutex& mutex) {
  return add_member({mutex.path(), [&mutex](const CallOptions& call) { return mutex.acquire(call); },
                     [&mutex](const CallOptions& call) { return mutex.try_acquire(call); }});
}

MultiLock& MultiLock::add(UnfairMutex& mutex) {
  return add_member({mutex.path(), [&mutex](const CallOptions& call) { return mutex.acquire(call); },
                     [&mutex](const CallOptions& call) { return mutex.try_acquire(call); }});
}

MultiLock& MultiLock::add(SharedMutex& mutex) {
  return add_member({mutex.path(), [&mutex](const CallOptions& call) { return mutex.acquire(call); },
                     [&mutex](const CallOptions& call) { return mutex.try_acquire(call); }});
}

MultiLock& MultiLock::add_shared(SharedMutex& mutex) {
  return add_member({mutex.path(), [&mutex](const CallOptions& call) { return mutex.acquire_shared(call); },
                     [&mutex](const CallOptions& call) { return mutex.try_acquire_shared(call); }});
}

namespace {

/// A stop request of the caller, or the loss of a lease, ends the wait for the next one.
struct Ending {
  std::stop_source stop;
  std::stop_source lost;
  std::list<StopCallback> callbacks;

  explicit Ending(const std::stop_token& wish) {
    callbacks.emplace_back(wish, [source = stop]() mutable { source.request_stop(); });
  }
  void watch(const Lease& lease) {
    callbacks.emplace_back(lease.lost(), [source = stop, loss = lost]() mutable {
      loss.request_stop();
      source.request_stop();
    });
  }
};

}  // namespace

std::optional<MultiLease> MultiLock::run(bool once, const CallOptions& call) {
  if (members_.empty()) throw Error(Errc::invalid_argument, operation, "", "there are no locks");
  std::vector<std::size_t> order(members_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return members_[a].path < members_[b].path; });

  std::vector<Lease> leases(members_.size());
  Ending ending(call.stop);
  const CallOptions limits{call.deadline, ending.stop.get_token()};
  for (const std::size_t i : order) {
    const Member& member = members_[i];
    try {
      if (once) {
        std::optional<Lease> lease = member.try_acquire(limits);
        if (!lease) return std::nullopt;
        leases[i] = std::move(*lease);
      } else {
        leases[i] = member.acquire(limits);
      }
    } catch (const Error& error) {
      if (error.errc() != Errc::cancelled || !ending.lost.stop_requested()) throw;
      throw Error(Errc::not_held, operation, member.path.str(), "another lock was lost while this one was waited for");
    }
    ending.watch(leases[i]);
  }
  MultiLease all(std::move(leases));
  if (all.valid()) return all;
  throw Error(Errc::not_held, operation, members_[order.back()].path.str(), "another lock was lost meanwhile");
}

MultiLease MultiLock::acquire(const CallOptions& call) { return std::move(*run(false, call)); }

std::optional<MultiLease> MultiLock::try_acquire(const CallOptions& call) { return run(true, call); }

std::optional<MultiLease> MultiLock::try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop) {
  constexpr auto for_ever = std::chrono::steady_clock::time_point::max();
  const auto now = std::chrono::steady_clock::now();
  return try_acquire_until(timeout > for_ever - now ? for_ever : now + timeout, std::move(stop));
}

std::optional<MultiLease> MultiLock::try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                       std::stop_token stop) {
  CallOptions call;
  call.stop = std::move(stop);
  if (deadline <= std::chrono::steady_clock::now()) return run(true, call);
  if (deadline != std::chrono::steady_clock::time_point::max()) call.deadline = deadline;
  try {
    return run(false, call);
  } catch (const Error& error) {
    if (error.errc() == Errc::deadline_exceeded) return std::nullopt;
    throw;
  }
}

}  // namespace zkrecipes
