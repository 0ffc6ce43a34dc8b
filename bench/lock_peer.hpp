#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "child.hpp"
#include "contender.hpp"

namespace bench {

/// What the contenders of one library did together.
struct Outcome {
  Sample sample;
  std::int64_t least = 0;     ///< Cycles of the contender that got fewest.
  std::int64_t most = 0;      ///< Of the one that got most.
  std::int64_t overlaps = 0;  ///< How often two were inside at once.
};

/// One library as `locks` drives it. Every contender has a session of its own, but for the waiters of a drain, which
/// share a few. Throws whatever went wrong.
class LockPeer {
 public:
  virtual ~LockPeer() = default;
  LockPeer(const LockPeer&) = delete;
  LockPeer& operator=(const LockPeer&) = delete;

  /// One contender takes a lock that nobody else wants and gives it back, for that long.
  virtual Outcome cycle(std::chrono::milliseconds duration) = 0;
  /// Several want the same lock.
  virtual Outcome contend(int contenders, std::chrono::milliseconds duration) = 0;
  /// Several readers of one shared lock.
  virtual Outcome readers(int contenders, std::chrono::milliseconds duration) = 0;
  /// Has that many waiters queue up behind one holder; then lets them through one by one.
  virtual void queue(int waiters) = 0;
  virtual Outcome drain() = 0;

 protected:
  LockPeer() = default;
};

/// A library that runs in a program of its own: `program... <host:port> <folder>`, the folder being a node that exists,
/// below which it makes its locks. It says "ready", and then answers each line of its input:
///
///   cycle <ms> | contend <n> <ms> | readers <n> <ms> | drain      done <cycles> <wall us> <cpu us> <least> <most> <overlaps>
///   queue <n>                                                      queued
class ChildLockPeer final : public LockPeer {
 public:
  explicit ChildLockPeer(std::vector<std::string> command) : child_(std::move(command)) {}
  Outcome cycle(std::chrono::milliseconds duration) override;
  Outcome contend(int contenders, std::chrono::milliseconds duration) override;
  Outcome readers(int contenders, std::chrono::milliseconds duration) override;
  void queue(int waiters) override;
  Outcome drain() override;

 private:
  Outcome ask(const std::string& command, std::chrono::milliseconds patience);

  Child child_;
};

/// The other side: the main function of such a program. An exception is told as a line "error <what>", and ends it.
using MakeLockPeer = std::function<std::unique_ptr<LockPeer>(const std::string& server, const std::string& folder)>;
int lock_peer_main(int argc, char** argv, const MakeLockPeer& make);

}  // namespace bench
