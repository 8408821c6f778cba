"""The lines of a user's notes: cleaned, bounded and compared by their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from hepm.experience.transcript import plain

NOTES_CHARS: Final = 4_000
"""All notes of a user: about 1,000 tokens of every prompt."""
LINE_CHARS: Final = 300

_COVERED: Final = 0.7  # share of a line's words that another one must hold to say the same

# "lists", "listed" and "listing" are "list", "stopped" is "stop", "write" is "writ".
_ENDING: Final = re.compile(r"(?:'s|(?<=\w{4})(?:(?<=(\w))\1)?(?:ing|ed)|(?<=\w{3})(?<!s)s|(?<=\w{4})es?)$")
# "don't", "no", "avoid": a wish and its opposite differ by such a word alone.
_NEGATION: Final = re.compile(
    r"n['’]t$|^(?:no|not|never|none|nothing|cannot|dont|without|avoid|stop|quit|skip|drop|less|fewer|hate|dislike)$"
)
# A line with such a word holds on some occasions alone.
_CONDITION: Final = re.compile(r"\b(?:when|whenever|if|unless|except|only|until|while)\b", re.IGNORECASE)
# Words that a line has whatever it wishes.
_NO_WISH: Final = """
a about also always am an and answer answers any are as at be been but by can could do does explanation explanations for
from future get give had has have i i'd i'm in is it it's its just keep let like make me message messages more my next
now of on or please prefer preferred prefers reply replies respond response responses should so some than thanks that
that's the their them they this to up use user users very want wants was were will with would you your
"""
_EMPTY: Final = frozenset(_NO_WISH.split())
# Beside a topic these say nothing of their own: "write long answers", "use metric units".
_SMALL_WORDS: Final = """
again all any anymore bit both ever forward going kindly only too writ show using speak talk unit actually
"""
SMALL: Final = frozenset(_SMALL_WORDS.split())
# Languages that are a topic; another one is a word like any other.
LANGUAGE: Final = (
    r"(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|ukrainian|turkish|arabic|hebrew|hindi|"
    r"chinese|mandarin|japanese|korean|swedish|norwegian|danish|finnish|greek|czech|hungarian|romanian|vietnamese|thai)"
)
_ANSWERS: Final = r"(?:answers?|replies|reply|responses?|messages|explanations?|ones|texts?)"
# "too long" asks for the same as "short".
_SHORT: Final = (
    r"\b(?:(?:don't|do not) be (?:so |too )?(?:wordy|verbose|long)|(?:too|so|less) (?:long|wordy|verbose)|"
    r"short(?:er)?|brief(?:er|ly)?|concise(?:ly)?|succinct|terse|to the point|"
    r"(?:in|at most|no more than) (?:\w+ ){1,2}(?:sentences?|words?|lines?|paragraphs?)|"
    r"\w+ (?:sentences?|words?|lines?|paragraphs?) (?:at most|or (?:less|fewer)))\b"
)
_LONG: Final = (
    r"\b(?:longer|more (?:detailed|thorough|verbose|elaborate)|too (?:short|brief|terse)|"
    rf"(?<!too )(?<!so )(?<!less )(?<!be )long {_ANSWERS}|detailed {_ANSWERS}|in (?:more |full |great )?detail|"
    r"(?:with )?all (?:the |possible )?details)\b"
)
_TOPICS: Final = (
    ("length", "long", _LONG),
    ("length", "short", _SHORT),
    ("language", "", rf"\b(?:in|to|speak) {LANGUAGE}\b"),
    ("tone", "informal", r"\b(?:informal(?:ly)?|casual|less formal)\b"),
    ("tone", "formal", r"\bformal(?:ly)?\b"),
    ("units", "metric", r"\b(?:metric|celsius|kilomet(?:er|re)s)\b"),
    ("units", "imperial", r"\b(?:imperial|fahrenheit|miles)\b"),
    ("name", "", r"\bcall me \w+"),
    (
        "currency",
        "",
        r"\b(?:(?:prices?|amounts?|costs?|totals?) )?in (?:euros?|dollars?|pounds?|francs?|yen|usd|eur|gbp|chf)\b",
    ),
    ("clock", "", r"\b(?:12|24)-hour\b"),
)
"""Topics on which a user has one wish: topic, value ("" for the words themselves), pattern."""


def lines_of(text: str) -> list[str]:
    """The lines of notes, without bullets, control characters and repeats, each cut to 300 characters."""
    by_words: dict[str, str] = {}
    for raw in text.splitlines():
        line = cleaned(re.sub(r"^\s*(?:[-*•–+]|\d{1,2}[.)])\s+", "", raw))  # "- ", "* ", "1. ", "2) "
        if line:
            by_words.setdefault(line.casefold(), line)
    return list(by_words.values())


def text_of(lines: Iterable[str]) -> str:
    """Notes of these lines."""
    return "\n".join(f"- {line}" for line in lines)


def cleaned(text: str) -> str:
    """A text as one line: no control characters, no repeated spaces, at most 300 characters."""
    # Cut before: a text may have megabytes, and white space in a row becomes one blank.
    printable = "".join(character if character.isprintable() else " " for character in text[: 4 * LINE_CHARS])
    return plain(printable, LINE_CHARS)


def key_words(text: str) -> frozenset[str]:
    """The words of a line that carry its wish, without negations, roughly without endings."""
    words = [word for word in _words(text) if word not in _EMPTY and not _NEGATION.search(word)]
    return frozenset(_ENDING.sub("", word) for word in words)


def _words(text: str) -> list[str]:
    return [word.replace("’", "'") for word in re.findall(r"[\w'’]+", text.casefold())]


class Wish(NamedTuple):
    """What a line wishes.

    Attributes:
        words: Its key words.
        topics: Its values by topic.
        others: Key words that are of no topic; all if it has none.
        negated: Whether it forbids something.
        narrowed: Whether it holds on some occasions alone.
    """

    words: frozenset[str]
    topics: Mapping[str, str]
    others: frozenset[str]
    negated: bool
    narrowed: bool
    numbers: frozenset[str]

    @property
    def topic(self) -> str:
        """Of a wish about one topic alone, wherever; "" for any other."""
        if len(self.topics) != 1 or self.others or self.narrowed:
            return ""
        return next(iter(self.topics))

    def says(self, old: Wish) -> bool:
        """Whether it says all that an old wish says, and neither reverses nor narrows it.

        It has the same values of the same topics and the old one says nothing else, or it holds most of the old one's
        words; if these are one or two, they are half of its own.
        """
        if self.negated != old.negated or (self.narrowed and not old.narrowed) or not old.numbers <= self.numbers:
            return False
        if old.topics and not old.others and old.topics.items() <= self.topics.items():
            return True
        # Without a topic, words decide: "ask before you book" and "always ask before booking".
        shared = len(self.words & old.words)
        if not old.words or shared < _COVERED * len(old.words):
            return False
        return len(old.words) > 2 or 2 * shared >= len(self.words)

    def contradicts(self, old: Wish) -> bool:
        """Whether both are about one topic, or one forbids what the other asks for, wherever the old one holds."""
        if self.topic and self.topic == old.topic:
            return True
        if self.negated == old.negated or (self.narrowed and not old.narrowed):
            return False
        return len(self.words & old.words) >= _COVERED * max(len(self.words), len(old.words), 1)


@lru_cache(maxsize=1_024)  # each new line is compared with all old ones
def wish_of(line: str) -> Wish:
    """Read a line."""
    words = key_words(line)
    rest = line.casefold().replace("’", "'")
    numbers = re.findall(r"\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty)\b", rest)
    topics: dict[str, str] = {}
    for topic, value, pattern in _TOPICS:
        match = re.search(pattern, rest)
        if match is not None and topic not in topics:
            topics[topic] = value or match[0].split()[-1]
            # Taken out: what is left in the end are the line's other words.
            rest = re.sub(pattern, " ", rest)
    others = words
    if topics:
        others = key_words(rest) - SMALL
    # "Don't be wordy" is short, and forbids nothing.
    negated = any(map(_NEGATION.search, _words(rest)))
    return Wish(words, topics, others, negated, _CONDITION.search(line) is not None, frozenset(numbers))


def covers(line: str, old: str) -> bool:
    """Whether a line says all that an old one says (see `Wish.says`)."""
    return line.casefold() == old.casefold() or wish_of(line).says(wish_of(old))


def lost(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Old lines that no new one says."""
    return [line for line in old if not any(covers(one, line) for one in new)]


def gather(lines: Sequence[str], wishes: Iterable[str | Retraction]) -> list[str]:
    """Add wishes to the lines: none twice, none beyond the room; a wish replaces lines that it covers or contradicts.

    What the user takes back is removed.
    """
    now = list(lines)
    for wish in wishes:
        if not isinstance(wish, str):
            now = [line for line in now if not _takes_back(wish.what, line)]
        elif not any(covers(line, wish) for line in now):
            new = wish_of(wish)
            after = [line for line in now if not covers(wish, line) and not new.contradicts(wish_of(line))]
            after.append(wish)
            if len(text_of(after)) <= NOTES_CHARS:
                now = after
    return now


class Retraction(NamedTuple):
    """What a user takes back, in the user's words: "I want long answers" of "I no longer want long answers"."""

    what: str


def _takes_back(what: str, line: str) -> bool:
    """Whether a line is what a user takes back: it says the same or the opposite, or its one topic is named."""
    back, wish = (wish_of(text)._replace(negated=False, narrowed=False) for text in (what, line))
    return wish.says(back) or (wish.topic != "" and wish.topic in _words(what))
