#!/usr/bin/env bash
# Every row of every table "What goes wrong" has a test: see failure_rows.txt. Argument: the project's folder.
set -euo pipefail
cd "$1"

# "header|row", for each row; what continues a row is indented.
rows() {
  for header in include/zkrecipes/*.hpp; do
    awk -v header="${header##*/}" '
      /^\/\/\/ What goes wrong / { table = 1; next }
      table && !/^\/\/\/ [^ ]/ && !/^\/\/\/  / { table = 0 }
      table && /^\/\/\/ -/ { next }
      table && /^\/\/\/ [^ ]/ { print header "|" substr($0, 5) }' "$header"
  done
  awk -F ' [|] ' '
    /^## / { table = $0 == "## What goes wrong"; next }
    table && /^[|] / && $1 != "| what" { print "docs/zkr.md|" substr($1, 3) }' docs/zkr.md
}
# Once for each file that has it.
tests=$(grep -rhoE '^(TEST|TEST_F|TEST_P|TYPED_TEST)\([A-Za-z]+, ?[A-Za-z0-9]+' tests/recipes tests/zkr |
  sed -E 's/^[A-Z_]+\(//; s/, ?/./' | sort)

rows | awk -v tests="$tests" '
  BEGIN {
    split(tests, names, "\n")
    for (i in names) ++files[names[i]]
    while ((getline line < "tests/failure_rows.txt") > 0) {
      if (line ~ /^#/ || line == "") continue
      if (line ~ /^\[/) { header = substr(line, 2, length(line) - 2); continue }
      split(line, parts, " [|] ")
      count = split(parts[2], wanted, " ")
      if (count == 0) { print "tests/failure_rows.txt: no test for: " line; wrong = 1 }
      for (i = 1; i <= count; ++i) {
        if (files[wanted[i]] == 1) continue
        print "tests/failure_rows.txt: " files[wanted[i]] + 0 " files have a test " wanted[i]
        wrong = 1
      }
      if (header !~ /: /) known[++lines] = header "|" parts[1]
    }
  }
  {
    for (i = 1; i <= lines; ++i) {
      if (index($0, known[i]) == 1) { ++seen[i]; next }
    }
    print "no test is named for this row: " $0
    wrong = 1
  }
  END {
    for (i = 1; i <= lines; ++i) {
      if (seen[i] == 1) continue
      print "tests/failure_rows.txt: " seen[i] + 0 " rows for: " known[i]
      wrong = 1
    }
    if (NR == 0) { print "there are no rows"; wrong = 1 }
    exit wrong
  }'

# The numbered complaints: each has its row, and a test that is named after a number stands in that number's row. What 56
# and 77 are about, zkr does not have: a mode that holds nothing, and a path that is not said.
awk -v tests="$tests" '
  FNR == 1 { here = 0 }
  /^\[/ { here = $0 == "[zkr: complaints]" }
  here && match($0, /^Z[0-9]+/) { row_of[substr($0, 2, RLENGTH - 1)] = $0 " " }
  END {
    for (number = 1; number <= 81; ++number) {
      if (number == 56 || number == 77 || number in row_of) continue
      print "tests/failure_rows.txt: no row for Z" number
      wrong = 1
    }
    count = split(tests, names, "\n")
    for (i = 1; i <= count; ++i) {
      rest = names[i]
      sub(/^[^.]*[.]/, "", rest)
      while (match(rest, /^Z[0-9]+/)) {
        number = substr(rest, 2, RLENGTH - 1)
        rest = substr(rest, RLENGTH + 1)
        if (index(row_of[number], " " names[i] " ")) continue
        print "tests/failure_rows.txt: the row of Z" number " does not name " names[i]
        wrong = 1
      }
    }
    exit wrong
  }' tests/failure_rows.txt
