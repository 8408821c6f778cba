"""Moves with more states than the bound: which states keep their text is found from an index."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hepm import Memory
from hepm.graph.delta import state_key
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.sqlite.connection import load_statements
from hepm.types import Trajectory
from tests.runs import trajectory

BOUND = 4
RUNS = [trajectory(f"r{letter}", "find", "buy", goal=f"a {letter * 3} please") for letter in "abcdefghijkl"]


def kept(file: Path, runs: list[Trajectory]) -> list[str]:
    store = SQLiteStore(file, states_per_move=BOUND)
    with Memory(store) as memory:
        memory.ingest(runs)
        return sorted(row.summary for row in store.iter_states(namespace="default"))


def test_a_forgotten_state_of_a_crowded_move_gives_its_place_to_the_next_latest(tmp_path: Path):
    kept(tmp_path / "some.hepm", RUNS)
    with Memory.open(tmp_path / "some.hepm") as memory:
        memory.forget(trajectory=RUNS[-1].id)
        assert memory.examine() == []
    assert kept(tmp_path / "some.hepm", []) == kept(tmp_path / "other.hepm", RUNS[:-1])


@pytest.mark.parametrize("name", ["is_crowded", "states_over_bound", "textless_states", "select_runs"])
def test_no_row_is_sorted_or_scanned_to_find_the_states_of_a_move_or_the_runs_of_a_user(tmp_path: Path, name: str):
    SQLiteStore(tmp_path / "m.hepm").close()
    names = ("namespace", "sources", "targets", "user", "task", "environment", "trajectory", "token")
    values = dict.fromkeys(names, "x")
    with closing(sqlite3.connect(tmp_path / "m.hepm")) as database:
        statement = "EXPLAIN QUERY PLAN " + load_statements()[name]
        plan = [row[-1] for row in database.execute(statement, {**values, "success": 1, "bound": 9, "at": 0})]
    assert not [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step and "(subquery" not in step]
    assert [step for step in plan if "state_crowded" in step or "trajectory_user" in step]


def test_a_state_that_comes_again_in_the_same_words_replaces_nothing(tmp_path: Path):
    store = SQLiteStore(tmp_path / "m.hepm")
    with Memory(store) as memory:
        for number, goal in enumerate(["a book please", "a book please", "a BOOK please"]):
            memory.ingest(trajectory(f"r{number}", "find", "buy", goal=goal))
        changes = store.changes_since(0)
        assert changes is not None
        assert [change.rewritten for change in changes] == [False, False, True]
        assert {row.count for row in store.iter_states(namespace="default")} == {3}
        assert memory.examine() == []


def test_states_that_differ_in_digits_case_or_space_alone_share_a_key() -> None:
    assert state_key("Order #12  sent") == state_key("order #7 SENT") != state_key("Order #12 lost")
