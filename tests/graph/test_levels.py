"""What stores keep of the guard's levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hepm.graph.store import Store
from hepm.ingest.prepare import exclude
from hepm.types import LEVEL, Trajectory
from tests.runs import Shelf, trajectory

NS = "team"


def at(level: str, name: str, success: bool | None) -> Trajectory:
    return replace(trajectory(name, "look", "buy", success=success), tags={LEVEL: level})


def store_runs(store: Store, *runs: Trajectory, namespace: str = NS, relabel: bool = False) -> Shelf:
    shelf = Shelf(*runs)
    prepared = shelf.runs()
    store.add(prepared, shelf.vectors(prepared), namespace=namespace, replay=shelf.replay, relabel=relabel)
    return shelf


def outcomes(store: Store, *levels: str, most: int = 100, namespace: str = NS) -> dict[str, tuple[int, int]]:
    return store.outcomes_by_level(levels, namespace=namespace, most=most)


def test_the_outcomes_of_each_level_are_those_of_its_labelled_and_trusted_sessions(store: Store) -> None:
    ended = [at("0.9", "a", True), at("0.9", "b", False), at("0.9", "c", None), at("silent", "d", True)]
    store_runs(store, *ended, exclude(at("0.9", "e", True)), trajectory("f", "look", success=True))
    store_runs(store, at("0.9", "a", True), namespace="other")
    assert outcomes(store, "0.9", "silent", "0.6") == {"0.9": (1, 2), "silent": (1, 1), "0.6": (0, 0)}


def test_only_the_latest_sessions_of_a_level_count(store: Store) -> None:
    store_runs(store, *(at("0.9", f"r{number}", number >= 3) for number in range(5)))
    assert [outcomes(store, "0.9", most=most)["0.9"] for most in (1, 2, 4, 9)] == [(1, 1), (2, 2), (2, 4), (2, 5)]


def test_the_secret_of_a_store_stays_and_is_no_part_of_its_header(make_store: Callable[..., Store]) -> None:
    first = make_store()
    secret = first.secret
    assert len(secret) == 32
    assert make_store().secret == secret
    assert secret not in repr(first.header)
