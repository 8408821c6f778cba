"""The lines of a user's notes: cleaned and bounded, and whether one says what another does.

Lines are compared by their words. That never takes two wishes for one because a model finds them alike ("answer in
German" and "answer in English" are), and at worst keeps a wish twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

from hepm.experience.notes.topics import topics_of

NOTES_CHARS: Final = 4_000
"""All notes of a user: about 1,000 tokens of every prompt."""
LINE_CHARS: Final = 300

COVERED: Final = 0.7
"""Share of a line's words that another one must hold to say the same."""

_BULLET: Final = re.compile(r"^\s*(?:[-*•–+]|\d{1,2}[.)])\s+")
_WORD: Final = re.compile(r"[\w'’]+")
_NEGATION: Final = re.compile(
    r"n['’]t$|^(?:no|not|never|none|nothing|cannot|dont|without|avoid|stop|quit|skip|drop|less|fewer)$"
)
_CONDITION: Final = re.compile(r"\b(?:when|whenever|if|unless|except|only|until|while)\b", re.IGNORECASE)
_EMPTY: Final = frozenset(
    re.findall(
        r"\S+",
        """
        a about also always am an and answer answers any are as at be been but by can could do does
        explanation explanations for from future get give had has have i i'd i'm in is it it's its just keep
        let like make me message messages more my next now of on or please prefer preferred prefers reply
        replies respond response responses should so some than thanks that that's the their them they this
        to up use user users very want wants was were will with would you your
        """,
    )
)
"""Words that tell no wish from another."""
_SMALL: Final = "again all anymore bit ever forward going just kindly little only really still too"


def lines_of(text: str) -> list[str]:
    """The lines of notes, without bullets, control characters and repeats, each cut to its bound."""
    found: dict[str, str] = {}
    for raw in text.splitlines():
        line = cleaned(_BULLET.sub("", raw))
        if line:
            found.setdefault(line.casefold(), line)
    return list(found.values())


def text_of(lines: Iterable[str]) -> str:
    """Notes of these lines."""
    return "\n".join(f"- {line}" for line in lines)


def cleaned(text: str) -> str:
    """A text as one line: no control characters, no repeated spaces, at most so long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * LINE_CHARS]).split())
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1].rstrip() + "…"


def telling(text: str) -> frozenset[str]:
    """The words that tell what a line wishes, without those that turn it round."""
    words = (word.replace("’", "'") for word in _WORD.findall(text.casefold()))
    return frozenset(_stem(word) for word in words if word not in _EMPTY and not _NEGATION.search(word))


def covers(line: str, old: str) -> bool:
    """Whether a line says what an old one said, and neither turns nor narrows it.

    It does where it wants the same on the same topics, of an old line that says nothing else; else where it holds most
    of the words. Of one or two words that proves little, unless the line is about them too.
    """
    if line.casefold() == old.casefold():
        return True
    if not _alike(line, old):
        return False
    topics = wanted(old)
    if topics and topics.items() <= wanted(line).items() and not beside_topics(old):
        return True
    words, own = telling(old), telling(line)
    shared = len(words & own)
    return bool(words) and shared >= COVERED * len(words) and (len(words) > 2 or 2 * shared >= len(own))


def wanted(line: str) -> dict[str, str]:
    """What a line wants, by topic (see `hepm.experience.notes.topics`)."""
    return {topic: value for topic, value, _ in topics_of(line)}


def beside_topics(line: str) -> frozenset[str]:
    """The words that tell something else than what a line wants on its topics."""
    told = " ".join((_SMALL, *(words for _, _, words in topics_of(line))))
    return telling(line) - telling(told)


def lost(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Old lines that no new one says, nor two new ones that share their words."""
    return [line for line in old if not any(covers(one, line) for one in new) and not _split(line, new)]


def conditional(line: str) -> bool:
    """Whether a line holds in some cases alone."""
    return bool(_CONDITION.search(line))


def _split(old: str, new: Sequence[str]) -> bool:
    """Whether two lines say it together, each of them a part and little else."""
    words = telling(old)
    parts = [(telling(line) & words, telling(line)) for line in new if _alike(line, old)]
    shares = [shared for shared, own in parts if shared and shared != words and 2 * len(shared) >= len(own)]
    return any(one | other == words for one, other in combinations(shares, 2))


def _alike(line: str, old: str) -> bool:
    """Whether both want, or both do not want, and the first holds wherever the second does."""
    return _negated(line) == _negated(old) and (conditional(old) or not conditional(line))


def _negated(text: str) -> bool:
    return any(_NEGATION.search(word) for word in _WORD.findall(text.casefold()))


def _stem(word: str) -> str:
    """Without its ending, roughly: "cancelling" and "cancel" are one word."""
    word = word.removesuffix("'s")
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word.removesuffix(ending)
            word = word[:-1] if word[-1] == word[-2] else word
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word
