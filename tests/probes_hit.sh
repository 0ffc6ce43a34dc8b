#!/usr/bin/env bash
# probes_hit.sh PROGRAM: gdb stops a program that takes a lock at probes, and reads their arguments there.
set -euo pipefail

program=$1
if ! command -v gdb >/dev/null; then
  echo 'skipped: there is no gdb'
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stop_at() {  # NAME FORMAT ARGUMENT...
  local name=$1 format=$2
  shift 2
  printf 'break -probe-stap zkrecipes:%s\ncommands\nsilent\nprintf "%s %s\\n"' "$name" "$name" "$format"
  printf ', %s' "$@"
  printf '\ncontinue\nend\n'
}
text() { echo "(char*)\$_probe_arg$1"; }
{
  echo 'set pagination off'
  echo 'set debuginfod enabled off'
  stop_at session_state 'from %s to %s' "$(text 1)" "$(text 2)"
  stop_at call_begin '%s %s' "$(text 1)" "$(text 2)"
  stop_at request_sent '%s, attempt %d' "$(text 1)" '$_probe_arg3'
  stop_at lease_granted '%s token %ld' "$(text 0)" '$_probe_arg2'
  stop_at lease_released '%s token %ld' "$(text 0)" '$_probe_arg2'
  echo run
} >"$work/commands"
gdb --batch --nx -x "$work/commands" "$program" >"$work/said" 2>&1 || true
if grep -qi 'ptrace: operation not permitted\|could not trace' "$work/said"; then
  echo 'skipped: gdb may not look into a process here'
  exit 77
fi

wrong=0
want() { grep -qE "^$1\$" "$work/said" || { echo "FAILED: no line $1"; wrong=1; }; }
want 'session_state from connecting to connected'
want 'call_begin mutex acquire /[a-z/]+'
want 'request_sent create, attempt 1'
want 'session_state from connected to closed'
# It is given back as it was granted.
granted=$(sed -n 's/^lease_granted //p' "$work/said")
[[ $granted == /*' token '* ]] || { echo 'FAILED: no lease was granted'; wrong=1; }
[[ $granted == "$(sed -n 's/^lease_released //p' "$work/said")" ]] || { echo 'FAILED: it was not given back'; wrong=1; }
((wrong == 0)) || cat "$work/said"
exit $wrong
