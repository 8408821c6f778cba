"""A collaborator without a model: it solves our own problems and keeps the preferences that it reads."""

from __future__ import annotations

import json
import re
from typing import Final

from hepm.agents.wire import Object
from hepm.evals.collaboration.problems import PROBLEMS, steps_of
from hepm.evals.collaboration.rules import PREFERENCES


def scripted(body: Object) -> Object:
    """A collaborator that solves each problem at once and keeps each preference that it reads, in its notes or since.

    It knows `PROBLEMS` by what they ask. Where it reads no preference it violates most of them: long prose with code,
    an emoji and an exclamation mark.
    """
    texts: list[str] = [message["content"] for message in body["messages"] if message["role"] != "assistant"]
    lines = [line for text in texts for line in re.split(r"\n|(?<=[.!?])\s", text)]
    wanted = {
        name
        for name, preference in PREFERENCES.items()
        if any(re.search(preference.asked, line, re.IGNORECASE) for line in lines)
    }
    problem = next(_BY_OPENING[steps_of(text)[0]] for text in texts[1:] if steps_of(text)[0] in _BY_OPENING)
    return {"choices": [{"message": {"role": "assistant", "content": _written(PROBLEMS[problem], wanted)}}]}


_BY_OPENING: Final = {steps_of(problem)[0]: problem for problem in PROBLEMS}


def _written(answer: str, wanted: set[str]) -> str:
    """A reply with an answer that keeps these preferences."""
    german = "German" in wanted
    answer = f"**{answer}**" if "bold" in wanted else answer
    said = f"Das Ergebnis ist {answer}." if german else f"The result is {answer}."
    mark = "1. " if "numbers" in wanted else "- " if "bullets" in wanted else ""
    parts = [f"{mark}{said}"]
    if not wanted & {"three sentences", "short"}:
        way = (
            "Das ist eine gute Frage. Wir ordnen zuerst, was bekannt ist. Dann ist zu sehen, was fehlt. "
            "Es bleibt nur ein Schritt, und der ist nicht schwer. Am Ende steht die Probe mit dem Wert, und sie stimmt."
            if german
            else "That is a good one to think about. We first put in order what is known, and what is not. Then it is "
            "easy to see which step is missing. It is a short one, and we take it with care. In the end we put the "
            "result back into the text to check it, and it fits."
        )
        parts.insert(0, way)
    if "headings" in wanted:
        parts.insert(0, "## Lösung" if german else "## Solution")
    if not wanted & {"no exclamation", "three sentences", "short"}:
        parts.append("Geschafft!" if german else "Done!")
    if not wanted & {"no emoji", "three sentences", "short"}:
        parts.append("🎉")
    if not wanted & {"no code", "question first"}:
        parts.append(f"```python\nresult = {json.dumps(answer)}\n```")
    if "summary" in wanted:
        parts.append(f"\n{'Kurz gesagt' if german else 'In short'}: {answer}.")
    if "closing question" in wanted:
        parts.append("Ist das klar?" if german else "Is that clear?")
    return "\n".join(parts)
