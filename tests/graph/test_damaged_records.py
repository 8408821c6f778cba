"""A record that cannot be read any more stops nothing but what needs it, and is named there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from hepm import Memory, Tool
from hepm.embed import HashingEmbedder
from hepm.errors import InputError, StoreDamagedError
from hepm.experience.lessons import Principle
from hepm.graph.delta import RunRecord
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.rows import Float32Array, Selection
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Store
from tests.runs import Shelf, trajectory

NS = "team"
GOALS = {"sound": "shoes", "torn run": "a lamp", "other": "a chair"}


def shelf() -> Shelf:
    return Shelf(*(trajectory(name, "look", "buy", goal=goal) for name, goal in GOALS.items()))


def damaged(store: Store, runs: Shelf) -> Store:
    """The store with these runs, of which one has a record that is cut short."""
    torn = [run._replace(record=run.record[:20]) if run.id == "torn run" else run for run in runs.runs()]
    store.add(torn, runs.vectors(torn), namespace=NS, replay=runs.replay)
    return store


def test_a_sound_run_is_forgotten_though_one_on_the_same_move_is_damaged(store: Store) -> None:
    runs = shelf()
    damaged(store, runs)
    assert store.forget(Selection(trajectory="sound"), namespace=NS, replay=runs.replay) == ["sound"]
    assert {row[2] for row in store.edges(namespace=NS)} == {2}
    texts = [row.summary for row in store.iter_states(namespace=NS)]
    assert any("a chair" in text for text in texts)
    assert not any("shoes" in text for text in texts)


def test_once_a_damaged_run_is_forgotten_a_rebuild_makes_the_counts_right(store: Store) -> None:
    runs = shelf()
    damaged(store, runs)
    assert store.forget(Selection(trajectory="torn run"), namespace=NS, replay=runs.replay) == ["torn run"]
    store.rebuild(namespace=NS, replay=runs.replay)
    assert {row[2] for row in store.edges(namespace=NS)} == {2}


def test_a_rebuild_names_the_run_that_cannot_be_read_and_changes_nothing(store: Store) -> None:
    runs = shelf()
    damaged(store, runs)
    before = store.edges(namespace=NS), list(store.iter_states(namespace=NS)), store.header.revision
    with pytest.raises(StoreDamagedError, match=r"the run 'torn run' cannot be read .* --trajectory 'torn run'"):
        store.rebuild(namespace=NS, replay=runs.replay)
    assert (store.edges(namespace=NS), list(store.iter_states(namespace=NS)), store.header.revision) == before


@pytest.mark.above_stores
def test_an_embedder_that_fails_is_not_taken_for_a_damaged_record(store: Store) -> None:
    runs = shelf()
    store.add(runs.runs(), runs.vectors(runs.runs()), namespace=NS, replay=runs.replay)

    def unanswered(
        records: Sequence[str], aliases: Mapping[str, str]
    ) -> tuple[Sequence[RunRecord], Mapping[str, Float32Array]]:
        del aliases
        if records:
            raise InputError("the endpoint gave no vectors")
        return (), {}

    with pytest.raises(InputError, match="gave no vectors"):
        store.forget(Selection(trajectory="sound"), namespace=NS, replay=unanswered)
    assert store.totals(namespace=NS).trajectories == 3
    assert {row[2] for row in store.edges(namespace=NS)} == {3}


@pytest.mark.above_stores
@pytest.mark.parametrize(
    "read",
    [
        lambda memory: memory.lessons.runs(list(GOALS), namespace=NS),
        lambda memory: memory.preferences.reflect_all(namespace=NS),
        lambda memory: list(memory.export(namespace=NS)),
    ],
    ids=["distilling", "reflecting", "export"],
)
def test_whoever_reads_the_runs_is_told_which_one_is_damaged(store: Store, read: Callable[[Memory], object]) -> None:
    runs = Shelf(trajectory("torn run", "look", user="ann"))
    (run,) = runs.runs()
    store.add([run._replace(record=run.record + "}")], {}, namespace=NS, replay=runs.replay)
    store.describe([Tool("look", "looks")], namespace=NS)
    with pytest.raises(StoreDamagedError, match="the run 'torn run' cannot be read"):
        read(Memory(store))


def test_a_lesson_whose_text_cannot_be_read_waits_for_no_vector(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "memory.hepm")
    rows = [Principle("guiding", text).row() for text in ("Look first.", "Ask first.")]
    store.lessons.change(LessonChange(put=rows), {}, namespace=NS)
    store.close()
    with closing(sqlite3.connect(tmp_path / "memory.hepm")) as db, db:
        db.execute("UPDATE lesson SET record = '{}' WHERE id = ?", (rows[0].id,))
    store = SQLiteStore(tmp_path / "memory.hepm")
    embedder = HashingEmbedder()
    store.set_embedder(embedder.name, embedder.dimensions)
    assert store.reembed(embedder) == 1
    assert [lesson.vector is not None for lesson in store.lessons.list(namespace=NS)] == [True]
    store.close()
