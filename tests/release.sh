#!/usr/bin/env bash
# scripts/release.sh, tried on a copy of what it touches. Argument: the project's folder.
set -euo pipefail
command -v git >/dev/null || { echo "skipped: git is not installed"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$1" && cp -r --parents -t "$work" CMakeLists.txt CHANGELOG.md README.md SECURITY.md Dockerfile cmake docs examples packaging \
  scripts tests/install)
cd "$work"
change() { sed -i 's/^## \[Unreleased\]$/&\n\n### Fixed\n\n- This./' CHANGELOG.md; }
change  # Right after a release there is none.
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a.invalid GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a.invalid
git init --quiet --initial-branch main
git add --all
git commit --quiet --message begin

fail() { echo "release test: $*"; exit 1; }
refused() {  # WHY ARGUMENTS...
  local why=$1 said
  shift
  if said=$(scripts/release.sh "$@" 2>&1); then fail "it took: $*"; fi
  [[ $said == *"$why"* ]] || fail "for $* it said: $said"
  [[ -z $(git status --porcelain) || $why == *clean* ]] || fail "a refusal of $* changed something"
}

refused "no version" 1.2
refused "no version" v1.2.3
refused "no date" --date tomorrow 9.0.0
refused "older" 0.0.1
refused "unknown option" --force 9.0.0
touch stray
refused "not clean" 9.0.0
rm stray
git switch --quiet --create side
refused "branch main" 9.0.0
git switch --quiet main

before=$(git rev-parse HEAD)
current=$(sed -n 's/^  VERSION \([0-9.]*\)$/\1/p' CMakeLists.txt)
series=$(cmake -P cmake/ZkrSeries.cmake)
scripts/release.sh --dry-run 7.8.9 | grep '^+  VERSION 7.8.9$' >/dev/null || fail "the dry run does not show the version"
[[ $(git rev-parse HEAD) == "$before" && -z $(git status --porcelain) ]] || fail "the dry run changed something"

released() {  # VERSION SERIES: says what is there after a release of it.
  local entries
  grep -q "^  VERSION $1\$" CMakeLists.txt || fail "CMakeLists.txt"
  grep -q "\"version\": \"$1\"" packaging/vcpkg/ports/zkrecipes/vcpkg.json || fail "vcpkg.json"
  grep -q "^Package: libzkrecipes$2\$" packaging/debian/control || fail "the runtime package's name"
  grep -q "libzkrecipes$2,runtime" packaging/debian/rules || fail "the rules for the runtime package"
  grep -q "packages/libzkrecipes$2_" docs/install.md || fail "the runtime package's name in the guide"
  grep -q "^find_package(zkrecipes $2 REQUIRED)" docs/install.md || fail "the version to ask for in the guide"
  [[ $(head -1 packaging/debian/changelog) == "zkrecipes ($1-1)"* ]] || fail "Debian's changelog"
  entries=$(grep -c "^zkrecipes ($1-" packaging/debian/changelog)
  ((entries == 1)) || fail "Debian's changelog has $entries entries of $1"
  [[ $(tail -n 1 packaging/debian/changelog) == ' -- '* ]] || fail "Debian's changelog does not end with an entry"
  grep -q 'Mon, 03 Feb 2031 12:00:00 +0000$' packaging/debian/changelog || fail "the date in Debian's changelog"
  sed -n "/^## \[Unreleased\]\$/,/^## \[$1/p" CHANGELOG.md | tr -d '\n' | grep -x "## \[Unreleased\]## \[$1\] - 2031-02-03" >/dev/null ||
    fail "CHANGELOG.md"
  [[ $(git cat-file -t "v$1") == tag && -z $(git status --porcelain) ]] || fail "no tag, or something is left"
  git tag --list --format '%(contents)' "v$1" | grep '^###* ' >/dev/null || fail "the tag does not tell the changes"
}
nothing_says() {  # VERSION SERIES: of a release before. Changelogs may.
  local said
  said=$(git grep -nE "zkrecipes[- (]*${2//./\\.}([^.0-9]|\.x|\$)|\.so\.${2//./\\.}|(^|[^.0-9])${1//./\\.}([^.0-9]|\$)" -- . \
    ':!CHANGELOG.md' ':!packaging/debian/changelog' ':!packaging/abi' || true)
  [[ -z $said ]] || fail "this still is about $1: $said"
}
again() { git reset --quiet --hard "$before" && git tag --delete "$1" >/dev/null; }

# The first release: packages of its version were built before.
scripts/release.sh --date 2031-02-03 "$current" >/dev/null
released "$current" "$series"
again "v$current"

next=${series%.*}.$((${series#*.} + 1))  # Before 1.0: the next minor version breaks programs.
if [[ $series == *.* ]]; then
  scripts/release.sh --date 2031-02-03 "$next.0" >/dev/null
  released "$next.0" "$next"
  nothing_says "$current" "$series"
  again "v$next.0"
fi

scripts/release.sh --date 2031-02-03 7.8.9 >/dev/null
released 7.8.9 7
nothing_says "$current" "$series"
refused "there already" 7.8.9
refused "nothing" 7.9.0
# From 1.0 on a minor version breaks nothing.
change
git commit --quiet --all --message more
scripts/release.sh --date 2031-02-03 7.9.0 >/dev/null
released 7.9.0 7
