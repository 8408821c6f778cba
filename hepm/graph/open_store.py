"""From what a user calls a store to the store: a path is the embedded one, an address a Neo4j server."""

from __future__ import annotations

import os
from pathlib import Path

from hepm.graph.login import Login, is_address
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Counting, Store


def open_store(
    location: str | os.PathLike[str], *, counting: Counting | None = None, auth: tuple[str, str] | None = None
) -> Store:
    """Open a store, making it when it is not there.

    Args:
        location: A file, a folder that then holds `memory.hepm`, or an address such as neo4j://localhost:7687 or
            neo4j://host/database.
        counting: Which runs count; None takes what the store was made with.
        auth: User and password for a server; None takes NEO4J_USERNAME and NEO4J_PASSWORD. NEO4J_DATABASE names the
            database where the address does not.
    """
    address = os.fspath(location)
    if not is_address(address):
        return SQLiteStore(Path(address), counting=counting)
    from hepm.graph.neo4j.store import Neo4jStore

    return Neo4jStore(Login.from_environment(address, auth=auth), counting=counting)
