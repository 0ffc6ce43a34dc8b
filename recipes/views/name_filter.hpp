#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace zkrecipes::detail {

/// The names that directories list, but that are not in the view: the user's filter has not judged them yet, or has
/// excluded them. What it includes leaves, and is a node from then on. A name is asked for once, for as long as it is
/// listed; a verdict about a name that has gone meanwhile is dropped. Pure.
///
/// The numbers are a MirrorModel's: those of the lists that named them first. They end with the verdict.
class NameFilter {
 public:
  using DirectoryId = std::uint64_t;

  static constexpr std::size_t max_batch = 1000;

  struct Name {
    DirectoryId directory = 0;
    std::string name;
    std::uint64_t number = 0;
  };
  struct Verdict {
    Name about;
    bool included = false;
  };
  using Numbers = std::vector<std::uint64_t>;

  /// A name that is listed, and is no node. True: it is new, so a verdict is due.
  bool add(DirectoryId directory, const std::string& name, std::uint64_t number);
  /// Drops the names that the newest list, which is in order, does not have. Returns the numbers that end.
  Numbers keep(DirectoryId directory, const std::vector<std::string>& listed);
  Numbers forget(DirectoryId directory) { return keep(directory, {}); }

  /// The next ones to be asked for, the oldest first; none while an answer is due.
  const std::vector<Name>& take();
  /// The answer, in the same order: the verdicts that still count.
  std::vector<Verdict> answer(const std::vector<bool>& included);

 private:
  enum class State { waiting, asked, excluded };
  struct Entry {
    State state = State::waiting;
    std::uint64_t number = 0;
  };
  using Entries = std::map<std::string, Entry>;

  Entry* find(const Name& name);

  std::unordered_map<DirectoryId, Entries> directories_;
  std::set<std::tuple<std::uint64_t, DirectoryId, std::string>> waiting_;  // By number.
  std::vector<Name> asked_;                                                // Not empty: an answer is due.
};

}  // namespace zkrecipes::detail
