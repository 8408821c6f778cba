"""`hepm cypher` as a process."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hepm import Memory
from tests.cypher.engines import fresh
from tests.cypher.remembered import shop
from tests.neo4j_server import Neo4jServer


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("command") / "shop.hepm"
    with Memory.open(file) as memory:
        memory.ingest(shop(), namespace="shop")
    return file


def hepm(*arguments: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HEPM_", "NEO4J_"))}
    return subprocess.run(
        [sys.executable, "-m", "hepm", "cypher", *arguments],
        env={**kept, "COLUMNS": "200", **variables},
        input=given, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def asked(store: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return hepm(*arguments, "--store", str(store), "--namespace", "shop", given=given)


def test_a_question_of_the_library_prints_a_table_json_or_csv(store: Path):
    question = ("strongest_next_tools", "--param", "tool=get_order", "-p", "limit=2")
    table = asked(store, *question)
    assert table.returncode == 0, table.stderr
    assert "return_items" in table.stdout
    found = json.loads(asked(store, *question, "--json").stdout)
    assert found["columns"] == ["tool", "weight", "support", "failures", "failure_share"]
    assert [row["tool"] for row in found["rows"]] == ["return_items", "get_order"]
    assert found["truncated"] is False
    rows = list(csv.DictReader(io.StringIO(asked(store, *question, "--csv").stdout)))
    assert [row["support"] for row in rows] == ["4", "1"]


def test_cypher_is_taken_as_an_argument_and_from_standard_input(store: Path):
    text = "MATCH (t:Tool {namespace: $namespace, name: $name}) RETURN t.calls AS calls"
    name = ("-p", "name=find_user", "--json")
    for done in (asked(store, text, *name), asked(store, "-", *name, given=text)):
        assert json.loads(done.stdout)["rows"] == [{"calls": 9}], done.stderr


def test_a_path_is_printed_as_the_names_on_it(store: Path):
    done = asked(store, "shortest_routes", "-p", "from=find_user", "-p", "to=return_items")
    assert "find_user → return_items" in done.stdout or "find_user → get_order → return_items" in done.stdout


def test_the_list_names_every_question_and_show_prints_one(store: Path):
    listed = hepm("--list")
    assert "strongest_next_tools  Which tools worked best after this one?" in listed.stdout
    told = json.loads(hepm("--list", "--json").stdout)
    assert {"name", "asks", "parameters", "returns", "note", "picture"} == set(told[0])
    shown = hepm("--show", "retries").stdout
    assert shown.startswith("// Which tools are called again right away")
    assert (
        json.loads(asked(store, "-", "--json", "-p", "limit=5", given=shown).stdout)["rows"][0]["tool"] == "get_order"
    )


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [
        (["strongest_next_tools"], "needs tool: give it with --param tool=…", 1),
        (["strongest_next_tools", "-p", "tol=x"], "has no parameter 'tol': it has namespace, tool, limit = 10", 1),
        (["strongest_next_tool"], "did you mean strongest_next_tools?", 1),
        (["MATCH (t:Tool) SET t.calls = 0"], "SET writes", 1),
        (["MATCH (t:Tool) RETURN round(t.calls)"], "the function round() is outside of the Cypher", 1),
        (["RETURN $x AS x"], "--param x=…", 1),
        (["environments", "-p", "limit"], "is not of the form k=v", 2),
        (["environments", "--write"], "only a store in Neo4j can be changed", 2),
        (["environments", "--json", "--csv"], "take one of", 2),
        (["environments", "--namespace", "shp"], "nothing is stored in 'shp'", 2),
        ([], "name a question", 2),
    ],
)
def test_a_misuse_gets_a_sentence(store: Path, arguments: list[str], said: str, status: int):
    done = hepm(*arguments, "--store", str(store), *([] if "--namespace" in arguments else ["--namespace", "shop"]))
    assert said in " ".join(done.stderr.replace("│", "").split())
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_a_store_that_is_not_there_is_the_users_mistake(tmp_path: Path):
    done = hepm("environments", "--store", str(tmp_path / "none.hepm"))
    assert done.returncode == 2
    assert "there is no memory at" in done.stderr


def test_cut_rows_are_told_on_stderr(store: Path):
    done = asked(store, "UNWIND range(1, 9) AS n RETURN n", "--limit", "3", "--csv")
    assert done.stdout.split() == ["n", "1", "2", "3"]
    assert "the first 3 rows, and there are more" in done.stderr


def test_a_value_is_json_where_it_can_be_and_text_where_the_question_asks_for_text(store: Path):
    done = asked(
        store, "RETURN $a AS a, $b AS b, $c AS c", "-p", "a=[1, 2]", "-p", "b=two words", "-p", 'c="3"', "--json"
    )
    assert json.loads(done.stdout)["rows"] == [{"a": [1, 2], "b": "two words", "c": "3"}]
    assert json.loads(asked(store, "task_overview", "-p", "task=14", "--json").stdout)["rows"] == []


def test_the_same_question_on_a_server_and_what_may_be_changed_there(store: Path, neo4j_server: Neo4jServer):
    namespace = fresh("command")
    login = {"NEO4J_USERNAME": neo4j_server.username, "NEO4J_PASSWORD": neo4j_server.password}
    login |= {"NEO4J_DATABASE": neo4j_server.database}
    with Memory.open(neo4j_server.uri, auth=(neo4j_server.username, neo4j_server.password)) as memory:
        memory.ingest(shop(), namespace=namespace)
    question = ("strongest_next_tools", "-p", "tool=get_order", "--json")
    done = hepm(*question, "-n", namespace, "--store", neo4j_server.uri, **login)
    assert done.returncode == 0, done.stderr
    here = json.loads(asked(store, *question).stdout)["rows"]
    there = json.loads(done.stdout)["rows"]
    assert [(row["tool"], row["support"]) for row in there] == [(row["tool"], row["support"]) for row in here]
    change = "CREATE (n:Analysis {name: $namespace}) RETURN n.name AS name"
    refused = hepm(change, "-n", namespace, HEPM_STORE=neo4j_server.uri, **login)
    assert refused.returncode == 1
    assert "to change the graph, use --write" in refused.stderr
    made = hepm(change, "-n", namespace, "--write", "--json", HEPM_STORE=neo4j_server.uri, **login)
    assert json.loads(made.stdout)["rows"] == [{"name": namespace}]
    hepm(
        "MATCH (n {namespace: $namespace}) DETACH DELETE n",
        "-n",
        namespace,
        "--write",
        HEPM_STORE=neo4j_server.uri,
        **login,
    )
    hepm(
        "MATCH (n:Analysis {name: $namespace}) DELETE n",
        "-n",
        namespace,
        "--write",
        HEPM_STORE=neo4j_server.uri,
        **login,
    )
