"""Secrets leave a run before it is stored.

Runs on real systems hold keys, tokens and passwords, in what people type, in arguments and in results. The default
rules find the ones that can be told by their shape or by the word before them. Each is replaced by "[redacted:kind]".

Nearly all texts hold none, so the rules look for a telling literal first and search with their pattern only then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hepm.errors import InputError
from hepm.types import ToolCall, Trajectory, Turn

Hook: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret.

    Attributes:
        kind: Stands in what replaces it.
        pattern: Where it has a group named "secret", only that group is replaced.
        literals: One of them is in every text that the pattern matches; () where there is none to look for.
            They are compared in lower case where the pattern ignores case.
    """

    kind: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...] = ()

    @property
    def ignores_case(self) -> bool:
        """Whether upper and lower case are the same to it."""
        return bool(self.pattern.flags & re.IGNORECASE)


# A text may have been cut before it comes here: "…" then ends a key that is shorter than a whole one.
_KEY: Final = r"(?:(?=[\w-]*\d)[\w-]{16,}|[\w-]*…)"
_VALUE: Final = r"""(?P<secret>\\?"[^"\\\n]{3,}|'[^'\n]{3,}|[^\s"',;}\])>\\\[]{3,})"""
_NO_VALUE: Final = r"""(?!\\?["']?(?:null|none|nil|true|false|undefined|str|string|text|\[redacted|\*{3}|<|\$?\{))"""

DEFAULT_RULES: Final = (
    Rule(
        "private-key",
        re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)"),
        ("-----BEGIN",),
    ),
    Rule("anthropic-key", re.compile(r"(?<![A-Za-z0-9])sk-ant-" + _KEY), ("sk-ant-",)),
    Rule("openai-key", re.compile(r"(?<![A-Za-z0-9])sk-" + _KEY), ("sk-",)),
    Rule("github-token", re.compile(r"\bgh[pousr]_" + _KEY), ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    Rule("github-token", re.compile(r"\bgithub_pat_" + _KEY), ("github_pat_",)),
    Rule("aws-key", re.compile(r"\b(?:AKIA|ASIA)(?:[A-Z0-9]{16}|[A-Z0-9]*…)"), ("AKIA", "ASIA")),
    Rule("google-key", re.compile(r"\bAIza" + _KEY), ("AIza",)),
    Rule("slack-token", re.compile(r"\bxox[a-z]-(?:[A-Za-z0-9-]{10,}|[A-Za-z0-9-]*…)"), ("xox",)),
    Rule("huggingface-token", re.compile(r"\bhf_(?:[A-Za-z0-9]{20,}|[A-Za-z0-9]*…)"), ("hf_",)),
    Rule("jwt", re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]{4,}(?:\.[\w-]*)?|…)"), ("eyJ",)),
    Rule("password", re.compile(r"://(?P<secret>[^\s/:@\"'<>]{1,256}:[^\s/@\"'<>]{1,256})@"), ("://",)),
    Rule("token", re.compile(r"\bbearer\s+(?P<secret>(?=[\w.~+/=-]*\d)[\w.~+/=-]{16,})", re.IGNORECASE), ("bearer",)),
    Rule(
        "password",
        re.compile(r"(?:passw(?:or)?d|passphrase|pwd)\\?[\"']?\s*[:=]\s*" + _NO_VALUE + _VALUE, re.IGNORECASE),
        ("passw", "passphrase", "pwd"),
    ),
    Rule("secret", re.compile(r"secret\\?[\"']?\s*[:=]\s*" + _NO_VALUE + _VALUE, re.IGNORECASE), ("secret",)),
    Rule(
        "api-key",
        re.compile(r"(?:api|access|private|secret)[_ -]?key\\?[\"']?\s*[:=]\s*" + _NO_VALUE + _VALUE, re.IGNORECASE),
        ("apikey", "api_key", "api-key", "api key", "access", "private", "secret"),
    ),
    Rule(
        "token",
        re.compile(r"token\\?[\"']?\s*[:=]\s*(?!\\?[\"']?\d+\b)" + _NO_VALUE + _VALUE.replace("{3,}", "{8,}"), re.IGNORECASE),
        ("token",),
    ),
)
"""Keys of OpenAI, Anthropic, GitHub, AWS, Google, Slack and Hugging Face, JSON web tokens, private keys, credentials in
URLs, bearer tokens, and what stands after a word such as password or token and a colon or an equals sign."""

_SECRET_KEY: Final = re.compile(
    r"(?:.*(?:password|passwd|passphrase|secret|apikey|accesskey|privatekey|secretkey)|(?:.*(?:access|auth|refresh|bearer|session|id|api))?token|credentials?|authorization)",
)
_KINDS: Final = ("password", "secret", "token")


class Redactor:
    """Takes secrets out of the texts of a trajectory; names of tools and of arguments stay.

    Args:
        rules: `Rule`s, or pairs of a kind and a regular expression. They replace the default ones: give
            ``(*DEFAULT_RULES, ("ticket", r"T-[0-9]+"))`` to add to them.
        hook: Called with every text last; what it returns is kept instead.
    Raises:
        InputError: a regular expression cannot be compiled.
    """

    def __init__(self, rules: Sequence[Rule | tuple[str, str]] = DEFAULT_RULES, hook: Hook | None = None) -> None:
        self._rules = tuple(rule if isinstance(rule, Rule) else compiled(*rule) for rule in rules)
        self._hook = hook
        self._secret_keys: dict[str, str | None] = {}

    def __call__(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory without secrets; itself where there were none."""
        texts, secret_argument = self._texts(trajectory)
        rules = self._suspected("\n".join(texts))
        if not rules and not secret_argument and self._hook is None:
            return trajectory
        return self._redacted(trajectory, rules)

    def text(self, text: str) -> str:
        """One text without secrets."""
        return self._clean(text, self._suspected(text))

    def _texts(self, trajectory: Trajectory) -> tuple[list[str], bool]:
        """Every text of the run, and whether some argument is secret by its name."""
        texts: list[str] = list(trajectory.tags.values())
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
                        secret = _collect(value, texts, self._kind_of_key) or secret
                    if self._kind_of_key(key):
                        secret = True
        return texts, secret

    def _kind_of_key(self, key: str) -> str | None:
        """What a value is by its key's name; None where it is no secret. Remembered, since keys are few."""
        try:
            return self._secret_keys[key]
        except KeyError:
            if len(self._secret_keys) > 10_000:
                self._secret_keys.clear()
            kind = self._secret_keys[key] = _kind_of_key(key) if self._rules else None
            return kind

    def _suspected(self, text: str) -> tuple[Rule, ...]:
        lower = text.lower()
        return tuple([
            rule
            for rule in self._rules
            if not rule.literals or any(literal in (lower if rule.ignores_case else text) for literal in rule.literals)
        ])

    def _clean(self, text: str, rules: tuple[Rule, ...]) -> str:
        for rule in rules:
            text = rule.pattern.sub(lambda match, kind=rule.kind: _replaced(match, kind), text)
        return text if self._hook is None else self._hook(text)

    def _redacted(self, trajectory: Trajectory, rules: tuple[Rule, ...]) -> Trajectory:
        t = trajectory
        turns = tuple([
            Turn(turn.role, self._clean(turn.text, rules), tuple([self._call(call, rules) for call in turn.calls]))
            for turn in t.turns
        ])
        tags = {key: self._clean(value, rules) for key, value in t.tags.items()}
        return Trajectory(
            t.id, turns, t.outcome, t.environment, t.task, t.model, t.user, t.ended_at, tags, t.source, t.tools
        )

    def _call(self, call: ToolCall, rules: tuple[Rule, ...]) -> ToolCall:
        result = None if call.result is None else self._clean(call.result, rules)
        return ToolCall(call.name, self._value(call.arguments, rules), result, call.error, call.latency_s)

    def _value(self, value: Any, rules: tuple[Rule, ...]) -> Any:
        if isinstance(value, str):
            return self._clean(value, rules)
        if isinstance(value, Mapping):
            members: Mapping[str, Any] = value
            return {key: self._member(key, member, rules) for key, member in members.items()}
        if isinstance(value, list | tuple):
            elements: Sequence[Any] = value
            return [self._value(element, rules) for element in elements]
        return value

    def _member(self, key: str, value: Any, rules: tuple[Rule, ...]) -> Any:
        kind = self._kind_of_key(key)
        if kind is None or value is None or value == "" or isinstance(value, bool):
            return self._value(value, rules)
        return f"[redacted:{kind}]"


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
    if isinstance(value, dict):
        members: dict[str, Any] = value
        found = [_collect(member, texts, kind_of_key) or kind_of_key(key) is not None for key, member in members.items()]
        return any(found)
    if isinstance(value, list):
        elements: list[Any] = value
        return any([_collect(element, texts, kind_of_key) for element in elements])
    return False


def _kind_of_key(key: str) -> str | None:
    plain = re.sub(r"[^a-z0-9]", "", key.lower())
    if not _SECRET_KEY.fullmatch(plain):
        return None
    return next((kind for kind in _KINDS if kind in plain), "password" if "pass" in plain else "secret")
