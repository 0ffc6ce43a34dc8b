#pragma once

#include <cstdint>
#include <vector>

#include "simulation/servers/disk.hpp"
#include "simulation/servers/process.hpp"

namespace zktesting::simulated {

/// Writes transactions to the disk, one flush for all that have gathered during the one before.
class LogWriter {
 public:
  using Act = Process::Act;

  /// `refused` is called when the disk does not confirm.
  LogWriter(Process& process, Disk& disk, Latency latency, Act refused)
      : process_(process), disk_(disk), latency_(latency), refused_(std::move(refused)) {}

  /// `done` when it is safe from a crash.
  void append(TxnPtr txn, Act done);
  /// When all that was appended is: at once if nothing is under way.
  void then(Act done);
  /// The process has ended.
  void forget();

  void set_latency(Latency latency) { latency_ = latency; }
  /// The disk confirms nothing until then.
  void stall(Nanos until) { stalled_until_ = std::max(stalled_until_, until); }
  /// A disk that is well again has written what it had refused to confirm.
  void set_refusing(bool refusing);
  [[nodiscard]] bool refusing() const { return refusing_; }

 private:
  void flush();
  void confirm(std::size_t records);
  void finish();

  Process& process_;
  Disk& disk_;
  Latency latency_;
  Act refused_;
  Nanos stalled_until_{};
  bool refusing_ = false;
  bool flushing_ = false;
  bool unflushed_ = false;  // Something was written after the last flush began.
  std::uint64_t life_ = 0;
  std::vector<Act> gathered_;
  std::vector<Act> written_;
};

}  // namespace zktesting::simulated
