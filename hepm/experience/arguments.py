"""Where the arguments of a call come from, learned from successful runs without a model.

Each value that a successful run passed is looked for in what the run knew: in results by path, and in the user's words.
The place where the values of most calls stood is what a lesson names.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from hepm.experience.transcript import went_wrong
from hepm.ingest.facts import parsed_result
from hepm.text import CUT
from hepm.types import JSON, SUMMARY_TOOL, ToolCall, ToolName, Trajectory

# Bounds of what is read of one result, so that a large one costs a run no more than milliseconds.
_MOST_LEAVES: Final = 400
_MOST_ITEMS: Final = 40  # of an object or a list
_DEEPEST: Final = 6
_VALUE_CHARS: Final = 200

# A key with two digits is an id, as in {"HAT041": {"in_stock": true}}: its path is "*", so that all such keys are one.
_ID_KEY: Final = re.compile(r"\d{2}")
# From 1e15 on ids that differ would be equal floats.
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d+)?")
# Up to white space or brackets: "a@b.org", "#W123", "2024-05-01". `_EDGE` is stripped from both ends.
_TOKEN: Final = re.compile(r"[^\s,;!?()\[\]{}\"“”]+")
_EDGE: Final = " .:'’`*<>$€£"


_KEY_OF: Final = "a key of "
_RESULT_OF: Final = "the result of "


class ValuePlace(NamedTuple):
    """Where a value stands: at a path in the results of a tool, or, without a tool, in the user's words."""

    of: ToolName = ""
    path: str = ""

    def __str__(self) -> str:
        """Such as "get_order.order_id", "a key of list_orders.orders", "the user's words"."""
        if not self.of:
            return "the user's words"
        if not self.path:
            return f"{_RESULT_OF}{self.of}"
        if self.path.endswith("*"):
            holder = f"{self.of}.{self.path}".removesuffix(".*")
            return f"{_KEY_OF}{holder}"
        return f"{self.of}.{self.path}"


WORDS: Final = ValuePlace()
"""The user's words."""


def argument_sentence(sources: Sequence[tuple[str, str]], tools: Sequence[ToolName]) -> str:
    """Where the arguments of a tool come from, in words.

    Such as "Pass the `frame` that get_bike returned to check_warranty as `frame`.", or "For refund, take `order_id`
    (one of `orders`) from the result of find_user, and `reason` from the user's words.".

    Args:
        sources: Tool and argument, as "check_warranty.frame", each with a `ValuePlace` as text.
        tools: All that they name: a name may have dots.
    """
    tool = sources[0][0].rpartition(".")[0]
    taken: defaultdict[str, list[str]] = defaultdict(list)
    for argument, place in sources:
        name = argument.rpartition(".")[2]
        giver, path = _read_place(place, tools)
        if len(sources) == 1:
            value = f"{_value_in_words(path)} that {giver} returned" if giver and path else place
            return f"Pass {value} to {tool} as `{name}`."
        what = f"`{name}`"
        if path and path != name:
            where = _value_in_words(path).removeprefix("the ").removeprefix(f"{what} ")
            what += f" ({where})"
        taken[f"the result of {giver}" if giver else place].append(what)
    *first, last = [f"{' and '.join(names)} from {place}" for place, names in taken.items()]
    listed = f"{', '.join(first)}, and {last}" if first else last
    return f"For {tool}, take {listed}."


def _read_place(place: str, tools: Sequence[ToolName]) -> tuple[ToolName, str]:
    """The tool and the path of a `ValuePlace` as text, of a key with "*" at the end; "" and "" for the user's words."""
    bare = place.removeprefix(_KEY_OF).removeprefix(_RESULT_OF)
    tool = max((name for name in tools if bare == name or bare.startswith(f"{name}.")), key=len, default="")
    path = bare[len(tool) + 1 :] if tool else ""
    if place.startswith(_KEY_OF):
        path = f"{path}.*".removeprefix(".")
    return tool, path


def _value_in_words(path: str) -> str:
    """Such as "the `id`", "one of `orders`", "the `id` of one of `items`", "a key of `cards`"."""
    if path.endswith("*"):
        holder = path.removesuffix("*").removesuffix(".")
        return f"a key of `{holder}`" if holder else "a key"
    holder, _, member = path.replace(".*.", "[].").rpartition("[].")
    if member.endswith("[]"):
        value = f"one of `{member.removesuffix('[]')}`"
    else:
        value = f"the `{member}`"
    return f"{value} of one of `{holder}`" if holder else value


def comparable(value: JSON) -> str:
    """Equal for scalars that mean the same: case, white space, and 5 or "5.0" do not matter."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return json.dumps(value, sort_keys=True, default=str).casefold()
    text = " ".join(str(value).split()).casefold()
    if _NUMBER.fullmatch(text):
        return repr(float(text))
    return text


@lru_cache(maxsize=2_048)  # environments return the same texts to many runs
def leaves_of(result: str) -> tuple[tuple[str, JSON], ...]:
    """The values of a result, and keys that are ids, each after its path, such as "items[].id"; of a line its text."""
    text = result.strip()
    parsed: JSON = None
    if not text.endswith(CUT):
        parsed = parsed_result(text)
    if parsed is not None:
        return tuple(islice(_leaves_in(parsed, "", 0), _MOST_LEAVES))
    if 0 < len(text) <= _VALUE_CHARS and "\n" not in text:
        return (("", text),)
    return ()


def _leaves_in(value: JSON, path: str, depth: int) -> Iterator[tuple[str, JSON]]:
    """The scalars below a value, and keys that are ids."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list | tuple):
        for item in value[:_MOST_ITEMS]:
            yield from _leaves_in(item, f"{path}[]", depth + 1)
    elif isinstance(value, Mapping):
        holder = f"{path}." if path else ""
        for key, member in islice(value.items(), _MOST_ITEMS):
            name = str(key)
            key_is_id = _ID_KEY.search(name) is not None
            if key_is_id or depth == 0:
                yield f"{holder}*", name
            below = "*" if key_is_id else name[:_MOST_ITEMS]
            yield from _leaves_in(member, f"{holder}{below}", depth + 1)
    elif value is not None and len(str(value)) <= _VALUE_CHARS:
        yield path, value


def _words(text: str) -> str:
    """The words and ids of a text, without the marks around them, with blanks around: "art" is not in "start"."""
    stripped = (token.strip(_EDGE) for token in _TOKEN.findall(text.casefold()))
    return f" {' '.join(filter(None, stripped))} "


class KnownValues:
    """What an agent knows at one point of a run; messages and calls are added as they come."""

    def __init__(self) -> None:
        self._stands: defaultdict[str, set[ValuePlace]] = defaultdict(set)  # in results, by the comparable form
        self._said: list[str] = []

    def say(self, text: str) -> None:
        """Take a message of the user."""
        self._said.append(_words(text))

    def receive(self, calls: Iterable[ToolCall]) -> None:
        """Take the results of the calls of a turn."""
        for call in calls:
            if call.result and call.error is not True:
                for path, value in leaves_of(call.result):
                    self._stands[comparable(value)].add(ValuePlace(call.name, path))

    def places_of(self, value: JSON) -> set[ValuePlace]:
        """Every place where a value, or all elements of a list, stand."""
        elements = [*value] if isinstance(value, list | tuple) else [value]
        if not elements:
            return set()
        known = (self._stands.get(comparable(element), set[ValuePlace]()) for element in elements)
        places = set[ValuePlace].intersection(*known)
        if all(self._user_said(str(element)) for element in elements):
            places.add(WORDS)
        return places

    def _user_said(self, value: str) -> bool:
        """Whether the words of a value, which is no long text, stand one after the other in a message of the user."""
        if len(value) > _VALUE_CHARS:
            return False
        # Users write "round trip" for round_trip.
        sought = {_words(value), _words(value.replace("_", " "))} - {"  "}
        return any(words in text for words in sought for text in self._said)


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
    """

    tasks: set[str] = field(default_factory=set[str])
    values: Counter[str] = field(default_factory=Counter[str])
    stood: Counter[ValuePlace] = field(default_factory=Counter[ValuePlace])

    @property
    def origin(self) -> ValuePlace | None:
        """The place that held most of its values; None if too little was seen, or no place is right often enough."""
        calls = self.values.total()
        if calls < FEWEST_CALLS or len(self.tasks) < FEWEST_TASKS:
            return None
        # A 0 in a result is no reason to believe that the 0 passed came from there.
        anywhere = 2 * sum(self.values[value] for value in _ANYWHERE) > calls
        places = [place for place in self.stood if place == WORDS or not anywhere]
        # What also stands in words may change with them: of equals, a result is the plainer place.
        place = min(places, key=lambda place: (-self.stood[place], place == WORDS, place), default=WORDS)
        # What is always passed is no news, unless it was known before each call.
        least = calls
        if len(self.values) > 1:
            least = RIGHT_FROM * calls
        if self.stood[place] < least:
            return None
        return place


@dataclass(slots=True)
class ToolArguments:
    """The arguments of one tool: how many calls were learned from, and the runs that made them, the latest last."""

    calls: int = 0
    runs: dict[str, None] = field(default_factory=dict[str, None])
    arguments: defaultdict[str, LearnedArgument] = field(default_factory=lambda: defaultdict(LearnedArgument))

    def origins(self) -> dict[str, ValuePlace]:
        """Where the arguments come from that most calls pass, as far as one place is right for most of these."""
        origins: dict[str, ValuePlace] = {}
        for name, argument in self.arguments.items():
            if 2 * argument.values.total() > self.calls and argument.origin is not None:
                origins[name] = argument.origin
        return origins


def learn_arguments(runs: Iterable[Trajectory]) -> dict[ToolName, ToolArguments]:
    """The arguments of each tool, learned from the calls without an error of successful runs."""
    learned: defaultdict[ToolName, ToolArguments] = defaultdict(ToolArguments)
    for run in runs:
        if run.outcome.graded().success is not True:
            continue
        task = _task_of(run)
        for known, call in replay(run):
            tool = learned[call.name]
            tool.runs[run.id] = None
            tool.calls += 1
            for name, value in call.arguments.items():
                argument = tool.arguments[name]
                argument.tasks.add(task)
                argument.values[comparable(value)] += 1
                argument.stood.update(known.places_of(value))
    return learned


def _task_of(run: Trajectory) -> str:
    """Equal for runs of one task: its id, or without one the user's first message but for numbers."""
    first = next((turn.text for turn in run.turns if turn.role == "user" and turn.text), "")
    return run.task or re.sub(r"\d+", "0", first[:200])


def replay(run: Trajectory) -> Iterator[tuple[KnownValues, ToolCall]]:
    """The calls of a run's agent that did not fail, each with what is known before it, which later turns change."""
    known = KnownValues()
    for turn in run.turns:
        if turn.role == "user" and turn.text:
            known.say(turn.text)
        own = [call for call in turn.ran if call.name != SUMMARY_TOOL]
        if turn.role != "user":
            yield from ((known, call) for call in own if not went_wrong(call))
        # After all calls of the turn: they were made together, and none knew a result of another.
        known.receive(own)
