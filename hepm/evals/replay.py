"""Would hints change an agent's calls? Recorded runs, asked again at chosen points, with memory and without.

No environment is needed: what is compared is the model's next call with the call of a successful run.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from math import inf
from statistics import fmean
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from hepm.agents.loop import Complete
from hepm.agents.wire import Object, objects, resolved, with_hint
from hepm.errors import BudgetSpentError, EndpointRefusedError, InputError, LlmError
from hepm.evals.bench.arms import Arm, ScratchMemory
from hepm.evals.bench.folder import Folder, Key
from hepm.evals.bench.models import tokens_of
from hepm.evals.domains import Domain, DomainRun, Event, by_family, by_request
from hepm.evals.metrics import Bootstrap, Interval, find_divergences, interval
from hepm.evals.report import FEWEST_DIVERGENCES, rounded, table_of
from hepm.experience.prompt import Prompt
from hepm.llm import Endpoint, Usage
from hepm.memory.session import as_messages
from hepm.text import count_of, on_one_line
from hepm.types import SUMMARY_TOOL, Tool, ToolName
from hepm.uplift.saying import COLUMNS, MeasuredInBothArms, effect_sentence
from hepm.uplift.sequence import Effect

WITHOUT: Final = "without"
_SHARES: Final = ("hinted", "changed", "towards", "away", "gain")
Kind = Literal["parting", "sample"]
_KINDS: Final[Mapping[Kind, tuple[str, str]]] = {
    "parting": ("point", "where a failed run left the way of a successful one"),
    "sample": ("call", "of successful runs"),
}


@dataclass(frozen=True, eq=False)
class Point:
    """A place in a recorded run, before a turn of the agent.

    Attributes:
        right: Tools that successful runs called here.
        tools: Those that the run had, as endpoints take them; of a record without them, all of its domain.
        prompts: What memory says here, by arm.
    """

    kind: Kind
    event: Event
    right: frozenset[ToolName]
    tools: Sequence[Object] = ()
    prompts: Mapping[str, Prompt] = field(default_factory=dict[str, Prompt])

    @property
    def key(self) -> str:
        """Its name in the folder of answers."""
        run = self.event.run
        return f"{self.kind}/{run.domain}/{run.trajectory.source}/{run.id}/{self.event.turn}"

    def body(self, endpoint: Endpoint, options: Mapping[str, Any], arm: str = WITHOUT) -> Object:
        """The request for the next call, with what memory says in an arm."""
        messages: list[Object] = []
        for message in as_messages(self.event.turns):
            for own in ("is_error", "reward", "recalled"):
                message.pop(own, None)
            for call in message.get("tool_calls", ()):
                arguments = call["function"]["arguments"]
                call["function"]["arguments"] = arguments if isinstance(arguments, str) else json.dumps(arguments)
            messages.append(message)
        body = {**options, "model": endpoint.model, "messages": messages, "tools": self.tools}
        said = self.prompts.get(arm, Prompt())
        placement = resolved("auto", endpoint.base_url)
        return with_hint("chat", body, stable=said.stable, present=said.present, placement=placement)


def _specs(run: DomainRun, known: Mapping[ToolName, Tool]) -> list[Object]:
    tools = run.trajectory.tools or known.values()
    any_arguments: Object = {"type": "object", "properties": {}, "additionalProperties": True}
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters or any_arguments),
            },
        }
        for tool in tools
        if tool.name != SUMMARY_TOOL
    ]


def _choose(domain: Domain, most: int, seed: int) -> list[Point]:
    parted, _ = find_divergences(domain.all_runs)
    points = [
        Point("parting", one.event, frozenset[ToolName]().union(*(fork.theirs for fork in one.forks))) for one in parted
    ]
    draws = random.Random(seed)
    points = points if len(points) <= most else draws.sample(points, most)
    turns: defaultdict[tuple[DomainRun, int], list[Event]] = defaultdict(list)
    for run in sorted((run for run in domain.all_runs if run.success), key=lambda run: run.id):
        for event in run.all_events:
            turns[run, event.turn].append(event)
    others = [Point("sample", events[0], frozenset(one.next for one in events)) for events in turns.values()]
    points += draws.sample(others, min(len(others), most - len(points)))
    return [point for point in points if point.event.turns]


def points_of(domain: Domain, arms: Sequence[Arm], *, most: int, seed: int = 0, folds: int = 5) -> list[Point]:
    """At most `most` points, with what a memory of the other task families says at each.

    Partings come first, then a sample of the calls of successful runs.
    """
    domain = by_request(domain)
    points, found = _choose(domain, most, seed), list[Point]()
    known = {name: Tool(name) for run in domain.runs for name in run.calls}
    known |= {tool.name: tool for run in domain.runs for tool in run.trajectory.tools}
    for split in by_family(domain.runs, folds):
        tested = set(split.test)
        here = [point for point in points if point.event.run in tested]
        if not here:
            continue
        with ScratchMemory() as scratch:
            scratch.memory.learn([run.trajectory for run in split.train], distill=any(arm.lessons for arm in arms))
            for point in here:
                run, said = point.event.run, dict[str, Prompt]()
                specs = _specs(run, known)
                for arm in arms:
                    said[arm.name] = scratch.memory.prompt(
                        list(as_messages(point.event.turns)),
                        tools=[spec["function"]["name"] for spec in specs],
                        environment=run.trajectory.environment,
                        options=arm.prompt,
                    )
                found.append(replace(point, tools=specs, prompts=said))
    return found


class Asked(NamedTuple):
    """The tools that the model called at a point, by arm; an arm with nothing to say called what it does without."""

    point: Point
    tools: Mapping[str, frozenset[ToolName]]


class Replay:
    """Asks a model at points of recorded runs; what is in the folder is not asked again.

    Attributes:
        failed: The points with a request that was refused, and why.
        ending: Why no further request was answered: the endpoint answers none, or the budget is spent.
    """

    def __init__(self, points: Sequence[Point], folder: Folder, endpoint: Endpoint, options: Mapping[str, Any]) -> None:
        self.points, self.folder, self.endpoint, self.options = points, folder, endpoint, options
        self.failed: list[str] = []
        self.ending: EndpointRefusedError | BudgetSpentError | None = None

    def requests(self) -> Iterator[tuple[Point, str, Object]]:
        """Each point without memory, and in each arm that says something."""
        for point in self.points:
            for arm in (WITHOUT, *(arm for arm, said in point.prompts.items() if said.text)):
                yield point, arm, point.body(self.endpoint, self.options, arm)

    def estimate(self) -> tuple[int, Usage]:
        """How many points there are, and what asking takes that is not in the folder."""
        waiting = [
            body for point, arm, body in self.requests() if self.folder.answer(Key(arm, point.key, 0), 0, body) is None
        ]
        return len(self.points), Usage(len(waiting), sum(map(tokens_of, waiting)), estimated=True)

    def ask(
        self, answer: Callable[[Key], Complete], *, at_once: int, on_point: Callable[[int, int], None]
    ) -> list[Asked]:
        """The model's calls at each point that could be asked about to the end.

        Args:
            answer: Answers the requests under a key, from the folder or the endpoint.
        """
        called: defaultdict[Point, dict[str, frozenset[ToolName]]] = defaultdict(dict)
        with ThreadPoolExecutor(at_once, thread_name_prefix="hepm-replay") as pool:
            running = {
                pool.submit(answer(Key(arm, point.key, 0)), body): (point, arm) for point, arm, body in self.requests()
            }
            total = len(running)
            for number, future in enumerate(as_completed(running), 1):
                self._note(future, *running.pop(future), called)
                on_point(number, total)
                if self.ending is not None:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
        for future, (point, arm) in running.items():  # those that were under way at the end
            if not future.cancelled():
                self._note(future, point, arm, called)
        found: list[Asked] = []
        for point in self.points:
            tools = called[point]
            if WITHOUT in tools and all(arm in tools for arm, said in point.prompts.items() if said.text):
                found.append(Asked(point, {arm: tools.get(arm, tools[WITHOUT]) for arm in (WITHOUT, *point.prompts)}))
        return found

    def _note(
        self,
        future: Future[Object],
        point: Point,
        arm: str,
        called: Mapping[Point, dict[str, frozenset[ToolName]]],
    ) -> None:
        try:
            called[point][arm] = _called(future.result())
        except (EndpointRefusedError, BudgetSpentError) as error:
            self.ending = self.ending or error
        except LlmError as error:
            self.failed.append(f"{point.key}: {error}")


def _called(completion: Object) -> frozenset[ToolName]:
    message: Object = completion["choices"][0]["message"]
    return frozenset(call["function"]["name"] for call in objects(message.get("tool_calls")))


@dataclass(frozen=True)
class ReplayScores:
    """One arm at one kind of points: shares of the points, with intervals from resampling families.

    Attributes:
        shares: "hinted": memory said something. "changed": the model then called other tools. "towards": tools of the
            successful runs, which it did not call without. "away": the reverse. "gain": towards less away.
        right: Share of the points at which the model called a tool of a successful run, without memory and with it.
    """

    points: int
    families: int
    shares: Mapping[str, float]
    interval: Mapping[str, Interval]
    right: tuple[float, float]


@dataclass(frozen=True)
class ReplayReport:
    """A whole replay, by kind of points and arm.

    Attributes:
        left_out: How many points were not asked about to the end.
    """

    model: str
    scores: Mapping[str, Mapping[str, ReplayScores]]
    failed: Sequence[str]
    left_out: int
    sentences: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """As `hepm replay --json` prints it."""
        return rounded(asdict(self))


def report_on_replay(asked: Sequence[Asked], arms: Sequence[Arm], asker: Replay) -> ReplayReport:
    """Compare the calls with memory and without.

    Raises:
        InputError: no point was answered.
        EndpointRefusedError, BudgetSpentError: that is why.
    """
    failed = asker.failed
    if not asked:
        if asker.ending is not None:
            raise asker.ending
        reason = f": {failed[0]}" if failed else ""
        raise InputError(f"no point could be asked about{reason}")
    scores: dict[str, dict[str, ReplayScores]] = {}
    for kind in _KINDS:
        here = [one for one in asked if one.point.kind == kind]
        if here:
            scores[kind] = {arm.name: _scores(here, arm.name) for arm in arms}
    judged = next((kind for kind, by_arm in scores.items() if by_arm[arms[0].name].points >= FEWEST_DIVERGENCES), None)
    kind = judged or next(iter(scores))
    sentences = [_sentence(arm.name, kind, scores[kind][arm.name]) for arm in arms]
    return ReplayReport(asker.endpoint.model, scores, failed, len(asker.points) - len(asked), sentences)


def _scores(asked: Sequence[Asked], arm: str) -> ReplayScores:
    rows: list[tuple[float, ...]] = []
    rights: list[tuple[bool, bool]] = []
    for point, tools in asked:
        without, with_memory = (not point.right.isdisjoint(tools[one]) for one in (WITHOUT, arm))
        towards, away = with_memory and not without, without and not with_memory
        rows.append((bool(point.prompts[arm].text), tools[arm] != tools[WITHOUT], towards, away, towards - away))
        rights.append((without, with_memory))
    shares_PJ = np.array(rows, dtype=np.float64)
    bootstrap = Bootstrap([f"{one.point.event.run.domain}/{one.point.event.run.family}" for one in asked])
    return ReplayScores(
        len(asked),
        bootstrap.families,
        dict(zip(_SHARES, shares_PJ.mean(axis=0).tolist(), strict=True)),
        {name: interval(bootstrap.means(column_P)) for name, column_P in zip(_SHARES, shares_PJ.T, strict=True)},
        (fmean(without for without, _ in rights), fmean(with_memory for _, with_memory in rights)),
    )


def _sentence(arm: str, kind: str, found: ReplayScores) -> str:
    shares = found.shares
    if not shares["changed"]:
        return f"{arm} changed no call at {count_of(found.points, 'point')}."
    enough = found.points >= FEWEST_DIVERGENCES
    said = effect_sentence(_right(found).effect if enough else None, found.points, what="right calls", of="turn")
    where = "where a failed run left the way of a successful one" if kind == "parting" else "in successful runs"
    changed = f"{arm} changed the call in {shares['changed']:.1%}: towards that of a successful run in"
    return f"{arm}, {where}: {said} {changed} {shares['towards']:.1%}, away from it in {shares['away']:.1%}."


def _right(found: ReplayScores) -> MeasuredInBothArms:
    """How often the model called a tool of a successful run."""
    effect = Effect(found.shares["gain"], *found.interval["gain"], found.points, inf)
    return MeasuredInBothArms("right", *found.right, effect, share=True)


def replay_tables(report: ReplayReport) -> list[Table | Text]:
    """Shares by kind of points and arm, and the sentences below them."""
    parts: list[Table | Text] = []
    for kind, by_arm in report.scores.items():
        first = next(iter(by_arm.values()))
        one, about = _KINDS["parting" if kind == "parting" else "sample"]
        families = count_of(first.families, "task family", "task families")
        table = table_of(
            f"{report.model} at {count_of(first.points, one)} {about}, of {families}",
            "memory",
            *_SHARES[:-1],
            *COLUMNS,
        )
        for arm, found in by_arm.items():
            cells = [f"{found.shares[name]:.3f}" for name in _SHARES[:-1]]
            table.add_row(arm, *cells, *_right(found).cells[1:])
        parts.append(table)
    parts.append(Text("without, with: how often a tool of the successful runs was called", style="dim"))
    if report.failed:
        parts.append(Text(on_one_line(f"{count_of(len(report.failed), 'request')} failed, first {report.failed[0]}")))
    if report.left_out:
        parts.append(Text(f"{count_of(report.left_out, 'point')} left out, without all answers: repeat the command."))
    return [*parts, *(Text(f"\n{on_one_line(sentence)}", style="bold") for sentence in report.sentences)]
