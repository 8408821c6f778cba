"""Simulated service desks: what a policy's hints are worth to agents that follow them.

A desk is generated from a seed: kinds of trouble, ways that work, ways that fail, and what its agents do. An agent
follows a hint with probability p and otherwise does what the agents of the logs did. docs/evaluation.md describes the
generator and why each of its answers can be found in the log.

Whether the first hint at the decision is right, on small exact logs; a policy is a name or an object:

    first_tools("hybrid", seeds=range(10))["even"]       # FirstTool(right=…, failed=…, other=…, none=…, warned=…)

Success at each memory size, one row a desk, for a follow probability p:

    from hepm.evals.service_desk import make_desk
    success_online(make_desk(3), Hybrid(), follow=1.0)              # learning from its own hinted runs
    success_from_logs(make_desk(3), ["hybrid", my_policy], (0.25, 1.0))["hybrid", 1.0]   # learning from logs

`hepm.evals.service_desk.refund_case()` gives the runs and the conversation of the smallest case there is.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hepm.evals.metrics import Bootstrap, Interval, interval
from hepm.evals.service_desk import REPEATS, Desk, Episode, HintSource, Kind, make_desk
from hepm.ingest.prepare import IngestOptions
from hepm.memory import Memory
from hepm.policy import Policy
from hepm.types import DEFAULT_NAMESPACE, Suggestion, Suggestions, ToolName, Trajectory

SIZES: Final = (0, 10, 30, 100, 300)
"""Runs in memory when agents are evaluated."""

BATCH: Final = 5
"""Runs that are ingested at once: what a run taught is known up to four runs later."""

Case: TypeAlias = Literal["even", "rare", "dead", "beside"]


@dataclass(frozen=True, slots=True)
class FirstTool:
    """What the first hint at the decision was, in shares of all questions; the first four sum to 1.

    Attributes:
        right: A way that works goes on with it.
        failed: The way that fails goes on with it.
        warned: The failed tool was among the warnings.
    """

    right: float
    failed: float
    other: float
    none: float
    warned: float


def first_tools(policy: str | Policy, *, seeds: Sequence[int] = range(10)) -> dict[Case, FirstTool]:
    """First hints on logs of three kinds of trouble where one way works and another one fails.

    "even": 10 runs succeeded and 10 failed of each kind. "rare": 3 succeeded and 12 failed. In a third log one kind has
    10 failed runs alone: "dead" asks about that kind, "beside" about the two others. In each log the tool that most of
    them fail with succeeded in 10 runs of other trouble. No label is wrong, and no wording of a question is in the log.
    """
    counted: dict[Case, Counter[str]] = {case: Counter() for case in ("even", "rare", "dead", "beside")}
    for seed in seeds:
        desk = make_desk(seed, noise=0.0)
        three, dead = desk.kinds[:3], desk.kinds[seed % 3]
        logs: Mapping[Case, Mapping[Kind, tuple[int, int]]] = {
            "even": dict.fromkeys(three, (10, 10)),
            "rare": dict.fromkeys(three, (3, 12)),
            "dead": {kind: (0 if kind is dead else 10, 10) for kind in three},
        }
        with _memory() as memory:
            for case, log in logs.items():
                _learn(memory, case_log(desk, log), namespace=case)
                hint = asker(memory, desk, policy, namespace=case)
                for kind in three:
                    asked: Case = "beside" if case == "dead" and kind is not dead else case
                    for number in range(REPEATS):
                        episode = desk.episode(f"{kind.name} question {number}", kind, seen=False)
                        counted[asked].update(_first_tool(episode, hint))
    return {
        case: FirstTool(**{part: counts[part] / counts["asked"] for part in FirstTool.__slots__})
        for case, counts in counted.items()
    }


def case_log(desk: Desk, log: Mapping[Kind, tuple[int, int]]) -> Iterator[Trajectory]:
    """So many successful and failed runs of these kinds, and ten in which the popular tool works."""
    popular = desk.kinds[3]
    for kind, counts in {**log, popular: (10, 0)}.items():
        for way, count in zip(kind.ways, counts, strict=False):
            for number in range(count):
                episode = desk.episode(f"{kind.name} {way.works} {number}", kind, seen=True)
                yield desk.record(episode, way.tools, way.works)


def _first_tool(episode: Episode, hint: HintSource) -> set[str]:
    works, fails = episode.kind.ways
    told = hint(episode, works.tools[:1])
    first = told[0].tool if told else None
    part = {None: "none", works.tools[1]: "right", fails.tools[1]: "failed"}.get(first, "other")
    return {"asked", part, *("warned" for way in told.warnings if way.tool == fails.tools[1])}


@dataclass(frozen=True, slots=True)
class Success:
    """How agents of one desk fared with a memory of so many runs.

    Attributes:
        all: Share of the episodes that ended well.
        known: The same without kinds of which no log could hold a way that works.
        calls: Mean calls of an episode.
    """

    runs: int
    all: float
    known: float
    calls: float


def success_from_logs(
    desk: Desk, policies: Sequence[str | Policy], follows: Sequence[float], *, sizes: Sequence[int] = SIZES
) -> dict[tuple[str | Policy, float], list[Success]]:
    """Success at each size, by policy and follow probability: memory grows from runs of agents without one."""
    found: dict[tuple[str | Policy, float], list[Success]] = {(p, f): [] for p in policies for f in follows}
    stream, runs = desk.stream(max(sizes)), 0
    with _memory() as memory:
        for size in sorted(sizes):
            episodes = [next(stream) for _ in range(size - runs)]
            runs = size
            _learn(memory, [desk.record(episode, *desk.run(episode)) for episode in episodes])
            for policy in policies:
                hint = asker(memory, desk, policy)
                for follow in follows:
                    found[policy, follow].append(examine(desk, hint, follow=follow, runs=size))
    return found


def success_online(desk: Desk, policy: str | Policy, *, follow: float, sizes: Sequence[int] = SIZES) -> list[Success]:
    """Success at each size, where memory learns from the runs of agents that it hinted itself, `BATCH` at a time."""
    found: list[Success] = []
    stream, runs = desk.stream(max(sizes)), 0
    with _memory() as memory:
        for size in sorted(sizes):
            while runs < size:
                hint = asker(memory, desk, policy)
                batch = [next(stream) for _ in range(min(BATCH, size - runs))]
                _learn(memory, [desk.record(episode, *desk.run(episode, hint, follow=follow)) for episode in batch])
                runs += len(batch)
            found.append(examine(desk, asker(memory, desk, policy), follow=follow, runs=size))
    return found


def examine(desk: Desk, hint: HintSource | None, *, follow: float, runs: int = 0) -> Success:
    """Let agents meet the exam of a desk; nothing is learned from it, and success is what happened, not its label."""
    episodes = desk.exam()
    ended = [desk.run(episode, hint, follow=follow) for episode in episodes]
    won = [success for _, success in ended]
    known = [success for episode, success in zip(episodes, won, strict=True) if episode.kind.known]
    calls = sum(len(calls) for calls, _ in ended) / len(ended)
    return Success(runs, sum(won) / len(won), sum(known) / len(known), calls)


class Setting(NamedTuple):
    """Who was evaluated.

    Attributes:
        learning: "logs": memory grows from runs of agents without one. "online": from the runs that it hinted itself.
        policy: Its name; "no memory" and "oracle" are the two ends.
        follow: Probability that a hint is followed.
    """

    learning: str
    policy: str
    follow: float


def measure_desk(
    seed: int, *, policies: Mapping[str, str | Policy], follows: Sequence[float], sizes: Sequence[int] = SIZES
) -> dict[Setting, list[Success]]:
    """Every setting on one desk; `follows` are above 0."""
    desk = make_desk(seed)
    found = {Setting("", "no memory", 0.0): [examine(desk, None, follow=0.0)]}
    for follow in follows:
        found[Setting("", "oracle", follow)] = [examine(desk, oracle, follow=follow)]
    logs = success_from_logs(desk, list(policies.values()), follows, sizes=sizes)
    for name, policy in policies.items():
        for follow in follows:
            found[Setting("logs", name, follow)] = logs[policy, follow]
            found[Setting("online", name, follow)] = success_online(desk, policy, follow=follow, sizes=sizes)
    return found


@dataclass(frozen=True, slots=True)
class MeanSuccess:
    """Means over desks, and the 95 % interval of `all` from resampling desks."""

    runs: int
    all: float
    interval: Interval
    known: float
    calls: float


def mean_over_desks(desks: Sequence[Mapping[Setting, Sequence[Success]]]) -> dict[Setting, list[MeanSuccess]]:
    """What `measure_desk` found on several desks, which were asked for the same."""
    drawn = Bootstrap([str(desk) for desk in range(len(desks))])
    found: dict[Setting, list[MeanSuccess]] = {}
    for setting in desks[0]:
        found[setting] = []
        for at_size in zip(*(desk[setting] for desk in desks), strict=True):
            all_D, known_D, calls_D = np.array([(one.all, one.known, one.calls) for one in at_size]).T
            between = interval(drawn.means(all_D))
            means = float(all_D.mean()), between, float(known_D.mean()), float(calls_D.mean())
            found[setting].append(MeanSuccess(at_size[0].runs, *means))
    return found


def asker(memory: Memory, desk: Desk, policy: str | Policy, *, namespace: str = DEFAULT_NAMESPACE) -> HintSource:
    """Hints of a policy out of a memory, as long as that does not change: each question is asked once."""
    known: dict[tuple[str, tuple[ToolName, ...]], Suggestions] = {}

    def ask(episode: Episode, calls: tuple[ToolName, ...]) -> Suggestions:
        question = episode.name, calls
        if question not in known:
            messages = episode.messages(calls)
            known[question] = memory.suggest(messages=messages, tools=desk.tools, policy=policy, namespace=namespace)
        return known[question]

    return ask


def oracle(episode: Episode, calls: tuple[ToolName, ...]) -> Suggestions:
    """The hint of someone who knows the way that works."""
    following = (way.next_tool(calls) for way in episode.kind.ways if way.works)
    return Suggestions(tuple(Suggestion(tool, 1.0, 0, 0.0, None, "it works") for tool in following if tool))


@contextmanager
def _memory() -> Generator[Memory]:
    with tempfile.TemporaryDirectory(prefix="hepm-simulator-") as folder, Memory.open(folder) as memory:
        yield memory


def _learn(memory: Memory, runs: Iterable[Trajectory], *, namespace: str = DEFAULT_NAMESPACE) -> None:
    # Nothing here is secret, and redaction is half the time of an ingest.
    memory.ingest(runs, namespace=namespace, options=IngestOptions(redactor=None))
