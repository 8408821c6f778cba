"""The session of a coding agent as its files tell it, and the run that it becomes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from hepm.ingest.formats.document import Document
from hepm.ingest.formats.turns import OpenCall
from hepm.ingest.records import ReadOptions, identified
from hepm.types import Outcome, Trajectory, Turn


class SessionMessage(NamedTuple):
    """What the user wrote, or a part of a model's response."""

    response: str
    """The response that it is a part of; "" for a user's message."""
    text: str


@dataclass(slots=True)
class CodingSession:
    """One session as it is read: a transcript may hold its sub-agents, too."""

    id: str = ""
    messages: list[SessionMessage] = field(default_factory=list[SessionMessage])
    calls: dict[str, list[OpenCall]] = field(default_factory=dict[str, list[OpenCall]])
    results: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])
    seen: set[str] = field(default_factory=set[str])
    model: str = ""
    folder: str = ""
    ended_at: float | None = None


def coding_run(
    agent: str,
    id: str,
    turns: tuple[Turn, ...],
    session: CodingSession,
    document: Document,
    options: ReadOptions,
    tags: dict[str, str],
) -> Trajectory:
    """The run of a session; its environment is the agent's name, its tag "project" the folder it worked in."""
    # By either separator: the transcript may come from Windows.
    project = re.split(r"[/\\]", session.folder.rstrip("/\\"))[-1]
    if project:
        tags = {"project": project, **tags}
    return identified(
        id if options.ids == "own" else "",
        turns,
        Outcome(),
        environment=agent,  # as the hooks of running agents call it: what one learns, the other may use
        model=session.model,
        ended_at=session.ended_at,
        tags=tags,
        source=document.name,
    )
