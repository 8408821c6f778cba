"""From the spans of a trace to runs: each model span is a turn, and each tool span belongs to a call in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hepm.ingest import fields
from hepm.ingest.chat import ROLES, OpenCall, TurnBuilder, chat_calls, verdict
from hepm.ingest.document import built
from hepm.ingest.message_layouts import chat_messages
from hepm.ingest.records import Item, Object, ReadOptions, RecordError, graded, identified
from hepm.ingest.tools import listed_tools
from hepm.types import Outcome, Trajectory


@dataclass(slots=True)
class Span:
    """One span.

    Attributes:
        session: The conversation that its trace belongs to; "" if it names none.
        start, end: Unix time in seconds; `end` is None if it did not end.
        name, call_id, arguments, result, error: Of a tool's call. None if not recorded.
        given, answer: What a model read and wrote, as chat messages. For other spans what went in and came out.
        about: Facts of the run: environment, user, model, agent.
        scores: Name, value and label of each evaluation.
    """

    trace: str
    id: str
    parent: str = ""
    session: str = ""
    start: float = 0.0
    end: float | None = None
    kind: Literal["model", "tool", "other"] = "other"
    name: str = ""
    call_id: str = ""
    arguments: Any = None
    result: str | None = None
    error: bool | None = None
    given: list[Object] = field(default_factory=list[Object])
    answer: list[Object] = field(default_factory=list[Object])
    about: dict[str, str] = field(default_factory=dict[str, str])
    tools: list[Any] = field(default_factory=list[Any])
    scores: list[tuple[str, Any, Any]] = field(default_factory=list[tuple[str, Any, Any]])


class Spans:
    """Collects the spans of a file, which come in any order, and makes runs of them.

    Each request to a model repeats the conversation before it: equal messages are kept once, so that memory grows with
    what was said.
    """

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], Span] = {}
        self._messages: dict[str, Object] = {}
        self._marks: dict[int, str] = {}
        self._scores: dict[str, list[tuple[str, Any, Any]]] = {}

    def add(self, span: Span) -> None:
        """Take a span; the same one again replaces it."""
        span.given, span.answer = self._once(span.given), self._once(span.answer)
        self._spans[span.trace, span.id] = span

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans.values())

    @property
    def traces(self) -> set[str]:
        """Ids of the traces."""
        return {trace for trace, _ in self._spans}

    def take(self, others: Spans) -> None:
        """Take the spans of others, too."""
        for span in others._spans.values():
            self.add(span)

    def add_score(self, trace: str, score: tuple[str, Any, Any]) -> None:
        """Take an evaluation of a trace."""
        self._scores.setdefault(trace, []).append(score)

    def _once(self, messages: list[Object]) -> list[Object]:
        return [self._messages.setdefault(json.dumps(one, sort_keys=True), one) for one in messages]

    def runs(self, source: str, options: ReadOptions) -> Iterator[Item]:
        """A run for each conversation, or trace without one, in the order of their beginnings."""
        sessions = {span.trace: span.session for span in self._spans.values() if span.session}
        groups: dict[str, list[Span]] = {}
        for span in sorted(self._spans.values(), key=lambda span: (span.start, span.kind)):
            id = sessions.get(span.trace) or span.trace
            # What a tool does inside is not the agent's; an agent that is called as a tool is a run of its own.
            if outer := self._tool_around(span):
                id = f"{id}/{outer.id}"
            groups.setdefault(id, []).append(span)
        for id, spans in groups.items():
            scores = [score for trace in {span.trace for span in spans} for score in self._scores.get(trace, ())]
            inner = self._tool_around(spans[0]) is not None
            calls = any(span.kind == "tool" or any(one.get("tool_calls") for one in span.answer) for span in spans)
            if inner and not (calls and any(span.kind == "model" for span in spans)):
                continue
            if calls or any(span.kind == "model" for span in spans):
                about: Object = {"id": id}
                yield built(
                    source, id, about, lambda one, s=spans, m=scores: self._run(one["id"], s, m, source, options)
                )

    def _run(
        self, id: str, spans: Sequence[Span], scores: list[tuple[str, Any, Any]], source: str, options: ReadOptions
    ) -> Trajectory:
        about: dict[str, str] = {}
        for span in spans:
            about = {**span.about, **{key: value for key, value in about.items() if value}}
        agent = about.get("agent", "")
        return identified(
            id if options.ids == "own" else "",
            _Conversation(spans, self._marks).turns(),
            evaluated([*scores, *(score for span in spans for score in span.scores)], options),
            environment=about.get("environment", ""),
            model=about.get("model", ""),
            user=about.get("user", ""),
            ended_at=max((span.end or span.start for span in spans), default=0.0) or None,
            tags={"agent": agent} if agent else {},
            source=source,
            tools=listed_tools(max((span.tools for span in spans), key=len)),
        )

    def _tool_around(self, span: Span) -> Span | None:
        seen = {span.id}
        while (outer := self._spans.get((span.trace, span.parent))) is not None and outer.id not in seen:
            if outer.kind == "tool":
                return outer
            seen.add(outer.id)
            span = outer
        return None


def evaluated(scores: Sequence[tuple[str, Any, Any]], options: ReadOptions) -> Outcome:
    """The outcome in evaluations: those with the names of the options; else the only one.

    Other evaluations than a reward measure anything ("relevance: 0.8"), so that only a verdict in words, true or false
    makes them a label.
    """
    latest = {name: (value, label) for name, value, label in scores}
    reward = latest.get(options.reward_key, (None, None))[0]
    reward = None if reward is None else fields.as_number(reward, repr(options.reward_key))
    for key in (options.success_key, options.label_key):
        if key in latest and (found := _verdict(*latest[key], key)) is not None:
            return Outcome(reward, found)
    if reward is not None or len(latest) != 1:
        return graded(reward)
    [(name, (value, label))] = latest.items()
    success = _verdict(value if type(value) is bool else None, label, name)
    # Without a verdict the number is a measure of anything, and no reward that a threshold could read.
    number = float(value) if success is not None and isinstance(value, int | float) else None
    return Outcome(number, success)


def _verdict(value: Any, label: Any, key: str) -> bool | None:
    for one in (label, value):
        if one is not None and one != "":
            return verdict(one, key)
    return None


class _Conversation:
    """The turns of one run, from its spans in order.

    `marks` keeps what tells messages apart, by the `id` of each: every span repeats those before it.
    """

    def __init__(self, spans: Sequence[Span], marks: dict[int, str]) -> None:
        self._spans = spans
        self._marks = marks
        self._builder = TurnBuilder()
        self._times_added: Counter[str] = Counter()
        self._by_id: dict[str, OpenCall] = {}
        self._executed: set[int] = set()
        self._latest: list[OpenCall] = []
        self._latest_end: float = 0.0
        self._has_models = any(span.kind == "model" for span in spans)

    def turns(self) -> Any:
        """All turns."""
        roots = [span for span in self._spans if span.kind == "other" and (span.given or span.answer)]
        models = [span for span in self._spans if span.kind == "model"]
        if roots and not any(span.given for span in models):
            self._add_all(roots[0].given)
        for span in self._spans:
            if span.kind == "model":
                self._latest = []
                self._add_all([*span.given, *span.answer])
            elif span.kind == "tool":
                self._execute(span)
        if roots and not any(span.answer for span in models):
            self._add_all(roots[0].answer)
        return self._builder.build()

    def _add_all(self, messages: list[Object]) -> None:
        """Add what is new. A conversation may hold equal messages: as many as the longest request has."""
        here: Counter[str] = Counter()
        for message in messages:
            mark = self._marks.get(id(message)) or self._marks.setdefault(id(message), _mark(message))
            here[mark] += 1
            if here[mark] > self._times_added[mark]:
                self._times_added[mark] += 1
                self._add(message)

    def _add(self, message: Object) -> None:
        role, text, calls, content = message.get("role"), _text_of(message), chat_calls(message), message.get("content")
        results = [part for part in content if _is_result(part)] if fields.is_list(content) else []
        if role in ("tool", "function"):
            self._add_result(message.get("tool_call_id"), text, None)
        for part in results:
            self._add_result(part.get("tool_use_id"), fields.plain_text(part.get("content")), part.get("is_error"))
        known = ROLES.get(role) if type(role) is str else None
        if known is None or not (text or calls):
            return
        if known == "assistant":
            self._latest = calls
            self._by_id |= {call.id: call for call in calls if call.id}
        self._builder.add(known, text, calls)

    def _add_result(self, id: Any, text: str, error: Any) -> None:
        call = self._by_id.get(id) if type(id) is str else None
        if call is not None and call.result is None:
            call.result = text or None
            call.error = error if call.error is None and type(error) is bool else call.error

    def _execute(self, span: Span) -> None:
        """Give a tool span to the call that it executes, or add one: models do not always record their answers."""
        call = self._by_id.get(span.call_id)
        if call is None:
            open_calls = (one for one in self._latest if id(one) not in self._executed and one.name == span.name)
            call = next(open_calls, None)
        if call is None:
            call = OpenCall(span.call_id or None, span.name, None)
            overlaps = span.start < self._latest_end
            if self._latest and (self._has_models or overlaps):
                self._latest.append(call)
            else:
                self._latest = [call]
                self._builder.add("assistant", "", self._latest)
            if span.call_id:
                self._by_id[span.call_id] = call
        self._latest_end = max(self._latest_end, span.end or span.start) if self._has_models else span.end or span.start
        self._executed.add(id(call))
        if not call.arguments and span.arguments is not None:
            call.arguments = OpenCall(None, span.name, span.arguments).arguments
        call.result = span.result if span.result is not None else call.result
        call.error = span.error if span.error is not None else call.error
        if span.end is not None and span.end >= span.start:
            call.latency_s = span.end - span.start


def _mark(message: Object) -> str:
    """Equal for equal messages: the ids of the calls, or what it says."""
    calls = chat_calls(message)
    said = [message.get("role"), message.get("tool_call_id"), _text_of(message), [call.name for call in calls]]
    return json.dumps([call.id for call in calls if call.id] or said)


def _text_of(message: Object) -> str:
    content = message.get("content")
    if fields.is_list(content):
        content = [part for part in content if not _is_result(part)]
    return fields.plain_text(content)


def _is_result(part: Any) -> bool:
    return fields.is_object(part) and part.get("type") == "tool_result"


def text_of(value: Any) -> str | None:
    """A tool's output as text; None if it was not recorded."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def messages_in(value: Any, role: str) -> list[Object]:
    """The messages of a model's input or output; none where they cannot be read: the rest of the span can."""
    try:
        return chat_messages(value, role)
    except RecordError:
        return []
