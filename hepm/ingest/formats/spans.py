"""From the spans of a trace to runs: each model span is a turn, and each tool span belongs to a call in it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

from hepm.ingest.fields import Objects, number_at, plain_text
from hepm.ingest.formats.chat import verdict
from hepm.ingest.formats.document import Document, Reader, RunOrigin
from hepm.ingest.formats.turns import ROLES, OpenCall, TurnBuilder, chat_calls
from hepm.ingest.joining import joined, mark_key
from hepm.ingest.records import Items, ReadOptions, RecordError, filled, graded
from hepm.ingest.tools import listed_tools
from hepm.types import Object, Outcome, Trajectory, TurnMark

_KEPT: Final = "hepm:mark"  # key of the mark of a message, kept in it
_LATER_S: Final = 1e-6  # between the messages of one span, so that their order is kept


Score: TypeAlias = tuple[str, Any, Any]
"""Name, value and label of an evaluation."""


@dataclass(slots=True)
class TraceSpan:
    """One span.

    An "event" holds the messages of a span that are in a log.

    Attributes:
        session: The conversation that its trace belongs to; "" if it names none.
        start, end: Unix time in seconds; `end` is None if it did not end.
        name, call_id, arguments, result, error, refused: Of a tool's call. None if not recorded.
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
    kind: Literal["model", "tool", "other", "event"] = "other"
    name: str = ""
    call_id: str = ""
    arguments: Any = None
    result: str | None = None
    error: bool | None = None
    refused: bool = False
    given: Objects = field(default_factory=Objects)
    answer: Objects = field(default_factory=Objects)
    about: dict[str, str] = field(default_factory=dict[str, str])
    tools: list[Any] = field(default_factory=list[Any])
    scores: list[Score] = field(default_factory=list[Score])


class Spans:
    """Collects the spans of a file, which come in any order, and makes runs of them.

    Each request to a model repeats the conversation before it: equal messages are kept once, so that memory grows with
    what was said.
    """

    def __init__(self, options: ReadOptions | None = None) -> None:
        self.options = options or ReadOptions()
        self._spans: dict[tuple[str, str], TraceSpan] = {}
        self._events: dict[tuple[str, str], list[TraceSpan]] = {}
        self._messages: dict[str, Object] = {}
        self._scores: defaultdict[str, list[Score]] = defaultdict(list)

    def add(self, span: TraceSpan) -> None:
        """Take a span; the same one again replaces it."""
        # Each request repeats the messages before it: they are kept once.
        span.given = self._once(span.given)
        span.answer = self._once(span.answer)
        if span.kind == "event":
            self._events.setdefault((span.trace, span.id), []).append(span)
        else:
            self._spans[span.trace, span.id] = span

    def __iter__(self) -> Iterator[TraceSpan]:
        return iter(self._spans.values())

    def add_score(self, trace: str, score: Score) -> None:
        """Take an evaluation of a trace."""
        self._scores[trace].append(score)

    def _once(self, messages: Objects) -> Objects:
        return [self._messages.setdefault(json.dumps(message, sort_keys=True), message) for message in messages]

    def runs(self, origin: RunOrigin) -> Items:
        """A run for each conversation, or trace without one, in the order of their beginnings."""
        self._add_events()
        # Often only some spans of a trace name the session.
        sessions = {span.trace: span.session for span in self._spans.values() if span.session}
        groups: dict[str, dict[str, list[TraceSpan]]] = {}
        for span in sorted(self._spans.values(), key=lambda span: (span.start, span.kind)):
            # Several traces of one session are one run.
            id = sessions.get(span.trace) or span.trace
            # What a tool does inside is not the agent's; an agent that is called as a tool is a run of its own.
            tool_span = self._tool_around(span)
            if tool_span:
                id = f"{id}/{tool_span.id}"
            groups.setdefault(id, {}).setdefault(span.trace, []).append(span)
        for id, traces in groups.items():
            spans = list(chain.from_iterable(traces.values()))
            kinds = {span.kind for span in spans}
            answered = (message for span in spans for message in span.answer)
            has_calls = "tool" in kinds or any(message.get("tool_calls") for message in answered)
            has_models = "model" in kinds
            # A tool that only asks a model, or only calls functions, is no agent.
            if (has_calls and has_models) or ((has_calls or has_models) and not self._tool_around(spans[0])):
                yield origin.built(id, {}, partial(self._run, id, [*traces.values()], origin))

    def _add_events(self) -> None:
        """Give messages that were logged to their spans, which may be in another file."""
        for key, events in self._events.items():
            events.sort(key=lambda event: event.start)
            span = self._spans.setdefault(key, TraceSpan(*key, start=events[0].start))
            if span.kind != "tool" and not span.given and not span.answer:
                span.kind = "model"
                for event in events:
                    span.given += event.given
                    span.answer += event.answer

    def _run(self, id: str, traces: Sequence[Sequence[TraceSpan]], origin: RunOrigin, _: Object) -> Trajectory:
        """The run that all traces make together; RecordError if they are not of one."""
        whole = joined([self._part(id, spans, origin.options) for spans in traces])
        if whole is None:
            raise RecordError("its traces are of several users, disagree, or are too many for one conversation")
        if not whole.turns:
            raise RecordError("the run holds no messages")
        return origin.identified(whole, id)

    def _part(self, id: str, spans: Sequence[TraceSpan], options: ReadOptions) -> Trajectory:
        """What one trace holds of a conversation."""
        scores = [*self._scores[spans[0].trace], *chain.from_iterable(span.scores for span in spans)]
        about = {"environment": "", "model": "", "user": "", "agent": ""}
        for span in spans:
            # The first one that says it counts: the agent's own span comes before those of its models.
            about |= span.about | filled(**about)
        agent = about.pop("agent")
        return Trajectory(
            id,
            _TraceTurns(spans).turns(),
            evaluated(scores, options),
            ended_at=max([span.end or span.start for span in spans]) or None,
            tags=filled(agent=agent),
            tools=listed_tools(max([span.tools for span in spans], key=len)),
            **about,
        )

    def _tool_around(self, span: TraceSpan) -> TraceSpan | None:
        """The innermost tool span that it is inside of."""
        seen = {span.id}  # a damaged trace may name a span as its own ancestor
        outer = self._spans.get((span.trace, span.parent))
        while outer is not None and outer.id not in seen:
            if outer.kind == "tool":
                return outer
            seen.add(outer.id)
            outer = self._spans.get((outer.trace, outer.parent))
        return None


def evaluated(scores: Sequence[Score], options: ReadOptions) -> Outcome:
    """The outcome in evaluations: those with the names of the options; else the only one.

    Other evaluations than a reward measure anything ("relevance: 0.8"), so that only a verdict in words, true or false
    makes them a label.
    """
    # Of evaluations with one name the last one counts.
    values = {name: value for name, value, _ in scores}
    # {"value": 1, "label": "incorrect"} is a failure.
    verdicts = {name: value if label in (None, "") else label for name, value, label in scores}
    reward = number_at(values, options.reward_key)
    for key in (options.success_key, options.label_key):
        success = verdict(verdicts.get(key), key)
        if success is not None:
            return Outcome(reward, success)
    if reward is None and len(verdicts) == 1:
        # An evaluation of any name, if it is the only one: "correctness" with the label "yes".
        [(name, given)] = verdicts.items()
        if not isinstance(given, str | bool):
            return Outcome()
        success = verdict(given, name)
        # Without a verdict the number is a measure of anything, and no reward that a threshold could read.
        if success is not None and isinstance(values[name], int | float):
            reward = float(values[name])
        return Outcome(reward, success)
    return graded(reward)


class _TraceTurns:
    """The turns of one trace, from its spans in order."""

    def __init__(self, spans: Sequence[TraceSpan]) -> None:
        self._spans = spans
        self._builder = TurnBuilder()
        self._times_added: Counter[str] = Counter()
        self._by_id: dict[str, OpenCall] = {}
        self._executed: set[int] = set()
        self._latest: list[OpenCall] = []
        self._latest_end: float = 0.0
        self._scope = mark_key(spans[0].trace)
        self._at: float = 0.0
        self._models = [span for span in spans if span.kind == "model"]

    def turns(self) -> Any:
        """All turns."""
        # The span around an agent: its input and output stand in for those that its models did not record.
        roots = (span for span in self._spans if span.kind == "other" and (span.given or span.answer))
        root = next(roots, TraceSpan("", ""))
        if not any(span.given for span in self._models):
            self._add_all(root.given)
        for span in self._spans:
            self._at = max(self._at, span.start)
            if span.kind == "model":
                # The spans of tools that follow belong to the calls of this answer.
                self._latest = []
                earlier = _earlier(span.given) if span is self._models[0] else 0
                self._add_all([*span.given, *span.answer], earlier=earlier)
            elif span.kind == "tool":
                self._execute(span)
        if not any(span.answer for span in self._models):
            self._add_all(root.answer)
        return self._builder.build()

    def _add_all(self, messages: Objects, *, earlier: int = 0) -> None:
        """Add what is new. A conversation may hold equal messages: as many as the longest request has.

        The `earlier` first ones are of before this trace; so is a system prompt, which each trace repeats.
        """
        times_seen: Counter[str] = Counter()
        for number, message in enumerate(messages):
            # Kept in it: equal messages are one object here (see `Spans.add`), and making a mark is slow.
            mark = message.get(_KEPT) or message.setdefault(_KEPT, _mark(message))
            times_seen[mark] += 1
            if times_seen[mark] > self._times_added[mark]:
                self._times_added[mark] += 1
                is_earlier = number < earlier or message.get("role") in ("system", "developer")
                self._at += _LATER_S
                scope = "" if is_earlier else self._scope
                self._add(message, TurnMark(self._at, scope, (mark_key(mark, times_seen[mark]),)))

    def _add(self, message: Object, mark: TurnMark) -> None:
        role = message.get("role")
        text = plain_text(message.get("content"))
        calls = chat_calls(message)
        if role in ("tool", "function"):
            call = self._by_id.get(str(message.get("tool_call_id")))
            if call is not None and call.result is None:
                # Nothing is no result: the tool's span may bring one.
                call.result = text or None
                if call.error is None and type(message.get("is_error")) is bool:
                    call.error = message["is_error"]
                call.refused = call.refused or message.get("refused") is True
        turn_role = ROLES.get(str(role))
        if turn_role is None or not (text or calls):
            return
        if turn_role == "assistant":
            self._latest = calls
            self._by_id |= {call.id: call for call in calls if call.id}
        self._builder.add(turn_role, text, calls, mark=mark)

    def _execute(self, span: TraceSpan) -> None:
        """Give a tool span to the call that it executes, or add one: models do not always record their answers."""
        # The first call of the latest turn to this tool that no span has executed.
        open_calls = (call for call in self._latest if call.name == span.name and id(call) not in self._executed)
        call = self._by_id.get(span.call_id) or next(open_calls, None) or self._new_call(span)
        ended = span.end or span.start
        if self._models:
            ended = max(self._latest_end, ended)
        self._latest_end = ended
        self._executed.add(id(call))
        # The model's own arguments count: a tracer may have cut those of the span.
        if not call.arguments and span.arguments is not None:
            call.arguments = OpenCall(None, span.name, span.arguments).arguments
        if span.result is not None:
            call.result = span.result
        if span.error is not None:
            call.error = span.error
        call.refused = call.refused or span.refused
        # Clocks may step back between the two.
        if span.end is not None and span.end >= span.start:
            call.latency_s = span.end - span.start

    def _new_call(self, span: TraceSpan) -> OpenCall:
        """A call that no model recorded: in the latest turn, or in one of its own where it began after that one."""
        call = OpenCall(span.call_id or None, span.name, None)
        overlaps = span.start < self._latest_end
        if self._latest and (self._models or overlaps):
            self._latest.append(call)
        else:
            self._latest = [call]
            self._at += _LATER_S
            mark = TurnMark(self._at, self._scope, (mark_key(span.id),))
            self._builder.add("assistant", "", self._latest, mark=mark)
        if span.call_id:
            self._by_id[span.call_id] = call
        return call


def _earlier(given: Objects) -> int:
    """How many of the first messages of a trace are of before it: all but what the user said last."""
    for number in range(len(given), 0, -1):
        if given[number - 1].get("role") not in ("user", "system", "developer"):
            return number
    return 0


def _mark(message: Object) -> str:
    """Equal for equal messages: the ids of the calls, or what it says."""
    calls = chat_calls(message)
    ids = [call.id for call in calls if call.id]
    if ids:
        return json.dumps(ids)
    tools = [call.name for call in calls]
    return json.dumps([message.get("role"), message.get("tool_call_id"), plain_text(message.get("content")), tools])


def span_reader(name: str, recognises: Callable[[Document], bool], add: Callable[[Spans, Object], None]) -> Reader:
    """A reader of a format whose records are spans, or hold some, which `add` puts into a `Spans`."""

    def read(document: Document) -> Items:
        """All spans are collected first: those of a trace come in any order, over several lines."""
        spans = Spans(document.options)
        yield from document.take(partial(add, spans))
        runs = list(spans.runs(document))
        yield from runs
        times = Counter(span.name for span in spans)
        if not runs and times:
            names = ", ".join([f"{name[:40]!r}" for name, _ in times.most_common(5)])
            reason = (
                f"none of its spans ({times.total():,}) is of a model or of an agent's tool by the conventions that "
                "hepm reads: OpenTelemetry's (gen_ai.*), OpenInference, OpenLLMetry, the AI SDK's. They are named "
            )
            yield document.rejected(None, reason + names)

    return Reader(name, recognises, read)
