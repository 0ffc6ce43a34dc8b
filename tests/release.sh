#!/usr/bin/env bash
# scripts/release.sh, tried on a copy of what it touches. Argument: the project's folder.
set -euo pipefail
command -v git >/dev/null || { echo "skipped: git is not installed"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$1" && cp -r --parents -t "$work" CMakeLists.txt CHANGELOG.md packaging scripts/release.sh scripts/package_test.sh)
cd "$work"
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
scripts/release.sh --dry-run 7.8.9 | grep '^+  VERSION 7.8.9$' >/dev/null || fail "the dry run does not show the version"
[[ $(git rev-parse HEAD) == "$before" && -z $(git status --porcelain) ]] || fail "the dry run changed something"

scripts/release.sh --date 2031-02-03 7.8.9 >/dev/null
grep -q '^  VERSION 7.8.9$' CMakeLists.txt || fail "CMakeLists.txt"
grep -q '"version": "7.8.9"' packaging/vcpkg/ports/zkrecipes/vcpkg.json || fail "vcpkg.json"
grep -q '^Package: libzkrecipes7$' packaging/debian/control || fail "the runtime package's name"
grep -q 'libzkrecipes7,runtime' packaging/debian/rules || fail "the rules for the runtime package"
[[ $(head -1 packaging/debian/changelog) == 'zkrecipes (7.8.9-1)'* ]] || fail "Debian's changelog"
grep -q 'Mon, 03 Feb 2031 12:00:00 +0000$' packaging/debian/changelog || fail "the date in Debian's changelog"
sed -n '/^## \[Unreleased\]$/,/^## \[7/p' CHANGELOG.md | tr -d '\n' | grep -x '## \[Unreleased\]## \[7.8.9\] - 2031-02-03' >/dev/null ||
  fail "CHANGELOG.md"
[[ $(git cat-file -t v7.8.9) == tag && -z $(git status --porcelain) ]] || fail "no tag, or something is left"
git tag --list --format '%(contents)' v7.8.9 | grep '^### Added' >/dev/null || fail "the tag does not tell the changes"
refused "there already" 7.8.9
refused "nothing" 7.9.0
