#pragma once

#include "storm/checkers/checkers.hpp"

/// Judges of changes of a tree that programs bring along.
namespace storm {

/// A program of release N brings the steps 1 to N, which are applied in order, each once. It is "migrating" (a: the release),
/// then "migrated" (a: the release; text: the steps that it has applied, with commas), or "too old" (a: the release), when
/// a newer one has migrated. No step is said to be applied twice. Who is "looking", and then "sees" (text: the steps that have
/// left their mark, in order, with commas), sees no gap, and all steps of each release that had migrated before. At the end
/// the "list" (text, likewise) tells which steps have read what they changed, in the order in which they did, and
/// "written" (a) how often the other ones have written. "wrong" (text) is an error that nobody may get.
///
/// `reads`: whether a step, by its number, reads what it changes. Step 1 neither reads nor writes.
Faults check_migrations(const History& history, bool (*reads)(std::int64_t step));

}  // namespace storm
