"""Removes secrets from a run before it is stored: each becomes "[redacted:kind]".

Nearly all texts hold none, so a rule's pattern is searched only in texts that hold one of its literals.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from hashlib import blake2b
from typing import Any, Final, TypeAlias, cast

from hepm.errors import InputError
from hepm.ingest.records import with_texts
from hepm.ingest.secret_rules import API_KEYS, DEFAULT_RULES, LONG_WORD, MAY_NAME_A_SECRET, Rule
from hepm.types import Tool, Trajectory

Hook: TypeAlias = Callable[[str], str]

_SECRET_KEY: Final = re.compile(
    r".*(?:passw(?:or)?[dt]|passphrase|passcode|secret|(?:api|access|account|private|secret|signing|encryption)key)"
    r"|(?:set)?cookie|credentials?|authorization|(?:db|user|admin|root)pwd"
    r"|(?:.*(?:access|auth|refresh|bearer|session|id|api|bot|vault|security|private|hub|lab|csrf|slack|user))?token"
)
_KINDS: Final = {"password": "password", "secret": "secret", "token": "token", "pass": "password", "": "secret"}
"""Of a name by what stands in it: the first that does."""

_HIDING: Final = re.compile(
    "([\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\U000e0000-\U000e0fff]+)|[\uff01-\uff5e\U0001d400-\U0001d7ff]+"
)
"""Invisible characters; full-width letters and those of mathematics."""
_ESCAPED: Final = re.compile(
    r"(?:\\{1,16}u(?!00[01]|0022|005[cC]|[dD][89a-fA-F])[0-9a-fA-F]{4}"
    r"|\\{1,16}u[dD][89abAB][0-9a-fA-F]{2}\\{1,16}u[dD][c-fC-F][0-9a-fA-F]{2})+"
)
"""Characters as JSON escapes them, but for those that it has to escape."""
_ENCODED: Final = re.compile(
    r"(?<![\w+/-])(?=[a-z_/-]*[A-Z0-9])[\w+/-]{24,}+(?:(?:\r?\n|\\{1,4}n)[\w+/-]{60,76}+(?![\w+/-]))*"
    r"(?:(?:\r?\n|\\{1,4}n)[\w+/-]{1,76}+={1,2})?={0,2}",
    re.ASCII,
)
"""What may be base64, over several lines."""
_TO_A: Final = bytes([97 if chr(code).isalnum() else 32 for code in range(128)]) + 128 * b" "
_FOUND: Final = re.compile(r"\[redacted:[\w-]+\]")
_NAMED: Final = re.compile(r'": "\[redacted:([\w-]+)\]"$')
_ASCII: Final = bytes(range(128))

_TABLE_LINE: Final = re.compile(r"""(\r?\n|\\{1,4}n|"(?:}|, "))""")
_HEADINGS: Final = re.compile(r"(?:.*(?:name|user|login|e?mail|url|host|note|access ?key ?id))|id|site|service")

_CELL: Final = re.compile(
    r"""^([\s"'`]*)(?!null|none|\[redacted|<|\*{3})[^\s"'`][^"'`\n]*[^\s"'`}\])]""", re.IGNORECASE
)
_SEPARATORS: Final = ("\t", r"\\t", r"\t", "|", ",")
_COLUMN_LITERALS: Final = frozenset(("passw", "passphrase", "passcode", "token", "secret", *API_KEYS))
_NAMES: Final = ("task", "environment", "model", "source")
_VALUE_KEYS: Final = ("value", "Value", "text")
_NAME_KEYS: Final = ("name", "Name", "key", "Key", "selector", "element", "label", "locator", "type")

_COMMON: Final = " etainosrhldcumfpgy.w:0b\"v-*2k1'_435697xj8\\qz$/=~"
"""Letters, digits and signs of literals, the ones most common in recorded runs first."""

_LONG: Final = 1_000
"""Bytes of a text that is searched once, however many runs hold it; so many of them are known:"""
_MOST_KNOWN: Final = 1_000

_REMEMBERED: Final = 16_000_000
"""Characters of text that a Redactor remembers before it starts afresh."""


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
        self._finder = _finder_of(self.rules)
        self.hook = hook
        self._clean: dict[str, str] = {}  # what is left of each text
        self._characters = 0

    def __call__(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory without secrets.

        Raises:
            InputError: its id or its user holds one. A replacement would no longer identify it.
        """
        t = trajectory
        for what, text in (("id", t.id), ("user", t.user)):
            clean = self._remembered(text)
            if clean != text:
                raise InputError(f"its {what} holds a secret, {clean!r} without it: name the {what} otherwise")
        t = with_texts(
            t,
            lambda turn: (self.text(turn.text), self.text(turn.read)),
            self.text,
            lambda arguments: _rewritten(arguments, self.text, self._kind),
        )
        # Without the hook, which does not see them.
        names: dict[str, Any] = {key: self._remembered(getattr(t, key)) for key in _NAMES}
        tags = {key: self.text(value) for key, value in t.tags.items()}
        return replace(t, tags=tags, **names)

    def text(self, text: str) -> str:
        """One text without secrets."""
        clean = self._remembered(text)
        return clean if self.hook is None or not text else self.hook(clean)

    def _remembered(self, text: str) -> str:
        """What `without_secrets` makes of a text: an environment returns the same ones again and again."""
        clean = self._clean.get(text)
        if clean is None:
            if self._characters > _REMEMBERED:
                self._clean, self._characters = {}, 0
            self._characters += len(text)
            clean = self.without_secrets(text)
            self._clean[text] = text if clean == text else clean  # so that one of two equal texts is kept
        return clean

    def without_secrets(self, text: str) -> str:
        """One text as the rules leave it, without the hook.

        If a secret is hidden by invisible or full-width characters, all of these are removed from the text.
        """
        text = self._replaced(text)
        shown = _shown(text)
        if shown != text:
            clean = self._replaced(shown)
            if clean != shown:
                return clean
        # Nothing was hidden: an emoji keeps its invisible joiners.
        return text

    def tool(self, tool: Tool) -> Tool:
        """A tool whose description and parameters hold no secret."""
        # Not by names: a schema names arguments such as "password", which are no secrets.
        parameters = _rewritten(tool.parameters, self.text, lambda _name, _value: None)
        return Tool(tool.name, self.text(tool.description), parameters)

    def _replaced(self, text: str) -> str:
        # Bytes in lower case: `in` and `re` run over them faster than over text.
        searched = text.lower().encode("utf-8", "replace")
        literals = self._finder.literals(searched)
        if not literals.isdisjoint(_COLUMN_LITERALS):
            text = _without_secret_columns(text)
        for pattern, replacement in self._finder.patterns(literals):
            text = pattern.sub(replacement, text)
        if LONG_WORD in literals:
            text = _ENCODED.sub(self._decoded, text)
        return text

    def _decoded(self, match: re.Match[str]) -> str:
        """What is left of a word that may be base64: its first line, or all of it, may hold a secret."""
        for encoded in (match[0], match[0].split()[0]):
            plain = re.sub(r"\s|\\+n", "", encoded).rstrip("=").replace("-", "+").replace("_", "/")
            try:
                text = base64.b64decode(plain + -len(plain) % 4 * "=").replace(b"\0", b"").decode()
            except (binascii.Error, UnicodeDecodeError):
                continue
            found = _FOUND.search(self.without_secrets(text))
            if found and not _FOUND.search(text):
                return match[0].replace(encoded, found[0])
        return match[0]

    def _kind(self, name: str, value: Any) -> str | None:
        """What a value is by its name, and where that tells little, by both; None if it is no secret."""
        if not name or not self.rules:
            return None
        kind = _kind_of_key(name)
        if kind is not None or not isinstance(value, str) or not _may_name_a_secret(name):
            return kind
        found = _NAMED.search(self.without_secrets(f'"{name}": {json.dumps(value, ensure_ascii=False)}'))
        if found is None:
            return None
        return found[1]


def _rewritten(value: Any, text: Callable[[str], str], kind: Callable[[str, Any], str | None]) -> Any:
    """`value` with every text inside changed, and what is secret by its name replaced.

    A member's name is its key, the name beside a value ("name": "TOKEN", "value": …), or the option before it in a
    command.
    """

    def member_of(name: str, member: Any) -> Any:
        secret_kind = kind(name, member)
        # Neither null nor "" nor a truth value tells anything: {"token": null, "use_password": true}.
        if secret_kind is None or member is None or member == "" or isinstance(member, bool):
            return _rewritten(member, text, kind)
        return f"[redacted:{secret_kind}]"

    if isinstance(value, str):
        return text(value)
    if isinstance(value, (list, tuple)):
        elements: list[Any] = []
        option = ""
        for element in cast("Sequence[Any]", value):
            elements.append(member_of(option, element))
            # ["--password", "hunter2"]: the second is named by the first.
            is_option = isinstance(element, str) and element[:1] == "-" and len(element) < 100
            option = element if is_option else ""
        return elements
    if not isinstance(value, (dict, Mapping)):  # in this order, as the last one is slow to ask
        return value
    members = cast("Mapping[str, Any]", value)
    given = ""
    if not members.keys().isdisjoint(_VALUE_KEYS):
        names = (members.get(key) for key in _NAME_KEYS)
        given = next((name for name in names if isinstance(name, str) and len(name) < 100), "")
    rewritten: dict[str, Any] = {}
    for key, member in members.items():
        is_value = given and key in _VALUE_KEYS and isinstance(member, str)
        rewritten[key] = member_of(given if is_value else key, member)
    return rewritten


def _shown(text: str) -> str:
    """The text as it is read: no JSON escapes, no invisible characters, and full-width letters as plain ones."""
    if "\\u" in text:
        text = _ESCAPED.sub(lambda match: json.loads('"' + re.sub(r"\\+", r"\\", match[0]) + '"'), text)
    if text.isascii() or not _HIDING.search(text.encode("utf-8", "replace").translate(None, _ASCII).decode()):
        return text
    return _HIDING.sub(lambda match: "" if match[1] else unicodedata.normalize("NFKC", match[0]), text)


def _without_secret_columns(text: str) -> str:
    """A table (CSV, Markdown, by tabs) without what stands below a heading such as "password"."""
    parts = _TABLE_LINE.split(text)
    separator = ""
    kinds: list[str | None] = []  # of the table that the line is in: what secret each column holds; [] for none
    for position in range(0, len(parts), 2):  # between two lines stands what parts them
        line = parts[position]
        cells = line.split(separator) if kinds else []
        if kinds and len(cells) == len(kinds):
            if line.strip(" |:-"):  # else the rule below a heading of Markdown
                for column, kind in enumerate(kinds):
                    if kind is not None:
                        cells[column] = _CELL.sub(rf"\1[redacted:{kind}]", cells[column])
                parts[position] = separator.join(cells)
            continue
        kinds = []
        separator = next((mark for mark in _SEPARATORS if mark in line), "")
        if separator and not (separator == "," and ", " in line):  # which is a sentence
            headings = [cell.strip(" \"'`*").lower() for cell in line.split(separator)]
            if any(map(_HEADINGS.fullmatch, headings)) and any(map(_kind_of_key, headings)):
                kinds = list(map(_kind_of_key, headings))
    return "".join(parts)


@cache
def default_redactor() -> Redactor:
    """One with the default rules, for names and other short texts."""
    return Redactor()


class _Finder:
    """Finds which of many literals a text holds, several times as fast as looking for one after the other.

    `re` runs quickly over letters that no alternative begins with, so each literal is found by one of its letters that
    is rare in texts, its anchor, and what comes before that is looked back at last. Of an anchor that is found, the
    literals are looked for one by one.
    """

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self.patterns = lru_cache(maxsize=10_000)(self._patterns)
        self._known: dict[bytes, frozenset[str]] = {}  # the literals of long texts by a hash: no text stays in memory
        self._by_anchor: dict[bytes, list[tuple[str, bytes]]] = {}
        for literal in sorted(frozenset[str]().union(*(rule.literals for rule in rules))):
            # `find` gives -1 for a letter that is not among the common ones: % 999 makes it the rarest.
            anchor = max(literal, key=lambda letter: _COMMON.find(letter) % 999)
            self._by_anchor.setdefault(anchor.encode(), []).append((literal, literal.encode()))
        alternatives: list[bytes] = []
        for anchor, group in self._by_anchor.items():
            ends = [re.escape(one.partition(anchor)[2]) + b"(?<=" + re.escape(one) + b")" for _, one in group]
            alternatives.append(re.escape(anchor) + b"(?=" + b"|".join(ends) + b")")
        self._pattern = re.compile(b"|".join(alternatives))

    def _patterns(self, literals: frozenset[str]) -> list[tuple[re.Pattern[str], partial[str]]]:
        """What to search in a text that holds these literals: rules without literals are searched in every text."""
        patterns: list[tuple[re.Pattern[str], partial[str]]] = []
        for rule in self._rules:
            if not rule.literals or not literals.isdisjoint(rule.literals):
                patterns.append((rule.pattern, partial(_replacement, kind=rule.kind)))
        return patterns

    def literals(self, searched: bytes) -> frozenset[str]:
        """The literals in a text, which is given in lower case; `LONG_WORD` if it holds a long word."""
        if len(searched) < _LONG:
            return self._literals(searched)
        mark = blake2b(searched, digest_size=32).digest()  # of a system prompt, with which every run begins
        found = self._known.get(mark)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[mark] = self._literals(searched)
        return found

    def _literals(self, searched: bytes) -> frozenset[str]:
        found: set[str] = set()
        for anchor in set(self._pattern.findall(searched)):
            found.update(literal for literal, in_bytes in self._by_anchor.get(anchor, ()) if in_bytes in searched)
        if LONG_WORD.encode() in searched.translate(_TO_A):
            found.add(LONG_WORD)
        return frozenset(found)


# A redactor is made for every prompt and ingest, nearly always with the default rules.
_finder_of: Final = lru_cache(maxsize=8)(_Finder)


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
    before = match.string[match.start() : match.start("secret")]
    after = match.string[match.end("secret") : match.end()]
    return f"{before}[redacted:{kind}]{after}"


_may_name_a_secret: Final = lru_cache(maxsize=10_000)(MAY_NAME_A_SECRET.search)


@lru_cache(maxsize=10_000)
def _kind_of_key(key: str) -> str | None:
    """What a value is by its key; None if it is no secret."""
    plain = re.sub(r"[^a-z0-9]", "", key.lower())
    if not _SECRET_KEY.fullmatch(plain):
        return None
    return next(kind for sign, kind in _KINDS.items() if sign in plain)
