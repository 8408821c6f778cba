"""Preferences of simulated users that a rule can check on an assistant's message (after MultiSessionCollab)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Final

# A block of code, closed or not, and code within a line.
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`[^`\n]+`")
_BULLET: Final = re.compile(r"^[ \t]*[-*+•][ \t]+\S", re.MULTILINE)
_NUMBER: Final = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]+", re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+\S", re.MULTILINE)
# Bullets and the signs of headings.
_MARKS: Final = re.compile(r"^[ \t]*(?:[-*+•]|#{1,6})[ \t]+", re.MULTILINE)
_ABBREVIATION: Final = re.compile(r"\b(?:e\.g|i\.e|etc|vs|Dr|Mr|Mrs|Ms|Prof|approx|No|Fig)\.(?=\s+\S)")
# The end of a sentence, with closing quotes and emphasis behind it, or of a paragraph.
_SENTENCE: Final = re.compile(r"[.!?…]+[\"'”’)*_]*(?=\s|$)|\n\s*\n|[。！？]")
# Pictographs, and the older signs and dingbats.
_EMOJI: Final = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]")
_SUMMARY: Final = re.compile(
    r"\W*(?:in summary|summary|in short|to sum up|tl;?dr|zusammenfassung|kurz gesagt)\b", re.IGNORECASE
)
_GERMAN: Final = re.compile(r"(?:der|die|das|und|ist|nicht|eine?|mit|von|zu|auf|für|sie|wir|ich|es|de[mn]|im)")
_ENGLISH: Final = re.compile(r"(?:the|and|is|not|an?|with|of|to|on|for|you|we|i|it|in|that|this|are|be)")


def _prose(text: str) -> str:
    """A message without code."""
    return _INLINE.sub("code", _FENCE.sub("", text)).strip()


def sentences(text: str) -> int:
    """Count the sentences of a message's prose; a list item without a full stop counts when a blank line ends it."""
    plain = _NUMBER.sub("", _prose(text))
    plain = _MARKS.sub("", plain)
    plain = _ABBREVIATION.sub("abbreviation", plain)  # the full stop of "e.g." ends no sentence
    return sum(bool(re.search(r"\w", part)) for part in _SENTENCE.split(plain))


def _german(replies: Sequence[str]) -> bool:
    """Whether the last reply has more of the commonest German words than of the English ones."""
    german = english = 0
    for word in re.findall(r"\w+", _prose(replies[-1]).casefold()):
        german += bool(_GERMAN.fullmatch(word))
        english += bool(_ENGLISH.fullmatch(word))
    return german > english


def _asked_before_code(replies: Sequence[str]) -> bool:
    if not _FENCE.search(replies[-1]):
        return True
    return any("?" in _prose(reply) for reply in replies[:-1])


def _summarized(replies: Sequence[str]) -> bool:
    paragraphs = re.split(r"\n\s*\n", _prose(replies[-1]))
    return bool(_SUMMARY.match(paragraphs[-1]))


def _ends_with_question(replies: Sequence[str]) -> bool:
    return _prose(replies[-1]).rstrip("*_ \"'”)").endswith(("?", "？"))


@dataclass(frozen=True, slots=True)
class RulePreference:
    """A preference of a simulated user.

    Attributes:
        kept: Whether the last of the assistant's messages, in order and at least one, keeps it.
        asked: What a sentence that asks for it contains, whatever its case.
        wordings: How the user enforces it.
    """

    kept: Callable[[Sequence[str]], bool]
    asked: str
    wordings: tuple[str, ...]


# Before a word, in one sentence: "Please don't use lists".
_NO: Final = r"\b(?:no|not|never|without|don['’]t)\b.*"

PREFERENCES: Final[dict[str, RulePreference]] = {
    "three sentences": RulePreference(
        lambda r: sentences(r[-1]) <= 3,
        "three sentences",
        (
            "Use at most three sentences.",
            "Please keep your answers to three sentences.",
            "Never more than three sentences.",
        ),
    ),
    "bullets": RulePreference(
        lambda r: bool(_BULLET.search(_prose(r[-1]))),
        rf"^(?!.*{_NO}bullet).*bullet",
        ("Use bullet points.", "Please answer in bullet points.", "I prefer bullet points."),
    ),
    "numbers": RulePreference(
        lambda r: bool(_NUMBER.search(_prose(r[-1]))),
        "number(?:ed)? (?:the |each )?steps?",
        ("Please use numbered steps.", "Always number the steps.", "Number the steps."),
    ),
    "no lists": RulePreference(
        lambda r: not (_BULLET.search(_prose(r[-1])) or _NUMBER.search(_prose(r[-1]))),
        rf"{_NO}lists?\b",
        ("Please don't use bullet points or lists.", "Never use lists.", "Don't use lists."),
    ),
    "headings": RulePreference(
        lambda r: bool(_HEADING.search(_prose(r[-1]))),
        "heading",
        ("Please use headings.", "Always put a heading above each part.", "Put a heading above each part."),
    ),
    "summary": RulePreference(
        _summarized,
        "summary",
        ("End with a summary of one line.", "Please end your answers with a one-line summary."),
    ),
    "German": RulePreference(_german, r"\bgerman\b", ("Answer in German.", "Please write in German.")),
    "question first": RulePreference(
        _asked_before_code,
        "ask .*before .*code",
        ("Ask me first before you write code.", "Ask a question before you write code."),
    ),
    "no code": RulePreference(
        lambda r: not _FENCE.search(r[-1]),
        rf"{_NO}code",
        ("Never show me code.", "I don't want code in your answers.", "Please don't show code."),
    ),
    "no emoji": RulePreference(
        lambda r: not _EMOJI.search(_prose(r[-1])), rf"{_NO}emoji", ("No emojis, please.", "Please don't use emoji.")
    ),
    "no exclamation": RulePreference(
        lambda r: not re.search("[!！]", _prose(r[-1])),
        rf"{_NO}exclamation",
        ("No exclamation marks, please.", "Don't use exclamation marks."),
    ),
    "closing question": RulePreference(
        _ends_with_question,
        r"\bend .*question",
        ("Always end with a question.", "Please end your messages with a question."),
    ),
    "bold": RulePreference(
        lambda r: bool(re.search(r"\*\*[^\s*][^*]*\*\*", _prose(r[-1]))),
        r"\bbold\b",
        ("Always put the answer in bold.", "Please put the answer in bold."),
    ),
    "short": RulePreference(
        lambda r: len(_prose(r[-1]).split()) <= 50,
        r"\b50 words",
        ("Use at most 50 words.", "Keep your answers under 50 words."),
    ),
}
"""Preferences by name."""
CONFLICTS: Final = (
    {"bullets", "numbers"},
    {"bullets", "no lists"},
    {"numbers", "no lists"},
    {"question first", "no code"},
    {"summary", "closing question"},
)
"""Preferences that no message keeps together, or of which one makes the other idle."""
# Preferences of a user, as in the paper (3.2).
PER_USER: Final = 3


def drawn_preferences(
    user: str, names: Iterable[str], conflicts: Collection[Set[str]], *, seed: int = 0
) -> tuple[str, ...]:
    """Three compatible preferences, drawn for a user."""
    # By name and seed: a user has the same ones in each arm and however many users there are.
    compatible: list[tuple[str, ...]] = []
    for chosen in combinations(names, PER_USER):
        if not any(pair <= {*chosen} for pair in conflicts):
            compatible.append(chosen)
    return Random(f"{seed}/{user}").choice(compatible)
