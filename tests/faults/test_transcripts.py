"""Folders of transcripts that are read while agents write them, and while the reading process is killed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.faults.command import quick
from tests.faults.content import Content, content_of
from tests.ingest.transcripts import claude, result, use


def records(number: int, calls: int) -> list[dict[str, Any]]:
    """A session of Claude Code with so many calls."""
    draw = random.Random(number)
    found = [claude("user", "1", f"Fix the tests of part {number}.")]
    for call in range(calls):
        tool, arguments = draw.choice([("Bash", {"command": "git status"}), ("Read", {"file_path": f"/w/{call}.py"})])
        found.append(claude("assistant", f"{2 * call + 2:x}", use(f"c{call}", tool, **arguments), id=f"m{call}"))
        found.append(claude("user", f"{2 * call + 3:x}", result(f"c{call}", f"line {call} " * 40)))
    return [{**one, "sessionId": str(UUID(int=number))} for one in found]


def file_of(folder: Path, number: int) -> Path:
    return folder / f"-w-shop-{number % 7}" / f"{UUID(int=number)}.jsonl"


def write(folder: Path, sessions: int, calls: int) -> Path:
    """A folder as Claude Code keeps it: below each project a file for each session."""
    for number in range(sessions):
        place = file_of(folder, number)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(json.dumps(one) + "\n" for one in records(number, calls)), "utf-8")
    return folder


def ingested(folder: Path, store: Path) -> Content:
    answer = quick("ingest", folder, "--store", store)
    assert answer.code == 0, answer.err
    assert quick("doctor", "--store", store).out == "all is well\n"
    return content_of(store)


def test_a_transcript_that_grew_since_the_last_ingest_is_one_longer_run(tmp_path: Path) -> None:
    folder = write(tmp_path / "projects", 3, 2)
    assert len(ingested(folder, tmp_path / "s.hepm").runs) == 3
    file = file_of(folder, 1)
    whole = "".join(json.dumps(one) + "\n" for one in records(1, 6))
    file.write_text(whole[: len(whole) * 2 // 3], "utf-8")  # the last line is half written
    quick("ingest", folder, "--store", tmp_path / "s.hepm")
    file.write_text(whole, "utf-8")
    assert ingested(folder, tmp_path / "s.hepm") == ingested(folder, tmp_path / "whole.hepm")
