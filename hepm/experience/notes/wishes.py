"""Standing requests of a user, found without a model: sentences in the user's own words. English only.

A sentence is one where it orders or forbids something in general ("always ...", "don't page anyone at night"), asks for
a manner ("in three sentences"), asks to be asked first, or tells a preference about the agent. What concerns the task
at hand, the past or other people is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hepm.experience.notes.lines import LANGUAGE, cleaned

_LONGEST: Final = 200  # characters of a sentence; what is longer tells a story
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
_TASK: Final = _pattern(  # what concerns the task at hand
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


def wishes_in(said: Iterable[str]) -> Iterator[str]:
    """Standing requests in what a user said, in order, each in words that the user said."""
    for message in said:
        for raw in _END.split(_CODE.sub("\n", message[:_READ])):
            sentence = _OPENING.sub("", cleaned(raw)).strip()
            if 3 < len(sentence) <= _LONGEST and _is_wish(sentence.replace("’", "'")):
                yield sentence


def _is_wish(sentence: str) -> bool:
    if _STORY.search(sentence):
        return False
    order = _REQUEST.sub("", sentence)
    if _STANDING.search(order) or _STANDING.search(sentence):
        return True
    if _TASK.search(order):
        return False
    return bool(_ASKED.search(order) or _ASKED.search(_CASE.sub("", order)) or _PREFERRING.search(sentence))
