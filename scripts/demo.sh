#!/usr/bin/env bash
# Shows in half a minute what the recipes do: five processes elect a leader and take turns under a
# lock, one of them is killed, one is paused. Works alone, from any directory, on a fresh Debian 12:
# installs what is missing, builds what it needs, starts a ZooKeeper by itself.
#
#   scripts/demo.sh
#     --color, --no-color   colours; default: if the output is a terminal (NO_COLOR, FORCE_COLOR)
#     --ascii               plain characters; default: if the locale is not a UTF-8 one
#     --no-setup            do not look for missing packages
#
#   ZKRECIPES_SERVER=host:port[,host:port...] scripts/demo.sh    uses that ZooKeeper
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

setup=1 arguments=() colour=0
[[ ! -t 1 || -n ${NO_COLOR:-} ]] || colour=1
for argument in "$@"; do
  case $argument in
    --color | --no-color | --ascii)
      arguments+=("$argument")
      case $argument in --color) colour=1 ;; --no-color) colour=0 ;; esac
      ;;
    --no-setup) setup=0 ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "demo: unknown option $argument (see --help)" >&2; exit 2 ;;
  esac
done

bold='' plain=''
if ((colour)); then
  bold=$'\e[1m' plain=$'\e[0m'
fi
started=$SECONDS
step() { printf '%s== %s%s (%d s)\n' "$bold" "$*" "$plain" $((SECONDS - started)); }
die() { printf 'demo: %s\n' "$@" >&2; exit 1; }

cd "$root"
if ((setup)); then
  step "setup: what is missing?"
  scripts/setup.sh || die "the setup failed, its own message is above this line"
fi

# The same build folder as that of scripts/test.sh, so that nothing is compiled twice.
build=$root/build/dev
step "build: the libraries and the tour (the first time this takes a minute or two)"
mkdir -p "$build"
log=$build/demo-configure.log
cmake --preset dev >"$log" 2>&1 || { cat "$log" >&2; die "cmake failed, see above"; }
cmake --build --preset dev --target tour || die "the build failed, see above"

# A server that scripts/setup.sh could not install but unpack.
jars=$root/build/deps/usr/share/java
if [[ -z ${ZKRECIPES_JARS:-} && -e $jars/zookeeper.jar ]]; then
  export ZKRECIPES_JARS=$jars
fi

step "tour"
echo
exec "$build/examples/tour" "${arguments[@]+"${arguments[@]}"}"
