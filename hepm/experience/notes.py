"""The lines of a user's notes: cleaned, bounded and compared by their words; and wishes in messages without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

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
_NO_WISH: Final = """
a about also always am an and answer answers any are as at be been but by can could do does explanation explanations for
from future get give had has have i i'd i'm in is it it's its just keep let like make me message messages more my next
now of on or please prefer preferred prefers reply replies respond response responses should so some than thanks that
that's the their them they this to up use user users very want wants was were will with would you your
"""
_EMPTY: Final = frozenset(_NO_WISH.split())
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
"""Topics on which a user has one wish: topic, value ("" for the words themselves), pattern."""


def lines_of(text: str) -> list[str]:
    """The lines of notes, without bullets, control characters and repeats, each cut to 300 characters."""
    found: dict[str, str] = {}
    for raw in text.splitlines():
        if line := cleaned(_BULLET.sub("", raw)):
            found.setdefault(line.casefold(), line)
    return list(found.values())


def text_of(lines: Iterable[str]) -> str:
    """Notes of these lines."""
    return "\n".join(f"- {line}" for line in lines)


def cleaned(text: str) -> str:
    """A text as one line: no control characters, no repeated spaces, at most 300 characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * LINE_CHARS]).split())
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1].rstrip() + "…"


def key_words(text: str) -> frozenset[str]:
    """The words of a line that carry its wish, without negations, roughly without endings."""
    words = (word.replace("’", "'") for word in _WORD.findall(text.casefold()))
    return frozenset(_stem(word) for word in words if word not in _EMPTY and not _NEGATION.search(word))


def _stem(word: str) -> str:
    word = word.removesuffix("'s")
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word.removesuffix(ending)
            word = word[:-1] if word[-1] == word[-2] else word
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def topics_of(line: str) -> dict[str, str]:
    """The values of a line by topic; under "" its other words. {} if it has no topic."""
    rest, found = line.casefold().replace("’", "'"), dict[str, str]()
    for topic, value, pattern in _TOPICS:
        if topic not in found and (match := pattern.search(rest)):
            rest = rest.replace(match[0], " ")
            found[topic] = ("not " if _negated(rest) else "") + (value or match[0].split()[-1])
    return found | {"": " ".join(key_words(rest) - SMALL)} if found else found


def covers(line: str, old: str) -> bool:
    """Whether a line says all that an old one says, and neither reverses nor narrows it.

    It has the same values of the same topics and the old line says nothing else, or it holds most of the old line's
    words; if these are one or two, they are half of its own.
    """
    if line.casefold() == old.casefold():
        return True
    if not _same_sense(line, old):
        return False
    topics = topics_of(old)
    if topics and not topics.pop("") and topics.items() <= topics_of(line).items():
        return True
    words, own = key_words(old), key_words(line)
    shared = len(words & own)
    return bool(words) and shared >= _COVERED * len(words) and (len(words) > 2 or 2 * shared >= len(own))


def _same_sense(line: str, old: str) -> bool:
    """Whether both are negated or neither, and the line holds wherever the old one does."""
    return _negated(line) == _negated(old) and bool(_CONDITION.search(old) or not _CONDITION.search(line))


def _negated(text: str) -> bool:
    return any(_NEGATION.search(word) for word in _WORD.findall(text.casefold()))


def lost(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Old lines that neither one new line says, nor two together that say little else."""

    def split(line: str) -> bool:
        words = key_words(line)
        parts = [(key_words(one) & words, key_words(one)) for one in new if _same_sense(one, line)]
        shares = [shared for shared, own in parts if shared and shared != words and 2 * len(shared) >= len(own)]
        return any(one | other == words for one, other in combinations(shares, 2))

    return [line for line in old if not any(covers(one, line) for one in new) and not split(line)]


def gather(lines: Sequence[str], wishes: Iterable[str]) -> list[str]:
    """Add wishes to the lines: none twice, none beyond the room; a wish replaces lines that it covers or contradicts.

    Two lines contradict each other if both are about the same topic alone, without a condition.
    """
    now = list(lines)
    for wish in wishes:
        topic = _only_topic(wish)
        topics = {line: _only_topic(line) for line in now}
        if any(covers(line, wish) for line in now) or (topic and topic in topics.values()):
            continue
        old = [
            line for line, other in topics.items() if covers(wish, line) or (topic and other and other[0] == topic[0])
        ]
        after = [*(line for line in now if line not in old), wish]
        now = after if len(text_of(after)) <= NOTES_CHARS else now
    return now


def _only_topic(line: str) -> tuple[str, str] | None:
    """The topic and value of a line about one topic alone, without a condition; None for any other line."""
    topics = topics_of(line)
    return None if len(topics) != 2 or topics.pop("") or _CONDITION.search(line) else topics.popitem()


# Standing requests in a user's messages, without a model

_LONGEST: Final = 200  # characters of a sentence; longer ones are stories
_READ: Final = 20_000  # characters of one message


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_CODE: Final = re.compile(r"```.*?(?:```|\Z)|^>.*$", re.DOTALL | re.MULTILINE)
_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_OPENING: Final = _pattern(
    r"^(?:(?:and|but|so|also|ok(?:ay)?|hi|hey|hello|thanks|thank you|great|well|actually|yes|no worries|oh|sorry|btw|"
    r"one more thing)\b[\s,.!:;-]*)+"
)
_REQUEST: Final = _pattern(  # what introduces a request: "could you please ...", "I'd like you to ..."
    r"^(?:(?:please|kindly|just|also|maybe|(?:can|could|would|will) (?:you|we)|make sure (?:you|to|that you)|"
    r"be sure to|try to|you (?:should|must|need to|have to|can)|i(?:'d| would)? (?:like|want|need) you to|let's)[, ]+)+"
)
_CASE: Final = _pattern(r"^(?:for|in|on|with|if|when(?:ever)?) [^,]{2,60}, (?:please )?")
_ANSWER: Final = r"(?:answer|response|reply|explanation|introduction|message|sentence)"
_MANNER: Final = (
    rf"(?:(?:your|long|short(?:er)?|brief|concise|fewer|one) (?:\w+ )?{_ANSWER}s?|(?:answers|responses|replies|"
    r"explanations|introductions|preambles?|pleasantries|small talk|filler|disclaimers?|jargon|slang|technical terms|"
    r"emojis?|emoticons?|exclamation marks?|bullets?|bullet[- ]?points?|bulleted lists?|headings|markdown|in a table|"
    r"tables|walls? of text|(?:\d+|one|two|three|four|five|few|short) (?:sentences?|words|lines|paragraphs?)|"
    rf"(?:in|to) {LANGUAGE}|step[- ]by[- ]step|\w+ (?:steps?|things?|questions?|options?) at a time|numbered steps|"
    r"metric|imperial|celsius|fahrenheit|(?:12|24)-hour (?:time|clock|format)|(?:plain|simple) (?:english|words|"
    r"language)|tl;?dr|(?:give|with|include|use) (?:\w+ )?examples|the code first|just the code|code only|wordy|"
    r"verbose|(?:in)?formally|(?:more |less )(?:in)?formal|all (?:times|dates|prices|amounts|code) (?:\w+ )?in))(?!\w)"
)
_STANDING: Final = _pattern(
    r"^always (?!\w+ing\b|had|been|was|loved|liked|wanted|thought|felt)|^(?:every|each) time you\b|^whenever you\b",
    r"^(?:don't|do not) ever\b|^from now on\b|\bfrom (?:here|now) on[.!]*$|\byou (?:should|must) (?:always|never)\b",
    r"^never (?!mind|had|heard|been|saw|seen|received|got|ordered|used|asked|knew|thought|again)",
    r"^(?:in (?:the )?future|next time|going forward|by default|as a (?:general )?rule)\b"
    r"(?! ?,? ?(?:this|it|that|there|they|we|i|will|is|might|could)\b)",
    r"^i (?:always|usually|generally|normally|never) (?:want|like|prefer|need|expect)\b",
)
_ASKED: Final = _pattern(
    r"^(?:don't|do not|stop|avoid|quit)\b.*\b(?:any(?:one|body)|any\w* (?:on|at|after|before|without)|at night|"
    r"weekends?|(?:mon|tues|wednes|thurs|fri|satur|sun)days|holidays|(?:before|after) \d+|unless|assum\w+|repeat\w*|"
    r"without (?:asking|my|telling|checking)|so (?:many|much)|every time|for (?:small|confirmation|permission)|"
    r"apologi\w+|guess\w*)\b|^(?:stop|avoid|quit) (?:us|add|say|explain|suggest|ask)ing\b",
    r"^(?:use|keep|be|answer|reply|respond|write|speak|talk|explain|communicate|switch|format|limit|make|skip|avoid|no|"
    r"drop|stick|get|go|walk|guide|take|give|show|do|don't|do not|stop|less|more|fewer|without|address|put)\b"
    rf"(?!,).*\b{_MANNER}|^(?:shorter|briefer)\b",
    r"^(?:be|keep (?:it|this|things)|make (?:it|them)) (?:\w+ ){0,2}(?:short|brief|concise|succinct|terse|polite|"
    r"friendly|formal|informal|casual|blunt|direct|detailed|thorough|to the point)(?:er)?\b(?!,)",
    r"^(?:only )?(?:in|no more than|at most) (?:\w+ ){0,3}"
    rf"(?:{LANGUAGE}|sentences?|bullet points|words|at a time)[, ]*(?:please)?[.!]*$",
    r"^(?:use|show|give|keep|write)\b.*\bin (?:all|every|euros|dollars|pounds|utc)\b|^call me (?-i:[A-Z])",
    r"^(?:start|begin|end|finish)\b.*\bwith\b.*\b(?:summary|answer|result|code|next steps?|tl;?dr)\b",
    r"\b(?:ask|check with|confirm with) me (?:first|before)\b|\b(?:every|each|any|all)\b.*\bwith me\b",
    r"^(?:let me know|tell me|warn me)\b.*\bbefore you\b|^check\b.*\bbefore you (?:answer|reply|respond|act)\b",
    r"^only (?:contact|call|text|email|message) (?:me|us)\b|^remember (?:that i|my|to|i)\b",
    r"^when(?:ever)? i (?:ask|say|want|request|mention|send)\b[^,]*, (?!i|it|the|there|you)\b",
    rf"^your (?:\w+ )?{_ANSWER}s? (?:is|are|was|were) (?:\w+ )?(?:too|so) ",
)
_PREFERRING: Final = _pattern(
    r"\b(?:i(?:'d| would)? (?:really |much |also |usually |generally |strongly )*(?:prefer|rather|like|love|hate|want|"
    r"dislike|can't stand|(?:don't|do not) (?:like|want|need)|appreciate (?=it if|step))|i'm not a fan of|"
    rf"(?:great|nice|good) if you)\b.*\b(?:{_MANNER}|when you|generally|in general|always)(?!\w)",
    r"\bi(?:'d| would) (?:rather|prefer) (?:that )?you (?!help|handle|did|just|give)|\bi usually prefer\b|"
    r"\bmy preference is\b.*\bover\b|\bi (?:don't|do not) (?:want you to\b|(?:want|need)\b.*every time)",
)
_TASK: Final = _pattern(  # what concerns the present task
    r"\b(?:my|the|this|that|these|those) (?:\w+ )?(?:orders?|reservations?|bookings?|flights?|tickets?|items?|"
    r"packages?|parcels?|accounts?|cards?|payments?|refunds?|trips?|hotels?|subscriptions?|files?|meetings?)\b",
    r"\w*\d{4,}|\b(?:yet|else(?= ?[.!—])|right now|today)\b|\w\.(?:txt|docx?|pdf|csv|py)\b",
    r"^(?:write|send|draft|create|post|compose) (?:an?|the|another) ",
)
_STORY: Final = _pattern(
    r"^(?:why|what|how|who|where|which|when|is|are|was|were|did|do|does|has|have|had|don't you)\b.*\?$",
    r"^(?:you (?:always|never|don't|didn't|did|were|are|keep)\b|(?:he|she|they|we|it) )",
    r"\b(?:told|asked) (?:me|us) to\b",
)


def wishes_in(messages: Iterable[str]) -> Iterator[str]:
    """Standing requests in a user's messages, in order and in the user's words; English only.

    A sentence is one if it orders or forbids something in general ("always ...", "don't page anyone at night"), asks
    for a manner ("in three sentences"), asks to be asked first, or states a preference about the agent. Sentences about
    the present task, the past or other people are not.
    """
    for message in messages:
        for raw in _END.split(_CODE.sub("\n", message[:_READ])):
            sentence = _OPENING.sub("", cleaned(raw)).strip()
            plain = sentence.replace("’", "'")
            if not 3 < len(sentence) <= _LONGEST or _STORY.search(plain):
                continue
            order = _REQUEST.sub("", plain)
            asked = (_ASKED.search(order), _ASKED.search(_CASE.sub("", order)), _PREFERRING.search(plain))
            if _STANDING.search(order) or _STANDING.search(plain) or (any(asked) and not _TASK.search(order)):
                yield sentence
