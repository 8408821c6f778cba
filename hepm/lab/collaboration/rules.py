"""Preferences of simulated users that a rule can check on an assistant's message (after MultiSessionCollab)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from random import Random
from typing import Final

from hepm.lab.collaboration import WRITTEN

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


def _prose(text: str) -> str:
    """A message without code."""
    return _INLINE.sub("code", _FENCE.sub("", text)).strip()


def sentences(text: str) -> int:
    """Count the sentences of a message's prose; a list item without a full stop counts when a blank line ends it."""
    plain = _NUMBER.sub("", _prose(text))
    plain = _MARKS.sub("", plain)
    plain = _ABBREVIATION.sub("abbreviation", plain)  # the full stop of "e.g." ends no sentence
    return sum(bool(re.search(r"\w", part)) for part in _SENTENCE.split(plain))


@dataclass(frozen=True, slots=True)
class RulePreference:
    """A preference of a simulated user.

    Attributes:
        kept: Whether a reply of the assistant keeps it.
        asked: What a sentence that asks for it contains, whatever its case.
        wordings: How the user enforces it.
    """

    kept: Callable[[str], bool]
    asked: str
    wordings: tuple[str, ...]


def _found(pattern: re.Pattern[str], *, absent: bool = False) -> Callable[[str], bool]:
    """Whether the prose of a reply has a pattern, or lacks it."""
    return lambda reply: bool(pattern.search(_prose(reply))) is not absent


_KEPT: Final[Mapping[str, Callable[[str], bool]]] = {
    "three sentences": lambda reply: sentences(reply) <= 3,
    "bullets": _found(_BULLET),
    "numbers": _found(_NUMBER),
    "no lists": _found(re.compile(f"{_BULLET.pattern}|{_NUMBER.pattern}", re.MULTILINE), absent=True),
    "headings": _found(_HEADING),
    "no code": lambda reply: not _FENCE.search(reply),
    "no emoji": _found(_EMOJI, absent=True),
    "no exclamation": _found(re.compile("[!！]"), absent=True),
    "bold": _found(re.compile(r"\*\*[^\s*][^*]*\*\*")),
    "short": lambda reply: len(_prose(reply).split()) <= 50,
}
PREFERENCES: Final[dict[str, RulePreference]] = {
    name: RulePreference(kept, WRITTEN["rules"][name]["asked"], tuple(WRITTEN["rules"][name]["wordings"]))
    for name, kept in _KEPT.items()
}
"""Preferences by name."""
CONFLICTS: Final = (
    {"bullets", "numbers"},
    {"bullets", "no lists"},
    {"numbers", "no lists"},
)
"""Preferences that no message keeps together, or of which one makes the other idle."""
# Preferences of a user, as in the paper (3.2).
PER_USER: Final = 3


def drawn_preferences(
    user: str, names: Sequence[str], conflicts: Collection[Set[str]], *, seed: int = 0
) -> tuple[str, ...]:
    """Three compatible preferences, drawn for a user."""
    # By name and seed: a user has the same ones in each arm and however many users there are.
    random = Random(f"{seed}/{user}")
    while True:
        chosen = random.sample(names, PER_USER)
        if not any(pair <= {*chosen} for pair in conflicts):
            return tuple(chosen)
