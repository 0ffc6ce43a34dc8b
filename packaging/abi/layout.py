#!/usr/bin/python3
"""layout.py INCLUDE: how the types of the public headers lie in memory, one line for each, sorted.

A program has these sizes, offsets and numbers compiled in, so it breaks with a newer library that has others. A list of
symbols does not show them. The headers are compiled with debug information, which abidw (Debian's abigail-tools) reads;
the libraries are not. Templates and local types are left out, as are headers that need Boost or fmt.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

LIBRARIES = ("zkclient", "zkrecipes")
OPTIONAL = ("asio", "format")
ENDINGS = {"pointer-type-def": "*", "reference-type-def": "&"}


def read(include):
    headers = sorted(
        f"{library}/{file.name}"
        for library in LIBRARIES
        for file in (include / library).glob("*.hpp")
        if file.stem not in OPTIONAL
    )
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "all.cpp").write_text("".join(f"#include <{header}>\n" for header in headers), encoding="utf-8")
        # Also what nothing in these headers uses, and classes whose virtual functions are elsewhere.
        flags = ["-g", "-fno-eliminate-unused-debug-types", "-femit-class-debug-always"]
        subprocess.run(
            ["g++", "-std=c++20", *flags, f"-I{include}", "-c", str(work / "all.cpp"), "-o", str(work / "all.o")],
            check=True,
        )
        subprocess.run(
            ["abidw", "--load-all-types", "--no-corpus-path", "--out-file", str(work / "all.abi"), str(work / "all.o")],
            check=True,
        )
        return xml.parse(work / "all.abi").getroot()


def number_types(root):
    """From the id of a type to its name."""
    named, derived = {}, {}

    def walk(node, scope):
        for child in node:
            inner = scope
            if child.tag in ("namespace-decl", "class-decl", "union-decl"):
                inner = [*scope, child.get("name")]
            if "id" in child.attrib:
                if child.tag in ("pointer-type-def", "reference-type-def", "qualified-type-def", "array-type-def"):
                    derived[child.get("id")] = child
                else:
                    named[child.get("id")] = "::".join([*scope, child.get("name", child.tag)])
            walk(child, inner)

    walk(root, [])

    def name(number):
        if number not in derived:
            return named.get(number, "?")
        node = derived[number]
        inner = name(node.get("type-id"))
        if node.tag == "qualified-type-def":
            return inner + " const" * (node.get("const") == "yes") + " volatile" * (node.get("volatile") == "yes")
        if node.tag == "array-type-def":
            return f"{inner}[{node.get('size-in-bits')} bits]"
        return inner + ENDINGS[node.tag] + "&" * (node.get("kind") == "rvalue")

    return name


def octets(bits):
    return f"{int(bits) // 8}" + (f".{int(bits) % 8}" if int(bits) % 8 else "")


def of_class(node, name):
    parts = []
    for base in node.findall("base-class"):
        parts.append((int(base.get("layout-offset-in-bits")), f"base {name(base.get('type-id'))}"))
    for member in node.findall("data-member"):
        if member.get("static") == "yes":
            continue
        variable = member.find("var-decl")
        parts.append((int(member.get("layout-offset-in-bits")), f"{variable.get('name')}: {name(variable.get('type-id'))}"))
    # Destructors have no place in what abidw writes.
    virtual = sorted(
        (int(member.get("vtable-offset")), member.find("function-decl").get("mangled-name", "?"))
        for member in node.findall("member-function")
        if int(member.get("vtable-offset", -1)) >= 0
    )
    text = [f"{octets(bits)} {what}" for bits, what in sorted(parts)] + [f"virtual {at} {what}" for at, what in virtual]
    return f"{octets(node.get('size-in-bits', 0))} bytes" + "".join(f"; {one}" for one in text)


def of_enum(node):
    return ", ".join(f"{one.get('name')} = {one.get('value')}" for one in node.findall("enumerator"))


def lines(root, include):
    name = number_types(root)
    found = set()

    def walk(node, scope):
        for child in node:
            if child.tag not in ("abi-instr", "namespace-decl", "class-decl", "union-decl", "enum-decl", "member-type"):
                continue
            title = child.get("name", "")
            inner = scope if child.tag in ("abi-instr", "member-type") else [*scope, title]
            ours = child.get("filepath", "").startswith(f"{include}/") and inner[:1] and inner[0] in LIBRARIES
            plain = not any("<" in part or "__anonymous" in part or "lambda" in part for part in inner)
            if ours and plain and child.get("is-declaration-only") != "yes":
                what = of_enum(child) if child.tag == "enum-decl" else of_class(child, name)
                found.add(f"{'::'.join(inner)}: {what}")
            walk(child, inner)

    walk(root, [])
    return sorted(found)


def main():
    include = Path(sys.argv[1]).resolve()
    print("\n".join(lines(read(include), include)))


if __name__ == "__main__":
    main()
