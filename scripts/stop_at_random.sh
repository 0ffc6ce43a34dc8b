#!/usr/bin/env bash
# Stops processes at random instants and lets them go on, until it is killed: a test must not take it for a failure that
# a machine is slow. scripts/test.sh --stops runs it beside the tests.
#
#   scripts/stop_at_random.sh FOLDER    processes whose program is below FOLDER; not their children, which tests stop
#                                       themselves
#
#   ZKRECIPES_SEED     repeats a sequence of choices (not of instants); default: another one each time, printed
#   ZKRECIPES_STOP     seconds that a process is stopped for; default 2
#   ZKRECIPES_EVERY    seconds from one stop of a process to the next, on average; default 5
set -euo pipefail

folder=$(realpath "${1:?folder}")
stop=${ZKRECIPES_STOP:-2} every=${ZKRECIPES_EVERY:-5}
seed=${ZKRECIPES_SEED:-$RANDOM}
RANDOM=$seed
tick=0.1
chance=$(awk -v every="$every" -v tick="$tick" 'BEGIN { print int(32768 * tick / every) }')
echo "stop_at_random: seed $seed, $stop s of every $every s"

declare -A stopped=()  # The process that lets each one go on.
go_on() {
  for pid in "${!stopped[@]}"; do kill -CONT "$pid" 2>/dev/null || true; done
}
trap go_on EXIT
trap 'exit 0' TERM INT

stops=0
while sleep "$tick"; do
  while read -r exe; do
    pid=${exe#/proc/} pid=${pid%/exe}
    if [[ -n ${stopped[$pid]:-} ]]; then
      kill -0 "${stopped[$pid]}" 2>/dev/null && continue
      unset "stopped[$pid]"
    fi
    ((RANDOM < chance)) || continue
    parent=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$pid/stat" 2>/dev/null) || continue
    [[ $(readlink "/proc/$parent/exe") != "$folder"/* ]] || continue
    kill -STOP "$pid" 2>/dev/null || continue
    (
      trap - EXIT
      sleep "$stop"
      kill -CONT "$pid" 2>/dev/null
    ) &
    stopped[$pid]=$!
    ((++stops % 100)) || echo "stop_at_random: $stops stops"
  done < <(find /proc -maxdepth 2 -name exe -lname "$folder/*" 2>/dev/null)
done
