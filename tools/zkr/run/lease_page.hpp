#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/holder.hpp"
#include "tools/zkr/run/instant.hpp"

namespace zkr {

/// What the keeper tells the front of the lease: a page that both see, so the front needs no answer of a keeper that is
/// stopped or hangs.
class LeasePage {
 public:
  enum class State : std::int32_t {
    idle,     // Nothing runs that needs the lease.
    running,  // Nothing of the command may run at `valid_until` any more.
  };
  struct Content {
    std::atomic<State> state;
    std::atomic<std::int64_t> valid_until;  // CLOCK_BOOTTIME, in nanoseconds.
    std::atomic<std::int64_t> timeout;
    std::atomic<std::uint64_t> token;
    std::atomic<std::int64_t> granted_at;  // CLOCK_BOOTTIME. 0: never.
    std::atomic<std::int64_t> asked_at;    // CLOCK_BOOTTIME: from when on it was waited for.
  };

  LeasePage();
  ~LeasePage();
  LeasePage(const LeasePage&) = delete;
  LeasePage& operator=(const LeasePage&) = delete;

  void write(const Lease& lease);
  /// A run begins, which waits for its lease from then on.
  void begin(Instant asked_at);
  void write(State state) { content_->state.store(state); }

  State state() const { return content_->state.load(); }
  Instant valid_until() const { return Instant(Duration(content_->valid_until.load())); }
  std::optional<Instant> granted_at() const;
  Instant asked_at() const { return Instant(Duration(content_->asked_at.load())); }
  std::uint64_t token() const { return content_->token.load(); }
  Duration timeout() const { return Duration(content_->timeout.load()); }

 private:
  Descriptor memory_;
  Content* content_;
};

}  // namespace zkr
