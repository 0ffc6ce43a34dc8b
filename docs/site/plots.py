#!/usr/bin/python3
"""plots.py ROOT [--check]: draws docs/figures/*.svg from the runs of bench/ in docs/site/figures/*.json.

The figures of those runs stand in tables as well: those of docs/performance.md, docs/metrics.md and README.md. With
--check nothing is drawn: it fails if a table or a plot says something else than its run.
"""

import json
import math
import re
import sys
from pathlib import Path

WIDTH, LABELS, RIGHT, FONT = 520, 120, 48, 14
ROW, GAP, TITLE, TOP = 22, 12, 22, 30
PEERS = ("Curator", "kazoo", "C client")
COLORS = {"Curator": "#2f6fa8", "kazoo": "#a8612f", "C client": "#5b6b7a"}
GOAL = "#b00020"
HALO = 'stroke="#fff" stroke-width="5" paint-order="stroke"'  # Lines of the scale end before a heading.

# (heading, [(label, color, contender, reference)]) of the run's ratios, in this order.
LOCK_PEERS = (("Curator", "Curator"), ("kazoo", "kazoo"), ("C client", "raw st loop"))
LOCKS = {
    title: [(label, COLORS[label], f"{setting}: zkrecipes", reference) for label, reference in LOCK_PEERS]
    for title, setting in (
        ("uncontended", "uncontended"),
        ("uncontended, with fsync", "uncontended, fsync"),
        ("2 contenders", "2 contenders"),
        ("8 contenders", "8 contenders"),
        ("32 contenders", "32 contenders"),
        ("8 readers", "8 readers"),
    )
}
CYCLE = {
    "beside the C client with threads, call by call": [
        ("lease dropped", COLORS["Curator"], "Mutex, lease dropped", "mt sequence"),
        ("asynchronous", COLORS["Curator"], "Mutex, asynchronous", "mt sequence"),
        ("awaited", COLORS["Curator"], "Mutex, release awaited", "mt sequence"),
    ],
    "beside a loop on the C client, pipelined": [
        ("asynchronous", COLORS["C client"], "Mutex, asynchronous", "st pipelined"),
        ("lease dropped", COLORS["C client"], "Mutex, lease dropped", "st pipelined"),
    ],
    "lease dropped, beside the same without it": [
        ("metrics", COLORS["kazoo"], "Mutex, dropped, counted", "Mutex, lease dropped"),
        ("and observer", COLORS["kazoo"], "Mutex, dropped, observed", "Mutex, lease dropped"),
    ],
}
PLOTS = {
    "locks": (LOCKS, (0.5, 9), "Hand-overs of a lock in a second, ours / theirs"),
    "lock_cycle": (CYCLE, (0.5, 2), "Cycles of an uncontended lock in a second, as ratios"),
}


def runs(root):
    return {name: json.loads((root / f"docs/site/figures/{name}.json").read_text(encoding="utf-8")) for name in PLOTS}


def ratio(run, contender, reference):
    found = [one for one in run["ratios"] if (one["contender"], one["reference"]) == (contender, reference)]
    if len(found) != 1:
        raise SystemExit(f"plots.py: the run has {len(found)} ratios {contender} / {reference}")
    return found[0]


def text(x, y, words, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{words}</text>'


def line(x1, y1, x2, y2, color, width):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def draw(run, groups, bounds, title):
    """Bars from 1 to the median, on a logarithmic scale: twice as many and half as many look alike."""
    low, high = bounds

    def x_of(value):
        if not low <= value <= high:
            raise SystemExit(f"plots.py: {value} is beyond the scale of {title!r}")
        return LABELS + (WIDTH - LABELS - RIGHT) * math.log(value / low) / math.log(high / low)

    body, y, goals = [], TOP, False
    for heading, rows in groups.items():
        y += GAP
        body.append(text(8, y + 15, heading, extra=f' font-weight="bold" {HALO}'))
        y += TITLE
        for label, color, contender, reference in rows:
            one = ratio(run, contender, reference)
            left, right = sorted((x_of(1), x_of(one["median"])))
            middle = y + ROW / 2
            body.append(text(LABELS - 8, middle + 5, label, "end"))
            size = f'width="{max(right - left, 1):.1f}" height="{ROW - 8}"'
            body.append(f'<rect x="{left:.1f}" y="{y + 4}" {size} fill="{color}"/>')
            ends = x_of(one["lower_quartile"]), x_of(one["upper_quartile"])
            # White below black: it is seen on the bar and beside it.
            for stroke, width in (("#fff", 4), ("#111", 1.6)):
                body.append(line(ends[0], middle, ends[1], middle, stroke, width))
                body.extend(line(end, middle - 4, end, middle + 4, stroke, width) for end in ends)
            if one.get("target"):
                goals = True
                goal = x_of(one["target"])
                body.append(line(goal, y + 1, goal, y + ROW - 1, GOAL, 2.5))
            body.append(text(WIDTH - 8, middle + 5, f"{one['median']:.2f}", "end"))
            y += ROW
    bottom = y + 4
    grid = []
    value = low
    while value <= high:
        grid.append(line(x_of(value), TOP + GAP + TITLE, x_of(value), bottom, "#555" if value == 1 else "#ddd", 1))
        grid.append(text(x_of(value), bottom + 17, f"{value:g}", "middle"))
        value *= 2
    legend = "bar: median; black line: quartiles" + ("; red line: goal" if goals else "")
    height = bottom + 48
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'font-family="sans-serif" font-size="{FONT}" fill="#111" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
            text(8, 21, title, extra=' font-weight="bold" font-size="16"'),
            *grid,
            *body,
            text(8, bottom + 38, legend),
            "</svg>",
            "",
        ]
    )


# --- Do tables and runs say the same? -------------------------------------------------------------
def cells(root, file, first, column=1):
    """The cells behind the first one of the only row of a table that begins so and has enough columns."""
    rows = []
    for row in (root / file).read_text(encoding="utf-8").splitlines():
        parts = [part.strip() for part in row.strip().strip("|").split("|")]
        if row.startswith("|") and parts[0] == first and len(parts) > column:
            rows.append(parts[1:])
    if len(rows) != 1:
        raise SystemExit(f"plots.py: {file} has {len(rows)} rows {first!r}")
    return rows[0]


class Check:
    def __init__(self):
        self.wrong = []

    def same(self, where, said, measured):
        """A figure is as exact as it is written."""
        digits = len(said.partition(".")[2])
        if said != f"{measured:.{digits}f}":
            self.wrong.append(f"{where}: {said}, but the run has {measured:.{digits + 1}f}")


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def check_locks(root, run, check):
    cost = {one["name"]: median(one["cpu_us_per_cycle"]) for one in run["contenders"]}
    rows = zip(("uncontended", "the same, with fsync", *list(LOCKS)[2:]), LOCKS.values())
    for first, bars in rows:
        said = cells(root, "docs/performance.md", first, column=4)
        for figure, (label, _, contender, reference) in zip(said, bars):
            check.same(f"docs/performance.md, {first}, {label}", figure, ratio(run, contender, reference)["median"])
        setting = bars[0][2].partition(":")[0]
        names = [f"{setting}: {name}" for name in ("zkrecipes", "raw st loop", "Curator", "kazoo")]
        for figure, name in zip(said[3].removesuffix(" us").split(", "), names):
            check.same(f"docs/performance.md, {first}, processor time", figure, cost[name])
    for first, title in (
        ("a lock, uncontended", "uncontended"),
        ("the same, 8 contenders", "8 contenders"),
        ("a lock to read, 8 readers", "8 readers"),
    ):
        for figure, (label, _, contender, reference) in zip(cells(root, "README.md", first), LOCKS[title]):
            measured = ratio(run, contender, reference)["median"]
            said = re.sub(r" times$", "", figure)
            check.same(f"README.md, {first}, {label}", "1.0" if said == "as many" else said, measured)


def check_cycle(root, run, check):
    cost = {one["name"]: one["cpu_us_per_cycle"] for one in run["contenders"]}
    bars = [bar for group in CYCLE.values() for bar in group]
    for first, name in (
        ("the lock alone", "Mutex, lease dropped"),
        ("with metrics", "Mutex, dropped, counted"),
        ("with metrics and an observer", "Mutex, dropped, observed"),
    ):
        figures = re.findall(r"[\d.]+", " ".join(cells(root, "docs/metrics.md", first)))
        if name != "Mutex, lease dropped":
            one = ratio(run, name, "Mutex, lease dropped")
            for key in ("median", "lower_quartile", "upper_quartile"):
                check.same(f"docs/metrics.md, {first}, {key}", figures.pop(0), one[key])
        check.same(f"docs/metrics.md, {first}, processor time", figures.pop(0), cost[name])
    for _, _, contender, reference in bars:
        said = cells(root, "docs/performance.md", f"{contender} / {reference}")
        one = ratio(run, contender, reference)
        figures = re.findall(r"[\d.]+", " ".join(said))
        for figure, key in zip(figures, ("median", "lower_quartile", "upper_quartile", "target")):
            check.same(f"docs/performance.md, {contender} / {reference}, {key}", figure, one[key])


def main():
    root = Path(sys.argv[1])
    known = runs(root)
    drawn = {name: draw(known[name], *plot) for name, plot in PLOTS.items()}
    if sys.argv[2:] != ["--check"]:
        for name, svg in drawn.items():
            (root / f"docs/figures/{name}.svg").write_text(svg, encoding="utf-8")
        return
    check = Check()
    for name, svg in drawn.items():
        if (root / f"docs/figures/{name}.svg").read_text(encoding="utf-8") != svg:
            check.wrong.append(f"docs/figures/{name}.svg is not drawn from its run: python3 docs/site/plots.py .")
    check_locks(root, known["locks"], check)
    check_cycle(root, known["lock_cycle"], check)
    if check.wrong:
        raise SystemExit("\n".join(f"plots.py: {wrong}" for wrong in check.wrong))


if __name__ == "__main__":
    main()
