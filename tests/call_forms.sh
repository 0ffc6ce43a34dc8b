#!/usr/bin/env bash
# Every operation of a recipe that does I/O has a blocking and an asynchronous form. Argument: the project's folder.
set -euo pipefail
cd "$1"

# What has none, and why.
#   try_push           push with a deadline of now; async_push
#   proclaim, ready    write what the object itself remembers; a second one that overtakes the first would be lost
#   limit, set_limit   operators' tools; Client::async_get and async_set on the node
#   close              of the selector: it ends the object
exceptions='try_push proclaim ready limit set_limit close'

wrong=0
for header in include/zkrecipes/*.hpp; do
  operations=$(sed 's@//.*@@' "$header" | tr '\n' ' ' | tr ';{}' '\n\n\n' |
    grep -oE '[a-z_]+\([^()]*const zkclient::CallOptions& call *= *$|[a-z_]+\([^;]*const zkclient::CallOptions& call' |
    grep -oE '^[a-z_]+' | sort -u) || true
  for operation in $operations; do
    case $operation in void | async_* | publish | run | start | push_items) continue ;; esac
    [[ " $exceptions " == *" $operation "* ]] && continue
    if ! grep -qE "\basync_$operation\(" "$header"; then
      echo "$header: $operation() has no asynchronous form"
      wrong=1
    fi
  done
done
for operation in $(grep -hoE '\basync_[a-z_]+\(' include/zkrecipes/*.hpp | tr -d '(' | sort -u); do
  # Handlers of a participant cannot be copied into a token's operation.
  case $operation in async_push_items | async_serve) continue ;; esac
  if ! grep -qE "\b$operation\b" include/zkrecipes/asio.hpp; then
    echo "include/zkrecipes/asio.hpp: $operation() is missing"
    wrong=1
  fi
done
exit $wrong
