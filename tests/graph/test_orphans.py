"""Vectors that belong to nothing: found once, and mended by what is offered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hepm import Memory
from tests.runs import trajectory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with two namespaces, and a vector too many for a state and for a run."""
    path = tmp_path / "runs.hepm"
    with Memory.open(path) as memory:
        for name in ("one", "two"):
            memory.ingest([trajectory(name, "look", "buy")], namespace=name)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO vector SELECT 999, embedding FROM vector LIMIT 1")
        db.execute("INSERT INTO run_vector SELECT 999, embedding FROM run_vector LIMIT 1")
    db.close()
    return path


@pytest.fixture
def memory(file: Path) -> Iterator[Memory]:
    with Memory.open(file) as opened:
        yield opened


def test_a_vector_that_belongs_to_nothing_is_found_once_and_the_repair_that_is_offered_removes_it(
    memory: Memory,
) -> None:
    found = {name: memory.examine(namespace=name) for name in memory.namespaces()}
    assert [finding.what for finding in found["one"]] == ["1 vectors belong to no state", "1 vectors belong to no run"]
    assert found["two"] == []
    assert {finding.repair for finding in found["one"]} == {"rebuild"}
    memory.rebuild(namespace="one")
    assert [memory.examine(namespace=name) for name in memory.namespaces()] == [[], []]


def test_a_vector_of_a_state_that_lost_its_text_is_found_in_its_own_namespace(memory: Memory, file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute("UPDATE state SET summary = NULL WHERE namespace = 'two'")
    db.close()
    assert "2 vectors belong to a state without text" in [one.what for one in memory.examine(namespace="two")]
    assert not any("without text" in one.what for one in memory.examine(namespace="one"))
    memory.rebuild(namespace="two")
    assert memory.examine(namespace="two") == []


def test_a_mirror_that_differs_from_its_store_is_offered_what_mends_it(memory: Memory, file: Path) -> None:
    memory.suggest("look", policy="procedural", namespace="two")
    with sqlite3.connect(file) as db:
        db.execute("UPDATE edge SET support = 7 WHERE namespace = 'two' AND source = 'look'")
    db.close()
    found = memory.examine(namespace="two")
    assert any("the mirror differs from the store" in finding.what for finding in found)
    assert {finding.repair for finding in found} == {"rebuild"}
    memory.rebuild(namespace="two")
    assert memory.examine(namespace="two") == []
