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

families=(locks elections barriers queues commit views groups discovery values configuration coherent migrations partitions replication jobs nodes)
for family in "${families[@]}"; do
  [[ -d recipes/$family ]] || { echo "recipes/$family is missing"; exit 1; }
  for other in "${families[@]}"; do
    [[ $other == "$family" ]] || refuse "recipes/$family" "recipes/$other/" "A family includes no other family."
  done
  refuse recipes/kernel "recipes/$family/" "The kernel knows no family."
  refuse "recipes/$family" "recipes/inspection/" "It stands above the families."
done
refuse recipes/kernel "recipes/inspection/" "It stands above the families."
below='zkclient/detail/([^r]|r[^e]|re[^c])'
refuse recipes "$below" "Recipes include zkclient/detail/recipe_*.hpp, and nothing else of the client's inside."
refuse recipes 'zookeeper/|boost/' "Recipes know neither the C client nor Boost."
refuse zkclient 'recipes/|zkrecipes/' "The client knows no recipe."
for library in zkclient zktesting; do
  refuse $library 'boost/' "The libraries do without Boost; opt-in headers and what users compile may need it."
done

# The rooms of the client from the ground up: NAME MAY_INCLUDE...
rooms=(
  "loop"
  "metrics loop"
  "requests loop"
  "servers loop"
  "watches loop"
  "lease loop requests"
  "connection loop requests servers metrics"
  "session loop requests servers watches lease connection metrics"
  "calls loop requests servers watches lease connection session metrics"
)
names=("${rooms[@]%% *}")
for folder in zkclient/detail/*/; do
  [[ " ${names[*]} " == *" $(basename "$folder") "* ]] || { echo "$folder is not among the rooms above."; wrong=1; }
done
for room in "${rooms[@]}"; do
  read -r name allowed <<<"$room"
  [[ -d zkclient/detail/$name ]] || { echo "zkclient/detail/$name is missing"; exit 1; }
  for other in "${names[@]}"; do
    [[ " $room " == *" $other "* ]] ||
      refuse "zkclient/detail/$name" "zkclient/detail/$other/" "The room $name includes only: ${allowed:-itself}."
  done
  refuse "zkclient/detail/$name" 'zkclient/detail/recipe_' "This header is for recipes."
  [[ $name == connection ]] || refuse "zkclient/detail/$name" 'zookeeper/' "Only the room connection knows the C client."
done
insides=$(IFS='|' && echo "${names[*]}")
refuse include "zkclient/detail/($insides)/|recipes/" "What users include is installed, and the insides are not."
exit $wrong
