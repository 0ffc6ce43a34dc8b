#!/usr/bin/env bash
# Checks two_phase_commit.pml exhaustively with spin, for both variants, and that spin finds each of the mistakes that the
# model can be told to make. Exit status 77: spin is not there (scripts/setup.sh installs it).
#
#   docs/models/check.sh            1 coordinator, 3 participants, 1 crash; 2 participants, 2 crashes: some seconds
#   ZKRECIPES_SOAK=1 docs/models/check.sh   also 3 participants with 2 crashes: minutes, and some gigabytes
set -euo pipefail

model=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/two_phase_commit.pml
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
  (cd "$directory" && spin $1 -a "$model" >spin.log && $compiler -O1 -w -DNOFAIR -DMEMLIM=8192 $2 -o pan pan.c &&
    ./pan -m1000000 $3)
  rm -rf "$directory"
}

sound() {  # $1: name, then as verify
  local report
  report=$(verify "$2" "$3" "${4:-}")
  if ! grep -q 'errors: 0' <<<"$report" || grep -qiE 'search not completed|max search depth|out of memory' <<<"$report"; then
    printf 'check: FAILED: %s\n%s\n' "$1" "$report" >&2
    exit 1
  fi
  printf 'check: %s: %s states, no error\n' "$1" "$(awk '/states, stored/ {print $1}' <<<"$report")"
}

caught() {  # $1: the mistake
  local report
  report=$(verify "-DN=2 -D$1" -DSAFETY)
  if grep -q 'errors: 0' <<<"$report"; then
    printf 'check: FAILED: the model does not notice %s\n%s\n' "$1" "$report" >&2
    exit 1
  fi
  printf 'check: %s is noticed: %s\n' "$1" "$(sed -n 's/^pan:[0-9]*: //p' <<<"$report" | head -1)"
}

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
  caught "BREAK_$mistake"
done
