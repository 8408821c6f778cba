"""Which store a command works on, and what it says of that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.chats import chats, write
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
