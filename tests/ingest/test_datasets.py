from __future__ import annotations

import json
import sys
from pathlib import Path

import agentpile
import pytest

from hepm.errors import MissingExtraError
from hepm.ingest import read_runs
from hepm.types import ToolCall
from tests.ingest.samples import read, read_one, read_reason, write

SESSION = [
    {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "s1",
        "cwd": "/x",
        "version": "2.0.0",
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": "user", "content": "List the files."},
    },
    {
        "type": "assistant",
        "uuid": "u2",
        "parentUuid": "u1",
        "sessionId": "s1",
        "cwd": "/x",
        "version": "2.0.0",
        "timestamp": "2026-01-01T00:00:01Z",
        "message": {
            "id": "m1",
            "role": "assistant",
            "model": "a-model",
            "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
        },
    },
    {
        "type": "user",
        "uuid": "u3",
        "parentUuid": "u2",
        "sessionId": "s1",
        "cwd": "/x",
        "version": "2.0.0",
        "timestamp": "2026-01-01T00:00:02Z",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py", "is_error": False}],
        },
    },
]


def test_a_session_of_claude_code_is_read_by_its_content(tmp_path: Path):
    path = write(tmp_path / "session.jsonl", *SESSION)
    run = read_one(f"agentpile:{path}")
    assert list(run.calls()) == [ToolCall("Bash", {"command": "ls"}, "a.py", False)]
    assert (run.id, run.model, run.source, run.ended_at) == ("s1", "a-model", f"agentpile:{path}", 1767225601.0)


def test_the_reader_may_be_named(tmp_path: Path):
    path = write(tmp_path / "session.jsonl", *SESSION)
    assert read_one(f"agentpile:claude-code-jsonl:{path}").id == "s1"
    assert [name for name, _ in read_runs([f"agentpile:{path}"])] == ["agentpile"]


def test_a_folder_is_read_file_by_file(tmp_path: Path):
    write(tmp_path / "a.jsonl", *SESSION)
    write(tmp_path / "b.jsonl", {"nothing": "known"})
    runs, rejected = read(f"agentpile:{tmp_path}")
    assert ([run.id for run in runs], len(rejected)) == (["s1"], 1)


def test_a_name_that_agentpile_does_not_know_is_rejected():
    assert "neither a registered dataset" in read_reason("agentpile:no_such_dataset")


def test_a_list_of_tools_is_no_run(tmp_path: Path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [{"name": "f", "inputSchema": {"type": "object"}}]}))
    assert read_reason(f"agentpile:{path}") == "it describes tools and holds no run"


def test_without_agentpile_its_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "agentpile", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hepm\[datasets\]'"):
        read("agentpile:anything")


def test_a_dataset_is_read_by_its_bare_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "session.jsonl", *SESSION)

    class Sessions:
        def load(self) -> object:
            return agentpile.load(str(path))

    agentpile.register("test_sessions", Sessions(), kind="dataset")
    try:
        assert read_one("test_sessions").id == "s1"
        monkeypatch.chdir(tmp_path)
        Path("test_sessions").mkdir()  # what exists under a name is meant by it
        assert "the folder holds no file to read" in read_reason("test_sessions")
    finally:
        agentpile.datasets.unregister("test_sessions")
