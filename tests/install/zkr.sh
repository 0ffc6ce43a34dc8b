#!/bin/sh
# zkr.sh: what the installed zkr does, with the servers of ZKRECIPES_SERVER. It is in $PATH.
set -eu

fail() { echo "FAILED: $*"; exit 1; }
ends_with() {  # $1: an exit code, $2...: words of a call
  expected=$1 code=0
  shift
  zkr "$@" || code=$?
  [ "$code" = "$expected" ] || fail "zkr $* ended with $code, not with $expected"
}

token=$(zkr lock /deploy -- sh -c 'echo "$ZKR_TOKEN"')
next=$(zkr lock /deploy -- sh -c 'echo "$ZKR_TOKEN"')
[ "$next" -gt "$token" ] || fail "the token $next came after $token"
ends_with 3 lock /deploy -- sh -c 'exit 3'
ends_with 143 lock /deploy -- sh -c 'kill -TERM $$'
# Another caller: it does not know what this one holds.
ends_with 75 lock /deploy -- env -u ZKR_HELD zkr lock --try /deploy -- true
ends_with 0 lead /scheduler -- sh -c 'zkr ready && zkr proclaim here && zkr leader --json /scheduler'
ends_with 127 lock /deploy -- /no/such/program
ends_with 0 lock /deploy -- zkr who /deploy
ends_with 66 who /no/such/path
