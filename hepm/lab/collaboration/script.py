"""A collaborator without a model: it solves our own problems and keeps the preferences that it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hepm.agents.wire import Object
from hepm.lab.bench.models import completion
from hepm.lab.collaboration.problems import PROBLEMS, steps_of
from hepm.lab.collaboration.rules import PREFERENCES


def scripted(body: Object) -> Object:
    """A collaborator that solves each problem at once and keeps each preference that it reads, in its notes or since.

    It knows `PROBLEMS` by what they ask. Where it reads no preference it violates most of them: long prose with code,
    an emoji and an exclamation mark.
    """
    texts: list[str] = [message["content"] for message in body["messages"] if message["role"] != "assistant"]
    wanted = _preferences_in("\n".join(texts))
    problem = _problem_in(texts[1:])  # the first text is the system prompt
    return completion(_reply(PROBLEMS[problem], wanted))


# What a user asks first, to the whole problem.
_BY_OPENING: Final = {steps_of(problem)[0]: problem for problem in PROBLEMS}


def _preferences_in(text: str) -> set[str]:
    """The preferences that a line or a sentence asks for."""
    # By sentences: a wish and its "not" stand in one.
    lines = re.split(r"\n|(?<=[.!?])\s", text)
    wanted: set[str] = set()
    for name, preference in PREFERENCES.items():
        if any(re.search(preference.asked, line, re.IGNORECASE) for line in lines):
            wanted.add(name)
    return wanted


def _problem_in(texts: Sequence[str]) -> str:
    """The first problem that a text opens."""
    for text in texts:
        opening = steps_of(text)[0]
        if opening in _BY_OPENING:
            return _BY_OPENING[opening]
    raise ValueError("no text opens a known problem")


@dataclass(frozen=True, slots=True)
class _Phrases:
    """What a reply is made of, in one language."""

    result: str
    way: str
    heading: str
    done: str
    summary: str
    question: str


_GERMAN: Final = _Phrases(
    result="Das Ergebnis ist {answer}.",
    way="Das ist eine gute Frage. Wir ordnen zuerst, was bekannt ist. Dann ist zu sehen, was fehlt. "
    "Es bleibt nur ein Schritt, und der ist nicht schwer. Am Ende steht die Probe mit dem Wert, und sie stimmt.",
    heading="## Lösung",
    done="Geschafft!",
    summary="Kurz gesagt",
    question="Ist das klar?",
)
_ENGLISH: Final = _Phrases(
    result="The result is {answer}.",
    way="That is a good one to think about. We first put in order what is known, and what is not. Then it is "
    "easy to see which step is missing. It is a short one, and we take it with care. In the end we put the "
    "result back into the text to check it, and it fits.",
    heading="## Solution",
    done="Done!",
    summary="In short",
    question="Is that clear?",
)


def _reply(answer: str, wanted: set[str]) -> str:
    """A reply with an answer that keeps these preferences."""
    phrases = _GERMAN if "German" in wanted else _ENGLISH
    if "bold" in wanted:
        answer = f"**{answer}**"
    mark = ""
    if "numbers" in wanted:
        mark = "1. "
    elif "bullets" in wanted:
        mark = "- "
    parts: list[str] = []
    if "headings" in wanted:
        parts.append(phrases.heading)
    if not wanted & {"three sentences", "short"}:
        parts.append(phrases.way)
    parts.append(mark + phrases.result.format(answer=answer))
    if not wanted & {"no exclamation", "three sentences", "short"}:
        parts.append(phrases.done)
    if not wanted & {"no emoji", "three sentences", "short"}:
        parts.append("🎉")
    if not wanted & {"no code", "question first"}:
        parts.append(f"```python\nresult = {json.dumps(answer)}\n```")
    if "summary" in wanted:
        parts.append(f"\n{phrases.summary}: {answer}.")
    if "closing question" in wanted:
        parts.append(phrases.question)
    return "\n".join(parts)
