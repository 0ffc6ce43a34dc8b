#!/usr/bin/env bash
# Cuts a release: writes the version where it stands, closes the changelog's section, commits and tags. Pushes nothing.
#
#   scripts/release.sh VERSION           MAJOR.MINOR.PATCH; on a clean tree of branch main
#     --date YYYY-MM-DD                  default: today
#     --dry-run                          show what would change, and change nothing
#
# Versions follow semver. A version that may break programs is of another series (cmake/ZkrSeries.cmake): it has a new
# soversion, and the runtime package has a new name. docs/compatibility.md has the promise.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
fail() { echo "release: $*" >&2; exit 2; }

version='' date=$(date +%F) dry=0
while (($#)); do
  case $1 in
    --date) (($# >= 2)) || fail "--date needs a value"; date=$2; shift 2 ;;
    --dry-run) dry=1; shift ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) fail "unknown option $1 (see --help)" ;;
    *) [[ -z $version ]] || fail "one version, not two: $version and $1"; version=$1; shift ;;
  esac
done
[[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$ ]] || fail "'$version' is no version: MAJOR.MINOR.PATCH"
[[ $date =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || fail "'$date' is no date: YYYY-MM-DD"

[[ $(git branch --show-current) == main ]] || fail "releases are cut on branch main"
[[ -z $(git status --porcelain) ]] || fail "the tree is not clean: commit or stash first"
if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then fail "v$version is there already"; fi

series() { cmake -D "version=$1" -P cmake/ZkrSeries.cmake; }
current=$(sed -n 's/^  VERSION \([0-9.]*\)$/\1/p' CMakeLists.txt)
newest=$(printf '%s\n' "$current" "$version" | sort -V | tail -1)
[[ $newest == "$version" ]] || fail "$version is older than $current"

notes=$(awk '/^## \[Unreleased\]/ { inside = 1; next } /^## \[/ { inside = 0 } inside' CHANGELOG.md)
[[ -n ${notes//[[:space:]]/} ]] || fail "CHANGELOG.md says of nothing that it is unreleased"

sed -i "s/^  VERSION $current\$/  VERSION $version/" CMakeLists.txt
sed -i "s/^\(  \"version\": \"\)[0-9.]*\"/\1$version\"/" packaging/vcpkg/ports/zkrecipes/vcpkg.json
sed -i "s/^## \[Unreleased\]\$/## [Unreleased]\n\n## [$version] - $date/" CHANGELOG.md
former=$(series "$current") next=$(series "$version")
if [[ $former != "$next" ]]; then  # The runtime package is named after it, and the guides ask for it.
  sed -i -E "s/(\bzkrecipes )${former//./\\.}( REQUIRED)/\1$next\2/g; s/(\blibzkrecipes)${former//./\\.}([^.0-9]|\$)/\1$next\2/g" \
    packaging/debian/control packaging/debian/rules docs/install.md
fi
# An entry of this version is one of packages from before the release: it is replaced.
entries=$(sed "/^zkrecipes (${version//./\\.}-/,/^ -- /d" packaging/debian/changelog | sed '/./,$!d')
{
  printf 'zkrecipes (%s-1) unstable; urgency=medium\n\n  * Release %s; CHANGELOG.md has the changes.\n\n' "$version" "$version"
  printf ' -- zkrecipes maintainers <maintainers@zkrecipes.invalid>  %s\n' \
    "$(LC_ALL=C date --utc --date="$date 12:00 UTC" '+%a, %d %b %Y %H:%M:%S +0000')"
  [[ -z $entries ]] || printf '\n%s\n' "$entries"
} >packaging/debian/changelog.new
mv packaging/debian/changelog.new packaging/debian/changelog

if ((dry)); then
  changes=$(git --no-pager diff)
  git checkout --quiet -- .  # First: the reader of the output may not read it to its end.
  printf '%s\n' "$changes"
  exit 0
fi
git commit --quiet --all --message "Release $version" --message "CHANGELOG.md has what users will notice."
git tag --annotate "v$version" --cleanup=verbatim --message "zkrecipes $version
$notes"
echo "release: v$version is committed and tagged. To publish it: git push origin main v$version"
if [[ $former != "$next" ]]; then
  echo "release: the soversion is $next now. scripts/package.sh --update-abi writes its first list of symbols."
fi
