"""The table of `hepm stats` as people read it."""

from __future__ import annotations

import json
from pathlib import Path

from hepm import Memory
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
