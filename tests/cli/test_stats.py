"""The table of `hepm stats` as people read it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.chats import chat, chats, write
from tests.faults.command import quick

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
