"""Memory: the object users hold. It connects the parts and computes nothing itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Self
from uuid import uuid4

from hepm.embed import Embedder
from hepm.embed.models import AgreedEmbedder
from hepm.errors import InputError, StoreUnavailableError
from hepm.graph.delta import said_text
from hepm.graph.doctor import Finding, examine
from hepm.graph.mirror import Mirror
from hepm.graph.namespace import NamespaceMirror
from hepm.graph.open_store import embedded_file, open_store
from hepm.graph.rows import Counting, Header, Selection, ToolRow, Totals
from hepm.graph.store import Store
from hepm.graph.tool_life import ToolNames
from hepm.ingest import ReadOptions
from hepm.ingest.chat import read_messages
from hepm.ingest.hepm import write_run
from hepm.ingest.pipeline import (
    Copied,
    IngestReport,
    Outbox,
    Pipeline,
    Progress,
    copy_store,
    deliver,
    parse_stored,
    replay_with,
)
from hepm.ingest.prepare import IngestOptions, Source, files_of, prepare, source_of
from hepm.ingest.records import graded
from hepm.ingest.redact import Redactor
from hepm.ingest.seen_files import SeenFiles
from hepm.ingest.tools import read_tools
from hepm.ingest.transitions import agent_state
from hepm.memory.journal import Journal, Kept, Stamp
from hepm.memory.labels import Labels, given_label
from hepm.memory.session import Session
from hepm.policy import Adaptive, Episodic, Hybrid, Policy, Procedural, Query
from hepm.types import (
    DEFAULT_NAMESPACE,
    START,
    Recalled,
    StateSummary,
    Suggestions,
    Tool,
    ToolName,
    Trajectory,
    normal,
)

if TYPE_CHECKING:
    import networkx as nx

    from hepm.experience.distilling import BackgroundDistiller
    from hepm.experience.experiences import Experiences
    from hepm.experience.library import Library
    from hepm.experience.preferences import Preferences
    from hepm.experience.principles import Principles
    from hepm.experience.prompt import Prompt, PromptOptions

DEFAULT_STORE: Final = "memory.hepm"
DEFAULT_EMBEDDER: Final = "hepm/hash-512"
POLICIES: Final = {"procedural": Procedural, "episodic": Episodic, "adaptive": Adaptive, "hybrid": Hybrid}


class Memory:
    """A tool memory: runs in, suggestions out. Open it with `Memory.open`. Threads may share it."""

    def __init__(
        self,
        store: Store,
        embedder: str | Embedder | None = None,
        *,
        poll_s: float = 1.0,
        endpoint: tuple[str | None, str | None] = (None, None),
        outbox: str | PathLike[str] | None = None,
        sessions: str | PathLike[str] | None = None,
        seen_files: str | PathLike[str] | None = None,
    ) -> None:
        self._outbox = None if outbox is None else Outbox(Path(outbox))
        self._journal = None if sessions is None else Journal(Path(sessions))
        self._seen_files = None if seen_files is None else Path(seen_files)
        self._store = store
        self._embedder = AgreedEmbedder(store, embedder, default=DEFAULT_EMBEDDER, endpoint=endpoint)
        self._mirror = Mirror(store, poll_s=poll_s, on_contact=None if self._outbox is None else self._deliver)
        self._distiller: BackgroundDistiller | None = None
        self._making = Lock()
        self._policies: dict[tuple[str, float], Policy] = {}

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] = DEFAULT_STORE,
        *,
        embedder: str | Embedder | None = None,
        counting: Counting | None = None,
        poll_s: float = 1.0,
        endpoint: tuple[str | None, str | None] = (None, None),
        auth: tuple[str, str] | None = None,
        outbox: str | PathLike[str] | None = None,
        sessions: str | PathLike[str] | None = None,
    ) -> Self:
        """Open a memory; create it if it does not exist.

        Args:
            path: A file, a folder that contains `memory.hepm`, or an address such as "neo4j://host:7687/database".
            embedder: Name or object. Default: the store's own ("hepm/hash-512" for a new store).
            counting: "shortest" counts only the shortest success of each task (H-EPM, D). Default: the store's own.
            poll_s: Interval in seconds at which suggestions look for runs stored by other processes.
            endpoint: Base URL and key of an embeddings endpoint, for the embedder "openai/MODEL".
            auth: User and password for a server. Default: NEO4J_USERNAME and NEO4J_PASSWORD.
            outbox: A folder where new runs wait while the server is down, to be stored once, in order, when it is back.
            sessions: A folder that keeps sessions under way, so that a crash loses at most the turn under way. Default:
                beside the file; none for a server.
        Raises:
            StoreError: the file cannot be read, or the server not reached (StoreUnavailableError, StoreAccessError).
            EmbedderMismatchError: the store holds another embedder's vectors.
        """
        store = open_store(path, counting=counting, auth=auth)
        try:
            file = embedded_file(path)
            if sessions is None and file is not None:
                sessions = file.with_name(f"{file.name}-sessions")
            seen = None if file is None else file.with_name(f"{file.name}-files")
            about = {"outbox": outbox, "sessions": sessions, "seen_files": seen}
            return cls(store, embedder, poll_s=poll_s, endpoint=endpoint, **about)
        except BaseException:
            store.close()
            raise

    def ingest(
        self,
        source: Source | Iterable[Source] | None = None,
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
        on_batch: Progress | None = None,
    ) -> IngestReport:
        """Read runs and store them. Each batch is atomic, and repeating an ingest changes nothing.

        A longer version of a stored run replaces it, unless it has another label. Files that did not change since they
        were read here are not read again, if their runs are still stored.

        Args:
            source: Files, folders, globs, archives or "-" for stdin; trajectories; or dictionaries and lists with the
                content of a file in any format. The report lists what could not be read.
            messages: One run as OpenAI chat messages (dictionaries or the SDK's objects), instead of `source`. Its
                facts are `id` ("" takes a hash of its content), `task`, `environment`, `user`, `model`, and its
                outcome: `success` (words such as "no" work too), or a `reward`, where 1 is a success. Without an
                outcome, the run is not counted until it comes again with one.
            tools: Descriptions and parameters that are missing in the records (forms: see `suggest`).
            vectors: False stores state summaries without vectors; `reembed` adds them later.
            on_batch: Called with the report so far after each batch.
        Raises:
            InputError: `messages` or `tools` are invalid, or both `source` and `messages` are given.
        """
        if not namespace:
            raise InputError("a namespace needs a name")
        about = {"id": id, "task": task, "success": success, "reward": reward}
        about |= {"environment": environment, "user": user, "model": model}
        source = source_of(source, messages, about, reading)
        described = [tool for tool in read_tools(tools) if tool.description or tool.parameters]
        options = options or IngestOptions()  # created per call: its redactor caches texts of users
        embedder = self._agreed_embedder() if vectors else None
        grown = not isinstance(source, Trajectory)  # sessions do it themselves
        pipeline = Pipeline(self._store, embedder, namespace=namespace, outbox=self._outbox, replace_grown=grown)
        try:
            clean = options.redactor
            known = [tool if clean is None else clean.tool(tool) for tool in described]
            files = None if self._seen_files is None or self._outbox is not None else files_of(source)
            if files is None or self._seen_files is None:
                return pipeline.run(prepare(source, reading, options), tools=known, on_batch=on_batch)
            seen = SeenFiles(self._seen_files, namespace, reading, options)
            fresh, same = seen.split(files, lambda ids: self._store.find_known(ids, namespace=namespace))
            pipeline.report.add_seen(same)

            def stored(report: IngestReport) -> None:
                seen.keep(done=False)
                if on_batch is not None:
                    on_batch(report)

            report = pipeline.run(seen.watch(prepare(fresh, reading, options)), tools=known, on_batch=stored)
            seen.keep(done=True)
            return report
        finally:
            self._mirror.catch_up(defer=True)

    def _deliver(self) -> None:
        box = self._outbox
        if box is not None and len(box) and deliver(box, self._store, self._agreed_embedder()):
            self._mirror.catch_up(defer=True)

    def forget(
        self,
        *,
        trajectory: str | None = None,
        task: str | None = None,
        user: str | None = None,
        environment: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        dry_run: bool = False,
    ) -> list[str]:
        """Remove the runs that match every given part, and everything they added; returns their ids."""
        selection = Selection(trajectory, environment, task, user)
        if dry_run:
            return self._store.selected(selection, namespace=namespace)
        embedder = self._agreed_embedder()
        try:
            replay = replay_with(embedder)
            return self._store.forget(selection, namespace=namespace, replay=replay, embedder=embedder.name)
        finally:
            self._mirror.catch_up()

    # Lessons. Imported on first use: a suggestion needs none of this.

    @cached_property
    def library(self) -> Library:
        """All lessons: list, export, import, credit."""
        from hepm.experience.library import Library

        return Library(self._store, self._mirror, self._current_embedder, self._agreed_embedder)

    @cached_property
    def experiences(self) -> Experiences:
        """What each run taught (PRIME)."""
        from hepm.experience.experiences import Experiences

        return Experiences(self.library)

    @cached_property
    def principles(self) -> Principles:
        """Rules that many runs taught (EvolveR)."""
        from hepm.experience.principles import Principles

        return Principles(self.library)

    @cached_property
    def preferences(self) -> Preferences:
        """What each user wants of the agent (MultiSessionCollab)."""
        from hepm.experience.preferences import Preferences

        return Preferences(self.library)

    def distil_soon(self, run: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Distil a stored run and the other runs of its task on a background thread, as finished sessions do."""
        from hepm.experience.distilling import BackgroundDistiller

        with self._making:
            if self._distiller is None:
                self._distiller = BackgroundDistiller(lambda: (self.experiences, self.principles))
        self._distiller.add(run, namespace=namespace)

    def wait_distilled(self) -> None:
        """Wait until the runs of `distil_soon` are distilled. `close` waits too."""
        if self._distiller is not None:
            self._distiller.wait()

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
        namespace: str = DEFAULT_NAMESPACE,
        distil: bool = True,
        prompt_options: PromptOptions | None = None,
        ingest_options: IngestOptions | None = None,
    ) -> Session:
        """One run of an agent with memory: it gets hints, and is stored and learned from at its end.

        Args:
            user: Hints include this user's notes, and forgetting the user forgets the run.
            environment: Lessons of other environments are left out.
            system: The system prompt, if the messages do not contain it.
            tools: Only these are suggested (forms: see `suggest`); None for any.
            distil: Whether to distil lessons when it has finished, on a background thread, without a model.
        """
        run = Trajectory(id or uuid4().hex, (), environment=environment, task=task, model=model, user=user)
        own = None if tools is None else read_tools(tools)
        prepared = ingest_options or IngestOptions()
        return Session(self, run, system, own, namespace, distil, prompt_options, prepared, self._journal)

    def resume(self, id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Session | None:
        """The session that a crash or a restart left under way; None if there is none. It may go on or be finished."""
        kept = None if self._journal is None else self._journal.find(namespace, id)
        if kept is None:
            return None
        return Session(
            self, kept.run, "", kept.run.tools or None, namespace, True, None, IngestOptions(), self._journal
        )

    def under_way(self, known: set[Stamp]) -> list[Kept]:
        """The sessions on disk that changed: those of running processes, and those that a crash or a restart left.

        Args:
            known: Stamps of the files that need not be read. Those of all files are in it afterwards.
        """
        return [] if self._journal is None else list(self._journal.changed(known))

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
                self.distil_soon(kept.run.id, namespace=kept.namespace)
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
        record = self._store.records_of([id], namespace=namespace).get(id)
        return None if record is None else parse_stored(id, record)

    @cached_property
    def labels(self) -> Labels:
        """Outcomes of stored runs: which are unlabelled, and labels by rule or judge."""
        return Labels(self._store, self._agreed_embedder, lambda: self._mirror.catch_up(defer=True))

    def label(
        self,
        id: str,
        *,
        success: bool | None = None,
        reward: float | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        """Set or correct the outcome of a stored run. Without `success`, a reward of 1 or more is a success.

        Raises:
            NotFoundError: there is no such run.
        """
        self.labels.give(id, graded(reward, success), namespace=namespace)

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
        self.library.show(run.id, shown, namespace=namespace)
        report = self.ingest(run, namespace=namespace, options=options)
        before = self.run(run.id, namespace=namespace) if report.rejected else None
        if before is None or given_label(before) or len(before.turns) > len(run.turns):
            return report
        clean = Redactor()(replace(run, turns=run.turns[: len(before.turns)]))
        if [(turn.role, turn.text) for turn in clean.turns] != [(turn.role, turn.text) for turn in before.turns]:
            return report
        self.forget(trajectory=run.id, namespace=namespace)
        self.library.show(run.id, shown, namespace=namespace)
        return self.ingest(run, namespace=namespace, options=options)

    def suggest(
        self,
        after: ToolName | Sequence[ToolName] | None = None,
        *,
        messages: Sequence[object] | None = None,
        history: Sequence[ToolName] = (),
        state: str | StateSummary | None = None,
        tools: Iterable[object] | None = None,
        k: int = 2,
        policy: str | Policy = "hybrid",
        c: float = 1.0,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Suggestions:
        """The tools to try next, best first, each with its reason. Empty if memory has no opinion.

        Args:
            after: Tool of the last turn, or several parallel ones. None before the first call.
            messages: The conversation so far as OpenAI chat messages (dictionaries or the SDK's objects), from which
                `after`, `history` and `state` are read.
            history: All calls so far, oldest first. Without `after`, the last one is used.
            state: What the agent knows now, in a few lines.
            tools: Tools the agent has, as names, `Tool`s, OpenAI or MCP specifications. None for all. A tool with
                aliases is suggested by the name that the agent has it under.
            k: Maximum number of tools (H-EPM: 2 is best).
            policy: "hybrid", "adaptive", "episodic", "procedural", or a policy object.
            c: Weight of efficiency in edge weights.
        """
        if messages is not None:
            now = agent_state(read_messages(messages))
            after, history, state = after or now.last, history or now.history, state or now.state()
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one suggestion")
        if isinstance(policy, str):
            if policy not in POLICIES:
                raise InputError(f"no policy is called {policy!r}; there are {', '.join(sorted(POLICIES))}")
            if (policy, c) not in self._policies:
                self._policies[policy, c] = POLICIES[policy](c=c)
            policy = self._policies[policy, c]
        mirror = self._mirror.namespace(namespace)
        last = (after,) if isinstance(after, str) else tuple(after or history[-1:]) or (START,)
        available = None if tools is None else [tool.name for tool in read_tools(tools)]
        names = ToolNames.of(mirror.marks, map(normal, (*history, *last)), available or ())
        last, past = tuple(map(names.own, last)), tuple(map(names.own, history))
        summary = StateSummary(own=state) if isinstance(state, str) else state
        if summary is not None and names.aliases:
            summary = replace(summary, tools=tuple(map(names.own, summary.tools)))
        text, said = (summary.text, said_text(summary)) if summary is not None else ("", "")
        texts = [part for part in dict.fromkeys((text, said)) if part.strip()]
        vectors = dict(zip(texts, self._current_embedder().embed(texts), strict=True)) if texts else {}
        called = tuple(tool for tool in last if tool != START)
        if set(past[len(past) - len(called) :]) != set(called):
            past += called
        query = Query(
            after=last,
            history=past,
            state=summary,
            vector=vectors.get(text),
            said_vector=vectors.get(said),
            tools=None if available is None else frozenset(map(names.own, available)),
            k=k,
            names=names,
        )
        return query.answer(policy.suggest(mirror, query))

    def prompt(
        self,
        messages: Sequence[object] | None = None,
        *,
        state: str = "",
        after: ToolName | Sequence[ToolName] | None = None,
        history: Sequence[ToolName] = (),
        tools: Iterable[object] | None = None,
        user: str = "",
        environment: str = "",
        turn: int = 0,
        horizon: int = 0,
        run: str = "",
        budget: int = 1_000,
        options: PromptOptions | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Prompt:
        """The text for an agent's prompt now: notes, principles, experiences by zone, the next tools.

        Args:
            messages, state, after, history, tools: The conversation so far, as for `suggest`.
            user: The user whose notes to include.
            environment: Leave out lessons of other environments.
            turn, horizon: The agent's current turn, from 1, and its maximum number of turns. `messages` give the turn.
            run: Id that the run will be stored under. The lessons shown are then credited with its outcome.
            budget: Maximum number of tokens, approximately.
        """
        from hepm.experience.prompt import FURTHER, Moment, PromptOptions, recollect, render

        options = options or PromptOptions()
        now = Moment.of(messages, state, after, history, turn)
        own = None if tools is None else read_tools(tools)
        mirror = self._mirror.namespace(namespace)
        names = ToolNames.of(mirror.marks, map(normal, (*now.history, *now.after)), [tool.name for tool in own or ()])
        last = tuple(map(names.own, now.after))
        suggestions = Suggestions()
        if options.suggestions:
            suggestions = self.suggest(
                now.after,
                history=now.history,
                state=now.state if now.state.text else None,
                tools=own,
                k=options.suggestions + FURTHER,
                policy=options.policy,
                namespace=namespace,
            )
        found = recollect(
            self.library,
            now,
            suggestions,
            counts=lambda tool: mirror.counts(last, names.own(tool)),
            names=names,
            namespace=namespace,
            user=user,
            environment=environment,
            horizon=horizon,
            options=options,
        )
        prompt = render(found, budget=budget, redact=options.redact)
        if run:
            self.library.show(run, prompt.lessons, namespace=namespace)
        return prompt

    def search(self, text: str, *, k: int = 5, namespace: str = DEFAULT_NAMESPACE) -> list[Recalled]:
        """The states most similar to a text, over all tools, and what agents did next; best first."""
        if not text.strip():
            raise InputError("there is nothing to search for: say what the agent knows")
        (vector,) = self._current_embedder().embed([text])
        return [
            Recalled(state.summary, state.sources, state.targets, cosine, state.count, state.trajectory)
            for state, cosine in self._store.search_states(vector, namespace=namespace, limit=k)
        ]

    def graph(self, *, namespace: str = DEFAULT_NAMESPACE, c: float = 1.0) -> nx.DiGraph[ToolName]:
        """A copy of the tool graph as a NetworkX graph, yours to change (see `NamespaceMirror.graph`)."""
        return self._mirror.namespace(namespace).graph(c=c)

    def totals(self, *, namespace: str = DEFAULT_NAMESPACE) -> Totals:
        """Counts of what a namespace holds."""
        return self._store.totals(namespace=namespace)

    def namespaces(self) -> list[str]:
        """Names of all namespaces that are not empty."""
        return self._store.namespaces()

    def tools(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[ToolRow]:
        """Tools with their counts, by name."""
        return self._store.tools(namespace=namespace)

    def add_alias(self, alias: ToolName, tool: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Make `alias` another name of `tool`: all that was counted under it is counted under `tool`.

        Raises:
            InputError: there is no such tool, or the alias belongs to another one.
        """
        self._change_names(partial(self._store.add_alias, alias, tool), namespace)

    def rename_tool(self, tool: ToolName, name: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Give a tool a new name; its former one becomes an alias. InputError if another tool has that name."""
        self._change_names(partial(self._store.add_alias, tool, name, rename=True), namespace)

    def remove_alias(self, alias: ToolName, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Make an alias a tool of its own again; InputError if it is none."""
        self._change_names(partial(self._store.remove_alias, alias), namespace)

    def _change_names(self, change: Callable[..., None], namespace: str) -> None:
        embedder = self._agreed_embedder()
        try:
            change(namespace=namespace, replay=replay_with(embedder), embedder=embedder.name)
        finally:
            self._mirror.catch_up()

    def retire_tool(self, tool: ToolName, *, retired: bool = True, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Never suggest a tool again, or with `retired=False` suggest it as before; InputError if it is unknown.

        What is known of it stays.
        """
        try:
            self._store.retire(tool, retired=retired, namespace=namespace)
        finally:
            self._mirror.catch_up()

    @property
    def lost_since(self) -> float | None:
        """Since when the store has not answered, Unix seconds; None while it does. It is noticed within `poll_s`."""
        self._mirror.poll()
        return self._mirror.lost_since

    @property
    def header(self) -> Header:
        """The store's metadata: schema, embedder, revision."""
        return self._store.header

    def export(self, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[str]:
        """Every stored run as a line of hepm's own JSON, in order of arrival. `ingest` reads it back unchanged."""
        described = tuple(
            Tool(tool.name, tool.description, json.loads(tool.parameters), tool.aliases, tool.retired)
            for tool in self._store.tools(namespace=namespace)
            if tool.description or tool.parameters != "{}" or tool.aliases or tool.retired
        )
        for name, record, _ in self._store.iter_records(namespace=namespace):
            # The first run carries the descriptions of all tools.
            yield write_run(replace(parse_stored(name, record), tools=described)) if described else record
            described = ()

    def refresh(self, *, defer: bool = False) -> None:
        """See at once what other processes stored, and not only after about `poll_s`.

        Args:
            defer: Leave what is slow in a large memory, and what only suggestions need, to a background thread.
        """
        self._mirror.refresh(defer=defer)

    def follow_now(self) -> None:
        """Wait until the next suggestion knows every run stored here: some milliseconds in a large memory."""
        self._mirror.follow_now()

    def examine(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[Finding]:
        """Compare derived data with the records, and the mirror with the store; vectors of a model only by size."""
        self._mirror.refresh()
        mirror = self._mirror.namespace(namespace)
        embedder = self._embedder.now if self._store.header.embedder.startswith("hepm/") else None
        return examine(self._store, mirror, namespace=namespace, replay=replay_with(None), embedder=embedder)

    def copy_to(
        self,
        target: Memory,
        *,
        namespaces: Sequence[str] | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Iterator[Copied]:
        """Copy namespaces, all by default, into another memory, and compare the counts of each. Lazy."""
        names = self.namespaces() if namespaces is None else namespaces
        try:
            yield from copy_store(self._store, target._store, namespaces=names, on_progress=on_progress)
        finally:
            target._mirror.catch_up()

    def rebuild(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Recompute every count, state and vector from the stored runs and lessons, in one transaction.

        Raises:
            StoreDamagedError: the record of a run cannot be read, and nothing was changed.
        """
        embedder = self._agreed_embedder()
        try:
            self._store.rebuild(namespace=namespace, replay=replay_with(embedder), embedder=embedder)
        finally:
            self._mirror.catch_up()

    def reembed(
        self, embedder: str | Embedder | None = None, *, on_progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Compute the vectors of all states, only missing ones if the embedder is the same; returns how many."""
        try:
            mine = self._agreed_embedder() if embedder is None else self._embedder.change(embedder)
            return self._store.reembed(mine, on_progress=on_progress)
        finally:
            self._mirror.catch_up()

    def mirror(self, namespace: str = DEFAULT_NAMESPACE) -> NamespaceMirror:
        """The namespace's graph as policies see it."""
        return self._mirror.namespace(namespace)

    @property
    def embedder(self) -> Embedder:
        """The embedder of the states."""
        return self._embedder.now

    def _current_embedder(self) -> Embedder:
        return self._embedder.following(self._mirror.embedder)

    def _agreed_embedder(self) -> Embedder:
        try:
            return self._embedder.agreed()
        except StoreUnavailableError:
            if self._outbox is None:
                raise
            return self._embedder.now  # checked again when the runs are delivered

    def close(self) -> None:
        """Release the store; safe to call twice."""
        if self._distiller is not None:
            self._distiller.close()
        if "library" in self.__dict__:
            self.library.deliver()
        self._mirror.close()
        self._store.close()
        self._embedder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
