"""The same runs teach the same lessons, whatever the order in which they came."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.experience.lesson_files import LessonFile, lessons_for_file

NS = "default"


def run(number: int) -> Trajectory:
    """Half of the runs know no task, and half no time; a third fails; every fourth meets an error and repairs it."""
    good = number % 3 != 0
    status = json.dumps({"status": "open" if good else "shut", "id": f"o{number}"})
    calls = [ToolCall("look", {"id": f"o{number}"}, status, False)]
    if number % 4 == 0:
        calls.append(ToolCall("check", {}, "Error: no such table here", True))
        calls.append(ToolCall("repair", {"kind": "all"}, "ok", False))
    calls.append(ToolCall("buy" if good else "drop", {"id": f"o{number}"}, "ok", False))
    turns = (Turn("user", f"Please buy order {number % 5} now"), *(Turn("assistant", calls=(call,)) for call in calls))
    task = f"t{number % 3}" if number % 2 else ""
    ended_at = 1.7e9 + number % 7 * 86_400 if number < 8 else None
    return Trajectory(f"r{number:02}", turns, Outcome(None, good), "desk", task, ended_at=ended_at)


def exported(runs: list[Trajectory]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "runs.hepm") as memory:
        for one in runs:
            memory.ingest([one])
        memory.experiences.distill()
        memory.principles.distill()
        chosen, _ = lessons_for_file(memory.lessons, namespace=NS, every=True)
        lessons = [line for line in memory.export(namespace=NS) if line.startswith('{"hepm":2,"lesson"')]
        told = memory.prompt([{"role": "user", "content": "Please buy order 3 now"}], after="look").text
        return [
            LessonFile.read("", "AGENTS.md").with_lessons(chosen, namespace=NS),
            *lessons,
            told,
        ]


RUNS = [run(number) for number in range(16)]


def test_the_lessons_exported_do_not_depend_on_the_order_of_ingest() -> None:
    expected = exported(RUNS)
    for seed in range(2):
        assert exported(random.Random(seed).sample(RUNS, len(RUNS))) == expected
