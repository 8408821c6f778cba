"""The lines of a user's notes: cleaned and bounded, and whether one says what another does.

Lines are compared by their words. That never takes two wishes for one because a model finds them alike ("answer in
German" and "answer in English" are), and at worst keeps a wish twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

NOTES_CHARS: Final = 4_000
"""All notes of a user: about 1,000 tokens of every prompt."""
LINE_CHARS: Final = 300

_COVERED: Final = 0.7  # share of a line's words that another one must hold to say the same

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
SMALL: Final = frozenset(
    {"again", "all", "any", "anymore", "bit", "both", "ever", "forward", "going", "kindly", "only", "too"}
)
LANGUAGE: Final = (
    r"(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|ukrainian|turkish|arabic|hebrew|hindi|"
    r"chinese|mandarin|japanese|korean|swedish|norwegian|danish|finnish|greek|czech|hungarian|romanian|vietnamese|thai)"
)
_SHORT: Final = (
    r"\b(?:(?:don't|do not) be (?:so |too )?(?:wordy|verbose|long)|(?:too|so|less) (?:long|wordy|verbose)|"
    r"short(?:er)?|brief(?:er|ly)?|concise(?:ly)?|succinct|terse|to the point|"
    r"(?:in|at most|no more than) (?:\w+ ){1,2}(?:sentences?|words?|lines?|paragraphs?))\b"
)
_TOPICS: Final = tuple(
    (topic, value, re.compile(pattern))
    for topic, value, pattern in (
        ("length", "long", r"\b(?:longer|more (?:detailed|thorough|verbose|elaborate)|too (?:short|brief|terse))\b"),
        ("length", "short", _SHORT),
        ("language", "", rf"\b(?:in|to|speak) {LANGUAGE}\b"),
        ("tone", "informal", r"\b(?:informal(?:ly)?|casual|less formal)\b"),
        ("tone", "formal", r"\bformal(?:ly)?\b"),
        ("units", "metric", r"\b(?:metric|celsius|kilomet(?:er|re)s)\b"),
        ("units", "imperial", r"\b(?:imperial|fahrenheit|miles)\b"),
        ("name", "", r"\bcall me \w+"),
        ("steps", "yes", r"\bstep[- ]by[- ]step\b|\bone (?:step|thing) at a time\b"),
        *(
            (thing, "yes", rf"\b{thing}s?\b")
            for thing in ("emoji", "bullet(?: point)?", "heading", "table", "markdown")
        ),
    )
)
"""Topics of which a user wants one thing: topic, value ("" for the words themselves), pattern."""


class Draft(NamedTuple):
    """What notes become.

    Attributes:
        lines: All of them.
        replaced: Old lines that went since the user wants otherwise now, or since a line refines them.
        restored: Old lines that a model's rewrite had lost.
        dropped: Proposed lines without evidence, or without room.
        refused: Why a model's rewrite is not taken at all; "" where it is.
    """

    lines: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    refused: str = ""


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
    topics = topics_of(old)
    if topics and not topics.pop("") and topics.items() <= topics_of(line).items():
        return True
    words, own = telling(old), telling(line)
    shared = len(words & own)
    return bool(words) and shared >= _COVERED * len(words) and (len(words) > 2 or 2 * shared >= len(own))


def topics_of(line: str) -> dict[str, str]:
    """What a line asks for on topics of which a user wants one thing, by topic; under "" what else it says."""
    rest = line.casefold().replace("’", "'")
    found: dict[str, str] = {}
    for topic, value, pattern in _TOPICS:
        if topic not in found and (match := pattern.search(rest)):
            rest = rest.replace(match[0], " ")
            found[topic] = ("not " if _negated(rest) else "") + (value or match[0].split()[-1])
    return found | {"": " ".join(telling(rest) - SMALL)} if found else found


def topic_alone(line: str) -> tuple[str, str] | None:
    """The topic and value of a line that says one thing on one topic, without a condition; None for any other line."""
    topics = topics_of(line)
    return None if len(topics) != 2 or topics.pop("") or conditional(line) else topics.popitem()


def related(line: str, old: str) -> bool:
    """Whether two lines are about the same thing."""
    return bool(telling(line) & telling(old) or topics_of(line).keys() & topics_of(old).keys() - {""})


def lost(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Old lines that no new one says, nor two new ones that share their words."""
    return [line for line in old if not any(covers(one, line) for one in new) and not _split(line, new)]


def gather(lines: Sequence[str], wishes: Iterable[str]) -> Draft:
    """The lines with the wishes: none twice; a wish replaces lines that it covers, and the one that it contradicts.

    Two contradict where each says one thing on the same topic, without a condition and nothing else.
    """
    now, replaced, left_out = list(lines), list[str](), list[str]()
    for wish in wishes:
        topic = topic_alone(wish)
        topics = [topic_alone(line) for line in now]
        if any(covers(line, wish) for line in now) or (topic and topic in topics):
            continue
        old = [
            line
            for line, other in zip(now, topics, strict=True)
            if covers(wish, line) or (topic and other and other[0] == topic[0])
        ]
        after = [*(line for line in now if line not in old), wish]
        if len(text_of(after)) > NOTES_CHARS:
            left_out.append(wish)
        else:
            replaced += old
            now = after
    return Draft(tuple(now), tuple(replaced), dropped=tuple(left_out))


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
