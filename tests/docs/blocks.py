#!/usr/bin/python3
"""blocks.py ROOT: the cpp blocks of README.md and docs/*.md as one source, on standard output.

A block becomes the body of a function in a namespace of its own below that of its page, where tests/docs/prelude.hpp
declares the names that the page takes for granted. A block that begins with a function or type, or has a main(), stands
in the namespace itself. Its lines keep their numbers: a compiler's errors name the page. A block is left out if the line
before it is `<!-- not compiled: why -->`.
"""

import re
import sys
from pathlib import Path

LEFT_OUT = re.compile(r"<!-- not compiled: .+ -->$")
# At the beginning of a line, up to an opening brace: a function, a class.
DECLARES = re.compile(r"^(class|struct|namespace|template|enum)\b|^[\w:<>,&* ]+ \w+\([^;{}()\[\]\n]*\) \{", re.M)
# Left to the reader: a line of dots, or a body of them.
DOTS = re.compile(r"^\.\.\.$|(?<=\{ )\.\.\.(?= \})", re.M)


def blocks(page):
    """Of a page: the number of each block's first line, and its text."""
    lines = page.read_text(encoding="utf-8").split("\n")
    number = 0
    while number < len(lines):
        fence = lines[number]
        number += 1
        if not fence.startswith("```"):
            continue
        first = number
        while lines[number] != "```":
            number += 1
        if fence == "```cpp" and not LEFT_OUT.match(lines[first - 2]):
            yield first + 1, "\n".join(lines[first:number])
        number += 1


def main():
    root = Path(sys.argv[1])
    print('#include "tests/docs/prelude.hpp"')
    count = 0
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        name = page.relative_to(root)
        for line, text in blocks(page):
            count += 1
            text = DOTS.sub("", text)
            for offset, included in enumerate(text.split("\n")):
                if included.startswith("#include"):
                    print(f'#line {line + offset} "{name}"\n{included}')
            text = re.sub(r"^#include.*", "", text, flags=re.M)
            whole = DECLARES.search(text)
            opening = "" if whole else " void block() {"
            print(f"namespace docs::{page.stem.lower()}_md::at_{line} {{{opening}")
            print(f'#line {line} "{name}"\n{text}\n' + ("}" if whole else "}}"))
    if count == 0:
        raise SystemExit("blocks.py: there are no blocks")
    print(f"blocks.py: {count} blocks", file=sys.stderr)


if __name__ == "__main__":
    main()
