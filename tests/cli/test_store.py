"""Which store a command works on, and what it says of that."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from hepm import Memory
from tests.cli.chats import chat, chats, write
from tests.faults.command import Answer, quick

NOBODY = "bolt://127.0.0.1:9"


def called(folder: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Answer:
    """The command in a folder, with no variable but these to choose a store."""
    return quick(*arguments, env=env, cwd=folder)


def said(answer: Answer) -> str:
    """Complaints on one line, without the frame around them."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", answer.err).split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HEPM_STORE", "NEO4J_URI"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path / "runs.jsonl", chats())
    return tmp_path


def test_an_address_in_the_shell_chooses_no_store(folder: Path) -> None:
    env = {"NEO4J_URI": NOBODY}
    assert called(folder, "ingest", "runs.jsonl", env=env).code == 0
    assert (folder / "memory.hepm").exists()


def test_a_store_that_is_not_there_is_said_with_what_chose_it(folder: Path) -> None:
    there_is_none = "there is no memory at {0}, {1}. Make one with `hepm ingest RUNS --store {0}`."
    default = there_is_none.format("memory.hepm", "the default in this folder")
    assert default in said(called(folder, "stats"))
    env = {"HEPM_STORE": "a.hepm"}
    assert there_is_none.format("a.hepm", "from HEPM_STORE") in said(called(folder, "stats", env=env))
    named = there_is_none.format("b.hepm", "from the command line")
    assert named in said(called(folder, "stats", "--store", "b.hepm", env=env))
    assert named in said(called(folder, "copy", "b.hepm", "d.hepm"))


def test_an_unknown_namespace_is_said_with_the_store_that_was_asked(folder: Path) -> None:
    assert called(folder, "ingest", "runs.jsonl", "--store", "a.hepm").code == 0
    answer = called(folder, "stats", "-n", "desk", env={"HEPM_STORE": "a.hepm"})
    assert "nothing is stored in 'desk'. There are: default. The store is a.hepm, from HEPM_STORE." in said(answer)


def test_a_server_that_does_not_answer_is_said_with_what_named_it(folder: Path) -> None:
    from_variable = called(folder, "stats", env={"HEPM_STORE": NOBODY, "NEO4J_PASSWORD": "x"})
    assert from_variable.code == 1
    assert said(from_variable).endswith(f"The store is {NOBODY}, from HEPM_STORE.")
    from_option = called(folder, "stats", "--store", NOBODY, env={"NEO4J_PASSWORD": "x"})
    assert NOBODY in said(from_option)
    assert "The store is" not in said(from_option)


def test_an_address_of_another_kind_is_no_store_and_its_password_is_not_said(folder: Path) -> None:
    for command in (["ingest", "runs.jsonl"], ["stats"]):
        answer = called(folder, *command, "--store", "https://ann:secret@db.example.com")
        assert (answer.code, "secret" in said(answer)) == (1, False)
        assert "a store is a file, or the address of a Neo4j server such as neo4j://localhost:7687" in said(answer)


ASKED: list[list[str]] = [
    ["suggest", "--after", "get_order"],
    ["prompt", "--state", "return an order", "--after", "get_order"],
    ["lesson", "list"],
    ["export", "-"],
    ["cypher", "first_tools"],
    ["forget", "--task", "return-0", "--dry-run"],
]


def test_a_command_without_a_namespace_takes_the_only_one_of_the_store(folder: Path) -> None:
    assert called(folder, "ingest", "runs.jsonl", "-n", "shop").code == 0
    assert called(folder, "lesson", "distill").code == 0
    for command in ASKED:
        plain, named = called(folder, *command), called(folder, *command, "-n", "shop")
        assert (plain.code, plain.out) == (named.code, named.out), command
        assert (plain.code, plain.err) == (0, named.err), command
        assert plain.out.strip() not in ("", "nothing is remembered here"), command


def test_a_command_that_writes_takes_the_only_namespace_and_says_so(folder: Path) -> None:
    chosen = "hepm: the namespace is 'shop', the only one in memory.hepm; --namespace names another\n"
    assert called(folder, "ingest", "runs.jsonl", "-n", "shop").err == ""
    assert called(folder, "ingest", "runs.jsonl").err == chosen
    assert called(folder, "lesson", "edit", "ann", "short answers").err == chosen
    assert called(folder, "ingest", "runs.jsonl", "-n", "default").err == ""
    # Of two, a command that names none takes the default one.
    plain, named = (called(folder, *ASKED[0], *option) for option in ((), ("-n", "default")))
    assert (plain.code, plain.out, plain.err) == (0, named.out, "")


# The table of `hepm stats`

DESCRIBED = [
    {"type": "function", "function": {"name": f"never_{n}", "description": "Waits.", "parameters": {}}}
    for n in range(1234)
]


def stats(tmp_path: Path, *namespaces: str, described: bool = False) -> list[str]:
    log = write(tmp_path / "runs.jsonl", chats())
    (tmp_path / "tools.json").write_text(json.dumps(DESCRIBED))
    tools = ["--tools", tmp_path / "tools.json"] if described else []
    for name in namespaces:
        assert quick("ingest", log, "--store", tmp_path / "s.hepm", "-n", name, *tools).code == 0
    answer = quick("stats", "--store", tmp_path / "s.hepm", env={"COLUMNS": "80"})
    assert answer.code == 0, answer.err
    return answer.out.splitlines()


def test_names_of_namespaces_stand_whole_at_80_columns(tmp_path: Path) -> None:
    lines = stats(tmp_path, "bfcl-multi-turn", "tau-bench-retail")
    for name in ("bfcl-multi-turn", "tau-bench-retail"):
        assert any(line.startswith(f"{name} ") for line in lines), lines


def test_tools_that_were_never_called_are_counted_apart(tmp_path: Path) -> None:
    lines = stats(tmp_path, "shop", described=True)
    row = next(line.split() for line in lines if line.startswith("shop "))
    assert row[5] == "6"
    page = quick("view", tmp_path / "page.html", "--store", tmp_path / "s.hepm", "-n", "shop").out
    assert " written: 6 tools, " in page


def test_runs_without_an_outcome_are_counted_with_the_ways_to_label_them(tmp_path: Path) -> None:
    waiting = [chat(f"new-{n}", ("find_user",), task="t", success=None) for n in range(10)]
    log, store = write(tmp_path / "runs.jsonl", [*chats(), *waiting]), tmp_path / "s.hepm"
    assert quick("ingest", log, "--store", store).code == 0
    [sentence] = [line for line in quick("stats", "--store", store).out.splitlines() if "without an outcome" in line]
    assert sentence.startswith("default: 10 runs without an outcome: they teach nothing until they are labelled")
    assert "`hepm label --by judge`" in sentence
    assert "POST /outcome" in sentence
    for run in waiting:
        assert quick("label", run["id"], "success", "--store", store).code == 0
    assert "without an outcome" not in quick("stats", "--store", store).out


def test_a_run_under_way_is_counted_apart_and_a_label_for_it_says_how_to_end_it(tmp_path: Path) -> None:
    store = tmp_path / "s.hepm"
    with Memory.open(store) as memory:
        memory.session(id="job-7", namespace="desk").record("look")
    lines = quick("stats", "--store", store).out.splitlines()
    assert "No run is stored yet." in lines
    assert lines[-1].startswith("desk: 1 run under way, or left by a crash: runs count once they have ended")
    assert json.loads(quick("stats", "--store", store, "--json").out)["under_way"] == {"desk": 1}
    answer = quick("label", "job-7", "success", "--store", store, "-n", "desk")
    assert answer.code == 1
    assert "'job-7' is under way, and not stored yet: end it with its outcome by POST /outcome" in answer.err
    for name in ("desk", "shop"):
        assert quick("ingest", write(tmp_path / "runs.jsonl", chats()), "--store", store, "-n", name).code == 0
    assert "under way" in quick("stats", "--store", store).out
    assert "under way" not in quick("stats", "--store", store, "-n", "shop").out


def test_commands_know_the_runs_under_way_in_the_folder_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "hepm.toml").write_text('store = "s.hepm"\n[serve]\nsessions = "under-way"\n')
    with Memory.open(tmp_path / "s.hepm", sessions=tmp_path / "under-way") as memory:
        memory.session(id="job-7", user="ann").record("look")
    assert "default: 1 run under way" in quick("stats", cwd=tmp_path).out
    assert quick("forget", "--user", "ann", cwd=tmp_path).out == "1 run forgotten\n"
    assert "under way" not in quick("stats", cwd=tmp_path).out
