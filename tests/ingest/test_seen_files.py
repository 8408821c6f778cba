"""An ingest costs only new and grown files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.ingest import reading
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.records import ReadOptions
from tests.ingest.samples import write
from tests.ingest.transcripts import CLAUDE_CODE, claude, result, use


@pytest.fixture(name="opened")
def count_opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read."""
    opened: list[str] = []

    class Counted(reading.Document):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            opened.append(self.path.name)

    monkeypatch.setattr(reading, "Document", Counted)
    return opened


def session(folder: Path, name: str, *more: Any, at: int = 1_700_000_000) -> Path:
    """A transcript that changed long ago."""
    records = [{**record, "sessionId": name} for record in (*CLAUDE_CODE[4:], *more)]
    path = write(folder / f"{name}.jsonl", *records)
    os.utime(path, (at, at))
    return path


def grown(id: str) -> list[Any]:
    """What an agent did later."""
    return [
        claude("user", f"{id}1", "And now?"),
        claude("assistant", f"{id}2", use(id, "Edit", file_path="a.py"), id=f"m{id}"),
        claude("user", f"{id}3", result(id, "done")),
    ]


def test_only_new_and_grown_files_are_read_again(tmp_path: Path, opened: list[str]):
    for name in ("one", "two"):
        session(tmp_path / "logs", name)
    with Memory.open(tmp_path / "m.hepm") as memory:
        assert memory.ingest(tmp_path / "logs").stored == 2
        opened.clear()
        report = memory.ingest(tmp_path / "logs")
        assert (report.read, report.duplicates, dict(report.by_format), opened) == (2, 2, {"claude-code": 2}, [])
        session(tmp_path / "logs", "three")
        session(tmp_path / "logs", "two", *grown("q"), at=1_700_000_100)
        report = memory.ingest(tmp_path / "logs")
        assert (report.stored, report.duplicates, report.rejected) == (2, 1, [])
        assert opened == ["three.jsonl", "two.jsonl"]
        run = memory.run("two")
        assert [call.name for call in run.calls()][-1] == "Edit"
        assert memory.totals().trajectories == 3
        assert memory.examine() == []


@pytest.mark.parametrize("change", ["options", "forgotten", "namespace", "file"])
def test_a_file_is_read_again_when_anything_that_matters_changed(tmp_path: Path, opened: list[str], change: str):
    path = session(tmp_path / "logs", "one")
    with Memory.open(tmp_path / "m.hepm") as memory:
        memory.ingest(tmp_path / "logs")
        opened.clear()
        more: dict[str, Any] = {}
        if change == "options":
            more["options"] = IngestOptions(assume_success=True)
        elif change == "forgotten":
            memory.forget(trajectory="one")
        elif change == "namespace":
            more["namespace"] = "other"
        else:
            os.utime(path, (1_700_000_001, 1_700_000_001))
        report = memory.ingest(tmp_path / "logs", **more)
    assert opened == ["one.jsonl"]
    assert report.stored == (change != "file")


def test_a_file_with_a_rejected_record_is_read_again(tmp_path: Path, opened: list[str]):
    path = session(tmp_path / "logs", "one")
    path.write_bytes(path.read_bytes() + b'{"torn')
    os.utime(path, (1_700_000_000, 1_700_000_000))
    with Memory.open(tmp_path / "m.hepm") as memory:
        for _ in range(2):
            assert len(memory.ingest(tmp_path / "logs").rejected) == 1
    assert len(opened) == 2


def test_a_list_of_files_that_cannot_be_read_or_written_costs_nothing_but_time(tmp_path: Path):
    session(tmp_path / "logs", "one")
    (tmp_path / "m.hepm-files").write_text("[7", "utf-8")
    with Memory.open(tmp_path / "m.hepm") as memory:
        assert memory.ingest(tmp_path / "logs").stored == 1
        (tmp_path / "m.hepm-files").unlink()
        (tmp_path / "m.hepm-files").mkdir()
        assert memory.ingest(tmp_path / "logs").duplicates == 1


def test_a_longer_version_replaces_a_run_unless_it_has_another_label(memory: Memory):
    def run(*tools: str, **outcome: Any) -> dict[str, Any]:
        calls = [{"role": "assistant", "tool_calls": [{"function": {"name": tool}}]} for tool in tools]
        return {"id": "r", "messages": [{"role": "user", "content": "Go."}, *calls], **outcome}

    for record, stored in (
        (run("a"), 1),
        (run("a", "b"), 1),
        (run("a"), 0),  # an older version
        (run("c", "d", "e"), 0),  # another run
        (run("a", "b", "c", success=True), 1),
        (run("a", "b", "c", "d", success=False), 0),
        (run("a", "b", "c", "d"), 0),
        (run("a", "b", "c", "d", success=True), 1),
    ):
        report = memory.ingest(record, reading=ReadOptions())
        assert (report.stored, len(report.rejected)) == (stored, 1 - stored), json.dumps(record)
    assert memory.examine() == []
