"""How the notebooks draw: one style, and the tool graph as a picture."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from hepm.web.layout import layout

INK, GREY, PALE, BLUE, GREEN, RED = "#1f2933", "#8d99a6", "#d5dae1", "#0b7285", "#37b24d", "#c92a2a"
COLOURS = [BLUE, "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#b08900", "#1864ab", "#7b4b2a", "#94d82d", "#f783ac"]
COLOURS += ["#3bc9db", "#9c36b5", "#ffa94d", "#495057", "#20c997"]
HALO = [withStroke(linewidth=2, foreground="white", alpha=0.85)]

plt.rcParams.update(
    {
        "figure.dpi": 80,
        "figure.figsize": (8, 3),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GREY,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.titlelocation": "left",
        "axes.titlesize": 10.5,
        "axes.axisbelow": True,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "font.size": 9,
        "legend.frameon": False,
    }
)


def positions_of(graph: nx.DiGraph) -> dict[str, tuple[float, float]]:
    """Where `hepm view` puts the tools: linked ones near each other, names apart."""
    numbers = {tool: number for number, tool in enumerate(graph)}
    tools = [{"name": tool, "label": tool, "calls": node["calls"]} for tool, node in graph.nodes(data=True)]
    edges = [{**edge, "source": numbers[a], "target": numbers[b]} for a, b, edge in graph.edges(data=True)]
    return {tool: (x, -y) for tool, (x, y, _) in zip(graph, layout(tools, edges), strict=True)}


def draw_graph(
    graph: nx.DiGraph,
    axes: Axes,
    *,
    colours: Mapping[str, str] | None = None,
    labels: Iterable[str] | None = None,
    scale: float = 1.0,
) -> None:
    """Draw a graph of `Memory.graph`: the area of a dot grows with its calls, the width of an edge with its support.

    Args:
        colours: Of tools; an edge may have a `colour` of its own.
        labels: The tools that are named; None for all.
    """
    places = positions_of(graph)
    calls = {tool: node["calls"] for tool, node in graph.nodes(data=True)}
    sizes = [scale * (12 + 330 * calls[tool] / max(1, *calls.values())) for tool in graph]
    edges = [edge for *_, edge in graph.edges(data=True)]
    most = max([1, *(edge["support"] for edge in edges)])
    nx.draw_networkx_edges(
        graph,
        places,
        ax=axes,
        node_size=sizes,
        width=[scale * (0.3 + 3 * edge["support"] / most) for edge in edges],
        edge_color=[edge.get("colour", GREY) for edge in edges],
        alpha=0.6,
        arrowsize=6 * scale**0.5,
        connectionstyle="arc3,rad=0.12",
    )
    dots = [(colours or {}).get(tool, BLUE) for tool in graph]
    nx.draw_networkx_nodes(graph, places, ax=axes, node_size=sizes, node_color=dots, edgecolors="white", linewidths=0.7)
    for tool, size in zip(graph, sizes, strict=True):
        if labels is None or tool in set(labels):
            up = size**0.5 / 2 + 1.5
            about = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 7, "path_effects": HALO}
            axes.annotate(tool, places[tool], (0, up), **about)
    axes.margins(0.03)
    axes.axis("off")


def draw_flow(runs: Iterable[Sequence[str]], axes: Axes, *, columns: int = 5, most: int = 7) -> None:
    """Draw runs as rivers: a column for each call, a bar for each tool, a band for the runs from one to the next.

    Args:
        most: Tools per column; the others share the bar "…".
    """
    cut = [[*run[:columns], *["(end)"] * (columns - len(run))] for run in runs]
    counts = [Counter(run[at] for run in cut) for at in range(columns)]
    named = [[tool for tool, _ in count.most_common() if tool != "(end)"][:most] for count in counts]
    cut = [[tool if tool in {*named[at], "(end)"} else "…" for at, tool in enumerate(run)] for run in cut]
    order = {tool: number for number, tool in enumerate(dict.fromkeys(tool for names in named for tool in names))}
    order |= {"…": len(order), "(end)": len(order) + 1}
    gap, tops = len(cut) * 0.03, []
    for at in range(columns):
        heights, top = Counter(run[at] for run in cut), 0.0
        tops.append({})
        for tool in sorted(heights, key=order.__getitem__):
            tops[at][tool] = top
            if tool != "(end)":
                colour = COLOURS[order[tool] % len(COLOURS)] if tool != "…" else GREY
                axes.add_patch(Rectangle((at, top), 0.04, heights[tool], color=colour))
                label = f"{tool} {heights[tool]}"
                axes.text(at + 0.06, top + heights[tool] / 2, label, va="center", fontsize=7, path_effects=HALO)
            top += heights[tool] + gap
    for at in range(columns - 1):
        left, right = dict(tops[at]), dict(tops[at + 1])
        bands = Counter((run[at], run[at + 1]) for run in cut)
        for one, other in sorted(bands, key=lambda pair: (order[pair[0]], order[pair[1]])):
            height, a, b, x, y = bands[one, other], left[one], right[other], at + 0.04, at + 1
            left[one], right[other] = a + height, b + height
            if "(end)" in (one, other):
                continue
            points = [(x, a), (x + 0.45, a), (y - 0.45, b), (y, b), (y, b + height)]
            points += [(y - 0.45, b + height), (x + 0.45, a + height), (x, a + height), (x, a)]
            codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
            colour = COLOURS[order[one] % len(COLOURS)] if one != "…" else GREY
            axes.add_patch(PathPatch(Path(points, codes), facecolor=colour, alpha=0.25, edgecolor="none"))
    axes.set(xlim=(-0.05, columns - 0.3), ylim=(len(cut) * 1.35, -gap))
    axes.axis("off")
