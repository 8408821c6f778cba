"""Memory: the object users hold. It connects the parts and computes nothing itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from hepm.embed import Embedder
from hepm.embed.agreed import AgreedEmbedder
from hepm.errors import InputError, StoreUnavailableError
from hepm.graph.delta import said_text
from hepm.graph.doctor import Finding, examine
from hepm.graph.mirror import Mirror
from hepm.graph.namespace import NamespaceMirror
from hepm.graph.opening import open_store
from hepm.graph.reembed import reembed
from hepm.graph.store import Counting, Header, Selection, Store, ToolRow, Totals
from hepm.ingest import ReadOptions
from hepm.ingest.copying import Copied, copy_store
from hepm.ingest.hepm import write_run
from hepm.ingest.outbox import Outbox
from hepm.ingest.pipeline import IngestReport, Pipeline, Progress, deliver, parse_stored, replay_with
from hepm.ingest.prepare import IngestOptions, Source, prepare, source_of, without_secrets
from hepm.ingest.tools import read_tools
from hepm.ingest.transitions import situation_of
from hepm.ingest.turns import read_messages
from hepm.policy import Adaptive, Episodic, Hybrid, Policy, Procedural, Query
from hepm.types import DEFAULT_NAMESPACE, START, Recalled, StateSummary, Suggestions, Tool, ToolName, normal

if TYPE_CHECKING:
    import networkx as nx

    from hepm.agents.session import Session
    from hepm.experience.distilling.background import BackgroundDistiller
    from hepm.experience.experiences import Experiences
    from hepm.experience.library import Library
    from hepm.experience.preferences import Preferences
    from hepm.experience.principles import Principles
    from hepm.experience.prompt.recollection import PromptOptions
    from hepm.experience.prompt.render import Prompt

DEFAULT_STORE: Final = "memory.hepm"
DEFAULT_EMBEDDER: Final = "hepm/hash-512"
POLICIES: Final = {"procedural": Procedural, "episodic": Episodic, "adaptive": Adaptive, "hybrid": Hybrid}


class Memory:
    """A tool memory: runs in, suggestions out. Open it with `Memory.open`; it may be shared between threads."""

    def __init__(
        self,
        store: Store,
        embedder: str | Embedder | None = None,
        *,
        poll_s: float = 1.0,
        endpoint: tuple[str | None, str | None] = (None, None),
        outbox: str | PathLike[str] | None = None,
    ) -> None:
        self._outbox = None if outbox is None else Outbox(Path(outbox))
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
    ) -> Self:
        """Open a memory, making it when it is not there.

        Args:
            path: A file, a folder that then holds `memory.hepm`, or the address of a Neo4j server such as
                "neo4j://localhost:7687" or "neo4j://host/database".
            embedder: Name or object; None takes the store's own ("hepm/hash-512" for a new one).
            counting: "shortest" lets of a task's successful runs the shortest alone count (H-EPM, appendix D); None
                takes what the store was made with.
            poll_s: How often, in seconds, suggestions look for runs that other processes stored.
            endpoint: Base URL and key of an embeddings endpoint, for an embedder called "openai/MODEL".
            auth: User and password for a server; None takes NEO4J_USERNAME and NEO4J_PASSWORD, and NEO4J_DATABASE names
                the database where the address does not.
            outbox: A folder for a process that lives long: what it learns while the server does not answer waits there,
                and is delivered once, in order, when it is back. Without one such an ingest is an error.
        Raises:
            StoreError: the file cannot be read, or the server not reached (StoreUnavailableError, StoreAccessError).
            EmbedderMismatchError: the store holds another embedder's vectors.
        """
        store = open_store(path, counting=counting, auth=auth)
        try:
            return cls(store, embedder, poll_s=poll_s, endpoint=endpoint, outbox=outbox)
        except BaseException:
            store.close()
            raise

    # Learning

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
        """Read runs and store them; atomic batch by batch, and safe to repeat.

        Args:
            source: Files, folders, globs, archives or "-" for standard input; trajectories; or what a file of any
                format may hold, as dictionaries and lists. What cannot be read is in the report, and stops nothing.
            messages: One run as OpenAI chat messages, dictionaries or the SDK's objects, instead of `source`.
            id: Of the run of these messages; "" makes one of what they hold. A run with a known id and more
                messages is rejected in the report.
            task, environment, user, model: What else is known of that run.
            success, reward: How it ended; words such as "failed" or "no" are understood. Without a `success`, a reward
                of 1 means it, and without both it is stored and counts for nothing until it comes again with one.
            namespace: The partition they go into.
            options: How they are prepared; None for the defaults.
            tools: Descriptions and parameters that the records lack (see `suggest` for their forms).
            vectors: False stores state summaries without vectors, for `reembed` to catch up.
            on_batch: Called with the report so far after each batch.
        Raises:
            InputError: `messages` or `tools` are none, or both a source and messages are given.
        """
        if not namespace:
            raise InputError("a namespace needs a name")
        about = {"id": id, "task": task, "success": success, "reward": reward}
        about.update(environment=environment, user=user, model=model)
        source = source_of(source, messages, about, reading)
        described = [tool for tool in read_tools(tools) if tool.description or tool.parameters]
        # Made here, not once for all calls: its redactor remembers texts of users.
        options = IngestOptions() if options is None else options
        embedder = self._agreed_embedder() if vectors else None
        pipeline = Pipeline(self._store, embedder, namespace=namespace, outbox=self._outbox)
        try:
            clean = options.redactor
            pipeline.describe([tool if clean is None else without_secrets(tool, clean) for tool in described])
            return pipeline.run(prepare(source, reading, options), on_batch=on_batch)
        finally:
            self._mirror.catch_up(defer=True)

    def _deliver(self) -> None:
        if (
            self._outbox is not None
            and len(self._outbox)
            and deliver(self._outbox, self._store, self._agreed_embedder())
        ):
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
        """Remove runs that match every given part, and all they added; ids of the removed.

        With `dry_run` nothing is removed: the ids are those of the runs that would be.
        """
        selection = Selection(trajectory, environment, task, user)
        if dry_run:
            return self._store.selected(selection, namespace=namespace)
        embedder = self._agreed_embedder()
        try:
            return self._store.forget(
                selection, namespace=namespace, replay=replay_with(embedder), embedder=embedder.name
            )
        finally:
            self._mirror.catch_up()

    # What runs taught. Loaded when first asked for: a suggestion needs none of it.

    @cached_property
    def library(self) -> Library:
        """All lessons: to list, to export and import, to credit."""
        from hepm.experience.library import Library

        return Library(self._store, self._mirror, self._current_embedder, self._agreed_embedder)

    @cached_property
    def experiences(self) -> Experiences:
        """What each run taught (PRIME)."""
        from hepm.experience.experiences import Experiences

        return Experiences(self.library)

    @cached_property
    def principles(self) -> Principles:
        """Rules drawn from many runs (EvolveR)."""
        from hepm.experience.principles import Principles

        return Principles(self.library)

    @cached_property
    def preferences(self) -> Preferences:
        """What each user wants of the agent (MultiSessionCollab)."""
        from hepm.experience.preferences import Preferences

        return Preferences(self.library)

    def distil_soon(self, run: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Distil what a stored run and those of its task teach, on a thread that nobody waits for, without a model.

        A session does it when it finishes.
        """
        from hepm.experience.distilling.background import BackgroundDistiller

        with self._making:
            if self._distiller is None:
                self._distiller = BackgroundDistiller(lambda: (self.experiences, self.principles))
        self._distiller.add(run, namespace=namespace)

    def wait_distilled(self) -> None:
        """Return when the runs of `distil_soon` are distilled; `close` waits for it too."""
        if self._distiller is not None:
            self._distiller.wait()

    # Asking

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
        """One run of an agent with memory on: hints while it goes on, stored and learned from when it ends.

        Args:
            id: What the run is stored under; "" for one that is made.
            task: Id of the task. Runs of one task are compared: what parted those that failed from those that did not.
            user: Whose run it is: their notes are told, and the run is forgotten with them.
            environment: Where it takes place; experiences and principles of other ones are left out.
            model: Which one the agent runs on.
            system: The system prompt, where the messages do not hold it.
            tools: What the agent has, as names, OpenAI or MCP specifications; None for any. Only these are suggested.
            distil: Whether lessons are distilled from it when it has finished, on another thread, without a model.
            prompt_options: What goes into hints; None for the defaults.
            ingest_options: How the run is prepared before it is stored, redaction first of all; None for the defaults.
        """
        from hepm.agents.session import Session

        return Session(
            self,
            id=id,
            task=task,
            user=user,
            environment=environment,
            model=model,
            system=system,
            tools=tools,
            namespace=namespace,
            distil=distil,
            prompt_options=prompt_options,
            ingest_options=ingest_options,
        )

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
        """The tools to try next, best first, each with its reason; none where memory has no opinion.

        Args:
            messages: The conversation so far as OpenAI chat messages, dictionaries or the SDK's objects: `after`,
                `history` and `state` are read from it.
            after: Tool of the last turn, or several that were called in parallel; None before the first call.
            history: All calls so far, oldest first; the last one stands for `after` where that is not given.
            state: What the agent knows now, in a few lines.
            tools: Tools the agent has, as names, `Tool`s, OpenAI's or MCP's descriptions; None for all.
            k: At most so many (H-EPM: 2 is best).
            policy: "hybrid", "adaptive", "episodic", "procedural", or an object.
            c: Weight of efficiency in edge weights.
        """
        if messages is not None:
            now = situation_of(read_messages(messages))
            after, history, state = after or now.last, history or now.history, state or now.state()
        chosen = self._policy(policy, c) if isinstance(policy, str) else policy
        return chosen.suggest(self._mirror.namespace(namespace), self._query(after, history, state, tools, k))

    def _query(
        self,
        after: ToolName | Sequence[ToolName] | None,
        history: Sequence[ToolName],
        state: str | StateSummary | None,
        tools: Iterable[object] | None,
        k: int,
    ) -> Query:
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one suggestion")
        last = tuple(map(normal, (after,) if isinstance(after, str) else after or history[-1:])) or (START,)
        summary = StateSummary(own=state) if isinstance(state, str) else state
        text, said = (summary.text, said_text(summary)) if summary is not None else ("", "")
        wanted = [part for part in dict.fromkeys((text, said)) if part.strip()]
        vectors = dict(zip(wanted, self._current_embedder().embed(wanted), strict=True)) if wanted else {}
        called = tuple(tool for tool in last if tool != START)
        past = tuple(map(normal, history))
        if set(past[len(past) - len(called) :]) != set(called):
            past += called
        return Query(
            after=last,
            history=past,
            state=summary,
            vector=vectors.get(text),
            said_vector=vectors.get(said),
            tools=None if tools is None else frozenset(tool.name for tool in read_tools(tools)),
            k=k,
        )

    def _policy(self, name: str, c: float) -> Policy:
        found = self._policies.get((name, c))
        if found is None:
            if name not in POLICIES:
                raise InputError(f"no policy is called {name!r}; there are {', '.join(sorted(POLICIES))}")
            found = self._policies[name, c] = POLICIES[name](c=c)
        return found

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
        """What memory has to say now, for a prompt: notes, principles, experiences by zone, the next tools.

        Args:
            messages: The conversation so far as OpenAI chat messages, dictionaries or the SDK's objects; what the agent
                knows and called is read from it.
            state, after, history: The same, where there are no messages.
            tools: Tools the agent has; None for all.
            user: Whose notes are told.
            environment: Experiences and principles of other ones are left out; "" for none.
            turn, horizon: The agent's present turn, from 1, and the most it may take; the turn is read from messages.
            run: Id that the run will be stored under: what is told is remembered, and credited with its outcome.
            budget: At most about so many tokens.
            options: What goes into it; None for the defaults.
        """
        from hepm.experience.prompt.recollection import FURTHER, Moment, PromptOptions, recollect
        from hepm.experience.prompt.render import render

        options = options or PromptOptions()
        now = Moment.told(state, after, history, turn) if messages is None else Moment.after_messages(messages, turn)
        suggestions = Suggestions()
        if options.suggestions:
            suggestions = self.suggest(
                now.after,
                history=now.history,
                state=now.state if now.state.text else None,
                tools=tools,
                k=options.suggestions + FURTHER,
                policy=options.policy,
                namespace=namespace,
            )
        found = recollect(
            self.experiences,
            self.principles,
            self.preferences,
            now,
            suggestions,
            counts=partial(self._mirror.namespace(namespace).counts, now.after),
            namespace=namespace,
            user=user,
            environment=environment,
            horizon=horizon,
            options=options,
        )
        told = render(found, budget=budget, redact=options.redact)
        if run:
            self.library.show(run, told.lessons, namespace=namespace)
        return told

    def search(self, text: str, *, k: int = 5, namespace: str = DEFAULT_NAMESPACE) -> list[Recalled]:
        """What agents knew in the situations most like this one, over all tools, and what they did next; best first."""
        if not text.strip():
            raise InputError("there is nothing to search for: say what the agent knows")
        (vector,) = self._current_embedder().embed([text])
        found = self._store.search_states(vector, namespace=namespace, limit=k)
        return [
            Recalled(state.summary, state.sources, state.targets, cosine, state.count, state.trajectory)
            for state, cosine in found
        ]

    def graph(
        self, *, namespace: str = DEFAULT_NAMESPACE, c: float = 1.0, evidence: bool = False
    ) -> nx.DiGraph[ToolName]:
        """The tool graph as a NetworkX graph of its own, to keep and change (see `NamespaceMirror.graph`)."""
        return self._mirror.namespace(namespace).graph(c=c, evidence=evidence)

    def totals(self, *, namespace: str = DEFAULT_NAMESPACE) -> Totals:
        """How much a namespace holds."""
        return self._store.totals(namespace=namespace)

    def namespaces(self) -> list[str]:
        """Namespaces that hold anything."""
        return self._store.namespaces()

    def tools(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[ToolRow]:
        """Tools with their counts, by name."""
        return self._store.tools(namespace=namespace)

    @property
    def header(self) -> Header:
        """What the store says of itself: schema, embedder, revision."""
        return self._store.header

    def export(self, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[str]:
        """Every stored run as a line of hepm's own JSON, in order of arrival; `ingest` reads it back the same."""
        described = tuple(
            Tool(tool.name, tool.description, json.loads(tool.parameters))
            for tool in self._store.tools(namespace=namespace)
            if tool.description or tool.parameters != "{}"
        )
        for name, record, _ in self._store.iter_records(namespace=namespace):
            # The first run carries what is known of the tools.
            yield write_run(replace(parse_stored(name, record), tools=described)) if described else record
            described = ()

    # Keeping well

    def refresh(self) -> None:
        """See at once what other processes stored; otherwise a suggestion sees it within `poll_s` and a moment."""
        self._mirror.refresh()

    def follow_now(self) -> None:
        """Let the next suggestion know every run that was stored here, also of a large memory, where that takes some
        milliseconds on a thread after each `ingest`. A session does it when it finishes."""
        self._mirror.follow_now()

    def examine(self, *, namespace: str = DEFAULT_NAMESPACE) -> list[Finding]:
        """Compare all that is derived or copied with the records, and the mirror with the store; [] when all is well.

        Vectors of hashed words are made again and compared; of those of a model only the size and the length are.
        """
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
        """Copy namespaces into another memory, all by default; each is verified count by count at its end.

        Repeated, it goes on where it stopped. Lazy: nothing happens but as the results are taken.
        """
        wanted = self.namespaces() if namespaces is None else namespaces
        try:
            yield from copy_store(self._store, target._store, namespaces=wanted, on_progress=on_progress)
        finally:
            target._mirror.catch_up()

    def rebuild(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Make every count, state and vector again from the stored runs and lessons, in one transaction.

        Raises:
            StoreDamagedError: the record of a run cannot be read; the text names the run, and nothing was changed.
        """
        embedder = self._agreed_embedder()
        try:
            self._store.rebuild(namespace=namespace, replay=replay_with(embedder), embedder=embedder)
        finally:
            self._mirror.catch_up()

    def reembed(
        self, embedder: str | Embedder | None = None, *, on_progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Give every state a vector of this embedder, in all namespaces; only missing ones where it is the same.

        Interrupted, it goes on where it stopped when it is called again. Returns how many vectors were written.
        """
        try:
            mine = self._agreed_embedder() if embedder is None else self._embedder.change(embedder)
            return reembed(self._store, mine, on_progress=on_progress)
        finally:
            self._mirror.catch_up()

    def mirror(self, namespace: str = DEFAULT_NAMESPACE) -> NamespaceMirror:
        """The namespace's graph as policies see it."""
        return self._mirror.namespace(namespace)

    @property
    def embedder(self) -> Embedder:
        """What states are embedded by."""
        return self._embedder.now

    def _current_embedder(self) -> Embedder:
        """The embedder of the stored vectors, also after another process has embedded them anew."""
        return self._embedder.following(self._mirror.embedder)

    def _agreed_embedder(self) -> Embedder:
        """The embedder, once the store holds no other one's vectors; a new store takes its name."""
        try:
            return self._embedder.agreed()
        except StoreUnavailableError:
            if self._outbox is None:
                raise
            return self._embedder.now  # asked again when the runs are delivered

    def close(self) -> None:
        """Release the store; safe to call twice."""
        if self._distiller is not None:
            self._distiller.close()
        if "library" in self.__dict__:
            self.library.deliver()
        self._mirror.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
