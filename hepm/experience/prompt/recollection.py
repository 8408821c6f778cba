"""What memory finds for one moment of a run, to be rendered into a prompt."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final, NamedTuple, Self

from hepm.errors import LlmError
from hepm.experience.experiences import RETRIEVED, Experiences, FoundExperience
from hepm.experience.matching.place import Counts, in_one_voice
from hepm.experience.preferences import Preferences
from hepm.experience.principles import FoundPrinciple, Principles
from hepm.experience.prompt.choosing import ModelChooser
from hepm.experience.prompt.render import Recollection, Redact
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import agent_state
from hepm.ingest.turns import read_messages
from hepm.llm import Client
from hepm.types import START, StateSummary, Suggestions, ToolName

_log = logging.getLogger("hepm")

FURTHER: Final = 2
"""Tools that a policy is asked for beyond those to be told: some may come in the place of one that lessons warn of."""


def _without_secrets(text: str) -> str:
    return Redactor().text(text)


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """What goes into a prompt.

    Attributes:
        suggestions, experiences, principles, recalled: At most so many of each; 0 for none.
        notes: Whether the user's notes are told whole.
        policy: How the next tools are ranked.
        model: Asked which experiences apply and which lines of the notes matter now; similarity decides where None, or
            where the model cannot be asked.
        redact: Takes secrets out of what is told; None for no change. What is stored was redacted when it came.
    """

    suggestions: int = 2
    experiences: int = RETRIEVED
    principles: int = 3
    recalled: int = 2
    notes: bool = True
    policy: str = "hybrid"
    model: Client | None = None
    redact: Redact | None = _without_secrets


class Moment(NamedTuple):
    """Where a run stands.

    Attributes:
        state: What the agent knows.
        after: Tools of the last turn; none before the first call.
        history: All calls so far, oldest first.
        turn: The agent's present turn, from 1; 0 where unknown.
    """

    state: StateSummary
    after: tuple[ToolName, ...] = ()
    history: tuple[ToolName, ...] = ()
    turn: int = 0

    @classmethod
    def told(
        cls, state: str, after: ToolName | Sequence[ToolName] | None, history: Sequence[ToolName], turn: int
    ) -> Self:
        """The moment that somebody tells in words."""
        last = (after,) if isinstance(after, str) else tuple(after or history[-1:])
        return cls(StateSummary(said=(state,) if state else (), tools=last), last, tuple(history), turn)

    @classmethod
    def after_messages(cls, messages: Sequence[object], turn: int) -> Self:
        """The moment after these OpenAI chat messages."""
        turns = read_messages(messages)
        live = agent_state(turns)
        spoken = sum(one.role == "assistant" for one in turns)
        last = tuple(tool for tool in live.last if tool != START)
        return cls(live.state(), last, tuple(live.history), turn or spoken + 1)


def _recalled(preferences: Preferences, user: str, context: str, namespace: str, options: PromptOptions) -> list[str]:
    try:
        return preferences.recall(user, context, namespace=namespace, k=options.recalled, model=options.model)
    except LlmError as error:
        _log.warning("notes are recalled by similarity, as the model could not be asked: %s", error)
        return preferences.recall(user, context, namespace=namespace, k=options.recalled)


def recollect(
    experiences: Experiences,
    principles: Principles,
    preferences: Preferences,
    now: Moment,
    suggestions: Suggestions,
    *,
    counts: Counts,
    namespace: str,
    user: str,
    environment: str,
    horizon: int,
    options: PromptOptions,
) -> Recollection:
    """Everything that memory has to say at a moment, put together so that nothing in it contradicts the rest.

    Args:
        suggestions: The next tools as a policy ranks them, some more than `options` asks for.
        counts: Gives the successful and the failed runs that called a tool from here.
    """
    rules: list[FoundPrinciple] = []
    if options.principles:
        rules = principles.at(now.after, namespace=namespace, environment=environment, k=options.principles)
        known = {one.id for one in rules}
        wanted = " ".join(now.state.said)
        alike = principles.search(wanted, namespace=namespace, environment=environment, k=options.principles)
        rules.extend(one for one in alike if one.id not in known)
    found: list[FoundExperience] = []
    if options.experiences:
        found = experiences.search(
            now.state,
            namespace=namespace,
            environment=environment,
            turn=now.turn,
            horizon=horizon,
            k=options.experiences,
            choose=None if options.model is None else ModelChooser(options.model),
        )
    notes = preferences.notes(user, namespace=namespace) if user else None
    recalled: list[str] = []
    if notes is not None and options.recalled:
        recalled = _recalled(preferences, user, now.state.text, namespace, options)
    rules = rules[: options.principles]
    here = principles.place(now.after, namespace=namespace, environment=environment)
    lessons = (*(one.principle for one in rules), *(one.experience for one in found))
    kept, suggestions = in_one_voice(here, lessons, suggestions, counts)
    return Recollection(
        notes=notes if options.notes else None,
        principles=list(compress(rules, kept)),
        experiences=list(compress(found, kept[len(rules) :])),
        recalled=recalled,
        suggestions=replace(suggestions, ranked=suggestions.ranked[: options.suggestions]),
    )
