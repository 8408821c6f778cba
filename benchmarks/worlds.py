"""What hints and warnings are worth to agents that act on them, in made-up worlds whose right answers are known.

usage: python benchmarks/worlds.py [--quick] [--world shop]... [--agent "habit obeys"]... [--arm sure]... [--runs 100]
           [--seeds 2] [--logs 150 600] [--live] [--markdown] [--show ARM]

*Online*: each arm begins with an empty memory; every run is hinted by what those before it left there, and stored when
it ends. Arms of a world, an agent and a seed have the same tasks and draws. *From logs*: a memory of runs of agents
without hints is asked at branches, along right runs, and in further such runs. Prints one JSON line, or tables.
--show prints each wrong hint and each warning of the right call of an arm. The arms that deny calls are
not measured by default.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from parts.measured import about, options
from parts.worlds.agents import Agent, Heard, Run
from parts.worlds.asked import Answers, answers_from_logs, calibration_error, warned_of_right
from parts.worlds.claims import CLAIMS
from parts.worlds.depot import DEPOT
from parts.worlds.fleet import FLEET
from parts.worlds.incident import INCIDENT
from parts.worlds.library import LIBRARY
from parts.worlds.office import OFFICE
from parts.worlds.online import ARMS, learn_online
from parts.worlds.payroll import PAYROLL
from parts.worlds.pharmacy import PHARMACY
from parts.worlds.rental import RENTAL
from parts.worlds.replies import REPLIES
from parts.worlds.shop import SHOP
from parts.worlds.workflows import WORKFLOWS

_ALL = (SHOP, WORKFLOWS, OFFICE, RENTAL, DEPOT, REPLIES, CLAIMS, INCIDENT, FLEET, PAYROLL, PHARMACY, LIBRARY)
WORLDS = {world.name: world for world in _ALL}
PARTS = (10, 20, 30, 40)  # runs, one after another; the last part also has all further ones


def agents() -> Iterator[Agent]:
    """With habits, with detours too, of each skill: agents that obey in .8 or all of their turns, and that weigh."""
    habits = Agent("habit", habits=True)
    strays = replace(habits, name="strays", detours=0.15)
    for agent in (habits, strays, *(Agent(f"q{skill:g}", skill=skill) for skill in (0.5, 0.7, 0.9))):
        yield replace(agent, name=f"{agent.name} obeys .8", obedience=0.8)
        yield replace(agent, name=f"{agent.name} obeys")
        yield replace(agent, name=f"{agent.name} weighs", manner="weighs")


AGENTS = {agent.name: agent for agent in agents()}
QUICK_AGENT = "habit obeys .8"
MAIN_AGENTS = (QUICK_AGENT, "habit weighs", "q0.5 obeys", "q0.9 obeys")
ARMS_ASKED = ("sure", "weighed", "unguarded")


class Job(NamedTuple):
    """What one process measures: an arm online, or with `sizes` from logs."""

    world: str
    agent: str
    arm: str
    seed: int
    runs: int = 0
    sizes: tuple[int, ...] = ()
    live: bool = False


def online(job: Job) -> list[Run]:
    return learn_online(
        WORLDS[job.world], AGENTS[job.agent], ARMS[job.arm], runs=job.runs, seed=job.seed, live=job.live
    )


def from_logs(job: Job) -> list[Answers]:
    logged = answers_from_logs(WORLDS[job.world], AGENTS[job.agent], ARMS[job.arm], sizes=job.sizes, seed=job.seed)
    return list(logged)


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    settings = list(product(arguments.world, arguments.agent))
    arms_and_seeds = [(arm, seed) for arm in arguments.arm for seed in range(arguments.seeds)]
    jobs = [
        Job(world, agent, arm, seed, arguments.runs, live=arguments.live)
        for (world, agent), (arm, seed) in product(settings, arms_and_seeds)
    ]
    asked = [
        Job(world, arguments.agent[0], arm, seed, sizes=tuple(arguments.logs))
        for world, (arm, seed) in product(arguments.world, arms_and_seeds)
        if arguments.logs and arm in ARMS_ASKED
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        played = list(zip(jobs, pool.map(online, jobs), strict=True))
        answered = list(zip(asked, pool.map(from_logs, asked), strict=True))
    if arguments.show:
        print("\n".join(wrong_hints(played)))
        return
    report: dict[str, Any] = {"online": online_rows(played) if arguments.runs else [], "logs": log_rows(answered)}
    if arguments.markdown:
        print("\n".join([*online_table(report["online"]), *log_table(report["logs"])]))
        return
    asked_of = {"runs": arguments.runs, "seeds": arguments.seeds, "seconds": round(time.perf_counter() - started, 1)}
    print(json.dumps(about("worlds") | asked_of | report))


def online_rows(played: Sequence[tuple[Job, Sequence[Run]]]) -> list[dict[str, Any]]:
    """Successes by world, agent and arm, over all seeds."""
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys(job[:3] for job, _ in played):
        of_seeds = [runs for job, runs in played if job[:3] == key]
        heard = [one for runs in of_seeds for run in runs for one in run.heard]
        hints, at_branches = right_of(heard), right_of([one for one in heard if one.branch])
        wrong, warnings = warned_of_right(
            [one for runs in of_seeds for run in runs if run.success for one in run.heard]
        )
        rows.append(
            {
                **dict(zip(("world", "agent", "arm"), key, strict=True)),
                "runs": sum(map(len, of_seeds)),
                "success": sum(run.success for runs in of_seeds for run in runs),
                "parts": [sum(parts) for parts in zip(*map(by_parts, of_seeds), strict=True)],
                "denied": dict(sum((run.denied for runs in of_seeds for run in runs), Counter[str]())),
                "lost": dict(Counter(map(said_before, (run for runs in of_seeds for run in runs if not run.success)))),
                "hints": hints,
                "at_branches": at_branches,
                "warnings": warnings,
                "warned_of_right": wrong,
                # A warning of the right call that was heeded is not among those of successes.
                "before_mistakes": warned_of_right(heard),
            }
        )
    return rows


def said_before(lost: Run) -> str:
    """What a run heard before the turn in which it was lost."""
    last = lost.heard[-1]
    if not last.named:
        return "silent"
    return "right" if last.named in last.right else "wrong"


def right_of(heard: Sequence[Heard]) -> tuple[int, int]:
    """How many first tools were right, and how many there were."""
    named = [one.named in one.right for one in heard if one.named]
    return sum(named), len(named)


def by_parts(runs: Sequence[Run]) -> list[int]:
    """Successes of the first runs, of the next ones and so on."""
    found: list[int] = []
    begin = 0
    for part, size in enumerate(PARTS):
        end = len(runs) if part == len(PARTS) - 1 else begin + size
        found.append(sum(run.success for run in runs[begin:end]))
        begin = end
    return found


def log_rows(answered: Sequence[tuple[Job, Sequence[Answers]]]) -> list[dict[str, Any]]:
    """Answers by world, arm and size, over all seeds."""
    rows: list[dict[str, Any]] = []
    for world, arm, size in dict.fromkeys((job.world, job.arm, size) for job, _ in answered for size in job.sizes):
        answers = [
            one for job, found in answered if (job.world, job.arm) == (world, arm) for one in found if one.runs == size
        ]
        heard = [one for answer in answers for one in answer.heard]
        wrong, warnings = warned_of_right([one for answer in answers for one in answer.heard_in_successes])
        branches = {
            kind: sum((answer.branches[kind] for answer in answers), Counter[str]()) for kind in answers[0].branches
        }
        rows.append(
            {
                "world": world,
                "arm": arm,
                "logs": size,
                "branches": branches,
                "ece": calibration_error(heard),
                "ece_at_branches": calibration_error([one for one in heard if one.branch]),
                "hints": right_of(heard),
                "asked": len(heard),
                "warnings": warnings,
                "warned_of_right": wrong,
                "instead": instead_of(heard),
            }
        )
    return rows


def instead_of(heard: Sequence[Heard]) -> tuple[int, int]:
    """How often what warnings say that worked was right, of how many times that they said it."""
    right = [one.instead in one.right for one in heard if one.instead]
    return sum(right), len(right)


def online_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield "Online from an empty memory: successes, in sum and in parts of the runs of each seed; hints at all turns:\n"
    parts = ", ".join(map(str, PARTS))
    warned = "warned of the right call, in successes | before mistakes"
    lost = "lost in silence, after a wrong, a right hint"
    yield f"| world | agent | arm | successes | {parts} runs | {lost} | hints right | at branches | {warned} |"
    yield "|---" * 10 + "|"
    for row in rows:
        parts = ", ".join(map(str, row["parts"]))
        shares = (row["hints"], row["at_branches"], (row["warned_of_right"], row["warnings"]), row["before_mistakes"])
        cells = " | ".join(f"{some} of {whole}" for some, whole in shares)
        setting = f"{row['world']} | {row['agent']} | {row['arm']}"
        lost = ", ".join(str(row["lost"].get(said, 0)) for said in ("silent", "wrong", "right"))
        yield f"| {setting} | {row['success']} of {row['runs']} | {parts} | {lost} | {cells} |"


def log_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield "\nFrom logs: first tools at branches (right / wrong / silent) and along right runs; warnings in successes:\n"
    measured = "branches | named right | ECE, at branches | warned of what is right | instead"
    yield f"| world | arm | runs | {measured} |"
    yield "|---" * 8 + "|"
    for row in rows:
        branches = "; ".join(
            f"{kind} {found['right']} / {found['wrong']} / {found['silent']}" for kind, found in row["branches"].items()
        )
        right, named = row["hints"]
        hints = f"{right} of {named}, of {row['asked']}"
        ece = ", ".join("–" if row[name] is None else f"{row[name]:.3f}" for name in ("ece", "ece_at_branches"))
        warned = f"{row['warned_of_right']} of {row['warnings']} | {row['instead'][0]} of {row['instead'][1]}"
        yield f"| {row['world']} | {row['arm']} | {row['logs']} | {branches} | {hints} | {ece} | {warned} |"


def wrong_hints(played: Sequence[tuple[Job, Sequence[Run]]]) -> Iterator[str]:
    """What was named or warned of wrongly, with what the agent knew."""
    for job, runs in played:
        for number, run in enumerate(runs):
            for one in run.heard:
                wrong = bool(one.named) and one.named not in one.right
                if wrong or one.right.intersection(one.warned):
                    said = f"named {one.named} ({one.chance:.2f})" if wrong else f"warned of {', '.join(one.warned)}"
                    yield f"{job.world} {job.agent} {job.arm} seed {job.seed} run {number}: {said}"
                    yield f"  right: {', '.join(sorted(one.right))}; branch: {one.branch or 'none'}; {run.task.kind}"
                    yield f"  {run.task.request!r}; called {', '.join(run.called[: one.calls]) or 'nothing'}"


def parse() -> argparse.Namespace:
    parser = options(__doc__, recorded=False)
    parser.add_argument("--quick", action="store_true", help="one agent, 60 runs, one seed, logs of 150 runs")
    parser.add_argument("--world", action="append", default=[], choices=WORLDS)
    parser.add_argument(
        "--agent", action="append", default=[], choices=AGENTS, help="four by default; the first makes logs"
    )
    parser.add_argument("--arm", action="append", default=[], choices=ARMS)
    parser.add_argument(
        "--runs", type=int, help="of each arm and seed; 100 by default, 60 with --quick; 0 for logs alone"
    )
    parser.add_argument("--seeds", type=int, help="2 by default, 1 with --quick")
    parser.add_argument(
        "--logs", type=int, nargs="*", help="sizes of the memories asked; 150 and 600, 150 with --quick"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--live", action="store_true", help="add runs one by one, and learn all anew as a server does")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--show", metavar="ARM", choices=ARMS, help="print wrong hints and warnings of this arm")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.world = arguments.world or list(WORLDS)
    arguments.agent = arguments.agent or ([QUICK_AGENT] if quick else list(MAIN_AGENTS))
    arguments.arm = (
        [arguments.show] if arguments.show else arguments.arm or [arm for arm in ARMS if not arm.startswith("deny")]
    )
    if arguments.runs is None:
        arguments.runs = 60 if quick else 100
    arguments.seeds = arguments.seeds or (1 if quick else 2)
    if arguments.logs is None:
        arguments.logs = [150] if quick else [150, 600]
    return arguments


if __name__ == "__main__":
    main()
