"""Every Cypher statement of the store: a file that tells its parameters, and is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import neo4j
import pytest

import hepm.cypher
from hepm import Memory
from hepm.cypher import migrations, statement
from tests.neo4j_server import Neo4jServer, emptied
from tests.runs import trajectory

ROOM = Path(hepm.cypher.__file__).parent
STORE = sorted((ROOM / "store").glob("*.cypher"))
GRAPH = ROOM.parent / "graph"
SHARED = [*GRAPH.glob("*.py"), *(GRAPH / "lessons").glob("*.py")]
CODE = "".join(path.read_text() for path in [*(GRAPH / "neo4j").glob("*.py"), *SHARED])
PARAMETER = re.compile(r"\$(\w+)")
# Asked of the whole memory, or on nodes named by hashes that hold the namespace.
WITHOUT_NAMESPACE = re.compile(
    r"\(m:Memory|:Change|\(n:Namespace\)|row\.uid|\$uid|UNWIND \$|db\.|\$edge|\$(?:task|tool)_uid|\$source"
)


def head_and_body(text: str) -> tuple[str, str]:
    lines = text.splitlines()
    count = next(number for number, line in enumerate(lines) if not line.startswith("//"))
    return "\n".join(lines[:count]), "\n".join(lines[count:])


def test_every_statement_says_what_it_does_and_names_exactly_its_parameters() -> None:
    for path in [*STORE, *(ROOM / "schema").glob("*state_embedding.cypher")]:
        head, body = head_and_body(path.read_text())
        assert head.startswith("// "), path.stem
        told = re.search(r"^// Params:  (.*)$", head, re.MULTILINE)
        assert told is not None, path.stem
        assert set(PARAMETER.findall(told[1])) == set(PARAMETER.findall(body)), path.stem
        assert ("RETURN" in body) == ("// Returns:" in head), path.stem


def test_every_statement_is_used_and_stays_inside_a_namespace() -> None:
    for path in STORE:
        assert f'"{path.stem}"' in CODE, path.stem
        _, body = head_and_body(path.read_text())
        of_all = path.stem.startswith("drop_all_")
        assert of_all or "$space" in body or WITHOUT_NAMESPACE.search(body), path.stem


def test_the_text_that_is_sent_is_the_file_without_its_head() -> None:
    assert statement("lock") == "MATCH (m:Memory {key: 'memory'}) SET m.writing = true"
    assert statement("drop_state_embedding", "schema").startswith("DROP INDEX")
    assert [version for version, _ in migrations()] == [*range(9, 20)]
    assert all(text.startswith(("CREATE ", "MATCH ")) for _, texts in migrations() for text in texts)


def test_every_index_that_a_statement_names_is_made_by_the_schema(neo4j_server: Neo4jServer) -> None:
    named = {
        index.strip()
        for path in STORE
        for line in re.findall(r"^// Index:   (.*)$", path.read_text(), re.MULTILINE)
        for index in line.split(",")
    }
    made = {
        word for _, texts in migrations() for text in texts for word in re.findall(r"(?:INDEX|CONSTRAINT) (\w+)", text)
    }
    assert named <= made | {"state_embedding", "lesson_embedding"}


READ_EVERYTHING = {"drop_all_vectors", "drop_all_run_vectors", "drop_all_lesson_vectors", "namespaces"}


@pytest.mark.exhaustive  # a server plans some two hundred statements
def test_a_server_plans_every_statement_with_indexes(neo4j_server: Neo4jServer) -> None:
    auth = (neo4j_server.username, neo4j_server.password)
    with Memory.open(emptied(neo4j_server, header=True).uri, auth=auth) as memory:
        memory.ingest([trajectory(f"r{i}", *(f"tool_{(i * step) % 40}" for step in range(1, 9))) for i in range(60)])
    samples: dict[str, object] = {"rows": [{"uid": "x"}], "vector": [0.1] * 512, "tool": "x", "uid": "x"}
    samples |= {"seqs": [1], "points": [1], "space": "x", "values": {}, "unlabelled": True}
    samples |= {key: ["x"] for key in ("uids", "edges", "sources", "moves", "runs", "texts", "tools")}
    with (
        neo4j.GraphDatabase.driver(neo4j_server.uri, auth=auth, notifications_min_severity="OFF") as driver,
        driver.session(database=neo4j_server.database) as session,
    ):
        for path in STORE:
            text = path.read_text()
            if path.stem in READ_EVERYTHING:
                continue
            values = {name: samples.get(name, 1) for name in PARAMETER.findall(text)}
            planned = session.run("EXPLAIN " + statement(path.stem), values)  # type: ignore[arg-type]
            operators = list(operators_of(planned.consume().plan))
            scans = {kind for kind, _ in operators if re.search("NodeByLabelScan|AllNodesScan|TypeScan", kind)}
            assert scans == set(), path.stem


def operators_of(plan: Any) -> Iterator[tuple[str, str]]:
    """Kind and details of each operator."""
    yield plan["operatorType"], plan["args"].get("Details", "")
    for child in plan.get("children", ()):
        yield from operators_of(child)
