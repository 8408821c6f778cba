"""Write prepared runs into a store, and copy stored ones, in atomic batches: a crash costs at most the running one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from hepm.embed import Embedder
from hepm.graph.changes import replaces
from hepm.graph.delta import RunRecord
from hepm.graph.lessons.rows import PENDING, Answer, Exposure, LessonRow, Reported
from hepm.graph.rows import Aliases, Float32Array, Known, RecordParser, ToolRow
from hepm.graph.store import Store
from hepm.ingest.formats.exported import Carried, Content
from hepm.ingest.formats.hepm import parse_run, parse_stored, write_run
from hepm.ingest.joining import joined
from hepm.ingest.prepare import Prepared, run_of
from hepm.ingest.records import Rejection, Remark
from hepm.text import count_of
from hepm.types import Tool, ToolName, Trajectory

ReportProgress: TypeAlias = Callable[["IngestReport"], None]


@dataclass
class IngestReport:
    """What became of the records read.

    Attributes:
        duplicates: Runs that were stored before with equal content.
        unlabelled: Stored runs of unknown outcome, which do not count until they are labelled.
        without_calls: Stored runs in which no tool was called: nothing is learned from them.
        distrusted: Stored runs that do not count whatever their outcome, since they are not trusted.
        by_rule: Stored runs that a rule or a judge labelled, by its name.
        lessons: New lessons of an export.
        joined: Parts, or longer versions, of runs that were stored or read before: those hold them now.
        unread: Parts of messages that were left out, by their unknown type, with a run that has one.
    """

    read: int = 0
    stored: int = 0
    duplicates: int = 0
    unlabelled: int = 0
    without_calls: int = 0
    rejected: list[Rejection] = field(default_factory=list[Rejection])
    by_format: Counter[str] = field(default_factory=Counter[str])
    distrusted: int = 0
    by_rule: Counter[str] = field(default_factory=Counter[str])
    lessons: int = 0
    joined: int = 0
    unread: Counter[str] = field(default_factory=Counter[str])
    unread_in: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        stored = count_of(self.stored, "run")
        if self.lessons:
            stored += f" and {count_of(self.lessons, 'lesson')}"
        read = ", ".join([f"{count:,} {name}" for name, count in sorted(self.by_format.items())]) or "nothing"
        if self.joined:
            stored += f" ({count_of(self.joined, 'part')} joined)"
        return f"{stored} stored, {self.duplicates:,} known before; read: {read}"

    def note(self, rejection: Rejection) -> None:
        """Take a rejection or a remark."""
        if isinstance(rejection, Remark):
            self.unread.update(rejection.kinds)
            for kind in rejection.kinds:
                self.unread_in.setdefault(kind, f"{rejection.file}, run {rejection.record}")
        else:
            self.rejected.append(rejection)

    def add_seen(self, by_format: Counter[str]) -> None:
        """Count the runs of files that need not be read again."""
        self.read += by_format.total()
        self.duplicates += by_format.total()
        self.by_format += by_format

    def to_json(self) -> dict[str, object]:
        """As `hepm ingest --json` prints it."""
        values: dict[str, object] = dict(vars(self))
        return values | {"rejected": [asdict(rejection) for rejection in self.rejected]}


@dataclass(slots=True)
class Pipeline:
    """Writes runs into one namespace of a store.

    Attributes:
        embedder: Makes the vectors of state summaries; None stores summaries alone, for `reembed` to catch up.
        takes_carried: Whether what an export holds besides runs is stored, too.
        review: Whether the lessons of an export are pending until somebody approves them.
    """

    store: Store
    embedder: Embedder | None
    namespace: str
    takes_carried: bool = False
    review: bool = False
    report: IngestReport = field(default_factory=IngestReport)

    def run(
        self, items: Iterable[Prepared], *, tools: Sequence[Tool] = (), on_batch: ReportProgress | None = None
    ) -> IngestReport:
        """Set descriptions of tools, then store all runs that can be stored; bad records end up in the report."""
        if tools:
            self.store.describe(tools, namespace=self.namespace)
        runs: list[RunRecord] = []
        carried: list[Content] = []
        chars = 0  # of the records of these runs

        def write() -> None:
            nonlocal chars
            if runs:
                self._add(runs)
                if on_batch is not None:
                    on_batch(self.report)
            # After the runs: the lessons of an export name them.
            if carried:
                self._carry(carried)
            runs.clear()
            carried.clear()
            chars = 0

        for format_name, item in items:
            if format_name is not None:
                self.report.read += 1
                self.report.by_format[format_name] += 1
            if isinstance(item, RunRecord):
                if carried:
                    write()
                runs.append(item)
                chars += len(item.record)
            elif isinstance(item, Carried) and self.takes_carried:
                carried.append(item.content)
            else:
                self.report.note(item)
            # 2,000 transcripts of an afternoon each would take half a gigabyte.
            if max(len(runs), len(carried)) == self.store.runs_a_batch or chars > 16 << 20:
                write()
        write()
        return self.report

    def _carry(self, contents: Sequence[Content]) -> None:
        """Store what an export holds besides runs."""
        tools = [one for one in contents if isinstance(one, ToolRow)]
        if tools:
            self.store.copy_tools(tools, namespace=self.namespace, replay=replay_with(self.embedder))
        lessons: list[LessonRow] = []
        for one in contents:
            if isinstance(one, LessonRow):
                # The author of a file may claim of any lesson that runs taught it.
                pending = self.review and not one.retired and one.kind != "notes"
                lessons.append(replace(one, retired=PENDING) if pending else one)
        vectors = _vectors_of(dict.fromkeys([lesson.text for lesson in lessons]), self.embedder)
        self.report.lessons += self.store.lessons.carry(
            lessons,
            vectors,
            reported=[one for one in contents if isinstance(one, Reported)],
            exposures=[one for one in contents if isinstance(one, Exposure)],
            answers=[one for one in contents if isinstance(one, Answer)],
            namespace=self.namespace,
            embedder=self.embedder.name if self.embedder and vectors else None,
        )

    def _add(self, read: Sequence[RunRecord]) -> None:
        """Store runs in one transaction and report on them."""
        by_id: defaultdict[str, list[RunRecord]] = defaultdict(list)
        for run in read:
            by_id[run.id].append(run)
        runs: list[RunRecord] = []
        further: Counter[str] = Counter()  # parts of a run besides the first
        for run_id, parts in by_id.items():
            # The parts of a run are joined first: a session may come in a thousand.
            wholes = _joined_parts(parts)
            further[run_id] = len(parts) - len(wholes)
            # A run without a label has the one that its reward stands for, by the store's own threshold.
            runs += [whole.graded(self.store.header.success_from) for whole in wholes]
        known = self.store.find_known([*by_id], namespace=self.namespace)
        # What is stored already is not embedded again: that is most of the time of an ingest.
        new = [run for run in runs if run.id not in known or replaces(run, known[run.id])]
        added = self.store.add(
            runs,
            embed_texts(new, self.embedder),
            namespace=self.namespace,
            replay=replay_with(self.embedder),
            embedder=None if self.embedder is None else self.embedder.name,
            join=_whole_of,
        )
        report = self.report
        report.stored += len(added.stored)
        report.duplicates += len(added.duplicates) + sum([further.pop(run_id, 0) for run_id in added.duplicates])
        report.joined += len(added.joined) + further.total()
        for run in added.runs:
            report.distrusted += not run.trusted
            report.unlabelled += run.success is None and run.trusted
            report.without_calls += not run.transitions
            if run.outcome_by:
                report.by_rule[run.outcome_by] += 1
        for run in added.conflicts:
            reason = (
                f"a run with other content is stored under the id {run.id!r}, and stays as it is. If this is a longer "
                "version of it, forget that id and ingest again; if it is another run, give it an id of its own, or "
                "set ids = 'content' under [ingest] in hepm.toml (ReadOptions(ids='content')) to tell all runs apart "
                "by what they hold"
            )
            report.rejected.append(Rejection(run.source or "(a run that names no file)", run.id, reason))


def _joined_parts(parts: list[RunRecord]) -> list[RunRecord]:
    """The one run that some parts are, joined; the parts as they are where they are none."""
    if len({part.digest for part in parts}) < 2:
        return parts
    whole = joined([replace(parse_run(part.record), tools=part.tools) for part in parts])
    if whole is None:
        return parts
    return [run_of(whole, write_run(replace(whole, tools=())))]


def _whole_of(run: RunRecord, known: Known, record: str) -> str | None:
    """The record of a run joined with the one stored under its id; None for another run."""
    before = parse_stored(run.id, record)
    # From the records: the texts of both have been cut and redacted the same way.
    after = parse_run(run.record)
    whole = joined([before, after])
    if whole is not None:
        return write_run(whole)
    may_be_replaced = known.derived or known.success == run.success
    if known.success is None:
        may_be_replaced = not known.derived  # else its label was removed by hand
    return run.record if may_be_replaced and _continues(after, before) else None


def _continues(after: Trajectory, before: Trajectory) -> bool:
    """Whether a run is a longer version of another: it has its calls, and its user said the same, and more follows."""
    texts, tools = _said_and_called(before)
    more_texts, more_tools = _said_and_called(after)
    is_longer = len(after.turns) + len(more_tools) > len(before.turns) + len(tools)
    return is_longer and more_tools[: len(tools)] == tools and more_texts[: len(texts)] == texts


def _said_and_called(run: Trajectory) -> tuple[list[str], list[ToolName]]:
    """What the user said, and the agent's calls, the refused ones included."""
    texts = [turn.text for turn in run.turns if turn.role == "user"]
    return texts, [call.name for turn in run.turns if turn.role != "user" for call in turn.calls]


def embed_texts(runs: Iterable[RunRecord], embedder: Embedder | None) -> dict[str, Float32Array]:
    """A vector for each distinct text: the state summaries of labelled runs, and the users' messages of all."""
    # A dictionary as a set that keeps its order: the same runs are embedded in the same batches each time.
    texts: dict[str, None] = {}
    for run in runs:
        if run.success is not None or run.reward is not None:
            texts |= dict.fromkeys([transition.summary for transition in run.transitions])
        if run.said:
            texts[run.said] = None
    return _vectors_of(texts, embedder)


def _vectors_of(texts: Collection[str], embedder: Embedder | None) -> dict[str, Float32Array]:
    if embedder is None or not texts:
        return {}
    return dict(zip(texts, embedder.embed([*texts]), strict=True))


class _TextVectors(Mapping[str, Float32Array]):
    """The vectors of the texts of runs, embedded on first use: a store that only subtracts runs needs none."""

    def __init__(self, runs: Sequence[RunRecord], embedder: Embedder | None) -> None:
        self._runs = runs
        self._embedder = embedder

    @cached_property
    def _vectors(self) -> dict[str, Float32Array]:
        return embed_texts(self._runs, self._embedder)

    def __getitem__(self, text: str) -> Float32Array:
        return self._vectors[text]

    def __iter__(self) -> Iterator[str]:
        return iter(self._vectors)

    def __len__(self) -> int:
        return len(self._vectors)


def replay_with(embedder: Embedder | None) -> RecordParser:
    """How a store reads its own records again."""

    def replay(
        records: Sequence[str], aliases: Aliases | None = None, /
    ) -> tuple[Sequence[RunRecord], Mapping[str, Float32Array]]:
        runs = [run_of(parse_run(record), record, aliases=aliases) for record in records]
        return runs, _TextVectors(runs, embedder)

    return replay
