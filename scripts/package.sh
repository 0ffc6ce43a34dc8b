#!/usr/bin/env bash
# Builds the Debian packages of the last commit into build/packages, and checks them: lintian, what the shared libraries
# export, and the ABI. A compile of the libraries: some minutes. scripts/package_test.sh installs and uses them.
#
#   scripts/package.sh
#     --output DIR      where to; default: build/packages
#     --check           build once more, from another path, with another umask, time zone and language: the same bytes?
#     --update-abi      write symbols and layouts to packaging/abi instead of comparing them
#     --no-setup        do not look for missing packages
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

output=$root/build/packages check=0 update=0 setup=1
while (($#)); do
  case $1 in
    --output)
      (($# >= 2)) || { echo "package: --output needs a value" >&2; exit 2; }
      output=$(realpath -m "$2"); shift 2
      ;;
    --check) check=1; shift ;;
    --update-abi) update=1; shift ;;
    --no-setup) setup=0; shift ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "package: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done
started=$SECONDS
say() { printf 'package: %s (%d s)\n' "$*" $((SECONDS - started)); }
die() { printf 'package: FAILED: %s\n' "$@" >&2; exit 1; }
((!setup)) || scripts/setup.sh --package

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$(sed -n 's/^  VERSION \([0-9.]*\)$/\1/p' CMakeLists.txt)
series=$(cmake -P cmake/ZkrSeries.cmake)
[[ $(dpkg-parsechangelog -l packaging/debian/changelog -S Version) == "$version"-* ]] ||
  die "packaging/debian/changelog is not about $version, which CMakeLists.txt says"
grep -qx "Package: libzkrecipes$series" packaging/debian/control ||
  die "packaging/debian/control has no package libzkrecipes$series, of the soversion"

# All that may differ between two builds comes from the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
jobs=$(nproc)

build() {  # $1: a folder for the sources, $2: where the packages go to
  mkdir -p "$1/source" "$2"
  git archive HEAD | tar -x -C "$1/source"
  cp -r "$1/source/packaging/debian" "$1/source/debian"
  (cd "$1/source" && DEB_BUILD_OPTIONS="parallel=$jobs" dpkg-buildpackage -b -us -uc) >"$1/build.log" 2>&1 ||
    { tail -n 40 "$1/build.log" >&2; cp "$1/build.log" "$2/"; die "the build, see above and $2/build.log"; }
  mv "$1"/*.deb "$2/"
}

[[ -z $(git status --porcelain) ]] || say "the packages are those of the last commit; what is not committed is not in them"
rm -rf "$output"
say "building in $work"
build "$work/first" "$output"

# --- The same bytes? ----------------------------------------------------------------------------
if ((check)); then
  again=$work/a/second/place
  say "building again"
  (umask 077 && export TZ=Pacific/Auckland LC_ALL=C.UTF-8 && build "$again" "$work/again")
  (cd "$output" && sha256sum -- *.deb) >"$work/first.sums"
  (cd "$work/again" && sha256sum -- *.deb) >"$work/again.sums"
  if ! diff "$work/first.sums" "$work/again.sums"; then
    rm -rf "$output.again"
    cp -r "$work/again" "$output.again"
    die "two builds differ, see above: compare $output and $output.again with diffoscope"
  fi
  say "the same bytes twice"
fi

# --- What the libraries show ----------------------------------------------------------------------
for package in "$output"/*.deb; do dpkg-deb -x "$package" "$work/tree"; done
libraries=()
for library in zkclient zkrecipes; do
  static=$(find "$work/tree/usr/lib" -name "lib$library.a")
  shared=$(find "$work/tree/usr/lib" -name "lib$library.so.$version")
  libraries+=("$static" "$shared")
  readelf --dynamic "$shared" >"$work/dynamic"
  grep -q "Library soname: \[lib$library.so.$series\]" "$work/dynamic" || die "$shared: the soname is another one"
  ! grep -E 'RPATH|RUNPATH' "$work/dynamic" || die "$shared has a path for libraries"
done
tests/linking/symbols.sh nm "${libraries[@]}" || die "symbols, see above"

# The ABI is the exported symbols, and how public types lie in memory. Symbols of lambdas, templates and inline functions
# are left out: whether they are there depends on the compiler's mood, and who uses them has them.
abi() {  # $1: a library
  nm --dynamic --demangle --defined-only "$1" |
    sed -nE '/\{lambda/d; s/^[0-9a-f]* [BDRT] (zk)/\1/p; s/^[0-9a-f]* V ((vtable|typeinfo) for zk)/\1/p' | LC_ALL=C sort -u
}
status=0
compare() {  # $1: a list in packaging/abi, $2: what it should be
  if ((update)); then
    cp "$2" "packaging/abi/$1"
  elif ! diff -u "packaging/abi/$1" "$2"; then
    status=1
  fi
}
for library in zkclient zkrecipes; do
  abi "$(find "$work/tree/usr/lib" -name "lib$library.so.$version")" >"$work/abi"
  compare "lib$library.symbols" "$work/abi"
done
packaging/abi/layout.py "$work/first/source/include" >"$work/layout" || die "the layout of types, see above"
compare layout.txt "$work/layout"
((!status)) || die "the ABI changed, see above. A symbol that is gone breaks programs, and so does a type with another layout: raise the" \
  "minor number (from 1.0 on the major one). Then, or if symbols and types came only: scripts/package.sh --update-abi"

# --- lintian --------------------------------------------------------------------------------------
# The tag that is left out asks for a bug of Debian's that the first upload closes. Nobody uploads these packages.
lintian --fail-on error,warning --tag-display-limit 0 --allow-root --suppress-tags initial-upload-closes-no-bugs \
  "$output"/*.deb || die "lintian, see above"
ls -l "$output"
say "done"
