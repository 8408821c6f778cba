"""`hepm cypher`."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from hepm import Memory
from hepm.errors import HepmError
from tests.cypher.remembered import shop
from tests.faults.command import HEPM, Answer, quick
from tests.runs import trajectory


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("command") / "shop.hepm"
    with Memory.open(file) as memory:
        memory.ingest(shop(), namespace="shop")
    return file


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HEPM_STORE", raising=False)


def hepm(*arguments: str, given: str = "") -> Answer:
    return quick("cypher", *arguments, stdin=given.encode())


def asked(store: Path, *arguments: str, given: str = "") -> Answer:
    return hepm(*arguments, "--store", str(store), "--namespace", "shop", given=given)


def test_a_question_of_the_library_prints_a_table_or_json(store: Path):
    question = ("strongest_next_tools", "--param", "tool=get_order", "-p", "limit=2")
    table = asked(store, *question)
    assert table.code == 0, table.err
    assert "return_items" in table.out
    found = json.loads(asked(store, *question, "--json").out)
    assert found["columns"] == ["tool", "weight", "support", "failures", "failure_share"]
    assert [row["tool"] for row in found["rows"]] == ["return_items", "get_order"]
    assert found["truncated"] is False


def test_cypher_is_taken_as_an_argument_and_from_standard_input(store: Path):
    text = "MATCH (t:Tool {namespace: $namespace, name: $name}) RETURN t.calls AS calls"
    name = ("-p", "name=find_user", "--json")
    for done in (asked(store, text, *name), asked(store, "-", *name, given=text)):
        assert json.loads(done.out)["rows"] == [{"calls": 9}], done.err


def test_the_list_names_every_question_and_show_prints_one(store: Path):
    listed = hepm("--list")
    assert "strongest_next_tools  Which tools worked best after this one?" in listed.out
    shown = hepm("retries", "--list").out
    assert shown.startswith("// Which tools are called again right away")
    assert json.loads(asked(store, "-", "--json", "-p", "limit=5", given=shown).out)["rows"][0]["tool"] == "get_order"


def test_favourites_are_an_archive_with_every_question(tmp_path: Path) -> None:
    file = tmp_path / "favourites.zip"
    done = hepm("--favourites", str(file))
    assert f"{file} written: drop it onto the window of Neo4j Browser" in done.out
    with zipfile.ZipFile(file) as archive:
        texts = "\n".join(archive.read(name).decode() for name in archive.namelist())
    assert "Which tools are called again right away" in texts


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [
        (["strongest_next_tools"], "needs tool: give it with --param tool=…", 1),
        (["strongest_next_tools", "-p", "tol=x"], "has no parameter 'tol': it has namespace, tool, limit = 10", 1),
        (["MATCH (t:Tool) SET t.calls = 0"], "read-only", 1),
        (["MATCH (t:Tool) RETURN toInteger(t.calls)"], "Its Cypher is a dialect (docs/use/cypher.md)", 1),
        (["RETURN $x AS x"], "--param x=…", 1),
        (["environments", "--namespace", "shp"], "nothing is stored in 'shp'", 2),
        ([], "name a question", 2),
    ],
)
def test_a_misuse_gets_a_sentence(store: Path, arguments: list[str], said: str, status: int):
    done = hepm(*arguments, "--store", str(store), *([] if "--namespace" in arguments else ["--namespace", "shop"]))
    assert said in " ".join(done.err.replace("│", "").split())
    assert done.code == status
    assert "Traceback" not in done.err


def test_cut_rows_are_told_on_stderr(store: Path):
    done = asked(store, "UNWIND range(1, 9) AS n RETURN n", "--limit", "3", "--json")
    assert json.loads(done.out)["rows"] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert "the first 3 rows, and there are more" in done.err


def test_a_value_is_json_where_it_can_be_and_text_where_the_question_asks_for_text(store: Path):
    done = asked(
        store, "RETURN $a AS a, $b AS b, $c AS c", "-p", "a=[1, 2]", "-p", "b=two words", "-p", 'c="3"', "--json"
    )
    assert json.loads(done.out)["rows"] == [{"a": [1, 2], "b": "two words", "c": "3"}]
    assert json.loads(asked(store, "task_overview", "-p", "task=14", "--json").out)["rows"] == []


STEERING = "RETURN 'red \x1b[31m\x9b2J' AS a, 'two\nlines' AS b"


@pytest.mark.skipif(os.name != "posix", reason="opens a terminal")
@pytest.mark.parametrize("form", ["--json", "table"])
def test_what_steers_a_terminal_is_escaped_there_and_stays_exact_in_a_pipe(store: Path, form: str):
    options = [] if form == "table" else [form]
    command = [HEPM, "cypher", STEERING, "--store", str(store), "-n", "shop", *options]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # a terminal that is hung up
            while part := os.read(ours, 65536):
                shown += part
    os.close(ours)
    assert process.returncode == 0
    assert not {"\x1b", "\x9b"} & set(
        re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()) if form == "table" else shown.decode()
    )
    assert rb"x1b[31m" in shown or rb"u001b[31m" in shown
    exact = asked(store, STEERING, *options).out
    if form == "--json":
        assert json.loads(exact)["rows"] == json.loads(shown)["rows"]


def test_a_memory_answers_from_python_as_the_command_does_and_only_reads(store: Path):
    question = {"tool": "get_order", "limit": 2}
    with Memory.open(store) as memory:
        found = memory.cypher("strongest_next_tools", **question, namespace="shop")
        asked_for = asked(store, "strongest_next_tools", "-p", "tool=get_order", "-p", "limit=2", "--json")
        assert [dict(row) for row in found.dicts()] == asked_for.json["rows"]
        runs = "MATCH (r:Trajectory {namespace: $namespace}) RETURN count(r) AS runs"
        assert memory.cypher(runs, namespace="shop").rows == ((memory.totals(namespace="shop").trajectories,),)
        with pytest.raises(HepmError, match="no query that reads"):
            memory.cypher("CREATE (t:Tool)")


def test_the_ways_on_which_runs_fail_come_by_failures_beyond_the_base_rate(store: Path) -> None:
    rows = hepm("failing_ways", "--store", str(store), "--namespace", "shop", "--json").json["rows"]
    # 3 of 8 runs failed; another one began with two calls at once. Both runs that cancelled failed.
    ways = {"-".join(node["properties"]["name"] for node in row["way"]["nodes"]): row for row in rows}
    excess = {way: (row["failures"], row["excess"]) for way, row in ways.items()}
    assert list(ways)[:2] == ["cancel_order-give_up", "get_order-cancel_order"]
    assert excess["get_order-cancel_order"] == (2, pytest.approx(2 - 2 * 3 / 8))
    assert excess["<START>-find_user"] == (3, pytest.approx(0))


def test_two_tools_between_which_runs_go_back_and_forth_come_before_one_way_traffic(tmp_path: Path) -> None:
    runs = [trajectory(f"on {n}", "get_order", "refund") for n in range(9)]
    runs += [trajectory(f"back {n}", "refund", "get_order") for n in range(2)]
    runs += [trajectory(f"loop {n}", "scroll", "look", "scroll") for n in range(3)]
    with Memory.open(tmp_path) as memory:
        memory.ingest(runs)
        found = memory.cypher("loops").dicts()
    assert [(row["tool"], row["other"], row["there"], row["back"]) for row in found] == [
        ("look", "scroll", 3, 3),
        ("get_order", "refund", 9, 2),
    ]
