"""Preferences of simulated users that a rule can check on an assistant's message (after MultiSessionCollab)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`[^`\n]+`")
_BULLET: Final = re.compile(r"^[ \t]*[-*+•][ \t]+\S", re.MULTILINE)
_NUMBER: Final = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]+", re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+\S", re.MULTILINE)
_MARKS: Final = re.compile(r"^[ \t]*(?:[-*+•]|#{1,6})[ \t]+", re.MULTILINE)
_ABBREVIATION: Final = re.compile(r"\b(?:e\.g|i\.e|etc|vs|Dr|Mr|Mrs|Ms|Prof|approx|No|Fig)\.(?=\s+\S)")
_SENTENCE: Final = re.compile(r"[.!?…]+[\"'”’)*_]*(?=\s|$)|\n\s*\n|[。！？]")
_EMOJI: Final = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]")
_SUMMARY: Final = re.compile(r"\W*(?:in summary|summary|in short|to sum up)\b", re.IGNORECASE)
_GERMAN: Final = frozenset(
    [
        "der",
        "die",
        "das",
        "und",
        "ist",
        "nicht",
        "ein",
        "eine",
        "mit",
        "von",
        "zu",
        "auf",
        "für",
        "sie",
        "wir",
        "ich",
        "es",
        "den",
        "dem",
        "im",
    ]
)
_ENGLISH: Final = frozenset(
    [
        "the",
        "and",
        "is",
        "not",
        "a",
        "an",
        "with",
        "of",
        "to",
        "on",
        "for",
        "you",
        "we",
        "i",
        "it",
        "in",
        "that",
        "this",
        "are",
        "be",
    ]
)


def _prose(text: str) -> str:
    """A message without code."""
    return _INLINE.sub("code", _FENCE.sub("", text)).strip()


def sentences(text: str) -> int:
    """Count the sentences of a message's prose; a list item without a full stop counts when a blank line ends it."""
    plain = _ABBREVIATION.sub("abbreviation", _MARKS.sub("", _NUMBER.sub("", _prose(text))))
    return sum(bool(re.search(r"\w", part)) for part in _SENTENCE.split(plain))


def _german(replies: Sequence[str]) -> bool:
    words = re.findall(r"\w+", _prose(replies[-1]).casefold())
    return sum(word in _GERMAN for word in words) > sum(word in _ENGLISH for word in words)


def _asked_before_code(replies: Sequence[str]) -> bool:
    return not _FENCE.search(replies[-1]) or any("?" in _prose(reply) for reply in replies[:-1])


def _summarized(replies: Sequence[str]) -> bool:
    return bool(_SUMMARY.match(re.split(r"\n\s*\n", _prose(replies[-1]))[-1]))


def _ends_with_question(replies: Sequence[str]) -> bool:
    return _prose(replies[-1]).rstrip("*_ \"'”)").endswith(("?", "？"))


@dataclass(frozen=True, slots=True)
class RulePreference:
    """A preference of a simulated user.

    Attributes:
        wish: The preference, as the user states it.
        kept: Whether the last of the assistant's messages, in order and at least one, keeps it.
    """

    wish: str
    kept: Callable[[Sequence[str]], bool]


PREFERENCES: Final[dict[str, RulePreference]] = {
    "three sentences": RulePreference("Use at most three sentences.", lambda r: sentences(r[-1]) <= 3),
    "bullets": RulePreference("Use bullet points.", lambda r: bool(_BULLET.search(_prose(r[-1])))),
    "numbers": RulePreference("Number the steps.", lambda r: bool(_NUMBER.search(_prose(r[-1])))),
    "no lists": RulePreference(
        "Don't use lists.", lambda r: not (_BULLET.search(_prose(r[-1])) or _NUMBER.search(_prose(r[-1])))
    ),
    "headings": RulePreference("Put a heading above each part.", lambda r: bool(_HEADING.search(_prose(r[-1])))),
    "summary": RulePreference("End with a summary of one line.", _summarized),
    "German": RulePreference("Answer in German.", _german),
    "question first": RulePreference("Ask a question before you write code.", _asked_before_code),
    "no code": RulePreference("Don't show code.", lambda r: not _FENCE.search(r[-1])),
    "no emoji": RulePreference("Don't use emoji.", lambda r: not _EMOJI.search(_prose(r[-1]))),
    "no exclamation": RulePreference("Don't use exclamation marks.", lambda r: not re.search("[!！]", _prose(r[-1]))),
    "closing question": RulePreference("End with a question.", _ends_with_question),
    "bold": RulePreference("Put the answer in bold.", lambda r: bool(re.search(r"\*\*[^\s*][^*]*\*\*", _prose(r[-1])))),
    "short": RulePreference("Use at most 50 words.", lambda r: len(_prose(r[-1]).split()) <= 50),
}
"""Preferences by name; some contradict each other ("bullets" and "no lists"), so a user's must be chosen."""
