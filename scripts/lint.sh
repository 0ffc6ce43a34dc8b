#!/usr/bin/env bash
# Checks formatting (clang-format) and a short list of mistakes (clang-tidy). Needs version 14.
#
#   scripts/lint.sh             both, everything
#     --format                  only formatting
#     --fix                     only formatting, and correct it
#     --library                 clang-tidy only for the libraries, one folder at a time, so a missing include is not seen
#     --simulation              the same for the simulated world and its storm; with --library, for both
#     --changed [BASE]          only files that differ from BASE (default HEAD)
#     --no-setup                do not look for missing packages
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

tidy=1 fix=0 rooms='' changed='' setup=1
while (($#)); do
  case $1 in
    --format) tidy=0; shift ;;
    --fix) tidy=0 fix=1; shift ;;
    --library) rooms+="${rooms:+|}zkclient|recipes|zktesting|tools"; shift ;;
    --simulation) rooms+="${rooms:+|}simulation|storm"; shift ;;
    --changed)
      changed=HEAD; shift
      if (($#)) && [[ $1 != --* ]]; then changed=$1; shift; fi
      ;;
    --no-setup) setup=0; shift ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "lint: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done
started=$SECONDS
((!setup)) || scripts/setup.sh --lint

# Every C++ file of ours.
folders=()
for folder in include zkclient recipes zktesting simulation storm tests examples bench tools; do
  [[ ! -d $folder ]] || folders+=("$folder")
done
mapfile -t files < <(find "${folders[@]}" -name '*.[ch]pp' | sort)
if [[ -n $changed ]]; then
  mapfile -t files < <(comm -12 <(printf '%s\n' "${files[@]}") \
    <({ git diff --name-only "$changed" --; git ls-files --others --exclude-standard; } | sort -u))
fi
if ((${#files[@]} == 0)); then
  echo "lint: no files"
  exit 0
fi

if ((fix)); then
  clang-format -i "${files[@]}"
  echo "lint: formatted ${#files[@]} files"
  exit 0
fi

echo "lint: clang-format, ${#files[@]} files"
unformatted=$(clang-format --dry-run "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: .*/  \1/p' | uniq -c)
if [[ -n $unformatted ]]; then
  printf 'lint: FAILED: formatting differs (places, file). Correct it: scripts/lint.sh --fix\n%s\n' \
    "$unformatted" >&2
  exit 1
fi

if ((tidy)); then
  mkdir -p build
  # clang-tidy reads here how each file is compiled. Without precompiled headers, so that a file has to include what it
  # uses. And without the flags that only g++ knows.
  joined=OFF extra=()
  if [[ -n $rooms && -z $changed ]]; then
    # Reading the standard library and walking through it takes longer than our sources: ten of them share that.
    joined=ON
    extra=(--header-filter="/(include|$rooms)/.*\.[ch]pp\$" --checks=-bugprone-suspicious-include)
  fi
  rm -rf build/lint  # It may be of the other kind, or of another compiler, and CMake leaves the database out then.
  cmake --preset dev -B build/lint -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON -D CMAKE_CXX_FLAGS= \
    -D ZKRECIPES_JOIN_SOURCES=$joined >build/lint-configure.log 2>&1 ||
    { cat build/lint-configure.log >&2; echo "lint: FAILED: configuring" >&2; exit 1; }
  database=build/lint/compile_commands.json
  if [[ $joined == ON ]]; then
    mapfile -t sources < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$database" |
      grep -E "^$root/(build/lint/)?($rooms)/" | sort -u)
  else
    sources=()
    for file in "${files[@]}"; do
      [[ -z $rooms || $file =~ ^($rooms)/ ]] || continue
      if [[ $file == *.cpp ]] && grep -qF "\"file\": \"$root/$file\"" "$database"; then
        sources+=("$file")
      fi
    done
  fi
  if [[ ! -s $database ]] || { [[ -z $changed ]] && ((${#sources[@]} == 0)); }; then
    echo "lint: FAILED: $database names no source" >&2
    exit 1
  fi
  echo "lint: clang-tidy, ${#sources[@]} translation units"
  if ((${#sources[@]})) &&
    ! printf '%s\0' "${sources[@]}" |
      xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option \
        "${extra[@]+"${extra[@]}"}" 2>&1 |
      { grep -vE '^[0-9]+ warnings? generated|^Suppressed [0-9]+ warn|^Use -header-f' || true; }; then
    echo "lint: FAILED: clang-tidy, see above" >&2
    exit 1
  fi
fi
echo "lint: passed ($((SECONDS - started)) s)"
