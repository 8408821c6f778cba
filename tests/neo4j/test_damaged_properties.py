"""A damaged property on a server ends no command in a traceback: it is named, for whoever corrects it there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import neo4j
import pytest

from hepm import Memory
from hepm.cypher.model import NODES, RELATIONSHIPS
from hepm.graph.neo4j.damage import properties_of
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore
from tests.faults.command import Answer, one_sentence, quick
from tests.graph.test_damaged_cells import COMMANDS, MORE
from tests.graph.test_doctor import fill
from tests.neo4j_server import Neo4jServer, emptied

DAMAGES: dict[str, Any] = {
    "bytes": b"\x00\xff",
    "half of a list": "[",
    "a negative number": -7,
    "a list of numbers": [7],
    "nothing": None,
    "no text": "",
}
NEVER_RIGHT = ("bytes", "a list of numbers")
"""Damages that no property can hold, whatever it is for; of the others, some are values like any."""
STORED = ("Tool", "State", "Trajectory", "Experience", "Principle", "Notes", "User", "Concept", "Showing", "Answer")
INTERNAL = ("Namespace", "Change")
TYPES = [name for name in RELATIONSHIPS if properties_of(name) and name != "EVOLVED_FROM"]
"""Of relationships that the store below has."""
CASES = [
    (label, name, damage)
    for label in (*STORED, *INTERNAL, *TYPES)
    for name in properties_of(label)
    for damage in DAMAGES
]
DRAWN = 299
"""Every so many cases run in `make test`, each with one of the commands."""


class Damaged:
    """A memory on the session's server, in which all was well, to be damaged and asked."""

    def __init__(self, server: Neo4jServer, folder: Path) -> None:
        self.server = emptied(server)
        self.folder = folder
        (folder / "more.jsonl").write_text(MORE, "utf-8")
        fill(Neo4jStore(Login(server.uri, server.username, server.password, server.database)))

    def change(self, cypher: str, **values: Any) -> int:
        with (
            neo4j.GraphDatabase.driver(self.server.uri, auth=(self.server.username, self.server.password)) as driver,
            driver.session(database=self.server.database) as session,
        ):
            counters = session.run(cypher, values).consume().counters  # type: ignore[arg-type]
            return counters.properties_set

    def damage(self, label: str, name: str, value: Any) -> bool:
        """Damage the first node or relationship; whether there was one to damage, or the server took it."""
        pattern = "()-[n:{}]->()" if label in RELATIONSHIPS else "(n:{})"
        match = f"MATCH {pattern.format(label)} WHERE n.{name} IS NOT NULL WITH n ORDER BY elementId(n) LIMIT 1"
        try:
            return self.change(f"{match} SET n.{name} = $value", value=value) > 0
        except neo4j.exceptions.ClientError:  # a value that two nodes may not share
            return False

    def ask(self, *command: str) -> Answer:
        env = {"NEO4J_USERNAME": self.server.username, "NEO4J_PASSWORD": self.server.password}
        env["NEO4J_DATABASE"] = self.server.database
        answer = quick(*command, "--store", self.server.uri, env=env, cwd=self.folder)
        assert "Traceback" not in answer.err, (command, answer.err[-3000:])
        return answer


@pytest.fixture
def make(neo4j_server: Neo4jServer, tmp_path: Path) -> Iterator[Callable[[], Damaged]]:
    yield lambda: Damaged(neo4j_server, tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize(
    ("number", "label", "name", "damage"),
    [
        pytest.param(n, *case, marks=() if n % DRAWN == 0 else pytest.mark.exhaustive, id=" ".join(case))
        for n, case in enumerate(CASES)
    ],
)
def test_a_damaged_property_is_named_and_no_command_ends_in_a_traceback(
    make: Callable[[], Damaged], number: int, label: str, name: str, damage: str
) -> None:
    memory = make()
    if not memory.damage(label, name, DAMAGES[damage]):
        return
    found = memory.ask("doctor", "--repair")
    if damage in NEVER_RIGHT:
        assert found.code == 1
        assert f"the {name} of the {label.lower()} " in found.out + found.err
        assert "correct" in (found.out + found.err).lower()
    answer = memory.ask(*COMMANDS[number // DRAWN % len(COMMANDS)])
    if answer.code and not answer.out:
        one_sentence(answer)


def test_every_property_of_the_model_is_compared() -> None:
    for label, properties in NODES.items():
        assert properties.keys() <= properties_of(label).keys()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("revision", "x", "its revision is 'x', not a number"),
        pytest.param("embedder", None, "its embedder is missing", marks=pytest.mark.exhaustive),
        pytest.param("success_from", [7.0], "its success_from is [7.0], not a reward", marks=pytest.mark.exhaustive),
    ],
)
def test_a_damaged_header_of_a_server_is_one_sentence(
    make: Callable[[], Damaged], name: str, value: Any, said: str
) -> None:
    memory = make()
    memory.change(f"MATCH (m:Memory) SET m.{name} = $value", value=value)
    for command in (("stats",), ("doctor",), ("doctor", "--repair")):
        complaint = one_sentence(memory.ask(*command))
        assert said in complaint
        assert "Correct its node :Memory" in complaint


def test_nodes_of_others_with_labels_of_the_model_are_no_damage(make: Callable[[], Damaged]) -> None:
    memory = make()
    memory.change("CREATE (:User {id: 7, name: ['x']})-[:FROM {reward: 'x'}]->(:Tool {name: 7})")
    assert memory.ask("doctor", "--repair").out == "all is well\n"
    server = memory.server
    with Memory.open(server.uri, auth=(server.username, server.password)) as opened:
        assert opened.store.damage() == []
