"""Secrets leave a run before it is stored.

Runs on real systems hold keys, tokens and passwords, in what people type, in arguments and in results. The default
rules find the ones that can be told by their shape or by the word before them. Each is replaced by "[redacted:kind]".

Nearly all texts hold none, so the rules look for a telling literal first and search with their pattern only then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, cast

from hepm.errors import InputError
from hepm.ingest.records import is_list, is_object
from hepm.ingest.secret_rules import DEFAULT_RULES, Rule
from hepm.types import ToolCall, Trajectory, Turn

Hook: TypeAlias = Callable[[str], str]


_SECRET_KEY: Final = re.compile(
    r"(?:.*(?:password|passwd|passphrase|passcode|secret|apikey|accesskey|accountkey|privatekey|secretkey)|(?:set)?cookie|(?:.*(?:access|auth|refresh|bearer|session|id|api))?token|credentials?|authorization)",
)
_KINDS: Final = ("password", "secret", "token")


_RARE_FIRST: Final = "?&\\qjxz_k-*vb/=\"':w.ygpfmucdlhrsinoate "
"""Letters of literals, the ones that are rarest in texts and JSON first."""

_LAST: Final = 12

_REMEMBERED: Final = 16_000_000
"""Characters of text that a Redactor remembers before it starts afresh."""
_REMEMBERED_KEYS: Final = 10_000


class _Looked:
    """What was found in texts, and what names of arguments say of their values.

    It only grows, so a thread that has put a text in finds it there; to forget is to take a new one.
    """

    __slots__ = ("characters", "clean", "cleaned", "keys")

    def __init__(self) -> None:
        self.clean: set[str] = set()
        self.cleaned: dict[str, str] = {}
        self.keys: dict[str, str | None] = {}
        self.characters = 0

    @property
    def is_full(self) -> bool:
        return self.characters > _REMEMBERED or len(self.keys) > _REMEMBERED_KEYS


class Redactor:
    """Takes secrets out of the texts of a trajectory; names of tools and of arguments stay. Threads may share it.

    The texts of runs repeat: what one environment says, it says to every agent. So what was found in a text is
    remembered for as long as the Redactor is kept, and most texts are only looked up.

    Args:
        rules: `Rule`s, or pairs of a kind and a regular expression. They replace the default ones: give
            ``(*DEFAULT_RULES, ("ticket", r"T-[0-9]+"))`` to add to them.
        hook: Called with every text last; what it returns is kept instead.
    Raises:
        InputError: a regular expression cannot be compiled.
    """

    def __init__(self, rules: Sequence[Rule | tuple[str, str]] = DEFAULT_RULES, hook: Hook | None = None) -> None:
        self._rules = tuple(rule if isinstance(rule, Rule) else compiled(*rule) for rule in rules)
        self._always = any(not rule.literals for rule in self._rules)
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
        """The trajectory without secrets; itself where there were none."""
        looked = self._looked
        if looked.is_full:
            # Not emptied: another thread may be between looking at a run's texts and writing them again.
            looked = self._looked = _Looked()
        texts, found = self._texts(trajectory, looked)
        new = [text for text in texts if text not in looked.clean]
        if new and self._look_at(new, looked):
            found = True
        return self._rebuilt(trajectory, looked) if found else trajectory

    def text(self, text: str) -> str:
        """One text without secrets."""
        for rule in self._suspected(text):
            text = rule.pattern.sub(lambda match, kind=rule.kind: _replaced(match, kind), text)
        return text if self._hook is None else self._hook(text)

    def _look_at(self, texts: list[str], looked: _Looked) -> bool:
        """Remember which of these texts hold secrets, and what they are without; True where one does."""
        new = [text for text in texts if text not in looked.cleaned]
        looked.characters += sum(map(len, new))
        # One look at all of them is enough for nearly every run.
        if self._hook is None and not self._may_hold(_searched("\n".join(new))):
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
        known = looked.keys
        kind_of_key = partial(self._kind_of_key, known=known)
        secret = False
        for turn in trajectory.turns:
            texts.append(turn.text)
            for call in turn.calls:
                if call.result is not None:
                    texts.append(call.result)
                for key, value in call.arguments.items():
                    if type(value) is str:
                        texts.append(value)
                    elif type(value) is dict or type(value) is list:
                        secret = _collect(value, texts, kind_of_key) or secret
                    if known[key] if key in known else self._kind_of_key(key, known):
                        secret = True
        return texts, secret

    def _kind_of_key(self, key: str, known: dict[str, str | None]) -> str | None:
        """What a value is by its key's name; None where it is no secret. Remembered, since keys are few."""
        if key not in known:
            known[key] = _kind_of_key(key) if self._rules else None
        return known[key]

    def _may_hold(self, searched: bytes) -> bool:
        return self._always or self._any_literal.search(searched) is not None

    def _suspected(self, text: str) -> list[Rule]:
        """The rules that may find something in a text."""
        searched = _searched(text)
        if not self._may_hold(searched):
            return []
        there = {literal for literal, as_bytes in self._literals if as_bytes in searched}
        return [rule for rule in self._rules if not rule.literals or not there.isdisjoint(rule.literals)]

    def _rebuilt(self, trajectory: Trajectory, looked: _Looked) -> Trajectory:
        t = trajectory
        cleaned = looked.cleaned
        turns = tuple(
            [
                Turn(
                    turn.role,
                    cleaned.get(turn.text, turn.text),
                    tuple([self._call(call, looked) for call in turn.calls]),
                    turn.reward,
                )
                for turn in t.turns
            ]
        )
        tags = {key: cleaned.get(value, value) for key, value in t.tags.items()}
        return Trajectory(
            t.id, turns, t.outcome, t.environment, t.task, t.model, t.user, t.ended_at, tags, t.source, t.tools
        )

    def _call(self, call: ToolCall, looked: _Looked) -> ToolCall:
        result = None if call.result is None else looked.cleaned.get(call.result, call.result)
        return ToolCall(call.name, self._value(call.arguments, looked), result, call.error, call.latency_s)

    def _value(self, value: Any, looked: _Looked) -> Any:
        if isinstance(value, str):
            return looked.cleaned.get(value, value)
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return {key: self._member(key, member, looked) for key, member in members.items()}
        if isinstance(value, list | tuple):
            return [self._value(element, looked) for element in cast("Sequence[Any]", value)]
        return value

    def _member(self, key: str, value: Any, looked: _Looked) -> Any:
        kind = self._kind_of_key(key, looked.keys)
        if kind is None or value is None or value == "" or isinstance(value, bool):
            return self._value(value, looked)
        return f"[redacted:{kind}]"


def _searched(text: str) -> bytes:
    return text.encode("utf-8", "replace").lower()


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
        at = min(range(len(literal)), key=partial(_rank, literal))
        before = f"(?<={re.escape(literal)})" if at else ""
        by_anchor.setdefault(literal[at], []).append(re.escape(literal[at + 1 :]) + before)
    return re.compile("|".join(f"{re.escape(key)}(?:{'|'.join(rest)})" for key, rest in by_anchor.items()).encode())


def _rank(literal: str, at: int) -> int:
    """How common the letter is; the last one counts as commoner, since no other follows to tell at once."""
    return _RARE_FIRST.find(literal[at]) + (_LAST if at == len(literal) - 1 else 0)


def compiled(kind: str, expression: str) -> Rule:
    """A rule from its text; InputError where it is no regular expression."""
    try:
        return Rule(kind, re.compile(expression))
    except re.error as error:
        raise InputError(f"the redaction rule {kind!r} is no regular expression: {error} in {expression!r}") from error


def _replaced(match: re.Match[str], kind: str) -> str:
    if "secret" not in match.re.groupindex:
        return f"[redacted:{kind}]"
    whole, start = match[0], match.start()
    first, last = match.span("secret")
    secret = match["secret"]
    quote = secret[: len(secret) - len(secret.lstrip("\\\"'"))]
    return f"{whole[: first - start]}{quote}[redacted:{kind}]{whole[last - start :]}"


def _collect(value: Any, texts: list[str], kind_of_key: Callable[[str], str | None]) -> bool:
    """Put every text inside `value` into `texts`; True where a key names a secret."""
    if isinstance(value, str):
        texts.append(value)
        return False
    if is_object(value):
        found = [_collect(member, texts, kind_of_key) or kind_of_key(key) is not None for key, member in value.items()]
        return any(found)
    if is_list(value):
        found = [_collect(element, texts, kind_of_key) for element in value]
        return any(found)
    return False


def _kind_of_key(key: str) -> str | None:
    plain = re.sub(r"[^a-z0-9]", "", key.lower())
    if not _SECRET_KEY.fullmatch(plain):
        return None
    return next((kind for kind in _KINDS if kind in plain), "password" if "pass" in plain else "secret")
