"""Success of simulated agents that follow a policy's hints, by memory size; and whether its first hint is right.

The agents work at the desks of `hepm.lab.desks.service_desk`. A policy is a name or an object.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hepm.evals.metrics import Bootstrap, Interval, interval
from hepm.ingest.prepare import IngestOptions
from hepm.lab.desks.service_desk import REPEATS, Desk, DeskRun, Hints, Kind, hints_from, make_desk, oracle
from hepm.memory import Memory
from hepm.policy import Policy
from hepm.types import DEFAULT_NAMESPACE, ToolName, Trajectory

SIZES: Final = (0, 10, 30, 100, 300)  # runs in memory at which agents are evaluated
BATCH: Final = 5  # runs ingested together in online learning, for speed: a run counts at most four runs later

Run: TypeAlias = Callable[[DeskRun], tuple[tuple[ToolName, ...], bool]]
"""The calls of an agent in an episode, and whether it succeeded."""
Case: TypeAlias = Literal["even", "rare", "all_failed", "other_kinds"]
CASES: Final[Mapping[Case, str]] = {
    "even": "10 succeeded, 10 failed",
    "rare": "3 succeeded, 12 failed",
    "all_failed": "all 10 failed",
    "other_kinds": "10, 10, beside such",
}
"""What the log holds of the kind of trouble in question."""


@dataclass(frozen=True, slots=True)
class FirstTool:
    """Shares of all queries by what the first hint at the decision names; the first four sum to 1.

    `right` and `failed` are the next tools of the ways that work and fail; `warned` if it warns of the latter.
    """

    right: float
    failed: float
    other: float
    none: float
    warned: float


def first_tools(policy: str | Policy, *, seeds: Sequence[int] = range(10)) -> dict[Case, FirstTool]:
    """First hints on logs of three kinds of trouble, in each of which one way works and another one fails.

    In a third log one kind has 10 failed runs alone: "all_failed" queries that kind, "other_kinds" the others. Labels
    are true, wordings unseen. Asked is what is likely, not only what is sure.
    """
    counted: dict[Case, Counter[str]] = {case: Counter() for case in CASES}
    for seed in seeds:
        desk = make_desk(seed, noise=0.0)
        three = desk.kinds[:3]
        dead = desk.kinds[seed % 3]
        # (successful runs, failed runs) of each kind.
        logs: Mapping[Case, Mapping[Kind, tuple[int, int]]] = {
            "even": dict.fromkeys(three, (10, 10)),
            "rare": dict.fromkeys(three, (3, 12)),
            "all_failed": dict.fromkeys(three, (10, 10)) | {dead: (0, 10)},
        }
        with _memory() as memory:
            for case, log in logs.items():
                _learn(memory, case_log(desk, log), namespace=case)
                hint = hints_from(memory, desk, policy, speak="weighed", namespace=case)
                for kind in three:
                    counts = counted[case]
                    if case == "all_failed" and kind is not dead:
                        counts = counted["other_kinds"]
                    for number in range(REPEATS):
                        episode = desk.episode(f"{kind.name} question {number}", kind, seen=False)
                        _count_first_hint(counts, kind, episode, hint)
    found: dict[Case, FirstTool] = {}
    for case, counts in counted.items():
        # A query that is warned counts in one of the other four too.
        queries = counts.total() - counts["warned"]
        found[case] = FirstTool(*(counts[name] / queries for name in ("right", "failed", "other", "none", "warned")))
    return found


def _count_first_hint(counts: Counter[str], kind: Kind, episode: DeskRun, hint: Hints) -> None:
    """Count what the hint after the first call names: that call looks the case up, the next one is the decision."""
    works, fails = kind.ways
    suggestions = hint(episode, works.tools[:1])
    if not suggestions:
        counts["none"] += 1
    elif suggestions[0].tool == works.tools[1]:
        counts["right"] += 1
    elif suggestions[0].tool == fails.tools[1]:
        counts["failed"] += 1
    else:
        counts["other"] += 1
    counts["warned"] += any(way.tool == fails.tools[1] for way in suggestions.warnings)


def case_log(desk: Desk, log: Mapping[Kind, tuple[int, int]]) -> Iterator[Trajectory]:
    """Successful and failed runs of each kind, and ten successes of the popular tool in another kind."""
    for kind, counts in {**log, desk.kinds[3]: (10, 0)}.items():
        for way, count in zip(kind.ways, counts, strict=False):
            for number in range(count):
                # The name seeds the wording.
                episode = desk.episode(f"{kind.name} {way.works} {number}", kind, seen=True)
                yield desk.record(episode, way.tools, way.works)


@dataclass(frozen=True, slots=True)
class Scores:
    """Success and mean number of calls of held-out episodes, with a memory of `runs` runs.

    `known` is the success without kinds whose working way no agent of a log takes; `interval` is over desks.
    """

    runs: int
    success: float
    known: float
    calls: float
    interval: Interval | None = None  # None for one desk


def success_from_logs(
    desk: Desk, policies: Sequence[str | Policy], follows: Sequence[float], *, sizes: Sequence[int] = SIZES
) -> dict[tuple[str | Policy, float], list[Scores]]:
    """Success at each size, by policy and follow probability: memory grows from runs of agents without one."""
    scores: defaultdict[tuple[str | Policy, float], list[Scores]] = defaultdict(list)
    for size, memory in _growing(desk, sizes, lambda _: desk.run, batch=max(sizes)):
        for policy in policies:
            hint = hints_from(memory, desk, policy)
            for follow in follows:
                scores[policy, follow].append(evaluate_desk(desk, hint, follow=follow, runs=size))
    return dict(scores)


def success_online(desk: Desk, policy: str | Policy, *, follow: float, sizes: Sequence[int] = SIZES) -> list[Scores]:
    """Success at each size, where memory learns from the runs of agents that it hinted itself, `BATCH` at a time."""

    # Anew for each batch: `hints_from` remembers its answers, which the runs just learned may change.
    def hinted(memory: Memory) -> Run:
        return partial(desk.run, hint=hints_from(memory, desk, policy), follow=follow)

    scores: list[Scores] = []
    for size, memory in _growing(desk, sizes, hinted, batch=BATCH):
        scores.append(evaluate_desk(desk, hints_from(memory, desk, policy), follow=follow, runs=size))
    return scores


def _growing(
    desk: Desk, sizes: Sequence[int], runs_in: Callable[[Memory], Run], *, batch: int
) -> Iterator[tuple[int, Memory]]:
    """A memory at each size, which learns the runs of agents, `batch` at a time: it grows from size to size."""
    stream = desk.training(max(sizes))
    runs = 0
    with _memory() as memory:
        for size in sorted(sizes):
            while runs < size:
                run = runs_in(memory)
                episodes = [*islice(stream, min(batch, size - runs))]
                _learn(memory, [desk.record(episode, *run(episode)) for episode in episodes])
                runs += len(episodes)
            yield size, memory


def evaluate_desk(desk: Desk, hint: Hints | None, *, follow: float, runs: int = 0) -> Scores:
    """Run the held-out episodes of a desk; success is the true one, without noise."""
    won: list[bool] = []
    known: list[bool] = []
    calls = 0
    # In wordings that no log holds.
    for episode in desk.held_out():
        made, success = desk.run(episode, hint, follow=follow)
        won.append(success)
        calls += len(made)
        if episode.kind.known:
            known.append(success)
    return Scores(runs, sum(won) / len(won), sum(known) / len(known), calls / len(won))


class Setting(NamedTuple):
    """What was evaluated: memory from "logs" of agents without hints, or "online" from runs with its own hints.

    If `learning` is "", `policy` is "no memory" or "oracle". `follow` is the probability that a hint is followed.
    """

    learning: str
    policy: str
    follow: float


def measure_desk(
    seed: int, *, policies: Mapping[str, str | Policy], follows: Sequence[float], sizes: Sequence[int] = SIZES
) -> dict[Setting, list[Scores]]:
    """Evaluate every setting on one desk, and agents without memory and an oracle. `follows` are above 0."""
    desk = make_desk(seed)
    scores = {Setting("", "no memory", 0.0): [evaluate_desk(desk, None, follow=0.0)]}
    for follow in follows:
        scores[Setting("", "oracle", follow)] = [evaluate_desk(desk, oracle, follow=follow)]
    logs = success_from_logs(desk, list(policies.values()), follows, sizes=sizes)
    for name, policy in policies.items():
        for follow in follows:
            scores[Setting("logs", name, follow)] = logs[policy, follow]
            scores[Setting("online", name, follow)] = success_online(desk, policy, follow=follow, sizes=sizes)
    return scores


def mean_over_desks(desks: Sequence[Mapping[Setting, Sequence[Scores]]]) -> dict[Setting, list[Scores]]:
    """Average the results of `measure_desk` for several desks and the same settings."""
    # Desks are resampled: episodes of one desk are no independent evidence.
    resampled = Bootstrap([str(desk) for desk in range(len(desks))])

    def mean(at_size: Sequence[Scores]) -> Scores:
        rows_3D = np.array([(desk.success, desk.known, desk.calls) for desk in at_size]).T
        success, known, calls = (float(row_D.mean()) for row_D in rows_3D)
        return Scores(at_size[0].runs, success, known, calls, interval(resampled.means(rows_3D[0])))

    means: dict[Setting, list[Scores]] = {}
    for setting in desks[0]:
        of_desks = [desk[setting] for desk in desks]
        means[setting] = [mean(at_size) for at_size in zip(*of_desks, strict=True)]
    return means


@dataclass(frozen=True, slots=True)
class Simulation:
    """First hints and success of several policies, over several desks."""

    first_tools: dict[str, dict[Case, FirstTool]]
    scores: dict[Setting, list[Scores]]

    def to_json(self) -> dict[str, Any]:
        """As benchmarks/followed_hints.py prints it."""
        rows: list[dict[str, Any]] = []
        for setting, means in self.scores.items():
            for mean in means:
                row = setting._asdict() | asdict(mean)
                row["interval"] = mean.interval and mean.interval._asdict()
                rows.append(row)
        return {"first_tools": asdict(self)["first_tools"], "scores": rows}


def simulate(
    policies: Mapping[str, str | Policy],
    *,
    seeds: Sequence[int],
    follows: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
    sizes: Sequence[int] = SIZES,
    map_desks: Callable[[Callable[[int], Any], Sequence[int]], Iterable[Any]] = map,
) -> Simulation:
    """Measure policies at the desks of these seeds; `map_desks` may be the `map` of a process pool."""
    # Before the desks are measured, which may happen in other processes.
    first = {name: first_tools(policy, seeds=seeds) for name, policy in policies.items()}
    desks = map_desks(partial(measure_desk, policies=policies, follows=follows, sizes=sizes), seeds)
    return Simulation(first, mean_over_desks(list(desks)))


@contextmanager
def _memory() -> Generator[Memory]:
    with tempfile.TemporaryDirectory(prefix="hepm-simulator-") as folder, Memory.open(folder) as memory:
        yield memory


def _learn(memory: Memory, runs: Iterable[Trajectory], *, namespace: str = DEFAULT_NAMESPACE) -> None:
    memory.ingest(runs, namespace=namespace, options=IngestOptions(redactor=None))  # nothing here is secret
    memory.refresh()  # the next hint must not depend on when a thread is done
