"""Folders of transcripts that are read while agents write them, and while the reading process is killed."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.faults.command import HEPM, quick
from tests.faults.content import Content, content_of
from tests.ingest.transcripts import claude, result, use

KILLS = 5


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


@pytest.mark.exhaustive
def test_a_folder_of_transcripts_whose_ingest_is_killed_and_repeated_is_stored_as_if_undisturbed(
    tmp_path: Path,
) -> None:
    folder, store = write(tmp_path / "projects", 1_500, 12), tmp_path / "killed.hepm"
    command = [HEPM, "ingest", str(folder), "--store", str(store)]
    killed, wait_s, draw = 0, 1.0, random.Random(7)
    while killed < KILLS:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.communicate(timeout=draw.uniform(0.3, wait_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed, wait_s = killed + 1, wait_s + 0.7
        else:  # it came to its end: begin again, and kill sooner
            assert process.returncode == 0
            wait_s = max(0.5, wait_s / 2)
            for path in tmp_path.glob("killed.hepm*"):
                path.unlink()
    assert ingested(folder, store) == ingested(folder, tmp_path / "whole.hepm")


def test_a_transcript_that_grew_since_the_last_ingest_is_one_longer_run(tmp_path: Path) -> None:
    folder = write(tmp_path / "projects", 3, 2)
    assert len(ingested(folder, tmp_path / "s.hepm").runs) == 3
    file = file_of(folder, 1)
    whole = "".join(json.dumps(one) + "\n" for one in records(1, 6))
    file.write_text(whole[: len(whole) * 2 // 3], "utf-8")  # the last line is half written
    quick("ingest", folder, "--store", tmp_path / "s.hepm")
    file.write_text(whole, "utf-8")
    assert ingested(folder, tmp_path / "s.hepm") == ingested(folder, tmp_path / "whole.hepm")


@pytest.mark.exhaustive
def test_transcripts_that_grow_while_they_are_read_are_complete_after_the_next_ingest(tmp_path: Path) -> None:
    folder = write(tmp_path / "projects", 200, 2)
    ended = threading.Event()

    def work() -> None:
        for calls in range(3, 12):
            for number in range(0, 200, 7):
                lines = "".join(json.dumps(one) + "\n" for one in records(number, calls))
                with file_of(folder, number).open("r+", encoding="utf-8") as file:
                    before = len(file.read())
                    for at in range(before, len(lines), 700):  # in parts, as buffers are written
                        file.write(lines[at : at + 700])
                        file.flush()
        ended.set()

    agents = threading.Thread(target=work)
    agents.start()
    rounds = 0
    while not ended.is_set() or rounds < 2:
        answer = quick("ingest", folder, "--store", tmp_path / "s.hepm")
        assert "Traceback" not in answer.err
        assert quick("doctor", "--store", tmp_path / "s.hepm").out == "all is well\n"
        rounds += 1
    agents.join()
    assert ingested(folder, tmp_path / "s.hepm") == ingested(folder, tmp_path / "whole.hepm")
