from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hepm import Memory
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from hepm.graph.rows import Counting
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Store
from tests.neo4j_server import ON_SERVER, Neo4jServer, emptied


@pytest.fixture(params=["sqlite", pytest.param("neo4j", marks=ON_SERVER)])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens one store; asked again, the same store again."""
    yield from _opened(request, tmp_path, server_at={"sqlite": None, "neo4j": 0}[request.param])


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("neo4j and sqlite", marks=ON_SERVER),
        pytest.param("sqlite and neo4j", marks=[ON_SERVER, pytest.mark.exhaustive]),
    ]
)
def make_two_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens two stores by name. A server has one memory, so one of the two is embedded."""
    places = {"sqlite": None, "neo4j and sqlite": 0, "sqlite and neo4j": 1}
    yield from _opened(request, tmp_path, server_at=places[request.param])


def _opened(request: pytest.FixtureRequest, tmp_path: Path, *, server_at: int | None) -> Iterator[Callable[..., Store]]:
    opened: list[Store] = []
    server: Neo4jServer | None = None if server_at is None else request.getfixturevalue("neo4j_server")
    names: list[str] = []

    def make(name: str = "one", *, counting: Counting | None = None, states_per_move: int = 256) -> Store:
        if name not in names:
            names.append(name)
            if server is not None and names.index(name) == server_at:
                emptied(server, header=(counting, states_per_move) == (None, 256))
        store: Store
        if server is not None and names.index(name) == server_at:
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


@pytest.fixture
def memory(store: Store) -> Iterator[Memory]:
    with Memory(store) as opened:
        yield opened
