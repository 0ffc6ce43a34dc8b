#pragma once

#include <initializer_list>
#include <string>

#include "storm/checkers/checkers.hpp"

/// More judges: of what several processes agree upon. They know nothing of the code, either.
namespace storm {

/// All faults of all judges.
Faults all_of(std::initializer_list<Faults> faults);

/// check_leases for each name (the entries' text): at most `shared_most` at once of a name that begins with "shared",
/// one of any other name.
Faults check_named_leases(const History& history, int shared_most);

/// What (the entries' text) was `what` before "calm", is so again after it. What was "acquired" may also be held then
/// ("valid"): some holds are longer than the calm.
Faults check_named_progress(const History& history, const std::string& what);

/// Nobody says "valid" (a: token) of what somebody else had seen "gone" (a: token) before.
Faults check_gone(const History& history);

/// Each "depth" is what it should be: a is what was counted, b is what was told.
Faults check_depth(const History& history);

/// A process has one "term" at a time: from "term begins" to "term ends", or "killed".
Faults check_terms(const History& history);

/// What was "drained" came in the order of priorities (b): lower ones first.
Faults check_drained_order(const History& history);

/// Transactions (the text: a name that their coordinator made up) over participants (the text of "begun" after the name
/// and a space: their names, with commas). A participant says "prepared" (a: 1 for, 0 against), "committed" and "aborted",
/// and at its end "in doubt"; a coordinator says "decided" (a: 1 committed, 0 aborted; b: 1 if it has waited until all
/// have applied it). All or none commit; none does if one was against it; what was committed is committed by each
/// participant, or "in doubt" there.
Faults check_commits(const History& history);

/// Each "sum" (a) is `total`, and beside it each account was "seen" (a: as below) with what it had "moved" before the
/// process was "looking" at least; changes of one account ("moved": a and b are account * 1'000'000 + count of its changes) are
/// all different; at the end ("changes": a is the account, b its count) there are as many as there were, and as many more
/// as are in doubt ("moving" without "moved" or "not moved") at most.
Faults check_transfers(const History& history, std::int64_t total);

/// No id (a) comes twice in one space (text); ids of one maker (b) of one process grow.
Faults check_ids(const History& history);

/// After "calm": who "stays" is listed in what each process "sees" (text: names with commas, in order), and nobody else. Who
/// has "left" all the same may be listed or not. Somebody must see something.
Faults check_members(const History& history);

/// What is seen of a configuration ("seen": a is the revision, b the object that shows it; text: the values) is whole: for
/// one revision it is always the same, and what was published as such ("publishing": text, then "published": a).
/// Revisions of one object grow. Two publications have two revisions. What is "in force" (a) at the end is the last one.
Faults check_revisions(const History& history);

/// A gate: nobody has "passed" that has put it "up" itself (after "raising"), unless somebody was "lowering" it since the
/// raising began. (What others did may be shown late.)
Faults check_gate(const History& history);

/// Writes of a replicated log: an acknowledged write ("acknowledged": a is its number) is in the log of each later
/// primary ("took over": a is the epoch, text: numbers with commas), unless an operator has "given up" all of them since.
/// Epochs grow.
Faults check_replicas(const History& history);

}  // namespace storm
