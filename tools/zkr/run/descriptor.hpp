#pragma once

#include <unistd.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "tools/zkr/run/instant.hpp"

namespace zkr {

/// A file descriptor with an owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

/// Readable from the instant on that it was set to, also if the machine was suspended then.
class BootTimer {
 public:
  BootTimer();
  int get() const { return timer_.get(); }
  /// Without an instant: never.
  void set(std::optional<Instant> instant);

 private:
  Descriptor timer_;
  std::optional<Instant> set_to_;
};

/// Waits until one of them is readable or hung up, or `writable` can be written to. Closed ones are skipped.
void wait_for_any(std::initializer_list<int> descriptors, int writable = -1);
/// Of a pinned process: it has ended.
bool readable_now(int descriptor);
/// Reads what is there, to no purpose but that it is read.
void drain(int descriptor);

/// Those of 0 to 2 that are closed are /dev/null from here on, so nothing that is opened is taken for one of them. Reading
/// standard input and writing standard output fail as they did. Commands find them closed.
void occupy_standard_descriptors();

/// A file in memory, to be read from its beginning. Errors: std::system_error.
Descriptor file_with(const std::string& bytes);

/// Signals of this process that are blocked, as something to read.
Descriptor signal_descriptor(std::initializer_list<int> signals);
/// The same of all signals.
Descriptor all_signals_descriptor();

}  // namespace zkr
