"""The session of a coding agent as its files have it, and the run that it becomes."""

from __future__ import annotations

from typing import Any

from hepm.ingest.fields import Objects, list_at, unix_time, value_at
from hepm.ingest.formats.document import RunOrigin
from hepm.ingest.formats.turns import plain_turns
from hepm.ingest.joining import mark_key
from hepm.ingest.records import PROJECT, filled
from hepm.types import Object, Outcome, Trajectory, TurnMark


class CodingSession:
    """One session as it is read: a transcript may hold its sub-agents, too.

    Attributes:
        agent: Name of the sub-agent that it is of; "" for the main one.
        messages: Chat messages in their order, also the parts of a response: those name it by "response".
        results: Messages with results, by the ids of their calls; None of calls without one.
        seen: What was taken: a copy of it counts once.
    """

    def __init__(self, id: str = "", agent: str = "") -> None:
        self.id = id
        self.agent = agent
        self.messages: Objects = []
        self.results: dict[str, Object | None] = {}
        self.seen: set[object] = set()
        self.model = self.folder = ""
        self.ended_at: float | None = None
        self._at = 0.0

    def say(self, role: str, text: str, mark: TurnMark | None, **about: Any) -> None:
        """Take a message; calls beside it as `tool_calls`, and the `response` that it is a part of."""
        self.messages.append({"role": role, "content": text, "mark": mark, **about})

    def answer(self, id: str, text: str | None, *, error: bool = False, refused: bool = False) -> None:
        """Take the result of a call; None of a `refused` one that was interrupted."""
        result: Object = {"role": "tool", "tool_call_id": id, "content": text, "is_error": error, "refused": refused}
        self.results[id] = result
        self.messages.append(result)

    def mark(self, time: Any, key: str) -> TurnMark | None:
        """The mark of a turn by its time, by which files of one session are joined; None while no time is known."""
        # A file keeps its order, also where times are equal, missing or step back.
        at = unix_time(time)
        self._at = max(at or 0.0, self._at + 1e-5)
        if at is not None:
            self.ended_at = max(at, self.ended_at or at)
        if self.ended_at is None:
            return None
        return TurnMark(self._at, "session", (mark_key(key),))

    def run(self, agent: str, origin: RunOrigin, tags: dict[str, str], _: Object) -> Trajectory:
        """The run; its environment is the agent's name, its tag "project" the folder it worked in."""
        return origin.run(
            "/".join(filter(None, (self.id, self.agent))),
            plain_turns(self.messages),
            Outcome(),
            environment=agent,  # as the hooks of running agents call it: what one learns, the other may use
            model=self.model,
            ended_at=self.ended_at,
            tags={**filled(**{PROJECT: project_of(self.folder)}), **tags},
        )


def with_whole_responses(messages: Objects) -> Objects:
    """The messages with each call once, and the calls of one "response", which may come one by one, in one message."""
    begun: dict[str, Object] = {}
    known: set[str] = set()
    whole: Objects = []
    for message in messages:
        if message.get("role") != "assistant":
            whole.append(message)
            continue
        calls: list[Any] = []
        for call in list_at(message, "tool_calls"):
            call_id = value_at(call, "id")
            if call_id is None or str(call_id) not in known:
                calls.append(call)
                known.add(str(call_id))
        response = str(message.get("response") or id(message))
        if response in begun:
            before = begun[response]
            before["tool_calls"] += calls
            before["content"] = "\n".join(filter(None, (before["content"], message.get("content"))))
        elif calls or message.get("content"):
            begun[response] = {**message, "tool_calls": calls}
            whole.append(begun[response])
    return whole


def project_of(folder: str) -> str:
    """The name of the project in a folder: its whole path, as many are called "api"."""
    return folder.rstrip("/\\") or folder
