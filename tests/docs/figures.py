#!/usr/bin/python3
"""figures.py ROOT: docs/how_tested.md says of the tests what their sources say, give or take a tenth.
"""

import re
import sys
from pathlib import Path

CASE = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(", re.M)
SOURCE = re.compile(r"\S+_test\.cpp\b")


def cases(tests):
    """How many cases the sources have, by the label of their test."""
    lists = re.sub(r"#.*", "", (tests / "CMakeLists.txt").read_text(encoding="utf-8"))
    named = dict(re.findall(r"\bset\((\w+)\s+([^()\"]+)\)", lists))
    found = {}
    for words in re.findall(r"\bzkr_add_test\(([^()]+)\)", lists):
        label = re.search(r"\bLABEL (\w+)", words)[1]
        sources = SOURCE.findall(re.sub(r"\$\{(\w+)\}", lambda name: named.get(name[1], ""), words))
        found[label] = found.get(label, 0) + sum(len(CASE.findall((tests / one).read_text(encoding="utf-8"))) for one in sources)
    return found


def rows(root):
    """Headers with a table of what goes wrong, and their rows, as failure_rows.txt has them."""
    text = (root / "tests/failure_rows.txt").read_text(encoding="utf-8")
    sections = re.findall(r"^\[\w+\.hpp\]\n((?:[^\[\n].*\n)*)", text, re.M)
    return len(sections), sum(section.count(" | ") for section in sections)


def count(root, file, pattern):
    return len(re.findall(pattern, (root / file).read_text(encoding="utf-8"), re.M))


def main():
    root = Path(sys.argv[1])
    guide = " ".join((root / "docs/how_tested.md").read_text(encoding="utf-8").split())
    headers, lines = rows(root)
    expected = [(rf"\| `{label}` \| ([\d,]+) \|", number) for label, number in cases(root / "tests").items()]
    expected += [
        (r"([\d,]+) headers have", headers),
        (r"headers have ([\d,]+) rows", lines),
        (r"\| ([\d,]+) decoders", count(root, "tests/fuzz/targets.cpp", r'\{"[a-z_]+",\s+&check_')),
        (r"([\d,]+) programs that use", count(root, "storm/workloads/workloads.cpp", r'^ +\{"[a-z-]+", *\d')),
    ]
    wrong = False
    for pattern, number in expected:
        found = re.search(pattern, guide)
        said = int(found[1].replace(",", "")) if found else None
        if said is None or not number or abs(said - number) > number / 10:
            print(f"docs/how_tested.md, {pattern}: it says {said}, and the sources have {number}")
            wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
