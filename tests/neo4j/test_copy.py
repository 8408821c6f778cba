"""`hepm copy` between a file and a server, both ways, interrupted and repeated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hepm import Memory, Tool
from hepm.graph.examination import differences
from hepm.graph.open_store import open_store
from tests.faults.command import quick
from tests.neo4j.test_faults import some_runs
from tests.neo4j_server import Neo4jServer
from tests.runs import trajectory


@pytest.fixture
def env(server: Neo4jServer) -> Mapping[str, str]:
    return {"NEO4J_USERNAME": server.username, "NEO4J_PASSWORD": server.password}


def filled(path: Path) -> str:
    with Memory.open(path, speak="weighed") as memory:
        memory.ingest(some_runs(60), namespace="one", tools=[Tool("look", "looks it up", {"type": "object"})])
        memory.ingest([*some_runs(20, "other"), trajectory("open", "look", success=None)], namespace="two")
    return str(path)


def test_a_memory_copied_to_a_server_and_back_holds_the_same(
    server: Neo4jServer, env: Mapping[str, str], tmp_path: Path
) -> None:
    source, back = filled(tmp_path / "a.hepm"), str(tmp_path / "back.hepm")
    there = quick("copy", source, server.uri, env=env)
    assert there.out == (
        "one: 60 runs copied; both hold the same\n"
        "two: 21 runs copied; both hold the same\n"
    )  # fmt: skip
    assert quick("copy", server.uri, back, env=env).out == there.out
    stores = open_store(source), open_store(back)
    assert [differences(*stores, namespace=name) for name in ("one", "two")] == [[], []]
    for store in stores:
        store.close()
    with Memory.open(source, speak="weighed") as one, Memory.open(back, speak="weighed") as other:
        asked = {"state": "see to the parcel", "namespace": "one"}
        assert repr(one.suggest("look", **asked).ranked) == repr(other.suggest("look", **asked).ranked)


def test_a_copy_that_was_cut_short_goes_on_where_it_stopped(
    server: Neo4jServer, env: Mapping[str, str], tmp_path: Path
) -> None:
    source = filled(tmp_path / "a.hepm")
    with Memory.open(server.uri, auth=(server.username, server.password), speak="weighed") as memory:
        memory.ingest(some_runs(25), namespace="one")
    answer = quick("copy", source, server.uri, "--namespace", "one", env=env)
    assert answer.out == "one: 35 runs copied, 25 known before; both hold the same\n"


def test_a_target_that_held_other_runs_is_told_apart_count_by_count(
    server: Neo4jServer, env: Mapping[str, str], tmp_path: Path
) -> None:
    source = filled(tmp_path / "a.hepm")
    with Memory.open(server.uri, auth=(server.username, server.password), speak="weighed") as memory:
        memory.ingest(trajectory("mine", "look", "buy"), namespace="one")
    answer = quick("copy", source, server.uri, "-n", "one", env=env)
    assert answer.code == 1
    assert "1 run differs from those of the first store: mine is not among them" in answer.out


def test_other_counting_or_another_embedder_is_refused(tmp_path: Path) -> None:
    source = filled(tmp_path / "a.hepm")
    with Memory.open(tmp_path / "short.hepm", counting="shortest", speak="weighed") as memory:
        memory.ingest(trajectory("r", "a"))
    answer = quick("copy", source, tmp_path / "short.hepm")
    assert (answer.code, "counts 'shortest' runs" in answer.err) == (1, True)
    with Memory.open(tmp_path / "other.hepm", embedder="hepm/hash-256", speak="weighed") as memory:
        memory.ingest(trajectory("r", "a"))
    answer = quick("copy", source, tmp_path / "other.hepm")
    assert (answer.code, "hepm reembed" in answer.err) == (1, True)
    assert quick("copy", source, source).code == 2
