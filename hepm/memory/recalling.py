"""What memory says: suggestions, prompts, searches, and lessons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hepm.errors import InputError, StoreUnavailableError
from hepm.graph.delta import said_text
from hepm.graph.tool_life import ToolNames
from hepm.memory.opened import OpenMemory
from hepm.policy import Adaptive, Episodic, Floors, Policy, Procedural, Query, floors_of
from hepm.policy.query import content_words
from hepm.types import (
    DEFAULT_NAMESPACE,
    START,
    Recalled,
    Speak,
    StateSummary,
    Suggestions,
    ToolName,
    normal,
)

if TYPE_CHECKING:
    from hepm.cypher.model import Result
    from hepm.experience.distilling import BackgroundDistiller
    from hepm.experience.experiences import Experiences
    from hepm.experience.library import Library
    from hepm.experience.preferences import Preferences
    from hepm.experience.principles import Principles
    from hepm.experience.prompt import Prompt, PromptOptions, TurnState
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror
    from hepm.memory.levels import GuardState
    from hepm.memory.trials import Trials
    from hepm.rank.checkpoint import Rankers
    from hepm.types import Tool
    from hepm.uplift.report import UpliftReport


_OF_H_EPM: Final = {"procedural": Procedural, "episodic": Episodic, "adaptive": Adaptive}
POLICIES: Final = ("hybrid", *_OF_H_EPM)
"""The policies that need no training."""


class RecallingMemory(OpenMemory):
    """Answers from memory. Lessons are imported on first use: a suggestion needs none of them."""

    _distiller: BackgroundDistiller | None = None

    @cached_property
    def library(self) -> Library:
        """All lessons: list, export, import, credit."""
        from hepm.experience.library import Library

        return Library(self._store, self._mirror, self._current_embedder, self._agreed_embedder)

    @cached_property
    def trials(self) -> Trials:
        """The experiments of sessions that were held out."""
        from hepm.memory.trials import Trials

        return Trials(self._store, self._mirror, lambda: self.library)

    def uplift(self, *, namespace: str = DEFAULT_NAMESPACE) -> UpliftReport:
        """What memory does here: sessions with memory beside those that were held out (docs/uplift.md)."""
        return self.trials.report(namespace=namespace)

    def guard(self, *, namespace: str = DEFAULT_NAMESPACE) -> GuardState:
        """From which chance on hints of sessions name tools in a namespace, and why."""
        from hepm.memory.levels import GuardState
        from hepm.uplift.report import harm_sentence

        harm = self.trials.harm(namespace=namespace)
        return GuardState.of(
            self.levels.outcomes(namespace=namespace), harm="" if harm is None else harm_sentence(harm)
        )

    def holdout_now(self, wanted: float, *, namespace: str = DEFAULT_NAMESPACE) -> float:
        """The share of sessions to hold out: as wanted, and nearly all where the guard finds that memory harms."""
        from hepm.memory.trials import HARMED_HOLDOUT

        if not self.guarded or not 0 < wanted < HARMED_HOLDOUT:
            return wanted
        try:
            harm = self.trials.harm(namespace=namespace)
        except StoreUnavailableError:
            return wanted
        return wanted if harm is None else HARMED_HOLDOUT

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

    @cached_property
    def rankers(self) -> Rankers:
        """The trained rankers (`hepm.rank`).

        Raises:
            InputError: the memory was made from a store alone, without a folder for them.
        """
        from hepm.rank.checkpoint import Rankers

        if self._rankers is None:
            raise InputError("this memory has no folder for trained rankers: give Memory(rankers=...)")
        return Rankers(self._rankers)

    def distill_soon(self, run: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Distill a stored run and the other runs of its task on a background thread, as finished sessions do."""
        from hepm.experience.distilling import BackgroundDistiller

        with self._making:
            if self._distiller is None:
                self._distiller = BackgroundDistiller(lambda: (self.experiences, self.principles))
        self._distiller.add(run, namespace=namespace)

    def wait_distilled(self) -> None:
        """Wait until the runs of `distill_soon` are distilled. `close` waits too."""
        if self._distiller is not None:
            self._distiller.wait()

    def suggest(
        self,
        after: ToolName | Sequence[ToolName] | None = None,
        *,
        messages: Sequence[object] | None = None,
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
            policy: "hybrid", "adaptive", "episodic", "procedural", "gnn" (see `hepm rank train`), or a policy object.
            c: Weight of efficiency in edge weights.
            speak: "sure" names what is right in nine of ten such cases, "weighed" also what is likely, with its chance,
                "all" ranks all tools. None for the memory's own (see `open`). For the hybrid policy alone.
            floor: The chance that is asked for instead, in [0, 1].
        """
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one suggestion")
        if messages is not None:
            from hepm.ingest.chat import read_messages
            from hepm.ingest.transitions import agent_state

            now = agent_state(read_messages(messages))
            after, history, state = after or now.last, history or now.history, state or now.state()
        summary = StateSummary(own=state) if isinstance(state, str) else state
        if summary is not None:
            summary = _for_user(summary, user)
        available = None if tools is None else [tool.name for tool in as_tools(tools)]
        floors = floors_of(speak or self.speak or "sure", floor)
        chosen: dict[str, Any] = {"k": k, "policy": policy, "c": c, "floors": floors, "namespace": namespace}
        return self._suggest(after, history, summary, available, **chosen)

    def _suggest(
        self,
        after: ToolName | Sequence[ToolName] | None,
        history: Sequence[ToolName],
        summary: StateSummary | None,
        available: Sequence[ToolName] | None,
        *,
        k: int,
        policy: str | Policy,
        c: float = 1.0,
        floors: Floors,
        advice: Mapping[ToolName, float] | None = None,
        namespace: str,
    ) -> Suggestions:
        """`suggest` with arguments that are read, and what lessons advise."""
        mirror = self._mirror.namespace(namespace)
        if isinstance(policy, str):
            policy = self._policy(policy, c, floors, mirror)
        last = (after,) if isinstance(after, str) else tuple(after or history[-1:]) or (START,)
        names = ToolNames.of(mirror.marks, map(normal, (*history, *last)), available or ())
        last, past = tuple(map(names.own, last)), tuple(map(names.own, history))
        if summary is not None and names.aliases:
            facts = {names.own(source): of_source for source, of_source in summary.facts.items()}
            summary = replace(summary, tools=tuple(map(names.own, summary.tools)), facts=facts)
        text, said = (summary.text, said_text(summary)) if summary is not None else ("", "")
        content = content_words(f"{text}\n{said}") if last == (START,) else ""
        compared = () if isinstance(policy, Procedural) else (text, said, content)
        texts = [part for part in dict.fromkeys(compared) if part.strip()]
        vectors = dict(zip(texts, self._current_embedder().embed(texts), strict=True)) if texts else {}
        wish = vectors.get(content)
        if wish is None and last == (START,) and text in vectors:  # it says nothing of what is wanted
            wish = vectors[text] * 0
        called = tuple(tool for tool in last if tool != START)
        if set(past[len(past) - len(called) :]) != set(called):
            past += called
        query = Query(
            after=last,
            history=past,
            state=summary,
            vector=vectors.get(text),
            said_vector=vectors.get(said),
            content_vector=wish,
            tools=None if available is None else frozenset(map(names.own, available)),
            k=k,
            names=names,
            advice=advice and {names.own(tool): sure for tool, sure in advice.items()},
        )
        return query.answer(policy.suggest(mirror, query))

    def prepare(
        self, *, namespace: str = DEFAULT_NAMESPACE, on_progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Compute what hybrid suggestions need of all runs; in files, for other processes too, if it takes long.

        Else the first suggestions do so: some seconds in a memory of more than 24,000 calls, whatever its size, and a
        tenth of a second for each tool that is asked about. `hepm ingest` prepares after many runs.

        Args:
            on_progress: Called with how many of the tools that are called most are done, and of how many.
        """
        from hepm.policy.hybrid.fitted import FittedMemory

        fits = self._mirror.namespace(namespace).fits
        fitted = fits.of(FittedMemory)
        fitted.prepare_after(on_progress)
        fitted.chance(fits)

    def drop_prepared(self, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Delete the files of `prepare`; they are made again when they are needed. `forget` does so too."""
        if (kept := self._mirror.artifacts(namespace)) is not None:
            kept.drop()

    def _policy(self, name: str, c: float, floors: Floors, mirror: NamespaceMirror) -> Policy:
        if name == "gnn":
            from hepm.rank.policy import Gnn

            return Gnn(self.rankers.get(mirror, self._current_embedder()).ranker)
        if name not in POLICIES:
            raise InputError(f"no policy is called {name!r}; there are {', '.join(sorted([*POLICIES, 'gnn']))}")
        if name == "hybrid":
            ranker = None
            if self._rankers is not None and self._rankers.exists():
                ranker = self.rankers.find_used(mirror, self._current_embedder())
            from hepm.policy.hybrid import Hybrid

            return Hybrid(floors=floors, ranker=ranker)
        return _OF_H_EPM[name](c=c)

    def prompt(
        self,
        messages: Sequence[object] | TurnState | None = None,
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
        level: str = "",
        leaves_out: Callable[[str], bool] | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Prompt:
        """The text for an agent's prompt now: notes, lessons in one sentence each, the next tools.

        Args:
            messages, state, after, history, tools: The conversation so far, as for `suggest`, or a `TurnState` of it.
            user: The user whose notes to include, and for whom lessons may hold alone.
            environment: Leave out lessons of other environments.
            turn, horizon: The agent's current turn, from 1, and its maximum number of turns. `messages` give the turn.
            run: Id that the run will be stored under. The lessons shown are then credited with its outcome.
            budget: Maximum number of tokens, approximately.
            level: Of the guard (`hepm.memory.levels.LEVELS`), which sessions draw; "" where `speak` decides.
            leaves_out: Whether a lesson, or a tool (`hepm.graph.trials.hint_id`), is left out to measure what it does.
        """
        from hepm.experience.prompt import PromptOptions, Recollector, TurnState, render, render_without

        options = options or PromptOptions()
        if isinstance(messages, TurnState):
            now = messages
        else:
            now = TurnState.of(messages, state, after, history, turn)
        mirror = self._mirror.namespace(namespace)
        available = None if tools is None else [tool.name for tool in as_tools(tools)]
        recollector = Recollector(
            self.library,
            mirror,
            now,
            names=ToolNames.of(mirror.marks, map(normal, (*now.history, *now.after)), available or ()),
            user=user,
            environment=environment,
            horizon=horizon,
            options=options,
        )
        suggestions = Suggestions()
        if options.needs_suggestion:
            advice = recollector.advice()
            suggestions = self._suggest_for_prompt(
                now, advice, available, user=user, options=options, level=level, namespace=namespace
            )
        found = recollector.recollect(suggestions)
        if leaves_out is None:
            prompt = render(found, budget=budget, redact=options.redact)
        else:
            prompt = render_without(found, leaves_out, budget=budget, redact=options.redact)
        if run:
            self.library.show(run, prompt.lessons, namespace=namespace)
        return prompt

    def _suggest_for_prompt(
        self,
        now: TurnState,
        advice: Mapping[ToolName, float],
        available: Sequence[ToolName] | None,
        *,
        user: str,
        options: PromptOptions,
        level: str,
        namespace: str,
    ) -> Suggestions:
        """What a policy suggests that weighs what lessons advise, with a few more tools than the prompt shows."""
        from hepm.experience.prompt import FURTHER
        from hepm.memory.levels import CHANCES, at_level

        state = _for_user(now.state, user) if now.state.text else None
        suggestions = self._suggest(
            now.after,
            now.history,
            state,
            available,
            k=options.suggestions + FURTHER,
            policy=options.policy,
            floors=floors_of(self.speak or "sure", CHANCES.get(level)),
            advice=advice,
            namespace=namespace,
        )
        return at_level(level, suggestions)

    def wishes(self, user: str, *, options: PromptOptions | None = None, namespace: str = DEFAULT_NAMESPACE) -> Prompt:
        """The part of `prompt` that a user stated: the notes on them, and nothing that runs taught."""
        from hepm.experience.prompt import Prompt, PromptOptions, Recollection, render

        options = options or PromptOptions()
        notes = self.preferences.notes(user, namespace=namespace) if user and options.notes else None
        return Prompt() if notes is None else render(Recollection(notes=notes), redact=options.redact)

    def search(self, text: str, *, k: int = 5, namespace: str = DEFAULT_NAMESPACE) -> list[Recalled]:
        """The states similar to a text (cosine above 0), over all tools, and what agents did next; best first."""
        if not text.strip():
            raise InputError("there is nothing to search for: say what the agent knows")
        (vector,) = self._current_embedder().embed([text])
        return [
            Recalled(state.summary, state.sources, state.targets, cosine, state.count, state.trajectory)
            for state, cosine in self._store.search_states(vector, namespace=namespace, limit=k)
            if cosine > 0  # others share no word with it
        ]

    def cypher(
        self,
        query: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        timeout_s: float = 30.0,
        limit: int = 10_000,
        **parameters: Any,
    ) -> Result:
        """Ask the graph a question of the library by its name, or in Cypher that only reads (docs/cypher.md).

        Without a server, an embedded engine answers from a copy beside the store.

        Args:
            limit: Maximum number of rows.
            parameters: Values for `$name` in the query; `$namespace` is there already.
        Raises:
            QueryError: it would write, lacks a parameter, takes too long, or is no Cypher.
            MissingExtraError: the embedded engine is not installed.
        """
        from hepm.cypher import question
        from hepm.ingest.pipeline import replay_with

        if query.isidentifier():
            named = question(query)
            query = named.text if self._store.remote else named.embedded
            if any(one.name == "namespace" for one in named.parameters):
                parameters["namespace"] = namespace
            parameters = named.values(parameters)
        else:
            parameters["namespace"] = namespace
        return self._store.ask(query, parameters, replay=replay_with(None), timeout_s=timeout_s, limit=limit)

    def close(self) -> None:
        """Release the store after the lessons that are being distilled; safe to call twice."""
        if self._distiller is not None:
            self._distiller.close()
        if "library" in self.__dict__:
            self.library.deliver()
        super().close()


def as_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """The tools in any form that `read_tools` takes."""
    from hepm.ingest.tools import read_tools

    return read_tools(tools)


def _for_user(summary: StateSummary, user: str) -> StateSummary:
    """What the agent knows, with whom the run is for."""
    if not user:  # the import below loads numpy
        return summary
    from hepm.policy.hybrid.known_facts import with_user

    return replace(summary, facts=with_user(summary.facts, user))
