#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zkrecipes::detail {

/// The members of a double barrier's newest round, as they stand in its node.
std::string encode_roster(const std::vector<std::string>& members);
/// Empty for anything else than a roster.
std::vector<std::string> decode_roster(std::string_view data);

/// The next step of a member after it has read the roster and, after that, the list of children.
struct RoundStep {
  enum class Kind {
    vanished,  ///< Our own node is not in the list.
    entered,   ///< We are in the round.
    begin,     ///< Begin a round with `roster`, if nothing has changed.
    too_few,   ///< Wait for a round: the last member to come begins it.
    extra,     ///< N others are before us, or a round is going on: wait until any of them goes, too.
  };
  Kind kind = Kind::vanished;
  std::vector<std::string> roster = {};
  bool refusable = false;  ///< Of `extra`: N others are ahead, those inside included.

  friend bool operator==(const RoundStep&, const RoundStep&) = default;
};

/// The names of members among `children`, in the order in which they came.
std::vector<std::string> members_in_order(const std::vector<std::string>& children);

/// The rule of the double barrier. A round goes on as long as a node of its roster is left; then the first N members
/// begin the next one.
///
/// No member waits in vain: one that finds too few is woken by the roster, which the last one to come writes, if not
/// one before; one that finds N others before it watches these as well.
RoundStep decide_round(const std::vector<std::string>& children, const std::vector<std::string>& roster,
                       std::string_view self, std::size_t count);

/// The members of the roster that are there still.
std::vector<std::string> still_inside(const std::vector<std::string>& children, const std::vector<std::string>& roster);

}  // namespace zkrecipes::detail
