#!/usr/bin/env bash
# Refuses an aggregate or an initializer list that is written with braces in a statement with co_await: g++ 12 destroys it
# twice. docs/architecture.md says what to write instead. Argument: the project's folder.
set -euo pipefail
cd "$1"

find_braces() { awk -f tests/await_braces.awk "$@"; }

# First the check itself: of its samples it reports the marked lines, and no other one.
wanted=$(grep -nH '// refused' tests/await_braces/*.cpp)
reported=$(find_braces tests/await_braces/*.cpp) || true
if ! diff <(echo "$wanted" | cut -d: -f1,2) <(echo "$reported" | cut -d: -f1,2); then
  echo "The check does not report the marked lines of tests/await_braces (< marked, > reported)."
  exit 1
fi

# asio_spellings_test.cpp is about the braces that the wrappers of asio.hpp make safe; refusals are for the compiler.
mapfile -t files < <(grep -rlw --include='*.[ch]pp' co_await recipes zkclient examples tests |
  grep -v -e '^tests/await_braces/' -e '^tests/refusals/' -e '/asio_spellings_test.cpp$' | sort)
((${#files[@]} > 0)) || { echo "there are no files with co_await"; exit 1; }
if ! find_braces "${files[@]}"; then
  echo "  Give it a name before the statement, or let a function make it."
  exit 1
fi
