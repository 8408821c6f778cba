"""Neo4j Browser on a real server, driven by Chromium: what a newcomer drops onto it, clicks and sees."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.cypher import favourites, questions, scripts, style
from hepm.cypher.model import NODES, PROPERTIES
from hepm.experience.lessons import Experience, Principle
from hepm.graph.lessons.rows import Parent, Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from hepm.graph.neo4j_local import LocalServer
from tests.cypher.engines import EXTRA_LABELS
from tests.neo4j_server import Neo4jServer, emptied

T = TypeVar("T")

LONG = "estimate_drive_feasibility_by_mileage_and_range"
PICTURES = [name for name, question in questions().items() if question.picture]


def run_of(number: int, tools: list[str], *, success: bool) -> Trajectory:
    turns = [Turn("user", f"Please return order number {number}.")]
    turns += [Turn("assistant", calls=(ToolCall(tool, result="done"),)) for tool in tools]
    return Trajectory(f"run-{number}", turns=tuple(turns), outcome=Outcome(float(success), success), task=f"{number}")


def learned_from(run: str, lesson: str, parent: Experience | None = None) -> Experience:
    """What a run taught, or what evolved from that."""
    return Experience(
        situation="A user wants to return an order.",
        action="Called get_order_details(order_id).",
        outcome="It succeeded.",
        lesson=lesson,
        zone="warning" if parent else "golden",
        stage="exploration",
        reward=1.0,
        sources=(Source(run, 1.0),),
        tools=("find_user_id_by_email",),
        parents=(Parent(parent.id, "mutation"),) if parent else (),
        generation=1 if parent else 0,
    )


OLDER = learned_from("run-0", "Look the order up before anything is returned.")
YOUNGER = learned_from("run-1", "Look the order up, and never cancel it.", OLDER)
RULE = Principle(
    "cautionary",
    "After get_order_details, calling cancel_order ended in failure.",
    triples=(Triple("cancel_order", "fails_after", "get_order_details"),),
    sources=(Source("run-4", 0.0),),
    tools=("find_user_id_by_email",),
)

PATIENCE_S = 120
# Functions, not expressions: Browser's pages allow no eval, which the waiting for an expression needs.
EDITOR_HOLDS_TEXT = "() => !!document.querySelector('.monaco-editor .view-lines').innerText.trim()"
EDITOR_IS_EMPTY = "() => !document.querySelector('.monaco-editor .view-lines').innerText.trim()"

RUNS = [
    *(run_of(i, ["find_user_id_by_email", "get_order_details", LONG, "return_items"], success=True) for i in range(4)),
    *(run_of(i, ["find_user_id_by_email", "get_order_details", "cancel_order"], success=False) for i in range(4, 7)),
]


def at_rest(read: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """What is drawn when that has been what is wanted for a second; else as it is after some time."""
    deadline = time.monotonic() + PATIENCE_S
    since: float | None = None
    while (now := time.monotonic()) < deadline:
        since = None if not wanted(read()) else since or now
        if since is not None and now - since >= 1:
            break
        time.sleep(0.05)
    return read()


class Browser:
    """The page of Neo4j Browser, logged in."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE_S * 1000)

    def log_in(self, server: LocalServer) -> None:
        status = server.status()
        self.page.goto(f"{status.browser}?dbms=bolt://localhost:{status.bolt_port}")
        self.page.fill('[data-testid="username"]', status.username)
        self.page.fill('[data-testid="password"]', server.password)
        self.page.click('[data-testid="connect"]')
        self.page.wait_for_selector("text=Connection credentials")

    def drop(self, name: str, content: bytes) -> None:
        """What dropping a file onto the window does."""
        self.page.evaluate(
            """([name, content]) => {
              const dropped = new DataTransfer();
              dropped.items.add(new File([Uint8Array.from(atob(content), (c) => c.charCodeAt(0))], name));
              const event = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: dropped });
              document.querySelector(".filedrop").dispatchEvent(event);
            }""",
            [name, base64.b64encode(content).decode()],
        )

    def run(self, text: str) -> None:
        """Type a command and run it; Browser empties the editor once it has taken it."""
        editor = self.page.locator(".monaco-editor").first
        editor.click()
        self.page.wait_for_function(EDITOR_IS_EMPTY)
        self.page.keyboard.insert_text(text)
        self.page.wait_for_function(EDITOR_HOLDS_TEXT)
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(EDITOR_IS_EMPTY)

    def answer(self, text: str) -> str:
        """The frame that shows what a command did, once it holds a text."""
        frame = self.page.locator("article", has_text=text).first
        frame.wait_for()
        return frame.inner_text()

    def draw(self, query: str) -> None:
        """Run a query in an empty window and wait for its picture."""
        self.run(":clear")
        self.page.wait_for_selector("article", state="detached")
        self.run(query)
        self.page.wait_for_selector("article g.node text.caption")

    def captions(self, of: str = "node") -> list[str]:
        """What is written in the circles, or on the arrows."""
        lines = "(group) => [...group.querySelectorAll('text')].map((line) => line.textContent.trim()).join(' ')"
        return self.page.evaluate(f"[...document.querySelectorAll('article g.{of}')].map({lines})")

    def arrows(self) -> set[tuple[float, str]]:
        """Width and colour of each arrow: its outline is as far from the middle as half of its shaft."""
        found = self.page.evaluate(
            """[...document.querySelectorAll('article g.relationship path.b-outline')].map((arrow) => [
              arrow.getAttribute('d').split(/[ML]/)[1].trim().split(/[ ,]+/)[1], arrow.getAttribute('fill')])"""
        )
        return {(2 * abs(float(half)), colour) for half, colour in found}

    @contextmanager
    def favourites(self) -> Iterator[None]:
        """With the drawer under the star open."""
        self.page.click('[data-testid="navigationFavorites"]')
        for folder in ("hepm", "hepm pictures", "hepm questions"):
            self.page.click(f'[data-testid="expandFolder-{folder}"]')
        yield
        self.page.click('[data-testid="navigationFavorites"]')


@pytest.fixture(scope="module")
def server(neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server that brings Browser along, with a few runs; NEO4J_URI may name one that does not."""
    local = neo4j_server.local
    own = None if local else LocalServer(tmp_path_factory.mktemp("browser"), say=print)
    if own:
        own.start(timeout_s=240)
    found = local or own
    assert found is not None
    try:
        status = found.status()
        assert status.uri is not None
        emptied(Neo4jServer(status.uri, status.username, found.password, "neo4j", found))
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("NEO4J_USERNAME", status.username)
            environment.setenv("NEO4J_PASSWORD", found.password)
            with Memory.open(status.uri) as memory:
                memory.ingest(RUNS, namespace="shop")
            login = Login(status.uri, status.username, found.password)
            with contextlib.closing(Neo4jStore(login)) as store:
                store.lessons.change(
                    LessonChange(put=[one.row() for one in (OLDER, YOUNGER, RULE)]), {}, namespace="shop"
                )
                store.lessons.change(LessonChange(retire={OLDER.id: "superseded"}), {}, namespace="shop")
        yield found
    finally:
        if own:
            own.stop()


@pytest.fixture(scope="module")
def browser(chromium: Any, server: LocalServer) -> Iterator[Browser]:
    """Logged in, with the style and the favourites dropped onto it and the three that prepare it run."""
    opened = Browser(chromium.new_page(viewport={"width": 1400, "height": 900}))
    opened.log_in(server)
    opened.drop("hepm-favourites.zip", favourites())
    with opened.favourites():
        for number, sign in (("1. Style", "diameter: "), ("2. Draw", '"autoComplete": false'), ("3. Values", "shop")):
            item = opened.page.locator('[data-testid="savedScriptListItem"]', has_text=number)
            item.locator('[data-testid="savedScriptsButton-Run"]').click()
            opened.answer(sign)
    yield opened
    opened.page.close()


def test_browser_lists_the_library_under_the_star(browser: Browser):
    with browser.favourites():
        titles = browser.page.locator('[data-testid^="scriptTitle-"]')
        shown = at_rest(titles.all_inner_texts, lambda found: len(found) == len(scripts()))
    expected = [f"{name}: {question.asks}" for name, question in questions().items()]
    assert set(expected) <= set(shown)
    assert len(shown) == len(scripts())


def test_names_of_tools_are_written_in_full_and_arrows_tell_successes_and_failures(browser: Browser):
    assert browser.page.locator("text=product usage").count() == 0
    browser.draw("MATCH (a)-[r:NEXT]->(b) RETURN *")
    names = sorted({"<START>", *(call.name for run in RUNS for call in run.calls())})
    assert at_rest(lambda: sorted(browser.captions()), names.__eq__) == names
    counts = sorted(["4✓ 3✗", "4✓ 3✗", "4✓ 0✗", "4✓ 0✗", "0✓ 3✗"])
    assert at_rest(lambda: sorted(browser.captions("relationship")), counts.__eq__) == counts


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive if at % 4 else []) for at, name in enumerate(PICTURES)]
)
def test_a_favourite_draws_its_picture_with_the_values_that_the_third_one_set(name: str, browser: Browser):
    browser.draw(scripts()[f"hepm pictures/{name}.cypher"])
    captions = at_rest(browser.captions, lambda found: len(found) >= 2 and "" not in found)
    assert len(captions) >= 2
    assert "" not in captions


def test_only_the_ways_asked_for_are_drawn(browser: Browser):
    browser.draw(
        "MATCH p = (:Tool {namespace: $namespace})-[r:NEXT]->() RETURN p ORDER BY r.support DESC, r.failures LIMIT 2"
    )
    assert len(at_rest(lambda: browser.captions("relationship"), lambda found: len(found) == 2)) == 2


def test_a_lesson_says_what_it_teaches_in_the_colour_of_what_it_is(browser: Browser):
    browser.draw("MATCH (l:Lesson) RETURN l")
    for word, rule in (("before", "node.Retired"), ("never", "node.Warning"), ("cancel_order", "node.Cautionary")):
        node = browser.page.locator("article g.node", has_text=word).first
        assert node.locator("circle.b-outline").get_attribute("fill") == style()[rule]["color"]


def test_every_label_and_type_of_the_model_has_its_rule():
    known = set(style())
    assert {f"node.{label}" for label in NODES} | {f"node.{one.label}" for one in EXTRA_LABELS} <= known
    assert {f"relationship.{type}" for type in PROPERTIES.keys() - NODES.keys()} <= known


def test_a_label_that_tells_more_comes_behind_the_one_that_tells_less():
    # Of two rules that fit a node Browser takes what the later one says.
    order = list(style())
    for one in EXTRA_LABELS:
        assert all(order.index(f"node.{label}") < order.index(f"node.{one.label}") for label in one.of)
    assert all(order.index(f"node.{one.label}") <= order.index("node.Retired") for one in EXTRA_LABELS)


def test_every_parameter_of_the_library_gets_a_value():
    text = scripts()["hepm/3.cypher"]
    for question in questions().values():
        for parameter in question.parameters:
            assert f"AS {parameter.name}" in text or f"{parameter.name}," in text, parameter.name
