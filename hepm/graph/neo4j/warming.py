"""Make a server that has just started ready for its first ingest."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from hepm.cypher import migrations, statement
from hepm.graph.neo4j.connection import Connection

if TYPE_CHECKING:
    from hepm.graph.open_store import Login

WRITES: Final = (
    "lock", "memory", "counters", "find_runs", "add_tools", "add_edges", "add_states", "keep_bound", "add_runs",
    "add_run_edges", "link_after", "link_before", "tell_edges", "weigh_edges", "note_change",
)  # fmt: skip
"""The statements of an ingest of new runs."""
_DIMENSIONS: Final = 512  # of the default embedder; another one makes its indexes when it is set


def warm_up(login: Login) -> None:
    """Make the schema of a new memory, and let the server plan what an ingest sends.

    A Java machine that has just started plans ten times as slowly as later: a first ingest spent most of its time so.
    """
    with contextlib.closing(Connection(login)) as connection:
        if not connection.read("memory", newest=True):
            for _, _, texts in migrations():
                for text in texts:
                    connection.change_schema(text)
            connection.index_vectors(_DIMENSIONS)  # else the first ingest would, and all would be planned again
            connection.read("await_indexes", seconds=300)

        def plan(name: str) -> None:
            text: Any = f"EXPLAIN {statement(name)}"
            connection.run_alone(text)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(plan, WRITES))
