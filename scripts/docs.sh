#!/usr/bin/env bash
# Builds the site from docs/ and the public headers, without a network: build/site/html/index.html. Needs Debian's
# python3-sphinx, python3-myst-parser, python3-breathe, furo, doxygen and plantuml; installs what is missing.
#
#   scripts/docs.sh                  a warning is an error: a page that nothing links, a declaration without a comment
#     --no-setup                     do not look for missing packages
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

setup=1
while (($#)); do
  case $1 in
    --no-setup) setup=0; shift ;;
    -h | --help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "docs: unknown option $1 (see --help)" >&2; exit 2 ;;
  esac
done
((!setup)) || scripts/setup.sh --docs

site=build/site
rm -rf "$site"
mkdir -p "$site"
{ cat docs/site/Doxyfile; echo "OUTPUT_DIRECTORY = $site/doxygen"; } >"$site/Doxyfile"
doxygen "$site/Doxyfile" 2>"$site/doxygen.log"
# It does not find the scope of specialisations of other namespaces' templates, which are left out anyway.
if grep -v 'Internal inconsistency: scope for class' "$site/doxygen.log" >&2; then
  echo "docs: FAILED: the headers, see above" >&2
  exit 1
fi

/usr/bin/python3 docs/site/prepare.py . "$site/source"
ZKRECIPES_DOXYGEN_XML=$PWD/$site/doxygen/xml sphinx-build -W --keep-going -n -q -j auto -c docs/site -b html \
  "$site/source" "$site/html"
/usr/bin/python3 docs/site/bundle_theme.py "$site/html"
echo "docs: $site/html/index.html"
