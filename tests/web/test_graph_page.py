"""The graph page: what stands in the file, and what a real browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from hepm.errors import InputError
from hepm.types import START, Evidence
from hepm.web.graph_page import read_graph, render_page

HOSTILE = {
    "quotes": "\"'`\\",
    "markup": "</script><script>window.executed=1</script><img src=x onerror=window.executed=1>",
    "comment": "<!--<script>]]>",
    "emoji": "🧰 tool 👩‍💻",
    "lines": "first\nsecond\r\n\u2028third\u2029\x00\x1b[31m",
    "turned": "\u202egnp.exe\u2066",
    "template": "{{data}} {{title}} ${x} &lt;&amp;",
    "property": "__proto__",
    "long": "x" * 10_240,
    "surrogate": "\ud800",
}


def content_of(graph: nx.DiGraph, **options: Any) -> dict[str, Any]:
    """What a page shows of a graph; attributes that a test does not need are nothing of their type."""
    whole = nx.DiGraph()
    graph = nx.relabel_nodes(graph, str)
    for name, node in graph.nodes(data=True):
        whole.add_node(name, **{"calls": 0, "errors": 0, "description": "", **node})
    for a, b, edge in graph.edges(data=True):
        support, failures = edge.get("support", 0), edge.get("failures", 0)
        share = failures / (support + failures) if support + failures else 0.0
        counts = {"support": support, "failures": failures, "failure_share": share}
        whole.add_edge(a, b, weight=edge.get("weight", 0.0), **counts)

    def evidence(edges: Sequence[tuple[str, str]]) -> list[Evidence]:
        found = [graph.edges[edge] for edge in edges]
        return [Evidence(tuple(one.get("runs", ())), tuple(one.get("summaries", ()))) for one in found]

    return read_graph(whole, **{"evidence": evidence, "outcomes": (0, 0), **options})


def render(graph: nx.DiGraph, *, title: str = "a page", **options: Any) -> str:
    return render_page(content_of(graph, **options), title=title)


def shop() -> nx.DiGraph:
    """START → find → order → {return, cancel, order}, and back from return to find, which only failed."""
    graph = nx.DiGraph()
    for name, calls in {"find_user": 40, "get_order": 90, "return_items": 20, "cancel_order": 10}.items():
        graph.add_node(name, calls=calls, errors=calls // 10, description=f"Does {name}.")
    graph.add_node(START, calls=50)
    for a, b, support, failures, weight in (
        (START, "find_user", 38, 2, 1.0),
        ("find_user", "get_order", 30, 5, 1.0),
        ("get_order", "get_order", 20, 2, 0.5),
        ("get_order", "return_items", 12, 4, 0.3),
        ("get_order", "cancel_order", 8, 0, 0.2),
        ("return_items", "find_user", 0, 3, 0.0),
    ):
        seen = {"summaries": [f"what was known before {b}"], "runs": [f"run-{a}-{b}"]}
        graph.add_edge(a, b, support=support, failures=failures, weight=weight, **seen)
    return graph


def hostile() -> nx.DiGraph:
    graph = nx.DiGraph()
    names = list(HOSTILE.values())
    for name in names:
        graph.add_node(name, calls=3, errors=1, description=f"about {name}")
    for a, b in zip([START, *names], names, strict=False):
        graph.add_edge(a, b, support=1, failures=1, weight=1.0, summaries=[b, a], runs=[a])
    return graph


def wide(tools: int, next_tools: int = 6) -> nx.DiGraph:
    graph = nx.DiGraph()
    for i in range(tools):
        graph.add_node(f"tool_number_{i}", calls=1 + (i * 37) % 500, errors=0, description="")
        for k in range(next_tools):
            target = f"tool_number_{(i * (k + 2) + k + 1) % tools}"
            graph.add_edge(f"tool_number_{i}", target, support=9 - k, failures=k, weight=(6 - k) / 21)
    graph.add_edge(START, "tool_number_0", support=9, weight=1.0)
    return graph


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def test_the_page_names_every_tool_and_edge_it_was_given():
    data = data_of(render(shop(), title="shop"))
    names = [tool["name"] for tool in data["tools"]]
    assert names == [START, "get_order", "find_user", "return_items", "cancel_order"]
    assert data["start"] == 0
    assert {(names[e["source"]], names[e["target"]]) for e in data["edges"]} == set(shop().edges)


def test_the_order_in_which_a_graph_was_built_does_not_change_a_byte():
    turned = nx.DiGraph()
    turned.add_nodes_from(reversed(list(shop().nodes(data=True))))
    turned.add_edges_from(reversed(list(shop().edges(data=True))))
    assert render(turned, title="shop") == render(shop(), title="shop")


def at_random(tools: int, draw: random.Random) -> nx.DiGraph:
    graph = nx.DiGraph()
    for name in (START, *map(str, range(tools))):
        graph.add_node(name, calls=draw.randint(1, 40), errors=0, description="")
    for name in list(graph):
        for other in draw.sample(range(tools), draw.randint(1, 4)):
            edge = {"support": draw.randrange(30), "weight": draw.random(), "summaries": [], "runs": []}
            graph.add_edge(name, str(other), failures=0, **edge)
    return graph


def test_no_dot_lies_on_another():
    draw = random.Random(0)
    graphs = [shop(), hostile(), wide(200), nx.DiGraph(nx.star_graph(30)), nx.empty_graph(9, nx.DiGraph)]
    for graph in (*graphs, *(at_random(tools, draw) for tools in (4, 6, 12, 40) for _ in range(20))):
        for one, other in itertools.combinations(data_of(render(graph))["tools"], 2):
            apart = math.dist((one["x"], one["y"]), (other["x"], other["y"]))
            assert apart > one["radius"] + other["radius"], graph


@pytest.mark.parametrize("graph", [shop(), hostile()], ids=["shop", "hostile"])
def test_nothing_in_the_page_is_loaded_from_elsewhere(graph: nx.DiGraph):
    page = render(graph, title="a page")
    markup = re.sub(r"(<script\b[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert not re.search(
        r"<(link|iframe|object|embed|img|base|form\b[^>]*action)\b|\bsrc\s*=|\bhref\s*=|@import|url\(", markup
    )
    ours = page[page.rindex("</script>\n<script>") :]
    assert not re.search(r"https?:|\b(fetch|import|XMLHttpRequest|WebSocket|sendBeacon|eval|innerHTML)\b", ours)


def test_the_policy_allows_these_scripts_and_styles_and_nothing_else():
    page = render(shop(), title="shop")
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    texts = {
        "script-src": re.findall(r"<script>(.*?)</script>", page, re.DOTALL),
        "style-src": re.findall(r"<style>(.*?)</style>", page, re.DOTALL),
    }
    assert rules.keys() == {"default-src", "base-uri", "form-action", *texts}
    assert {rules[name] for name in ("default-src", "base-uri", "form-action")} == {"'none'"}
    for name, inline in texts.items():
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline]
        assert rules[name].split() == [f"'sha256-{text}'" for text in hashes]


def test_the_licence_of_vis_network_stays_in_the_page():
    page = render(shop(), title="shop")
    assert "vis-network, used under the MIT license" in page
    assert "Copyright (c) 2014-2017 Almende B.V." in page


def test_hostile_texts_come_back_unchanged_from_the_embedded_json():
    page = render(hostile(), title=HOSTILE["markup"])
    data = data_of(page)
    assert {tool["name"] for tool in data["tools"]} == {START, *HOSTILE.values()}
    assert data["title"] == HOSTILE["markup"]
    page.encode("utf-8")


def test_long_evidence_is_cut_and_its_number_kept():
    graph = nx.DiGraph()
    graph.add_edge("a", "b", summaries=["s" * 5000] * 40, runs=[f"r{i}" for i in range(200)])
    (edge,) = data_of(render(graph, title="much"))["edges"]
    assert (edge["all_summaries"], edge["all_runs"]) == (40, 200)
    assert len(edge["summaries"]) < 40
    assert len(edge["runs"]) < 200
    assert all(len(text) <= 600 for text in edge["summaries"])


def test_a_neighbourhood_holds_the_tools_around_its_focus_and_the_edges_among_them():
    data = data_of(render(shop(), title="shop", focus="cancel_order"))
    assert {tool["name"] for tool in data["tools"]} == {"get_order", "cancel_order"}
    assert len(data["edges"]) == 2
    assert data["tools"][data["focus"]]["name"] == "cancel_order"


def test_an_unknown_focus_is_refused_with_close_names():
    with pytest.raises(InputError, match=r"get_ordr.*Close to it: get_order"):
        render(shop(), title="shop", focus="get_ordr")


def test_a_page_keeps_the_most_called_and_the_page_says_what_it_left_out():
    page = render(shop(), title="shop", most=2)
    assert [tool["name"] for tool in data_of(page)["tools"]] == [START, "get_order", "find_user"]
    assert "2 more tools left out" in page


@pytest.mark.parametrize("nodes", [[], [START]], ids=["nothing", "only START"])
def test_an_empty_graph_gives_a_small_page_that_says_so(nodes: list[str]):
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    page = render(graph, title="nothing yet")
    assert "This graph holds no tools yet" in page
    assert "<script>" not in page


def test_start_lies_left_of_what_comes_after_it():
    tools = data_of(render(shop(), title="shop"))["tools"]
    assert tools[0]["x"] == min(tool["x"] for tool in tools)


# From here on in a real browser.


class Sheet:
    """One page open in the browser, and all that it complained about or asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def point_of(self, name: str) -> tuple[float, float]:
        """Where the dot of a tool lies in the window."""
        x, y = self.page.evaluate(
            """name => {
              const at = network.canvasToDOM(network.getPosition(TOOLS.findIndex((tool) => tool.name === name)));
              const corner = plane.getBoundingClientRect();
              return [corner.left + at.x, corner.top + at.y];
            }""",
            name,
        )
        return x, y

    def colours_drawn(self) -> int:
        return self.page.evaluate(
            """() => {
              const canvas = plane.querySelector("canvas");
              const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
              return new Set(new Uint32Array(pixels.buffer)).size;
            }"""
        )

    def panel(self) -> str:
        return self.page.inner_text("#panel")


@pytest.fixture
def look(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Sheet]]:
    """Opens a graph's page; at the end none may have complained or asked for anything but itself."""
    opened: list[Sheet] = []

    def open_page(graph: nx.DiGraph, *, width: int = 1280, height: int = 800, scheme: str = "light", **options: Any):
        file = tmp_path / f"{len(opened)}.html"
        file.write_text(render(graph, **options), "utf-8")
        page = chromium.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        opened.append(Sheet(page))
        page.goto(file.as_uri())
        return opened[-1]

    yield open_page
    for sheet in opened:
        assert sheet.complaints == []
        assert [url for url in sheet.requests if not url.startswith("file:")] == []
        assert len(sheet.requests) == 1
        sheet.page.close()


def test_the_browser_draws_the_graph_and_complains_of_nothing(look: Callable[..., Sheet]):
    assert look(shop(), scheme="dark").colours_drawn() > 50


def test_200_tools_lie_inside_the_window_and_many_names_are_written_none_over_another(look: Callable[..., Sheet]):
    sheet = look(wide(200))
    width, height = sheet.page.evaluate("[plane.clientWidth, plane.clientHeight]")
    places = sheet.page.evaluate("dots(network.getScale()).map(({ at }) => [at.x, at.y])")
    assert all(0 < x < width and 0 < y < height for x, y in places)
    assert sheet.page.evaluate("written.length") >= 40
    assert not sheet.page.evaluate("written.some((a) => written.some((b) => a !== b && overlap(a, b)))")


def test_no_name_lies_on_a_wide_edge_where_there_is_room(look: Callable[..., Sheet]):
    page = look(shop()).page
    assert page.evaluate("wideEdges(network.getScale()).length") > 0
    assert page.evaluate("written.length") == 5
    assert not page.evaluate(
        "written.some((name) => wideEdges(network.getScale()).some((part) => overlap(name, part)))"
    )


def test_clicking_a_tool_lists_its_next_tools_in_order(look: Callable[..., Sheet]):
    sheet = look(shop())
    sheet.page.mouse.click(*sheet.point_of("get_order"))
    assert sheet.page.locator("#panel ol").first.locator(".tool").all_inner_texts() == [
        "get_order",
        "return_items",
        "cancel_order",
    ]
    assert "weight 0.30 · support 12 · failed 4 of 16 (25 %)" in sheet.panel()
    assert "Does get_order." in sheet.panel()


def test_clicking_an_arrow_shows_its_edge(look: Callable[..., Sheet]):
    sheet = look(nx.DiGraph([("left", "right")]))
    (ax, ay), (bx, by) = sheet.point_of("left"), sheet.point_of("right")
    middle = sheet.page.evaluate(
        """([x, y, high]) => {
          const corner = plane.getBoundingClientRect();
          for (let up = -high; up <= high; up += 1)
            if (under({ x: x - corner.left, y: y - corner.top + up }).edge === 0) return [x, y + up];
        }""",
        [(ax + bx) / 2, (ay + by) / 2, 200],
    )
    sheet.page.mouse.click(*middle)
    assert "Number 1 of 1 next tools." in sheet.panel()


def test_slash_finds_a_tool_and_enter_goes_there(look: Callable[..., Sheet]):
    sheet = look(wide(200))
    sheet.page.keyboard.press("/")
    sheet.page.keyboard.type("number_137")
    sheet.page.keyboard.press("Enter")
    assert sheet.page.inner_text("#panel h2") == "tool_number_137"
    assert sheet.page.evaluate("TOOLS[view.tool].name") == "tool_number_137"
    x, y = sheet.point_of("tool_number_137")
    assert 0 < x < 900
    assert 0 < y < 800


def test_hostile_texts_are_shown_and_never_executed(look: Callable[..., Sheet]):
    sheet = look(hostile())
    labels = sheet.page.evaluate("TOOLS.map((tool) => tool.label)")
    assert all(0 < len(label) <= 36 and label.isprintable() for label in labels)
    assert {"first second third [31m", "(no visible name)"} <= set(labels)
    for i in range(len(HOSTILE) + 1):
        sheet.page.evaluate("id => { selectTool(id); showTip({ tool: id }, { x: 9, y: 9 }); }", i)
    for i in range(len(HOSTILE)):
        sheet.page.evaluate("id => { selectEdge(id); showTip({ edge: id }, { x: 9, y: 9 }); }", i)
    sheet.page.fill("#search", "script")
    assert sheet.page.locator("#found li").count() >= 2
    assert sheet.page.evaluate("window.executed") is None
    assert sheet.page.locator("img").count() == 0
