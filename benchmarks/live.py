"""What learning from one run more costs a process that goes on asking, with as many BLAS threads as numpy takes.

usage: python benchmarks/live.py [--runs 50 1000 20000] [--repeats 30]

A made-up log, two runs in three successful, calls of 60 tools. Measured per size and policy, the procedural one being
the baseline in the same run: `ingest` of one run with the suggestion after it, a further suggestion, and sessions in an
event loop (hint, then `afinish`), with lessons distilled and without: how long a hint took, and the gaps of a ticker
that sleeps 1 ms, beyond that, beside those of an idle loop just before. `own` leaves out what neighbours cost: of each
gap it counts no more than the CPU time that other threads of this process used in it. Milliseconds, median and 95th
percentile. At last one long session, recorded call by call and with messages: what memory takes of a turn early in it,
the baseline, and late. Prints one JSON line a size and policy.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from speed import random_runs

from hepm import Memory, Outcome, Trajectory
from hepm.experience.prompt import PromptOptions

SEED = 7
LONG = 300
_TICK_S = 0.001
_IDLE_S = 0.5
_PAUSE_S = 0.02  # between two runs, as a model's answer takes far longer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, nargs="+", default=[50, 1_000, 20_000])
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    for count in arguments.runs:
        random = np.random.default_rng(SEED)
        known, *more = (labelled(random, first, size) for first, size in _parts(count, arguments.repeats))
        for policy in ("procedural", "hybrid"):
            with tempfile.TemporaryDirectory() as folder:
                with Memory.open(folder) as memory:
                    memory.ingest(known)
                found = {"runs": count, "policy": policy} | measured(Path(folder), policy, more)
            machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
            print(json.dumps(found | {"machine": machine, "python": sys.version[:6]}), flush=True)


def _parts(count: int, repeats: int) -> list[tuple[int, int]]:
    return [(0, count), *((count + part * repeats, repeats) for part in range(3))]


def labelled(random: np.random.Generator, first: int, count: int) -> list[Trajectory]:
    runs = random_runs(random, first, count)
    return [replace(run, outcome=Outcome(float(at % 3 > 0), at % 3 > 0)) for at, run in enumerate(runs)]


def measured(folder: Path, policy: str, more: list[list[Trajectory]]) -> dict[str, object]:
    found: dict[str, object] = {}
    with Memory.open(folder) as memory:
        found |= one_by_one(memory, policy, more[0])
    for distill, runs in zip((False, True), more[1:], strict=True):
        with Memory.open(folder) as memory:
            memory.prompt([], options=PromptOptions(policy=policy))  # what an agent's process reads at its start
            name = "sessions, distilled" if distill else "sessions"
            found[name] = asyncio.run(sessions(memory, policy, runs, distill=distill))
    with Memory.open(folder) as memory:
        for recorded in (True, False):
            found["long session, " + ("recorded" if recorded else "messages")] = long_session(memory, policy, recorded)
    return found


def long_session(memory: Memory, policy: str, recorded: bool) -> dict[str, dict[str, float]]:
    """A coding agent's: each turn says something and reads a file of 2,000 characters."""
    session = memory.session(prompt_options=PromptOptions(policy=policy))
    messages: list[object] = [{"role": "user", "content": "Mend the parser."}]
    if recorded:
        session.say("user", "Mend the parser.")
    turns: list[float] = []
    for turn in range(LONG):
        name, arguments, text = f"tool{turn % 60}", {"path": f"src/{turn}.py"}, f"line {turn} of it\n" * 130
        started = time.perf_counter()
        if recorded:
            session.hint()
            session.say("assistant", "I read on.")
            session.record(name, arguments, text)
        else:
            session.hint(messages)
        turns.append(time.perf_counter() - started)
        call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages.append({"role": "assistant", "content": "I read on.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": text})
    return {"turns 11 to 40": millis(turns[10:40]), f"last 30 of {LONG}": millis(turns[-30:])}


def one_by_one(memory: Memory, policy: str, runs: list[Trajectory]) -> dict[str, object]:
    times: dict[str, list[float]] = {"ingest and first suggestion": [], "further suggestion": []}
    memory.suggest("tool1", state=runs[0].turns[0].text, policy=policy)
    for run in runs:
        state = run.turns[0].text
        started = time.perf_counter()
        memory.ingest([run])
        memory.suggest("tool1", state=state, policy=policy)
        times["ingest and first suggestion"].append(time.perf_counter() - started)
        time.sleep(_PAUSE_S)
        started = time.perf_counter()
        memory.suggest("tool1", state=state, policy=policy)
        times["further suggestion"].append(time.perf_counter() - started)
    return {name: millis(of) for name, of in times.items()}


async def sessions(memory: Memory, policy: str, runs: list[Trajectory], *, distill: bool) -> dict[str, object]:
    hints: list[float] = []
    ends: list[float] = []
    gc.collect()
    gc.freeze()  # as servers do: a full collection of what was there before blocks every thread, 50 ms at 1,000 runs
    idle, gaps = Gaps(), Gaps()
    ticking = asyncio.create_task(idle.tick())
    await asyncio.sleep(_IDLE_S)
    ticking.cancel()
    ticking = asyncio.create_task(gaps.tick())
    for run in runs:
        call = {"id": "1", "type": "function", "function": {"name": run.turns[1].calls[0].name, "arguments": "{}"}}
        messages = [
            {"role": "user", "content": run.turns[0].text},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": run.turns[0].text},
        ]
        session = memory.session(task=run.id, distill=distill, prompt_options=PromptOptions(policy=policy))
        started = time.perf_counter()
        await asyncio.to_thread(session.hint, messages)
        hints.append(time.perf_counter() - started)
        started = time.perf_counter()
        await session.afinish(success=run.outcome.success)
        ends.append(time.perf_counter() - started)
        await asyncio.sleep(_PAUSE_S)
    ticking.cancel()
    return {"hint": millis(hints), "afinish": millis(ends), "gap": gaps.found(), "idle gap": idle.found()}


class Gaps:
    """How late an event loop wakes a task, and how much of it this process's other threads can account for."""

    def __init__(self) -> None:
        self.whole: list[float] = []
        self.own: list[float] = []

    async def tick(self) -> None:
        while True:
            started, used = time.perf_counter(), _others_s()
            await asyncio.sleep(_TICK_S)
            gap = time.perf_counter() - started - _TICK_S
            self.whole.append(gap)
            self.own.append(min(gap, _others_s() - used))

    def found(self) -> dict[str, object]:
        most = {"max_ms": round(1e3 * max(self.whole), 1), "own_max_ms": round(1e3 * max(self.own), 1)}
        over = {"own_over_5_ms": sum(own > 0.005 for own in self.own), "ticks": len(self.own)}
        return millis(self.whole) | most | {"own_p95_ms": millis(self.own)["p95_ms"]} | over


def _others_s() -> float:
    return time.process_time() - time.thread_time()


def millis(seconds: list[float]) -> dict[str, float]:
    median, late = np.percentile(seconds, [50, 95])
    return {"median_ms": round(1e3 * float(median), 2), "p95_ms": round(1e3 * float(late), 2)}


if __name__ == "__main__":
    main()
