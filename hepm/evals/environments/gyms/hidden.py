"""Gyms in which the agent uncovers what a user knows or wants: telepathy, turtle, intention and travel (PRIME 4.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from hepm.evals.answers import plain_answer
from hepm.evals.environments.gyms.episode import GymEpisode, GymTask, action_tool
from hepm.evals.environments.gyms.hearing import Hearing, Topic, matched

MOST_AT_ONCE: Final = 2
"""Questions of one message that a user answers: related ones may be paired (PRIME, figure 9), all at once may not."""
MOST_QUESTIONS: Final = 20
_UNKNOWN: Final = "I cannot say."
_ONE: Final = "Ask one thing at a time."


def records(name: str) -> list[dict[str, Any]]:
    """The lines of a file of `data`."""
    text = (Path(__file__).with_name("data") / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


# Telepathy: a thing is guessed by questions of yes and no.

_TRAITS: Final = {
    "alive": "alive|living", "animal": "animal|creature", "person": "person|human", "plant": "plant|tree|flower",
    "place": "place|building|location", "thing": "thing|object|tool", "flies": "fly|flies|flying|wings",
    "water": "water|sea|swim|ocean", "eaten": "eat|food|edible", "big": "big|large|larger|bigger|huge",
    "electric": "electric|power|battery|plug", "music": "music|instrument|sound", "worn": "wear|worn|clothes",
    "wheels": "wheel|drive|vehicle", "cold": "cold|snow|ice|winter", "home": "home|house|household|kitchen",
    "old": "old|ancient|history|historic", "wood": "wood|wooden", "metal": "metal|steel|iron",
    "dangerous": "danger|dangerous|poison|bite",
}  # fmt: skip
_THINGS: Final = {
    "penguin": "alive animal water cold", "eagle": "alive animal flies dangerous",
    "shark": "alive animal water big dangerous", "cow": "alive animal eaten big",
    "bee": "alive animal flies dangerous home", "oak": "alive plant big wood old", "tulip": "alive plant home",
    "apple": "plant eaten home", "Mozart": "person music old", "Cleopatra": "person old dangerous",
    "pyramid": "place big old", "lighthouse": "place big water old", "library": "place big home",
    "igloo": "place cold home", "violin": "thing music wood", "fridge": "thing electric cold home metal big",
    "bicycle": "thing wheels metal", "scarf": "thing worn cold home", "sword": "thing metal dangerous old",
    "drone": "thing flies electric metal",
}  # fmt: skip


class TelepathyEpisode(GymEpisode):
    """The reward is 1 for the right guess. `Topic.says` is what is true: "Yes." or "No."."""

    def __init__(self, secret: str, hear: Hearing) -> None:
        super().__init__([action_tool("action"), action_tool("answer")])
        self._secret, self._hear, self._asked, self._right = secret, hear, 0, False
        traits = _THINGS[secret].split()
        self._topics = [
            Topic(f"whether it is {name}", words, "Yes." if name in traits else "No.")
            for name, words in _TRAITS.items()
        ]

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        return {"action": self._question, "answer": self._guess}

    def _question(self, text: str) -> str:
        self._asked += 1
        if self._asked > MOST_QUESTIONS:
            return f"That was question {self._asked}: only {MOST_QUESTIONS} are answered. Guess."
        found = self._hear(text, self._topics)
        if len(found) > 1:
            return _ONE
        return self._topics[found[0]].says if found else _UNKNOWN

    def _guess(self, text: str) -> str:
        self._right = plain_answer(self._secret) in plain_answer(text).split()[-4:]
        return "Right." if self._right else "Wrong."

    def reward(self) -> float:
        return float(self._right)


def telepathy_tasks() -> list[GymTask]:
    """20 things, each of which its traits alone tell from the others."""
    request = (
        f"I think of something. You may ask {MOST_QUESTIONS} questions that I can answer by yes or no, then guess once."
    )
    return [GymTask(f"telepathy-{at}", "telepathy", request, [("answer", name)]) for at, name in enumerate(_THINGS)]


def telepathy_episode(task: str, hear: Hearing) -> GymEpisode:  # noqa: D103
    return TelepathyEpisode([*_THINGS][int(task.rpartition("-")[2])], hear)


# Turtle: what happened behind a strange story.


class TurtleEpisode(GymEpisode):
    """The reward is the share of the points of the true story that the first answer has."""

    def __init__(self, record: Mapping[str, Any], hear: Hearing) -> None:
        super().__init__([action_tool("action"), action_tool("answer")])
        self._points: Sequence[str] = record["points"]
        self._hear, self._share = hear, 0.0
        self._topics = [
            Topic(f"it has to do with one of these: {words}", words, said)
            for said, facts in (("Yes.", record["yes"]), ("No.", record["no"]))
            for words in facts
        ]

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        return {"action": self._question, "answer": self._solve}

    def _question(self, text: str) -> str:
        said = {self._topics[at].says for at in self._hear(text, self._topics)}
        return said.pop() if len(said) == 1 else _ONE if said else "That does not matter."

    def _solve(self, text: str) -> str:
        self._share = sum(matched(point, text) is not None for point in self._points) / len(self._points)
        return "That is the story." if self._share == 1 else "That is not the whole story."

    def reward(self) -> float:
        return self._share


def turtle_tasks() -> list[GymTask]:
    """20 stories of our own telling."""
    known = enumerate(records("turtle"))
    return [
        GymTask(f"turtle-{at}", "turtle", f"What happened? {one['surface']}", [("answer", one["truth"])])
        for at, one in known
    ]


def turtle_episode(task: str, hear: Hearing) -> GymEpisode:  # noqa: D103
    return TurtleEpisode(records("turtle")[int(task.rpartition("-")[2])], hear)


# Intention: what a vague request leaves open.

_ASPECTS: Final = {
    "age": "age|old\\b|turn", "guests": "guest|how many|people|invite",
    "place": "place|where|venue|indoor|outdoor|location", "theme": "theme|style|motto|like",
    "food": "food|eat|diet|allerg", "goal": "goal|aim|which|reach|want to",
    "level": "level|experience|beginner|now|so far|currently", "time": "time|often|hours|days|schedule",
    "means": "equipment|own|have at home|tools|means", "limit": "limit|pain|health|cannot|restrict|problem",
    "company": "alone|company|together|with you|partner", "use": "use|what for|purpose",
    "size": "size|big|tall|large|wide", "when": "when|deadline|date|soon", "brand": "brand|maker|make\\b|prefer",
    "old": "old one|former|previous|last one|had before", "since": "since|begin|start|how long",
    "where": "where|part|which page|which room", "who": "who|whom|everybody|everyone",
    "tried": "tried|done so far|attempt", "access": "access|reach|key|password|open it",
    "urgent": "urgent|deadline|by when|hurry", "budget": "budget|cost|spend|price|afford|money",
}  # fmt: skip


class ElicitingEpisode(GymEpisode):
    """A user who answers at most two questions of a message. The reward is the share of aspects that came out."""

    def __init__(self, topics: Sequence[Topic], hear: Hearing, *more: str) -> None:
        super().__init__([action_tool(name) for name in ("action", *more, "finish")])
        self.topics, self.uncovered, self._hear = topics, set[int](), hear

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        return {"action": self._question, "finish": self._finish}

    def _question(self, text: str) -> str:
        found = self._hear(text, self.topics)[:MOST_AT_ONCE]
        self.uncovered.update(found)
        return " ".join(self.topics[at].says for at in found) or "I do not know what to say to that."

    def _finish(self, text: str) -> str:
        del text
        return "Thank you."

    def reward(self) -> float:
        return len(self.uncovered) / len(self.topics)


def _topics_of(record: Mapping[str, str]) -> list[Topic]:
    return [Topic(f"{name}: {record[name]}", _ASPECTS[name], record[name]) for name in record if name in _ASPECTS]


def _paired(words: Sequence[str]) -> list[tuple[str, str]]:
    """Questions about two aspects each."""
    asked = [word.partition("|")[0].removesuffix("\\b") for word in words]
    return [("action", f"What about {' and '.join(asked[at : at + 2])}?") for at in range(0, len(asked), 2)]


def intention_tasks() -> list[GymTask]:
    """20 vague requests with six open details each."""
    return [
        GymTask(
            f"intention-{at}", one["kind"], one["request"], [*_paired(_telling(_topics_of(one))), ("finish", "Done.")]
        )
        for at, one in enumerate(records("intention"))
    ]


def _telling(topics: Sequence[Topic]) -> list[str]:
    """Of each topic a word that no other one has."""
    found: list[str] = []
    for at, topic in enumerate(topics):
        others = [other.words for number, other in enumerate(topics) if number != at]
        words = [word.removesuffix("\\b") for word in topic.words.split("|")]
        found.append(next(word for word in words if not any(matched(other, word) for other in others)))
    return found


def intention_episode(task: str, hear: Hearing) -> GymEpisode:  # noqa: D103
    return ElicitingEpisode(_topics_of(records("intention")[int(task.rpartition("-")[2])]), hear)


# Travel: a trip by preferences that come out one by one.

_WISHES: Final = {
    "climate": ("climate|warm|weather|beach or|destination", ("beach", "mountains", "city", "lakes")),
    "days": ("days|how long|duration|when|dates", ("3 days", "5 days", "8 days", "14 days")),
    "budget": ("budget|cost|spend|price|afford", ("600 dollars", "1,200 dollars", "2,500 dollars", "4,000 dollars")),
    "lodging": ("lodging|hotel|stay|sleep|accommodation", ("hostel", "family hotel", "flat", "campsite")),
    "food": ("food|eat|meals|dining|restaurant", ("vegetarian meals", "all inclusive", "a kitchen", "local cafés")),
}  # fmt: skip
_TRIPS: Final = 20


@cache
def _trip(number: int) -> Mapping[str, str]:
    random = Random(f"travel {number}")
    return {name: random.choice(values) for name, (_, values) in _WISHES.items()}


class TravelEpisode(ElicitingEpisode):
    """Half of the reward is for wishes that came out, half for those that the recommendation meets."""

    def __init__(self, wished: Mapping[str, str], hear: Hearing) -> None:
        topics = [
            Topic(f"{name}: {value}", _WISHES[name][0], f"For the {name}: {value}.") for name, value in wished.items()
        ]
        super().__init__(topics, hear, "search")
        self._wished, self._met = wished, 0.0

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        return {"action": self._question, "search": self._search, "finish": self._recommend}

    def _search(self, text: str) -> str:
        found = [f"{name}: {', '.join(values)}" for name, (words, values) in _WISHES.items() if matched(words, text)]
        return "\n".join(found) or "Nothing is found. Search for climate, days, budget, lodging or food."

    def _recommend(self, text: str) -> str:
        said = {name: [value for value in values if matched(value, text)] for name, (_, values) in _WISHES.items()}
        self._met = sum(said[name] == [wish] for name, wish in self._wished.items()) / len(self._wished)
        return "That is the trip I want." if self._met == 1 else "That is not quite it, but thank you."

    def reward(self) -> float:
        return (super().reward() + self._met) / 2


def travel_tasks() -> list[GymTask]:
    """20 trips with five wishes each."""
    request = "I would like to go on holiday. Can you recommend something?"
    return [
        GymTask(
            f"travel-{at}", "travel", request,
            [*_paired([*_WISHES]), ("search", "hotel and food"), ("finish", ", ".join(_trip(at).values()))],
        )
        for at in range(_TRIPS)
    ]  # fmt: skip


def travel_episode(task: str, hear: Hearing) -> GymEpisode:  # noqa: D103
    return TravelEpisode(_trip(int(task.rpartition("-")[2])), hear)
