#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace zkclient::detail {

/// Leaves out what the C client repeats: of each server the same warning or error is told once, and its number when
/// another one comes, or after a minute. Pure.
class RepeatedLines {
 public:
  using Clock = std::chrono::steady_clock;

  /// The lines to be told now that the C client has written `line`.
  std::vector<std::string> add(std::string_view line, Clock::time_point now);
  /// The numbers that were not told yet. What comes afterwards is new.
  std::vector<std::string> finish();

 private:
  struct Source {
    std::string line;  // The last one.
    std::string meaning;
    Clock::time_point told;
    std::size_t left_out = 0;
  };

  static std::string counted(Source& source);

  std::map<std::string, Source, std::less<>> sources_;  // By server; a line about none is a source of its own.
};

}  // namespace zkclient::detail
