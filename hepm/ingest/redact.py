"""Removes secrets from a run before it is stored: each becomes "[redacted:kind]".

Nearly all texts hold none, so a rule's pattern is searched only in texts that hold one of its literals.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, cast

from hepm.errors import InputError
from hepm.ingest.secret_rules import API_KEYS, DEFAULT_RULES, Rule
from hepm.types import Tool, ToolCall, Trajectory, Turn

Hook: TypeAlias = Callable[[str], str]

_SECRET_KEY: Final = re.compile(
    r".*(?:passw(?:or)?[dt]|passphrase|passcode|secret|(?:api|access|account|private|secret|signing|encryption)key)"
    r"|(?:set)?cookie|credentials?|authorization|(?:db|user|admin|root)pwd"
    r"|(?:.*(?:access|auth|refresh|bearer|session|id|api|bot|vault|security|private|hub|lab|csrf|slack|user))?token"
)
_KINDS: Final = ("password", "secret", "token")

_HIDING: Final = re.compile(
    "([\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\U000e0000-\U000e0fff]+)|[\uff01-\uff5e\U0001d400-\U0001d7ff]+"
)
"""Invisible characters; full-width letters and those of mathematics."""
_ASCII: Final = bytes(range(128))

_TABLE_LINE: Final = re.compile(r"(\r?\n|\\{1,4}n)")
_HEADINGS: Final = re.compile(r"(?:.*(?:name|user|login|e?mail|url|host|note|access ?key ?id))|id|site|service")

_CELL: Final = re.compile(
    r"""^([\s"'`]*)(?!null|none|\[redacted|<|\*{3})[^\s"'`][^"'`\n]*[^\s"'`}\])]""", re.IGNORECASE
)
_SEPARATORS: Final = ("\t", r"\\t", r"\t", "|", ",")
_COLUMN_LITERALS: Final = frozenset(("passw", "passphrase", "passcode", "token", "secret", *API_KEYS))
_VALUE_KEYS: Final = ("value", "Value")
_NAME_KEYS: Final = ("name", "Name", "key", "Key")

_COMMON: Final = " etainosrhldcumfpgy.w:0b\"v-*2k1'_435697xj8\\qz$/=~"
"""Letters, digits and signs of literals, the ones most common in recorded runs first."""

_REMEMBERED: Final = 16_000_000
"""Characters of text that a Redactor remembers before it starts afresh."""
_REMEMBERED_CHOICES: Final = 10_000


@dataclass(slots=True)
class _Seen:
    """Texts without secrets, and then after the hook. It only grows, so that a thread finds the texts it put in."""

    clean: set[str] = field(default_factory=set[str])
    cleaned: dict[str, str] = field(default_factory=dict[str, str])
    hooked: dict[str, str] = field(default_factory=dict[str, str])
    characters: int = 0


class Redactor:
    """Removes secrets from a trajectory; names of tools and of arguments stay. Threads may share it.

    It remembers its results, since an environment returns the same texts to every agent.

    Args:
        rules: `Rule`s, or pairs of a kind and a regular expression. They replace the default ones: give
            ``(*DEFAULT_RULES, ("ticket", r"T-[0-9]+"))`` to add to them.
        hook: Called with every text last; what it returns is kept instead. It does not see the id, the user, the task,
            the environment, the model and the source of a run.
    Raises:
        InputError: a regular expression cannot be compiled.
    """

    def __init__(self, rules: Sequence[Rule | tuple[str, str]] = DEFAULT_RULES, hook: Hook | None = None) -> None:
        self.rules = tuple([rule if isinstance(rule, Rule) else _compiled(*rule) for rule in rules])
        self._literals, self._any_literal = _literals_of(self.rules)
        self._kind: Callable[[str], str | None] = _kind_of_key if self.rules else lambda _: None
        self._chosen: dict[frozenset[str], list[tuple[re.Pattern[str], partial[str]]]] = {}
        self.hook = hook
        self._seen = _Seen()

    def __call__(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory without secrets; itself if there were none.

        Raises:
            InputError: its id or its user holds one. A replacement would no longer identify it.
        """
        seen = self._seen
        if seen.characters > _REMEMBERED:
            # Not emptied: another thread may be between looking at a run's texts and writing them again.
            seen = self._seen = _Seen()
        t = trajectory
        texts = [t.id, t.user, t.task, t.environment, t.model, t.source, *t.tags.values()]
        has_secrets = False
        for turn in t.turns:
            texts += (turn.text, turn.read)
            for call in turn.calls:
                if call.result is not None:
                    texts.append(call.result)
                has_secrets = self._collect(call.arguments, texts) or has_secrets
        clean = seen.clean
        cleaned = seen.cleaned
        for text in set(texts).difference(clean):
            if text not in cleaned:
                seen.characters += len(text)
                without = self.without_secrets(text)
                if without == text:
                    clean.add(text)
                    continue
                cleaned[text] = without
            has_secrets = True
        for what, text in (("id", t.id), ("user", t.user)):
            if text in cleaned:
                raise InputError(f"its {what} holds a secret, {cleaned[text]!r} without it: name the {what} otherwise")
        if has_secrets or self.hook is not None:
            return self._rebuilt(t, seen)
        return t

    def text(self, text: str) -> str:
        """One text without secrets."""
        text = self.without_secrets(text)
        if self.hook is None:
            return text
        return self.hook(text)

    def without_secrets(self, text: str) -> str:
        """One text as the rules leave it, without the hook.

        If a secret is hidden by invisible or full-width characters, all of these are removed from the text.
        """
        text = self._replaced(text)
        shown = _shown(text)
        if shown is not text:
            clean = self._replaced(shown)
            if clean != shown:
                return clean
        # Nothing was hidden: an emoji keeps its invisible joiners.
        return text

    def tool(self, tool: Tool) -> Tool:
        """A tool whose description and parameters hold no secret."""
        # Not by names: a schema names arguments such as "password", which are no secrets.
        parameters = _rewritten(tool.parameters, self.text, lambda _: None)
        return Tool(tool.name, self.text(tool.description), parameters, tool.aliases, tool.retired)

    def _replaced(self, text: str) -> str:
        # Bytes in lower case: `in` and `re` run over them faster than over text.
        searched = text.encode("utf-8", "replace").lower()
        literals: frozenset[str] = frozenset()
        if self._any_literal.search(searched):
            literals = frozenset([literal for literal, as_bytes in self._literals if as_bytes in searched])
            if not literals.isdisjoint(_COLUMN_LITERALS):
                text = _without_secret_columns(text)
        patterns = self._chosen.get(literals)
        if patterns is None:
            patterns = self._patterns_for(literals)
            if len(self._chosen) < _REMEMBERED_CHOICES:
                self._chosen[literals] = patterns
        for pattern, replacement in patterns:
            text = pattern.sub(replacement, text)
        return text

    def _patterns_for(self, literals: frozenset[str]) -> list[tuple[re.Pattern[str], partial[str]]]:
        """What to search in a text that holds these literals: rules without literals are searched in every text."""
        patterns: list[tuple[re.Pattern[str], partial[str]]] = []
        for rule in self.rules:
            if not rule.literals or not literals.isdisjoint(rule.literals):
                patterns.append((rule.pattern, partial(_replacement, kind=rule.kind)))
        return patterns

    def _collect(self, value: Any, texts: list[str]) -> bool:
        """Append every text inside; True if some argument is secret by its name."""
        secret = False
        for name, member in _named_members(value):
            if type(member) is str:
                texts.append(member)
            elif isinstance(member, (dict, list, tuple, Mapping)):
                secret = self._collect(member, texts) or secret
            if self._kind(name):
                secret = True
        return secret

    def _rebuilt(self, t: Trajectory, seen: _Seen) -> Trajectory:
        def remembered(text: str) -> str:
            text = seen.cleaned.get(text, text)
            if self.hook is not None and text not in seen.hooked:
                seen.hooked[text] = self.hook(text)
            return seen.hooked.get(text, text)

        def clean_call(call: ToolCall) -> ToolCall:
            result = call.result
            if result is not None:
                result = remembered(result)
            arguments = _rewritten(call.arguments, remembered, self._kind)
            return ToolCall(call.name, arguments, result, call.error, call.latency_s, call.refused)

        turns: list[Turn] = []
        for turn in t.turns:
            text = remembered(turn.text)
            calls = tuple(map(clean_call, turn.calls))
            read = remembered(turn.read) if turn.read else ""
            turns.append(replace(turn, text=text, calls=calls, read=read))
        # Without the hook, which does not see them.
        names: dict[str, str] = {}
        for key in ("task", "environment", "model", "source"):
            name: str = getattr(t, key)
            names[key] = seen.cleaned.get(name, name)
        tags = {key: remembered(value) for key, value in t.tags.items()}
        return replace(t, turns=tuple(turns), tags=tags, **names)


def _rewritten(value: Any, text: Callable[[str], str], kind: Callable[[str], str | None]) -> Any:
    """`value` with every text inside changed, and what is secret by its name replaced."""
    if isinstance(value, str):
        return text(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    members: list[Any] = []
    for name, member in _named_members(value):
        secret_kind = kind(name)
        # Neither null nor "" nor a truth value tells anything: {"token": null, "use_password": true}.
        if secret_kind is None or member is None or member == "" or isinstance(member, bool):
            members.append(_rewritten(member, text, kind))
        else:
            members.append(f"[redacted:{secret_kind}]")
    if isinstance(value, Mapping):
        return dict(zip(cast("Mapping[str, Any]", value), members, strict=True))
    return members


def _named_members(value: Any) -> Iterable[tuple[str, Any]]:
    """The members of an object or list, each with its name.

    That is its key, the name beside a value ("name": "TOKEN", "value": …), or the option before it in a command.
    """
    if isinstance(value, (dict, Mapping)):
        members = cast("Mapping[str, Any]", value)
        if "value" not in members and "Value" not in members:
            return members.items()
        return _named_values(members)
    elements = cast("Sequence[Any]", value)
    options = [""]
    for element in elements:
        # ["--password", "hunter2"]: the second is named by the first.
        is_option = type(element) is str and element[:1] == "-" and len(element) < 100
        options.append(element if is_option else "")
    return zip(options, elements, strict=False)


def _named_values(members: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The members of an object such as {"name": "API_TOKEN", "value": "…"}: the value with the name beside it."""
    name = ""
    for key in _NAME_KEYS:
        beside = members.get(key)
        if type(beside) is str and len(beside) < 100:
            name = beside
            break
    named: list[tuple[str, Any]] = []
    for key, member in members.items():
        if name and key in _VALUE_KEYS and type(member) is str:
            named.append((name, member))
        else:
            named.append((key, member))
    return named


def _shown(text: str) -> str:
    """The text as it is read: without invisible characters, and full-width letters as plain ones."""
    if text.isascii() or not _HIDING.search(text.encode("utf-8", "replace").translate(None, _ASCII).decode()):
        return text
    return _HIDING.sub(lambda match: "" if match[1] else unicodedata.normalize("NFKC", match[0]), text)


def _without_secret_columns(text: str) -> str:
    """A table (CSV, Markdown, by tabs) without what stands below a heading such as "password"."""
    parts = _TABLE_LINE.split(text)
    separator = ""
    width = 0
    secret_columns: dict[int, str] = {}  # of the table that the line is in: the kind of secret by column
    for position in range(0, len(parts), 2):  # between two lines stands what parts them
        line = parts[position]
        if secret_columns:
            cells = line.split(separator)
            if len(cells) != width:
                secret_columns = {}
            elif line.strip(" |:-"):  # else the rule below a heading of Markdown
                for column, kind in secret_columns.items():
                    cells[column] = _CELL.sub(rf"\1[redacted:{kind}]", cells[column])
                parts[position] = separator.join(cells)
                continue
        separator = next((mark for mark in _SEPARATORS if mark in line), "")
        if separator and not (separator == "," and ", " in line):  # which is a sentence
            headings = [cell.strip(" \"'`*").lower() for cell in line.split(separator)]
            if any(map(_HEADINGS.fullmatch, headings)):
                secret_columns = _secret_columns(headings)
                width = len(headings)
    return "".join(parts)


def _secret_columns(headings: Sequence[str]) -> dict[int, str]:
    """The kinds of secrets by column: {1: "password"} of name, password."""
    kinds: dict[int, str] = {}
    for column, heading in enumerate(headings):
        kind = _kind_of_key(heading)
        if kind is not None:
            kinds[column] = kind
    return kinds


@lru_cache(maxsize=8)  # a redactor is made for every prompt and ingest, nearly always with the default rules
def _literals_of(rules: tuple[Rule, ...]) -> tuple[list[tuple[str, bytes]], re.Pattern[bytes]]:
    """The literals of all rules, as text and as bytes, and what finds whether any is in a text."""
    literals: frozenset[str] = frozenset()
    for rule in rules:
        literals = literals.union(rule.literals)
    return [(literal, literal.encode()) for literal in sorted(literals)], _any_of(literals)


def _any_of(literals: frozenset[str]) -> re.Pattern[bytes]:
    """Finds whether any literal is in a text, several times as fast as looking for one after the other.

    `re` runs quickly over letters that no alternative begins with, so each literal begins with one of a few letters
    that are rare in texts, and what comes before that is looked back at last. A literal that holds another one is found
    by it.
    """
    shortest: list[str] = []
    for literal in sorted(literals):
        if not any(other != literal and other in literal for other in literals):
            shortest.append(literal)
    anchors = _rare_letters(shortest)
    # By anchor and what follows it: the patterns that look back at the whole literal, "" where it begins there.
    by_anchor: dict[str, dict[str, list[str]]] = {}
    for literal in shortest:
        anchor = next(letter for letter in reversed(anchors) if letter in literal)
        position = literal.index(anchor)
        whole = by_anchor.setdefault(anchor, {}).setdefault(literal[position + 1 :], [])
        whole.append(f"(?<={re.escape(literal)})" if position else "")
    alternatives: list[str] = []
    for anchor, ends in by_anchor.items():
        after = [f"{re.escape(end)}(?:{'|'.join(whole)})" for end, whole in ends.items()]
        alternatives.append(f"{re.escape(anchor)}(?:{'|'.join(after)})")
    return re.compile("|".join(alternatives).encode())


def _rare_letters(literals: Sequence[str]) -> list[str]:
    """A few letters of which each literal holds one, the rarest in texts last."""
    # `find` gives -1 for a letter that is not among the common ones: % 999 puts it at the end.
    letters = sorted(set("".join(literals)), key=lambda letter: _COMMON.find(letter) % 999)
    anchors = list(letters)
    for letter in letters:
        others = set(anchors)
        others.discard(letter)
        if not any(others.isdisjoint(literal) for literal in literals):
            anchors.remove(letter)
    return anchors


def _compiled(kind: str, expression: str) -> Rule:
    rule = Rule(kind, expression)
    try:
        _ = rule.pattern
    except re.error as error:
        raise InputError(f"the redaction rule {kind!r} is no regular expression: {error} in {expression!r}") from error
    return rule


def _replacement(match: re.Match[str], kind: str) -> str:
    if "secret" not in match.re.groupindex:
        return f"[redacted:{kind}]"
    start, (first, last) = match.start(), match.span("secret")
    return f"{match[0][: first - start]}[redacted:{kind}]{match[0][last - start :]}"


@lru_cache(maxsize=10_000)
def _kind_of_key(key: str) -> str | None:
    """What a value is by its key; None if it is no secret."""
    plain = re.sub(r"[^a-z0-9]", "", key.lower())
    if not _SECRET_KEY.fullmatch(plain):
        return None
    for kind in _KINDS:
        if kind in plain:
            return kind
    if "pass" in plain:  # "passphrase", "passcode"
        return "password"
    return "secret"
