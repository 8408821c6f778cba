"""Success of a simulated agent in real environments, without memory and with the hints of each policy.

usage: python benchmarks/simulated_agent.py [RUNS] [--environment NAME]... [--policy NAME]... [--follow P]...
           [--skill Q] [--seen] [--trials 3] [--markdown]

The agent's next call is drawn from what recorded runs of other families of tasks did in like situations, mistakes
included; with probability q it is what is right. Where it calls a tool, it takes the one that the hint names with
probability p instead; its decision to answer is its own. A call of a tool that is still needed in the user's turn gets
the right arguments, any other one those of a recorded call. RUNS is a folder of recorded runs, else
$HEPM_RECORDED_RUNS, else ../shared/data. "oracle" hints the next right call: it is the most that hints of tools can
bring. With --seen, memory (not the agent) knows other agents' runs of the task too, as where tasks repeat. Prints one
JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import product
from random import Random
from typing import Any, NamedTuple

# Before numpy is loaded: its threads cost more than they bring on matrices of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from parts.measured import about, options, recorded_domains

from hepm.evals.domains import Domain, DomainRun, fold_of
from hepm.evals.metrics import Bootstrap, interval
from hepm.ingest.reading import read_runs
from hepm.ingest.records import ReadOptions, Rejection
from hepm.ingest.transitions import AgentState
from hepm.lab.environments import Environment, Task, ToolFailed, environment_names, find_environment
from hepm.memory import Memory
from hepm.policy import POLICIES
from hepm.types import Speak, StateSummary, ToolCall, ToolName, Turn

DOMAINS = {
    "bfcl": "bfcl-multi_turn_base",
    "tau2-telecom-solo": "telecom-solo",
}
"""The recorded runs of each environment."""
FOLLOWS = (0.25, 0.5, 0.75, 1.0)
FOLDS = 5
TEMPERATURE = 0.1
LIKE = (0.5, 0.25, 0.25)  # added to the cosine: same last call, same call before, as many calls in the user's turn
DONE = "(answer)"
Hinter = Callable[[AgentState, Sequence[ToolName], "Needed"], ToolName | None]


class Situation(NamedTuple):
    """What an agent did: a call or DONE, after which calls, as the how manieth in the user's turn."""

    action: str
    arguments: Mapping[str, Any]
    last: tuple[str, str]
    step: int


def situations(run: DomainRun) -> Iterator[tuple[StateSummary, Situation]]:
    state, step = AgentState(), 0
    for turn in run.trajectory.turns:
        if turn.role == "user" or not turn.calls:
            if step or turn.role == "assistant":
                yield state.state(), Situation(DONE, {}, last_two(state), min(step, 3))
            step = 0
        for call in turn.calls if turn.role == "assistant" else ():
            yield state.state(), Situation(call.name, call.arguments, last_two(state), min(step, 3))
            state.add(Turn("assistant", "", (call,)))
            step += 1
        if not turn.calls or turn.role == "user":
            state.add(turn)
    if step:
        yield state.state(), Situation(DONE, {}, last_two(state), min(step, 3))


def last_two(state: AgentState) -> tuple[str, str]:
    return tuple(["", "", *state.history][-2:])


class Imitator:
    """Draws what recorded runs did in like situations."""

    def __init__(self, runs: Sequence[DomainRun], memory: Memory) -> None:
        found = [situation for run in runs for situation in situations(run)]
        self._embed = memory.embedder.embed
        self._done = [situation for _, situation in found]
        texts = [state.text for state, _ in found]
        distinct = list(dict.fromkeys(texts))
        place = {text: number for number, text in enumerate(distinct)}
        self._states_ND = np.vstack(self._embed(distinct))
        self._text_E = np.array([place[text] for text in texts])
        self._codes: dict[str, int] = {}
        self._actions_E = np.array([self._code(one.action) for one in self._done])
        self._last_E2 = np.array([[self._code(name) for name in one.last] for one in self._done])
        self._step_E = np.array([one.step for one in self._done])

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def likeness(self, state: AgentState, step: int) -> Any:
        """Of each recorded situation, shape (E,)."""
        (vector,) = self._embed([state.state().text])
        before, last = map(self._code, last_two(state))
        same = (self._last_E2[:, 1] == last, self._last_E2[:, 0] == before, self._step_E == min(step, 3))
        return (self._states_ND @ vector)[self._text_E] + sum(w * s for w, s in zip(LIKE, same, strict=True))

    def draw(self, likeness_E: Any, tools: Sequence[ToolName], random: Random, *, only: str = "") -> Situation | None:
        """One of the actions that are possible now; `only` among those of a tool."""
        possible = np.zeros(len(self._codes) + len(tools) + 2, dtype=bool)
        possible[[self._code(name) for name in ([only] if only else [*tools, DONE])]] = True
        possible_E = possible[self._actions_E]
        if not possible_E.any():
            return None
        weights_E = np.where(possible_E, np.exp((likeness_E - likeness_E[possible_E].max()) / TEMPERATURE), 0)
        return self._done[int(np.searchsorted(np.cumsum(weights_E), random.random() * weights_E.sum(), side="right"))]


class Needed:
    """The right calls of a task that were not yet made, by the user's turns."""

    def __init__(self, task: Task) -> None:
        self._turns = [([*turn.calls], turn.text) for turn in task.gold]

    def next(self) -> ToolName | None:
        return self._turns[0][0][0].name if self._turns and self._turns[0][0] else None

    def take(self, tool: ToolName) -> ToolCall | None:
        calls = self._turns[0][0] if self._turns else []
        found = next((call for call in calls if call.name == tool), None)
        if found is not None:
            calls.remove(found)
        return found

    def answer(self) -> str:
        """The right answer if every right call was made, else an idle one."""
        calls, text = self._turns.pop(0) if self._turns else ([], "")
        return (not calls and text) or "Done."


def play(
    environment: Environment, task: Task, agent: Imitator, hinter: Hinter | None, *, p: float, q: float, seed: str
) -> float:
    """The reward of one run. What a step draws depends on the seed and the step alone, so that runs are paired."""
    episode, state, needed = environment.start(task), AgentState(), Needed(task)
    state.add(Turn("user", task.request))
    step, limit = 0, 10 + 2 * sum(len(turn.calls) for turn in task.gold)
    for number in range(limit):
        random = Random(f"{seed}/{number}")
        knows, follows = random.random() < q, random.random() < p
        tools = [tool["function"]["name"] for tool in episode.tools]
        likeness_E = agent.likeness(state, step)
        action = agent.draw(likeness_E, tools, random) or Situation(DONE, {}, ("", ""), 0)
        if knows:
            action = Situation(needed.next() or DONE, {}, ("", ""), 0)
        hinted = hinter(state, tools, needed) if hinter and follows and action.action != DONE else None
        if hinted and hinted != action.action:
            drawn = agent.draw(likeness_E, tools, random, only=hinted)
            action = Situation(hinted, drawn.arguments if drawn else {}, ("", ""), 0)
        if action.action == DONE:
            said = episode.answer(answer := needed.answer())
            state.add(Turn("assistant", answer))
            if said is None:
                break
            state.add(Turn("user", said))
            step = 0
            continue
        call = needed.take(action.action) or ToolCall(action.action, action.arguments)
        try:
            result, failed = episode.call(call.name, call.arguments), False
        except ToolFailed as error:
            result, failed = str(error), True
        state.add(Turn("assistant", "", (ToolCall(call.name, call.arguments, result, error=failed),)))
        step += 1
    reward = episode.reward()
    episode.close()
    return reward


def hinters(memory: Memory, runs: Sequence[DomainRun], names: Sequence[str]) -> dict[str, Hinter]:
    def of_policy(name: str, speak: Speak = "sure") -> Hinter:
        def hint(state: AgentState, tools: Sequence[ToolName], _: Needed) -> ToolName | None:
            found = memory.suggest(
                state.last, history=tuple(state.history), state=state.state(), tools=tools, k=1, policy=name,
                speak=speak,
            )  # fmt: skip
            if found.done:
                return DONE
            return found[0].tool if found else None

        return hint

    after: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for event in (event for run in runs for event in run.all_events):
        after[event.last][event.next] += 1

    def counts(state: AgentState, tools: Sequence[ToolName], _: Needed) -> ToolName | None:
        return next((tool for tool, _ in after[state.last[-1]].most_common() if tool in tools), None)

    known: dict[str, Hinter] = {name: of_policy(name) for name in POLICIES}
    known["hybrid, weighed"] = of_policy("hybrid", "weighed")
    known["counts"] = counts
    known["oracle"] = lambda state, tools, needed: needed.next()
    return {name: known[name] for name in names or known}


@contextmanager
def remembered(runs: Sequence[DomainRun]) -> Iterator[Memory]:
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        memory.ingest([run.trajectory for run in runs])
        yield memory


def family_of(environment: str, task: Task) -> str:
    """The family of the recorded runs of the task."""
    if environment.startswith("tau2"):
        return task.id.partition("[PERSONA:")[0].strip()
    return task.family.rpartition("/")[2]


@cache
def recorded(folder: str) -> Mapping[str, Domain]:
    found = read_runs([f"{folder}/{part}" for part in ("bfcl-multi-turn", "tau2-bench")], ReadOptions())
    domains = recorded_domains([(name, item) for name, item in found if not isinstance(item, Rejection)])
    return {domain.name: domain for domain in domains}


@cache
def opened(name: str) -> Environment:
    """One for each process, since packages take seconds to start."""
    return find_environment(name)


Key = tuple[str, float]
Measured = tuple[str, Key, float]


def measure_fold(job: tuple[argparse.Namespace, str, int]) -> list[Measured]:
    """Family, setting and reward of every run of the tasks of a fold."""
    arguments, name, fold = job
    runs = recorded(str(arguments.runs))[DOMAINS[name]].runs
    learned = [run for run in runs if fold_of(run.family, FOLDS) != fold]
    known, environment = {run.family for run in runs}, opened(name)
    found: list[Measured] = []
    kept = runs if arguments.seen else learned
    with remembered(kept) as memory:
        agent, hints = Imitator(learned, memory), hinters(memory, kept, arguments.policy)
        settings: list[tuple[str, float]] = [("none", 0.0), *product(hints, arguments.follow or FOLLOWS)]
        for task in environment.tasks():
            family = family_of(name, task)
            if not task.gold or fold_of(family, FOLDS) != fold or (name.startswith("tau2") and family not in known):
                continue
            for trial, (policy, p) in product(range(arguments.trials), settings):
                seed = f"{task.id}/{trial}"
                reward = play(environment, task, agent, hints.get(policy), p=p, q=arguments.skill, seed=seed)
                found.append((family, (policy, p), reward))
    return found


def main() -> None:
    arguments = parse()
    started = time.perf_counter()
    asked = {"trials": arguments.trials, "skill": arguments.skill}
    report: dict[str, Any] = about("simulated_agent") | asked | {"environments": {}}
    names = arguments.environment or [name for name in DOMAINS if name in environment_names()]
    with ProcessPoolExecutor(arguments.processes) as pool:
        for name in names:
            jobs = [(arguments, name, fold) for fold in range(FOLDS)]
            found = [one for part in pool.map(measure_fold, jobs) for one in part]
            report["environments"][name] = summary(found)
    report["seconds"] = round(time.perf_counter() - started)
    if arguments.markdown:
        print("\n".join(markdown(report["environments"])))
    else:
        print(json.dumps(report))


def summary(found: Sequence[Measured]) -> dict[str, Any]:
    """By policy and p, success, and how much more than without memory, with intervals from resampling families."""
    by_key: defaultdict[Key, list[float]] = defaultdict(list)
    for _, key, reward in found:
        by_key[key].append(reward)
    families = [family for family, key, _ in found if key == ("none", 0.0)]
    bootstrap, without = Bootstrap(families), np.array(by_key.pop(("none", 0.0)))
    rows: list[dict[str, Any]] = []
    for (policy, p), rewards in by_key.items():
        more = np.array(rewards) - without
        about = {
            "mean": float(np.mean(rewards)),
            "more": float(more.mean()),
            "interval": interval(bootstrap.means(more)),
        }
        rows.append({"policy": policy, "p": p, **about})
    return {"runs": len(families), "families": len(set(families)), "none": float(without.mean()), "with": rows}


def markdown(environments: Mapping[str, Any]) -> Iterator[str]:
    for name, found in environments.items():
        rows: defaultdict[str, dict[float, str]] = defaultdict(dict)
        for one in found["with"]:
            low, high = one["interval"]
            rows[one["policy"]][one["p"]] = f"{one['mean']:.3f} ({one['more']:+.3f} [{low:+.3f}, {high:+.3f}])"
        follows = sorted({p for row in rows.values() for p in row})
        about = f"{found['runs']} runs of {found['families']} families"
        yield f"\n{name}: {about}, {found['none']:.3f} without memory\n"
        yield f"| policy | {' | '.join(f'p = {p:g}' for p in follows)} |"
        yield "|---" * (len(follows) + 1) + "|"
        for policy, row in rows.items():
            yield f"| {policy} | {' | '.join(row[p] for p in follows)} |"


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--environment", action="append", default=[], choices=DOMAINS)
    parser.add_argument("--policy", action="append", default=[])
    parser.add_argument("--follow", action="append", type=float, default=[])
    parser.add_argument("--skill", type=float, default=0.0)
    parser.add_argument("--seen", action="store_true")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
