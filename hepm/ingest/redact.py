"""Secrets leave a run before it is stored.

Runs on real systems hold keys, tokens and passwords, in what people type, in arguments and in results. The default
rules find the ones that can be told by their shape or by the word before them. Each is replaced by "[redacted:kind]".

Nearly all texts hold none, so the rules look for a telling literal first and search with their pattern only then.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from hepm.errors import InputError
from hepm.ingest.secret_rules import DEFAULT_RULES, Rule
from hepm.types import ToolCall, Trajectory, Turn

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
"""Characters that nobody sees, and full-width letters and those of mathematics."""
_ASCII: Final = bytes(range(128))

_TABLE_LINE: Final = re.compile(r"(\r?\n|\\{1,4}n)")
_HEADINGS: Final = re.compile(r"(?:.*(?:name|user|login|e?mail|url|host|note|access ?key ?id))|id|site|service")

_CELL: Final = re.compile(
    r"""^([\s"'`]*)(?!null|none|\[redacted|<|\*{3})[^\s"'`][^"'`\n]*[^\s"'`}\])]""", re.IGNORECASE
)
_SEPARATORS: Final = ("\t", r"\\t", r"\t", "|", ",")
_COLUMN_LITERALS: Final = frozenset(("passw", "passphrase", "passcode", "token", "secret", "key"))
_VALUE_KEYS: Final = ("value", "Value")
_NAME_KEYS: Final = ("name", "Name", "key", "Key")

_RARE_FIRST: Final = "~&;%+=|][}@!`/{?$<>z#q()\\8jx796534_'k12*-vb\",0:w.ygpfmucdlhrsoniate "
"""Letters of literals, the ones that are rarest in texts and JSON first."""

_REMEMBERED: Final = 16_000_000
"""Characters of text that a Redactor remembers before it starts afresh."""
_REMEMBERED_KEYS: Final = 10_000
_LONGEST: Final = 64
"""Bytes of the longest literal that is looked for around another one."""
_FEW: Final = 100


class _Looked:
    """What was found in texts, and what names of arguments say of their values.

    It only grows, so a thread that has put a text in finds it there; to forget is to take a new one.
    """

    __slots__ = ("characters", "clean", "cleaned", "keys", "names")

    def __init__(self) -> None:
        self.clean: set[str] = set()
        self.cleaned: dict[str, str] = {}
        self.keys: dict[str, str | None] = {}
        self.names: dict[str, str] = {}
        self.characters = 0

    @property
    def is_full(self) -> bool:
        return self.characters > _REMEMBERED or len(self.keys) + len(self.names) > _REMEMBERED_KEYS


class Redactor:
    """Takes secrets out of a trajectory; names of tools and of arguments stay. Threads may share it.

    The texts of runs repeat: what one environment says, it says to every agent. So what was found in a text is
    remembered for as long as the Redactor is kept, and most texts are only looked up.

    Args:
        rules: `Rule`s, or pairs of a kind and a regular expression. They replace the default ones: give
            ``(*DEFAULT_RULES, ("ticket", r"T-[0-9]+"))`` to add to them.
        hook: Called with every text last; what it returns is kept instead. It does not see the id, the user, the task,
            the environment, the model and the source of a run.
    Raises:
        InputError: a regular expression cannot be compiled.
    """

    def __init__(self, rules: Sequence[Rule | tuple[str, str]] = DEFAULT_RULES, hook: Hook | None = None) -> None:
        self._rules = tuple(rule if isinstance(rule, Rule) else compiled(*rule) for rule in rules)
        self._bare = [rule for rule in self._rules if not rule.literals]
        self._bare_patterns = [rule.pattern for rule in self._bare]
        literals = frozenset(literal for rule in self._rules for literal in rule.literals)
        self._literals = [(literal, literal.encode()) for literal in sorted(literals)]
        self._any_literal = _any_of(literals)
        self._hook = hook
        self._looked = _Looked()

    @property
    def has_hook(self) -> bool:
        """Whether a function of the caller's has the last word."""
        return self._hook is not None

    def __call__(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory without secrets; itself where there were none.

        Raises:
            InputError: its id or its user holds one. Either tells it from others, which no replacement would.
        """
        looked = self._looked
        if looked.is_full:
            # Not emptied: another thread may be between looking at a run's texts and writing them again.
            looked = self._looked = _Looked()
        trajectory = self._without_secret_names(trajectory, looked)
        texts, found = self._texts(trajectory, looked)
        new = [text for text in texts if text not in looked.clean]
        if new and self._look_at(new, looked):
            found = True
        return self._rebuilt(trajectory, looked) if found else trajectory

    def text(self, text: str) -> str:
        """One text without secrets."""
        text = self.without_secrets(text)
        return text if self._hook is None else self._hook(text)

    def without_secrets(self, text: str) -> str:
        """One text as the rules leave it, whatever the hook would say.

        Where a secret is hidden by invisible or full-width characters, all of these go from the text.
        """
        text = self._replaced(text)
        shown = _shown(text)
        if shown is not text and (clean := self._replaced(shown)) != shown:
            return clean
        return text

    def _replaced(self, text: str) -> str:
        searched = text.encode("utf-8", "replace").lower()
        rules: Iterable[Rule] = self._bare
        if self._any_literal.search(searched):
            # What is found may overlap another literal, so those around it are looked for.
            spans = [match.span() for match in islice(self._any_literal.finditer(searched), _FEW)]
            if len(spans) < _FEW:
                searched = b"\n".join(searched[max(0, start - _LONGEST) : end + _LONGEST] for start, end in spans)
            there = {literal for literal, as_bytes in self._literals if as_bytes in searched}
            if not there.isdisjoint(_COLUMN_LITERALS):
                text = _without_secret_columns(text)
            rules = [rule for rule in self._rules if not rule.literals or not there.isdisjoint(rule.literals)]
        for rule in rules:
            text = rule.pattern.sub(partial(_replacement, kind=rule.kind), text)
        return text

    def _may_hold(self, text: str) -> bool:
        text = _shown(text)
        if self._any_literal.search(text.encode("utf-8", "replace").lower()):
            return True
        return any(pattern.search(text) for pattern in self._bare_patterns)

    def _without_secret_names(self, t: Trajectory, looked: _Looked) -> Trajectory:
        """The trajectory with its task and the like cleaned; they are few, and runs share them."""
        names = looked.names
        for name in (t.user, t.task, t.environment, t.model, t.source):
            if name not in names:
                names[name] = self.without_secrets(name)
        for what, name, clean in (("id", t.id, self.without_secrets(t.id)), ("user", t.user, names[t.user])):
            if clean != name:
                raise InputError(f"its {what} holds a secret, {clean!r} without it: name the {what} otherwise")
        before = (t.task, t.environment, t.model, t.source)
        after = task, environment, model, source = tuple(names[name] for name in before)
        if after == before:
            return t
        return replace(t, task=task, environment=environment, model=model, source=source)

    def _look_at(self, texts: list[str], looked: _Looked) -> bool:
        """Remember which of these texts hold secrets, and what they are without; True where one does."""
        new = [text for text in texts if text not in looked.cleaned]
        looked.characters += sum(map(len, new))
        # One look at all of them is enough for nearly every run.
        if self._hook is None and not self._may_hold("\n".join(new)):
            looked.clean.update(new)
            return len(new) < len(texts)
        for text in new:
            cleaned = self.text(text)
            if cleaned == text:
                looked.clean.add(text)
            else:
                looked.cleaned[text] = cleaned
        return any(text in looked.cleaned for text in texts)

    def _texts(self, trajectory: Trajectory, looked: _Looked) -> tuple[list[str], bool]:
        """Every text of the run, and whether some argument is secret by its name."""
        texts: list[str] = list(trajectory.tags.values())
        secret = False
        for turn in trajectory.turns:
            texts.append(turn.text)
            for call in turn.calls:
                if call.result is not None:
                    texts.append(call.result)
                secret = self._collect(call.arguments, texts, looked.keys) or secret
        return texts, secret

    def _collect(self, value: Any, texts: list[str], known: dict[str, str | None]) -> bool:
        """Put every text inside `value` into `texts`; True where a name tells of a secret."""
        secret = False
        for name, member in _named_members(value):
            if type(member) is str:
                texts.append(member)
            elif isinstance(member, Mapping | list | tuple):
                secret = self._collect(member, texts, known) or secret
            if known[name] if name in known else self._kind_of_key(name, known):
                secret = True
        return secret

    def _kind_of_key(self, key: str, known: dict[str, str | None]) -> str | None:
        """What a value is by its key's name; None where it is no secret. Remembered, since keys are few."""
        if key not in known:
            known[key] = _kind_of_key(key) if self._rules else None
        return known[key]

    def _rebuilt(self, trajectory: Trajectory, looked: _Looked) -> Trajectory:
        cleaned = looked.cleaned
        turns = tuple(
            Turn(
                turn.role,
                cleaned.get(turn.text, turn.text),
                tuple(self._call(call, looked) for call in turn.calls),
                turn.reward,
            )
            for turn in trajectory.turns
        )
        tags = {key: cleaned.get(value, value) for key, value in trajectory.tags.items()}
        return replace(trajectory, turns=turns, tags=tags)

    def _call(self, call: ToolCall, looked: _Looked) -> ToolCall:
        result = None if call.result is None else looked.cleaned.get(call.result, call.result)
        return ToolCall(call.name, self._value(call.arguments, looked), result, call.error, call.latency_s)

    def _value(self, value: Any, looked: _Looked) -> Any:
        if isinstance(value, str):
            return looked.cleaned.get(value, value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        members: list[Any] = []
        for name, member in _named_members(value):
            kind = self._kind_of_key(name, looked.keys)
            secret = kind is not None and member is not None and member != "" and not isinstance(member, bool)
            members.append(f"[redacted:{kind}]" if secret else self._value(member, looked))
        return (
            dict(zip(cast("Mapping[str, Any]", value), members, strict=True)) if isinstance(value, Mapping) else members
        )


def _named_members(value: Any) -> Iterator[tuple[str, Any]]:
    """The members of an object or list, and what each is called.

    That is its key, the name beside a value ("name": "TOKEN", "value": …), or the option before it in a command.
    """
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        for key, member in members.items():
            if key in _VALUE_KEYS and type(member) is str:
                named = (members.get(name) for name in _NAME_KEYS)
                yield next((name for name in named if type(name) is str and len(name) < 100), key), member
            else:
                yield key, member
    else:
        before = ""
        for member in cast("Sequence[Any]", value):
            yield before, member
            before = member if type(member) is str and member[:1] == "-" and len(member) < 100 else ""


def _shown(text: str) -> str:
    """The text as it is read: without invisible characters, and full-width letters as plain ones."""
    if text.isascii() or not _HIDING.search(text.encode("utf-8", "replace").translate(None, _ASCII).decode()):
        return text
    return _HIDING.sub(lambda match: "" if match[1] else unicodedata.normalize("NFKC", match[0]), text)


def _without_secret_columns(text: str) -> str:
    """A table (CSV, Markdown, by tabs) without what stands below a heading such as "password"."""
    parts = _TABLE_LINE.split(text)
    separator, width, secret = "", 0, dict[int, str]()
    for at in range(0, len(parts), 2):
        line = parts[at]
        if secret:
            cells = line.split(separator)
            if len(cells) != width:
                secret = {}
            elif line.strip(" |:-"):
                for column, kind in secret.items():
                    cells[column] = _CELL.sub(rf"\1[redacted:{kind}]", cells[column])
                parts[at] = separator.join(cells)
                continue
        separator = next((one for one in _SEPARATORS if one in line), "")
        if separator and not (separator == "," and ", " in line):
            cells = [cell.strip(" \"'`*").lower() for cell in line.split(separator)]
            if any(map(_HEADINGS.fullmatch, cells)):
                kinds = ((column, _kind_of_key(cell)) for column, cell in enumerate(cells))
                secret, width = {column: kind for column, kind in kinds if kind is not None}, len(cells)
    return "".join(parts)


@lru_cache(maxsize=8)  # a redactor is made for every prompt and ingest, nearly always with the default rules
def _any_of(literals: frozenset[str]) -> re.Pattern[bytes]:
    """Finds whether any literal is in a text: twice as fast as asking for one after the other.

    `re` runs quickly over letters that no alternative begins with, so each literal begins with a rare letter, and what
    comes before that is looked back at last. A literal that holds another one is found by it.
    """
    by_anchor: dict[str, list[str]] = {}
    for literal in sorted(literals):
        if any(other != literal and other in literal for other in literals):
            continue
        at = min(range(len(literal)), key=lambda at, literal=literal: _RARE_FIRST.find(literal[at]))
        before = f"(?<={re.escape(literal)})" if at else ""
        by_anchor.setdefault(literal[at], []).append(re.escape(literal[at + 1 :]) + before)
    return re.compile("|".join(f"{re.escape(key)}(?:{'|'.join(rest)})" for key, rest in by_anchor.items()).encode())


def compiled(kind: str, expression: str) -> Rule:
    """A rule from its text; InputError where it is no regular expression."""
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


@lru_cache(maxsize=1024)
def _kind_of_key(key: str) -> str | None:
    plain = re.sub(r"[^a-z0-9]", "", key.lower())
    if not _SECRET_KEY.fullmatch(plain):
        return None
    return next((kind for kind in _KINDS if kind in plain), "password" if "pass" in plain else "secret")
