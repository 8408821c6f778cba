"""What a user asked of the agent, found without a model: sentences in the user's own words, and few wrong ones.

A sentence is a wish where it asks, and what it asks for is how the agent behaves:

- a topic that is known (`hepm.experience.notes.topics`): the language and length of answers, emojis, bullet points,
  steps, tone, plain words, excuses, questions back, units, headings, tables, a name to be called by, and the like;
- an order for good ("always ...", "never ...", "from now on ...", "please don't ever ..."), whatever it is about;
- a preference ("I prefer ...", "I'd rather ...", "I like it when you ...") about answers, or one that is said to hold
  in general.

What users tell of themselves, of the past, or of the task at hand is none. English alone is understood. In 17,255
recorded runs, whose users hardly ever ask for a manner, it finds 12 different lines, and all are wishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hepm.experience.notes.lines import NOTES_CHARS, beside_topics, cleaned, conditional, covers, text_of, wanted
from hepm.experience.notes.topics import topics_of

_LONGEST: Final = 200  # characters; what is longer tells a story
_READ: Final = 20_000  # characters of one message

_CODE: Final = re.compile(r"```.*?(?:```|\Z)|^>.*$", re.DOTALL | re.MULTILINE)
_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_OPENING: Final = re.compile(
    r"^(?:(?:and|but|so|also|ok(?:ay)?|hi|hey|hello|thanks|thank you|great|well|actually|yes|no worries|oh|sorry|btw|"
    r"one more thing)\b[\s,.!:;-]*)+",
    re.IGNORECASE,
)
_STORY: Final = re.compile(
    r"^(?:(?:why|what|how|who|where|which|when|is|are|was|were|did|do|does|has|have|had)\b.*\?$"
    r"|you (?:always|never|don['’]t|didn['’]t|did|were|are|keep)\b|(?:he|she|they|we|it) )",
    re.IGNORECASE,
)
_STANDING: Final = re.compile(
    r"^(?:please[, ]+)?(?:(?:always(?! \w+ing\b)|(?:don['’]t|do not) ever|from now on)\b"
    r"|(?:every|each) time you\b|whenever you\b"
    r"|never (?!mind|had|heard|been|saw|seen|received|got|ordered|used|asked|knew|thought|again)"
    r"|(?:in (?:the )?future|going forward|next time|by default|as a rule),? "
    r"(?:please|you (?:should|can|must)|don['’]t|do not|use|keep|answer|reply|be|give|avoid|i['’]d like you|i want you)"
    r")",
    re.IGNORECASE,
)
_PREFERRING: Final = re.compile(
    r"\bi(?:['’]d| would)? (?:really |much |usually |generally |always |also |strongly )*(?:prefer|rather)\b"
    r"|\bmy preference is\b|\bi (?:really )?(?:like|love) (?:it when you|when you|your answers|answers that)\b"
    r"|\bi (?:really )?(?:don['’]t|do not) (?:like|want) (?:it when you|when you|your answers|you to)\b"
    r"|\bi hate (?:it )?when you\b",
    re.IGNORECASE,
)
_ABOUT_ANSWERS: Final = re.compile(
    r"\b(?:answers?|responses?|replies|reply|explanations?|explain|summar(?:y|ies)|wording|bullets?|steps?|"
    r"examples?|detailed|concise|brief|short|tone|format|formatting|language|emojis?|jargon|code first|"
    r"when you|you to|that you|usually|generally|in general|always)\b",
    re.IGNORECASE,
)


class Wish(NamedTuple):
    """A sentence that asks the agent to behave in some way.

    Attributes:
        line: In the user's own words.
        wants: The value of each topic it is about.
        firm: Whether it says one thing on one topic, without a condition, and nothing else.
    """

    line: str
    wants: Mapping[str, str]
    firm: bool


def wishes_in(said: Iterable[str]) -> Iterator[Wish]:
    """Wishes in what a user said, in order, each in words that the user said."""
    for message in said:
        for raw in _END.split(_CODE.sub("\n", message[:_READ])):
            sentence = _OPENING.sub("", cleaned(raw)).strip()
            if 3 < len(sentence) <= _LONGEST and _asks(sentence):
                yield wish_of(sentence)


def wish_of(line: str) -> Wish:
    """A line of notes as a wish."""
    wants = wanted(line)
    return Wish(line, wants, len(wants) == 1 and not beside_topics(line) and not conditional(line))


class Gathered(NamedTuple):
    """Notes with new wishes in them.

    Attributes:
        replaced: Lines in whose place a newer wish is.
        left_out: Wishes that found no room.
    """

    lines: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def gather(lines: Sequence[str], wishes: Iterable[Wish]) -> Gathered:
    """The lines with the wishes: none twice, and the newer one where two are certain to contradict each other.

    They are where each says one thing on the same topic, without a condition and nothing else. All others stay.
    """
    now = list(lines)
    replaced: list[str] = []
    left_out: list[str] = []
    for wish in wishes:
        old = [wish_of(line) for line in now]
        if any(_same(wish, one) for one in old):
            continue
        against = next((at for at, one in enumerate(old) if _opposed(wish, one)), None)
        after = [*now, wish.line] if against is None else [*now[:against], wish.line, *now[against + 1 :]]
        if len(text_of(after)) > NOTES_CHARS:
            left_out.append(wish.line)
            continue
        replaced += [] if against is None else [now[against]]
        now = after
    return Gathered(tuple(now), tuple(replaced), tuple(left_out))


def _asks(sentence: str) -> bool:
    if _STORY.search(sentence):
        return False
    if _STANDING.search(sentence) or any(topics_of(sentence)):
        return True
    return bool(_PREFERRING.search(sentence) and _ABOUT_ANSWERS.search(sentence))


def _same(new: Wish, old: Wish) -> bool:
    return covers(old.line, new.line) or (new.firm and old.firm and new.wants == old.wants)


def _opposed(new: Wish, old: Wish) -> bool:
    return new.firm and old.firm and new.wants.keys() == old.wants.keys() and new.wants != old.wants
