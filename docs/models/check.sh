#!/usr/bin/env bash
# Checks the models exhaustively with spin, and that spin finds each of the mistakes that a model can be told to make. Exit
# status 77: spin is not there (scripts/setup.sh installs it).
#
#   docs/models/check.sh two_phase_commit   both variants: 3 participants, 1 crash; 2 participants, 2 crashes: some seconds
#   docs/models/check.sh coherent_cache     1 or 2 readers, 1 or 2 writers, a crash, a lost reply, a slow clock: under a minute
#   docs/models/check.sh replica_group      3 members, 2 or 3 epochs, a crash, an emptied disk, read leases: half a minute
#   docs/models/check.sh                    all models
#   ZKRECIPES_SOAK=1 docs/models/check.sh   also with more of everything at once: minutes, and some gigabytes
set -euo pipefail

models=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v spin >/dev/null; then
  echo "check: skipped: spin is not installed (Debian package spin)"
  exit 77
fi
compiler=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

verify() {  # $1: what spin is told, $2: what the verifier is compiled with, $3: what it is told; its report on stdout
  local directory
  directory=$(mktemp -d "$work/XXXXXX")
  # shellcheck disable=SC2086
  (cd "$directory" && spin $1 -a "$models/$model.pml" >spin.log && $compiler -w -DNOFAIR -DMEMLIM=8192 $2 -o pan pan.c &&
    ./pan -m1000000 ${3:-})
  rm -rf "$directory"
}

sound() {  # $1: name, then as verify
  local report
  report=$(verify "$2" "-O1 $3" "${4:-}")
  if ! grep -q 'errors: 0' <<<"$report" || grep -qiE 'search not completed|max search depth|out of memory' <<<"$report"; then
    printf 'check: FAILED: %s\n%s\n' "$1" "$report" >&2
    exit 1
  fi
  printf 'check: %s: %s states, no error\n' "$1" "$(awk '/states, stored/ {print $1}' <<<"$report")"
}

caught() {  # $1: the mistake, $2: what spin is told besides
  local report
  report=$(verify "$2 -DBREAK_$1" "-O0 -DSAFETY")  # Compiling takes longer than finding it.
  if ! grep -q 'errors: 1' <<<"$report" || ! grep -qE '^pan:[0-9]*: (assertion violated|invalid end state)' <<<"$report"; then
    printf 'check: FAILED: the model does not notice %s\n%s\n' "$1" "$report" >&2
    exit 1
  fi
  printf 'check: %s is noticed: %s\n' "$1" "$(sed -n 's/^pan:[0-9]*: //p' <<<"$report" | head -1)"
}

two_phase_commit() {
  local model=two_phase_commit variant name mistake
  for variant in "" -DALL_TO_ALL; do
    name=${variant:+all-to-all}
    name=${name:-mediated}
    sound "$name, 3 participants, 1 crash" "$variant" -DSAFETY
    sound "$name, 2 participants, 2 crashes" "$variant -DN=2 -DCRASHES=2" -DSAFETY
    sound "$name, 2 participants, no endless loop" "$variant -DN=2" "-DNP -DNOSTUTTER" -l
    if [[ -n ${ZKRECIPES_SOAK:-} ]]; then
      sound "$name, 3 participants, 2 crashes" "$variant -DCRASHES=2" "-DSAFETY -DCOLLAPSE"
    fi
  done
  for mistake in COMMIT_UNCHECKED VOTES_NOT_READ DECISION_OVERWRITTEN ABORTS_ALONE REMOVED_TOO_EARLY READY_NOT_DURABLE \
    APPLIED_NOT_DURABLE; do
    caught "$mistake" -DN=2
  done
}

coherent_cache() {
  local model=coherent_cache mistake one="-DREADERS=1" calm="-DCRASHES=0 -DLOSSES=0"
  sound "1 reader, 2 writers, 1 lost reply" "$one -DCRASHES=0" -DSAFETY
  sound "1 reader, 2 writers, 1 crash" "$one -DREADS=1 -DLOSSES=0" -DSAFETY
  sound "2 readers, 1 writer" "-DWRITERS=1 -DREADS=1 $calm" -DSAFETY
  sound "2 readers, 2 writers, no renewal, exact clocks" "-DREADS=1 -DBEATS=0 -DSLOW=0 $calm" -DSAFETY
  if [[ -n ${ZKRECIPES_SOAK:-} ]]; then
    sound "1 reader, 2 writers, 1 crash, no renewal" "$one -DLOSSES=0 -DBEATS=0" -DSAFETY
    sound "1 reader, 2 writers, 1 lost reply, 1 crash" "$one" "-DSAFETY -DCOLLAPSE"
    sound "2 readers, 2 writers, no renewal" "-DREADS=1 -DBEATS=0 $calm" "-DSAFETY -DCOLLAPSE"
  fi
  for mistake in RENEWED_BY_ANY LEASE_FROM_ANSWER LEASE_IGNORED KEPT_ON_EVENT OUTLIVES_SESSION GRANT_UNCHECKED \
    GRANT_WHILE_CLOSED ITEM_FIRST JOIN_ANY NO_BARRIER SAME_NAME NO_WAIT NO_MARGIN WAIT_FROM_SENT OWN_TERM \
    WRITE_UNCHECKED JUDGED_EARLY; do
    caught "$mistake" "$one"
  done
  caught STALE_FILL "$one -DREADS=3 -DBEATS=0 $calm"
  caught COMMIT_UNCHECKED "$one -DBEATS=0 -DLOSSES=0"
}

replica_group() {
  local model=replica_group mistake two="-DTERMS=2" calm="-DCRASHES=0"
  sound "2 epochs, 2 changes, 2 writes" "$two $calm" -DSAFETY
  sound "3 epochs, 1 change, 1 write" "-DCHANGES=1 -DWRITES=1 $calm" -DSAFETY
  sound "2 epochs, 1 change, 2 writes, 1 crash" "$two -DCHANGES=1" -DSAFETY
  sound "2 epochs, 1 change, 1 write, 1 emptied disk" "$two -DCHANGES=1 -DWRITES=1 -DWIPES=1" -DSAFETY
  sound "2 epochs, 1 change, 1 write, 2 read leases" "$two -DCHANGES=1 -DWRITES=1 -DREADS=2 $calm" -DSAFETY
  if [[ -n ${ZKRECIPES_SOAK:-} ]]; then
    sound "2 epochs, 2 changes, 2 writes, 1 crash" "$two" -DSAFETY
    sound "2 epochs, 2 changes, 1 write, 1 emptied disk" "$two -DWRITES=1 -DWIPES=1" -DSAFETY
    sound "2 epochs, 2 changes, 1 write, 2 read leases" "$two -DWRITES=1 -DREADS=2 $calm" -DSAFETY
    sound "3 epochs, 1 change, 2 writes" "-DCHANGES=1 $calm" -DSAFETY
    sound "3 epochs, 2 changes, 2 writes, 1 crash" "" "-DSAFETY -DCOLLAPSE"
  fi
  for mistake in SHRINK_EARLY TAKE_UNCHECKED CHOOSE_ALIVE NOT_EQUAL MAJORITY LEASE_IGNORED; do
    caught "$mistake" "$two -DCHANGES=1 -DWRITES=1 $calm"
  done
  for mistake in EXPAND_LATE EXPAND_LAGGING CHANGE_UNCHECKED; do caught "$mistake" "$two $calm"; done
  for mistake in OLD_EPOCH EPOCH_FORGOTTEN; do caught "$mistake" "$two -DCHANGES=0"; done
  caught EMPTY_DISK "$two -DCHANGES=1 -DWRITES=1 -DWIPES=1"
  for mistake in READS_UNCHECKED LEAVING_FORGOTTEN; do
    caught "$mistake" "$two -DCHANGES=1 -DWRITES=1 -DREADS=2 $calm"
  done
}

if (($# == 0)); then set -- two_phase_commit coherent_cache replica_group; fi
for chosen in "$@"; do
  case $chosen in
    two_phase_commit | coherent_cache | replica_group) "$chosen" ;;
    *) echo "check: there is no model $chosen" >&2; exit 2 ;;
  esac
done
