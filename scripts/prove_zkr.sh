#!/usr/bin/env bash
# The long version of what the tests show of zkr's promise in seconds: no command runs once its lease can belong to somebody
# else. Takes about half an hour on a quiet machine; ends with the first violation, and prints the seed.
#   scripts/prove_zkr.sh [--preset NAME] [--freezes N] [--blips N] [--soak SECONDS]
#
# 500 freezes at random phases of the heartbeat: the command is killed before its lease ends. 50 short outages: it is not.
# Five zkr on three servers while processes are killed and stopped and leaders fall, 300 s of `lock` and 300 of `lead`: never two
# hold it. Needs a build of the preset (once).
set -euo pipefail
cd "$(dirname "$0")/.."

preset=once freezes=500 blips=50 soak=300
while (($# > 0)); do
  case $1 in
    --preset | --freezes | --blips | --soak)
      (($# >= 2)) || { echo "prove_zkr: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2" && shift 2 ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "prove_zkr: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done

tests=build/$preset/tests
ZKRECIPES_ROUNDS=$freezes "$tests/zkr_lock_test" --gtest_filter='*KilledBeforeTheEndOfTheLeaseAtAnyPhase'
ZKRECIPES_ROUNDS=$blips "$tests/zkr_lock_test" --gtest_filter='*BlipsShorterThanTheFreeOutageCostNothing'
ZKRECIPES_SOAK=$soak "$tests/zkr_never_two_test" --gtest_filter='*NeverTwo.*'
