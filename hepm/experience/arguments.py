"""Where the arguments of a call come from, learned from successful runs without a model.

Each value that a successful run passed is looked for in what the run knew: in results by path, and in the user's words.
The place where the values of most calls stood is what a lesson names.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final, Literal, NamedTuple

from hepm.experience.transcript import went_wrong
from hepm.types import JSON, SUMMARY_TOOL, ToolCall, ToolName, Trajectory

# Bounds of what is read of one result, so that a large one costs a run no more than milliseconds.
_MOST_LEAVES: Final = 400
_MOST_ITEMS: Final = 40  # of an object or a list
_DEEPEST: Final = 6
_VALUE_CHARS: Final = 200
_PARSED_CHARS: Final = 60_000
_LINES: Final = 60

# A key with two digits is an id, as in {"HAT041": {"in_stock": true}}: its path is "*", so that all such keys are one.
_ID_KEY: Final = re.compile(r"\d{2}")
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d+)?")
# "  - Flight number: HAT041": an optional bullet, a key and a value.
_LINE: Final = re.compile(r"\s*(?:-\s+)?([A-Za-z_][\w -]{0,39}?):\s*(.*)")
# Up to white space or brackets: "a@b.org", "#W123", "2024-05-01". `_EDGE` is stripped from both ends.
_TOKEN: Final = re.compile(r"[^\s,;!?()\[\]{}\"“”]+")
_EDGE: Final = " .:'’`*<>$€£"


class Leaf(NamedTuple):
    """A value in a result, with its path, such as "items[].id"."""

    path: str
    value: JSON


class ValuePlace(NamedTuple):
    """Where a value stands: at a path in the results of a tool, or in the user's words.

    Attributes:
        of: The tool; "" for words.
    """

    kind: Literal["result", "words"]
    of: str = ""
    path: str = ""

    def __str__(self) -> str:
        """Such as "get_order.order_id", "a key of list_orders.orders", "the user's words"."""
        if self.kind == "words":
            return "the user's words"
        if not self.path:
            return f"the result of {self.of}"
        if self.path.endswith("*"):
            holder = f"{self.of}.{self.path}".removesuffix(".*")
            return f"a key of {holder}"
        return f"{self.of}.{self.path.removesuffix(':')}"


def comparable(value: JSON) -> str:
    """Equal for values that mean the same: case, white space, and 5 or "5.0" do not matter."""
    # bool before int, as True is one.
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        # From 1e15 on ids that differ would be equal floats.
        return repr(float(value)) if abs(value) < 1e15 else str(value)
    if isinstance(value, str):
        text = " ".join(value.split()).casefold()
        return repr(float(text)) if _NUMBER.fullmatch(text) else text
    if isinstance(value, Mapping):
        members = (f"{key}:{comparable(member)}" for key, member in sorted(value.items()))
        return "{" + ",".join(members) + "}"
    return "[" + ",".join(map(comparable, value)) + "]"


def tokens_of(text: str) -> list[str]:
    """The words and ids of a text as they stand there, without the marks around them."""
    stripped = (token.strip(_EDGE) for token in _TOKEN.findall(text))
    return [token for token in stripped if token]


@lru_cache(maxsize=2_048)  # environments return the same texts to many runs
def leaves_of(result: str) -> tuple[Leaf, ...]:
    """The values of a result: of JSON scalars, and keys that are ids; of other texts those of "key: value" lines."""
    parsed = _parsed(result)
    if isinstance(parsed, str):
        leaves = _leaves_in_text(result)
    else:
        leaves = _leaves_in(parsed, "", 0)
    return tuple(islice(leaves, _MOST_LEAVES))


def _parsed(result: str) -> JSON:
    """A result as JSON, or as Python prints it; the text itself if it is neither."""
    text = result.strip()
    if text[:1] not in ("{", "[") or len(text) > _PARSED_CHARS:
        return result
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    return result


def _leaves_in(value: JSON, path: str, depth: int) -> Iterator[Leaf]:
    """The scalars below a value, and keys that are ids."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list | tuple):
        for item in value[:_MOST_ITEMS]:
            yield from _leaves_in(item, f"{path}[]", depth + 1)
    elif isinstance(value, Mapping):
        for key, member in list(value.items())[:_MOST_ITEMS]:
            name = str(key)
            key_is_id = _ID_KEY.search(name) is not None
            if key_is_id or depth == 0:
                yield Leaf(_below(path, "*"), name)
            below = "*" if key_is_id else name[:_MOST_ITEMS]
            yield from _leaves_in(member, _below(path, below), depth + 1)
    elif value is not None and len(str(value)) <= _VALUE_CHARS:
        yield Leaf(path, value)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _leaves_in_text(text: str) -> Iterator[Leaf]:
    """Of "key: value" lines the values; a text of one line is a value, too."""
    whole = text.strip()
    if 0 < len(whole) <= _VALUE_CHARS and "\n" not in whole:
        yield Leaf("", whole)
    for line in whole.split("\n")[:_LINES]:
        pair = _LINE.fullmatch(line)
        if pair is not None and pair[2]:
            # The colon tells the key of a text from the member of an object.
            yield Leaf(f"{pair[1].strip()}:", _unquoted(pair[2]))


def _unquoted(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
        return stripped[1:-1]
    return stripped


class KnownValues:
    """What an agent knows at one point of a run; messages and calls are added as they come.

    Attributes:
        stands: Where values stand in results, by their comparable form.
        counts: How many different values stand at each place.
    """

    def __init__(self) -> None:
        self.stands: defaultdict[str, set[ValuePlace]] = defaultdict(set)
        self.counts = Counter[ValuePlace]()
        self._said: list[str] = []

    def say(self, text: str) -> None:
        """Take a message of the user."""
        self._said.append(_spaced(text))

    def user_said(self, value: str) -> bool:
        """Whether the words of a value, which is no long text, stand one after the other in a message of the user."""
        if len(value) > _VALUE_CHARS:
            return False
        # Users write "round trip" for round_trip.
        sought = {_spaced(value), _spaced(value.replace("_", " "))} - {"  "}
        return any(words in text for words in sought for text in self._said)

    def receive(self, calls: Iterable[ToolCall]) -> None:
        """Take the results of the calls of a turn."""
        for call in calls:
            if call.result and call.error is not True:
                for path, value in leaves_of(call.result[: 2 * _PARSED_CHARS]):
                    self._add(ValuePlace("result", call.name, path), value)

    def _add(self, place: ValuePlace, value: JSON) -> None:
        places = self.stands[comparable(value)]
        self.counts[place] += place not in places
        places.add(place)


def _spaced(text: str) -> str:
    """The words of a text with blanks around, so that "art" is not in "start"."""
    return f" {' '.join(map(str.casefold, tokens_of(text)))} "


def elements(value: JSON) -> list[JSON]:
    """The elements of a list; any other value alone."""
    if isinstance(value, list | tuple):
        return [*value]
    return [value]


FEWEST_CALLS: Final = 4
"""Calls of successful runs that must have passed an argument for a lesson to say where it comes from."""
FEWEST_TASKS: Final = 2
"""The same for tasks."""
RIGHT_FROM: Final = 0.75
"""The share of them in which the place named must hold what was passed."""

# Values that stand in many results without coming from there, in their comparable form: 0 and 1 are "0.0" and "1.0".
_ANYWHERE: Final = ("0.0", "1.0", "true", "false", "null", "")


@dataclass(slots=True)
class LearnedArgument:
    """One argument of a tool, as successful calls passed it.

    Attributes:
        tasks: The tasks in which it was passed: what held in one may be a property of that task.
        values: How often each value was passed, in its comparable form.
        stood: In how many calls a place held what was passed.
        beside: How many values stood there in all of these calls.
    """

    calls: int = 0
    tasks: set[str] = field(default_factory=set[str])
    values: Counter[str] = field(default_factory=Counter[str])
    stood: Counter[ValuePlace] = field(default_factory=Counter[ValuePlace])
    beside: Counter[ValuePlace] = field(default_factory=Counter[ValuePlace])

    def note(self, value: JSON, known: KnownValues) -> None:
        """Count a value that a call passed, and every place where it, or all elements of it, stood before."""
        self.calls += 1
        self.values[comparable(value)] += 1
        sought = set(map(comparable, elements(value)))
        if not sought:
            return
        for place in set[ValuePlace].intersection(*(known.stands.get(key, set()) for key in sought)):
            self.stood[place] += 1
            self.beside[place] += known.counts[place]
        if all(known.user_said(str(element)) for element in elements(value)):
            self.stood[ValuePlace("words")] += 1

    def places(self) -> list[ValuePlace]:
        """Where its values stood, the place that held most of them first."""

        def rank(place: ValuePlace) -> tuple[int, bool, int, ValuePlace]:
            # What also stands in words may change with them: of equals, a result is the plainer place.
            return -self.stood[place], place.kind != "result", self.beside[place], place

        return sorted(self.stood, key=rank)


class Origin(NamedTuple):
    """Where an argument comes from."""

    name: str
    place: ValuePlace

    def __str__(self) -> str:
        """Such as "order_id ← get_order.order_id"."""
        return f"{self.name} ← {self.place}"


@dataclass(slots=True)
class ToolArguments:
    """The arguments of one tool: how many calls were learned from, and the runs that made them, the latest last."""

    tool: ToolName
    calls: int = 0
    runs: dict[str, None] = field(default_factory=dict[str, None])
    arguments: dict[str, LearnedArgument] = field(default_factory=dict[str, LearnedArgument])

    def origins(self) -> list[Origin]:
        """Where the arguments come from that most calls pass, as far as one place is right for most of these."""
        origins: list[Origin] = []
        for name, argument in self.arguments.items():
            if 2 * argument.calls > self.calls:
                origin = _origin_of(name, argument)
                if origin is not None:
                    origins.append(origin)
        return origins


def _origin_of(name: str, argument: LearnedArgument) -> Origin | None:
    """Where an argument comes from; None if too little was seen, or no place is right often enough."""
    if argument.calls < FEWEST_CALLS or len(argument.tasks) < FEWEST_TASKS:
        return None
    # A 0 in a result is no reason to believe that the 0 passed came from there.
    anywhere = 2 * sum(argument.values[value] for value in _ANYWHERE) > argument.calls
    places = [place for place in argument.places() if not (anywhere and place.kind == "result")]
    if not places or argument.stood[places[0]] < RIGHT_FROM * argument.calls:
        return None
    # What is always passed is no news, unless it was known before each call.
    if len(argument.values) == 1 and argument.stood[places[0]] < argument.calls:
        return None
    return Origin(name, places[0])


def learn_arguments(runs: Iterable[Trajectory]) -> dict[ToolName, ToolArguments]:
    """The arguments of each tool, learned from the calls without an error of successful runs."""
    learned: dict[ToolName, ToolArguments] = {}
    for run in runs:
        if run.outcome.graded().success is True:
            _learn_from(run, learned)
    return learned


def _learn_from(run: Trajectory, learned: dict[ToolName, ToolArguments]) -> None:
    task = task_key(run)

    def note(known: KnownValues, call: ToolCall) -> None:
        tool = learned.setdefault(call.name, ToolArguments(call.name))
        tool.runs[run.id] = None
        tool.calls += 1
        for name, value in call.arguments.items():
            argument = tool.arguments.setdefault(name, LearnedArgument())
            argument.tasks.add(task)
            argument.note(value, known)

    replay(run, note)


def task_key(run: Trajectory) -> str:
    """Equal for runs of one task: its id, or without one the user's first message but for numbers."""
    if run.task:
        return run.task
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            return re.sub(r"\d+", "0", turn.text[:200])
    return ""


def replay(run: Trajectory, at_call: Callable[[KnownValues, ToolCall], object]) -> None:
    """Go through a run; before each call of the agent that did not fail, `at_call` gets what is known, and the call."""
    known = KnownValues()
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            known.say(turn.text)
        own = [call for call in turn.ran if call.name != SUMMARY_TOOL]
        for call in own:
            if turn.role != "user" and not went_wrong(call):
                at_call(known, call)
        # After all calls of the turn: they were made together, and none knew a result of another.
        known.receive(own)
