"""Runs in a memory: ingest, sessions, labels, and forgetting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hepm.errors import InputError
from hepm.graph.rows import Selection
from hepm.ingest.records import ReadOptions, graded
from hepm.memory.opened import checked_holdout
from hepm.memory.recalling import RecallingMemory, as_tools
from hepm.types import (
    DEFAULT_NAMESPACE,
    RECORDED_BY,
    Trajectory,
)

if TYPE_CHECKING:
    from hepm.experience.prompt import PromptOptions
    from hepm.ingest.pipeline import IngestReport, ReportProgress
    from hepm.ingest.prepare import IngestOptions, RunSource
    from hepm.memory.journal import Kept, Stamp
    from hepm.memory.labels import Labels
    from hepm.memory.session import Session


class RecordingMemory(RecallingMemory):
    """Stores runs of agents. What reads and prepares them is imported on first use: a suggestion needs none of it."""

    def ingest(
        self,
        source: RunSource | Iterable[RunSource] | None = None,
        *,
        messages: Sequence[object] | None = None,
        id: str = "",
        task: str = "",
        success: bool | str | None = None,
        reward: float | None = None,
        environment: str = "",
        user: str = "",
        model: str = "",
        namespace: str = DEFAULT_NAMESPACE,
        reading: ReadOptions = ReadOptions(),  # frozen
        options: IngestOptions | None = None,
        tools: Iterable[object] = (),
        vectors: bool = True,
        on_batch: ReportProgress | None = None,
    ) -> IngestReport:
        """Read runs and store them. Each batch is atomic, and repeating an ingest changes nothing.

        A longer version of a stored run replaces it, unless it has another label. Files that did not change since they
        were read here are not read again, if their runs are still stored.

        Args:
            source: Files, folders, globs, archives or "-" for stdin; trajectories; or dictionaries and lists with the
                content of a file in any format. The report lists what could not be read.
            messages: One run as OpenAI chat messages (dictionaries or the SDK's objects), instead of `source`. Its
                facts are `id` ("" takes a hash of its content), `task`, `environment`, `user`, `model`, and its
                outcome: `success` (words such as "no" work too), or a `reward` (see `open`). Without an outcome,
                the run is not counted until it comes again with one.
            tools: Descriptions and parameters that are missing in the records (forms: see `suggest`).
            vectors: False stores state summaries without vectors; `reembed` adds them later.
            on_batch: Called with the report so far after each batch.
        Raises:
            InputError: `messages` or `tools` are invalid, or both `source` and `messages` are given.
        """
        from hepm.ingest.parallel import files_of, prepare
        from hepm.ingest.pipeline import Pipeline
        from hepm.ingest.prepare import IngestOptions, source_of
        from hepm.ingest.seen_files import SeenFiles

        if not namespace:
            raise InputError("a namespace needs a name")
        about = {"id": id, "task": task, "success": success, "reward": reward}
        about |= {"environment": environment, "user": user, "model": model}
        source = source_of(source, messages, about, reading)
        described = [tool for tool in as_tools(tools) if tool.description or tool.parameters]
        options = options or IngestOptions()  # created per call: its redactor caches texts of users
        embedder = self._agreed_embedder() if vectors else None
        grown = not isinstance(source, Trajectory)  # sessions do it themselves
        pipeline = Pipeline(
            self._store,
            embedder,
            namespace=namespace,
            outbox=self._outbox,
            replace_grown=grown,
            takes_carried=reading.format == "hepm",
        )
        try:
            clean = options.redactor
            known = [tool if clean is None else clean.tool(tool) for tool in described]
            files = None if self._seen_files is None or self._outbox is not None else files_of(source)
            if files is None or self._seen_files is None:
                return pipeline.run(prepare(source, reading, options, embedder), tools=known, on_batch=on_batch)
            seen = SeenFiles(self._seen_files, namespace, reading, options)
            fresh, same = seen.split(files, lambda ids: self._store.find_known(ids, namespace=namespace))
            pipeline.report.add_seen(same)
            read = seen.watch(prepare(fresh, reading, options, embedder))
            report = pipeline.run(read, tools=known, on_batch=seen.keep_and(on_batch))
            seen.keep(done=True)
            return report
        finally:
            self._mirror.catch_up(defer=True)

    def ingest_whole(
        self,
        run: Trajectory,
        shown: Sequence[str] = (),
        *,
        namespace: str = DEFAULT_NAMESPACE,
        options: IngestOptions | None = None,
    ) -> IngestReport:
        """`ingest` of a session's run, with the lessons it was shown.

        Its beginning may be stored without a label, as the session rested: it is replaced.
        """
        from hepm.ingest.redact import Redactor
        from hepm.memory.labels import given_label

        self.library.show(run.id, shown, namespace=namespace)
        report = self.ingest(run, namespace=namespace, options=options)
        before = self.run(run.id, namespace=namespace) if report.rejected else None
        if before is None or given_label(before) or len(before.turns) > len(run.turns):
            return report
        redactor = Redactor() if options is None else options.redactor
        clean = replace(run, turns=run.turns[: len(before.turns)])
        clean = clean if redactor is None else redactor(clean)
        if [(turn.role, turn.text) for turn in clean.turns] != [(turn.role, turn.text) for turn in before.turns]:
            return report
        self.forget(trajectory=run.id, namespace=namespace)
        self.library.show(run.id, shown, namespace=namespace)
        return self.ingest(run, namespace=namespace, options=options)

    def session(
        self,
        *,
        id: str = "",
        task: str = "",
        user: str = "",
        environment: str = "",
        model: str = "",
        system: str = "",
        tools: Iterable[object] | None = None,
        token: str = "",
        namespace: str = DEFAULT_NAMESPACE,
        distill: bool = True,
        prompt_options: PromptOptions | None = None,
        ingest_options: IngestOptions | None = None,
        tags: Mapping[str, str] | None = None,
        holdout: float | None = None,
    ) -> Session:
        """One run of an agent with memory: it gets hints, and is stored and learned from at its end.

        Args:
            user: Hints include this user's notes, and forgetting the user forgets the run.
            environment: Lessons of other environments are left out.
            system: The system prompt, if the messages do not contain it.
            tools: Only these are suggested (forms: see `suggest`); None for any.
            token: Name of the token that records the run at a server; `forget` finds it by that.
            distill: Whether to distill lessons when it has finished, on a background thread, without a model.
            tags: Other properties of the run, such as its `project`.
            holdout: The chance that it gets nothing from memory, as a control (see `open`). None for the memory's own.
        """
        from hepm.ingest.prepare import IngestOptions
        from hepm.memory.session import Session

        tags = {**(tags or {}), **({RECORDED_BY: token} if token else {})}
        run = Trajectory(id or uuid4().hex, (), environment=environment, task=task, model=model, user=user, tags=tags)
        own = None if tools is None else as_tools(tools)
        prepared = ingest_options or IngestOptions()
        share = self.holdout if holdout is None else checked_holdout(holdout)
        about: dict[str, Any] = {"holdout": share}
        return Session(self, run, system, own, namespace, distill, prompt_options, prepared, self._journal, **about)

    def resume(
        self, id: str, *, namespace: str = DEFAULT_NAMESPACE, ingest_options: IngestOptions | None = None
    ) -> Session | None:
        """The session that a crash or a restart left under way; None if there is none. It may go on or be finished."""
        from hepm.ingest.prepare import IngestOptions
        from hepm.memory.session import Session

        kept = None if self._journal is None else self._journal.find(namespace, id)
        if kept is None:
            return None
        options = ingest_options or IngestOptions()
        about: dict[str, Any] = {"holdout": self.holdout}
        own = kept.run.tools or None
        return Session(self, kept.run, "", own, namespace, True, None, options, self._journal, **about)

    def under_way(self, known: set[Stamp]) -> list[Kept]:
        """The sessions on disk that changed: those of running processes, and those that a crash or a restart left.

        Args:
            known: Stamps of the files that need not be read. Those of all files are in it afterwards.
        """
        return [] if self._journal is None else list(self._journal.changed(known))

    def why_not_kept(self) -> str:
        """Why sessions under way cannot be kept on disk now; "" if they can."""
        return "" if self._journal is None else self._journal.why_not_kept()

    def store_abandoned(self, *, idle_s: float = 1_800, options: IngestOptions | None = None) -> int:
        """Store unfinished sessions once they rest for `idle_s`; returns how many.

        A crash may have ended them. A rule may label them (`IngestOptions.outcome_by`); else they do not count until
        they are labelled. `session(id=…)` continues them.
        """
        stored = 0
        for kept in () if self._journal is None else self._journal.idle(idle_s):
            report = self.ingest_whole(kept.run, kept.shown, namespace=kept.namespace, options=options)
            if report.rejected and (rest := self._beyond_stored(kept)) is not None:
                report = self.ingest_whole(rest, kept.shown, namespace=kept.namespace, options=options)
            stored += report.stored
            kept.file.unlink(missing_ok=True)
            if report.by_rule:
                self.distill_soon(kept.run.id, namespace=kept.namespace)
        return stored

    def _beyond_stored(self, kept: Kept) -> Trajectory | None:
        """What a session has beyond the run that is stored under its id and stays, as a run of its own."""
        stored, number = self.run(kept.run.id, namespace=kept.namespace), 1
        if stored is None:
            return None
        pairs = zip(kept.run.turns, stored.turns, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if not any(turn.role != "system" for turn in kept.run.turns[same:]):
            return None
        while self.run(id := f"{kept.run.id}-{number + 1}", namespace=kept.namespace) is not None:
            number += 1
        return replace(kept.run, id=id, turns=kept.run.turns[same:])

    def run(self, id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Trajectory | None:
        """A stored run; None if there is none with this id."""
        from hepm.ingest.hepm import parse_stored

        record = self._store.records_of([id], namespace=namespace).get(id)
        return None if record is None else parse_stored(id, record)

    @cached_property
    def labels(self) -> Labels:
        """Outcomes of stored runs: which are unlabelled, and labels by rule or judge."""
        from hepm.memory.labels import Labels

        return Labels(self._store, self._agreed_embedder, lambda: self._mirror.catch_up(defer=True))

    def label(
        self,
        id: str,
        *,
        success: bool | None = None,
        reward: float | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        """Set or correct the outcome of a stored run. Without `success`, the reward decides (see `Memory.open`).

        Raises:
            NotFoundError: there is no such run.
        """
        self.labels.give(id, graded(reward, success), namespace=namespace)

    def forget(
        self,
        *,
        trajectory: str | None = None,
        task: str | None = None,
        user: str | None = None,
        environment: str | None = None,
        token: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        dry_run: bool = False,
    ) -> list[str]:
        """Remove the runs that match every given part, and everything they added; returns their ids.

        Args:
            token: Name of the token that recorded them at a server.
        """
        selection = Selection(trajectory, environment, task, user, token)
        if dry_run:
            return self._store.selected(selection, namespace=namespace)
        from hepm.ingest.pipeline import replay_with

        embedder = self._agreed_embedder()
        try:
            replay = replay_with(embedder)
            return self._store.forget(selection, namespace=namespace, replay=replay, embedder=embedder.name)
        finally:
            self.drop_prepared(namespace=namespace)
            self._mirror.catch_up()

    def runs(self, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[Trajectory]:
        """Every stored run, in order of arrival; lazy. StoreDamagedError names one that cannot be read."""
        from hepm.ingest.hepm import parse_stored

        for name, record, _ in self._store.iter_records(namespace=namespace):
            yield parse_stored(name, record)

    def export(self, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[str]:
        """Everything that a namespace holds and that cannot be made again, as lines of hepm's own JSON; lazy.

        `ingest` with `reading=ReadOptions("hepm")` reads it back into an equal memory: tools, runs, lessons, what was
        shown of them, reported outcomes and answers of models.
        """
        from hepm.ingest.exported import exported_lines

        return exported_lines(self._store, namespace=namespace)
