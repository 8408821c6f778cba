"""Are lessons shown where they hold, and how long are they? In made-up worlds where the right call is known.

usage: python benchmarks/lesson_conditions.py [--world shop]... [--runs 150] [--asked 40] [--seed 0]
           [--size 14000] [--show N]

A memory learns from runs of an agent that errs at branches, and is asked before each call of further runs that go
right. A lesson that is shown *holds* if what it advises next is among the right calls, or, of a warning alone, if what
it warns of is not. Prints one JSON line: by world the shown lessons, the share that does not hold (and of those at
branches), tokens of all lessons of a prompt (median and maximum, of prompts with any), UUIDs, ids and JSON in texts,
prompts in which one lesson advises what another one warns of; and how long it takes to find lessons among `--size`
ones with conditions.
The baseline is the version before lessons had conditions: it runs with `PYTHONPATH` on its checkout and `--size 0`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

from parts.worlds.agents import Agent, run, silent
from parts.worlds.clinic import CLINIC
from parts.worlds.office import OFFICE
from parts.worlds.shop import SHOP
from parts.worlds.workflows import WORKFLOWS
from parts.worlds.world import DONE, Progress, World

from hepm.evidence.facts import FactTest
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.lesson_lines import LessonWriter
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle
from hepm.experience.principle_advice import Advice, PrincipleAdvice
from hepm.experience.prompt import Prompt, TurnState
from hepm.graph.lessons.rows import Triple
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.tool_life import ToolNames
from hepm.llm.usage import estimate_tokens
from hepm.memory import Memory
from hepm.types import SAID, StateSummary

WORLDS = {world.name: world for world in (SHOP, WORKFLOWS, OFFICE, CLINIC)}
CODE = re.compile(r"\b[ep]-[0-9a-f]{16}\b|[0-9a-f]{8}-[0-9a-f]{4}-|\{\"")
LEARNER = Agent("habit", habits=True)


class Asked(NamedTuple):
    """One prompt: which of its lessons hold, whether at a branch, and what it costs."""

    holds: tuple[bool, ...]
    branch: bool
    tokens: int
    code: bool
    opposed: bool
    seconds: float
    text: str


def main() -> None:
    arguments = parse()
    found: dict[str, Any] = {"benchmark": "lesson_conditions", "runs": arguments.runs}
    for name in arguments.world:
        with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
            learn(memory, WORLDS[name], arguments.runs, arguments.seed)
            asked = list(ask(memory, WORLDS[name], arguments.asked, arguments.seed))
        found[name] = summary(asked)
        shown = [one for one in asked if one.holds and not all(one.holds)][: arguments.show]
        print("\n".join(one.text + f"\n  holds: {one.holds}\n" for one in shown), end="")
    if arguments.size:
        found["retrieval"] = retrieval(arguments.size, arguments.seed)
    print(json.dumps(found))


def retrieval(size: int, seed: int) -> dict[str, Any]:
    """Milliseconds until the three best rules of a place are known whose conditions hold, among `size` rules."""
    random = Random(seed)
    tools = [f"tool_{number}" for number in range(200)]
    rules = [made_up_rule(number, tools, random) for number in range(size)]
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        memory.lessons.change(LessonChange(put=[rule.row() for rule in rules], imported=True))
        found: dict[str, Any] = {"lessons": size}
        for name, asks in (("without_conditions", False), ("with_conditions", True)):
            times: list[float] = []
            for number in range(600):
                after = (tools[number % len(tools)],)
                known = StateSummary(facts={SAID: {f"~word{random.randrange(9)}": 1.0}, after[0]: {"state=1": 1.0}})
                began = time.perf_counter()
                here = memory.principles.advice_after(after)
                names = ToolNames()
                occasions = memory.lessons.occasions("default")
                voice = LessonWriter(here, occasions, state=known, after=after, history=after, names=names)
                here.best(3, keep=voice.holds if asks else None)
                times.append(1000 * (time.perf_counter() - began))
            warm = sorted(times[len(tools) :])
            found[name] = {"median_ms": round(statistics.median(warm), 3), "p95_ms": round(warm[-len(warm) // 20], 3)}
    return found


def made_up_rule(number: int, tools: Sequence[str], random: Random) -> Principle:
    after, better, worse = random.sample(tools, 3)
    conditions = Conditions(
        after=(after,),
        says=(f"word{random.randrange(9)}",),
        facts=(FactCondition(FactTest(after, f"state={random.randrange(3)}", 0.5)),),
    )
    triples = (Triple(after, FOLLOWED_BY, better), Triple(worse, FAILS_AFTER, after))
    text = f"Rule {number}: after {after}, calling {better} rather than {worse} led to success."
    return Principle("guiding", text, triples, (), (better, worse, after), conditions, distilled_by="a model")


def learn(memory: Memory, world: World, runs: int, seed: int) -> None:
    for number in range(runs):
        task = world.task(f"{seed}/learned {number}")
        ended = run(world, task, LEARNER, silent)
        session = memory.session(id=task.id, environment=world.name, tools=world.tools, distill=False)
        session.finish(success=ended.label, messages=ended.messages)
    memory.refresh()
    memory.experiences.distill()
    memory.principles.distill()


def ask(memory: Memory, world: World, tasks: int, seed: int) -> Iterator[Asked]:
    """Before each call of runs that go right."""
    for number in range(tasks):
        progress = Progress(world, world.task(f"{seed}/asked {number}"))
        while progress.right != {DONE}:
            began = time.perf_counter()
            prompt = memory.prompt(progress.messages, environment=world.name, tools=world.tools)
            seconds = time.perf_counter() - began
            yield judged(memory, prompt, progress, seconds)
            progress.call(*(progress.step.calls if progress.step.together else progress.step.calls[:1]))


def judged(memory: Memory, prompt: Prompt, progress: Progress, seconds: float) -> Asked:
    now = TurnState.of(progress.messages, "", None, (), 0)
    said = advice_of(memory, prompt.lessons, PrincipleAdvice([], now.after))
    holds = [
        not side.better.isdisjoint(progress.right) if side.better else side.worse.isdisjoint(progress.right)
        for side in said
        if any(side)
    ]
    better = frozenset[str]().union(*(side.better for side in said), (one.tool for one in prompt.suggestions))
    worse = frozenset[str]().union(*(side.worse for side in said))
    lessons = "\n".join(line for line in prompt.text.splitlines() if line.startswith("- "))
    tokens = estimate_tokens(lessons) if lessons else 0
    text = f"{progress.messages[0]['content']!r} after {now.after}; right: {sorted(progress.right)}\n{prompt.text}"
    branch = bool(progress.step.branch)
    coded = CODE.search(lessons) is not None
    return Asked(tuple(holds), branch, tokens, coded, bool(better & worse), seconds, text)


def advice_of(memory: Memory, lessons: Sequence[str], here: PrincipleAdvice) -> list[Advice]:
    known = memory.lessons.lessons("default")
    rows = [stored.row for lesson in lessons if (stored := known.get(lesson)) is not None]
    return [here.advice_of(Experience.of(row) if row.kind == "experience" else Principle.of(row)) for row in rows]


def summary(asked: Sequence[Asked]) -> dict[str, Any]:
    told = [one for one in asked if one.holds]
    at_branches = [one for one in told if one.branch]
    tokens = [one.tokens for one in asked if one.tokens]
    return {
        "prompts": len(asked),
        "with_lessons": len(told),
        "lessons": sum(len(one.holds) for one in told),
        "not_holding": share(told),
        "not_holding_at_branches": share(at_branches),
        "branches": f"{len(at_branches)} of {sum(one.branch for one in asked)}",
        "tokens_median": statistics.median(tokens) if tokens else 0,
        "tokens_max": max(tokens, default=0),
        "with_ids_or_json": sum(one.code for one in asked),
        "opposed": sum(one.opposed for one in asked),
        "prompt_ms": round(1000 * statistics.median(one.seconds for one in asked), 2),
    }


def share(told: Sequence[Asked]) -> float | None:
    lessons = [holds for one in told for holds in one.holds]
    return round(1 - sum(lessons) / len(lessons), 3) if lessons else None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--world", action="append", default=[], choices=WORLDS)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--asked", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=14_000, help="rules to search; 0 to leave that out")
    parser.add_argument("--show", type=int, default=0, help="print so many prompts with a lesson that does not hold")
    arguments = parser.parse_args()
    arguments.world = arguments.world or list(WORLDS)
    return arguments


if __name__ == "__main__":
    main()
