#!/usr/bin/python3
"""prepare.py ROOT TARGET: the source of the site, from the guides and headers of the project.

The guides stay as they are read in the repository. For the site, links to files that are not part of it become plain
text, programs and pictures that a guide includes are put beside it, Mermaid diagrams become SVG by PlantUML, which
needs no network, and each public header gets a page.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

MERMAID = re.compile(r"^```mermaid\n(.*?)^```\n", re.S | re.M)
INCLUDE = re.compile(r"^```\{literalinclude\} (\S+)$", re.M)
SECTIONS = "briefdescription detaileddescription enum typedef func var public* friend"
PICTURE = re.compile(r"^!\[([^\]]*)\]\(([^)\s]+)\)$", re.M)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")

SEQUENCE = (
    (re.compile(r"^(\s*)participant (\S+) as (.+)$"), r'\1participant "\3" as \2'),
    (re.compile(r"^(\s*)(\w+)-->>(\w+): ?(.*)$"), r"\1\2 --> \3 : \4"),
    (re.compile(r"^(\s*)(\w+)->>(\w+): ?(.*)$"), r"\1\2 -> \3 : \4"),
    (re.compile(r"^(\s*)(\w+)--x(\w+): ?(.*)$"), r"\1\2 -->x \3 : \4"),
    (re.compile(r"^(\s*)(\w+)-x(\w+): ?(.*)$"), r"\1\2 ->x \3 : \4"),
    (re.compile(r"^(\s*)Note over ([\w, ]+): ?(.*)$"), r"\1note over \2 : \3"),
    (re.compile(r"^(\s*)Note (left|right) of (\w+): ?(.*)$"), r"\1note \2 of \3 : \4"),
    (re.compile(r"^(\s*)and\b(.*)$"), r"\1else\2"),
)
FLOW_NODE = re.compile(r"(\w+)(?:\[([^\]]*)\]|\{([^}]*)\})")


def sequence(lines):
    out = []
    for line in lines:
        for pattern, replacement in SEQUENCE:
            line, count = pattern.subn(replacement, line)
            if count:
                break
        out.append(line)
    return out


def flowchart(lines):
    names, edges = {}, []
    for line in lines:
        for name, box, choice in FLOW_NODE.findall(line):
            names[name] = box or choice
        bare = FLOW_NODE.sub(lambda found: found.group(1), line).strip()
        edge = re.match(r"(\w+) --(?: (.*) --)?> (\w+)$", bare)
        if edge:
            edges.append(f"{edge[1]} --> {edge[3]}" + (f" : {edge[2]}" if edge[2] else ""))
        elif bare and bare not in names:
            raise SystemExit(f"prepare.py: cannot draw {line.strip()!r}")
    return ["hide empty description", *(f'state "{text}" as {name}' for name, text in names.items()), *edges]


def plantuml(text):
    kind, *lines = text.rstrip("\n").split("\n")
    body = flowchart(lines) if kind.startswith("flowchart") else sequence(lines)
    look = ["!pragma layout smetana", "skinparam shadowing false", "skinparam monochrome true", "hide footbox"]
    return "\n".join(["@startuml", *(look if kind == "sequenceDiagram" else look[:-1]), *body, "@enduml", ""])


def guide(path, target, pages):
    """Copies a guide; returns the diagrams that it needs."""
    drawn = []

    def draw(found):
        name = f"{path.stem.lower()}-{len(drawn) + 1}"
        (target / "diagrams" / f"{name}.puml").write_text(plantuml(found[1]), encoding="utf-8")
        drawn.append(name)
        title = found[1].split("\n", 1)[0]
        kind = "sequence diagram" if title == "sequenceDiagram" else "flow chart"
        return f"```{{image}} diagrams/{name}.svg\n:class: diagram\n:alt: {kind}\n```\n"

    def link(found):
        text, file, anchor = found[1], found[2], found[3] or ""
        if "://" in file:
            return found[0]
        name = (path.parent / file).resolve()
        return f"[{text}]({pages[name]}{anchor})" if name in pages else text

    def include(found):
        file = (path.parent / found[1]).resolve()
        shutil.copy(file, target / "programs")
        return f"```{{literalinclude}} programs/{file.name}"

    def picture(found):
        file = (path.parent / found[2]).resolve()
        shutil.copy(file, target / "diagrams")
        return f"```{{image}} diagrams/{file.name}\n:class: diagram\n:alt: {json.dumps(found[1])}\n```"

    text = path.read_text(encoding="utf-8")
    for pattern, replacement in ((MERMAID, draw), (INCLUDE, include), (PICTURE, picture), (LINK, link)):
        text = pattern.sub(replacement, text)
    (target / pages[path.resolve()]).write_text(text, encoding="utf-8")


def header_pages(root, target):
    """A page for each public header, and one list for each library."""
    index = []
    for library in ("zkclient", "zkrecipes", "zktesting"):
        headers = sorted((root / "include" / library).glob("*.hpp"))
        names = [header.stem for header in headers if header.stem != "export"]
        folder = target / "api" / library
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.md").write_text(
                f"# {library}/{name}.hpp\n\n```{{doxygenfile}} {library}/{name}.hpp\n"
                f":sections: {SECTIONS}\n```\n",
                encoding="utf-8",
            )
        listing = "\n".join(f"{library}/{name}" for name in names)
        (target / "api" / f"{library}.md").write_text(
            f"# {library}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listing}\n```\n", encoding="utf-8"
        )
        index.append(library)
    listing = "\n".join(index)
    (target / "api" / "index.md").write_text(
        "# Headers\n\nEvery public declaration, from the headers. What goes wrong, and what the caller sees then, stands in "
        f"the table of each class.\n\n```{{toctree}}\n:maxdepth: 2\n\n{listing}\n```\n",
        encoding="utf-8",
    )


def main():
    root, target = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    (target / "diagrams").mkdir(parents=True)
    (target / "programs").mkdir()
    guides = sorted((root / "docs").glob("*.md"))
    pages = {guide.resolve(): guide.name for guide in guides}
    extra = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "bench/README.md": "benchmarks.md"}
    for file, page in extra.items():
        pages[root / file] = page
    pages[root / "README.md"] = "index.md"
    for path in [*guides, *(root / file for file in extra)]:
        guide(path, target, pages)
    header_pages(root, target)
    diagrams = sorted((target / "diagrams").glob("*.puml"))
    subprocess.run(["plantuml", "-tsvg", "-charset", "UTF-8", *map(str, diagrams)], check=True)


if __name__ == "__main__":
    main()
