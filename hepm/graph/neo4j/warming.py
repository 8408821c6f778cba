"""Make a server that has just started ready for its first ingest."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from hepm.cypher import migrations
from hepm.graph.changes import add_runs
from hepm.graph.neo4j.connection import Connection
from hepm.graph.neo4j.store import Neo4jTransaction, run
from hepm.types import SUCCESS_FROM

if TYPE_CHECKING:
    import neo4j
    from hepm.graph.delta import RunRecord
    from hepm.graph.neo4j.login import Login
    from hepm.graph.rows import Aliases, Float32Array

_DIMENSIONS: Final = 512  # of the default embedder; another one makes its indexes when it is set
_TIMES: Final = 3  # each is faster than the one before
_NAMESPACE: Final = "hepm rehearsal"  # of the runs that are rolled back; no other has this name


class _RehearsedError(Exception):
    """Rolls a transaction back."""


def warm_up(login: Login, runs: Sequence[RunRecord]) -> None:
    """Make the schema of a new memory, and let the server store runs in a transaction that is rolled back.

    A Java machine that has just started plans a statement, and executes it, ten times as slowly as later: a first
    ingest spent most of its time so.
    """
    texts: set[str] = set()
    for record in runs:
        texts.add(record.said)
        texts.update(step.summary for step in record.transitions)
    random = np.random.default_rng(0)
    vectors = {text: random.random(_DIMENSIONS, dtype=np.float32) for text in sorted(texts)}

    def replay(
        records: Sequence[str], aliases: Aliases | None = None, /
    ) -> tuple[Sequence[RunRecord], Mapping[str, Float32Array]]:
        del records, aliases  # of stored runs, which this namespace does not have
        return (), {}

    def rehearse(tx: neo4j.ManagedTransaction) -> None:
        if is_new:
            usual = {"counting": "all", "states_per_move": 256, "success_from": SUCCESS_FROM}
            run(tx, "create_memory", schema_version=migrations()[-1][0], **usual)
        write = Neo4jTransaction(tx, _NAMESPACE)
        add_runs(write, runs, vectors, replay)
        write.run("memory")  # so that all before was executed
        raise _RehearsedError

    with contextlib.closing(Connection(login)) as connection:
        is_new = not connection.read("memory", newest=True)
        if is_new:
            for _, _, statements in migrations():
                for text in statements:
                    connection.change_schema(text)
            connection.index_vectors(_DIMENSIONS)  # else the first ingest would, and all would be planned again
            connection.read("await_indexes", seconds=300)
        for _ in range(_TIMES):
            with contextlib.suppress(_RehearsedError):
                connection.write(rehearse)
