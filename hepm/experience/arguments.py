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

from hepm.experience.known_values import SCALARS, KnownValues, Leaf, comparable, elements, folded_tokens, tokens_of
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

# Values that stand in many results without coming from there, in their comparable form: 0 and 1 are "0.0" and "1.0".
_ANYWHERE: Final = ("0.0", "1.0", "true", "false", "null", "")

_TWO_DIGITS: Final = re.compile(r"\d{2}")
_PLAIN_VALUE: Final = re.compile(r"[\w][\w .:/@-]{0,39}")
_PLACES: Final = 14  # candidates of one argument, times the ways to pick
_SHAPES: Final = 3  # forms of one argument's values that are searched for in the user's words, commonest first
_CONSTANTS: Final = 3  # values of one argument that are candidates by themselves
_KNOWN_WORDS: Final = 60  # values passed before that are searched for in the user's words
_UNTRIED: Final = 0.3  # how often a source is right of which nothing is known
_PRIOR: Final = 2.0  # pseudo-counts by which a share in a context is drawn to the share overall
# Share of calls that pass an argument from which on it counts as required.
_NEARLY_ALWAYS: Final = 0.95

# "New York", "Museum of Modern Art", "Gate B2": small words only between capitals.
_CAPITALISED: Final = re.compile(r"\b[A-Z][\w'’.-]*(?:\s+(?:(?:of|de|the|and|&|-)\s+)?[A-Z0-9][\w'’.-]*)*")
# An apostrophe inside a word, as in "user's", opens no quotation.
_QUOTED: Final = re.compile(r"(?<!\w)['\"“‘]([^'\"“”‘’\n]{1,120})['\"”’](?!\w)")
# "1,200.50", and not the digits of "B2" or of "1.2.3".
_AMOUNT: Final = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
_MONTH_NAMES: Final = (
    "jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
    "sep sept september", "oct october", "nov november", "dec december",
)  # fmt: skip
_MONTHS: Final = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
# "May 5th, 2024" and "5th of May 2024"; the year may be missing.
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
        candidates: list[ArgumentSource] = []
        for (kind, of, path), count in self.places.most_common(_PLACES):
            # Seen once among several calls, a place is most likely an accident.
            if count == 1 and self.calls >= 4:
                continue
            for pick in _picks(kind, listed=self.listed > 0):
                candidates.append(ArgumentSource(kind, of, path, pick))
        for shape, count in self.shapes.most_common(_SHAPES):
            if 10 * count >= self.calls:
                candidates += _in_words("shape", shape)
        for how in ("known", "quoted", "capitals", "amount", "date"):
            candidates += _in_words(how)
        if self.listed:
            for how in ("known", "quoted", "capitals"):
                candidates.append(ArgumentSource("words", how, "", "all"))
        for value, count in self.values.most_common(_CONSTANTS):
            if count > 1 or self.calls < 3:
                candidates.append(ArgumentSource("constant", "", value))
        return candidates

    def chance(self, source: ArgumentSource, context: _Context) -> float:
        """How often the source is right in such a context, in [0, 1], drawn to how often it is right at all."""
        # From the widest to the narrowest: each share is the prior of the next.
        chance = _UNTRIED
        for tried in (
            self.tried.get(source),
            self.tried_in.get((source, context.several)),
            self.tried_in.get((source, context)),
        ):
            if tried is not None:
                chance = (tried.hits + _PRIOR * chance) / (tried.fires + _PRIOR)
        return chance

    def is_passed_with(self, source: ArgumentSource) -> float:
        """The share of calls that passed the argument, of those where the source had a value."""
        tried = self.tried[source]
        return tried.fires / max(tried.fires + tried.idle, 1)


def _in_words(how: str, what: str = "") -> list[ArgumentSource]:
    """The candidates of one way to find values in the user's words."""
    picks: tuple[Pick, ...] = ("first", "last", "next")
    return [ArgumentSource("words", how, what, pick) for pick in picks]


def _picks(kind: SourceKind, *, listed: bool) -> tuple[Pick, ...]:
    if kind == "argument":
        return "last", "first"
    if kind == "words":
        return "last", "first", "next"
    if listed:
        return "first", "last", "next", "fitting", "all"
    return "first", "last", "next", "fitting"


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
            # An optional argument is filled if calls usually pass it here, or wherever this source has a value.
            if share >= _NEARLY_ALWAYS or (share + argument.is_passed_with(source)) / 2 >= 0.5:
                filled[name] = value
        return filled

    def origins(self) -> list[Origin]:
        """Where the arguments come from that most calls pass, as far as one place is right for most of these."""
        origins: list[Origin] = []
        for name, argument in self.arguments.items():
            if 2 * argument.calls <= self.calls:
                continue
            origin = _origin_of(name, argument)
            if origin is not None:
                origins.append(origin)
        return origins

    def _share(self, argument: LearnedArgument, last: ToolName) -> float:
        """The share of calls that passed an argument, of those after a tool, drawn to the share of all."""
        overall = argument.calls / self.calls
        return (argument.present_after[last] + _PRIOR * overall) / (self.after[last] + _PRIOR)

    def _best(self, argument: LearnedArgument, known: KnownValues) -> tuple[ArgumentSource, JSON] | None:
        """The source that is most often right here and has a value, and this value."""
        reader = _Reader(self.tool, argument, known)
        best: tuple[ArgumentSource, JSON] | None = None
        best_chance = -1.0
        for source in argument.tried:
            value, several = reader.value(source)
            if value is None:
                continue
            chance = argument.chance(source, _Context(several, known.last))
            if chance > best_chance:
                best = source, value
                best_chance = chance
        return best


class Origin(NamedTuple):
    """Where an argument comes from: in `right` of the `calls` that passed it."""

    name: str
    source: ArgumentSource
    right: int
    calls: int

    def __str__(self) -> str:
        """Such as "order_id ← get_order.order_id", or "currency = EUR"."""
        if self.source.kind == "constant":
            return f"{self.name} = {self.origin_text}"
        return f"{self.name} ← {self.origin_text}"

    @property
    def origin_text(self) -> str:
        """Such as "get_order.order_id"."""
        return source_in_words(self.source)


def _origin_of(name: str, argument: LearnedArgument) -> Origin | None:
    """Where an argument comes from; None if too little was seen, or no place is right often enough."""
    tasks = len(argument.tasks)
    if argument.calls < FEWEST_CALLS or tasks < FEWEST_TASKS:
        return None

    def rank(source: ArgumentSource) -> tuple[float, int, int]:
        # Of sources that are right equally often the plainest; what also stands in words may change with them.
        plainness = ("constant", "argument", "words", "result").index(source.kind)
        return argument.tried[source].hits, plainness, source.pick in ("first", "last")

    best = max(argument.tried, key=rank, default=None)
    if best is None:
        return None
    hits = int(argument.tried[best].hits)
    if hits < RIGHT_FROM * argument.calls:
        return None
    if best.kind == "result":
        # A 0 in a result is no reason to believe that the 0 passed came from there.
        anywhere = sum(argument.values[value] for value in _ANYWHERE)
        if 2 * anywhere > argument.calls:
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
    # With its name, as redaction knows secrets by it: "password: sunshine".
    text = f"{name}: {value}"
    return Redactor().text(text) == text


def source_in_words(source: ArgumentSource) -> str:
    """Such as "get_order.order_id", "the order_id before", "the user's words"."""
    if source.kind == "constant":
        return source.path
    if source.kind == "argument":
        if source.pick == "last":
            return f"the {source.path} before"
        return f"the first {source.path}"
    if source.kind == "words":
        return f"the user's words{_FORMS.get(source.of, '')}"
    return _PICKS[source.pick].format(_place_in_result(source.of, source.path))


def _place_in_result(tool: ToolName, path: str) -> str:
    """Such as "get_order.order_id", "a key of list_orders.orders", "the result of find_user"."""
    if path in ("", "word", "line"):
        return f"the result of {tool}"
    if path.endswith("*"):
        holder = f"{tool}.{path}".removesuffix(".*")
        return f"a key of {holder}"
    return f"{tool}.{path.removesuffix(':')}"


# How a value stands in the user's words: "the user's words in quotes".
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
        # Sources that differ only in how they pick share a place: each is read once.
        self._groups: dict[tuple[str, str, str], list[list[Leaf]]] = {}

    def value(self, source: ArgumentSource) -> tuple[JSON, bool]:
        """The value there now, None without one; and whether there are several to choose from."""
        argument = self._argument
        if source.kind == "constant":
            return argument.spelled[source.path], False
        place = source.kind, source.of, source.path
        if place not in self._groups:
            self._groups[place] = self._read(source)
        groups = self._groups[place]
        if not groups:
            return None, False
        several = len({comparable(leaf.value) for leaf in groups[-1]}) > 1
        value = self._picked(source.pick, groups)
        if value is None:
            return None, several
        takes_list = argument.listed * 2 > argument.calls
        if takes_list and not isinstance(value, list | tuple):
            return [value], several
        return value, several

    def _picked(self, pick: Pick, groups: Sequence[Sequence[Leaf]]) -> JSON:
        """The value that a pick takes of a place's leaves, a group for each result there, the latest last."""
        latest = groups[-1]
        if pick == "first":
            return latest[0].value
        if pick == "last":
            return latest[-1].value
        if pick == "all":
            distinct = {comparable(leaf.value): leaf.value for leaf in latest}
            return [*distinct.values()]
        every: list[Leaf] = []
        for group in groups:
            every += group
        unused = [leaf for leaf in every if comparable(leaf.value) not in self._used]
        if pick == "next":
            return unused[0].value if unused else None
        user_words = self._known.words
        best = max(unused or every, key=lambda leaf: len(leaf.words & user_words))
        return best.value if best.words & user_words else None

    def _read(self, source: ArgumentSource) -> list[list[Leaf]]:
        """The leaves at a source's place, a group for each result there, the latest last; no group is empty."""
        known = self._known
        if source.kind == "result":
            groups: list[list[Leaf]] = []
            for result in known.results.get(source.of, ()):
                leaves = [leaf for leaf in result if leaf.path == source.path]
                if leaves:
                    groups.append(leaves)
            return groups
        values: Iterable[JSON]
        if source.kind == "argument":
            values = known.given.get(source.path, ())
        else:
            values = self._mentioned(source)
        leaves = [Leaf("", value, frozenset()) for value in values]
        if not leaves:
            return []
        return [leaves]

    def _mentioned(self, source: ArgumentSource) -> Iterator[str]:
        for text in self._known.user_texts:
            yield from _values_in(text, source.of, source.path, self._argument)


def _values_in(text: str, how: str, what: str, argument: LearnedArgument) -> Iterator[str]:
    """Values in a message of the user, in order."""
    if how == "shape":
        shape = re.compile(what)
        yield from filter(shape.fullmatch, tokens_of(text))
    elif how == "known":
        yield from _known_in(text, argument)
    elif how == "quoted":
        yield from _QUOTED.findall(text)
    elif how == "capitals":
        for name in _CAPITALISED.findall(text):
            yield name.rstrip(".,'’")
    elif how == "amount":
        for amount in _AMOUNT.findall(text):
            yield amount.replace(",", "")
    elif how == "date":
        yield from _dates_in(text)
    elif how == "after":
        word, _, distance = what.rpartition(" ")
        yield from _tokens_after(text, word, int(distance))
    elif how == "span after":
        yield from _names_after(text, what)


def _tokens_after(text: str, word: str, distance: int) -> Iterator[str]:
    """The token at a distance from each occurrence of a word: of "order 4711 please", "order" and 1 it is 4711."""
    tokens = tokens_of(text)
    for position, token in enumerate(tokens[:-distance]):
        if token.casefold() == word:
            yield tokens[position + distance]


def _names_after(text: str, word: str) -> Iterator[str]:
    """The capitalised words after each occurrence of a word: of "fly to New York" and "to" it is "New York"."""
    for match in re.finditer(rf"\b{re.escape(word)}\s+({_CAPITALISED.pattern})", text, re.IGNORECASE):
        # IGNORECASE is for the word before; the name itself must have its capital.
        if match[1][:1].isupper():
            yield match[1].rstrip(".,'’")


def _known_in(text: str, argument: LearnedArgument) -> Iterator[str]:
    """Values passed before that stand in a text, as they were spelled then."""
    folded = " ".join(text.split()).casefold()
    mentions: list[tuple[int, int, str]] = []
    for value, _ in argument.values.most_common(_KNOWN_WORDS):
        spelled = argument.spelled[value]
        if not isinstance(spelled, str) or not 1 < len(value) <= 60:
            continue
        # Users write "round trip" for round_trip.
        position = folded.rfind(value.replace("_", " "))
        if position < 0:
            position = folded.rfind(value)
        if position >= 0:
            mentions.append((position, len(value), spelled))
    for _, _, spelled in sorted(mentions):
        yield spelled


def _dates_in(text: str) -> Iterator[str]:
    """Dates such as "May 5th, 2024" and "5 of May" as YYYY-MM-DD; one without a year has the text's first."""
    years = _YEAR.findall(text)
    year_of_text = years[0] if years else ""
    dates: list[tuple[int, str]] = []
    for pattern, month_group, day_group in ((_MONTH_DAY, 1, 2), (_DAY_MONTH, 2, 1)):
        for match in pattern.finditer(text):
            month = _MONTHS.get(match[month_group].casefold())
            day = int(match[day_group])
            year = match[3] or year_of_text
            if month and year and 1 <= day <= 31:
                dates.append((match.start(), f"{year}-{month:02}-{day:02}"))
    for _, date in sorted(dates):
        yield date


def shape_of(text: str) -> str:
    """A regular expression for texts of the same form; "" for plain words, which have none."""
    # Words have no form of their own: any other word would match.
    if not text or len(text) > 60 or " " in text or text.isalpha():
        return ""
    # "RES-20417" has the parts RES, - and 20417, and the shape [A-Z]+\-\d{5}.
    parts = re.findall(r"\d+|[A-Z]+|[a-z]+|.", text)
    # Ids may mix letters and digits in any order: those have one form for all.
    if len(parts) > 4 and re.fullmatch(r"[A-Z0-9]+", text):
        return f"[A-Z0-9]{{{len(text)}}}"
    return "".join(map(_shape_of_part, parts))


def _shape_of_part(part: str) -> str:
    if part.isdigit():
        return rf"\d{{{len(part)}}}" if len(part) < 12 else r"\d+"
    if part[0].isascii() and part.isalpha():
        return "[A-Z]+" if part.isupper() else "[a-z]+"
    return re.escape(part)


def learn_arguments(runs: Iterable[Trajectory], *, calls: int = CALLS) -> dict[ToolName, ToolArguments]:
    """The arguments of each tool, learned from the calls without an error of successful runs.

    Args:
        calls: Most calls of one tool; of more, those of the last runs.
    """
    kept = _latest_successful(runs, calls)
    learned: dict[ToolName, ToolArguments] = {}

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

    # Twice through the runs: a place found in the last one is tried in the first one too.
    for run in kept:
        replay(run, partial(find, task=task_key(run), run=run.id))
    for tool in learned.values():
        for argument in tool.arguments.values():
            argument.tried = {source: _Tried() for source in argument.sources()}
    for run in kept:
        replay(run, try_out)
    return learned


def _latest_successful(runs: Iterable[Trajectory], calls: int) -> list[Trajectory]:
    """Successful runs in their order, of the latest as many as it takes for so many calls of each tool."""
    successful = [run for run in runs if run.outcome.graded().success is True]
    taken = Counter[ToolName]()
    kept: list[Trajectory] = []
    for run in reversed(successful):
        calls_of = Counter(call.name for call in run.calls())
        if any(taken[tool] < calls for tool in calls_of):
            kept.append(run)
            taken += calls_of
    kept.reverse()
    return kept


def task_key(run: Trajectory) -> str:
    """Equal for runs of one task: its id, or without one the user's first message but for numbers."""
    if run.task:
        return run.task
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            return re.sub(r"\d+", "0", turn.text[:200])
    return ""


def replay(
    run: Trajectory, at_call: Callable[[KnownValues, ToolCall], object], *, known: KnownValues | None = None
) -> None:
    """Go through a run; before each call of the agent that did not fail, `at_call` gets what is known, and the call."""
    known = known or KnownValues()
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            known.say(turn.text)
        own = [call for call in turn.ran if call.name != SUMMARY_TOOL]
        for call in own:
            if turn.role != "user" and not went_wrong(call):
                at_call(known, call)
            known.give(call)
        # After all calls of the turn: they were made together, and none knew a result of another.
        known.receive(own)


def _find_places(argument: LearnedArgument, known: KnownValues, value: JSON) -> None:
    """Count a value that a call passed, and every place where it, or an element of it, stood before."""
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
        shape = shape_of(str(element))
        if shape:
            argument.shapes[shape] += 1
        sought = comparable(element)
        for tool, results in known.results.items():
            for result in results:
                places.update(("result", tool, leaf.path) for leaf in result if comparable(leaf.value) == sought)
        for name, given in known.given.items():
            if any(comparable(earlier) == sought for earlier in given):
                places.add(("argument", "", name))
        for how, what in _anchors(known.user_texts, str(element)):
            places.add(("words", how, what))
    argument.places.update(sorted(places))  # in the order of a set, equal runs would teach each process something else


def _anchors(user_texts: Sequence[str], value: str) -> Iterator[tuple[str, str]]:
    """The words before a value in the user's messages, by which it may be found.

    Of "my order 4711" and the value 4711 these are ("after", "order 1") and ("after", "my 2").
    """
    sought = folded_tokens(value)
    if not sought:
        return
    for text in user_texts:
        tokens = folded_tokens(text)
        for start in range(1, len(tokens) - len(sought) + 1):
            if tokens[start : start + len(sought)] != sought:
                continue
            if len(sought) == 1:
                yield "after", f"{tokens[start - 1]} 1"
                if start > 1:
                    yield "after", f"{tokens[start - 2]} 2"
            if value[:1].isupper():
                yield "span after", tokens[start - 1]


def _try_sources(call: ToolCall, argument: LearnedArgument, known: KnownValues, *, passed: bool) -> None:
    """Count for each candidate whether it held at this call what was passed, overall and in this context."""
    reader = _Reader(call.name, argument, known)
    sought = ""
    if passed:
        sought = comparable(call.arguments[argument.name])
    for source, overall in argument.tried.items():
        value, several = reader.value(source)
        if value is None:
            continue
        context = _Context(several, known.last)
        of_several = argument.tried_in.setdefault((source, several), _Tried())
        in_context = argument.tried_in.setdefault((source, context), _Tried())
        right = passed and comparable(value) == sought
        for tried in (overall, of_several, in_context):
            if passed:
                tried.fires += 1
                tried.hits += right
            else:
                tried.idle += 1
