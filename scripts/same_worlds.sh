#!/usr/bin/env bash
# Plays the same worlds with two builds, and compares the hashes of all that has happened in them. A seed is a world, whatever
# a compiler and a sanitizer made of the code: if not, a failure that one build finds is not found again in the other.
#   scripts/same_worlds.sh [--presets FIRST,SECOND] [--seeds FIRST-LAST] [--workload NAME,...]
#
# Without options: once and clang-asan, which have other compilers, seeds 1 to 2, all workloads. simulated_storm must be built in both.
set -euo pipefail
cd "$(dirname "$0")/.."

presets=once,clang-asan
seeds=1-2
worlds=()
while (($# > 0)); do
  case $1 in
    --presets) presets=$2 && shift 2 ;;
    --seeds) seeds=$2 && shift 2 ;;
    --workload) worlds=(--workload "$2") && shift 2 ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "same_worlds: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
names=("${presets%,*}" "${presets#*,}")
for name in "${names[@]}"; do
  # A killed process of a world leaves its memory behind. A world that fails is no business of this script.
  ASAN_OPTIONS=detect_leaks=0 "build/$name/storm/simulated_storm" "${worlds[@]}" --seeds "$seeds" --processor-time 600 --trace \
    >"$folder/output" || (($? == 1))
  grep -E '^[a-z-]+ [0-9]+ [0-9a-f]{16} [0-9]+$' "$folder/output" >"$folder/$name"
done
total=$(wc -l <"$folder/${names[0]}")
if ! diff --unified=0 --label "${names[0]}" --label "${names[1]}" "$folder/${names[0]}" "$folder/${names[1]}"; then
  echo "same_worlds: FAILED: these worlds (workload, seed, hash, turns) differ" >&2
  exit 1
fi
echo "same_worlds: $total worlds are the same in ${names[0]} and ${names[1]}"
