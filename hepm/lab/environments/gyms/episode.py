"""What the gyms share: actions as tools or as tagged lines, and the end of a conversation (PRIME, appendix C)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from hepm.lab.environments import Schema, ToolFailed, tool_schema
from hepm.lab.environments.gyms.topics import Topic, by_words

_DATA: Final = Path(__file__).parents[1] / "data"
_ABOUT: Final = {
    "action": "Say something to the user: a question, or an argument",
    "search": "Look something up",
    "answer": "Give your answer; only the first counts, and it ends the conversation",
    "finish": "End the conversation, with what you recommend or found out",
}
_ENDING: Final = ("answer", "finish")
_SENTENCE: Final = re.compile(r"[^.:?!]+[.:?!]*")
# "[action] Is it alive?"
_LINE: Final = re.compile(r"\s*\[(\w+)\]\s*(.*)", re.DOTALL)


@cache
def records(gym: str) -> list[dict[str, Any]]:
    """The tasks of a gym, a line of its file each.

    `kind` is the family, and `right` has the actions that win it: [[tool, arguments], ...].
    """
    return [json.loads(line) for line in (_DATA / f"{gym}.jsonl").read_text("utf-8").splitlines()]


@cache
def words() -> Mapping[str, Mapping[str, Any]]:
    """The words by which a question is heard, as patterns, by topic."""
    return json.loads((_DATA / "words.json").read_text("utf-8"))


def action_tool(name: str, about: str = "", fields: Sequence[str] = ("text",)) -> Schema:
    """An action as endpoints take it: each field is a text."""
    return tool_schema(name, about or _ABOUT[name], {field: {"type": "string"} for field in fields})


class GymEpisode:
    """A run of a task. The method `do_NAME` replies to the action NAME; an answer and a finish end the run.

    An agent calls actions as tools. It may also write them, as the paper does: "[action] Is it alive?".

    Attributes:
        system: The rules for the agent.
        argument, form: Of what type the fields of an action are, and that in words.
        topics: What a message to the user can be about.
        score: The reward of the run as it is now, in [0, 1].
    """

    system: str
    tools: Sequence[Schema]
    argument: type = str
    form = "as texts"

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.topics: list[Topic] = []
        self.score = 0.0
        self.over = False
        self._reminded = False

    def heard(self, text: str) -> list[int]:
        """Positions of the topics that a message is about."""
        return by_words(self.own_words(text), self.topics)

    def own_words(self, text: str) -> str:
        """A text without the sentences of the rules and of the request: who echoes them says nothing."""
        for sentence in _SENTENCE.findall(f"{self.system} {self.record['request']}"):
            text = re.sub(re.escape(sentence.strip()), " ", text, flags=re.IGNORECASE)
        return text

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The user's reply, or what was found; ToolFailed for another action, other fields, or after the end."""
        fields_of = {spec["function"]["name"]: spec["function"]["parameters"]["required"] for spec in self.tools}
        if tool not in fields_of:
            raise ToolFailed(f"no action is called {tool}; there are {', '.join(fields_of)}")
        fields = fields_of[tool]
        # `type`, not isinstance: True is an int for Python, and no integer for an agent.
        if set(arguments) != set(fields) or any(type(value) is not self.argument for value in arguments.values()):
            raise ToolFailed(f"{tool} takes {', '.join(fields) or 'no arguments'}, {self.form}")
        if self.over:
            raise ToolFailed("the conversation is over")
        reply = getattr(self, f"do_{tool}")(*[arguments[field] for field in fields])
        # Only the first answer counts.
        self.over = tool in _ENDING
        return reply

    def do_finish(self, text: str) -> str:
        """End the conversation."""
        del text
        return "Goodbye."

    def answer(self, text: str) -> str | None:
        """The reply to a written action; one reminder of the form; None at the end, and to a second other text."""
        names = [spec["function"]["name"] for spec in self.tools]
        line = _LINE.fullmatch(text)
        if line and line[1].lower() in names and not self.over:
            try:
                reply = self.call(line[1].lower(), {"text": line[2].strip()})
            except ToolFailed as error:
                reply = f"Not possible: {error}."
            if self.over:
                return None
            return reply
        # One reminder a run: an agent that talks on would never end.
        if self.over or self._reminded or not text.strip():
            return None
        self._reminded = True
        return f"Take one of the actions {', '.join(f'[{name}]' for name in names)}."

    def reward(self) -> float:
        """Of the run as it is now, in [0, 1]."""
        return self.score

    def scores(self) -> Mapping[str, float]:
        """Nothing besides the reward."""
        return {}

    def close(self) -> None:
        """Nothing is held."""
