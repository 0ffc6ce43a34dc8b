#pragma once

#include <string>

#include "storm/checkers/checkers.hpp"
#include "storm/checkers/linearizable.hpp"

/// Operations in histories, and their judge: each object must be linearizable.
///   "begins"  a: the operation, by a number that nobody else in the history uses; b: its kind;
///             text: "<object> <value> <expected> <version>", as it will be if it is done
///   "tries"   the same again, for one that is worked out from what it finds; what was tried before was not done
///   "ends"    the same, as it was
///   "fails"   a: the operation was certainly not done
/// One that neither ends nor fails is in doubt. Times are places in the history.
namespace storm {

/// For "begins", "tries" and "ends".
std::string text_of(const std::string& object, const Operation& operation);

/// All objects hold `initial` in the beginning.
Faults check_operations(const History& history, std::int64_t initial);

/// The same for one count, from 0, whose operations are told as check_counter() wants them: "adding" (a: delta), then
/// "added" (a: before, b: after), or "not added", or nothing; and "counting", then "counted" (a: the number). Each
/// process has one at a time; one that is "killed" begins anew.
Faults check_additions(const History& history);

}  // namespace storm
