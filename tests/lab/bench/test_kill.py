"""`hepm bench` as a process that is killed at random moments, and repeated; in each way of running it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.cli import main
from tests.lab.bench.parcels import customer_or_clerk, learner
from tests.lab.collaboration.test_collaboration_simulator import everyone
from tests.loopback import Loopback, Script
from tests.runs import exported_runs

AT_ONCE = 3
PLAYED = {"HEPM_USER_MODEL": "player"}
SILENT, TALKING = "tests.lab.bench.parcels:Parcels", "tests.lab.bench.parcels:TalkingParcels"
REFLECTING = ("--arms", "off,hybrid,reflexion", "--learn-from", "online", "--trials", "2")

_processes = get_context("forkserver")  # a process for each command; what they import is imported once
_processes.set_forkserver_preload(["openai", "hepm.lab.bench.play", "hepm.lab.bench.report", "hepm.memory", __name__])


@dataclass(frozen=True, slots=True)
class Bench:
    """A command, and the model that it asks.

    Attributes:
        learns: Whether it stores its runs and lessons in a memory.
        env: Variables beside the present ones.
    """

    options: tuple[str, ...]
    script: Script = customer_or_clerk
    learns: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def words(self, folder: Path) -> list[str]:
        known = ["--model", "small", "--folder", str(folder), "--concurrency", str(AT_ONCE), "--json"]
        return ["bench", *self.options, *known, *(["--memory", str(memory_of(folder))] if self.learns else [])]


BENCHES = {
    "users who speak": Bench((TALKING, "--arms", "off,hybrid", "--tasks", "l*-Ada,l*-Ben")),
    "rounds": Bench((SILENT, "--rounds", "3", "--rollouts", "4", "--tasks", "l*"), learner, learns=True),
    "users of a model": Bench(("users-played", "--tasks", "2", "--trials", "2"), everyone, env=PLAYED),
    "reflection with users who speak": Bench((TALKING, *REFLECTING)),
}


def memory_of(folder: Path) -> Path:
    return folder.with_suffix(".hepm")


def run(words: Sequence[str], out: Path, env: Mapping[str, str]) -> None:
    """The command, in a process of its own."""
    os.environ.update(env)
    sys.argv = ["hepm", *words]
    with out.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        main()


def start(bench: Bench, folder: Path, url: str) -> Any:
    env = {"OPENAI_BASE_URL": url, **bench.env}
    process = _processes.Process(target=run, args=(bench.words(folder), folder.with_suffix(".out"), env))
    process.start()
    return process


def figures(bench: Bench, folder: Path, url: str) -> Any:
    process = start(bench, folder, url)
    process.join(120)
    out = folder.with_suffix(".out").read_text("utf-8")
    assert process.exitcode == 0, out
    found = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    if bench.learns:
        return found["rounds"]
    del found["paid_before"]
    for arm in found["arms"].values():
        for measures in (arm["measures"], *(arm.get("sessions") or ())):
            del measures["memory_ms"]
    return found


def learned(store: Path) -> Any:
    """Runs, and lessons with their uses; when runs ended is left out."""
    with Memory.open(store) as memory:
        runs = [{**run, "ended_at": 0} for run in exported_runs(memory)]
        listed = [memory.lessons.list(kind, retired=True) for kind in ("experience", "principle")]
        return runs, [(one.row.id, one.row.retired, one.uses, one.row.made_by) for kind in listed for one in kind]


def sent(played: Loopback) -> Counter[str]:
    """How often each request came; the played model numbers its calls."""
    bodies = (json.dumps(request.body, sort_keys=True) for request in played.requests)
    return Counter(re.sub(r"call_\d+_", "call_", body) for body in bodies)


@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("users who speak", 1),
        ("rounds", 1),
        pytest.param("rounds", 3, marks=pytest.mark.exhaustive),
        pytest.param("users of a model", 3, marks=pytest.mark.exhaustive),
        pytest.param("rounds", 40, marks=pytest.mark.soak),
        pytest.param("reflection with users who speak", 20, marks=pytest.mark.soak),
    ],
)
def test_a_killed_bench_goes_on_pays_for_no_recorded_answer_twice_and_finds_the_same(
    name: str, kills: int, loopback: Loopback, tmp_path: Path
) -> None:
    bench, whole, killed = BENCHES[name], tmp_path / "whole", tmp_path / "killed"
    loopback.script = bench.script
    undisturbed = figures(bench, whole, loopback.url)
    once = sent(loopback)
    loopback.requests.clear()

    loopback.script = lambda request: bench.script(request).after(0.02)
    struck = _kill(bench, killed, loopback, kills, once.total())
    assert figures(bench, killed, loopback.url) == undisturbed
    if bench.learns:
        assert learned(memory_of(killed)) == learned(memory_of(whole))
    assert [*(once - sent(loopback))] == []
    # Only what was under way at a kill is asked for again.
    assert (sent(loopback) - once).total() <= AT_ONCE * struck
    asked = len(loopback.requests)
    assert figures(bench, killed, loopback.url) == undisturbed
    assert len(loopback.requests) == asked


def _kill(bench: Bench, folder: Path, played: Loopback, kills: int, whole: int) -> int:
    """Kill the command so many times, each time after some requests, unless it comes to its end before."""
    draws = random.Random(kills)
    struck = 0
    while struck < kills:
        process = start(bench, folder, played.url)
        until = len(played.requests) + draws.randrange(1, max(2, whole // (kills + 1)))
        while len(played.requests) < until and process.is_alive():
            played.stopping.wait(0.001)
        played.stopping.wait(draws.uniform(0, 0.03))
        struck += process.is_alive()
        process.kill()
        process.join()
        assert len(played.requests) <= whole + AT_ONCE * struck
        if process.exitcode == 0:
            break
    return struck
