#!/usr/bin/env bash
# Breaks the simulated world's servers, one rule at a time, and names the test that notices: a rule that no test minds is not
# compared with the real server. Needs build/PRESET (default: once) built.
#   scripts/broken_models.sh [--preset PRESET] [NAME...]
#
# tests/simulation/broken_models/NAME.patch begins with "breaks: ...", the rule, and "judge: ...", the test program.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=once
names=()
while (($# > 0)); do
  case $1 in
    --preset) preset=$2 && shift 2 ;;
    *) names+=("$1") && shift ;;
  esac
done
if ((${#names[@]} == 0)); then
  for patch in tests/simulation/broken_models/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

build=$PWD/build/$preset
# Which test of the program fails; "" if none does.
failing_test() { # PROGRAM
  local tests said failed
  for tests in '-EnsembleLease.*:EnsembleStorm.*' 'EnsembleStorm.*' 'EnsembleLease.*'; do  # What takes longest is asked last.
    said=$(timeout 600 "$1" --gtest_fail_fast --gtest_filter="$tests" 2>&1 || :)
    failed=$(sed -n 's/^\[  FAILED  \] \([A-Za-z]*\.[A-Za-z]*\).*/\1/p' <<<"$said" | sort -u | head -n 1)
    if [[ -z $failed && $said != *'[  PASSED  ]'* ]]; then
      failed=$(sed -n 's/^\[ RUN      \] \(.*\)/\1, which did not end/p' <<<"$said" | tail -n 1)
      [[ -n $failed ]] || { printf 'broken_models: %s does not run:\n%s\n' "$1" "$said" >&2; exit 1; }
    fi
    [[ -z $failed ]] || break
  done
  printf '%s' "$failed"
}

unnoticed=0
for judge in $(sed -n 's/^judge: //p' tests/simulation/broken_models/*.patch | sort -u); do
  failed=$(failing_test "$build/tests/$judge")
  [[ -z $failed ]] || { echo "broken_models: $failed fails with the model as it is" >&2; exit 1; }
done
for name in "${names[@]}"; do
  patch=$PWD/tests/simulation/broken_models/$name.patch
  judge=$(sed -n 's/^judge: //p' "$patch")
  work=$PWD/build/broken_models/$name
  rm -rf "$work" && mkdir -p "$work"
  cp -a simulation "$work/"
  patch -s -p1 -d "$work" <"$patch"
  for source in "$work"/simulation/servers/*.cpp; do
    printf '#include "simulation/servers/%s"\n' "$(basename "$source")"
  done >"$work/servers.cpp"
  ${CXX:-g++} -std=c++20 -O1 -g1 -I"$work" -I. -Iinclude -c "$work/servers.cpp" -o "$work/servers.o"
  # The link of the test program as it is, with the broken servers before all others.
  link=$(ninja -C "$build" -t commands "$judge" | tail -n 1 | sed -e 's/^: && //' -e 's/ && :$//' -e 's/-fuse-ld=gold//')
  broken=${link/ -o tests\/$judge / "$work/servers.o" -Wl,-z,muldefs -o "$work/judge" }
  [[ $broken != "$link" ]] || { echo "broken_models: how $judge is linked is not understood: $link" >&2; exit 1; }
  (cd "$build" && $broken)
  noticed=$(failing_test "$work/judge")
  [[ -n $noticed ]] || unnoticed=1
  printf '%-42s %s\n' "$name" "${noticed:-NOT NOTICED by $judge}"
done
exit $unnoticed
