"""The topics that a message to a user of a gym is about, by its words. The user has one answer to each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """Something that a message can be about.

    Attributes:
        words: A pattern that a message about it matches, whatever its case.
        says: What the user says then.
    """

    words: str
    says: str


def by_words(text: str, topics: Sequence[Topic]) -> list[int]:
    """The topics whose words the message has, in the order in which it has them."""
    starts: list[tuple[int, int]] = []
    for position, topic in enumerate(topics):
        match = matched(topic.words, text)
        if match:
            starts.append((match.start(), position))
    return [position for _, position in sorted(starts)]


def matched(words: str, text: str) -> re.Match[str] | None:
    """The first place where a text has one of these words, as a whole word or its beginning."""
    # From the beginning of a word: "alive" is heard in "alive?", "live" is not heard in "alive".
    return re.search(rf"\b(?:{words})", text, re.IGNORECASE)
