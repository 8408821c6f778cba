"""A collaborator without a model: it solves our own problems and keeps the preferences that it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from hepm.agents.wire import Object
from hepm.lab.bench.models import completion
from hepm.lab.collaboration import WRITTEN
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


def _reply(answer: str, wanted: set[str]) -> str:
    """A reply with an answer that keeps these preferences."""
    phrases = WRITTEN["phrases"]
    if "bold" in wanted:
        answer = f"**{answer}**"
    mark = ""
    if "numbers" in wanted:
        mark = "1. "
    elif "bullets" in wanted:
        mark = "- "
    parts: list[str] = []
    if "headings" in wanted:
        parts.append(phrases["heading"])
    if not wanted & {"three sentences", "short"}:
        parts.append(phrases["way"])
    parts.append(mark + phrases["result"].format(answer=answer))
    if not wanted & {"no exclamation", "three sentences", "short"}:
        parts.append(phrases["done"])
    if not wanted & {"no emoji", "three sentences", "short"}:
        parts.append("🎉")
    if "no code" not in wanted:
        parts.append(f"```python\nresult = {json.dumps(answer)}\n```")
    return "\n".join(parts)
