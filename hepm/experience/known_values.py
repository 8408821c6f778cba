"""The values that an agent can know during a run: in results, in the user's words, in its own earlier arguments."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from hepm.types import JSON, START, ToolCall, ToolName

SCALARS: Final = (str, int, float, bool)

_MOST_LEAVES: Final = 400
_MOST_ITEMS: Final = 40
_DEEPEST: Final = 6
_VALUE_CHARS: Final = 200
_PARSED_CHARS: Final = 60_000
_LINES: Final = 60
_RESULTS: Final = 12  # of one tool that a run keeps

_ID_KEY: Final = re.compile(r"\d{2}")
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d+)?")
_LINE: Final = re.compile(r"\s*(-\s+)?([A-Za-z_][\w -]{0,39}?):\s*(.*)")
_WORD: Final = re.compile(r"[^\W_]{2,}")
_TOKEN: Final = re.compile(r"[^\s,;!?()\[\]{}\"“”]+")
_EDGE: Final = " .:'’`*<>$€£"
_TELLING: Final = re.compile(r"[\d@_]|\w\.\w")


class Leaf(NamedTuple):
    """A value in a result: its path, such as "items[].id", and the words of the object that holds it."""

    path: str
    value: JSON
    words: frozenset[str]


def comparable(value: JSON) -> str:
    """Equal for values that mean the same: case, white space, and 5 or "5.0" do not matter."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(float(value)) if abs(value) < 1e15 else str(value)
    if isinstance(value, str):
        text = " ".join(value.split()).casefold()
        return repr(float(text)) if _NUMBER.fullmatch(text) else text
    if isinstance(value, Mapping):
        members = (f"{key}:{comparable(member)}" for key, member in sorted(value.items()))
        return "{" + ",".join(members) + "}"
    return "[" + ",".join(map(comparable, value)) + "]"


def words_of(text: str) -> frozenset[str]:
    """The words of a text, in small letters."""
    return frozenset(_WORD.findall(text.casefold()))


def tokens_of(text: str) -> list[str]:
    """The words and ids of a text as they stand there, without the marks around them."""
    stripped = (token.strip(_EDGE) for token in _TOKEN.findall(text))
    return [token for token in stripped if token]


@lru_cache(maxsize=2_048)  # environments return the same texts to many runs
def leaves_of(result: str) -> tuple[Leaf, ...]:
    """The values of a result: of JSON all scalars, and keys that are ids; of other texts lines and telling words."""
    parsed = _parsed(result)
    leaves = _leaves_in_text(result) if isinstance(parsed, str) else _leaves_in(parsed, "", 0)
    found: list[Leaf] = []
    for leaf in leaves:
        found.append(leaf)
        if len(found) == _MOST_LEAVES:
            break
    return tuple(found)


def _parsed(result: str) -> JSON:
    text = result.strip()
    if text[:1] not in ("{", "[") or len(text) > _PARSED_CHARS:
        return result
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    return result


def _leaves_in(value: JSON, path: str, depth: int, words: frozenset[str] = frozenset()) -> Iterator[Leaf]:
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        if not path.endswith((".*", "[]")):
            words = frozenset()
        for key, member in list(value.items())[:_MOST_ITEMS]:
            name = str(key)
            if _ID_KEY.search(name) or (isinstance(member, str | int | float) and _ID_KEY.search(str(member))):
                own = words_of(f"{name} {json.dumps(member, default=str)[:600]}")
            else:
                own = words
            if _ID_KEY.search(name) or depth == 0:
                yield Leaf(_below(path, "*"), name, own)
            below = "*" if _ID_KEY.search(name) else name[:_MOST_ITEMS]
            yield from _leaves_in(member, _below(path, below), depth + 1, own if below == "*" else words or own)
    elif isinstance(value, list | tuple):
        for item in value[:_MOST_ITEMS]:
            own = words_of(json.dumps(item, default=str)[:600])
            yield from _leaves_in(item, f"{path}[]", depth + 1, own)
    elif isinstance(value, SCALARS) and len(str(value)) <= _VALUE_CHARS:
        yield Leaf(path, value, words)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _leaves_in_text(text: str) -> Iterator[Leaf]:
    """Of "key: value" lines the values, of other lines the lines, and all tokens with a digit, an @ or a dot inside."""
    whole = text.strip()
    if 0 < len(whole) <= _VALUE_CHARS and "\n" not in whole:
        yield Leaf("", whole, frozenset())
    lines = [line for line in whole.split("\n") if line.strip()][:_LINES]
    for line, words in zip(lines, _words_of_objects(lines), strict=True):
        pair = _LINE.fullmatch(line)
        bare = line.strip().removeprefix("- ").strip()
        if pair is not None and pair[3]:
            yield Leaf(f"{pair[2].strip()}:", _unquoted(pair[3]), words)
        elif pair is None and len(bare) <= _VALUE_CHARS:
            yield Leaf("line", _unquoted(bare), words)
    for token in tokens_of(whole[: 20 * _VALUE_CHARS]):
        if _TELLING.search(token):
            yield Leaf("word", token, frozenset())


def _words_of_objects(lines: Sequence[str]) -> list[frozenset[str]]:
    """For each line the words of its object: in a list of objects, each begins with "- "."""
    starts = [number for number, line in enumerate(lines) if line.startswith("- ")] or [0]
    found: list[frozenset[str]] = [frozenset()] * len(lines)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        words = words_of("\n".join(lines[start:end])[:600])
        found[start:end] = [words] * (end - start)
    return found


def _unquoted(text: str) -> str:
    stripped = text.strip()
    return stripped[1:-1] if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\"" else stripped


class KnownValues:
    """What an agent knows at one point of a run; messages and calls are added as they come.

    Attributes:
        said: The user's messages, oldest first.
        results: Leaves of each tool's results, oldest first.
        given: Arguments of earlier calls by name, oldest first.
        used: Comparable values that a tool was given under a name.
        last: The tool called last.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.results: defaultdict[ToolName, list[tuple[Leaf, ...]]] = defaultdict(list)
        self.given: defaultdict[str, list[JSON]] = defaultdict(list)
        self.used: defaultdict[tuple[ToolName, str], set[str]] = defaultdict(set)
        self.last: ToolName = START
        self.words: frozenset[str] = frozenset()

    def say(self, text: str) -> None:
        """Take a message of the user."""
        self.said.append(text)
        self.words |= words_of(text)

    def give(self, call: ToolCall) -> None:
        """Take the arguments of a call, before its result is known."""
        for name, value in call.arguments.items():
            self.given[name].append(value)
            self.used[call.name, name].update(comparable(one) for one in elements(value))

    def receive(self, calls: Iterable[ToolCall]) -> None:
        """Take the results of the calls of a turn."""
        for call in calls:
            self.last = call.name
            if call.result and call.error is not True:
                kept = self.results[call.name]
                kept.append(leaves_of(call.result[: 2 * _PARSED_CHARS]))
                del kept[:-_RESULTS]


def elements(value: JSON) -> list[JSON]:
    """The elements of a list; any other value alone."""
    return [*value] if isinstance(value, list | tuple) else [value]
