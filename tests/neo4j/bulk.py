"""Many stored runs in little time: a server makes them itself, on the edges and the moves that a few real ones have."""

from __future__ import annotations

from typing import Any, Final

import neo4j

from hepm.graph.neo4j.connection import uid

STEPS: Final = 10
"""Transitions of a run."""

_EDGES: Final = """
MATCH (a:Tool {space: $space})-[r:NEXT]->(b:Tool)
OPTIONAL MATCH (:Trajectory)-[p:TOOK {after: a.name}]->(b)
WITH a, b, min(p.edge) AS edge WHERE edge IS NOT NULL
RETURN collect({after: a.name, target: b.uid, edge: edge}) AS edges
"""
_MOVES: Final = """
MATCH (s:State {space: $space}) WHERE s.kept
WITH s.move AS move, head(collect(s)) AS s
RETURN collect({move: move, sources: s.sources, targets: s.targets, success: s.success, like: s.uid}) AS moves
"""
_RUNS: Final = """
UNWIND range(1, $runs) AS n
CALL (n) {
    CREATE (t:Trajectory {uid: $space + ' bulk ' + n, id: 'bulk-' + n, namespace: $namespace, space: $space,
                          seq: $first + n, environment: 'bulk', task: 'bulk ' + n % 5000, user: '', digest: '' + n,
                          task_uid: 'bulk ' + n % 5000, success: n % 3 <> 0, steps: $steps, counted: true,
                          ended_at: 0.0, sequence: '[]', said: '', record: $record})
    WITH t, n
    UNWIND range(1, $steps) AS step
    WITH t, n, step, $edges[toInteger(size($edges) * rand() ^ 3)] AS edge
    MATCH (b:Tool {uid: edge.target})
    CREATE (t)-[:TOOK {after: edge.after, edge: edge.edge, seq: t.seq, called: edge.target, ended: toFloat(n),
                       failed: false}]->(b)
} IN TRANSACTIONS OF 1000 ROWS
"""
_STATES: Final = """
UNWIND range(1, $runs) AS n
CALL (n) {
    WITH n, $moves[n % size($moves)] AS m
    MATCH (like:State {uid: m.like})
    CREATE (s:State {uid: $space + ' bulk ' + n, id: $first + n, namespace: $namespace, space: $space, kept: true,
                     move: m.move, sources: m.sources, targets: m.targets, success: m.success, key: n, count: 1,
                     seen: 0.0, trajectory: 'bulk-' + n, step: 0, summary: 'bulk ' + n})
    WITH s, like
    CALL (s, like) { MATCH (like)-[:AFTER]->(t:Tool) CREATE (s)-[:AFTER]->(t) }
    CALL (s, like) { MATCH (like)-[:BEFORE]->(t:Tool) CREATE (s)-[:BEFORE]->(t) }
} IN TRANSACTIONS OF 1000 ROWS
"""


def add_bulk(session: neo4j.Session, *, namespace: str, runs: int) -> None:
    """Add runs of ten transitions each, and as many states, to a namespace that holds real ones.

    Nodes and relationships are as the store would make them, without vectors and without their part in the counts.
    """
    space = uid(namespace)
    values: dict[str, Any] = {"space": space, "namespace": namespace, "runs": runs, "steps": STEPS}
    last = session.run("MATCH (n:Namespace {space: $space}) RETURN n.last_run, n.last_state", values).single(
        strict=True
    )
    edges = session.run(_EDGES, values).single(strict=True)[0]
    record = session.run("MATCH (t:Trajectory {space: $space}) RETURN t.record LIMIT 1", values).single(strict=True)[0]
    session.run(_RUNS, values, first=last[0], edges=edges, record=record).consume()
    moves = session.run(_MOVES, values).single(strict=True)[0]
    session.run(_STATES, values, first=last[1], moves=moves).consume()
    counted = (
        "MATCH (n:Namespace {space: $space}) SET n.last_run = n.last_run + $runs, n.last_state = n.last_state + $runs"
    )
    session.run(counted, values).consume()
    session.run("CALL db.resampleOutdatedIndexes()").consume()
    session.run("CALL db.awaitIndexes(300)").consume()
