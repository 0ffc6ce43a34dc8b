"""bundle_theme.py HTML: makes Debian's Furo work without a web server.

Upstream bundles the theme's script and styles; Debian ships the parts, and its Sass drops what follows the reader's
system (dark or light). Without this, the buttons do nothing, and dark mode shows dark code on a white page.
"""

import re
import sys
from pathlib import Path

NORMALIZE = Path("/usr/share/javascript/normalize.css/normalize.css")


def bundle_styles(file):
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"^@import url\([^)]*normalize\.css\);\n", NORMALIZE.read_text(encoding="utf-8"), text)
    dark = re.search(r'^@media not print \{\n(  body\[data-theme="dark"\] \{.*?\}) \}\n', text, re.M | re.S)
    if dark is None:
        raise SystemExit(f"bundle_theme.py: {file} has no dark theme")
    by_system = dark[1].replace('[data-theme="dark"]', ':not([data-theme="light"])')
    # Two rules: "not print and (dark)" would mean "not (print and dark)", which is true on every light screen.
    text += f"\n@media not print {{ @media (prefers-color-scheme: dark) {{\n{by_system} }} }}\n"
    file.write_text(text, encoding="utf-8")


def bundle_script(file):
    text = file.read_text(encoding="utf-8")
    imported = 'import Gumshoe from "./gumshoe-patched.js";\n'
    if imported not in text:
        raise SystemExit(f"bundle_theme.py: {file} does not import what it did")
    part = file.with_name("gumshoe-patched.js").read_text(encoding="utf-8")
    file.write_text(text.replace(imported, part + ";\n"), encoding="utf-8")


def main():
    static = Path(sys.argv[1]) / "_static"
    bundle_styles(static / "styles" / "furo.css")
    bundle_script(static / "scripts" / "furo.js")


if __name__ == "__main__":
    main()
