"""The lessons of one store, and the runs to learn from."""

from __future__ import annotations

import builtins
import json
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from itertools import groupby
from threading import Lock
from typing import Final, Literal, TypeAlias

from hepm.embed import Embedder
from hepm.errors import StoreError
from hepm.evidence.decisions import FactNumbers, LabelledRun
from hepm.evidence.nearest import Requests
from hepm.evidence.rules import ToolRule
from hepm.experience.age import Ages
from hepm.experience.comparison import says_nothing
from hepm.experience.equal_lessons import EqualLessons, equal_lessons
from hepm.experience.lessons import applies_in, lesson_key
from hepm.experience.likeness import RequestGroups, request_of
from hepm.graph.lessons.rows import Answer, Kind, StoredLesson
from hepm.graph.lessons.store import LessonStore
from hepm.graph.lessons.transaction import Changed, LessonChange
from hepm.graph.mirror.lesson_mirror import LessonMirror
from hepm.graph.mirror.mirror import Mirror
from hepm.graph.rows import Float32Array, Marks
from hepm.graph.store import Store
from hepm.ingest.formats.hepm import parse_stored
from hepm.llm import PaidAnswer, Usage
from hepm.types import DEFAULT_NAMESPACE, ToolName, Trajectory

_log = logging.getLogger("hepm")

FLOOR: Final = 0.6
"""Minimum cosine of an experience that applies, with a sentence model (PRIME, table 2)."""
LEXICAL_FLOOR: Final = 0.4
"""The same with lexical vectors, whose cosines are lower: .6 would drop half of the right ones, .4 keeps 95 %."""

GROUPED_AT_ONCE: Final = 2_000
"""In larger memories a new run is not grouped with similar requests at once."""

GROUPED_FOR_S: Final = 60.0
"""Seconds until runs are grouped again that were stored, or forgotten, by other processes."""

_READ_AT_ONCE: Final = 200  # runs in memory at once while requests are read
_MAX_WAITING: Final = 10_000  # writes that wait for the store
_COMPARED: Final = 64  # runs with similar requests that are compared at once
_LATEST: Final = 50  # runs of either outcome that a new run of a task is compared with, so that its cost is bounded


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """The stored runs of one task, or of one group of similar requests (`alike`), by id; of a large group a sample.

    Attributes:
        name: The task's id; a group's name is the id of one of its runs.
        wanted: The runs to learn from; the others are for comparison.
    """

    environment: str
    name: str
    runs: Sequence[Trajectory]
    wanted: frozenset[str]
    alike: bool = False


class LessonBank:
    """Experiences, principles and notes of one store: reads come from the mirror, writes go to the store.

    `agreed_embedder` gives the embedder after a check that the store holds no other's vectors.
    """

    def __init__(
        self, store: Store, mirror: Mirror, embedder: Callable[[], Embedder], agreed_embedder: Callable[[], Embedder]
    ) -> None:
        self.store = store
        self._mirror = mirror
        self._embedder = embedder
        self._agreed_embedder = agreed_embedder
        self._waiting: list[Callable[[], object]] = []  # exposures and outcomes that are not written yet
        self._failing = False
        self._lock = Lock()
        # The last grouping and its inputs: experiences and principles ask for the same one after the other.
        self._last_grouped: tuple[dict[str, str], dict[str, str], RequestGroups] = ({}, {}, RequestGroups({}))
        # By namespace: the groups that new runs join, by environment, and until when (monotonic, in seconds).
        self._live: dict[str, tuple[dict[str, RequestGroups], float]] = {}
        self._known_requests: dict[tuple[str, str], str] = {}  # by namespace and run
        self._ages: dict[str, Ages] = {}
        self._token: str | None = None

    def told_to(self, token: str) -> LessonBank:
        """The bank as a session of a token reads it: without what the runs of another token alone taught."""
        bank = copy(self)
        bank._token = token
        return bank

    def tells(self, namespace: str) -> Callable[[StoredLesson], bool]:
        """Whether a lesson of a namespace is told to who reads it (see `LessonMirror.told_to`)."""
        token = self._token
        if token is None:
            return lambda _: True
        lessons = self.lessons(namespace)
        return lambda lesson: lessons.told_to(lesson, token)

    @property
    def floor(self) -> float:
        """Minimum cosine of a lesson that applies, for the current embedder."""
        if self.lexical:
            return LEXICAL_FLOOR
        return FLOOR

    @property
    def lexical(self) -> bool:
        """Whether the current embedder compares words and not their meaning."""
        return self._embedder().name.startswith("hepm/")

    def lessons(self, namespace: str) -> LessonMirror:
        """The lessons of a namespace in memory."""
        return self._mirror.lessons(namespace)

    def marks(self, namespace: str) -> Marks:
        """Other names of tools, and retired tools."""
        return self._mirror.namespace(namespace).marks

    def ages(self, namespace: str) -> Ages:
        """How old the lessons of a namespace are."""
        mirror = self._mirror.namespace(namespace)
        return self._ages.setdefault(namespace, Ages(mirror))

    def rules(self, namespace: str, *, anew: bool = True) -> builtins.list[ToolRule]:
        """What worked and what failed where (see `hepm.evidence.upkeep.LiveEvidence.rules`)."""
        return self._mirror.namespace(namespace).learned.rules(anew=anew)

    def _labelled_runs(self, namespace: str) -> tuple[builtins.list[LabelledRun], FactNumbers]:
        """The labelled runs that are learned from, in order of arrival; new ones are appended to the same list."""
        sample = self._mirror.namespace(namespace).learned.runs()
        return sample.runs, sample.numbers

    def list(
        self, kind: Kind, *, namespace: str = DEFAULT_NAMESPACE, retired: bool = False
    ) -> builtins.list[StoredLesson]:
        """Lessons of a kind in order of arrival."""
        return self.lessons(namespace).all(kind, retired=retired)

    def equal(
        self, lessons: Iterable[StoredLesson], *, namespace: str = DEFAULT_NAMESPACE
    ) -> builtins.list[EqualLessons]:
        """Some experiences and principles of a namespace, those that say the same as one."""
        return equal_lessons(lessons)

    def texts_by_tool(self, *, namespace: str = DEFAULT_NAMESPACE) -> dict[ToolName, builtins.list[str]]:
        """What lessons say about each tool: first those in prompts, then by runs; none for one user."""
        every = [*self.list("principle", namespace=namespace), *self.list("experience", namespace=namespace)]
        lessons = self.equal((stored for stored in every if not says_nothing(stored.row)), namespace=namespace)
        lessons.sort(key=lambda lesson: (bool(lesson.held_back), -lesson.support))
        lines_of: defaultdict[ToolName, dict[str, None]] = defaultdict(dict)
        for lesson in lessons:
            # Drawings are files that people pass on.
            for tool in () if lesson.conditions.user else lesson.tools:
                lines_of[tool][lesson.line] = None
        return {tool: [*lines] for tool, lines in lines_of.items()}

    def change(self, change: LessonChange, *, namespace: str = DEFAULT_NAMESPACE) -> Changed:
        """Write a change; later reads see it."""
        embedder = self._agreed_embedder()
        texts = list(dict.fromkeys(row.text for row in change.put))
        vectors: dict[str, Float32Array] = {}
        if texts:
            vectors = dict(zip(texts, embedder.embed(texts), strict=True))
        try:
            return self.store.lessons.change(change, vectors, namespace=namespace, embedder=embedder.name)
        finally:
            # Also after an error: the connection may have broken after the store took the change.
            self._mirror.catch_up(defer=True)

    def revive(self, kind: Kind, ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> builtins.list[str]:
        """Let searches find retired lessons of a kind again; the ids of those. Their uses stay."""
        retired = self._ids_of(kind, ids, namespace, live=False)
        if retired:
            self.change(LessonChange(revive=retired), namespace=namespace)
        return retired

    def retire(self, kind: Kind, ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> builtins.list[str]:
        """Keep lessons of a kind from searches and prompts; the ids of those that were found. `revive` undoes it."""
        live = self._ids_of(kind, ids, namespace, live=True)
        if live:
            self.change(LessonChange(retire=dict.fromkeys(live, "deleted")), namespace=namespace)
        return live

    def _ids_of(self, kind: Kind, ids: Sequence[str], namespace: str, *, live: bool) -> builtins.list[str]:
        """Those of some ids that are of lessons of a kind, live or retired; each once."""
        lessons = self.lessons(namespace)
        matching: builtins.list[str] = []
        for id in dict.fromkeys(ids):
            stored = lessons.get(id)
            if stored is not None and stored.row.kind == kind and stored.row.live == live:
                matching.append(stored.row.id)
        return matching

    def forget_user(self, user: str, *, namespace: str = DEFAULT_NAMESPACE) -> builtins.list[str]:
        """See `LessonStore.forget_user`."""
        try:
            return self.store.lessons.forget_user(user, namespace=namespace)
        finally:
            self._mirror.catch_up(defer=True)

    def vectors(self, texts: Sequence[str]) -> Float32Array:
        """One unit vector per text, shape (N, D)."""
        return self._embedder().embed(texts)

    def search(
        self,
        text: str,
        kind: Kind,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        environment: str = "",
        limit: int,
        floor: float | None = None,
        only: Callable[[StoredLesson], bool] | None = None,
    ) -> builtins.list[tuple[StoredLesson, float]]:
        """Live experiences or principles most similar to a text, with their cosines (see `LessonMirror.search`).

        Left out are those of other environments, and those that name no tool to call or to avoid. Of lessons that
        differ only in numbers (see `lesson_key`), only the best used one is given.

        Args:
            only: Which of these are searched; None for all.
        """
        lessons = self._mirror.lessons(namespace)
        if not (text.strip() and lessons.holds(kind)):
            return []

        tells = self.tells(namespace)

        def keep(stored: StoredLesson) -> bool:
            if not tells(stored) or (only is not None and not only(stored)):
                return False
            return applies_in(stored.row, environment) and not says_nothing(stored.row)

        if floor is None:
            floor = self.floor
        (vector,) = self._embedder().embed([text])
        return lessons.search(vector, kind, limit=limit, floor=floor, keep=keep, group=lesson_key)

    # Exposures

    def show(self, run: str, lessons: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Record that lessons were shown in a run; while the store is unavailable, exposures wait in memory."""
        if lessons:
            self.deliver(lambda: self.store.lessons.show(run, lessons, namespace=namespace))

    def record_outcome(self, run: str, *, success: bool, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Record how a run ended: lessons shown in it are credited, once. Ingesting the run does the same."""
        self.deliver(lambda: self.store.lessons.report_outcomes({run: success}, namespace=namespace))
        self._mirror.catch_up(defer=True)

    def deliver(self, *more: Callable[[], object]) -> None:
        """Write the exposures and outcomes that wait, and some more."""
        with self._lock:
            self._waiting = [*self._waiting, *more][-_MAX_WAITING:]
            while self._waiting:
                write = self._waiting[0]
                try:
                    write()
                except StoreError as error:
                    if not self._failing:
                        _log.warning("uses of lessons are counted when the store can be written again: %s", error)
                    self._failing = True
                    return
                self._failing = False
                # Only now: a write that failed stays first, and is tried again with the next one.
                del self._waiting[0]

    def shown_in(self, lesson: str, *, namespace: str = DEFAULT_NAMESPACE) -> dict[str, bool | None]:
        """The runs that a lesson was shown in, each with its outcome."""
        exposures = self.store.lessons.exposures(namespace=namespace)
        return {exposure.run: exposure.success for exposure in exposures if exposure.lesson == lesson}

    def showed_in(self, run: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Whether lessons were shown in a run, stored or not."""
        return any(exposure.run == run for exposure in self.store.lessons.exposures(namespace=namespace))

    def outcomes(self, runs: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> dict[str, bool | None]:
        """Whether stored runs succeeded, by id; None without a label. Others are left out."""
        stored = self.store.find_known(list(dict.fromkeys(runs)), namespace=namespace)
        return {run: known.success for run, known in stored.items()}

    # Runs to learn from

    def waiting(self, step: str, *, namespace: str = DEFAULT_NAMESPACE, again: bool = False) -> int:
        """How many runs a step has not seen; with `again`, how many there are."""
        seen = self._seen_runs(step, namespace, again=again)
        return sum(run not in seen for _, _, run in self.store.iterate("runs_by_task", namespace=namespace))

    def _seen_runs(self, step: str, namespace: str, *, again: bool) -> Collection[str]:
        """The runs that a step has seen, by id; with `again` none counts as seen."""
        if again:
            return ()
        return self.store.lessons.answered_runs(step, namespace=namespace)

    def runs_of_tasks(
        self, runs: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> builtins.list[tuple[str, str, str]]:
        """Environment, task and id of the runs of these runs' tasks; of a very large task the latest."""
        return self.store.runs_beside(runs, namespace=namespace, latest=_LATEST)

    def tasks(self, step: str, *, namespace: str = DEFAULT_NAMESPACE, again: bool = False) -> Iterator[TaskRuns]:
        """Tasks with runs that a step has not seen, or all tasks; one task is in memory at a time.

        Runs that are alone in their task come in groups of similar requests (see `hepm.experience.likeness`). A run
        that the step has seen stays in its group.
        """
        seen = self._seen_runs(step, namespace, again=again)
        by_task, alone = _by_task(self.store.runs_by_task(namespace=namespace))
        for (environment, name), ids in by_task.items():
            wanted = frozenset(ids).difference(seen)
            if wanted:
                yield TaskRuns(environment, name, self.runs(ids, namespace=namespace), wanted)
        for environment, ids in alone.items():
            wanted = frozenset(ids).difference(seen)
            if not wanted:
                continue
            groups = self._grouped(step, ids, wanted, namespace)
            for name, members in groups.members().items():
                yield from self._compared(environment, name, members, wanted, namespace)

    def tasks_of(self, step: str, runs: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[TaskRuns]:
        """The tasks of some runs, with their latest runs (see `runs_of_tasks`); all of them are wanted.

        Similar requests are grouped at the first call, and again after `GROUPED_FOR_S`. In a memory of more than
        `GROUPED_AT_ONCE` runs, a run that is alone in its task is compared with none until `tasks` looks at all.
        """
        by_task, alone = _by_task(self.runs_of_tasks(runs, namespace=namespace))
        for (environment, name), ids in by_task.items():
            groups_by_environment, _ = self._live.get(namespace, ({}, 0.0))
            for groups in groups_by_environment.values():
                groups.remove(ids)  # the first of them may have been alone before
            yield TaskRuns(environment, name, self.runs(ids, namespace=namespace), frozenset(ids))
        for environment, ids in alone.items():
            groups = self._live_groups(step, environment, namespace)
            joined: set[str] = set()
            for run, request in self._requests(ids, namespace).items():
                joined.add(groups.add(run, request))
            for name, members in groups.members(joined).items():
                yield from self._compared(environment, name, members, frozenset(members), namespace)

    def _compared(
        self, environment: str, name: str, ids: Sequence[str], wanted: frozenset[str], namespace: str
    ) -> Iterator[TaskRuns]:
        """A large group in parts: some wanted runs at a time, with an even sample of the others to compare with."""
        wanted_ids = [run for run in ids if run in wanted]
        part_size = len(ids) if len(ids) <= _COMPARED else _COMPARED // 2
        for start in range(0, len(wanted_ids), part_size):
            part = frozenset(wanted_ids[start : start + part_size])
            others = [run for run in ids if run not in part]
            others = others[:: max(math.ceil(len(others) / part_size), 1)]
            compared = self.runs(sorted([*part, *others]), namespace=namespace)
            yield TaskRuns(environment, name, compared, part, alike=True)

    def _live_groups(self, step: str, environment: str, namespace: str) -> RequestGroups:
        """The groups of an environment that new runs join."""
        groups, until = self._live.get(namespace, ({}, 0.0))
        if time.monotonic() > until:
            listed = self.store.runs_by_task(namespace=namespace)
            groups = {}
            until = math.inf
            if len(listed) <= GROUPED_AT_ONCE:
                _, alone = _by_task(listed)
                groups = {name: self._grouped(step, ids, frozenset(), namespace) for name, ids in alone.items()}
                until = time.monotonic() + GROUPED_FOR_S
            self._live[namespace] = groups, until
        if until == math.inf:
            # In a large memory there are none to join.
            return RequestGroups({})
        return groups.setdefault(environment, RequestGroups({}))

    def _grouped(self, step: str, ids: Sequence[str], wanted: frozenset[str], namespace: str) -> RequestGroups:
        """Groups of these runs by their requests; those that are not wanted stay in the group they were marked with."""
        seen = [_done_key(step, run) for run in ids if run not in wanted]
        group_of: dict[str, str] = {}
        for answer in self.store.lessons.answers(seen, namespace=namespace):
            if answer.text:
                group_of[answer.run] = answer.text
        # A group has the name of one of its runs; if this one was forgotten, another one stands for the group.
        stored = set(ids)
        leaders: dict[str, str] = {}
        for run, name in sorted(group_of.items()):
            leaders.setdefault(name, name if name in stored else run)
        ungrouped = [run for run in ids if run not in group_of]
        requests = self._requests([*leaders.values(), *ungrouped], namespace)
        known = {name: requests.get(run, "") for name, run in leaders.items()}
        fresh = {run: text for run, text in requests.items() if run not in group_of}
        if self._last_grouped[:2] != (fresh, known):
            self._last_grouped = fresh, known, RequestGroups(fresh, known)
        return self._last_grouped[2].with_members(group_of)

    def _requests(self, ids: Sequence[str], namespace: str) -> dict[str, str]:
        """What the user asked for first in each trusted run; others are compared with nothing, and lead no group."""
        if len(self._known_requests) > 2 * GROUPED_AT_ONCE:
            self._known_requests.clear()
        # A long list gets a dictionary of its own: what is kept between calls stays small.
        known = self._known_requests if len(ids) <= GROUPED_AT_ONCE else {}
        unread = [run for run in ids if (namespace, run) not in known]
        for start in range(0, len(unread), _READ_AT_ONCE):
            for run in self.runs(unread[start : start + _READ_AT_ONCE], namespace=namespace):
                if run.trusted:
                    known[namespace, run.id] = request_of(run)
        return {run: known[namespace, run] for run in ids if (namespace, run) in known}

    def like_requests(self, runs: Collection[str], *, namespace: str = DEFAULT_NAMESPACE) -> Requests:
        """What users asked for in these runs; those that lessons are not counted in are left out."""
        labelled, _ = self._labelled_runs(namespace)
        wanted = set(runs)
        return Requests.of([run for run in labelled if run.id in wanted])

    def runs(self, ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> builtins.list[Trajectory]:
        """Stored runs in the order given, each with the label that it counts with, without those that are gone.

        StoreDamagedError names an unreadable one.
        """
        runs: builtins.list[Trajectory] = []
        success_from = self.store.header.success_from
        for start in range(0, len(ids), _READ_AT_ONCE):
            batch = ids[start : start + _READ_AT_ONCE]
            records = self.store.records_of(batch, namespace=namespace)
            for id in batch:
                if id in records:
                    runs.append(parse_stored(id, records[id]).graded(success_from))
        return runs

    def mark_done(self, step: str, runs: Mapping[str, str], *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Record that a step has seen runs, and each run's group of similar requests, "" for none."""
        answers = [Answer(_done_key(step, run), step, run, group, "") for run, group in runs.items()]
        self.store.lessons.put_answers(answers, namespace=namespace)

    def ledger(self, about: Subject, *, namespace: str = DEFAULT_NAMESPACE) -> StoreLedger:
        """A ledger for a `hepm.llm.Client`."""
        return StoreLedger(self.store.lessons, namespace, about)


def _by_task(
    runs: Sequence[tuple[str, str, str]],
) -> tuple[dict[tuple[str, str], builtins.list[str]], dict[str, builtins.list[str]]]:
    """Runs by environment and task, where a task has several; and the others by environment."""
    by_task: dict[tuple[str, str], builtins.list[str]] = {}
    alone: dict[str, builtins.list[str]] = {}
    # A run without a task is a task of its own, named by its id. The store lists runs of one task together.
    for (environment, name), group in groupby(runs, key=lambda run: (run[0], run[1] or run[2])):
        ids = [run for _, _, run in group]
        if len(ids) > 1:
            by_task[environment, name] = ids
        else:
            alone.setdefault(environment, []).extend(ids)
    return by_task, alone


def _done_key(step: str, run: str) -> str:
    return f"{step}\n{run}"


Subject: TypeAlias = Literal["run", "user", "lesson"]


class StoreLedger:
    """A `hepm.llm.Ledger` in a store: answers are kept and forgotten with the run or user (`about`) they are about."""

    def __init__(self, lessons: LessonStore, namespace: str, about: Subject) -> None:
        self._lessons = lessons
        self._namespace = namespace
        self._about = about

    def get(self, key: str) -> PaidAnswer | None:  # noqa: D102
        for answer in self._lessons.answers([key], namespace=self._namespace):
            return PaidAnswer(answer.run or answer.user, answer.step, answer.text, Usage(**json.loads(answer.usage)))
        return None

    def put(self, key: str, answer: PaidAnswer) -> None:  # noqa: D102
        # An answer about a lesson hangs on no run and no user, and is forgotten with neither.
        run = answer.subject if self._about == "run" else ""
        user = answer.subject if self._about == "user" else ""
        kept = Answer(key, answer.step, run, answer.text, json.dumps(asdict(answer.usage)), user)
        self._lessons.put_answers([kept], namespace=self._namespace)
