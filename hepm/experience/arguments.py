"""Where the arguments of a call come from, learned from successful runs without a model.

Each value that a successful run passed is looked for in the results that it had, by path. The place where the values of
most calls stood is what a lesson names.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from hepm.experience.conditions import Conditions
from hepm.experience.lessons import COMES_FROM, Principle, sources_of
from hepm.experience.moment import SENTENCE_TOKENS
from hepm.graph.delta import state_key
from hepm.graph.lessons.rows import Triple
from hepm.ingest.call_errors import went_wrong
from hepm.ingest.facts import parsed_result
from hepm.ingest.shell.parser import is_shell
from hepm.ingest.transitions import request_of
from hepm.llm.usage import estimate_tokens
from hepm.text import CUT
from hepm.types import JSON, SUMMARY_TOOL, ToolCall, ToolName, Trajectory

FEWEST_CALLS: Final = 4
"""Calls of successful runs that must have passed an argument for a lesson to say where it comes from."""
FEWEST_TASKS: Final = 2
"""The same for tasks."""
RIGHT_FROM: Final = 0.75
"""The share of them in which the place named must hold what was passed."""

# Bounds of what is read of one result, so that a large one costs a run no more than milliseconds.
_MOST_LEAVES: Final = 400
_MOST_ITEMS: Final = 40  # of an object or a list
_DEEPEST: Final = 6
_VALUE_CHARS: Final = 200

# A key with two digits is an id, as in {"HAT041": {"in_stock": true}}: its path is "*", so that all such keys are one.
_ID_KEY: Final = re.compile(r"\d{2}")
# From 1e15 on ids that differ would be equal floats.
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d+)?")
# Values that stand in many results without coming from there, in their comparable form: 0 and 1 are "0.0" and "1.0".
_ANYWHERE: Final = ("0.0", "1.0", "true", "false", "null", "")
_EDITED: Final = frozenset(("old_string", "new_string", "content", "new_source", "edits"))  # texts of files


class ValuePlace(NamedTuple):
    """Where a value stands: at a path in the results of a tool, such as "items[].id"; "" for a result as a whole."""

    tool: ToolName
    path: str

    def __str__(self) -> str:
        """Such as "get_order.items[].id"."""
        return f"{self.tool}.{self.path}".removesuffix(".")

    @property
    def in_words(self) -> str:
        """Such as "the `id`", "one of `orders`", "the `id` of one of `items`", "a key of `cards`"."""
        if self.path == "*":
            return "a key"
        if self.path.endswith(".*"):
            return f"a key of `{self.path.removesuffix('.*')}`"
        whole = f".{self.path}".replace(".*.", "[].").removeprefix(".")
        holder, _, member = whole.rpartition("[].")
        value = f"the `{member}`"
        if member.endswith("[]"):
            value = f"one of `{member.rstrip('[]')}`"
            if member.strip("[]") in ("", "*"):  # of a result that is a list, or lists by id
                value = "one of the items"
        if holder.strip("[]*"):
            value += f" of one of `{holder}`"
        return value


Origins: TypeAlias = Mapping[str, ValuePlace]
"""Where the arguments of a tool come from, by name."""


def argument_rules(runs: Iterable[Trajectory], where: Conditions) -> Iterator[Principle]:
    """Where the arguments of each tool come from, as runs of one environment teach it."""
    for tool, learned in learn_arguments(runs).items():
        origins = learned.origins()
        if not origins or is_shell(tool) or not _EDITED.isdisjoint(learned.arguments):
            continue
        behind = learned.runs_behind(origins)
        # Arguments beyond the room of one sentence are left out, and those that no run took from there with all others.
        while len(origins) > 1 and (not behind or estimate_tokens(argument_sentence(tool, origins)) > SENTENCE_TOKENS):
            origins.popitem()
            behind = learned.runs_behind(origins)
        tools, triples = [tool], list[Triple]()
        for name, place in origins.items():
            tools.append(place.tool)
            triples.append(Triple(f"{tool}.{name}", COMES_FROM, str(place)))
        yield Principle(
            "guiding",
            argument_sentence(tool, origins),
            triples=tuple(triples),
            sources=sources_of(behind),
            tools=tuple(dict.fromkeys(tools)),
            conditions=where,
        )


def argument_sentence(tool: ToolName, origins: Origins) -> str:
    """Where the arguments of a tool come from, in words.

    Such as "Pass the `frame` that get_bike returned to check_warranty as `frame`.", or "For refund, take `order_id`
    (one of `orders`) from the result of find_user, and `amount` from the result of get_order.".
    """
    taken: defaultdict[ToolName, list[str]] = defaultdict(list)
    for name, place in origins.items():
        if len(origins) == 1:
            value = f"the result of {place.tool}"
            if place.path:
                value = f"{place.in_words} that {place.tool} returned"
            return f"Pass {value} to {tool} as `{name}`."
        what = f"`{name}`"
        if place.path not in ("", name):
            what += f" ({place.in_words.removeprefix('the ').removeprefix(f'{what} ')})"
        taken[place.tool].append(what)
    parts: list[str] = []
    for giver, names in taken.items():
        parts.append(f"{' and '.join(names)} from the result of {giver}")
    if len(parts) > 1:
        parts[-1] = f"and {parts[-1]}"
    return f"For {tool}, take {', '.join(parts)}."


@dataclass(slots=True)
class LearnedArgument:
    """One argument of a tool, as successful calls passed it.

    Attributes:
        tasks: The tasks in which it was passed: what held in one may be a property of that task.
        values: How often each value was passed, in its comparable form.
        stood: In how many calls a place held what was passed.
        runs: The runs of these calls.
    """

    tasks: set[object] = field(default_factory=set[object])
    values: Counter[str] = field(default_factory=Counter[str])
    stood: Counter[ValuePlace] = field(default_factory=Counter[ValuePlace])
    runs: defaultdict[ValuePlace, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def origin(self) -> ValuePlace | None:
        """The place that held most of its values; None if too little was seen, or no place is right often enough."""
        calls = self.values.total()
        # A 0 in a result is no reason to believe that the 0 passed came from there.
        anywhere = sum(self.values[value] for value in _ANYWHERE)
        if not self.stood or calls < FEWEST_CALLS or len(self.tasks) < FEWEST_TASKS or 2 * anywhere > calls:
            return None
        place = min(self.stood, key=lambda place: (-self.stood[place], place))
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

    def runs_behind(self, origins: Origins) -> list[str]:
        """The runs in which all arguments came from there: names of places are words of theirs, and of no other."""
        places = [self.arguments[name].runs[place] for name, place in origins.items()]
        return [run for run in self.runs if all(run in of_place for of_place in places)]

    def take(self, call: ToolCall, run: str, task: object, stands: Mapping[str, set[ValuePlace]]) -> None:
        """Learn from a call; `stands` has the places of what is known before it, by the comparable form."""
        self.calls += 1
        self.runs[run] = None
        for name, value in call.arguments.items():
            argument = self.arguments[name]
            argument.tasks.add(task)
            argument.values[comparable(value)] += 1
            elements: Sequence[JSON] = (value,)
            if isinstance(value, list | tuple):
                elements = value
            # A list comes from where all of its elements stand.
            places: set[ValuePlace] | None = None
            for element in elements:
                of_element = stands.get(comparable(element), set[ValuePlace]())
                places = of_element if places is None else places & of_element
            argument.stood.update(places or ())
            for place in places or ():
                argument.runs[place].add(run)


def learn_arguments(runs: Iterable[Trajectory]) -> dict[ToolName, ToolArguments]:
    """The arguments of each tool, learned from the calls without an error of successful runs."""
    learned: defaultdict[ToolName, ToolArguments] = defaultdict(ToolArguments)
    for run in runs:
        if run.outcome.graded().success is not True:
            continue
        # Without a task, runs whose requests differ in numbers alone are of one.
        task = run.task or state_key(request_of(run))
        stands: defaultdict[str, set[ValuePlace]] = defaultdict(set)
        for turn in run.turns:
            own = [call for call in turn.ran if call.name != SUMMARY_TOOL]
            for call in own:
                if turn.role != "user" and not went_wrong(call):
                    learned[call.name].take(call, run.id, task, stands)
            # After all calls of the turn: they were made together, and none knew a result of another.
            for call in own:
                if call.result and call.error is not True:
                    for path, value in leaves_of(call.result):
                        stands[comparable(value)].add(ValuePlace(call.name, path))
    return learned


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
