"""What memory finds for one moment of a run, to be rendered into a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from hepm.experience.experiences import RETRIEVED, Chooser, Experiences
from hepm.experience.principles import Principles
from hepm.experience.prompt import Recollection, Redact
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import Situation


def _without_secrets(text: str) -> str:
    return Redactor().text(text)


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """What goes into a prompt.

    Attributes:
        suggestions, experiences, principles, recalled: At most so many of each; 0 for none.
        notes: Whether the user's notes are told whole.
        policy: How the next tools are ranked.
        choose: Asks an agent which experiences apply; similarity decides where None.
        redact: Takes secrets out of what is told; None for no change. What is stored was redacted when it came.
    """

    suggestions: int = 2
    experiences: int = RETRIEVED
    principles: int = 3
    recalled: int = 2
    notes: bool = True
    policy: str = "hybrid"
    choose: Chooser | None = None
    redact: Redact | None = _without_secrets


class Moment(NamedTuple):
    """Where a run stands.

    Attributes:
        state: What the agent knows, in a few lines.
        task: What the run is about.
        turn: The agent's present turn, from 1; 0 where unknown.
    """

    state: str
    task: str
    turn: int

    @classmethod
    def of(
        cls,
        situation: Situation | None,
        messages: Sequence[Mapping[str, Any]],
        *,
        state: str,
        task: str,
        turn: int,
    ) -> Self:
        """The moment after these messages, or in this state."""
        if situation is None:
            return cls(state, task or state, turn)
        known = situation.state()
        spoken = sum(message.get("role") == "assistant" for message in messages)
        return cls(state or known.text, task or (known.said[0] if known.said else ""), turn or spoken + 1)


def recollect(
    experiences: Experiences,
    principles: Principles,
    now: Moment,
    *,
    namespace: str,
    user: str,
    environment: str,
    horizon: int,
    options: PromptOptions,
) -> Recollection:
    """Everything that memory has to say at a moment, but for the next tools."""
    return Recollection(
        principles=principles.search(now.task, namespace=namespace, environment=environment, k=options.principles)
        if options.principles
        else (),
        experiences=experiences.search(
            now.state,
            namespace=namespace,
            environment=environment,
            turn=now.turn,
            horizon=horizon,
            k=options.experiences,
            choose=options.choose,
        )
        if options.experiences
        else (),
    )
