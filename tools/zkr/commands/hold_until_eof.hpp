#pragma once

#include <string_view>

namespace zkr {

/// What `--hold` runs as its command: a hidden command of ours, which prints a line and reads until the end of its input.
constexpr std::string_view hold_command = "hold-until-end-of-input";

}  // namespace zkr
