#!/usr/bin/env bash
# probes.sh ROOT LIBRARY...: the static probes in the libraries are those of the table in docs/metrics.md, with as many
# arguments.
set -euo pipefail

root=$1
shift
if ! command -v readelf >/dev/null; then
  echo 'skipped: there is no readelf'
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NAME ARGUMENTS
sed -n '/^## Probes/,/^## /s/^| `\([a-z_]*\)` | \([^|]*\) |.*/\1,\2/p' "$root/docs/metrics.md" |
  awk -F, '{print $1, NF - 1}' | sort >"$work/guide"
for library in "$@"; do
  LC_ALL=C readelf --notes --wide "$library" 2>/dev/null
done | awk '/Provider:/ {provider = $NF} /Name:/ {name = $2} /Arguments:/ && provider == "zkrecipes" {print name, NF - 1}' |
  sort -u >"$work/libraries"
[[ -s $work/guide ]] || { echo 'FAILED: the guide has no table of probes'; exit 1; }
diff "$work/guide" "$work/libraries" || { echo 'FAILED: < is what the guide says, > what the libraries have'; exit 1; }
echo "$(wc -l <"$work/guide") probes"
