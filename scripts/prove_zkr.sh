#!/usr/bin/env bash
# The long version of what the tests show of zkr's promises in seconds. Takes about three quarters of an hour on a quiet
# machine; ends with the first violation, and prints the seed.
#   scripts/prove_zkr.sh [--preset NAME] [--freezes N] [--blips N] [--soak SECONDS] [--handlers N] [--starts N] [--commands N]
#
# No command runs once its lease can belong to somebody else. 500 freezes at random phases of the heartbeat: the command is
# killed before its lease ends. 50 short outages: it is not. Five zkr on three servers while processes are killed and stopped
# and leaders fall, 300 s of `lock` and 300 of `lead`, sessions of 4 s beside one of 40 s: never two hold it.
#
# Nothing gets lost between processes. 200 handlers that are ended with their watch, and 200 commands that get a signal when
# they end. 500 starts at which no signal comes. 10,000 short commands with orphans, each with its exit status. 0 leaves
# one of these out. Needs a build of the preset (once).
set -euo pipefail
cd "$(dirname "$0")/.."

preset=once freezes=500 blips=50 soak=300 handlers=200 starts=500 commands=10000
while (($# > 0)); do
  case $1 in
    --preset | --freezes | --blips | --soak | --handlers | --starts | --commands)
      (($# >= 2)) || { echo "prove_zkr: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2" && shift 2 ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "prove_zkr: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done

tests=build/$preset/tests
prove() {  # HOW_OFTEN TEST FILTER
  (($1 == 0)) || ZKRECIPES_ROUNDS=$1 "$tests/$2" --gtest_filter="$3"
}
prove "$handlers" zkr_looking_test '*Z16HandlerIsGoneBeforeTheWatch'
prove "$handlers" zkr_process_tree_test '*Z16SignalsInTheLastMomentHarmNothing/*'
prove "$starts" zkr_process_tree_test '*Z47NoSignalArrivesUnasked/*'
prove "$commands" zkr_process_tree_test '*Z55EachOfManyShortCommandsKeepsItsStatus/*'
prove "$freezes" zkr_lock_test '*KilledBeforeTheEndOfTheLeaseAtAnyPhase'
prove "$blips" zkr_lock_test '*BlipsShorterThanTheFreeOutageCostNothing'
((soak == 0)) || ZKRECIPES_SOAK=$soak "$tests/zkr_never_two_test" --gtest_filter='*NeverTwo.*'
