#include <zkrecipes/recursive_mutex.hpp>

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <zkclient/error.hpp>

#include "recipes/locks/thread_number.hpp"

namespace zkrecipes {

using zkclient::Errc;
using zkclient::Error;

struct RecursiveMutex::State {
  struct Owned {
    Lease lease;
    int depth = 0;
  };

  State(zkclient::Client client, zkclient::Path path, MutexOptions options)
      : plain(std::move(client), std::move(path), std::move(options)) {}

  Mutex plain;
  std::mutex mutex;
  // By thread; guarded by mutex. Of the lost leases there may be several.
  std::unordered_map<std::uint64_t, Owned> owned;

  // Needs the lock; the entry is the calling thread's and stays until that thread erases it.
  Owned* own() {
    const auto found = owned.find(detail::this_thread_number());
    return found != owned.end() ? &found->second : nullptr;
  }
};

RecursiveMutex::RecursiveMutex(zkclient::Client client, zkclient::Path path, MutexOptions options)
    : state_(std::make_unique<State>(std::move(client), std::move(path), std::move(options))) {}

RecursiveMutex::~RecursiveMutex() = default;
RecursiveMutex::RecursiveMutex(RecursiveMutex&&) noexcept = default;
RecursiveMutex& RecursiveMutex::operator=(RecursiveMutex&&) noexcept = default;

const zkclient::Path& RecursiveMutex::path() const noexcept { return state_->plain.path(); }

void RecursiveMutex::lock() { lock_within(std::chrono::nanoseconds::max()); }
bool RecursiveMutex::try_lock() { return lock_within(std::chrono::nanoseconds::zero()); }

bool RecursiveMutex::lock_within(std::chrono::nanoseconds timeout) {
  {
    const std::lock_guard guard(state_->mutex);
    if (State::Owned* own = state_->own()) {
      if (!own->lease.valid()) {
        throw Error(Errc::not_held, "recursive mutex lock", path().str(),
                    "it was lost while this thread had it locked, which must unlock it first");
      }
      ++own->depth;
      return true;
    }
  }
  std::optional<Lease> lease = state_->plain.try_acquire_for(timeout);
  if (!lease) return false;
  const std::lock_guard guard(state_->mutex);
  state_->owned.emplace(detail::this_thread_number(), State::Owned{std::move(*lease), 1});
  return true;
}

void RecursiveMutex::unlock() {
  const std::lock_guard guard(state_->mutex);
  State::Owned* own = state_->own();
  if (own == nullptr) {
    throw Error(Errc::not_held, "recursive mutex unlock", path().str(), "not locked by this thread");
  }
  if (--own->depth == 0) state_->owned.erase(detail::this_thread_number());  // The lease's destructor gives it back.
}

std::vector<Contender> RecursiveMutex::contenders(const zkclient::CallOptions& call) const {
  return state_->plain.contenders(call);
}

void RecursiveMutex::async_contenders(zkclient::Handler<std::vector<Contender>> handler,
                                      const zkclient::CallOptions& call) const {
  state_->plain.async_contenders(std::move(handler), call);
}

int RecursiveMutex::depth() const {
  const std::lock_guard guard(state_->mutex);
  const State::Owned* own = state_->own();
  return own != nullptr ? own->depth : 0;
}

const Lease& RecursiveMutex::lease() const {
  const std::lock_guard guard(state_->mutex);
  const State::Owned* own = state_->own();
  if (own == nullptr) {
    throw Error(Errc::not_held, "recursive mutex lease", path().str(), "not locked by this thread");
  }
  return own->lease;
}

}  // namespace zkrecipes
