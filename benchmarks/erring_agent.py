"""Rounds of `hepm bench --rounds` with an agent that errs and heeds lessons: are they sane, and does it do better?

usage: python benchmarks/erring_agent.py ENVIRONMENT FOLDER [--rounds 4] [--episodes 40] [--tasks 20] [--skill .7]
           [--heed 1] [--seed 0]

The agent knows the authors' calls. At each step it does what is right with probability `skill`; else it makes the
mistake that it always makes there, another tool or an answer too early. With probability `heed` it then reads the
lessons: where they warn of what it is about to call, or recommend another call (but not the one
that it just made), it takes a recommended tool, or else does what is right in half of the cases and nothing in the
others. Calls are made with the authors' arguments, or none. A command that was killed goes on when it is repeated,
with other draws.
Prints the tables of `hepm bench --rounds`, and one JSON line: of the steps at which lessons recommended (or warned of)
tools, the share at which the right one was among them, by round.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from hepm.cli.playing import print_parts
from hepm.evals.bench.arms import ARMS, KnownMemory, find_arms
from hepm.evals.bench.explore import Exploration, explore_tables
from hepm.evals.bench.folder import Folder
from hepm.evals.bench.models import Model
from hepm.evals.bench.play import Bench, BenchOptions
from hepm.evals.environments import Task, find_environment
from hepm.experience.prompt import PromptOptions
from hepm.llm import Endpoint

Object = dict[str, Any]
START = "the start"
# The arms of the papers tell lessons in their own words; this agent reads what a prompt says by default.
TOLD = replace(ARMS["lessons"], name="told", prompt=PromptOptions(suggestions=0, recalled=0, notes=False))
BETTER = re.compile(r"\bcall ([\w, ]+?)(?: rather than ([\w, ]+?))?\.")
WORSE = re.compile(r"runs that called ([\w, ]+?) failed")
LISTED = re.compile(r", | and ")


def advice(hint: str) -> Iterator[tuple[str, bool]]:
    """Which tools are recommended (True) or warned of, in what memory said: all of it is about the next call."""
    for found in BETTER.finditer(hint):
        yield from ((tool, True) for tool in LISTED.split(found[1]))
        yield from ((tool, False) for tool in LISTED.split(found[2] or "") if tool)
    for found in WORSE.finditer(hint):
        yield from ((tool, False) for tool in LISTED.split(found[1]))


class Erring:
    """Answers the requests of the runs of a task."""

    def __init__(self, *, skill: float, heed: float, seed: int) -> None:
        self.skill, self.heed, self.seed = skill, heed, seed
        self.runs: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def __call__(self, task: Task | None) -> Callable[[Object], Object]:
        assert task
        self.runs[task.id] += 1
        random = Random(f"{self.seed}/{task.id}/{self.runs[task.id]}")
        turns = [([*turn.calls], turn.text) for turn in task.gold]

        def complete(body: Object) -> Object:
            calls, text = turns[0] if turns else ([], "")
            right = calls[0].tool if calls else ""
            names = [tool["function"]["name"] for tool in body["tools"]]
            tool = self.choose(body["messages"], right, names, random, Random(f"{task.id}/{len(turns)}/{len(calls)}"))
            if not tool:
                turns[:1] = []
                return completion("Done." if right else text or "Done.")
            needed = next((call for call in calls if call.tool == tool), None)
            if needed:
                calls.remove(needed)
            function = {"name": tool, "arguments": json.dumps(needed.arguments if needed else {})}
            return completion("", {"id": f"call_{len(body['messages'])}", "type": "function", "function": function})

        return complete

    def choose(self, messages: list[Object], right: str, names: list[str], random: Random, habit: Random) -> str:
        """The tool to call; "" to answer."""
        called = [call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()]
        hint = "\n".join(re.findall(r"(?s)<hepm-memory>(.*?)</hepm-memory>", str(messages[-1]["content"])))
        called = [START, *called]
        said = {(tool, good) for tool, good in advice(hint) if tool in names}
        good, bad = sorted({tool for tool, is_good in said if is_good}), {tool for tool, is_good in said if not is_good}
        self.counts.update(
            hinted=bool(hint), recommends=bool(good), recommends_right=right in good, warns=bool(bad),
            warns_of_right=right in bad, steps=1,
        )  # fmt: skip
        tool = right if random.random() < self.skill else habit.choice([habit.choice(names), ""])
        if random.random() >= self.heed or not right:
            return tool
        if good and tool not in good and called[-1] not in good:
            return random.choice(good)
        if tool in bad and tool not in good:
            return right if random.random() < 0.5 else ""
        return tool


def completion(text: str, *calls: Object) -> Object:
    message = {"role": "assistant", "content": text, **({"tool_calls": [*calls]} if calls else {})}
    return {"choices": [{"message": message}]}


def main() -> None:
    arguments = parse()
    environment = find_environment(arguments.environment)
    tasks = [task for task in environment.tasks() if task.gold]
    tasks = ([task for task in tasks if task.split == "train"] or tasks)[: arguments.tasks]
    agent = Erring(skill=arguments.skill, heed=arguments.heed, seed=arguments.seed)
    ARMS[TOLD.name] = TOLD
    options = BenchOptions(
        arms=find_arms([TOLD.name], trials=1), concurrency=1, seed=arguments.seed, max_turns=60, turn_rewards=True
    )
    by_round: defaultdict[int, Mapping[str, float]] = defaultdict(dict)

    def on_round(report: Any) -> None:
        counts = {name: agent.counts[name] for name in ("steps", "hinted", "recommends", "warns")}
        shares = {
            "recommends_right": agent.counts["recommends_right"] / max(1, counts["recommends"]),
            "warns_of_right": agent.counts["warns_of_right"] / max(1, counts["warns"]),
        }
        by_round[report.number] = {**counts, **{name: round(share, 3) for name, share in shares.items()}}
        agent.counts.clear()
        print(f"round {report.number}: success {report.success:.3f}", flush=True)

    settings = {"environment": arguments.environment, "skill": arguments.skill, "heed": arguments.heed}
    folder = Folder(arguments.folder / "answers", settings)
    bench = Bench(environment, tasks, folder, Endpoint("erring", "http://localhost/v1"), options)
    exploration = Exploration(bench, episodes=arguments.episodes, rounds=arguments.rounds)
    with folder, KnownMemory.open(arguments.folder / "memory.hepm", sessions=arguments.folder / "sessions") as memory:
        exploration.play(Model(agent, folder), memory, on_round=on_round)
    environment.close()
    print_parts(explore_tables(exploration))
    print(json.dumps({"benchmark": "erring_agent", **settings, "rounds": by_round}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("environment")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--skill", type=float, default=0.7)
    parser.add_argument("--heed", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
