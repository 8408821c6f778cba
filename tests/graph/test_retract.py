"""Runs taken out of the graph, on every store: what stays is the graph of the other runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from hepm import Outcome, Trajectory
from hepm.graph.rows import Selection
from hepm.graph.store import Store
from tests.runs import Shelf, trajectory

NS = "team"
WORDS = ("lamp", "shoe", "book")


def runs(seed: int, count: int) -> list[Trajectory]:
    """Runs that share moves, states that differ in digits only, and times."""
    chosen = random.Random(seed)
    return [
        trajectory(
            f"r{number:02}",
            *chosen.choices(["look", "ask", "look+ask", "buy"], k=chosen.randint(1, 4)),
            goal=f"order {chosen.randint(1, 9)} {chosen.choice(WORDS)}",
            success=chosen.choice([True, True, False, None]),
            task=chosen.choice(["t1", "t2"]),
            ended_at=chosen.choice([None, float(chosen.randint(1, 9))]),
        )
        for number in range(count)
    ]


def graph(store: Store) -> object:
    """Edges, tools, and states with their links and the vectors of those that kept their text."""
    states = sorted(
        (str(sources), str(targets), *values, summary is not None, vector)
        for _, sources, targets, *values, summary, vector in store.iterate("held_states", namespace=NS)
    )
    texts = sorted((row.key, row.summary) for row in store.iter_states(namespace=NS))
    found = store.edges(namespace=NS), [row for row in store.tools(namespace=NS) if row.calls]
    return *found, states, texts, sorted(map(tuple, store.iterate("state_links", namespace=NS)))


def fill(store: Store, kept: Sequence[Trajectory]) -> Shelf:
    shelf = Shelf(*kept)
    held = shelf.runs()
    if held:
        store.add(held, shelf.vectors(held), namespace=NS, replay=shelf.replay)
    return shelf


@pytest.mark.parametrize(
    ("counting", "seed"),
    [
        ("all", 0),
        ("shortest", 3),
        *(
            pytest.param(counting, seed, marks=pytest.mark.exhaustive)
            for counting in ("all", "shortest")
            for seed in (1, 2)
        ),
    ],
)
def test_forgotten_and_relabelled_runs_leave_the_graph_of_the_others(
    make_store: Callable[..., Store], seed: int, counting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hepm.graph.retract._FEW_KEYS", seed)  # how the runs that hold a state are found
    chosen = random.Random(seed)
    before = runs(seed, 24)
    before[8::4] = [replace(run, user="ann") for run in before[8::4]]
    forgotten = before[::4]
    store = make_store(counting=counting, states_per_move=2)
    fill(store, before)
    labels = {run.id: chosen.choice([True, False]) for run in chosen.sample(before, 8)}
    after = [
        replace(run, outcome=Outcome(float(success), success)) if (success := labels.get(run.id)) is not None else run
        for run in before
        if run not in forgotten
    ]
    shelf = Shelf(*after)
    for run in forgotten[:2]:
        store.forget(Selection(trajectory=run.id), namespace=NS, replay=shelf.replay)
    store.forget(Selection(user="ann"), namespace=NS, replay=shelf.replay)
    new = shelf.runs([run.id for run in after if run.id in labels])
    store.add(new, shelf.vectors(new), namespace=NS, replay=shelf.replay, relabel=True)
    found = graph(store)
    store.rebuild(namespace=NS, replay=shelf.replay)
    assert found == graph(store)
    store.forget(Selection(environment="shop"), namespace=NS, replay=shelf.replay)
    assert store.edges(namespace=NS) == list(store.iterate("held_states", namespace=NS)) == []
