#!/usr/bin/env bash
# tour_judge.sh TOUR: the judge of scripts/demo_containers.sh passes what is as it should be, and nothing else.
set -euo pipefail

tour=$1
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
failures=0

# bob is paused while he holds token 11, ann is killed while she leads, and started again.
history() {
  cat <<'LINES'
ann 1 joined 0 3000
bob 1 joined 0 3000
ann 1 leads 5 0
ann 1 holds 10 0
ann 1 wrote 10 1
ann 1 releases 10 0
bob 1 holds 11 0
bob 1 dwells 11 0
ann 1 holds 12 0
ann 1 wrote 12 2
ann 1 releases 12 0
bob 1 refused 11 12
bob 1 lost 11 0
bob 1 holds 13 0
bob 1 wrote 13 1
bob 1 releases 13 0
bob 1 leads 6 0
ann 1 joined 0 3000
ann 1 holds 14 0
ann 1 wrote 14 1
ann 1 releases 14 0
bob 1 resigned 6 0
ann 1 leads 7 0
bob 1 left 0 0
ann 1 resigned 7 0
ann 1 left 0 0
LINES
}
ledger() { printf '%s\n' '10 ann 1' '12 ann 2' '13 bob 1' '14 ann 1'; }

expect() {  # What, "passes" or "fails", the paused players; the files are those of the stage.
  local what=$1 expected=$2 verdict=fails
  shift 2
  "$tour" judge "$stage" "$@" >"$stage/verdict" && verdict=passes
  if [[ $verdict != "$expected" ]]; then
    echo "$what: $verdict, but should be one that $expected"
    cat "$stage/verdict"
    failures=$((failures + 1))
  fi
}
change() {  # What, a sed script for the lines, one for the ledger: it fails then.
  history | sed "$2" >"$stage/lines"
  ledger | sed "$3" >"$stage/ledger"
  expect "$1" fails bob
}

history >"$stage/lines"
ledger >"$stage/ledger"
expect "all as it should be" passes bob
expect "a player who was not paused notices a loss late" fails

change "two holders at once" '/releases 10/d' ''
change "a token that is not higher" 's/holds 14/holds 9/' ''
change "two leaders at once" '/resigned 6/d' ''
change "a term that is not higher" 's/leads 7/leads 6/' ''
change "an entry that is missing" '' '/^12/d'
change "an entry that nobody wrote" '' '/^12/a 12 bob 5'
change "a late write that was let in" '' '/^10/a 11 bob 12'
change "entries that are not in the order of their tokens" '' '1{h;d};2{G}'
change "no late write" '/refused/d' ''
change "a player who had no turn" '1i cat 1 joined 0 3000' ''
change "a player who did not leave" '/bob 1 left/d' ''
change "a player who gave something up" '1i ann 1 fails 0 0 the disk is full' ''
exit "$((failures > 0))"
