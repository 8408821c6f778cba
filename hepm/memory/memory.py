"""Memory, the object users hold: runs go in, answers come out. It connects the parts and computes nothing itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from hepm.errors import InputError
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Selection, Totals
from hepm.graph.tool_life import ToolNames
from hepm.ingest.records import ReadOptions, graded
from hepm.ingest.tools import read_tools
from hepm.memory.opened import OpenedMemory, checked_holdout
from hepm.memory.query import query_of
from hepm.policy import Floors, Policy, floors_of, policy_named
from hepm.policy.query import without_refused
from hepm.types import (
    DEFAULT_NAMESPACE,
    RECORDED_BY,
    USER,
    LastTools,
    Messages,
    Recalled,
    Speak,
    StateSummary,
    Suggestions,
    ToolName,
    Trajectory,
    normal,
)

if TYPE_CHECKING:
    import networkx as nx

    from hepm.cypher.model import Result
    from hepm.embed import Embedder
    from hepm.evidence.upkeep import LiveEvidence
    from hepm.experience.moment import Moment
    from hepm.experience.prompt import Prompt, PromptOptions
    from hepm.graph.examination import ExaminationProgress, Finding
    from hepm.ingest.copying import Copied
    from hepm.ingest.pipeline import IngestReport, ReportProgress
    from hepm.ingest.prepare import IngestOptions, RunSource
    from hepm.memory.session import Session
    from hepm.memory.shortlist import Shortlist, Shortlists
    from hepm.report.report import Report


class Memory(OpenedMemory):
    """A tool memory: runs in, suggestions out. Open it with `Memory.open`. Threads may share it.

    How it is opened and what its parts are stands in `hepm.memory.opened`. What only some calls need, such as readers
    and lessons, is imported on first use.
    """

    @cached_property
    def shortlists(self) -> Shortlists:
        """The lists of tools behind `shortlist`: search in them, and how many sessions missed a tool."""
        from hepm.memory.shortlist import Shortlists

        return Shortlists(self)

    # Runs

    def ingest(
        self,
        source: RunSource | Iterable[RunSource],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        reading: ReadOptions = ReadOptions(),  # frozen
        options: IngestOptions | None = None,
        tools: Iterable[object] = (),
        on_batch: ReportProgress | None = None,
    ) -> IngestReport:
        """Read runs and store them. Each batch is atomic, and repeating an ingest changes nothing.

        A longer version of a stored run replaces it, unless it has another label. Files that did not change since they
        were read here are not read again, if their runs are still stored.

        Args:
            source: Files, folders, globs, archives or "-" for stdin; trajectories, of which `hepm.from_messages` makes
                one; or dictionaries and lists with the content of a file in any format. The report lists what could
                not be read.
            tools: Descriptions and parameters that are missing in the records (forms: see `suggest`).
            on_batch: Called with the report so far after each batch.
        Raises:
            InputError: `tools` are invalid, or `source` is the bare messages of one run.
        """
        from hepm.ingest.pipeline import Pipeline
        from hepm.ingest.prepare import IngestOptions, files_of, prepare
        from hepm.ingest.seen_files import SeenFiles

        if not namespace:
            raise InputError("a namespace needs a name")
        options = options or IngestOptions()  # created per call: its redactor caches texts of users
        described = [tool for tool in read_tools(tools) if tool.description or tool.parameters]
        if options.redactor is not None:
            described = [options.redactor.tool(tool) for tool in described]
        embedder = None
        if options.vectors:
            embedder = self._embedder.agreed()
        takes_carried = reading.format == "hepm"
        pipeline = Pipeline(
            self.store,
            embedder,
            namespace=namespace,
            takes_carried=takes_carried,
            # An export that fills an empty namespace is a memory that moves, as a copy is.
            review=takes_carried and self.approve == "review" and namespace in self.namespaces(),
        )
        try:
            folder = self._folders.seen_files
            files = files_of(source) if folder is not None else None
            if files is None or folder is None:
                return pipeline.run(prepare(source, reading, options), tools=described, on_batch=on_batch)
            seen = SeenFiles(folder, namespace, reading, options)
            fresh, same = seen.split(files, lambda ids: self.store.find_known(ids, namespace=namespace))
            pipeline.report.add_seen(same)
            read = seen.watch(prepare(fresh, reading, options))
            report = pipeline.run(read, tools=described, on_batch=on_batch)
            seen.keep()
            return report
        finally:
            self.mirrors.catch_up(defer=True)

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
        deny: bool | None = None,
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
            deny: Whether calls that are known to fail are denied (see `open`). None for the memory's own.
        """
        from hepm.ingest.prepare import IngestOptions
        from hepm.memory.session import Session

        tags = dict(tags or {})
        if token:
            tags[RECORDED_BY] = token
        run = Trajectory(id or uuid4().hex, (), environment=environment, task=task, model=model, user=user, tags=tags)
        if tools is not None:
            tools = read_tools(tools)
        if holdout is None:
            holdout = self.holdout
        if deny is None:
            deny = self.deny
        return Session(
            self,
            run,
            namespace=namespace,
            system=system,
            tools=tools,
            holdout=checked_holdout(holdout),
            denies=deny,
            distill=distill,
            prompt_options=prompt_options,
            ingest_options=ingest_options or IngestOptions(),
        )

    def run(self, id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Trajectory | None:
        """A stored run; None if there is none with this id."""
        from hepm.ingest.formats.hepm import parse_stored

        record = self.store.records_of([id], namespace=namespace).get(id)
        if record is None:
            return None
        return parse_stored(id, record)

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

        Sessions under way that match end, too: no process stores what they hold by then.

        Args:
            token: Name of the token that recorded them at a server.
        """
        selection = Selection(trajectory, environment, task, user, token)
        if dry_run:
            under_way = self.sessions.forget(selection, namespace=namespace, dry_run=True)
            return sorted({*under_way, *self.store.selected(selection, namespace=namespace)})
        from hepm.ingest.pipeline import replay_with

        embedder = self._embedder.agreed()
        try:
            # Sessions first: one that another process stores meanwhile is forgotten as a run.
            under_way = self.sessions.forget(selection, namespace=namespace)
            replay = replay_with(embedder)
            stored = self.store.forget(selection, namespace=namespace, replay=replay, embedder=embedder.name)
            return sorted({*under_way, *stored})
        finally:
            self._drop_kept(namespace)
            self.mirrors.catch_up()

    def runs(self, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[Trajectory]:
        """Every stored run, in order of arrival; lazy. StoreDamagedError names one that cannot be read."""
        from hepm.ingest.formats.hepm import parse_stored

        for name, record, _ in self.store.iter_records(namespace=namespace):
            yield parse_stored(name, record)

    def export(self, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[str]:
        """Everything that a namespace holds and that cannot be made again, as lines of hepm's own JSON; lazy.

        `ingest` with `reading=ReadOptions("hepm")` reads it back into an equal memory: tools, runs, lessons, what was
        shown of them, reported outcomes and answers of models.
        """
        from hepm.ingest.formats.exported import exported_lines

        return exported_lines(self.store, namespace=namespace)

    def copy_to(
        self,
        target: Memory,
        *,
        namespaces: Sequence[str] | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> Iterator[Copied]:
        """Copy namespaces, all by default, into another memory, and compare the counts of each. Lazy."""
        from hepm.ingest.copying import copy_store

        if namespaces is None:
            namespaces = self.namespaces()
        try:
            yield from copy_store(self.store, target.store, namespaces=namespaces, on_progress=on_progress)
        finally:
            target.mirrors.catch_up()

    # Answers

    def suggest(
        self,
        after: LastTools = None,
        *,
        messages: Messages | None = None,
        history: Sequence[ToolName] = (),
        state: str | StateSummary | None = None,
        tools: Iterable[object] | None = None,
        user: str = "",
        k: int = 2,
        policy: str | Policy = "hybrid",
        c: float = 1.0,
        speak: Speak | None = None,
        floor: float | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Suggestions:
        """The tools to try next, best first, each with its reason. Empty if memory is not sure enough of any.

        Args:
            after: Tool of the last turn, or several parallel ones. None before the first call.
            messages: The conversation so far as OpenAI chat messages (dictionaries or the SDK's objects), from which
                `after`, `history` and `state` are read.
            history: All calls so far, oldest first. Without `after`, the last one is used.
            state: What the agent knows now, in a few lines.
            tools: Tools the agent has, as names, `Tool`s, OpenAI or MCP specifications. None for all. A tool with
                aliases is suggested by the name that the agent has it under.
            user: Whom the run is for: what is next may depend on that, once memory knows several runs for them.
            k: Maximum number of tools (H-EPM: 2 is best).
            policy: "hybrid", "adaptive", "episodic", "procedural", or a policy object.
            c: Weight of efficiency in edge weights.
            speak: "sure" names what is right in nine of ten such cases, "weighed" also what is likely, with its chance,
                "all" ranks all tools. None for the memory's own (see `open`). For the hybrid policy alone.
            floor: The chance that is asked for instead, in [0, 1].
        """
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one suggestion")
        if not all(isinstance(name, str) for name in cast("Iterable[object]", after or ())):
            raise InputError("`after` takes names of tools: give chat messages as `messages=`")
        if messages is not None:
            from hepm.ingest.formats.turns import read_messages
            from hepm.ingest.transitions import agent_state

            now = agent_state(read_messages(messages))
            after = after or now.last
            history = history or now.history
            state = state or now.state()
        if isinstance(state, str):
            state = StateSummary(own=state)
        # For whom the run is, if anything else is known.
        if state is not None and user and state.facts:
            state = replace(state, facts={**state.facts, USER: {f"={user}": 1.0}})
        mirror = self.mirror(namespace)
        if isinstance(policy, str):
            policy = self._policy(policy, c, floors_of(speak or self.speak or "sure", floor), mirror)
        # A policy that compares no texts should not wait for an embedder.
        embed = None
        if getattr(policy, "compares_texts", True):
            embed = self._embed
        query = query_of(mirror, after, history, state, _names_of(tools), embed=embed, k=k)
        return query.answer(without_refused(policy.suggest(mirror, query), mirror, query))

    def _policy(self, name: str, c: float, floors: Floors, mirror: NamespaceMirror) -> Policy:
        ranker = None
        folder = self._folders.rankers
        if name == "hybrid" and folder is not None and os.access(folder, os.F_OK):
            ranker = self.rankers.find_used(mirror)
        return policy_named(name, floors, c=c, ranker=ranker)

    def prompt(
        self,
        messages: Messages | Moment | None = None,
        *,
        state: str = "",
        after: LastTools = None,
        history: Sequence[ToolName] = (),
        tools: Iterable[object] | None = None,
        user: str = "",
        environment: str = "",
        turn: int = 0,
        horizon: int = 0,
        run: str = "",
        budget: int = 1_000,
        options: PromptOptions | None = None,
        guarded: Callable[[Suggestions], Suggestions] | None = None,
        token: str = "",
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Prompt:
        """The text for an agent's prompt now: notes, lessons in one sentence each, the next tools.

        Args:
            messages, state, after, history, tools: The conversation so far, as for `suggest`, or a `Moment` of it.
            user: The user whose notes to include, and for whom lessons may hold alone.
            environment: Leave out lessons of other environments.
            turn, horizon: The agent's current turn, from 1, and its maximum number of turns. `messages` give the turn.
            run: Id that the run will be stored under. The lessons shown are then credited with its outcome.
            budget: Maximum number of tokens, approximately.
            guarded: What a session gets of the tools that would be named (`hepm.memory.session.Session.guarded`).
            token: Name of the token that asks at a server: what another one's runs alone taught is not for it.
        """
        from hepm.experience.moment import Moment
        from hepm.experience.prompt import PromptOptions, recollect, render

        options = options or PromptOptions()
        if isinstance(messages, Moment):
            now = messages
        else:
            now = Moment.of(messages, state, after, history, turn)
        available = _names_of(tools)
        found = Suggestions()
        # What is unlikely now is left out of lessons, too.
        if options.suggestions or options.principles or options.experiences:
            # As in `suggest`: what was not said is unknown, and messages without a request are unlike others.
            is_known = messages is not None or now.state.text
            found = self.suggest(
                now.after,
                history=now.history,
                state=now.state if is_known else None,
                tools=available,
                user=user,
                k=max(options.suggestions, 1),
                policy=options.policy,
                namespace=namespace,
            )
            if now.repeated is not None and options.policy == "hybrid":  # the papers' policies say what the papers say
                found = replace(found, warnings=(*found.warnings, now.repeated))
        if guarded is not None:
            found = guarded(found)
        names = ToolNames.of(self.mirror(namespace).marks, map(normal, (*now.history, *now.after)), available or ())
        here = replace(now, names=names, environment=environment, user=user, as_written=options.as_written)
        bank = self.lessons.read_by(token)
        items = [*recollect(bank, here, found, options=options, horizon=horizon, namespace=namespace)]
        shown = found if options.suggestions else Suggestions()
        prompt = render(items, shown, budget=budget, lesson_tokens=options.lesson_tokens)
        if run:
            bank.show(run, prompt.lessons, namespace=namespace)
        return prompt

    def shortlist(
        self,
        messages: Messages | str,
        tools: Iterable[object],
        *,
        k: int = 20,
        budget_tokens: int | None = None,
        tool_choice: object = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Shortlist:
        """The tools to send of the many that an agent has: one list for all sessions of a namespace, which only grows.

        Tools that recorded runs called stay in it, and new, renamed, forced, called and named ones. Call it once a
        session, and send `hepm.memory.shortlist.more_tools()` beside, through which a model reaches the others.

        Args:
            messages: The conversation so far as OpenAI chat messages, or the request alone.
            tools: All tools (forms: see `suggest`). What is kept are these very objects, in this order.
            k: How many tools the words of the first request choose. An agent with no more keeps all.
            budget_tokens: Tokens beyond which the words of requests add no tool; None for no limit.
            tool_choice: As the request has it; the tools that it names are kept.
        Raises:
            InputError: `messages` or `tools` are none.
        """
        return self.shortlists.choose(
            messages, tools, k=k, budget_tokens=budget_tokens, tool_choice=tool_choice, namespace=namespace
        )

    def search(self, text: str, *, k: int = 5, namespace: str = DEFAULT_NAMESPACE) -> list[Recalled]:
        """The states similar to a text (cosine above 0), what agents did next, and how it ended; best first."""
        if not text.strip():
            raise InputError("there is nothing to search for: say what the agent knows")
        (vector,) = self._embed([text])
        mirror = self.mirror(namespace)
        similar: list[Recalled] = []
        for state, cosine in self.store.search_states(vector, namespace=namespace, limit=k):
            if cosine <= 0:  # it shares no word with the text, nor does any after it
                break
            after = state.sources
            before = state.targets
            counts = [mirror.counts(after, tool) for tool in before]
            succeeded, failed = map(max, zip(*counts, strict=True))
            found = Recalled(state.summary, after, before, cosine, state.count, state.trajectory, succeeded, failed)
            similar.append(found)
        return similar

    def cypher(
        self,
        query: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        timeout_s: float = 30.0,
        limit: int = 10_000,
        **parameters: Any,
    ) -> Result:
        """Ask the graph a question of the library by its name, or in Cypher that only reads (docs/use/cypher.md).

        Without a server, an embedded engine answers from a copy beside the store.

        Args:
            limit: Maximum number of rows.
            parameters: Values for `$name` in the query; `$namespace` is there already.
        Raises:
            QueryError: it would write, lacks a parameter, takes too long, or is no Cypher.
            MissingExtraError: the embedded engine is not installed.
        """
        from hepm.cypher import question

        if query.isidentifier():
            # A bare word is no Cypher: it is the name of a question.
            named = question(query)
            query = named.text if self.store.remote else named.embedded
            if any(parameter.name == "namespace" for parameter in named.parameters):
                parameters["namespace"] = namespace
            parameters = named.values(parameters)
        else:
            parameters["namespace"] = namespace
        return self.store.ask(query, parameters, timeout_s=timeout_s, limit=limit)

    # The graph, and the store

    def namespaces(self) -> list[str]:
        """Names of all namespaces that are not empty."""
        return self.store.namespaces()

    def totals(self, *, namespace: str = DEFAULT_NAMESPACE) -> Totals:
        """Counts of what a namespace holds."""
        return self.store.totals(namespace=namespace)

    def graph(self, *, namespace: str = DEFAULT_NAMESPACE, c: float = 1.0) -> nx.DiGraph[Any]:
        """The tools of this moment as a NetworkX graph, made anew at each call.

        A tool is a node by its name. Properties are those of docs/reference/graph-model.md.

        Args:
            c: Weight of efficiency in the `weight` of edges (see `hepm.graph.weights`); InputError if it is none.
        """
        from hepm.graph.mirror.networkx_graph import networkx_graph

        return networkx_graph(self.mirror(namespace), c=c, revision=self.mirrors.revision)

    def mirror(self, namespace: str = DEFAULT_NAMESPACE) -> NamespaceMirror:
        """The namespace's graph as policies see it."""
        return self.mirrors.namespace(namespace)

    def evidence(self, namespace: str = DEFAULT_NAMESPACE) -> LiveEvidence:
        """What came of calls in which situations."""
        from hepm.evidence.upkeep import live_evidence  # needs numpy: a suggestion from counts needs none

        return live_evidence(self.mirror(namespace))

    def report(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        anew: bool = False,
        on_progress: Callable[[str], object] = lambda step: None,
    ) -> Report:
        """Where agents go wrong, what worked instead, and what memory did (see `hepm.report.report.Report`).

        Of a large memory rules are counted in a part of the runs, and calls are read of the latest ones.

        Args:
            anew: Learn what runs teach anew before, as `hepm report` does: a process that stored runs has only added
                the latest ones to it.
            on_progress: Called with what is done next.
        """
        from hepm.report.report import report_of

        self.refresh()
        uplift = self.sessions.uplift(namespace=namespace)
        evidence = self.evidence(namespace)
        mirror = self.mirror(namespace)
        return report_of(self.lessons, evidence, uplift, mirror, anew=anew, on_progress=on_progress)

    # Care

    def prepare(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Learn what suggestions and reports need; kept in a file, for other processes too, if it takes long.

        Else the first of them does so, some seconds in a memory of 24,000 calls or more. `hepm ingest` prepares
        after many runs.
        """
        evidence = self.evidence(namespace)
        evidence.latest()
        evidence.rules(anew=False)

    def examine(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        on_progress: ExaminationProgress = lambda done, total: None,
    ) -> list[Finding]:
        """Compare derived data with the records (see `hepm.graph.examination.examine`).

        Args:
            on_progress: Called with how many runs were compared, and how many there are.
        """
        from hepm.graph.examination import examine
        from hepm.ingest.pipeline import replay_with

        return examine(self.store, namespace=namespace, replay=replay_with(None), on_progress=on_progress)

    def rebuild(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Recompute every count, state and vector from the stored runs and lessons, in one transaction.

        Raises:
            StoreDamagedError: the record of a run cannot be read, and nothing was changed.
        """
        from hepm.ingest.pipeline import replay_with

        embedder = self._embedder.agreed()
        try:
            self.store.rebuild(namespace=namespace, replay=replay_with(embedder), embedder=embedder)
        finally:
            self._drop_kept(namespace)
            self.mirrors.catch_up()

    def reembed(
        self, embedder: str | Embedder | None = None, *, on_progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Compute the vectors of all states, only missing ones if the embedder is the same; returns how many."""
        try:
            if embedder is None:
                chosen = self._embedder.agreed()
            else:
                chosen = self._embedder.change(embedder)
            return self.store.reembed(chosen, on_progress=on_progress)
        finally:
            self.mirrors.catch_up()


def _names_of(tools: Iterable[object] | None) -> list[ToolName] | None:
    """Names of the agent's tools, in any form that `suggest` takes; None for all tools."""
    if tools is None:
        return None
    return list(map(attrgetter("name"), read_tools(tools)))
