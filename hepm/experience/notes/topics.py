"""What users ask of an agent's manner, by topic: patterns that are meant to miss more than they take wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_LANGUAGE: Final = (
    "english|german|french|spanish|italian|portuguese|dutch|polish|russian|ukrainian|turkish|arabic|hebrew|hindi|"
    "chinese|mandarin|japanese|korean|swedish|norwegian|danish|finnish|greek|czech|hungarian|romanian|vietnamese|thai"
)
_NOUN: Final = r"(?:answers?|responses?|replies|reply|explanations?|messages?)"
_IT: Final = rf"(?:(?:your |the |all |these )?{_NOUN}|it|this|that|things|them)"
_PLEASE: Final = r"^(?:please[, ]+)?"
_ENDS: Final = r"(?:[, ]+please)?[.!]*$"
_NOT: Final = r"(?:don['’]t|do not|stop|no need to|quit)(?: keep)?(?: ever)?"
_NO: Final = rf"(?:no|without|avoid|skip|drop|fewer|less|{_NOT} (?:use|using|add|adding|include|including|give me))"
_YES: Final = (
    rf"(?:use|add|include|give me|(?:format|write) {_IT} (?:as|in|with)|answer (?:in|with)|^(?:please )?(?:in|as))"
)
_SMALL: Final = r"(?: (?:some|more|a|an|any|so many|that many|such|all|only|plain|short|the|of the|those))*"


class Topic(NamedTuple):
    """What wishes can be about.

    Attributes:
        values: How it is said, by what is wanted; of one topic a user wants one value. Under "" the pattern names it.
    """

    name: str
    values: Mapping[str, re.Pattern[str]]

    def find(self, text: str) -> tuple[str, str] | None:
        """The value that a text wants, and the words that say so; None where it is about something else."""
        for value, pattern in self.values.items():
            if found := pattern.search(text):
                named = next((group for group in found.groups() if group), "")
                return value or named.casefold(), found[0]
        return None


def topics_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Topics that a text is about: name, value, and the words that say so."""
    for topic in _TOPICS:
        if found := topic.find(text):
            yield topic.name, *found


def _topic(name: str, **values: str) -> Topic:
    return Topic(name, {value: re.compile(pattern, re.IGNORECASE) for value, pattern in values.items()})


def _named(name: str, pattern: str) -> Topic:
    """A topic whose value is what a group of the pattern holds."""
    return Topic(name, {"": re.compile(pattern, re.IGNORECASE)})


def _use(name: str, thing: str) -> Topic:
    return _topic(name, no=rf"\b{_NO}{_SMALL} {thing}\b", yes=rf"\b{_YES}{_SMALL} {thing}\b")


_TOPICS: Final = (
    _topic(
        "length",
        short=rf"\b(?:be|keep {_IT}|make {_IT})(?: \w+){{0,2}} (?:short(?:er)?|brief(?:er)?|concise|succinct|terse)\b"
        rf"|\b(?:short(?:er)?|brief(?:er)?|concise|one[- ](?:line|sentence)) (?!messages?\b){_NOUN}\b"
        rf"|{_PLEASE}(?:shorter|briefer|more (?:concise|brief)){_ENDS}"
        r"|\bless (?:verbose|wordy)\b|\b(?:too|so) (?:wordy|verbose)\b"
        rf"|\b{_NOUN} (?:is|are|was|were) (?:\w+ )?too long\b"
        r"|\b(?:get|come|stick) (?:straight |directly |right )?to the point\b"
        r"|\b(?:no (?:longer|more) than|at most) \w+ (?:sentences?|words|lines|paragraphs?)\b",
        long=rf"\bbe more (?:detailed|thorough|verbose|elaborate)\b|\b(?:longer|more (?:detailed|thorough)) {_NOUN}\b"
        rf"|\b{_NOUN} (?:is|are|was|were) (?:\w+ )?too (?:short|brief|terse)\b",
    ),
    _named(
        "language",
        r"\b(?:answer|reply|respond|speak|talk|communicate|continue|switch|write back|write to me)(?: \w+){0,3}? "
        rf"(?:in|to) ({_LANGUAGE})\b|{_PLEASE}(?:only )?in ({_LANGUAGE}){_ENDS}|\b{_NOUN} in ({_LANGUAGE})\b",
    ),
    _use("emojis", r"(?:emojis?|emoticons?|smileys?)"),
    _use("bullets", r"(?:bullet[- ]?points?|bullets|bulleted lists?|bullet[- ]point format)"),
    _use("headings", r"(?:headings|headers|section titles)"),
    _use("tables", r"tables?"),
    _use("markdown", r"markdown"),
    _use("jargon", r"(?:jargon|technical (?:terms|language))"),
    _use("preamble", r"(?:preambles?|pleasantries|small talk|filler|disclaimers?)"),
    _topic(
        "steps",
        yes=r"\b(?:explain|show|walk me|go|guide me|take me|give|tell|do|work)\b[^.;]{0,40}\bstep[- ]by[- ]step\b"
        rf"|\bone (?:step|thing|question) at a time\b|\bnumbered steps\b|{_PLEASE}step[- ]by[- ]step{_ENDS}",
    ),
    _topic(
        "tone",
        informal=r"\bbe (?:more |a bit more )?(?:informal|casual|friendly)\b|\bless formal\b"
        r"|\b(?:informal|casual|friendly) (?:tone|language)\b",
        formal=r"\bbe (?:more |a bit more )?formal\b|(?<!less )\bformal (?:tone|language)\b",
        blunt=r"\bbe (?:more |a bit more )?(?:blunt|direct)\b",
    ),
    _topic(
        "plain words",
        yes=r"\b(?:in|use|with) (?:simple|plain|simpler|layman['’]?s?) (?:words|language|terms|english)\b|\beli5\b",
    ),
    _topic("excuses", no=rf"\b{_NOT} (?:apologi[sz]ing|apologi[sz]e|saying sorry|say sorry)\b"),
    _topic(
        "questions back",
        no=rf"\b{_NOT} ask(?:ing)?(?: me)? (?:for (?:confirmation|permission)|so many questions|questions|again|"
        r"every time|twice|the same)\b",
        yes=r"\b(?:ask|check with|confirm with) me (?:first|before)\b|\bask first\b",
    ),
    _topic("repeating", no=rf"\b{_NOT} repeat(?:ing)?\b"),
    _topic(
        "explaining",
        no=rf"{_PLEASE}no explanations?{_ENDS}|\bskip the explanations?\b|\b{_NOT} explain(?:ing)?\b"
        r"|\b(?:just|only) (?:give|show) me the code\b|\bcode only\b",
    ),
    _topic(
        "units",
        metric=r"\b(?:use|in) (?:metric(?: units)?|celsius|kilomet(?:er|re)s)\b",
        imperial=r"\b(?:use|in) (?:imperial(?: units)?|fahrenheit|miles)\b",
    ),
    _named("name", rf"(?:{_PLEASE}|\bjust |\byou can )call me ((?-i:[A-Z])[\w'’-]+)|\baddress me as ([\w'’-]+)"),
    _topic("examples", yes=r"\balways (?:give|show|include|add|use)(?: \w+){0,3} examples?\b"),
    _topic(
        "endings",
        no=rf"\b{_NOT} suggest(?:ing)?\b|\bno (?:unsolicited )?suggestions\b",
        yes=r"\b(?:end|finish)(?: \w+){0,3} with\b[^.,;]{0,30}\b(?:next steps?|suggestions?|summary|tl;?dr)\b",
    ),
)
