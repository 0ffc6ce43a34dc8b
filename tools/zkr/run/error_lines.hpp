#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// Lines for people on standard error, from a process that must never wait for whoever reads them. What there is no room
/// for is dropped, and the next line tells how much that was.
class ErrorLines {
 public:
  ErrorLines();

  /// Does not block. `dropped_before`: so many lines were dropped on their way here.
  void write(const std::string& text, int dropped_before = 0);
  /// Writes what is left to be told, as far as there is room. False: something is left still.
  bool finish();

 private:
  /// False: there is no room.
  bool begin_line(const std::string& line);
  /// How much of it need not be tried again.
  std::size_t write_some(std::string_view bytes) const;

  Descriptor again_;  // Standard error, opened again: here alone it does not block. Closed: it cannot be.
  std::string rest_;  // Of a line that has begun.
  int dropped_ = 0;
};

}  // namespace zkr
