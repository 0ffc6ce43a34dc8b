#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace storm {

using Nanos = std::chrono::nanoseconds;

/// Something that a process of a workload has seen or done.
struct Entry {
  Nanos at{};        ///< By the world's true clock.
  std::string who;   ///< Process, and what in it.
  std::string what;  ///< A word that the workload's checker knows.
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::string text;
};

/// What all processes of a workload have seen and done, in the order in which it was written down. Thread-safe.
class History {
 public:
  void add(Entry entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  /// When nothing is added any more.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

std::string to_string(const Entry& entry);

}  // namespace storm
