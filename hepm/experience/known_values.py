"""The values that an agent can know during a run: in results, in the user's words, in its own earlier arguments."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from hepm.types import JSON, START, ToolCall, ToolName

SCALARS: Final = (str, int, float, bool)

# Bounds of what is read of one result, so that a large one costs a run no more than milliseconds.
_MOST_LEAVES: Final = 400
_MOST_ITEMS: Final = 40  # of an object or a list
_DEEPEST: Final = 6
_VALUE_CHARS: Final = 200
_OBJECT_CHARS: Final = 600  # of an object whose words are taken
_PARSED_CHARS: Final = 60_000
_LINES: Final = 60
_RESULTS: Final = 12  # of one tool that a run keeps

# A key with two digits is an id, as in {"HAT041": {"in_stock": true}}: its path is "*", so that all such keys are one.
_ID_KEY: Final = re.compile(r"\d{2}")
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d+)?")
# "  - Flight number: HAT041": an optional bullet, a key and a value.
_LINE: Final = re.compile(r"\s*(-\s+)?([A-Za-z_][\w -]{0,39}?):\s*(.*)")
_WORD: Final = re.compile(r"[^\W_]{2,}")
# Up to white space or brackets: "a@b.org", "#W123", "2024-05-01". `_EDGE` is stripped from both ends.
_TOKEN: Final = re.compile(r"[^\s,;!?()\[\]{}\"“”]+")
_EDGE: Final = " .:'’`*<>$€£"
# Words that can be an id, an address or a file, and so a value to pass on: "HAT041", "a@b.org", "notes.txt".
_TELLING: Final = re.compile(r"[\d@_]|\w\.\w")


class Leaf(NamedTuple):
    """A value in a result: its path, such as "items[].id", and the words of the object that holds it."""

    path: str
    value: JSON
    words: frozenset[str]


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


def words_of(text: str) -> frozenset[str]:
    """The words of a text, in small letters."""
    return frozenset(_WORD.findall(text.casefold()))


def tokens_of(text: str) -> list[str]:
    """The words and ids of a text as they stand there, without the marks around them."""
    stripped = (token.strip(_EDGE) for token in _TOKEN.findall(text))
    return [token for token in stripped if token]


def folded_tokens(text: str) -> list[str]:
    """The same in small letters."""
    return [token.casefold() for token in tokens_of(text)]


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


def _leaves_in(value: JSON, path: str, depth: int, words: frozenset[str] = frozenset()) -> Iterator[Leaf]:
    """The scalars below a value; `words` are those of the object that holds them, none outside of any."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        yield from _leaves_in_object(value, path, depth, words)
    elif isinstance(value, list | tuple):
        for item in value[:_MOST_ITEMS]:
            own = words_of(json.dumps(item, default=str)[:_OBJECT_CHARS])
            yield from _leaves_in(item, f"{path}[]", depth + 1, own)
    elif isinstance(value, SCALARS) and len(str(value)) <= _VALUE_CHARS:
        yield Leaf(path, value, words)


def _leaves_in_object(value: Mapping[str, JSON], path: str, depth: int, words: frozenset[str]) -> Iterator[Leaf]:
    # Only an item of a list, or what stands under an id, is an object of its own that the user's words can mean.
    if not path.endswith((".*", "[]")):
        words = frozenset()
    for key, member in list(value.items())[:_MOST_ITEMS]:
        name = str(key)
        key_is_id = _ID_KEY.search(name) is not None
        own = words
        if key_is_id or (isinstance(member, str | int | float) and _ID_KEY.search(str(member))):
            own = words_of(f"{name} {json.dumps(member, default=str)[:_OBJECT_CHARS]}")
        if key_is_id or depth == 0:
            yield Leaf(_below(path, "*"), name, own)
        if key_is_id:
            yield from _leaves_in(member, _below(path, "*"), depth + 1, own)
        else:
            yield from _leaves_in(member, _below(path, name[:_MOST_ITEMS]), depth + 1, words or own)


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
            # The colon tells the key of a text from the member of an object.
            yield Leaf(f"{pair[2].strip()}:", _unquoted(pair[3]), words)
        elif pair is None and len(bare) <= _VALUE_CHARS:
            yield Leaf("line", _unquoted(bare), words)
    for token in tokens_of(whole[: 20 * _VALUE_CHARS]):
        if _TELLING.search(token):
            yield Leaf("word", token, frozenset())


def _words_of_objects(lines: Sequence[str]) -> list[frozenset[str]]:
    """For each line the words of its object: in a list of objects, each begins with "- "."""
    starts = [number for number, line in enumerate(lines) if line.startswith("- ")] or [0]
    ends = [*starts[1:], len(lines)]
    # Lines before the first object have no words.
    words_by_line: list[frozenset[str]] = [frozenset()] * len(lines)
    for start, end in zip(starts, ends, strict=True):
        words = words_of("\n".join(lines[start:end])[:_OBJECT_CHARS])
        words_by_line[start:end] = [words] * (end - start)
    return words_by_line


def _unquoted(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
        return stripped[1:-1]
    return stripped


class KnownValues:
    """What an agent knows at one point of a run; messages and calls are added as they come.

    Attributes:
        user_texts: The user's messages, oldest first.
        results: Leaves of each tool's results, oldest first.
        given: Arguments of earlier calls by name, oldest first.
        used: Comparable values that a tool was given under a name.
        last: The tool called last.
        words: Those of all the user's messages.
    """

    def __init__(self) -> None:
        self.user_texts: list[str] = []
        self.results: defaultdict[ToolName, list[tuple[Leaf, ...]]] = defaultdict(list)
        self.given: defaultdict[str, list[JSON]] = defaultdict(list)
        self.used: defaultdict[tuple[ToolName, str], set[str]] = defaultdict(set)
        self.last: ToolName = START
        self.words: frozenset[str] = frozenset()

    def say(self, text: str) -> None:
        """Take a message of the user."""
        self.user_texts.append(text)
        self.words |= words_of(text)

    def give(self, call: ToolCall) -> None:
        """Take the arguments of a call, before its result is known."""
        for name, value in call.arguments.items():
            self.given[name].append(value)
            self.used[call.name, name].update(map(comparable, elements(value)))

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
    if isinstance(value, list | tuple):
        return [*value]
    return [value]
