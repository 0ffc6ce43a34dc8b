#!/usr/bin/python3
"""Doxygen's input filter: a public header, in the form in which Doxygen reads it as a human does.

- Tables and drawings in comments, which are told by runs of blanks, stay as they stand.
- <id> in a comment is a word, not a tag.
- A function without a comment right below one that has one (the asynchronous form of a call, say) belongs to it. Members,
  constants and types need comments of their own.
- Special members without a comment of their own say nothing that the class does not say: they are left out.
"""

import re
import sys

COMMENT = re.compile(r"^(\s*)///( (.*))?$")
# Destructors, copies, moves, comparisons by default.
SPECIAL = re.compile(
    r"^\s*(?:constexpr |explicit |virtual )*(?:~\w+\(|(\w+)\((?:const )?\1&{1,2}(?: \w+)?\)|\w+& operator=\(|\w+\(\) (?:noexcept )?= default)"
    r"|operator(?:==|<=>)\("
    # What only the library can call.
    r"|^\s*(?:explicit )?[A-Z]\w+\(.*\bdetail::|\bimpl\(\)"
)
# Of a declaration without its template arguments: a function's, not a member's with a value in parentheses.
FUNCTION = re.compile(r"^(?!\s*using\b)[^={]*\w\(|\boperator\b")
CONSTRUCTOR = re.compile(r"^\s+(?:explicit |constexpr )*[A-Z]\w+\(")
# What needs no words in a header.
IDIOMS = (
    (re.compile(r"^struct \w+Options \{"), "Options, with their defaults."),
    (re.compile(r"Layout layout\b"), "Which nodes it has, and so which other libraries share them."),
    (re.compile(r"\b(?:zkclient::)?Operation<cancel|\bzkclient::Operation<|_Operation"), "The member function of this name, with a completion token in place of its handler."),
    (re.compile(r"\btoken\(\) const"), "The fencing token."),
    (re.compile(r"\bto_string\("), "The name of the value."),
    (re.compile(r"\bpath\(\) const"), "The path, as it was given."),
    (re.compile(r"\bid\(\) const"), "The id, as it was given or made."),
    (re.compile(r"\bhas_value\(\)|operator bool\(\)"), "Whether there is one."),
)
OPENING = re.compile(r"^\s*(?:public|private|protected):|^\s*(?:namespace|struct|class|enum|union|template|static_assert|friend (?:class|struct))\b|^\s*[#}]|^\s*//[^/]")


def escaped(text):
    return text.replace("\\", "\\\\").replace("<", "\\<").replace(">", "\\>").replace("@", "\\@").replace("#", "\\#")


def is_drawn(line):
    """A table, a tree, an example; not the second line of an item of a list."""
    return bool(re.search(r"\S {3,}\S", line)) or line.startswith("  ") or bool(re.match(r"-{3,}", line))


def comment(indent, lines):
    """A block of comment lines, its drawings set apart."""
    out, drawing, listed = [], False, False
    for at, line in enumerate(lines):
        # A drawing goes on to the next empty line, and beyond it if more of it follows.
        rest = line or next((other for other in lines[at:] if other), "")
        listed = bool(line) and (listed or line.startswith("- "))
        drawn = not listed and (is_drawn(rest) and (drawing or bool(line)) or drawing and bool(line))
        if drawn != drawing:
            out += ([""] if not out or out[-1] else []) + ["~~~{.unparsed}"] if drawn else ["~~~"]
        drawing = drawn
        out.append(line if drawn or line == "\\file" else escaped(line))
    if drawing:
        out.append("~~~")
    return [f"{indent}/// {line}".rstrip() for line in out]


def code_of(line):
    return re.sub(r"\s*//.*$", "", line).rstrip()


def without_arguments(line):
    """The line without what stands between < and >."""
    shorter = re.sub(r"<[^<>]*>", "", line)
    return line if shorter == line else without_arguments(shorter)


def ends(line):
    """Whether a declaration ends with this line, roughly: the headers are formatted by a program."""
    return code_of(line).endswith((";", "}", ":"))


def remark(line, documented):
    """What is said of a declaration that says nothing of itself."""
    for idiom, words in IDIOMS:
        if idiom.search(line):
            return words
    if documented and FUNCTION.search(without_arguments(line)):
        return "Another form of the one before."
    return "From what is passed." if CONSTRUCTOR.match(line) else None


def filtered(lines):
    out, block, indent = [], [], ""
    documented = inside = hidden = False
    body = None  # The line that ends the body of a function.
    enumerators = False
    for line in lines:
        found = COMMENT.match(line)
        if body is not None:
            out.append(line)
            if line.rstrip() == body:
                body, inside = None, False
                if hidden:
                    out.append("/// \\endcond")
                    hidden = False
            continue
        if found and not inside:
            indent = found.group(1)
            block.append(found.group(3) or "")
            continue
        lead = re.match(r"\s*", line).group(0)
        opens = bool(OPENING.match(line))
        if line.strip() == "protected:":  # For the library's own classes.
            line = line.replace("protected", "private")
        if block:
            if out and "///<" in out[-1]:
                out.append("")  # Else it would go on with that one.
            if line.startswith("namespace "):
                block = ["\\file", *block]  # Of this file: the namespace is everybody's.
            out += comment(indent, block)
            block, documented = [], True
        elif not line.strip():
            documented = False
        elif not inside and (not opens or IDIOMS[0][0].search(line)) and "///<" not in line:
            if SPECIAL.search(line):
                hidden, documented = True, False
                out.append(f"{lead}/// \\cond special")
            elif lead or not line.startswith(("}", "#")):
                words = remark(line, documented)
                if words:
                    out.append(f"{lead}/// {words}")
        line = re.sub(r"(?<=\d)'(?=\d)", "", line)  # Doxygen takes it for the beginning of a character.
        line = re.sub(r"///< (.*)$", lambda found: "///< " + escaped(found.group(1)), line)
        out.append(line)
        if opens:
            enumerators = "enum " in line and code_of(line).endswith("{")
            inside = False
        elif line.strip() and not enumerators:
            if not inside:
                start = lead
            if code_of(line).endswith("{"):
                body = start + "}"
            inside = not ends(line)
        if hidden and not inside and body is None:
            out.append("/// \\endcond")
            hidden = False
    return out


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(filtered(header.read().split("\n"))))
