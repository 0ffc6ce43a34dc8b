#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <zkrecipes/inspect.hpp>

#include "tools/zkr/cli/json.hpp"

/// What `top` shows of a path, without servers and screens.
namespace zkr {

/// How often the path came to another holder, told from looks at it. A holder that came and went between two looks is
/// counted by the numbers in the names of nodes; waiters that gave up meanwhile are counted with it.
class HandoverCount {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void look(const zkrecipes::Inspection& found, Time now);
  /// In the last minute, or since the first look if that is not as long ago.
  double per_minute(Time now) const;

 private:
  struct Seen {
    Time when;
    std::int64_t handovers;
  };
  std::optional<Time> begun_;
  std::set<std::string> holders_;
  std::int64_t newest_ = -1;  // The greatest number in the name of a holder's node.
  std::deque<Seen> seen_;
};

/// A path as it was seen last.
struct TopRow {
  std::string path;
  zkrecipes::Inspection found = {};
  std::chrono::system_clock::time_point looked = {};
  double handovers_per_minute = 0;
  std::string trouble = {};  // Why it could not be read: then nothing else is told of it. "": it was.
};

enum class TopSort { path, waiters, held, handovers };
const char* to_string(TopSort sort) noexcept;
/// The one behind it; behind the last one comes the first.
TopSort next(TopSort sort) noexcept;

void sort_rows(std::vector<TopRow>& rows, TopSort sort);

/// A heading, and a line for each row.
std::vector<std::string> top_lines(const std::vector<TopRow>& rows);
json::object top_json(const TopRow& row);

/// Who holds: "web-1:4711", and how many others. "-": nobody. "?": it could not be read.
std::string holder_text(const TopRow& row);

}  // namespace zkr
