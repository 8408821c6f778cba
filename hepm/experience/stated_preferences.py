"""Standing requests in a user's messages, found without a model. English only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hepm.experience.notes import LANGUAGE, Retraction, cleaned


def _filled(text: str) -> str:
    """A pattern with its parts in place of their names: "<each> <part>"."""
    return re.sub(r"<([a-z]+)>", lambda name: _filled(_PARTS[name[1]]), text)


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile(_filled("|".join(parts)), re.IGNORECASE)


_CODE: Final = re.compile(r"```.*?(?:```|\Z)|^>.*$", re.DOTALL | re.MULTILINE)
SENTENCE_END: Final = re.compile(r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<=[.!?])\s+|\n+")
_PARTS: Final = {
    "language": LANGUAGE,
    "i": r"^(?:(?:as|like) )?i(?:'ve| have|'d| had)? (?:\w+ )?",
    "answer": r"(?:answer|response|reply|explanation|introduction|message|sentence)",
    "manner": r"(?:(?:your|long|short(?:er)?|brief|concise|fewer|one) (?:\w+ )?<answer>s?|(?:answers|responses|replies|"
    r"explanations|introductions|preambles?|pleasantries|small talk|filler|disclaimers?|jargon|slang|technical terms|"
    r"emojis?|emoticons?|exclamation marks?|bullets?|bullet[- ]?points?|bulleted lists?|headings|markdown|"
    r"in (?:a )?tables?|walls? of text|"
    r"(?:\d+|one|two|three|four|five|few|short) (?:sentences?|words|lines?|paragraphs?)(?! (?:about|of|on))|"
    r"(?:in|to) <language>|step[- ]by[- ]step|\w+ (?:steps?|things?|questions?|options?) at a time|numbered steps|"
    r"metric|imperial|celsius|fahrenheit|(?:12|24)-hour (?:time|clock|format)|"
    r"(?:plain|simpler?|easy|everyday|shorter) (?:english|words|language|text|sentences|paragraphs)|"
    r"(?:friendly|warm|neutral|polite|professional|serious|playful|casual|formal|relaxed) tone|"
    r"(?:lower|upper)[- ]?case|tl;?dr|(?:give|with|include|use) (?:\w+ )?examples|the code first|just the code|"
    r"code only|wordy|verbose|(?:in)?formally|(?:more |less )(?:in)?formal|"
    r"all (?:times|dates|prices|amounts|code) (?:\w+ )?in))(?!\w)",
    # Tasks have tables, codes and questions, too: particular ones ("the code of order 7", "a table near the window"). A
    # wish names none in particular and ends there (stop), or it names parts of answers.
    "count": r"(?:\d+|an?|one|two|three|four|five|six|ten|few)",
    "kind": r"(?:(?!(?:the|my|this|that|these|those|his|her|our|their|its|first|second|last|another)\b)[\w-]+ ){0,2}",
    "style": (
        "(?:lists?|bullet[- ]?points?|bullets|headings?|titles?|tables?|code(?:[- ](?:block|snippet)s?)?|markdown|"
        "latex|emojis?|smileys|exclamation[- ]marks?|summar(?:y|ies)|recaps?|takeaways?|tl;?dr|outlines?|overviews?|"
        "introductions?|preambles?|greetings?|disclaimers?|caveats?|apologies|jargon|slang|abbreviations?|acronyms?|"
        "examples?|analog(?:y|ies)|metaphors?|formulas?|equations?|links[- ]to[- ](?:your[- ])?sources|citations?|"
        "footnotes?|paragraphs?|small[- ]talk|filler|pleasantries|jokes)"
    ),
    "shape": "<kind><style>",
    "content": "<kind>(?:<style>|(?:questions?|answers?|results?|conclusions?|(?:next[- ])?steps?|text|words))",
    "part": "(?:(?:final|important|key|main|single|long) )?"
    "(?:answers?|repl(?:y|ies)|responses?|messages?|explanations?|steps?|parts?|sections?|paragraphs?|sentences?|"
    "points?|ideas?|concepts?|terms?|words?|results?|solutions?|formulas?)",
    "each": "(?:the|your|each|every|all|any)",
    "place": r"(?:at the (?:very )?(?:end|top|start|beginning|bottom)|up front|first|last|"
    r"before you (?:start|begin|answer|reply|write)|"
    r"(?:above|before|after|below|under|to|in|with|for|per|of) (?!the)<each> <part>)\b",
    "stop": "(?=[, ]*(?:please|at all|any ?more|again|instead|<place>.*|for [a-z]+s|(?:and|or) <shape>|"
    r"(?:when|if|unless|until|before|just|only|but|to (?:compare|show|explain)) .*)?[, ]*(?:please)?[.!]*$)",
    "size": r"<count> (?:\w+ )?(?:words?|sentences?|paragraphs?|lines?)",
    "type": "(?:bold|italics?|(?:lower|upper)[- ]?case|capitals|caps|capital[- ]letters|code[- ]blocks?|plain[- ]text)",
    "tone": (
        "(?:robotic|friendl(?:y|ier)|warm(?:er|ly)?|kind(?:er|ly)?|(?:in)?formal(?:ly)?|casual(?:ly)?|polite(?:r|ly)?|"
        "neutral|playful|professional(?:ly)?|serious|funny|patient|encouraging|precise|clear(?:er|ly)?|simply|"
        "technical|enthusiastic)"
    ),
    "spared": (
        "(?:introduction|preamble|greeting|tone|small[- ]talk|filler|pleasantrie|disclaimer|caveat|apologie|jargon|"
        "emoji|exclamation[- ]mark)"
    ),
}
_OPENING: Final = _pattern(
    r"^(?:(?:and|but|so|also|ok(?:ay)?|hi|hey|hello|thanks|thank you|great|well|actually|yes|no worries|oh|sorry|btw|"
    r"one more thing)\b[\s,.!:;-]*)+"
)
_REMINDER: Final = _pattern(  # what introduces a wish voiced before: "I asked before: ...", "Again: ..."
    r"<i>(?:asked|said|told you|wrote|wanted|mentioned)\b[^:,.;]{0,30}[:,;–—-] *",
    r"<i>(?:(?:told|asked|wanted) you (?:to |(?=not to ))|said (?!(?:no|yes) to\b))",
    r"^(?:again|once (?:more|again)|(?:a )?reminder|(?:please )?(?:remember|note)|not (?:like )?(?:this|that))"
    r" ?[:,;–—-] *",
    r"^(?:(?:that|this)(?: is|'s)? ?(?:not|n't|isn't)|you(?:'ve| have)? (?:again |still )?"
    r"(?:forgot\w*|didn't|did not|ignored?|keep)|how (?:often|many times)|for the \w+ time)\b[^:]{0,60}: *",
)
_REQUEST: Final = _pattern(  # what introduces a request: "could you please ...", "I'd like you to ..."
    r"^(?:(?:please|kindly|just|also|maybe|(?:can|could|would|will) (?:you|we)|make sure (?:you|to|that you)|"
    r"be sure to|try to|you (?:should|must|need to|have to|can)|i(?:'d| would)? (?:like|want|need) you to|let's)[, ]+)+"
)
_CASE: Final = _pattern(r"^(?:for|in|on|with|if|when(?:ever)?) [^,]{2,60}, (?:please )?")
_FORM: Final = _pattern(  # how answers are to look: "number the steps", "no lists", "put the answer in bold"
    "^(?:number|bold|highlight|underline|italici[sz]e|emphasi[sz]e|label) <each> <part><stop>",
    "^(?:structure|organi[sz]e|format|split|break up|divide|separate) <each> <part> (?:with|by|in|into|using) "
    r"(?:<content>|(?:\w+ )?<part>)<stop>",
    r"^(?:put|write|set|show|mark|print|make|format|keep)(?: <each> <part>| \w+s)?(?: stand out)?"
    "(?: in)? <type><stop>",
    "^(?:no|less|fewer|leave out|avoid|skip|omit) (?:any |(?:so|too) many |more |an? )?<shape><stop>",
    "^(?:use )?(?:less|fewer) (?:text|words)<stop>|^leave <shape> out<stop>",
    "^(?:(?:don't|do not|not to|never) (?:use|show|give|write|add|include|put|answer|reply|start|begin|end)|"
    "(?:stop|avoid|quit) (?:us|show|giv|writ|add|includ)ing)(?: me)?(?: with| in)? "
    "(?:any |(?:so|too) many |more |an? )?<content><stop>",
    "^(?:don't|do not|never|stop) (?:number|list|bold|underline|suggest|offer|add|explain)(?:ing)? "
    "(?:anything|things|the basics|<each> <part>)<stop>|"
    r"^(?:don't|do not) (?:suggest|offer|explain|add) anything\b",
    r"^(?:skip|drop|cut|omit|leave out|spare me|go easy on) (?:the|your|all) (?:\w+ )?<spared>s?<stop>",
    "^(?:start|begin|open|lead|end|finish|close|conclude|wrap up)(?: <each> <part>)? with (?:an? |the |your )?"
    "<content><stop>",
    "^(?:use|add|include|prefer) (?:only |more |some |an? )?<shape><stop>",
    "^(?:put|place|add|insert|include|give|set|write|show|provide|suggest|offer|say|state)(?: me)? "
    r"(?:an? |the |your |one )?(?:<content>|(?:\w+ )*thing|confidence) <place>",
    "^give <each> <part> an? <shape><stop>|^keep (?:<each> )?<part> (?:short|brief|simple)<stop>",
    r"^(?=.*\b(?:just|only)\b)(?:only |just )?(?:(?:give|tell|show|write|send) )?(?:me )?(?:only |just )?"
    "the (?:final |short )?(?:answer|result|solution|facts)<stop>",
    r"^(?:(?:only|just|max(?:imum)?|at most|up to|under|below|(?:fewer|less) than|(?:no|never) more than|in) )+"
    "<size><stop>|^<size> (?:(?:is|are) (?:enough|plenty)|at most)<stop>",
    "^(?:only )?<count> (?:steps?|things?|questions?|options?|ideas?) (?:at a time|per <part>)<stop>",
    r"^show (?:me )?(?:your|all|every|each)(?: \w+)? (?:work|working|steps?|reasoning|calculations?)\b",
    r"^cite (?:your |all )?sources|^(?:state|give|list|mention|tell me|say) "
    r"(?:your (?:assumptions|sources|reasoning)|how (?:sure|confident|certain) you are)\b",
    "^(?:define|spell out|explain) (?:(?:all|any|every|technical|new) )*"
    "(?:terms|abbreviations|acronyms|numbers|symbols)<stop>",
    r"^explain\b.*\b(?:(?:like|as if) i(?:'m| am| were)|(?:with|using|by) (?:an? )?(?:analog|example|metaphor))",
    r"^(?:(?:don't|do not) )?(?:be|sound|talk|speak|write|act)(?: (?:to|with) me)?(?: (?:less|more|so|too|a bit))* "
    "<tone><stop>",
    r"^ask (?:me )?(?:an? |one |some |your )?(?:\w+ )?questions? (?:first|before)\b|^ask (?:first|before you)\b",
    "^your <part> (?:should|must|need|have to|could)(?: always| never| not)?(?: have| contain| use)? "
    "(?:an? )?<shape><stop>",
    "^(?:<language>|headings|bullets|bullet[- ]points|numbered (?:steps|lists)),? please[.!]*$",
    r"^(?:answer|reply|respond|write|explain)\b.* without (?:any )?<shape><stop>",
)
_STANDING: Final = _pattern(
    r"^always (?!\w+ing\b|had|been|was|loved|liked|wanted|thought|felt)|^(?:every|each) time you\b|^whenever you\b",
    r"^(?:don't|do not) ever\b|^from now on\b|\bfrom (?:here|now) on[.!]*$|\byou (?:should|must) (?:always|never)\b",
    r"^never (?!mind|had|heard|been|saw|seen|received|got|ordered|used|asked|knew|thought|again)",
    r"^(?:in (?:the )?future|next time|going forward|by default|as a (?:general )?rule)\b"
    r"(?! ?,? ?(?:this|it|that|there|they|we|i|will|is|might|could)\b)",
    r"^(?:write|show|give|format) (?:all |your )?(?:dates|times|numbers|prices|amounts) (?:as|like|in) ",
    r"^i (?:always|usually|generally|normally|never) (?:want|like|prefer|need|expect)\b",
)
_ASKED: Final = _pattern(
    r"^(?:don't|do not|stop|avoid|quit)\b.*\b(?:any(?:one|body)|any\w* (?:on|at|after|before|without)|at night|"
    r"weekends?|(?:mon|tues|wednes|thurs|fri|satur|sun)days|holidays|(?:before|after) \d+|unless|assum\w+|repeat\w*|"
    r"without (?:asking|my|telling|checking)|so (?:many|much)|every time|for (?:small|confirmation|permission)|"
    r"apologi\w+|guess\w*)\b|^(?:stop|avoid|quit) (?:us|add|say|explain|suggest|ask)ing\b",
    r"^(?:use|keep|be|answer|reply|respond|write|speak|talk|explain|communicate|switch|format|limit|make|skip|avoid|no|"
    r"drop|stick|get|go|walk|guide|take|give|show|do|don't|do not|stop|less|more|fewer|without|address|put)\b"
    r"(?!,).*\b<manner>|^(?:shorter|briefer)\b",
    r"^(?:be|keep (?:it|this|things)|make (?:it|them)) (?:\w+ ){0,2}(?:short|brief|concise|succinct|terse|polite|"
    r"friendly|formal|informal|casual|blunt|direct|detailed|thorough|to the point)(?:er)?\b(?!,)",
    r"^(?:only )?(?:in|no more than|at most) (?:\w+ ){0,3}"
    "(?:<language>|sentences?|bullet points|words|at a time)[, ]*(?:please)?[.!]*$",
    r"^(?:use|show|give|keep|write)\b.*\bin (?:all|every|euros|dollars|pounds|utc)\b|"
    r"^(?:don't |do not |stop )?call(?:ing)? me (?-i:[A-Z])",
    r"^(?:start|begin|end|finish)\b.*\bwith\b.*\b(?:summary|answer|result|code|next steps?|tl;?dr)\b",
    r"\b(?:ask|check with|confirm with) me (?:first|before)\b|\b(?:every|each|any|all)\b.*\bwith me\b",
    r"^(?:let me know|tell me|warn me)\b.*\bbefore you\b|^check\b.*\bbefore you (?:answer|reply|respond|act)\b",
    r"^only (?:contact|call|text|email|message) (?:me|us)\b|^remember (?:that i|my|to|i)\b",
    r"^when(?:ever)? i (?:ask|say|want|request|mention|send)\b[^,]*, (?!i|it|the|there|you)\b",
    r"^your (?:\w+ )?<answer>s? (?:is|are|was|were) (?:\w+ )?(?:too|so) ",
)
_PREFERRING: Final = _pattern(
    r"\b(?:i(?:'d| would)? (?:really |much |also |usually |generally |strongly )*(?:prefer|rather|like|love|hate|want|"
    r"dislike|can't stand|(?:don't|do not) (?:like|want|need)|appreciate (?=it if|step))|i'm not a fan of|"
    r"(?:great|nice|good) if you)\b.*\b(?:<manner>|when you|generally|in general|always)(?!\w)",
    "^i(?:'d| would)? (?:like|want|prefer) (?:an? |to see )?<shape> <place>|"
    "^i (?:like|prefer|hate|dislike) <shape>[.!]*$",
    r"\bi(?:'d| would) (?:rather|prefer) (?:that )?you (?!help|handle|did|just|give)|\bi usually prefer\b|"
    r"\bmy preference is\b.*\bover\b|\bi (?:don't|do not) (?:want you to\b|(?:want|need)\b.*every time)",
)
_TASK: Final = _pattern(  # what concerns the present task
    r"\b(?:my|the|this|that|these|those) (?:\w+ )?(?:orders?|reservations?|bookings?|flights?|tickets?|items?|"
    r"packages?|parcels?|accounts?|cards?|payments?|refunds?|trips?|hotels?|subscriptions?|files?|meetings?)\b",
    r"\w*\d{4,}|\b(?:yet|else(?= ?[.!—])|right now|today)\b|\w\.(?:txt|docx?|pdf|csv|py)\b",
    r"^(?:write|send|draft|create|post|compose) (?:an?|the|another) (?!(?:final|important|key|main) )",
)
_STORY: Final = _pattern(
    r"^(?:why|what|how|who|where|which|when|is|are|was|were|did|do|does|has|have|had|don't you)\b.*\?$",
    r"^(?:you (?:always|never|don't|didn't|did|were|are|keep)\b|(?:he|she|they|we|it) )",
    r"\b(?:told|asked) (?:me|us) to\b",
)


# Takes back a wish that the rest of the sentence names, unless that is about a task ("I no longer want to cancel my
# order").
_TAKES_BACK: Final = re.compile(
    r"\b(?:no longer|needn't)\b(?: (?:need to|needed|necessary|required|wanted)\b)?|\b(?:any ?more|any longer|again)\b|"
    r"\b(?:don't|do not) (?=.*\b(?:any ?more|any longer)\b)|^(?:there's |there is )?no (?:more )?(?:need|reason)\b|"
    r"^(?:please )?(?:forget|ignore|disregard|never ?mind|(?:i )?take back)(?! that\b| it\b)"
    r"(?: what i (?:said|asked|wrote|told you|wanted))?(?: about| regarding)?",
    re.IGNORECASE,
)


def statements_in(messages: Iterable[str]) -> Iterator[str | Retraction]:
    """Standing requests in a user's messages, in order and in the user's words, and what the user takes back.

    A sentence is one if it orders or forbids something in general ("always ...", "don't page anyone at night"), asks
    for a form or manner ("number the steps", "in three sentences"), asks to be asked first, or states a preference
    about the agent; without "I asked before:". Sentences about the present task, the past or other people are none.
    """
    for message in messages:
        for raw in SENTENCE_END.split(_CODE.sub("\n", message[:20_000])):
            sentence = _OPENING.sub("", cleaned(raw)).strip()
            reminder = _REMINDER.match(sentence.replace("’", "'"))
            if reminder is not None:
                # Only the wish itself: "I asked before: number the steps" gives "number the steps".
                sentence = sentence[reminder.end() :]
            plain = sentence.replace("’", "'")
            if not 3 < len(sentence) <= 200:  # longer ones are stories
                continue
            rest, times = _TAKES_BACK.subn(" ", plain)
            if times and not _TASK.search(plain):
                yield Retraction(rest)
                continue
            if _STORY.search(plain):
                continue
            order = _REQUEST.sub("", plain)
            if order != plain:  # "Could you always ...?" is no question
                order = order.rstrip("?")
            if _is_standing(plain, order):
                yield sentence


def _is_standing(sentence: str, order: str) -> bool:
    """Whether a sentence is about all answers; `order` is what it asks for, without "could you please"."""
    if _STANDING.search(order) or _STANDING.search(sentence):
        return True
    if _TASK.search(order):
        return False
    if _PREFERRING.search(sentence):
        return True
    return any(_ASKED.search(text) or _FORM.search(text) for text in (order, _CASE.sub("", order)))
