"""Runs with a reward and no label, on every store: one threshold says for all readers which of them succeeded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hepm import Memory, Outcome, Trajectory
from hepm.errors import InputError
from hepm.graph.store import Store
from hepm.graph.transaction import Transaction
from hepm.ingest.pipeline import replay_with
from tests.runs import trajectory


def graded(name: str, reward: float | None, *tools: str, success: bool | None = None) -> Trajectory:
    return replace(trajectory(name, *tools, task="t"), outcome=Outcome(reward, success))


def mixed() -> list[Trajectory]:
    return [
        *(graded(f"most{n}", 0.76, "book") for n in range(4)),
        graded("half", 0.5, "book"),
        graded("all", 1.0, "book"),
        graded("none", 0.0, "cancel"),
        graded("said", 0.9, "cancel", success=False),
        graded("told", 0.1, "book", success=True),
        graded("open", None, "book"),
    ]


def counts(memory: Memory, namespace: str = "default") -> tuple[int, int, int]:
    totals = memory.totals(namespace=namespace)
    return totals.successes, totals.failures, totals.unlabelled


def reread(store: Store, success_from: float) -> int:
    return store.read_rewards(success_from, replay=replay_with(None))


@pytest.mark.above_stores
def test_a_reward_from_the_threshold_on_is_a_success_where_no_label_was_given(memory: Memory) -> None:
    memory.ingest(mixed())
    assert counts(memory) == (6, 3, 1)
    edge = memory.mirror().edge("<START>", "book")
    assert (edge.support, edge.failures, edge.unlabelled) == (6, 1, 1)
    assert "book" not in {way.tool for way in memory.suggest(state="please help").warnings}
    assert memory.examine() == []


def test_another_threshold_counts_every_run_again_in_all_namespaces(memory: Memory, store: Store) -> None:
    for namespace in ("one", "two"):
        memory.ingest(mixed(), namespace=namespace)
        memory.experiences.distill(namespace=namespace)
    memory.lessons.show("most1", [memory.lessons.list("experience", namespace="one")[0].row.id], namespace="one")
    for success_from, expected, changed in ((0.8, (2, 7, 1), 8), (0.4, (7, 2, 1), 10), (0.7, (6, 3, 1), 2)):
        assert reread(store, success_from) == changed
        memory.refresh()
        assert store.header.success_from == success_from
        assert reread(store, success_from) == 0
        for namespace in ("one", "two"):
            assert counts(memory, namespace) == expected
            assert [one for one in memory.examine(namespace=namespace) if one.repair != "reembed"] == []
    taught = {source.run for one in memory.lessons.list("experience", namespace="two") for source in one.row.sources}
    assert taught.isdisjoint({"half", *(f"most{n}" for n in range(4))})
    memory.ingest(mixed(), namespace="one")  # the same runs again
    assert counts(memory, "one") == (6, 3, 1)


def test_a_threshold_is_changed_in_all_namespaces_or_in_none(
    memory: Memory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for namespace in ("one", "two"):
        memory.ingest(mixed(), namespace=namespace)
    revision = store.header.revision
    seen: list[str] = []

    def stops(write: Transaction, *_: object) -> list[str]:
        seen.append(write.namespace)
        write.write("set_counted", [{"run": "all", "counted": False}])
        if len(seen) == 2:
            raise RuntimeError("killed")
        return []

    with monkeypatch.context() as patched:
        patched.setattr("hepm.graph.store.read_rewards", stops)
        with pytest.raises(RuntimeError):
            reread(store, 0.4)
    assert seen == ["one", "two"]
    assert (store.header.success_from, store.header.revision) == (0.7, revision)
    assert [memory.examine(namespace=name) for name in seen] == [[], []]
    with pytest.raises(InputError, match="above 0 and at most 1"):
        reread(store, 0.0)


def test_a_store_keeps_its_threshold_and_one_that_is_named_replaces_it(tmp_path: Path) -> None:
    file = tmp_path / "memory.hepm"
    with Memory.open(file, success_from=0.9) as memory:
        memory.ingest(mixed())
        assert counts(memory) == (2, 7, 1)
    with Memory.open(file) as memory:
        assert (memory.header.success_from, counts(memory)) == (0.9, (2, 7, 1))
        with memory.session(task="t", id="s") as session:
            session.record("book", {}, "done")
            session.finish(reward=0.8)
        with memory.session(task="t", id="own") as session:
            session.record("book", {}, "done")
            session.finish(reward=0.95)
        assert counts(memory) == (3, 8, 1)
    with Memory.open(file, success_from=0.5) as memory:
        assert counts(memory) == (9, 2, 1)
        assert memory.examine() == []
