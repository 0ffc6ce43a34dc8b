#!/usr/bin/env bash
# Builds the project and runs its tests. Works alone, from any directory, on a fresh Debian 12.
#
#   scripts/test.sh                    all tests; preset dev if that was built before, else once, which is quicker from nothing
#     --preset NAME                    dev, once, release, asan, tsan, clang, clang-asan, clang-tsan; tls, tls-asan, tls-tsan (build_tls_client.sh)
#     --label LABEL                    only unit, integration, faults, interop or docker (may be repeated)
#     --tests REGEX                    only tests whose name matches
#     --repeat N                       run each test N times, stop it at its first failure
#     --stops                          stop test programs for 2 s at random instants meanwhile: none may fail (stop_at_random.sh)
#     --jobs N                         tests at the same time (default: 5 per processor, as they mostly wait; with a sanitizer 3)
#     --no-setup                       do not look for missing packages
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

preset=once labels='' tests='' repeat='' jobs='' setup=1 build_it=1 test_it=1 stops=0
[[ ! -d $root/build/dev ]] || preset=dev
usage() { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
while (($#)); do
  case $1 in
    --preset | --label | --tests | --repeat | --jobs)
      (($# >= 2)) || { echo "test: $1 needs a value" >&2; exit 2; }
      case $1 in
        --preset) preset=$2 ;;
        --label) labels+="${labels:+|}^$2\$" ;;
        --tests) tests=$2 ;;
        --repeat) repeat=$2 ;;
        --jobs) jobs=$2 ;;
      esac
      shift 2
      ;;
    --no-setup) setup=0; shift ;;
    --stops) stops=1; shift ;;
    --build-only) test_it=0; shift ;;
    --no-build) build_it=0; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done
((build_it || test_it)) || { echo "test: --build-only and --no-build leave nothing to do" >&2; exit 2; }
[[ -z $repeat || $repeat =~ ^[1-9][0-9]*$ ]] || { echo "test: --repeat $repeat" >&2; exit 2; }
if [[ -z $jobs ]]; then
  jobs=$((5 * $(nproc)))
  [[ $preset != *san ]] || jobs=$((3 * $(nproc)))
fi
[[ $jobs =~ ^[1-9][0-9]*$ ]] || { echo "test: --jobs $jobs" >&2; exit 2; }

bold='' red='' green='' plain=''
if [[ -t 1 ]]; then
  bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi
started=$SECONDS
step() { printf '%s== %s%s (%d s)\n' "$bold" "$*" "$plain" $((SECONDS - started)); }

cd "$root"
if ((setup)); then
  step "setup"
  options=(--tests)
  [[ $preset != clang* ]] || options+=(--clang)
  [[ $preset != tls* ]] || options+=(--tls)
  scripts/setup.sh "${options[@]}"
fi

if [[ $preset == tls* ]] && ((build_it)); then
  step "C client"
  scripts/build_tls_client.sh
fi

# A compiler cache, where there is one, serves all checkouts of the project. A precompiled header is bound to the text of
# its headers, comments and macros too. So the cache must compare that, and not what the preprocessor makes of it; and take
# nothing that it has kept by the other rule.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
export CCACHE_DEPEND=1 CCACHE_NAMESPACE=depend

build=$root/build/$preset
if ((build_it)); then
  step "configure: preset $preset"
  cmake --preset "$preset"
  step "build"
  cmake --build --preset "$preset"
fi
built=$SECONDS
if ((!test_it)); then
  step "built: preset $preset"
  exit 0
fi

# ThreadSanitizer of g++ 12 cannot start where the kernel randomises addresses widely.
runner=()
if [[ $preset == *tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
  runner=(setarch "$(uname -m)" -R)
fi

step "test"
junit=$build/test-results.xml
rm -f "$junit"
arguments=(--preset "$preset" --output-on-failure --no-tests=error -j "$jobs"
  --output-junit "$junit" --test-output-size-passed 1000000)
[[ -z $labels ]] || arguments+=(-L "$labels")
[[ -z $tests ]] || arguments+=(-R "$tests")
[[ -z $repeat ]] || arguments+=(--repeat "until-fail:$repeat")
if ((stops)); then
  scripts/stop_at_random.sh "$build" &
  stopper=$!
  trap 'kill "$stopper" 2>/dev/null || true' EXIT
fi
status=0
"${runner[@]+"${runner[@]}"}" ctest "${arguments[@]}" | tee "$build/ctest.log" || status=$?

# --- Summary -----------------------------------------------------------------------------------

log=$build/test.log  # kept, because ctest -N below starts a new LastTest.log
cp "$build/Testing/Temporary/LastTest.log" "$log" 2>/dev/null || : >"$log"
step "summary: preset $preset"
if [[ -r $junit ]]; then
  {
    # Which test has which label, then the results.
    for label in unit integration faults interop docker; do
      ctest --preset "$preset" -N -L "^$label\$" | sed -n "s/^ *Test *#[0-9]*: */LABEL $label /p"
    done
    cat "$junit"
  } | awk '
    function attribute(name) {
      if (!match($0, " " name "=\"[^\"]*\"")) return ""
      return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    }
    /^LABEL / { label_of[$3] = $2 }
    /^\t<testcase / {
      result = attribute("status"); test = attribute("name")
      label = test in label_of ? label_of[test] : "(no label)"
      labels[label]; seconds[label] += attribute("time")
      if (result == "run") passed[label]++
      else if (result == "fail") { failed[label]++; bad = bad "  failed: " test "\n" }
      else { not_run[label]++; bad = bad "  not run: " test "\n" }
    }
    END {
      printf "%-12s %7s %7s %8s %9s\n", "label", "passed", "failed", "not run", "time"
      sort = "sort"
      for (label in labels)
        printf "%-12s %7d %7d %8d %7.1f s\n", label, passed[label], failed[label],
               not_run[label], seconds[label] | sort
      close(sort)
      printf "%s", bad
    }'
fi
if [[ -r $log ]]; then
  awk '
    /^\[  PASSED  \] [0-9]+ test/ { passed += $4 }
    /^\[  FAILED  \] [0-9]+ test/ { failed += $4 }
    /^\[  SKIPPED \] [0-9]+ test/ { skipped += $4; next }
    /^\[  SKIPPED \] [A-Za-z0-9_\/]+\.[A-Za-z0-9_\/]+$/ { sub(/\..*/, "", $4); ++of_suite[$4] }
    END {
      printf "cases: %d passed, %d failed, %d skipped", passed, failed, skipped
      for (suite in of_suite) printf "%s %s %d", separator++ ? "," : ":", suite, of_suite[suite]
      printf "\n"
    }' "$log"
  awk -f scripts/failures.awk "$log" | tee "$build/failures.txt"
fi
printf 'time: %d s, of which build %d s\n' $((SECONDS - started)) $((built - started))
printf 'logs: %s, %s\n' "${log#"$root"/}" "${junit#"$root"/}"

# The closing line of ctest once more, as the last word.
colour=$green
((status == 0)) || colour=$red
printf '%s%s%s\n' "$colour" \
  "$(grep -E '^[0-9]+% tests passed' "$build/ctest.log" || echo 'no test was run')" "$plain"
exit "$status"
