#include <zkrecipes/multi_lock.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <list>
#include <mutex>

#include <zkclient/error.hpp>

namespace zkrecipes {

using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

struct MultiLease::State {
  explicit State(std::vector<Lease> held) : leases(std::move(held)) {
    for (const Lease& lease : leases)
      on_loss.emplace_back(lease.lost(), [lost = lost]() mutable { lost.request_stop(); });
  }

  std::vector<Lease> leases;
  std::stop_source lost;
  std::list<std::stop_callback<std::function<void()>>> on_loss;  // Goes before what it calls.
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

}  // namespace zkrecipes
