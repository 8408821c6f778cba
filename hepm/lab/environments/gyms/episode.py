"""A run in a gym: actions as tools, a user who is a rule, and the end of a conversation.

The rules, actions and texts of each gym are in `data/gyms.json`, its tasks in `data/NAME.jsonl`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from hepm.lab.environments import Episode, Schema, ToolFailed, tool_schema
from hepm.types import Object

Record: TypeAlias = Mapping[str, Any]
"""A task, as in `records`."""
_DATA: Final = Path(__file__).parents[1] / "data"
_ENDING: Final = ("answer", "finish", "submit")
_SENTENCE: Final = re.compile(r"[^.:?!]+[.:?!]*")


@cache
def records(gym: str) -> list[Object]:
    """The tasks of a gym, a line of its file each.

    `kind` is the family, `says` what the user says to a topic, by its name in `words.json` or the words themselves, and
    `right` has the actions that win it: [[tool, arguments], ...].
    """
    return [json.loads(line) for line in (_DATA / f"{gym}.jsonl").read_text("utf-8").splitlines()]


@cache
def written(name: str) -> Mapping[str, Mapping[str, Any]]:
    """What is written for all gyms: "gyms", the rules; "words", patterns by topic."""
    return json.loads((_DATA / f"{name}.json").read_text("utf-8"))


def matched(words: str, text: str) -> bool:
    """Whether a text has one of these words, as a whole word or its beginning."""
    # From the beginning of a word: "alive" is found in "alive?", "live" is not found in "alive".
    return re.search(rf"\b(?:{words})", text, re.IGNORECASE) is not None


class GymEpisode(Episode):
    """A run of a task. The method `do_NAME` replies to the action NAME; an answer and a finish end the run.

    Attributes:
        topics: What a message to the user can be about: words as a pattern, and what the user says then.
        uncovered: Positions of the topics that came up.
        score: The reward of the run as it is now, in [0, 1].
    """

    def __init__(self, gym: str, record: Record) -> None:
        self.record = record
        self.rules = written("gyms")[gym]
        says: Mapping[str, str] = record.get("says", {})
        known = written("words").get(gym, {})
        # "No.", where the user answers by yes and no; elsewhere of other topics nothing.
        otherwise: str = self.rules.get("otherwise", "")
        names = known if otherwise else says
        self.topics = [(known.get(name, name), says.get(name, otherwise)) for name in names]
        self.uncovered: set[int] = set()
        self.score = 0.0
        self.over = False
        self._integers = self.rules.get("type") == "integer"

    @property
    def tools(self) -> Sequence[Schema]:
        """The actions as endpoints take them."""
        field = {"type": self.rules.get("type", "string")}
        actions = self.rules["actions"].items()
        return [tool_schema(name, about, dict.fromkeys(fields, field)) for name, (about, fields) in actions]

    def own_words(self, text: str) -> str:
        """A text without the sentences of the rules and of the request: who echoes them says nothing."""
        for sentence in _SENTENCE.findall(f"{self.rules['system']} {self.record['request']}"):
            text = re.sub(re.escape(sentence.strip()), " ", text, flags=re.IGNORECASE)
        return text

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The user's reply, or what was found; ToolFailed for another action, other fields, or after the end."""
        actions = self.rules["actions"]
        if tool not in actions:
            raise ToolFailed(f"no action is called {tool}; there are {', '.join(actions)}")
        fields: list[str] = actions[tool][1]
        kind = int if self._integers else str
        # `type`, not isinstance: True is an int for Python, and no integer for an agent.
        if set(arguments) != set(fields) or any(type(value) is not kind for value in arguments.values()):
            form = "all integers" if self._integers else "as texts"
            raise ToolFailed(f"{tool} takes {', '.join(fields) or 'no arguments'}, {form}")
        if self.over:
            raise ToolFailed("the conversation is over")
        reply = self.act(tool, [arguments[field] for field in fields])
        # Only the first answer counts.
        self.over = tool in _ENDING
        return reply

    def act(self, tool: str, fields: list[Any]) -> str:
        """What comes of an action."""
        return getattr(self, f"do_{tool}")(*fields)

    def do_action(self, text: str) -> str:
        """What the user says to a message about topics; nothing to one about more than the gym allows."""
        own = self.own_words(text)
        found = [position for position, (words, _) in enumerate(self.topics) if matched(words, own)]
        # Else a list of all that can be asked, in another order each turn, would uncover all.
        if len(found) > self.rules["at_once"]:
            return self.rules["too_many"]
        self.uncovered.update(found)
        return " ".join(self.topics[position][1] for position in found) or self.rules["unheard"]

    def do_finish(self, text: str) -> str:
        """End the conversation."""
        del text
        return "Goodbye."

    def answer(self, text: str) -> str | None:
        """None: a turn without a call ends the run."""
        del text

    def reward(self) -> float:
        """Of the run as it is now, in [0, 1]."""
        return self.score
