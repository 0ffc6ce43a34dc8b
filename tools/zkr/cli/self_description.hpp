#pragma once

#include <string>
#include <string_view>

namespace zkr {

/// What a contender says of itself in its node.
struct SelfDescription {
  std::string who = {};   // The name that it was given; else the text as it stands there.
  std::string host = {};  // "": it does not say.
  std::string pid = {};
};

/// Reads "[id=<name> ]host=<host> pid=<pid> since=<time>", as this library's recipes write it, and "<host>:<pid>", a
/// candidate's name by default. Any other text is a name.
SelfDescription parse_self_description(std::string_view data);

}  // namespace zkr
