#include "zkclient/detail/process.hpp"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>
#include <utility>

namespace zkclient::detail {
namespace {

std::atomic<std::uint64_t> generation{0};

std::uint64_t present_generation() noexcept {
  static const int watched =
      ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  (void)watched;
  return generation.load(std::memory_order_relaxed);
}

// The thread inherits what the one that starts it blocks: so there is no moment in which it blocks less.
class SignalBlock {
 public:
  SignalBlock() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
      ::sigdelset(&all, own);
    ::pthread_sigmask(SIG_SETMASK, &all, &former_);
  }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;
  ~SignalBlock() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

 private:
  sigset_t former_{};
};

}  // namespace

ProcessGeneration::ProcessGeneration() noexcept : number_(present_generation()) {}

bool ProcessGeneration::forked() const noexcept { return generation.load(std::memory_order_relaxed) != number_; }

std::thread start_thread(const char* name, UniqueFunction<void()> body) {
  const SignalBlock block;
  return std::thread([name, body = std::move(body)]() mutable {
    ::pthread_setname_np(::pthread_self(), name);
    body();
  });
}

// A list without a lock: one that a parent's thread held at the fork would never be free again.
void keep_for_ever(std::shared_ptr<void> owned) noexcept {
  struct Kept {
    std::shared_ptr<void> owned;
    Kept* next;
  };
  static std::atomic<Kept*> newest{nullptr};
  try {
    auto* const kept = new Kept{std::move(owned), newest.load(std::memory_order_relaxed)};
    while (!newest.compare_exchange_weak(kept->next, kept, std::memory_order_release, std::memory_order_relaxed)) {
    }
  } catch (const std::bad_alloc&) {
    std::abort();  // Better than to wait for threads that are not there.
  }
}

}  // namespace zkclient::detail
