"""Preferences of simulated users that a rule can check on an assistant's message (after MultiSessionCollab)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from random import Random
from typing import Final

from hepm.lab.collaboration import WRITTEN

# A block of code, closed or not, and code within a line.
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`[^`\n]+`")
# Numbers, bullets and the signs of headings.
_MARKS: Final = re.compile(r"^[ \t]*(?:\d{1,3}[.)]|[-*+•]|#{1,6})[ \t]+", re.MULTILINE)
_ABBREVIATION: Final = re.compile(r"\b(?:e\.g|i\.e|etc|vs|Dr|Mr|Mrs|Ms|Prof|approx|No|Fig)\.(?=\s+\S)")
# The end of a sentence, with closing quotes and emphasis behind it, or of a paragraph.
_SENTENCE: Final = re.compile(r"[.!?…]+[\"'”’)*_]*(?=\s|$)|\n\s*\n|[。！？]")


def _prose(text: str) -> str:
    """A message with "\\0" for each block of code."""
    return _INLINE.sub("code", _FENCE.sub("\0", text)).strip()


def sentences(text: str) -> int:
    """Count the sentences of a message's prose; a list item without a full stop counts when a blank line ends it."""
    plain = _ABBREVIATION.sub("abbreviation", _MARKS.sub("", _prose(text)))  # the full stop of "e.g." ends no sentence
    return sum(bool(re.search(r"\w", part)) for part in _SENTENCE.split(plain))


@dataclass(frozen=True, slots=True)
class RulePreference:
    """A preference of a simulated user.

    Attributes:
        asked: What a sentence that asks for it contains, whatever its case.
        wordings: How the user enforces it.
        pattern, wanted: What the prose of a reply has, or lacks.
        sentences: The most that a reply may have.
    """

    asked: str
    wordings: Sequence[str]
    pattern: str = ""
    wanted: bool = True
    sentences: int = 1_000_000

    def kept(self, reply: str) -> bool:
        """Whether a reply of the assistant keeps it."""
        found = re.search(self.pattern, _prose(reply), re.MULTILINE)
        return bool(found) is self.wanted and sentences(reply) <= self.sentences


PREFERENCES: Final = {name: RulePreference(**rule) for name, rule in WRITTEN["rules"].items()}
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
