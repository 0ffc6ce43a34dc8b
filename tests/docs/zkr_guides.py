#!/usr/bin/python3
"""zkr_guides.py ROOT ZKR: the guides know each command of zkr, and name no command or option that it does not have."""

import re
import subprocess
import sys
from pathlib import Path

GUIDES = ("docs/zkr.md", "docs/zkr_look.md")
CODE = re.compile(r"^```sh\n(.*?)^```|`([^`\n]+)`", re.S | re.M)
CALL = re.compile(r"(?:^|[\s;&|(])zkr ([a-z][a-z-]*)\b", re.M)


def says(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def main():
    root, zkr = Path(sys.argv[1]), sys.argv[2]
    commands = set(re.findall(r"^  ([a-z][a-z-]+) ", says(zkr, "--help").split("\nSubcommands:\n")[1], re.M))
    options = set(re.findall(r"--[a-z][a-z-]+", says(zkr, "man-page").replace("\\-", "-")))
    wrong = []
    known = ""
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        name = str(page.relative_to(root))
        code = ["".join(found) for found in CODE.findall(page.read_text(encoding="utf-8"))]
        called = {word for text in code for word in CALL.findall(text)}
        wrong += [f"{name}: there is no command zkr {word}" for word in sorted(called - commands)]
        if name in GUIDES:
            known += "\n".join(code) + "\n"
            said = {option for text in code if text.startswith("-") for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)}
            wrong += [f"{name}: zkr has no option {option}" for option in sorted(said - options)]
    wrong += [f"no guide names zkr {word}" for word in sorted(commands) if not re.search(rf"(?<![\w-]){word}(?![\w-])", known)]
    print("\n".join(wrong))
    return int(bool(wrong) or not commands or not options)


if __name__ == "__main__":
    sys.exit(main())
