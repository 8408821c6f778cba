"""The table and the plot of growth.py for docs/tables/growth.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from growth_parts import POLICIES

Found = dict[str, Any]

ROWS = [
    ("ingest, µs a run", "ingest", "us_a_run"),
    ("ingest, its last tenth, µs a run", "ingest", "last_tenth_us_a_run"),
    ("ingest, µs of processor time a run", "ingest", "cpu_us_a_run"),
    ("ingest, peak MiB", "ingest", "peak_mib"),
    ("file, MiB", "ingest", "file_mib"),
    ("opening, s", "open", "opening_s"),
    *((f"{policy}: first suggestion, s", f"suggest-{policy}", "first_s") for policy in POLICIES),
    ("hybrid: the same before it was ever asked, s", "build-hybrid", "first_s"),
    *((f"{policy}: further ones, ms", f"suggest-{policy}", "further_ms") for policy in POLICIES),
    *((f"{policy}: further ones at p99, ms", f"suggest-{policy}", "further_p99_ms") for policy in POLICIES),
    *((f"{policy}: peak MiB", f"suggest-{policy}", "peak_mib") for policy in POLICIES),
    ("`hepm --version`, s", "shell-version", "s"),
    ("`hepm suggest --policy procedural`, s", "shell-procedural", "s"),
    ("`hepm suggest`, s", "shell-hybrid", "s"),
    ("`hepm suggest`, peak MiB", "shell-hybrid", "peak_mib"),
    ("learn one more run, ms", "learn", "learned_ms"),
    ("the same, hybrid suggestions in between, ms", "learn-with-hybrid", "learned_ms"),
    ("hybrid suggestion after it, ms", "learn-with-hybrid", "asked_then_ms"),
    ("learn one run in a fresh process, s", "learn-fresh", "fresh_s"),
    ("forget a run, ms", "forget", "forgotten_ms"),
    ("forget a run at p99, ms", "forget", "forgotten_p99_ms"),
    ("forget a user of some 12 runs, ms", "forget", "user_ms"),
    ("`hepm stats`, s", "stats", "s"),
    ("`hepm view --most 200`, s", "view", "s"),
    ("`hepm view --most 200`, peak MiB", "view", "peak_mib"),
    ("`hepm doctor`, s", "doctor", "s"),
    ("`hepm doctor`, peak MiB", "doctor", "peak_mib"),
]

PANELS = {
    "first suggestion in a fresh process, s": [(policy, f"suggest-{policy}", "first_s") for policy in POLICIES],
    "further suggestions, median ms": [(policy, f"suggest-{policy}", "further_ms") for policy in POLICIES],
    "memory of a process, peak MiB": [
        ("procedural", "suggest-procedural", "peak_mib"),
        ("hybrid", "suggest-hybrid", "peak_mib"),
        ("ingest", "ingest", "peak_mib"),
        ("doctor", "doctor", "peak_mib"),
    ],
    "one run, ms": [
        ("ingest of many", "ingest", "ms_a_run"),
        ("learn one more", "learn", "learned_ms"),
        ("with hybrid suggestions", "learn-with-hybrid", "learned_ms"),
        ("forget", "forget", "forgotten_ms"),
    ],
}

_TABLE = re.compile(r"(?<=<!-- growth: table -->\n).*?(?=<!-- growth: end -->)", re.DOTALL)


def write_page(found: Sequence[Found], folder: Path) -> None:
    """Write the table between its marks in tables/growth.md, and growth.svg beside it."""
    page = folder / "tables/growth.md"
    text, times = _TABLE.subn(lambda _: table(found), page.read_text("utf-8"))
    if not times:
        raise SystemExit(f"{page} lacks the marks of the table: <!-- growth: table --> and <!-- growth: end -->")
    page.write_text(text, "utf-8")
    plot(found, folder / "images/growth.svg")


def table(found: Sequence[Found]) -> str:
    sizes = [f"{one['runs']:,}" for one in found]
    lines = [f"| runs | {' | '.join(sizes)} |", "|---" * (len(found) + 1) + "|"]
    for name, part, key in ROWS:
        cells = [_cell(one.get(part, {}), key) for one in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(of_part: Found, key: str) -> str:
    if "failed" in of_part:
        return of_part["failed"]
    value = of_part.get(key)
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(found: Sequence[Found], file: Path) -> None:
    """A panel for each kind of cost, with logarithmic axes; what failed is left out."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "hepm", "font.size": 8, "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True)
    for axis, (title, curves) in zip(axes.flat, PANELS.items(), strict=True):
        for name, part, key in curves:
            points = [(one["runs"], value) for one in found if (value := _value(one.get(part, {}), key)) is not None]
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        axis.set(title=title, xscale="log", yscale="log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("runs")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def _value(of_part: Found, key: str) -> float | None:
    if "failed" in of_part:
        return None
    if key == "ms_a_run":
        return of_part["us_a_run"] / 1000 if "us_a_run" in of_part else None
    return of_part.get(key)
