#!/usr/bin/env bash
# Puts bugs into the libraries and the decider of zkr, one after the other, most of them of the past, and counts the seeds that
# the simulated world needs to find each: it believes in nothing that it cannot find. Needs build/PRESET (default: once) built.
#   scripts/old_bugs.sh [--preset PRESET] [--seeds LAST] [NAME...]
#
# tests/simulation/old_bugs/NAME.patch begins with "workload: ...", "finds: ...", what its judge says, and "compile: SOURCES", the
# sources whose objects take the place of the library's.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=once
last=10000
names=()
while (($# > 0)); do
  case $1 in
    --preset) preset=$2 && shift 2 ;;
    --seeds) last=$2 && shift 2 ;;
    *) names+=("$1") && shift ;;
  esac
done
if ((${#names[@]} == 0)); then
  for patch in tests/simulation/old_bugs/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

build=build/$preset
flags=(-std=c++20 -O1 -g1 -Wno-unused-parameter -DZKCLIENT_HAS_SSL=0 -DZKCLIENT_HAS_SASL=0 '-DZKCLIENT_VERSION="0"')
missed=0
printf '%-28s %-16s %s\n' bug workload 'seeds until found'
for name in "${names[@]}"; do
  patch=tests/simulation/old_bugs/$name.patch
  work=build/old_bugs/$name
  workload=$(sed -n 's/^workload: //p' "$patch")
  read -r -a sources <<<"$(sed -n 's/^compile: //p' "$patch")"
  rm -rf "$work" && mkdir -p "$work"
  cp -a zkclient recipes tools "$work/"
  patch -s -p1 -d "$work" <"$patch"
  objects=()
  for source in "${sources[@]}"; do
    object=$work/${source//\//_}.o
    # What the precompiled header brings.
    also=()
    [[ $source == recipes/* ]] && also=(-include "$work/recipes/kernel/words.hpp")
    ${CXX:-g++} "${flags[@]}" -I"$work" -I. -Iinclude "${also[@]}" -c "$work/$source" -o "$object"
    objects+=("$object")
  done
  ${CXX:-g++} -o "$work/storm" "${objects[@]}" "$build"/storm/CMakeFiles/simulated_storm.dir/simulated/main.cpp.o \
    "$build"/storm/libstorm_runner.a "$build"/storm/libstorm.a "$build"/simulation/libzksimulation.a \
    "$build"/recipes/libzkrecipes.a "$build"/zkclient/libzkclient.a -lzookeeper_st -lfmt -pthread -Wl,-z,muldefs
  found=$("$work/storm" --workload "$workload" --seeds "1-$last" --first 2>/dev/null || :)
  count=$(sed -n 's/^\([0-9]*\) scenarios, .*/\1/p' <<<"$found")
  # Only what the bug does: a crash, or another judgement, would say nothing of it.
  finds=$(sed -n 's/^finds: //p' "$patch")
  if grep -E "FAULT .*($finds)" <<<"$found" >/dev/null; then
    printf '%-28s %-16s %s\n' "$name" "$workload" "$count: $(sed -n 's/^FAULT //p' <<<"$found" | head -1 | cut -c1-70)"
  else
    printf '%-28s %-16s %s\n' "$name" "$workload" "NOT FOUND within $last"
    missed=1
  fi
done
exit $missed
