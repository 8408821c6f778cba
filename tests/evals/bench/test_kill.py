"""`hepm bench` as a process that is killed at random moments, and repeated."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from hepm.cli import main
from tests.evals.bench.parcels import customer_or_clerk
from tests.loopback import Loopback, loopback  # noqa: F401

AT_ONCE = 3


_processes = get_context("forkserver")  # a process for each command; what they import is imported once
_processes.set_forkserver_preload(["openai", "hepm.evals.bench.play", "hepm.evals.bench.report", __name__])


def run(arguments: Sequence[str], out: Path, url: str) -> None:
    """The command, in a process of its own."""
    os.environ["OPENAI_BASE_URL"] = url
    sys.argv = ["hepm", *arguments]
    with out.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        main()


def start(folder: Path, url: str, *options: str) -> Any:
    known = ("--model", "small", "--folder", str(folder), "--concurrency", str(AT_ONCE), "--json")
    process = _processes.Process(target=run, args=(("bench", *options, *known), folder.with_suffix(".out"), url))
    process.start()
    return process


def figures(folder: Path, url: str, *options: str) -> Any:
    process = start(folder, url, *options)
    process.join(120)
    out = folder.with_suffix(".out").read_text("utf-8")
    assert process.exitcode == 0, out
    found = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    del found["paid_before"]
    for arm in found["arms"].values():
        del arm["memory_ms"]
    return found


def sent(played: Loopback) -> Counter[str]:
    """How often each request came; the played model numbers its calls."""
    bodies = (json.dumps(request.body, sort_keys=True) for request in played.requests)
    return Counter(re.sub(r"call_\d+_", "call_", body) for body in bodies)


SILENT, TALKING = "tests.evals.bench.parcels:Parcels", "tests.evals.bench.parcels:TalkingParcels"
REFLECTING = ("--arms", "off,hybrid,reflexion", "--learn-from", "online", "--trials", "2")


@pytest.mark.parametrize(
    ("kills", "options"),
    [
        (3, (SILENT, "--arms", "off,hybrid", "--tasks", "*-Ada,l*-Ben")),
        (1, (TALKING, "--arms", "off,hybrid", "--tasks", "l*-Ada,l*-Ben")),
        pytest.param(20, (SILENT, "--arms", "off,hybrid,lessons,explicit"), marks=pytest.mark.soak),
        pytest.param(20, (SILENT, *REFLECTING), marks=pytest.mark.soak),
        pytest.param(20, (TALKING, *REFLECTING), marks=pytest.mark.soak),
    ],
)
def test_a_killed_bench_goes_on_pays_for_no_recorded_answer_twice_and_finds_the_same(
    kills: int,
    options: tuple[str, ...],
    loopback: Loopback,  # noqa: F811
    tmp_path: Path,
) -> None:
    loopback.script = customer_or_clerk
    undisturbed = figures(tmp_path / "whole", loopback.url, *options)
    once = sent(loopback)
    loopback.requests.clear()

    loopback.script = lambda request: customer_or_clerk(request).after(0.02)
    draws = random.Random(kills)
    struck = 0
    while struck < kills:
        process = start(tmp_path / "killed", loopback.url, *options)
        before, more = len(loopback.requests), draws.randrange(1, max(2, once.total() // (kills + 1)))
        while len(loopback.requests) < before + more and process.is_alive():
            loopback.stopping.wait(0.001)
        loopback.stopping.wait(draws.uniform(0, 0.03))
        struck += process.is_alive()
        process.kill()
        process.join()
        assert len(loopback.requests) <= once.total() + AT_ONCE * struck
    found = figures(tmp_path / "killed", loopback.url, *options)
    assert found == undisturbed
    twice, never = sent(loopback) - once, once - sent(loopback)
    assert [*never] == []
    # Only what was under way at a kill is asked for again.
    assert twice.total() <= AT_ONCE * kills
    asked = len(loopback.requests)
    assert figures(tmp_path / "killed", loopback.url, *options) == undisturbed
    assert len(loopback.requests) == asked
