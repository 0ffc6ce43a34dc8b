#pragma once

#include <cstdint>

#include "storm/checkers/checkers.hpp"

/// Judges of gates that open when they were counted down.
namespace storm {

/// Each generation of the gate opens after `count` counts. A count is "counting" (a: its number, which no other one has; b: by
/// how much; text: the generation), then "counted" (a: its number, b: how many it was told are left), "too early" (a: the
/// generation before was not open), "not counted" (a: certainly not), or nothing, which is in doubt. No generation is
/// "passed" (a) before it was counted down; each count is counted once; what is "left" (a: the generation, b: how many)
/// when all is over differs from that by what is in doubt at most. "wrong" (text) is an error that nobody may get.
Faults check_latches(const History& history, std::int64_t count);

}  // namespace storm
