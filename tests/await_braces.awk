# Prints "file:line: text" for each brace in a statement with co_await that begins neither a block nor a lambda's body.
# Such a brace makes an aggregate or an initializer list, which g++ 12 destroys twice.

# Comments, literals and preprocessor lines become blanks; what is left keeps its place.
function code_of(text,    out, i, c, two, end, delimiter, rest) {
  out = ""
  for (i = 1; i <= length(text); i = end + 1) {
    c = substr(text, i, 1)
    two = substr(text, i, 2)
    end = i
    if (two == "//" || (c == "#" && out ~ /(^|\n)[ \t]*$/)) {
      while (end < length(text) && substr(text, end + 1, 1) != "\n") ++end
    } else if (two == "/*") {
      rest = index(substr(text, i + 2), "*/")
      end = rest ? i + 2 + rest : length(text)
    } else if (two == "R\"") {
      rest = substr(text, i + 2)
      delimiter = ")" substr(rest, 1, index(rest, "(") - 1) "\""
      end = i + 1 + index(rest, delimiter) + length(delimiter) - 1
    } else if (c == "\"" || (c == "'" && out !~ /[0-9A-Fa-f]$/)) {
      ++end
      while (end < length(text) && substr(text, end, 1) != c) end += substr(text, end, 1) == "\\" ? 2 : 1
    } else {
      out = out c
      continue
    }
    rest = substr(text, i, end - i + 1)
    gsub(/[^\n]/, " ", rest)
    out = out rest
  }
  return out
}

function report(position,    before, number) {
  before = substr(code, 1, position)
  number = gsub(/\n/, "", before) + 1
  if (number in reported) return
  reported[number] = 1
  print FILENAME_OF ":" number ": " lines[number]
  found = 1
}

# The position of the brace that closes the one at `at`.
function closing(at,    depth, c) {
  for (; at <= length(code); ++at) {
    c = substr(code, at, 1)
    if (c == "{") ++depth
    if (c == "}" && --depth == 0) return at
  }
  return at
}

# Whether the brace at `at` begins the body of a lambda: it follows "]", or ")" and perhaps mutable or a return type.
function begins_lambda(at,    before) {
  before = substr(code, at > 200 ? at - 200 : 1, at > 200 ? 200 : at - 1)
  return before ~ /[])][ \n]*((mutable|noexcept)[ \n]*)?(->[ \nA-Za-z0-9_:<>,*&]+)?$/
}

# From co_await to the end of the statement, or of the condition that it stands in.
function look_behind(at,    depth, c, next_word) {
  for (; at <= length(code); ++at) {
    c = substr(code, at, 1)
    if (c == ";") return
    if (c == "(") ++depth
    if (c == ")" && --depth < 0) {
      next_word = substr(code, at + 1, 200)
      sub(/^[ \n]+/, "", next_word)
      if (next_word ~ /^[{A-Za-z_]/) return
    }
    if (c == "}") {  # The list that co_await itself stands in.
      report(at)
      return
    }
    if (c != "{") continue
    if (!begins_lambda(at)) report(at)
    at = closing(at)
  }
}

# From co_await back to the beginning of the statement.
function look_before(at,    c, behind) {
  for (; at > 0; --at) {
    c = substr(code, at, 1)
    if (c == ";" || c == "{") return
    if (c != "}") continue
    behind = substr(code, at + 1, 200)
    sub(/^[ \n]+/, "", behind)
    if (behind ~ /^[,.)]/ && substr(code, 1, at) !~ /[;}][ \n]*}$/) report(at)
    return
  }
}

function check(    from, offset) {
  code = code_of(text)
  split(text, lines, "\n")
  split("", reported)
  from = 1
  while (match(substr(code, from), /(^|[^A-Za-z0-9_])co_await[^A-Za-z0-9_]/)) {
    offset = from + RSTART - 1
    from = offset + RLENGTH - 1
    if (substr(code, 1, offset) ~ /operator[ \n]*$/) continue
    look_before(offset)
    look_behind(offset + 9)
  }
}

FNR == 1 {
  if (NR > 1) check()
  text = ""
  FILENAME_OF = FILENAME
}
{ text = text $0 "\n" }
END {
  if (NR > 0) check()
  exit found
}
