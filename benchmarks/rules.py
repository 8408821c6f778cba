"""Whether the rules that hepm counts, and the forks of its report, are true in made-up worlds with known answers.

usage: python benchmarks/rules.py [--world shop]... [--agent "habit obeys .8"] [--sizes 150 600] [--seeds 2]
           [--markdown] [--show]

A memory of runs of agents without hints is asked for its rules (hepm.evidence.rules). A rule is true if what it advises
is right, and what it speaks against is not, in nine of ten situations of right runs in which it holds. *Mistakes* are
the rules that speak against a call. *Found* are the branches, of 40 of each kind, at which a rule holds that advises
the right call, and *misled* those at which one advises another. *Forks* are those that the report names, true as rules
are; one finds a *habit* (the wrong call that agents make at a kind of branch) if it names it as a mistake, and the
right one as what worked, at half of the branches of the kind where the habit is wrong. Prints one JSON line, or a
table; --show prints each rule that is not true.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any

from parts.measured import about, options
from parts.worlds.agents import run, silent
from parts.worlds.asked import QUESTIONS, Asked, recorded
from parts.worlds.online import ARMS, empty_memory
from parts.worlds.world import Progress, World
from worlds import AGENTS, WORLDS

from hepm import Memory
from hepm.evidence.decisions import Situation
from hepm.evidence.rules import ToolRule
from hepm.experience.conditions import FactCondition
from hepm.experience.counted import next_tools
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.transitions import agent_state
from hepm.report.forks import forks_of
from hepm.types import END

TRUE_FROM = 0.9


def main() -> None:
    arguments = parse()
    rows: list[dict[str, Any]] = []
    for world in arguments.world:
        for seed in range(arguments.seeds):
            rows += measure(WORLDS[world], arguments, seed)
    if arguments.markdown:
        print(
            "| World | Seed | Runs | Mistakes true | Others true | Found | Misled | None | Forks true | Habits found |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for row in rows:
            print("| " + " | ".join(str(cell) for cell in row.values()) + " |")
    else:
        print(json.dumps({**about("rules"), "rows": rows}))


def measure(world: World, arguments: argparse.Namespace, seed: int) -> Iterator[dict[str, Any]]:
    """One row for each size of a memory that grows."""
    agent = AGENTS[arguments.agent]
    logged = (run(world, world.task(f"log {seed}/{number}"), agent, silent) for number in count())
    held = 0
    with empty_memory() as memory:
        asked = Asked(world, agent, ARMS["sure"], memory, seed)
        branches = [progress for kind in world.branches for progress in islice(asked._at_branches(kind), QUESTIONS)]
        along = list(right_runs(asked))
        for size in sorted(arguments.sizes):
            memory.ingest(recorded(world, ended) for ended in islice(logged, size - held))
            held = size
            yield row_of(memory, branches, along, world=world.name, seed=seed, size=size, show=arguments.show)


def right_runs(asked: Asked) -> Iterator[Progress]:
    """Each turn of right runs of unseen tasks, their ends included."""
    for task in asked._tasks("held out"):
        turns = 0
        while True:
            progress = Progress(asked.world, task)
            for _ in range(turns):
                step = progress.step
                progress.call(*(step.calls if step.together else step.calls[:1]))
            yield progress
            if progress.right == {END}:
                break
            turns += 1


def row_of(
    memory: Memory,
    branches: Sequence[Progress],
    along: Sequence[Progress],
    *,
    world: str,
    seed: int,
    size: int,
    show: bool,
) -> dict[str, Any]:
    rules = [rule for rule in memory.evidence().rules() if not rule.family]
    forks = {fork.id for fork in forks_of(rules, memory.store, namespace="default")}
    forked = {number for number, rule in enumerate(rules) if any(one.id in forks for one in next_tools([rule]))}
    habits: dict[str, Counter[bool]] = {}
    found = Counter[str]()
    right_at: dict[int, Counter[bool]] = {number: Counter() for number in range(len(rules))}
    for progress in (*branches, *along):
        state = agent_state(read_messages(progress.messages))
        situation = Situation.of(state.last, state.history, state.state())
        advised: list[bool] = []
        for number, rule in enumerate(rules):
            if not holds(rule, situation):
                continue
            good = not rule.better or rule.better in progress.right
            right_at[number][good and progress.right.isdisjoint(rule.worse)] += 1
            if rule.better:
                advised.append(rule.better in progress.right)
        step = progress.step
        at_branch = bool(step.branch) and any(progress is one for one in branches)
        if at_branch and step.habit and step.habit not in progress.right:
            named = [rules[number] for number in forked if holds(rules[number], situation)]
            caught = any(step.habit in rule.worse and rule.better in progress.right for rule in named)
            habits.setdefault(step.branch, Counter())[caught] += 1
        if at_branch:
            found["found" if advised and all(advised) else "misled" if advised else "none"] += 1
    true, of, true_forks = Counter[bool](), Counter[bool](), Counter[bool]()
    for number, rule in enumerate(rules):
        met = right_at[number]
        if met:
            is_true = met[True] >= TRUE_FROM * met.total()
            of[bool(rule.worse)] += 1
            true[bool(rule.worse)] += is_true
            if number in forked:
                true_forks[is_true] += 1
            if show and not is_true:
                print(world, size, f"{met[True]} of {met.total()}:", rule._replace(runs={}))
    return {
        "world": world,
        "seed": seed,
        "runs": size,
        "mistakes": f"{true[True]} of {of[True]}",
        "others": f"{true[False]} of {of[False]}",
        "found": f"{found['found']} of {found.total()}",
        "misled": found["misled"],
        "none": found["none"],
        "forks": f"{true_forks[True]} of {true_forks.total()}",
        "habits": f"{sum(2 * caught[True] >= caught.total() for caught in habits.values())} of {len(habits)}",
    }


def holds(rule: ToolRule, situation: Situation) -> bool:
    met = (
        FactCondition(*condition).holds(situation.facts)
        for condition in rule.conditions
        if condition[0].source != "<ENDED>"
    )
    return rule.place == situation.place and all(met)


def parse() -> argparse.Namespace:
    parser = options(__doc__, recorded=False)
    parser.add_argument("--world", action="append", choices=WORLDS)
    parser.add_argument("--agent", default="habit obeys .8", choices=AGENTS)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    arguments.world = arguments.world or list(WORLDS)
    return arguments


if __name__ == "__main__":
    main()
