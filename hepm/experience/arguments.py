"""Where the arguments of a call come from, learned from successful runs without a model.

Each value that a successful run passed is looked for in what it knew: in results by path, in the user's words, in its
own earlier arguments. Each place found is a candidate. It is then tried at all calls: how often is what stands there
what was passed? The best candidate fills the argument, and is what a lesson names.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from hepm.experience.known_values import SCALARS, KnownValues, Leaf, comparable, elements, tokens_of
from hepm.experience.transcript import went_wrong
from hepm.ingest.redact import Redactor
from hepm.types import JSON, SUMMARY_TOOL, ToolCall, ToolName, Trajectory

SourceKind: TypeAlias = Literal["result", "argument", "words", "constant"]
Pick: TypeAlias = Literal["first", "last", "next", "fitting", "all"]

CALLS: Final = 300
"""Calls of one tool that are learned from: of more, the latest."""

FEWEST_CALLS: Final = 4
"""Calls of successful runs that must have passed an argument for a lesson to say where it comes from."""
FEWEST_TASKS: Final = 2
"""The same for tasks; for a value that is always the same one more."""
RIGHT_FROM: Final = 0.75
"""The share of them in which the place named must hold what was passed."""

_ANYWHERE: Final = ("0.0", "1.0", "true", "false", "null", "")
"""Values that stand in many results without coming from there, in their comparable form."""

_TWO_DIGITS: Final = re.compile(r"\d{2}")
_PLAIN_VALUE: Final = re.compile(r"[\w][\w .:/@-]{0,39}")
_PLACES: Final = 14  # candidates of one argument, times the ways to pick
_KNOWN_WORDS: Final = 60
_PRIOR: Final = 2.0  # pseudo-counts by which a share in a context is drawn to the share overall
_NEARLY_ALWAYS: Final = 0.95

_CAPITALISED: Final = re.compile(r"\b[A-Z][\w'’.-]*(?:\s+(?:(?:of|de|the|and|&|-)\s+)?[A-Z0-9][\w'’.-]*)*")
_QUOTED: Final = re.compile(r"(?<!\w)['\"“‘]([^'\"“”‘’\n]{1,120})['\"”’](?!\w)")
_AMOUNT: Final = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
_MONTH_NAMES: Final = (
    "jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
    "sep sept september", "oct october", "nov november", "dec december",
)  # fmt: skip
_MONTHS: Final = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
_MONTH_DAY: Final = re.compile(r"\b([A-Za-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?\b")
_DAY_MONTH: Final = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?([A-Za-z]{3,9})\.?(?:,?\s+(\d{4}))?\b")
_YEAR: Final = re.compile(r"\b(20\d\d)\b")


class ArgumentSource(NamedTuple):
    """Where a value stands.

    Attributes:
        of: Of a result its tool, of the user's words how the value is found in them.
        path: Of a result the path in it, of an argument its name, of words what they are found by; of a constant it.
        pick: Which one, where there are several. "next" is the first that was not passed before, "fitting" the one
            whose object has most of the user's words.
    """

    kind: SourceKind
    of: str = ""
    path: str = ""
    pick: Pick = "last"


@dataclass(slots=True)
class _Tried:
    """Where the argument was passed: how often a source had a value, and the right one; `idle`: had one elsewhere."""

    fires: float = 0
    hits: float = 0
    idle: float = 0


class _Context(NamedTuple):
    several: bool
    last: ToolName


@dataclass(slots=True)
class LearnedArgument:
    """One argument of a tool, as successful calls passed it.

    Attributes:
        calls: How many calls passed it.
        values: How often each value was passed, in its comparable form.
        spelled: Each as it was passed first.
        tasks: The tasks in which it was passed: what held in one may be a property of that task.
        shapes: Regular expressions of the values' forms.
        places: Where a value that was passed stood.
        tried_in: `tried` by source in a context.
        listed: Whether it takes a list.
    """

    name: str
    calls: int = 0
    values: Counter[str] = field(default_factory=Counter[str])
    spelled: dict[str, JSON] = field(default_factory=dict[str, JSON])
    listed: int = 0
    tasks: set[str] = field(default_factory=set[str])
    shapes: Counter[str] = field(default_factory=Counter[str])
    places: Counter[tuple[SourceKind, str, str]] = field(default_factory=Counter[tuple[SourceKind, str, str]])
    present_after: Counter[ToolName] = field(default_factory=Counter[ToolName])
    tried: dict[ArgumentSource, _Tried] = field(default_factory=dict[ArgumentSource, _Tried])
    tried_in: dict[tuple[ArgumentSource, object], _Tried] = field(
        default_factory=dict[tuple[ArgumentSource, object], _Tried]
    )

    def sources(self) -> list[ArgumentSource]:
        """All candidates."""
        found: list[ArgumentSource] = []
        for (kind, of, path), count in self.places.most_common(_PLACES):
            if count > 1 or self.calls < 4:
                found += [ArgumentSource(kind, of, path, pick) for pick in _picks(kind, listed=self.listed > 0)]
        for shape, count in self.shapes.most_common(3):
            if 10 * count >= self.calls:
                found += [ArgumentSource("words", "shape", shape, pick) for pick in ("first", "last", "next")]
        for of in ("known", "quoted", "capitals", "amount", "date"):
            found += [ArgumentSource("words", of, "", pick) for pick in ("first", "last", "next")]
        if self.listed:
            found += [ArgumentSource("words", of, "", "all") for of in ("known", "quoted", "capitals")]
        common = [value for value, count in self.values.most_common(3) if count > 1 or self.calls < 3]
        return found + [ArgumentSource("constant", "", value) for value in common]

    def chance(self, source: ArgumentSource, context: _Context) -> float:
        """How often the source is right in such a context, in [0, 1], drawn to how often it is right at all."""
        chance = 0.3
        for key in (None, context.several, context):
            tried = self.tried.get(source) if key is None else self.tried_in.get((source, key))
            if tried is not None:
                chance = (tried.hits + _PRIOR * chance) / (tried.fires + _PRIOR)
        return chance

    def is_passed_with(self, source: ArgumentSource) -> float:
        """The share of calls that passed the argument, of those where the source had a value."""
        tried = self.tried[source]
        return tried.fires / max(tried.fires + tried.idle, 1)


def _picks(kind: SourceKind, *, listed: bool) -> tuple[Pick, ...]:
    if kind == "argument":
        return "last", "first"
    if kind == "words":
        return "last", "first", "next"
    picks: tuple[Pick, ...] = ("first", "last", "next", "fitting")
    return (*picks, "all") if listed else picks


@dataclass(slots=True)
class ToolArguments:
    """The arguments of one tool.

    Attributes:
        calls: How many calls were learned from.
        runs: Those that made them, the latest last.
        after: The same by the tool called before.
    """

    tool: ToolName
    calls: int = 0
    runs: dict[str, None] = field(default_factory=dict[str, None])
    after: Counter[ToolName] = field(default_factory=Counter[ToolName])
    arguments: dict[str, LearnedArgument] = field(default_factory=dict[str, LearnedArgument])

    def fill(self, known: KnownValues) -> dict[str, JSON]:
        """The arguments of a call of the tool now, as far as they are known."""
        filled: dict[str, JSON] = {}
        for name, argument in self.arguments.items():
            best = self._best(argument, known)
            if best is None:
                continue
            source, value = best
            share = self._share(argument, known.last)
            if share >= _NEARLY_ALWAYS or (share + argument.is_passed_with(source)) / 2 >= 0.5:
                filled[name] = value
        return filled

    def origins(self) -> list[Origin]:
        """Where the arguments come from that most calls pass, as far as one place is right for most of these."""
        found: list[Origin] = []
        for name, argument in self.arguments.items():
            usual = 2 * argument.calls > self.calls
            origin = _origin_of(name, argument) if usual else None
            if origin is not None:
                found.append(origin)
        return found

    def _share(self, argument: LearnedArgument, last: ToolName) -> float:
        """The share of calls that passed an argument, of those after a tool, drawn to the share of all."""
        overall = argument.calls / self.calls
        return (argument.present_after[last] + _PRIOR * overall) / (self.after[last] + _PRIOR)

    def _best(self, argument: LearnedArgument, known: KnownValues) -> tuple[ArgumentSource, JSON] | None:
        reader = _Reader(self.tool, argument, known)
        best: tuple[float, ArgumentSource, JSON] | None = None
        for source in argument.tried:
            value, several = reader.value(source)
            if value is None:
                continue
            chance = argument.chance(source, _Context(several, known.last))
            if best is None or chance > best[0]:
                best = chance, source, value
        return None if best is None else best[1:]


class Origin(NamedTuple):
    """Where an argument comes from: in `right` of the `calls` that passed it."""

    name: str
    source: ArgumentSource
    right: int
    calls: int

    def __str__(self) -> str:
        """Such as "order_id ← get_order.order_id"."""
        equals = self.source.kind == "constant"
        return f"{self.name} {'=' if equals else '←'} {self.origin_text}"

    @property
    def origin_text(self) -> str:
        """Such as "get_order.order_id"."""
        return source_in_words(self.source)


def _origin_of(name: str, argument: LearnedArgument) -> Origin | None:
    if argument.calls < FEWEST_CALLS:
        return None

    def rank(source: ArgumentSource) -> tuple[float, int, int]:
        # Of sources that are right equally often the plainest; what also stands in words may change with them.
        plainness = ("constant", "argument", "words", "result").index(source.kind)
        return argument.tried[source].hits, plainness, source.pick in ("first", "last")

    best = max(argument.tried, key=rank, default=None)
    hits = int(argument.tried[best].hits) if best is not None else 0
    if best is None or hits < RIGHT_FROM * argument.calls:
        return None
    tasks = len(argument.tasks)
    if tasks < FEWEST_TASKS:
        return None
    if best.kind == "result" and 2 * sum(argument.values[value] for value in _ANYWHERE) > argument.calls:
        return None
    if best.kind == "constant":
        value = argument.spelled[best.path]
        text = value if isinstance(value, str) else json.dumps(value)
        if len(argument.values) > 1 or tasks <= FEWEST_TASKS or not may_be_named(name, text):
            return None
        best = best._replace(path=text)
    return Origin(name, best, hits, argument.calls)


def may_be_named(name: str, value: str) -> bool:
    """Whether a value is a plain word or a small number: others are ids, personal, or secret."""
    if not _PLAIN_VALUE.fullmatch(value) or _TWO_DIGITS.search(value):
        return False
    text = f"{name}: {value}"
    return Redactor().text(text) == text


def source_in_words(source: ArgumentSource) -> str:
    """Such as "get_order.order_id", "the order_id before", "the user's words"."""
    if source.kind == "constant":
        return source.path
    if source.kind == "argument":
        return f"the {source.path} before" if source.pick == "last" else f"the first {source.path}"
    if source.kind == "words":
        return f"the user's words{_FORMS.get(source.of, '')}"
    if source.path in ("", "word", "line"):
        of = f"the result of {source.of}"
    elif source.path.endswith("*"):
        of = f"a key of {f'{source.of}.{source.path}'.removesuffix('.*')}"
    else:
        of = f"{source.of}.{source.path.removesuffix(':')}"
    return _PICKS[source.pick].format(of)


_FORMS: Final = {"quoted": " in quotes", "date": ", as YYYY-MM-DD", "amount": ", a number"}
_PICKS: Final[dict[Pick, str]] = {
    "first": "{}",
    "last": "{}",
    "next": "{}, the next one",
    "fitting": "{}, the one the user means",
    "all": "all of {}",
}


class _Reader:
    """Reads the values of an argument's sources at one point of a run; each place once."""

    def __init__(self, tool: ToolName, argument: LearnedArgument, known: KnownValues) -> None:
        self._argument = argument
        self._known = known
        self._used = known.used.get((tool, argument.name), set[str]())
        self._found: dict[tuple[str, str, str], list[list[Leaf]]] = {}

    def value(self, source: ArgumentSource) -> tuple[JSON, bool]:
        """The value there now, None without one; and whether there are several to choose from."""
        argument = self._argument
        if source.kind == "constant":
            return argument.spelled[source.path], False
        place = source.kind, source.of, source.path
        if place not in self._found:
            self._found[place] = self._read(source)
        groups = self._found[place]
        if not groups:
            return None, False
        latest = groups[-1]
        several = len({comparable(leaf.value) for leaf in latest}) > 1
        value = self._picked(source.pick, groups)
        if value is None:
            return None, several
        wrapped = argument.listed * 2 > argument.calls and not isinstance(value, list | tuple)
        return ([value] if wrapped else value), several

    def _picked(self, pick: Pick, groups: Sequence[Sequence[Leaf]]) -> JSON:
        latest = groups[-1]
        if pick == "first":
            return latest[0].value
        if pick == "last":
            return latest[-1].value
        if pick == "all":
            distinct = {comparable(leaf.value): leaf.value for leaf in latest}
            return [*distinct.values()]
        every = [leaf for group in groups for leaf in group]
        unused = [leaf for leaf in every if comparable(leaf.value) not in self._used]
        if pick == "next":
            return unused[0].value if unused else None
        words = self._known.words
        best = max(unused or every, key=lambda leaf: len(leaf.words & words))
        return best.value if best.words & words else None

    def _read(self, source: ArgumentSource) -> list[list[Leaf]]:
        known = self._known
        if source.kind == "result":
            groups = (
                [leaf for leaf in result if leaf.path == source.path] for result in known.results.get(source.of, ())
            )
            return [group for group in groups if group]
        if source.kind == "argument":
            values = known.given.get(source.path, ())
            return [[Leaf("", value, frozenset()) for value in values]] if values else []
        mentions = [Leaf("", value, frozenset()) for value in self._mentioned(source)]
        return [mentions] if mentions else []

    def _mentioned(self, source: ArgumentSource) -> Iterator[str]:
        for text in self._known.said:
            yield from _found_in(text, source.of, source.path, self._argument)


def _found_in(text: str, how: str, what: str, argument: LearnedArgument) -> Iterator[str]:
    """Values in a message of the user, in order."""
    if how == "shape":
        shape = re.compile(what)
        yield from (token for token in tokens_of(text) if shape.fullmatch(token))
    elif how == "known":
        yield from _known_in(text, argument)
    elif how == "quoted":
        yield from _QUOTED.findall(text)
    elif how == "capitals":
        yield from (found.rstrip(".,'’") for found in _CAPITALISED.findall(text))
    elif how == "amount":
        yield from (found.replace(",", "") for found in _AMOUNT.findall(text))
    elif how == "date":
        yield from _dates_in(text)
    elif how == "after":
        word, _, distance = what.rpartition(" ")
        tokens = tokens_of(text)
        for at, token in enumerate(tokens[: -int(distance)]):
            if token.casefold() == word:
                yield tokens[at + int(distance)]
    elif how == "span after":
        for found in re.finditer(rf"\b{re.escape(what)}\s+({_CAPITALISED.pattern})", text, re.IGNORECASE):
            if found[1][:1].isupper():
                yield found[1].rstrip(".,'’")


def _known_in(text: str, argument: LearnedArgument) -> Iterator[str]:
    folded = " ".join(text.split()).casefold()
    found: list[tuple[int, int, str]] = []
    for value, _ in argument.values.most_common(_KNOWN_WORDS):
        spelled = argument.spelled[value]
        if isinstance(spelled, str) and 1 < len(value) <= 60:
            at = folded.rfind(value.replace("_", " ") if value.replace("_", " ") in folded else value)
            if at >= 0:
                found.append((at, len(value), spelled))
    for _, _, spelled in sorted(found):
        yield spelled


def _dates_in(text: str) -> Iterator[str]:
    years = _YEAR.findall(text)
    found: list[tuple[int, str]] = []
    for pattern, month_at, day_at in ((_MONTH_DAY, 1, 2), (_DAY_MONTH, 2, 1)):
        for match in pattern.finditer(text):
            month = _MONTHS.get(match[month_at].casefold())
            year = match[3] or (years[0] if years else "")
            if month and year and 1 <= int(match[day_at]) <= 31:
                found.append((match.start(), f"{year}-{month:02}-{int(match[day_at]):02}"))
    for _, date in sorted(found):
        yield date


def shape_of(text: str) -> str:
    """A regular expression for texts of the same form; "" for plain words, which have none."""
    if not text or len(text) > 60 or " " in text or text.isalpha():
        return ""
    runs = re.finditer(r"\d+|[A-Z]+|[a-z]+|.", text)
    parts: list[str] = []
    for run in runs:
        found = run[0]
        if found.isdigit():
            parts.append(rf"\d{{{len(found)}}}" if len(found) < 12 else r"\d+")
        elif found[0].isascii() and found.isalpha():
            parts.append("[A-Z]+" if found.isupper() else "[a-z]+")
        else:
            parts.append(re.escape(found))
    shape = "".join(parts)
    # Ids may mix letters and digits in any order: those have one form for all.
    if len(parts) > 4 and re.fullmatch(r"[A-Z0-9]+", text):
        return f"[A-Z0-9]{{{len(text)}}}"
    return shape


def learn_arguments(runs: Iterable[Trajectory], *, calls: int = CALLS) -> dict[ToolName, ToolArguments]:
    """The arguments of each tool, learned from the calls without an error of successful runs.

    Args:
        calls: Most calls of one tool; of more, those of the last runs.
    """
    wanted = [run for run in runs if run.outcome.graded().success is True]
    learned: dict[ToolName, ToolArguments] = {}
    taken = Counter[ToolName]()
    kept: list[Trajectory] = []
    for run in reversed(wanted):
        names = Counter(call.name for call in run.calls())
        if any(taken[name] < calls for name in names):
            kept.append(run)
            taken += names
    kept.reverse()

    def find(known: KnownValues, call: ToolCall, task: str, run: str) -> None:
        tool = learned.setdefault(call.name, ToolArguments(call.name))
        tool.runs[run] = None
        tool.calls += 1
        tool.after[known.last] += 1
        for name, value in call.arguments.items():
            argument = tool.arguments.setdefault(name, LearnedArgument(name))
            argument.tasks.add(task)
            _find_places(argument, known, value)

    def try_out(known: KnownValues, call: ToolCall) -> None:
        tool = learned[call.name]
        for name, argument in tool.arguments.items():
            _try_sources(call, argument, known, passed=name in call.arguments)

    for run in kept:
        replay(run, partial(find, task=task_key(run), run=run.id))
    for tool in learned.values():
        for argument in tool.arguments.values():
            argument.tried = {source: _Tried() for source in argument.sources()}
    for run in kept:
        replay(run, try_out)
    return learned


def task_key(run: Trajectory) -> str:
    """Equal for runs of one task: its id, or without one the user's first message but for numbers."""
    first = next((turn.text for turn in run.turns if turn.role == "user" and turn.text), "")
    return run.task or re.sub(r"\d+", "0", first[:200])


def replay(
    run: Trajectory, at_call: Callable[[KnownValues, ToolCall], object], *, known: KnownValues | None = None
) -> None:
    """Go through a run; before each call of the agent that did not fail, `at_call` gets what is known, and the call."""
    known = known or KnownValues()
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            known.say(turn.text)
        own = [call for call in turn.calls if call.name != SUMMARY_TOOL]
        for call in own:
            if turn.role != "user" and not went_wrong(call):
                at_call(known, call)
            known.give(call)
        known.receive(own)


def _find_places(argument: LearnedArgument, known: KnownValues, value: JSON) -> None:
    argument.calls += 1
    argument.present_after[known.last] += 1
    key = comparable(value)
    argument.values[key] += 1
    argument.spelled.setdefault(key, value)
    argument.listed += isinstance(value, list | tuple)
    places: set[tuple[SourceKind, str, str]] = set()
    for element in elements(value):
        if not isinstance(element, SCALARS):
            continue
        sought = comparable(element)
        argument.shapes.update(filter(None, [shape_of(str(element))]))
        for tool, results in known.results.items():
            for result in results:
                places.update(("result", tool, leaf.path) for leaf in result if comparable(leaf.value) == sought)
        for name, values in known.given.items():
            if any(comparable(one) == sought for one in values):
                places.add(("argument", "", name))
        places.update(("words", how, what) for how, what in _anchors(known.said, str(element)))
    argument.places.update(sorted(places))  # in the order of a set, equal runs would teach each process something else


def _anchors(said: Sequence[str], value: str) -> Iterator[tuple[str, str]]:
    """The words before a value in the user's messages, by which it may be found."""
    wanted = [token.casefold() for token in tokens_of(value)]
    if not wanted:
        return
    for text in said:
        tokens = [token.casefold() for token in tokens_of(text)]
        for at in range(1, len(tokens) - len(wanted) + 1):
            if tokens[at : at + len(wanted)] == wanted:
                if len(wanted) == 1:
                    yield "after", f"{tokens[at - 1]} 1"
                    if at > 1:
                        yield "after", f"{tokens[at - 2]} 2"
                if value[:1].isupper():
                    yield "span after", tokens[at - 1]


def _try_sources(call: ToolCall, argument: LearnedArgument, known: KnownValues, *, passed: bool) -> None:
    reader = _Reader(call.name, argument, known)
    sought = comparable(call.arguments[argument.name]) if passed else ""
    for source, tried in argument.tried.items():
        value, several = reader.value(source)
        if value is None:
            continue
        context = _Context(several, known.last)
        inside = [argument.tried_in.setdefault((source, key), _Tried()) for key in (several, context)]
        for one in (tried, *inside):
            if passed:
                one.fires += 1
                one.hits += comparable(value) == sought
            else:
                one.idle += 1
