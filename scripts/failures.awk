# Says in few lines why tests failed: reads the log of CTest, prints each failed program and case with what it said first.

function shown(text) { return "    " substr(text, 1, 160) "\n" }

{ line[++last] = $0 }

# A program begins.
/^[0-9]+\/[0-9]+ Testing: / { program = $3; running = reason = reasons = ""; room = last = 0 }

# A case begins, passes, fails.
/^\[ RUN      \] / { running = $4; reason = ""; room = told = 0 }
/^\[       OK \] / { running = reason = ""; room = 0 }
/^\[  FAILED  \] .* \([0-9]+ ms\)$/ {
  reasons = reasons "  " running "\n" reason
  running = reason = ""; room = 0
}

# It says why. What follows the first two reasons mostly follows from them.
/: Failure$|(Address|Thread|Leak)Sanitizer: |: runtime error: / { if (++told <= 2) room = /: Failure$/ ? 5 : 9 }
/^----/ { room = 0 }
room > 0 && NF { reason = reason shown($0); --room }

/^Test Failed\.$/ {
  if (running != "" || reasons == "") {
    # It ended within a case, or outside of any: its last words before CTest's may tell.
    reasons = reasons "  " (running == "" ? "(no case)" : running ", which did not end") "\n" reason
    for (i = last - 15; i < last - 3; ++i) if (i > 0) reasons = reasons shown(line[i])
  }
  printf "%s\n%s", program, reasons
}
