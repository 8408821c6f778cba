"""Other names of tools, retired tools and changed descriptions, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hepm.embed import HashingEmbedder
from hepm.errors import InputError
from hepm.experience.lessons import Principle
from hepm.graph.examination import differences, examine
from hepm.graph.lessons.rows import FAILS_AFTER, FOLLOWED_BY, Source, Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.rows import Selection
from hepm.graph.store import Store
from hepm.graph.tool_life import what_changed, with_own_names
from hepm.types import Outcome, Tool, ToolCall, Trajectory, Turn
from tests.runs import Shelf, trajectory

NS = "shop"
RUNS = (
    trajectory("r1", "find", "open", "close", task="t"),
    trajectory("r2", "search", "open", "find+search", "close", task="t"),
    trajectory("r0", "search", "close"),
    trajectory("r3", "open", "find", success=False),
    trajectory("r4", "find", "find", "close", success=None),
    trajectory("r5", "open", "close"),
)


def fill(store: Store, *runs: Trajectory) -> Shelf:
    shelf = Shelf(*runs)
    store.add(shelf.runs(), shelf.vectors(shelf.runs()), namespace=NS, replay=shelf.replay)
    return shelf


def sound(store: Store) -> None:
    assert examine(store, namespace=NS, replay=Shelf().replay) == []


@pytest.mark.parametrize("counting", ["all", pytest.param("shortest", marks=pytest.mark.exhaustive)])
def test_an_alias_gives_the_graph_of_runs_that_always_used_the_tools_own_name(
    make_two_stores: Callable[..., Store], counting: str
) -> None:
    aliased, renamed = make_two_stores("one", counting=counting), make_two_stores("two", counting=counting)
    fill(aliased, *RUNS[:3])
    aliased.add_alias("find", "search", namespace=NS, replay=Shelf().replay)
    fill(aliased, *RUNS[3:])
    fill(renamed, *(with_own_names(run, {"find": "search"}) for run in RUNS))
    apart = differences(aliased, renamed, namespace=NS)
    # Records keep the name they were written with, and the tool keeps its alias.
    assert [sentence.split(" from ")[0] for sentence in apart] == ["4 runs differ", "1 description differs"]
    sound(aliased)
    before = aliased.edges(namespace=NS), aliased.tools(namespace=NS)
    aliased.rebuild(namespace=NS, replay=Shelf().replay)
    assert (aliased.edges(namespace=NS), aliased.tools(namespace=NS)) == before
    aliased.forget(Selection(trajectory="r2"), namespace=NS, replay=Shelf().replay)
    renamed.forget(Selection(trajectory="r2"), namespace=NS, replay=Shelf().replay)
    assert aliased.edges(namespace=NS) == renamed.edges(namespace=NS)


def test_removing_an_alias_gives_back_the_graph_of_before(make_two_stores: Callable[..., Store]) -> None:
    store, untouched = make_two_stores("one"), make_two_stores("two")
    for one in (store, untouched):
        fill(one, *RUNS)
    store.add_alias("find", "search", namespace=NS, replay=Shelf().replay)
    store.remove_alias("find", namespace=NS, replay=Shelf().replay)
    assert differences(store, untouched, namespace=NS) == []
    sound(store)


def test_aliases_of_an_alias_are_of_the_tool_itself_and_make_no_circle(store: Store) -> None:
    replay = fill(store, *RUNS).replay
    store.add_alias("find", "search", namespace=NS, replay=replay)
    store.add_alias("look", "find", namespace=NS, replay=replay)
    assert store.marks(namespace=NS).aliases == {"find": "search", "look": "search"}
    for alias, tool in (("search", "find"), ("search", "look"), ("find", "open"), ("x", "unknown")):
        with pytest.raises(InputError):
            store.add_alias(alias, tool, namespace=NS, replay=replay)
    store.add_alias("search", "open", namespace=NS, replay=replay)
    assert store.marks(namespace=NS).aliases == {"find": "open", "look": "open", "search": "open"}
    assert [row.name for row in store.tools(namespace=NS)] == ["close", "open"]
    sound(store)


def test_a_renamed_tool_keeps_its_description_and_its_lessons(store: Store) -> None:
    replay = fill(store, *RUNS).replay
    store.describe([Tool("find", "Finds flights.", {"type": "object"})], namespace=NS)
    lesson = Principle("guiding", "Open what you find.", sources=(Source("r1"),), tools=("find",)).row()
    (vector,) = HashingEmbedder().embed([lesson.text])
    store.lessons.change(LessonChange(put=[lesson]), {lesson.text: vector}, namespace=NS)
    store.add_alias("find", "find_flights", namespace=NS, replay=replay, rename=True)
    (row,) = (row for row in store.tools(namespace=NS) if row.name == "find_flights")
    assert (row.description, row.aliases, row.calls) == ("Finds flights.", ("find",), 5)
    with pytest.raises(InputError, match="a tool already"):
        store.add_alias("find_flights", "open", namespace=NS, replay=replay, rename=True)
    sound(store)


def test_an_alias_changes_which_runs_heeded_a_lesson_and_so_its_credit(store: Store) -> None:
    replay = fill(store, *RUNS).replay
    triples = (Triple("open", FAILS_AFTER, "find"), Triple("search", FOLLOWED_BY, "open"))
    warning, advice = [
        Principle("guiding", text, triples=(triple,), sources=(Source("r1"),), tools=("find", "open"), tried=3).row()
        for text, triple in zip(("Do not open.", "Open."), triples, strict=True)
    ]
    texts = [warning.text, advice.text]
    vectors = dict(zip(texts, HashingEmbedder().embed(texts), strict=True))
    store.lessons.change(LessonChange(put=[warning, advice]), vectors, namespace=NS)
    for run in ("r1", "r2", "r3"):
        store.lessons.show(run, [warning.id, advice.id], namespace=NS)

    def credited() -> list[tuple[str, str, bool]]:
        shown = store.lessons.exposures(namespace=NS)
        return sorted((one.run, one.lesson, one.success) for one in shown if one.success is not None)

    before = credited()
    assert before == sorted([("r2", warning.id, True), ("r3", warning.id, False), ("r2", advice.id, True)])
    store.add_alias("find", "search", namespace=NS, replay=replay)
    assert credited() == sorted([("r3", warning.id, False), ("r1", advice.id, True), ("r2", advice.id, True)])
    sound(store)
    store.rebuild(namespace=NS, replay=replay)
    sound(store)
    store.remove_alias("find", namespace=NS, replay=replay)
    assert credited() == before
    sound(store)


def test_a_retired_tool_stays_in_the_graph_with_its_mark_until_it_is_restored(store: Store) -> None:
    replay = fill(store, *RUNS).replay
    edges = store.edges(namespace=NS)
    store.retire("open", namespace=NS)
    store.rebuild(namespace=NS, replay=replay)
    assert store.marks(namespace=NS).retired == {"open"}
    assert store.edges(namespace=NS) == edges
    assert store.marks(namespace="another").retired == frozenset()
    store.retire("open", namespace=NS, retired=False)
    assert store.marks(namespace=NS).retired == frozenset()
    with pytest.raises(InputError, match="Did you mean open"):
        store.retire("opne", namespace=NS)


def schema(required: list[str], *optional: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {} for name in [*required, *optional]}, "required": required}


def described(name: str, at: float | None, tool: Tool) -> Trajectory:
    return replace(trajectory(name, "find", ended_at=at), tools=(tool,))


def test_the_newest_description_stays_in_whatever_order_runs_come_and_what_changed_is_known(store: Store) -> None:
    old, new = Tool("find", "Finds all flights.", schema(["to"])), Tool("find", "Finds.", schema(["to", "day"], "via"))
    fill(store, described("new", 200.0, new))
    fill(store, described("old", 100.0, old))
    (row,) = store.tools(namespace=NS)
    assert (row.description, row.described_at, row.changed_at) == ("Finds.", 200.0, 0.0)
    assert what_changed(row) == ""
    fill(store, described("newest", 300.0, old), described("same", 400.0, old))
    (row,) = store.tools(namespace=NS)
    assert (row.description, row.described_at, row.changed_at) == ("Finds all flights.", 400.0, 300.0)
    assert what_changed(row) == "its description is another; removed: day, via"
    fill(store, described("again", None, new), described("undescribed", None, Tool("find")))
    (row,) = store.tools(namespace=NS)
    assert row.changed_at > 1e9
    assert "now required: day; now optional: via" in what_changed(row)


def test_a_change_of_description_within_one_batch_is_noted_when_it_came(store: Store) -> None:
    old, new = Tool("find", "Finds.", schema(["to"])), Tool("find", "Finds.", schema(["to", "day"]))
    fill(store, *(described(f"r{at}", float(at), old if at < 5 else new) for at in range(1, 9)))
    (row,) = store.tools(namespace=NS)
    assert (row.described_at, row.changed_at) == (8.0, 5.0)
    assert what_changed(row) == "now required: day"


def called(id: str, *calls: tuple[str, bool | None], success: bool = True, ended_at: float | None = None) -> Trajectory:
    turns = [Turn("user", "please help")]
    turns += [Turn("assistant", "", (ToolCall(tool, result=f"{tool} done", error=error),)) for tool, error in calls]
    return Trajectory(id, tuple(turns), Outcome(float(success), success), ended_at=ended_at)


def test_every_store_knows_the_latest_outcomes_of_a_tool_in_the_order_in_which_runs_ended(store: Store) -> None:
    fill(
        store,
        called("third", ("find", True), ("find", True), ended_at=3.0),
        called("first", ("find", False), ("open", None), ended_at=1.0),
        called("unknown", ("find", True), ("find", False)),
        called("second", ("find", True), ended_at=2.0),
    )
    assert store.latest_outcomes(["find", "open"], namespace=NS) == {"find": "1100", "open": ""}
    sound(store)
    store.rebuild(namespace=NS, replay=Shelf().replay)
    store.forget(Selection(trajectory="third"), namespace=NS, replay=Shelf().replay)
    store.add_alias("find", "open", namespace=NS, replay=Shelf().replay)
    assert store.latest_outcomes(["find", "open"], namespace=NS) == {"find": "", "open": "100"}
    sound(store)


def test_a_copied_description_takes_no_other_name_of_the_tool_away(store: Store) -> None:
    replay = fill(store, *RUNS).replay
    store.add_alias("find", "search", namespace=NS, replay=replay)
    (row,) = [tool for tool in store.tools(namespace=NS) if tool.name == "search"]
    store.copy_tools([row._replace(description="looks it up")], namespace=NS, replay=replay)
    assert store.marks(namespace=NS).aliases == {"find": "search"}
    sound(store)
