"""The session of a coding agent as its files tell it, and the run that it becomes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from hepm.ingest.fields import unix_time
from hepm.ingest.formats.document import RunOrigin
from hepm.ingest.formats.turns import OpenCall
from hepm.ingest.joining import mark_key
from hepm.ingest.records import PROJECT, filled
from hepm.types import Outcome, Role, Trajectory, Turn, TurnMark

_LATER_S: Final = 1e-5


@dataclass(slots=True)
class SessionTurn:
    """What the user wrote, or a model's response: it comes in parts, and its calls are parallel."""

    role: Role
    mark: TurnMark | None
    texts: list[str] = field(default_factory=list[str])
    calls: list[OpenCall] = field(default_factory=list[OpenCall])


@dataclass(slots=True)
class CodingSession:
    """One session as it is read: a transcript may hold its sub-agents, too."""

    id: str = ""
    agent: str = ""
    """Name of the sub-agent that it is of; "" for the main one."""
    turns: dict[str, SessionTurn] = field(default_factory=dict[str, SessionTurn])
    """In their order, a response by its id."""
    by_id: dict[str | None, OpenCall] = field(default_factory=dict[str | None, OpenCall])
    """The calls by their ids: a copy of a call, under whatever uuid, is the same call."""
    waiting: list[OpenCall] = field(default_factory=list[OpenCall])
    """Calls since the last interruption."""
    seen: set[object] = field(default_factory=set[object])
    """What was taken: a copy of it counts once."""
    queued: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How often what the user typed while the agent worked was read, by its text and the type of the record; and was
    taken, by its text and ""."""
    model: str = ""
    folder: str = ""
    ended_at: float | None = None
    at: float = 0.0

    def hear(self, text: str, mark: TurnMark | None) -> None:
        """Take what the user wrote."""
        self.turns[f"user {len(self.turns)}"] = SessionTurn("user", mark, [text])

    def mark(self, time: Any, key: str) -> TurnMark | None:
        """The mark of a turn by its time, by which files of one session are joined; None while no time is known."""
        # A file keeps its order, also where times are equal, missing or step back.
        at = unix_time(time)
        self.at = max(at or 0.0, self.at + _LATER_S)
        if at is not None:
            self.ended_at = max(at, self.ended_at or at)
        if self.ended_at is None:
            return None
        return TurnMark(self.at, "session", (mark_key(key),))


def project_of(folder: str) -> str:
    """The name of the project in a folder: its whole path, as many are called "api"."""
    return folder.rstrip("/\\") or folder


def coding_run(
    agent: str,
    id: str,
    turns: tuple[Turn, ...],
    session: CodingSession,
    origin: RunOrigin,
    tags: dict[str, str],
) -> Trajectory:
    """The run of a session; its environment is the agent's name, its tag "project" the folder it worked in."""
    return origin.run(
        id,
        turns,
        Outcome(),
        environment=agent,  # as the hooks of running agents call it: what one learns, the other may use
        model=session.model,
        ended_at=session.ended_at,
        tags={**filled(**{PROJECT: project_of(session.folder)}), **tags},
    )
