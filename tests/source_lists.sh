#!/usr/bin/env bash
# source_lists.sh ROOT: the Dockerfile and the Conan recipe take a part of the checkout, by lists of their own. Each list
# has all that CMake asks for: it configures with those files alone.
set -euo pipefail

root=$1
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

configures() {  # NAME CMAKE-OPTION...; the files are in $work/NAME
  local name=$1
  shift
  cmake -S "$work/$name" -B "$work/$name-build" -G Ninja -DZKRECIPES_BUILD_TESTS=OFF -DZKRECIPES_BUILD_BENCH=OFF "$@" \
    >"$work/log" 2>&1 || { cat "$work/log"; echo "FAILED: $name lacks something, see above"; exit 1; }
  echo "$name: configured"
}
take() {  # NAME PATH...
  mkdir -p "$work/$1"
  cp --parents -r "${@:2}" "$work/$1/"
}

mapfile -t image < <(sed -n 's/^!//p' .dockerignore)
take image "${image[@]}"
configures image

mapfile -t recipe < <(sed -n '/^SOURCES = (/,/)$/p' packaging/conan/conanfile.py | grep -o '"[^"]*"' | sed 's/"//g; s,/\*$,,')
((${#recipe[@]} > 0))
take recipe "${recipe[@]}"
configures recipe -DZKRECIPES_BUILD_TESTING_LIB=ON
cmake --install "$work/recipe-build" --prefix "$work/prefix" --component doc >"$work/log" 2>&1 ||
  { cat "$work/log"; echo "FAILED: recipe lacks a guide, see above"; exit 1; }
