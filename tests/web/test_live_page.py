"""The page of `hepm serve` in a real browser, with a real server and runs through its proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.experience.lessons import Principle
from hepm.experience.prompt import PromptOptions
from hepm.graph.lessons.rows import Parent, Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.trials import CONTROL, MEMORY, Trial
from hepm.types import TRIAL
from tests.agents.serving import serving, until
from tests.loopback import Loopback, completion, tool_call
from tests.report.desk import desk_runs
from tests.web.test_graph_page import HOSTILE

WISH = "Refund parcel 7, the glass is broken."
SPECS = ("get_order", "refund", "close_ticket")
WAIT_MS = 20_000
EXPECTED = ("status of 401", "status of 403", "ERR_CONNECTION_REFUSED")  # a page asks until it is closed


def run_of(number: int, *tools: str, success: bool = True, user: str = "") -> Trajectory:
    turns = [Turn("user", f"Refund parcel {number}, the glass is broken.")]
    turns += [Turn("assistant", calls=(ToolCall(tool, result="done"),)) for tool in tools]
    return Trajectory(f"run-{number}", tuple(turns), outcome=Outcome(float(success), success), user=user)


def principle(text: str, source: str, target: str) -> Principle:
    return Principle(
        "guiding",
        text,
        triples=(Triple(source, "followed_by", target),),
        sources=(Source("run-0", 1.0), Source("run-1", 1.0)),
        tools=(source, target),
    )


RULE = principle("After get_order, calling refund led to success.", "get_order", "refund")
SAID = RULE.text


class Live:
    """A memory, its server, and the model behind the proxy."""

    def __init__(self, memory: Memory, url: str, model: Loopback) -> None:
        self.memory, self.url, self.model = memory, url, model

    def play(self, session: str, *tools: str, namespace: str = "default", success: bool | None = True) -> None:
        """One run through the proxy: a call each turn."""
        messages: list[Any] = [{"role": "user", "content": WISH}]
        headers = {"x-hepm-session": session, "x-hepm-namespace": namespace}
        specs = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in SPECS]
        for reply in (*map(tool_call, tools), completion("done")):
            self.model.replies = [reply]
            body = {"model": "small", "messages": messages, "tools": specs}
            answer = httpx2.post(f"{self.url}/v1/chat/completions", json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            message = answer.json()["choices"][0]["message"]
            messages.append(message)
            for call in message.get("tool_calls") or ():
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "delivered"})
        if success is not None:
            body = {"session": session, "success": success}
            assert httpx2.post(f"{self.url}/outcome", json=body, headers=headers).status_code == 200


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    model = Loopback()
    store = tmp_path_factory.mktemp("live") / "m.hepm"
    with Memory.open(store, speak="weighed") as memory:
        memory.ingest([run_of(number, "get_order", "refund", user="alice") for number in range(5)])
        memory.ingest([run_of(number, "get_order", "refund", user="alice") for number in range(5)], namespace="desk")
        memory.lessons.change(LessonChange(put=[RULE.row()]), namespace="desk")
        memory.preferences.edit("alice", "short answers", namespace="desk")
        names = [name[:256] for name in HOSTILE.values() if name != HOSTILE["surrogate"]]
        memory.ingest([run_of(number, *names) for number in range(2)], namespace=HOSTILE["markup"])
        lessons = [principle(f"{name} led to success.", name, name).row() for name in names]
        memory.lessons.change(LessonChange(put=lessons), namespace=HOSTILE["markup"])
        memory.preferences.edit(HOSTILE["markup"], HOSTILE["markup"], namespace=HOSTILE["markup"])
        with serving(memory, upstream=model.url) as (_, url):
            yield Live(memory, url, model)
    model.stop()


@pytest.fixture
def sheet(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; at the end no page may have complained, or asked for anything but the server."""
    opened: list[Any] = []
    complaints: list[str] = []

    def open_page(url: str, view: str = "graph", namespace: str = "", *, width: int = 1280, scheme: str = "light"):
        page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce")
        opened.append(page)
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda one: complaints.append(one.text))
        page.on("pageerror", lambda one: complaints.append(str(one)))
        page.on("dialog", lambda one: complaints.append(f"dialog: {one.message}"))
        page.on("request", lambda one: one.url.startswith((url, "data:")) or complaints.append(one.url))
        page.goto(f"{url}/#view={view}" + (f"&namespace={namespace}" if namespace else ""))
        return page

    yield open_page
    for page in opened:
        page.close()
    # A refused request is a line in the console of its own accord.
    assert [text for text in complaints if not any(expected in text for expected in EXPECTED)] == []


def test_a_run_through_the_proxy_grows_the_graph_and_its_suggestions_are_shown_as_followed_or_not(
    live: Live, sheet: Callable[..., Any]
):
    graph, hints = sheet(live.url), sheet(live.url, "hints")
    graph.wait_for_function("() => TOOLS.some((tool) => tool.name === 'refund')")
    assert not graph.evaluate("TOOLS.some((tool) => tool.name === 'close_ticket')")
    graph.locator("#panel .all .tool", has_text="refund").click()
    live.play("followed", "get_order", "refund", "close_ticket")
    live.play("stubborn", "close_ticket", success=False)
    graph.wait_for_function("() => TOOLS.some((tool) => tool.name === 'close_ticket')")
    assert graph.inner_text("#panel h2") == "refund"
    assert "close_ticket" in graph.inner_text("#panel")
    graph.locator("#panel .why").first.click()
    graph.wait_for_function("() => document.querySelector('#panel .asked [title=followed]')")
    graph.click("#panel .asked [title=followed]")
    graph.locator("#run[open] .call", has_text="close_ticket").wait_for()
    assert graph.inner_text("#panel .asked [title=followed]") == WISH
    graph.click("#run-close")
    hints.wait_for_function("() => document.querySelectorAll('#hints .mark.no').length >= 2")
    rows = [" ".join(row.split()) for row in hints.locator("#hints li").all_inner_texts()]
    # Nearly all runs call refund after get_order: that the agent did so follows nobody.
    assert any("refund" in row and "usual call" in row and f"succeeded {WISH}" in row for row in rows), rows
    assert any("get_order" in row and "not followed called close_ticket" in row and "failed" in row for row in rows)
    live.play("waits", "get_order", success=None)
    hints.locator("#runs [title='Run waits']").wait_for()
    assert hints.inner_text("#runs [title='Run waits']") == WISH
    assert not hints.is_visible("#unlabelled"), "it is not over yet"
    hints.click("#runs [title='Run waits']")
    hints.locator("#run[open]", has_text="under way").wait_for()
    hints.keyboard.press("Escape")
    hints.locator("#runs").get_by_role("button", name="It failed").click()
    hints.get_by_role("button", name="End it").click()
    hints.get_by_text("No run is under way.").wait_for()
    run = live.memory.run("waits")
    assert run is not None
    assert run.outcome.success is False


def test_runs_are_listed_by_request_and_lead_to_their_calls_with_what_memory_had_suggested(
    live: Live, sheet: Callable[..., Any]
):
    live.play("opened", "get_order", "refund")
    page = sheet(live.url, "runs")
    page.locator("#stored [title='Run opened']").wait_for()
    row = page.locator("#stored li", has=page.locator("[title='Run opened']"))
    assert row.inner_text().split("\n")[1:] == [f"{WISH} small", "3 turns", "succeeded"]
    page.click("#stored [title='Run opened']")
    turns = page.locator("#run[open] .turns > li")
    assert turns.nth(0).inner_text().split("\n")[-1] == WISH
    assert "memory had suggested get_order" in turns.nth(1).inner_text()
    assert "delivered" in turns.nth(1).inner_text()
    assert "refund" in turns.nth(2).inner_text()
    page.click("#run-close")
    assert not page.locator("#run[open]").count()


def test_the_first_view_is_the_report_whose_rows_open_runs_and_forks_are_marked_in_the_graph(
    sheet: Callable[..., Any], tmp_path: Path
):
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest(desk_runs(60))
        with serving(memory) as (_, url):
            page = sheet(url, "")
            page.locator(".fork").first.wait_for()
            assert page.inner_text(".lead").startswith("60 runs, 67 % succeeded")
            page.locator(".fork .way .shown-runs button").first.click()
            assert "get_order" in page.locator("#run[open] .turns").inner_text()
            page.click("#run-close")
            page.click("[data-view=graph]")
            until(lambda: page.evaluate("EDGES.length > 0"))
            sides = page.evaluate("EDGES.filter((edge) => edge.fork).map((edge) => TOOLS[edge.target].name).sort()")
            assert sides == ["cancel_order", "return_items"]


def test_runs_are_found_by_words_outcome_tool_model_and_week(sheet: Callable[..., Any], tmp_path: Path):
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest(desk_runs(120))
        with serving(memory) as (_, url):
            page = sheet(url, "runs")
            page.locator("#stored .run").nth(49).wait_for()
            page.click("#more-runs")
            page.locator("#stored .run").nth(99).wait_for()
            page.select_option("[name=outcome]", "failed")
            page.select_option("[name=model]", "large")
            page.select_option("[name=tool]", "return_items")
            found = page.locator("#stored .run")
            until(lambda: found.count() == 4)
            assert all("failed" in text and "large" in text for text in found.all_inner_texts())
            page.fill("[name=words]", "CARPET")
            page.get_by_text("No run matches.").wait_for()
            page.select_option("[name=outcome]", "")
            page.select_option("[name=model]", "")
            page.locator("#stored .run").first.wait_for()
            assert all("carpet" in text for text in found.all_inner_texts())


def test_the_page_leads_with_what_memory_does_and_says_what_keeps_it_from_helping(
    sheet: Callable[..., Any], tmp_path: Path
):
    with Memory.open(tmp_path / "m.hepm") as memory:
        runs: list[Trajectory] = []
        for number in range(400):
            arm = CONTROL if number % 4 == 0 else MEMORY
            won = number % 10 < (4 if arm == CONTROL else 9)
            run = replace(run_of(number, "get_order", "refund", success=won), task=f"broken {number % 7}")
            runs.append(replace(run, tags={TRIAL: Trial(arm, 0.25).to_tag()}))
        memory.ingest(runs)
        open_ones = (replace(run_of(number, "get_order"), outcome=Outcome()) for number in range(400, 440))
        memory.ingest(open_ones)
        with serving(memory) as (_, url):
            page = sheet(url, "hints")
            page.locator("#uplift-plot polyline").wait_for()
            assert page.inner_text("#uplift").startswith("Memory raised success by ")
            first = page.locator("#figures > div").first.inner_text().split("\n")
            assert (first[0], first[1][0]) == ("Uplift", "+")
            page.locator("#advice li", has_text="40 of 440 runs have no outcome and teach nothing.").wait_for()
            assert page.locator("#unlabelled code").inner_text() == "hepm label"
            assert page.locator("#advice code").first.inner_text() == "hepm label --namespace default"
            page.click("#uplift-more summary")
            assert "tokens of memory" in page.inner_text("#uplift-table")


def test_a_principle_is_retired_and_revived_and_notes_are_read(live: Live, sheet: Callable[..., Any]):
    def prompt() -> str:
        written = PromptOptions(suggestions=0, as_written=True)
        about: dict[str, Any] = {"after": "get_order", "state": WISH, "user": "alice", "namespace": "desk"}
        return live.memory.prompt(**about, options=written).text

    page = sheet(live.url, "lessons", "desk")
    page.get_by_text(SAID).wait_for()
    assert RULE.text in prompt()
    page.locator("li", has_text=SAID).get_by_role("button", name="Retire").click()
    page.locator("#message").get_by_role("button", name="Undo").wait_for()
    assert not [one for one in live.memory.lessons.list("principle", namespace="desk") if one.row.id == RULE.id]
    assert RULE.text not in prompt()
    page.check("#retired")
    page.locator("li.gone", has_text=SAID).get_by_role("button", name="Revive").click()
    page.wait_for_function("() => !document.querySelector('#lessons li.gone')")
    assert [one for one in live.memory.lessons.list("principle", namespace="desk") if one.row.id == RULE.id]
    page.get_by_label("Notes on users").check()
    page.locator("#lessons", has_text="version 1, by hand").wait_for()
    assert "short answers" in page.inner_text("#lessons")


def test_hostile_names_and_texts_are_shown_and_never_executed(live: Live, sheet: Callable[..., Any]):
    page = sheet(live.url)
    page.wait_for_function("() => document.querySelectorAll('#namespace option').length === 3")
    page.select_option("#namespace", HOSTILE["markup"])
    page.wait_for_function(f"() => TOOLS.length === {len(HOSTILE)}")
    for tool in range(len(HOSTILE)):
        page.evaluate("id => selectTool(id)", tool)
    for edge in range(page.evaluate("EDGES.length")):
        page.evaluate("async id => { selectEdge(id); await completeEdge(EDGES[id]); }", edge)
    assert "\\u202egnp.exe\\u2066" in page.evaluate("clearSelection() ?? panel.textContent")
    live.play("hostile", "refund", namespace="default")
    for view in ("hints", "lessons"):
        page.click(f"nav [data-view={view}]")
    page.locator("#lessons", has_text="gnp.exe").wait_for()
    page.get_by_label("Notes on users").check()
    page.locator("#lessons", has_text="version 1, by hand").wait_for()
    assert page.evaluate("window.executed") is None
    assert page.locator("img, #lessons script").count() == 0


def test_a_key_approves_the_pending_lesson_in_focus_and_another_one_rejects_it(
    sheet: Callable[..., Any], tmp_path: Path
):
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest([run_of(n, "get_order") for n in range(2)])
        memory.lessons.change(LessonChange(put=[RULE.row()]))
        texts = ("<b>Call</b> wire_money.", "Call sing.", "Call dance.")
        written = [replace(principle(text, "get_order", "refund"), distilled_by="agent of eve") for text in texts]
        edited = replace(written[0].row(), parents=(Parent(RULE.id, "edit"),))
        memory.lessons.change(LessonChange(put=[edited, *(one.row() for one in written[1:])]))
        with serving(memory) as (_, url):
            page = sheet(url, "lessons")
            page.get_by_text("3 lessons are pending").wait_for()
            page.get_by_text(f"Replaces: {RULE.text}").wait_for()
            assert page.get_by_text("by agent of eve").count() == 3
            page.locator(f"[data-id='{written[2].id}']").focus()
            page.keyboard.press("r")
            page.get_by_text("Rejected: Call dance.").wait_for()
            page.locator(f"[data-id='{edited.id}']").focus()
            page.keyboard.press("a")
            page.get_by_text("Approved: <b>Call</b> wire_money.").wait_for()
            page.get_by_text("1 lesson is pending").wait_for()
        stored = {one.row.text: one.row.retired for one in memory.lessons.list("principle", retired=True)}
        assert stored == {RULE.text: "superseded", texts[0]: "", texts[1]: "pending", texts[2]: "deleted"}


def test_a_run_that_another_process_stored_is_in_the_graph(tmp_path: Path):
    with Memory.open(tmp_path / "m.hepm", speak="weighed") as memory, serving(memory) as (_, url):

        def drawn() -> list[str]:
            return [tool["name"] for tool in httpx2.get(f"{url}/api/graph").json()["tools"]]

        assert drawn() == []
        # As another process does, through a connection of its own.
        with Memory.open(tmp_path / "m.hepm", speak="weighed") as other:
            other.ingest([run_of(1, "get_order")])
        # A graph stands for ten times as long as drawing it took.
        assert until(lambda: "get_order" in drawn())


def test_the_document_holds_no_data_and_its_policy_allows_its_own_scripts_alone(live: Live):
    answer = httpx2.get(live.url)
    assert "refund" not in answer.text
    assert HOSTILE["markup"] not in answer.text
    rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert all(source.startswith("'sha256-") for source in (rules["script-src"] + " " + rules["style-src"]).split())
    assert answer.headers["x-content-type-options"] == "nosniff"
