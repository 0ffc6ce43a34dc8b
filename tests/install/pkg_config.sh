#!/usr/bin/env bash
# Builds the consumer with a plain compiler command. Arguments: compiler, prefix, output, flags.
set -euo pipefail

compiler=$1 prefix=$2 output=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)

pkgconfig=$(find "$prefix" -type d -name pkgconfig -print -quit)
export PKG_CONFIG_PATH="$pkgconfig:${PKG_CONFIG_PATH:-}"
libdir=$(pkg-config --variable=libdir zkrecipes)

# Without --static: where there is no shared library, a static one names what it needs all the same.
read -ra flags < <(pkg-config --cflags --libs zkrecipes zktesting)
command=("$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Werror "$@" "$here/consumer.cpp"
  -o "$output" "${flags[@]}" "-Wl,-rpath,$libdir")
echo "${command[*]}"
"${command[@]}"
"$output"
