from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hepm.graph.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Counting, Store
from tests.neo4j_server import Neo4jServer, emptied


@pytest.fixture(params=["sqlite", "neo4j", "sqlite and neo4j"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores; the same name opens the same store again.

    A server has one memory. Where a test compares two stores, one of them is embedded: "neo4j" makes the first one
    that is asked for in Neo4j, "sqlite and neo4j" the second one.
    """
    opened: list[Store] = []
    kind: str = request.param
    server: Neo4jServer | None = None if kind == "sqlite" else emptied(request.getfixturevalue("neo4j_server"))
    place = {"sqlite": -1, "neo4j": 0, "sqlite and neo4j": 1}[kind]
    names: list[str] = []

    def make(name: str = "one", *, counting: Counting | None = None, states_per_move: int = 256) -> Store:
        if name not in names:
            names.append(name)
        store: Store
        if server is not None and names.index(name) == place:
            login = Login(server.uri, server.username, server.password, server.database)
            store = Neo4jStore(login, counting=counting, states_per_move=states_per_move)
        else:
            store = SQLiteStore(tmp_path / f"{name}.hepm", counting=counting, states_per_move=states_per_move)
        store.set_embedder("hepm/hash-512", 512)
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    return make_store()
