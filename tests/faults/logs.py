"""Recorded runs, made up: as many as wanted, the same for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TOOLS = tuple(f"tool_{number}" for number in range(12))
USERS = tuple(f"user-{number}" for number in range(8))


def records(count: int, *, seed: int = 0, prefix: str = "run") -> Iterator[dict[str, Any]]:
    """Runs in hepm's own JSON: one to six turns, some of them with two parallel calls, six in ten successful."""
    draw = random.Random(f"{prefix} {seed}")
    for number in range(count):
        turns: list[dict[str, Any]] = [{"role": "user", "text": f"please see to order {draw.randrange(60)}"}]
        for _ in range(draw.randint(1, 6)):
            called = draw.sample(TOOLS, draw.choice((1, 1, 1, 2)))
            turns.append(
                {
                    "role": "assistant",
                    "calls": [{"name": tool, "result": f"{tool} gave {draw.randrange(40)}"} for tool in called],
                }
            )
        yield {
            "hepm": 1,
            "id": f"{prefix}-{number:05d}",
            "environment": "shop",
            "task": f"task-{number % 40}",
            "user": USERS[number % len(USERS)],
            "success": draw.random() < 0.6,
            "turns": turns,
        }


def run(name: str, *tools: str, **more: Any) -> dict[str, Any]:
    """One successful run that calls these tools one after the other."""
    turns = [{"role": "assistant", "calls": [{"name": tool, "result": "done"}]} for tool in tools]
    return {"hepm": 1, "id": name, "success": True, "turns": [{"role": "user", "text": "please help"}, *turns], **more}


def lines(runs: Iterable[dict[str, Any]]) -> bytes:
    """Runs as JSON lines."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in runs)


def write_files(folder: Path, *, files: int, runs: int, seed: int = 0, prefix: str = "run") -> list[Path]:
    """Files of so many runs each; the same seed writes the same ones."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    everything = list(records(files * runs, seed=seed, prefix=prefix))
    for number in range(files):
        paths.append(folder / f"{number:04d}.jsonl")
        paths[-1].write_bytes(lines(everything[number * runs : (number + 1) * runs]))
    return paths
