#!/bin/sh
# Checks what the libraries show to the programs that they are linked into: nothing of Boost, since a program may use
# another one; a shared library shows only what is in a namespace of ours, and all of it that is not in `detail`.
# Arguments: nm, libraries. A shared one that follows its static form is compared with that.
set -eu

nm=$1
shift
bad=0
public=

# $1: what is wrong; the symbols come from the standard input.
refuse() {
  symbols=$(head -n 20)
  [ -n "$symbols" ] || return 0
  printf '%s: %s:\n%s\n' "$library" "$1" "$symbols"
  bad=1
}

for library; do
  case $library in
    *.a) table= ;;
    *) table=--dynamic ;;
  esac
  # shellcheck disable=SC2086
  all=$("$nm" --demangle $table "$library")
  case $all in
    *zk*) ;;
    *)
      echo "$library: there are no symbols of ours in it"
      exit 1
      ;;
  esac
  refuse 'symbols of Boost' <<EOF
$(printf '%s\n' "$all" | grep 'boost::' || true)
EOF
  if [ -z "$table" ]; then
    public=$(printf '%s\n' "$all" | sed -n 's/^[0-9a-f]* [BDRT] \(zk[a-z]*::\)/\1/p' | grep -Ev 'detail::|\(anonymous')
    continue
  fi
  # Only a mangled name begins with its namespace. Instances of std's templates are weak (W, V) or unique (u): they are
  # the same in every program.
  refuse 'symbols outside our namespaces' <<EOF
$("$nm" --dynamic --defined-only "$library" | cut -d ' ' -f 2- |
    grep -Ev '^[A-Za-z] _Z(T[VIST]|GV)?Z?NK?(8zkclient|9zkrecipes|9zktesting)' |
    grep -Ev '^[WVu] _Z(T[VIST]|GV)?Z?(NK?)?S' || true)
EOF
  [ -n "$public" ] || continue
  refuse 'public, but not exported' <<EOF
$(printf '%s\n' "$public" | grep -Fvx "$(printf '%s\n' "$all" | sed -n 's/^[0-9a-f]* [BDRT] //p')" || true)
EOF
  public=
done
exit $bad
