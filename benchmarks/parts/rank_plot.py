"""Draw the table of rankers.

usage: python benchmarks/parts/rank_plot.py docs/tables/rankers.md docs/images/ranker.png
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NUMBER = r"([+−-]?\.\d+)"
SPAN = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")


def main(page: Path, target: Path) -> None:
    rows: list[tuple[str, list[tuple[float, float, float]]]] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip(" *`") for cell in line.strip("|").split("|")]
        if len(cells) == 5 and SPAN.search(cells[4]):
            spans = [SPAN.search(cell) for cell in cells[3:]]
            found = [tuple(float(v.replace("−", "-")) for v in s.groups()) if s else (0.0, 0.0, 0.0) for s in spans]
            rows.append((re.sub(r"[`*]", "", cells[0]), found))
    rows.reverse()
    figure, axes = plt.subplots(1, 2, figsize=(10, 0.34 * len(rows) + 1), sharey=True)
    titles = ("MRR against the hybrid policy", "gain where failed runs diverged")
    for at, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        for y, (_, spans) in enumerate(rows):
            mean, low, high = spans[at]
            axis.plot([low, high], [y, y], color="#4477aa", linewidth=2)
            axis.plot(mean, y, "o", color="#4477aa", markersize=5)
        axis.axvline(rows[-1][1][at][0], color="#999999", linewidth=1, linestyle=":")
        axis.set_title(title, fontsize=10)
        axis.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=9)
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
        axis.tick_params(left=False)
    figure.tight_layout()
    figure.savefig(target, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
