"""The runs under way behind every door: which conversation a request continues, what was suggested, how it ended."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from threading import RLock
from typing import Any, Final, cast
from uuid import uuid4

from hepm.agents.wire import Object, Reply, objects
from hepm.errors import HepmError, InputError
from hepm.experience.prompt import Prompt, PromptOptions
from hepm.memory import Memory
from hepm.memory.session import Session

_log = logging.getLogger("hepm")

RECENT: Final = 200
"""Hints that the page lists, and finished runs whose outcome may be told again."""


@dataclass(slots=True)
class Shown:
    """A hint with suggestions, and whether the agent followed it.

    Attributes:
        at: Unix time.
        followed: None until the agent's next calls are known.
    """

    run: str
    namespace: str
    at: float
    tools: tuple[str, ...]
    reason: str
    called: tuple[str, ...] = ()
    followed: bool | None = None


@dataclass(slots=True)
class LiveRun:
    """One run under way.

    Attributes:
        messages: The conversation so far, as chat messages: the record of its session.
        marks: A short hash of each message, to recognise the conversation.
        opening: Hash of what opens it, which concurrent runs of one task share.
        sequel: Ids of the responses and the conversation that a next request may continue.
        stable: What memory said at the first request, kept so that a provider's prompt cache works.
        replied: Whether the last message is the model's, as it was sent.
    """

    session: Session
    namespace: str
    door: str
    opening: str = ""
    messages: list[Object] = field(default_factory=list[Object])
    marks: list[str] = field(default_factory=list[str])
    sequel: set[str] = field(default_factory=set[str])
    stable: str = ""
    replied: bool = False
    touched: float = field(default_factory=time.time)
    shown: Shown | None = None
    lock: RLock = field(default_factory=RLock)

    @property
    def id(self) -> str:
        """The id of the stored run."""
        return self.session.id

    def extend(self, messages: Sequence[Object], *, whole: bool = True) -> None:
        """Bring the record up to date with a request's messages: the whole conversation, or what is new in it."""
        _extend(self, messages, [_mark(message) for message in messages], whole=whole)

    def reply(self, messages: Sequence[Object]) -> None:
        """Add a model's reply to the record."""
        self.messages.extend(messages)
        self.marks.extend(map(_mark, messages))
        self.replied = True


class LiveRuns:
    """All runs under way in one process. Threads may share it.

    Args:
        idle_s: A run that rests for so long is stored without a label.
        options: What hints contain.
    """

    def __init__(self, memory: Memory, *, idle_s: float = 1_800.0, options: PromptOptions | None = None) -> None:
        self.memory = memory
        self.idle_s = idle_s
        self.counts: Counter[tuple[str, str]] = Counter()
        self.recent: deque[Shown] = deque(maxlen=RECENT)
        self._options = options
        self._runs: dict[tuple[str, str], LiveRun] = {}
        self._sequels: dict[tuple[str, str], LiveRun] = {}
        self._ended: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._runs)

    # Which run

    def named(self, id: str, *, namespace: str, door: str, **about: Any) -> LiveRun:
        """The run of a session that the client names; a new one if it is not under way."""
        with self._lock:
            run = self._runs.get((namespace, id))
            return run or self._begin(id, namespace, door, **about)

    def continued(
        self, messages: Sequence[Object], *, id: str, sequel: str, group: str, namespace: str, door: str, **about: Any
    ) -> LiveRun:
        """The run that a request with its messages continues, with these messages in its record.

        Args:
            id: The session as the client names it; "" to recognise the conversation by its messages.
            group: What sets conversations with equal messages apart, if the client says anything of the kind.
            sequel: Id of the response that the messages continue; "" if they are the whole conversation.
        """
        marks = [_mark(message) for message in messages]
        with self._lock:
            before = self._sequels.get((namespace, sequel)) if sequel else None
            opening = "" if id or before else _opening(messages, about.get("tools"), group, about.get("user"))
            run = before or (self._runs.get((namespace, id)) if id else self._by_marks(namespace, opening, marks))
            if run is None:
                run = self._begin(id, namespace, door, **about)
                run.opening = opening
            if sequel:
                self._sequels[namespace, sequel] = run
                run.sequel.add(sequel)
        with run.lock:
            run.touched = time.time()
            _extend(run, messages, marks, whole=not sequel)
        return run

    def _begin(self, id: str, namespace: str, door: str, **about: Any) -> LiveRun:
        own = free_id(self.memory, id, namespace=namespace)
        session = self.memory.session(id=own, namespace=namespace, prompt_options=self._options, **about)
        run = self._runs[namespace, session.id] = LiveRun(session, namespace, door)
        self.counts["runs", namespace] += 1
        return run

    def _by_marks(self, namespace: str, opening: str, marks: Sequence[str]) -> LiveRun | None:
        """The run whose record these messages continue; the longest, as runs of one task begin alike."""
        found: LiveRun | None = None
        for run in self._runs.values():
            if run.namespace != namespace or run.opening != opening:
                continue
            known = run.marks
            # A model's reply may come back changed: what was before it must be there.
            least = len(known) - run.replied
            if least < len(marks) and known[:least] == marks[:least] and (not run.replied or marks[least] == known[-1]):
                found = run if found is None or len(known) > len(found.marks) else found
        return found

    # During a run

    def hint(self, run: LiveRun, *, keep: bool = True) -> Prompt:
        """What memory says now. It raises nothing: without memory there is nothing to say.

        Args:
            keep: Whether to write the run to disk before; False if `replied` follows.
        """
        with run.lock:
            prompt = run.session.prompt(run.messages or None, keep=keep)  # None: recorded call by call
            run.stable = run.stable or prompt.stable
            self.counts["requests", run.namespace] += 1
            ranked = prompt.suggestions.ranked
            if ranked:
                tools = tuple(one.tool for one in ranked)
                run.shown = Shown(run.id, run.namespace, time.time(), tools, ranked[0].reason)
                self.recent.append(run.shown)
                self.counts["hints", run.namespace] += 1
            else:
                run.shown = None
        return prompt

    def replied(self, run: LiveRun, reply: Reply) -> None:
        """Add a model's reply to the record."""
        if not reply.messages:
            return
        with run.lock:
            run.touched = time.time()
            run.reply(reply.messages)
            run.session.keep()
            self.called(run, [_name(call) for message in reply.messages for call in objects(message.get("tool_calls"))])
        if reply.id:
            with self._lock:
                self._sequels[run.namespace, reply.id] = run
                run.sequel.add(reply.id)

    def called(self, run: LiveRun, tools: Sequence[str]) -> None:
        """Note which tools an agent called after the last hint."""
        shown = run.shown
        if shown is not None and tools and shown.followed is None:
            shown.called = tuple(tools)
            shown.followed = any(tool in shown.tools for tool in tools)
            self.counts["followed" if shown.followed else "not_followed", run.namespace] += 1

    # End

    def finish(self, id: str, *, namespace: str, success: bool | None, reward: float | None) -> None:
        """Store a run with its outcome.

        Raises:
            InputError: no such run is known here, or it has another outcome already.
            StoreError: the store cannot be written. Try again.
        """
        key = namespace, id
        with self._lock:
            run = self._runs.get(key)
            session = run.session if run is not None else self._ended.get(key)
        if session is None:
            session = self.memory.resume(id, namespace=namespace)
        if session is None:
            self.memory.label(id, success=success, reward=reward, namespace=namespace)
            self.counts["outcomes", namespace] += 1
            return
        if run is None:
            session.finish(success=success, reward=reward)
        else:
            with run.lock:
                session.finish(success=success, reward=reward)
            self._end(run)
        self.counts["outcomes", namespace] += 1

    def _end(self, run: LiveRun) -> None:
        with self._lock:
            self._runs.pop((run.namespace, run.id), None)
            for one in run.sequel:
                self._sequels.pop((run.namespace, one), None)
            self._ended[run.namespace, run.id] = run.session
            while len(self._ended) > RECENT:
                self._ended.popitem(last=False)

    def store_idle(self) -> None:
        """Store the runs that rest, and those that a crash left, without a label."""
        now = time.time()
        with self._lock:
            idle = [run for run in self._runs.values() if now - run.touched >= self.idle_s]
        for run in idle:
            try:
                with run.lock:
                    run.session.finish()
            except HepmError as error:
                _log.warning("the run %r is not stored: %s", run.id, error)
                if not isinstance(error, InputError):
                    continue  # tried again
            self._end(run)
        self.memory.store_abandoned(idle_s=self.idle_s)


def free_id(memory: Memory, id: str, *, namespace: str) -> str:
    """An id for a new run, `id` if it is free. A run with an outcome is over: what follows it is another run."""
    own, number = id or uuid4().hex, 1
    while id and (stored := memory.run(own, namespace=namespace)) and stored.outcome.success is not None:
        number += 1
        own = f"{id}-{number}"
    return own


def _extend(run: LiveRun, messages: Sequence[Object], marks: Sequence[str], *, whole: bool) -> None:
    """Bring the record of a run up to date with a request's messages."""
    known = run.marks
    if not whole:
        at = len(known)
        fresh = [one for one in range(len(messages)) if messages[one].get("role") != "system" or not known]
    else:
        at = next(
            (n for n, (a, b) in enumerate(zip(known, marks, strict=False)) if a != b), min(len(known), len(marks))
        )
        fresh = list(range(at, len(marks)))
        if at < len(known) - run.replied and len(known) > at:
            # The client shortened its history. What was recorded stays; what comes after the last known message is new.
            seen = set(known)
            last = max((n for n, mark in enumerate(marks) if mark in seen), default=-1)
            fresh = [n for n in range(last + 1, len(marks)) if messages[n].get("role") not in ("system", "developer")]
            at = len(known)
    del run.messages[at:], run.marks[at:]
    run.messages.extend(messages[n] for n in fresh)
    run.marks.extend(marks[n] for n in fresh)
    run.replied = False


def _mark(message: Object) -> str:
    calls = objects(message.get("tool_calls"))
    if calls:
        said: Any = [(call.get("id"), _name(call), _arguments(call)) for call in calls]
    else:
        said = _plain(message.get("content"))
    text = json.dumps([message.get("role"), message.get("tool_call_id"), said], sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _plain(content: Any) -> Any:
    """Content as text, so that a string and a list with that text alone are equal."""
    if not isinstance(content, list):
        return content or ""
    parts = cast("list[Any]", content)
    texts = [text for part in objects(parts) if isinstance(text := part.get("text"), str)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _name(call: Object) -> str:
    return str(_inner(call).get("name") or "")


def _arguments(call: Object) -> Any:
    inner = _inner(call)
    arguments = inner.get("arguments") or inner.get("input")
    try:  # a client may write the same JSON in another way
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def _inner(call: Object) -> Object:
    inner = call.get("function") or call.get("custom")
    return cast(Object, inner) if isinstance(inner, dict) else {}


def _opening(messages: Sequence[Object], tools: Any, *apart: str | None) -> str:
    """Hash of the messages before the model's first, and of the names of the tools."""
    first = [_mark(one) for one in takewhile(lambda one: one.get("role") != "assistant", messages[:2])]
    names = sorted(_name(tool) for tool in tools or ())
    return blake2b(json.dumps([first, names, apart]).encode(), digest_size=12).hexdigest()
