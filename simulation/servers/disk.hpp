#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "simulation/base/random.hpp"
#include "simulation/servers/tree.hpp"

namespace zktesting::simulated {

/// What becomes of the records that a server has written, and its disk has not confirmed, when the server ends.
enum class Loss : std::int8_t {
  any,       ///< Some are there, as chance will have it: the first of them.
  last_one,  ///< All are there, but the last one is torn: a server that starts reads up to it.
  all,       ///< None is there: as when the power fails.
  none,      ///< All are there: the process has ended, and the operating system went on.
};

/// What a server finds again after a crash: a snapshot, a log of transactions behind it, and the two epochs.
class Disk {
 public:
  explicit Disk(Tree empty) : empty_(std::move(empty)), snapshot_(empty_) {}

  /// The operating system has it. It survives a crash for certain after flushed().
  void write(TxnPtr txn) { log_.push_back(std::move(txn)); }
  [[nodiscard]] std::size_t written() const { return log_.size(); }
  void flushed(std::size_t records) { durable_ = std::max(durable_, std::min(records, log_.size())); }
  void crash(Loss loss, Random& random);
  void wipe();

  /// The last transaction that can be read, or the snapshot's.
  [[nodiscard]] Zxid last_zxid() const { return log_.empty() ? snapshot_zxid_ : log_.back()->zxid; }
  [[nodiscard]] Zxid snapshot_zxid() const { return snapshot_zxid_; }
  /// The last one that a crash does not take.
  [[nodiscard]] Zxid durable_zxid() const { return durable_ == 0 ? snapshot_zxid_ : log_[durable_ - 1]->zxid; }
  /// The last one that is not beyond `zxid`.
  [[nodiscard]] Zxid last_up_to(Zxid zxid) const;
  [[nodiscard]] std::vector<TxnPtr> after(Zxid zxid) const;
  void truncate_after(Zxid zxid);
  void replace(const Tree& snapshot, Zxid zxid);
  /// The state that snapshot and log make.
  [[nodiscard]] Tree load() const;

  /// The newest epoch that the server has promised to follow, and the one whose history it has.
  std::int64_t accepted_epoch = 0;
  std::int64_t current_epoch = 0;

 private:
  [[nodiscard]] std::size_t position_after(Zxid zxid) const;

  Tree empty_;
  Tree snapshot_;
  Zxid snapshot_zxid_ = 0;
  std::vector<TxnPtr> log_;
  std::size_t durable_ = 0;
};

}  // namespace zktesting::simulated
