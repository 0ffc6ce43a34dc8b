#!/usr/bin/env bash
# compile.sh ROOT FOLDER COMPILER [FLAG...]: checks the syntax of all cpp blocks of the guides. FOLDER gets the source.
set -euo pipefail

root=$1 folder=$2 compiler=$3
shift 3
if ! command -v python3 >/dev/null; then
  echo 'skipped: there is no python3'
  exit 77
fi
mkdir -p "$folder"
python3 "$root/tests/docs/blocks.py" "$root" >"$folder/blocks.cpp"
# A block shows a name and does not use it; a main() in a namespace has to return something.
exec "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Wno-unused -Wunused-result -Wno-unused-parameter \
  -Wno-return-type -I"$root" "$@" "$folder/blocks.cpp"
