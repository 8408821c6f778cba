"""How the notebooks draw: one style, and the tool graph as a picture."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from hepm.graph.page.layout import layout

INK, GREY, PALE, BLUE, GREEN, RED = "#1f2933", "#8d99a6", "#d5dae1", "#0b7285", "#37b24d", "#c92a2a"
COLOURS = [BLUE, "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#b08900", "#1864ab", "#7b4b2a", "#868e96"]
HALO = [withStroke(linewidth=2, foreground="white", alpha=0.85)]

plt.rcParams.update(
    {
        "figure.dpi": 90,
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
