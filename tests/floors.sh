#!/usr/bin/env bash
# Refuses an include that runs up or across a floor: docs/architecture.md has the floors. Argument: the project's folder.
set -euo pipefail
cd "$1"

wrong=0
# refuse FOLDER PATTERN WHY: no file below FOLDER includes a quoted header that matches PATTERN.
refuse() {
  local found
  if found=$(grep -rnE --include='*.[ch]pp' "^#include [<\"]($2)" "$1"); then
    echo "$found"
    echo "  $3"
    wrong=1
  fi
}

families=(locks elections barriers queues commit)
for family in "${families[@]}"; do
  [[ -d recipes/$family ]] || { echo "recipes/$family is missing"; exit 1; }
  for other in "${families[@]}"; do
    [[ $other == "$family" ]] || refuse "recipes/$family" "recipes/$other/" "A family includes no other family."
  done
  refuse recipes/kernel "recipes/$family/" "The kernel knows no family."
done
below='zkclient/detail/([^r]|r[^e]|re[^c])'
refuse recipes "$below" "Recipes include zkclient/detail/recipe_api.hpp, and nothing else of the client's inside."
refuse recipes 'zookeeper/|boost/' "Recipes know neither the C client nor Boost."
refuse zkclient 'recipes/|zkrecipes/' "The client knows no recipe."
refuse zkclient/detail/loop 'zkclient/detail/(session|connection|watches|lease|servers|requests)/' "The loop knows nothing above it."
refuse include 'zkclient/detail/(loop|session|connection|watches|lease|servers|requests)/|recipes/' \
  "What users include is installed, and the insides are not."
exit $wrong
