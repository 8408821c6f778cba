"""The values that an agent can know during a run: in results, in the user's words, in its own earlier arguments."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, Literal, NamedTuple

from hepm.types import JSON, ToolCall

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
_LINE: Final = re.compile(r"\s*(-\s+)?([A-Za-z_][\w -]{0,39}?):\s*(.*)")
# Up to white space or brackets: "a@b.org", "#W123", "2024-05-01". `_EDGE` is stripped from both ends.
_TOKEN: Final = re.compile(r"[^\s,;!?()\[\]{}\"“”]+")
_EDGE: Final = " .:'’`*<>$€£"
# Words that can be an id, an address or a file, and so a value to pass on: "HAT041", "a@b.org", "notes.txt".
_TELLING: Final = re.compile(r"[\d@_]|\w\.\w")


class Leaf(NamedTuple):
    """A value in a result, with its path, such as "items[].id"."""

    path: str
    value: JSON


class ValuePlace(NamedTuple):
    """Where a value stands: at a path in the results of a tool, in an earlier argument of a name, in the user's words.

    Attributes:
        of: The tool, or the name of the argument; "" for words.
    """

    kind: Literal["result", "argument", "words"]
    of: str = ""
    path: str = ""

    def __str__(self) -> str:
        """Such as "get_order.order_id", "a key of list_orders.orders", "the order_id before", "the user's words"."""
        if self.kind == "words":
            return "the user's words"
        if self.kind == "argument":
            return f"the {self.of} before"
        if self.path in ("", "word", "line"):
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
    """The values of a result: of JSON all scalars, and keys that are ids; of other texts lines and telling words."""
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
    """Of "key: value" lines the values, of other lines the lines, and all tokens with a digit, an @ or a dot inside."""
    whole = text.strip()
    if 0 < len(whole) <= _VALUE_CHARS and "\n" not in whole:
        yield Leaf("", whole)
    for line in list(filter(str.strip, whole.split("\n")))[:_LINES]:
        pair = _LINE.fullmatch(line)
        bare = line.strip().removeprefix("- ").strip()
        if pair is not None and pair[3]:
            # The colon tells the key of a text from the member of an object.
            yield Leaf(f"{pair[2].strip()}:", _unquoted(pair[3]))
        elif pair is None and len(bare) <= _VALUE_CHARS:
            yield Leaf("line", _unquoted(bare))
    for token in tokens_of(whole[: 20 * _VALUE_CHARS]):
        if _TELLING.search(token):
            yield Leaf("word", token)


def _unquoted(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
        return stripped[1:-1]
    return stripped


class KnownValues:
    """What an agent knows at one point of a run; messages and calls are added as they come.

    Attributes:
        stands: Where values stand in results and in earlier arguments, by their comparable form.
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

    def give(self, call: ToolCall) -> None:
        """Take the arguments of a call, before its result is known."""
        for name, value in call.arguments.items():
            for element in elements(value):
                self._add(ValuePlace("argument", name), element)

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
