#!/usr/bin/env bash
# Every operation of a recipe that does I/O has a blocking and an asynchronous form, in each class that offers it; the latter
# also for Boost.Asio; and what can be observed can be waited for. Argument: the project's folder.
set -euo pipefail
cd "$1"

# What has no asynchronous form, and why: close() ends the selector, or the job, as its destructor does.
exceptions=' LeaderSelector.close PeriodicJob.close '

# "class.function" for each public function that takes the limits of a call, and for observe(); "-.function" outside of
# classes.
functions() {
  sed 's@//.*@@; /^#/d; s/= {}//g' "$1" | tr '\n' ' ' | sed 's/[;{}]/&\n/g' | awk '
    function class_at(depth) { while (depth > 0 && !(depth in class)) --depth; return depth }
    {
      here = class_at(level)
      while (match($0, /^ *(public|protected|private):/)) {
        hidden[here] = $0 !~ /^ *public/
        $0 = substr($0, RLENGTH + 1)
      }
      head = $0
      sub(/\(.*/, "", head)
      name = head
      sub(/.*[^A-Za-z0-9_]/, "", name)
      limited = $0 ~ /const zkclient::CallOptions& call/ || name == "observe"
      if ($0 ~ /\(/ && name != "" && limited && !hidden[here]) print (here ? class[here] : "-") "." name
    }
    /\{$/ {
      ++level
      if (head ~ /^ *(class|struct) / && $0 !~ /\(/) {
        sub(/ *(: .*|\{)$/, "", head)
        class[level] = head
        sub(/.* /, "", class[level])
        hidden[level] = head ~ /^ *class/
      }
    }
    /\}$/ { delete class[level]; delete hidden[level]; --level }' | sort -u
}

wrong=0
complain() {
  echo "$1"
  wrong=1
}
count=0
for header in include/zkrecipes/*.hpp; do
  [[ $header == */asio.hpp ]] && continue
  all=" $(functions "$header" | tr '\n' ' ')"
  for function in $all; do
    class=${function%.*} name=${function#*.}
    count=$((count + 1))
    case $name in
      observe)
        [[ $all == *" $class.wait_for_change "* ]] || complain "$header: $class has observe() and no wait_for_change()"
        ;;
      async_*)
        asio="&$class::$name\b|\b$name\($class&"
        [[ $class == - ]] && asio="\b$name\("
        grep -qE "$asio" include/zkrecipes/asio.hpp || complain "include/zkrecipes/asio.hpp: $function() is missing"
        ;;
      *)
        [[ $all == *" $class.async_$name "* || $exceptions == *" $function "* ]] ||
          complain "$header: $function() has no asynchronous form"
        ;;
    esac
  done
done
((count > 100)) || complain "only $count functions were found: this script does not understand the headers"
exit $wrong
