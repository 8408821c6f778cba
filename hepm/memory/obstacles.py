"""What keeps memory from helping, in at most ten lines, each with the command that mends it (`hepm doctor --advice`).

Exact where a store counts it; what only records tell is read from the latest runs.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from hepm.ingest.outcome import RULES, verdict_of
from hepm.ingest.transitions import request_of
from hepm.report.latest import hints_of, latest_runs
from hepm.text import count_of
from hepm.types import Object, ToolName, Trajectory

if TYPE_CHECKING:
    from hepm.memory.memory import Memory

MOST_LINES: Final = 10
LIKE_RUNS: Final = 5
"""Like runs that all ended otherwise, from which on a label looks wrong."""
# From where on something is worth a line; ours.
_UNLABELLED_READ: Final = 200  # runs without an outcome that are read
_SHARE_UNLABELLED: Final = 0.05  # of all runs
_HINTED_RUNS: Final = 10
_FOLLOWED_RUNS: Final = 0.5  # share of these in which the agent called what a hint named at all,
_FOLLOWED: Final = 0.1  # and of the turns that a hint named tools for
_FEWEST_LESSONS: Final = 10
_RULE_LABELS: Final = 0.2  # share of the runs read that rules must label for the command to be worth it
_IDS_SHOWN: Final = 3
_DIGITS: Final = re.compile(r"\d+")

ObstacleKind: TypeAlias = Literal["unlabelled", "labels", "hints-ignored", "hints-hurt", "lessons-unseen"]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that keeps memory from helping in a namespace, and what mends it.

    Attributes:
        what: What is so, in a sentence without its end; a sample is said to be one.
        mend: What to do, as a clause.
        command: The command of it, without `--store`; of what only an agent's code can do, the call.
        runs: About how many stored runs it concerns: the most come first.
    """

    namespace: str
    kind: ObstacleKind
    what: str
    mend: str
    command: str
    runs: int

    def to_json(self) -> Object:
        """In values that JSON can hold."""
        return asdict(self)


def obstacles(memory: Memory, *, namespace: str | None = None) -> list[Obstacle]:
    """What keeps memory from helping, each with the command that mends it: what concerns most runs first.

    At most `MOST_LINES`. Reads the latest thousand runs of a namespace; some seconds.

    Args:
        namespace: Only this one; None for all.
    """
    names = memory.namespaces() if namespace is None else [namespace]
    obstacles: list[Obstacle] = []
    for name in names:
        obstacles += _Namespace(memory, name).obstacles()
    obstacles.sort(key=lambda obstacle: -obstacle.runs)
    return obstacles[:MOST_LINES]


class _Namespace:
    """A namespace with its latest runs, the last stored first."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self._name = name
        self._runs = memory.totals(namespace=name).trajectories
        self._latest = list(latest_runs(memory.store, namespace=name))

    def obstacles(self) -> Iterator[Obstacle]:
        """All of them, in no order."""
        yield from self._unlabelled()
        yield from self._wrong_labels()
        yield from self._ignored_hints()
        yield from self._harm()
        yield from self._unseen_lessons()

    def _obstacle(self, kind: ObstacleKind, what: str, mend: str, command: str, runs: int) -> Obstacle:
        if command != "hepm serve":
            command += f" --namespace {quote(self._name)}"
        return Obstacle(self._name, kind, what, mend, command, runs)

    @property
    def _among_latest(self) -> str:
        latest = "" if len(self._latest) == self._runs else "the latest "
        return latest + count_of(len(self._latest), "run")

    def _unlabelled(self) -> Iterator[Obstacle]:
        """Runs without an outcome, apart from those that are distrusted, whose label was removed, or without a call."""
        total = self._memory.totals(namespace=self._name).unlabelled
        if not total or total < _SHARE_UNLABELLED * self._runs:
            return
        some = self._memory.labels.unlabelled(namespace=self._name, limit=_UNLABELLED_READ, removed=False)
        waiting = [run for run in some if any(run.calls())]
        # The store counts all without an outcome; which of them a label would help, the read ones tell.
        runs = round(total * len(waiting) / min(total, _UNLABELLED_READ))
        if not waiting or runs < _SHARE_UNLABELLED * self._runs:
            return
        have = "has no outcome and teaches" if runs == 1 else "have no outcome and teach"
        about = "about " if total > _UNLABELLED_READ else ""
        what = f"{about}{runs:,} of {count_of(self._runs, 'run')} {have} nothing"
        labelled = Counter(verdict_of(run, RULES).by for run in waiting)
        del labelled[""]
        command = "hepm label"
        mend = "report how runs end (session.finish, POST /outcome); label these by hand, or by a model (--by judge)"
        if labelled.total() >= _RULE_LABELS * len(waiting):
            command += f" --by {','.join(rule for rule in RULES if labelled[rule])}"
            mend = f"rules label {labelled.total():,} of {count_of(len(waiting), 'run')} tried"
        yield self._obstacle("unlabelled", what, mend, command, runs)

    def _wrong_labels(self) -> Iterator[Obstacle]:
        """Runs that ended otherwise than all of at least `LIKE_RUNS` like ones."""
        odd = _odd_runs(self._latest)
        if not odd:
            return
        shown = ", ".join(f"{run.id} against {others}" for run, others in odd[:_IDS_SHOWN])
        more = ", …" if len(odd) > _IDS_SHOWN else ""
        what = (
            f"{count_of(len(odd), 'run')} among {self._among_latest} ended otherwise than all runs of the same request "
            f"with the same calls and results ({shown}{more})"
        )
        mend = "look at the label" if len(odd) == 1 else "look at the labels, one after the other"
        yield self._obstacle("labels", what, mend, f"hepm label {quote(odd[0][0].id)}", len(odd))

    def _ignored_hints(self) -> Iterator[Obstacle]:
        """Hints that agents mostly do not follow, nor name by chance what they do."""
        hinted = [hints for hints in map(hints_of, self._latest) if hints]
        turns, followed = sum(map(len, hinted)), sum(map(sum, hinted))
        runs, following = len(hinted), sum(map(any, hinted))
        if runs < _HINTED_RUNS or (following >= _FOLLOWED_RUNS * runs and followed >= _FOLLOWED * turns):
            return
        what = (
            f"hints named a tool in {count_of(runs, 'session')} among {self._among_latest}; the agent called one of "
            f"them in {following:,} ({followed:,} of {count_of(turns, 'turn')})"
        )
        mend = (
            "put the hint where the model reads it, as the last message or at the end of the system prompt, and say "
            "there that it is what earlier runs showed; it reads"
        )
        ignored = Counter[ToolName]()
        for run in self._latest:
            ignored.update(_before_ignored(run))
        # After the tool where most were ignored; "" is the start of a run.
        ((last, _),) = ignored.most_common(1)
        after = f" --after {quote(last)}" if last else ""
        yield self._obstacle("hints-ignored", what, mend, f"hepm prompt{after}", runs)

    def _harm(self) -> Iterator[Obstacle]:
        """Memory that lowers success, as held-out sessions show."""
        harm = self._memory.sessions.guard(namespace=self._name).harm
        if harm:
            what = harm.removeprefix("silent, since ")
            mend = "nearly all sessions are left alone; see what harms, and check the labels of the runs behind it"
            yield self._obstacle("hints-hurt", what, mend, "hepm uplift", self._runs)

    def _unseen_lessons(self) -> Iterator[Obstacle]:
        """Lessons of which none was ever shown to an agent."""
        live, shown = self._memory.store.lessons.live_and_shown(namespace=self._name)
        if live >= _FEWEST_LESSONS and not shown:
            what = f"none of {count_of(live, 'lesson')} was ever shown to an agent"
            mend = "let agents ask this memory, by memory.session, hooks, MCP or the proxy"
            yield self._obstacle("lessons-unseen", what, mend, "hepm serve", live)


def _odd_runs(runs: Sequence[Trajectory]) -> list[tuple[Trajectory, int]]:
    """Runs that ended otherwise than all like ones, each with how many these are; those of most like ones first."""
    alike: defaultdict[int, list[Trajectory]] = defaultdict(list)
    for run in runs:
        if run.trusted and run.outcome.success is not None and (run.task or request_of(run)) and any(run.calls()):
            alike[_like(run)].append(run)
    odd: list[tuple[Trajectory, int]] = []
    for like in alike.values():
        ended = Counter(run.outcome.success for run in like)
        if len(like) > LIKE_RUNS and len(like) - 1 in ended.values():
            odd += [(run, len(like) - 1) for run in like if ended[run.outcome.success] == 1]
    return sorted(odd, key=lambda pair: (-pair[1], pair[0].id))


def _like(run: Trajectory) -> int:
    """A hash of the request and the calls of a run, without the digits of results: ids and times differ."""
    calls: list[object] = []
    for turn in run.turns:
        if turn.role != "user":
            for call in turn.calls:
                result = _DIGITS.sub("0", call.result or "")
                calls.append([call.name, dict(call.arguments), result, call.error, call.refused])
    request = run.task or request_of(run)
    return hash(json.dumps([run.environment, request, calls], sort_keys=True, default=str))


def _before_ignored(run: Trajectory) -> Iterator[ToolName]:
    """The last tool before each turn that called none of the tools that a hint had named; "" for none."""
    last = ""
    for turn in run.turns:
        if not turn.calls or turn.role == "user":
            continue
        if turn.followed is False:
            yield last
        last = turn.calls[-1].name
