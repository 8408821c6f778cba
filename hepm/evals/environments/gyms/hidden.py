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
from hepm.evals.environments.gyms.topics import FindTopics, Topic, matched

MOST_AT_ONCE: Final = 2
"""Questions of one message that a user answers: related ones may be paired (PRIME, figure 9), all at once may not."""
MOST_QUESTIONS: Final = 20
"""Questions that the user of telepathy answers."""
_UNKNOWN: Final = "I cannot say."
_ONE: Final = "Ask one thing at a time."


def records(name: str) -> list[dict[str, Any]]:
    """The lines of a file of `data`."""
    text = (Path(__file__).parents[1] / "data" / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def number_in(task: str) -> int:
    """The number of a task by its id: 7 in "turtle-7"."""
    return int(task.rpartition("-")[2])


# Telepathy: a thing is guessed by questions of yes and no.

# A trait, and the words by which a question is heard to ask for it.
_TRAITS: Final = {
    "alive": "alive|living", "animal": "animal|creature", "person": "person|human", "plant": "plant|tree|flower",
    "place": "place|building|location", "thing": "thing|object|tool", "flies": "fly|flies|flying|wings",
    "water": "water|sea|swim|ocean", "eaten": "eat|food|edible", "big": "big|large|larger|bigger|huge",
    "electric": "electric|power|battery|plug", "music": "music|instrument|sound", "worn": "wear|worn|clothes",
    "wheels": "wheel|drive|vehicle", "cold": "cold|snow|ice|winter", "home": "home|house|household|kitchen",
    "old": "old|ancient|history|historic", "wood": "wood|wooden", "metal": "metal|steel|iron",
    "dangerous": "danger|dangerous|poison|bite",
}  # fmt: skip
# The traits of each thing: no two things have the same.
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

    def __init__(self, secret: str, find_topics: FindTopics) -> None:
        super().__init__([action_tool("action"), action_tool("answer")])
        self._secret = secret
        self._find_topics = find_topics
        self._questions = 0
        self._right = False
        self._topics: list[Topic] = []
        traits = _THINGS[secret].split()
        for trait, words in _TRAITS.items():
            truth = "Yes." if trait in traits else "No."
            self._topics.append(Topic(f"whether it is {trait}", words, truth))

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """Ask, or guess."""
        return {"action": self._question, "answer": self._guess}

    def _question(self, text: str) -> str:
        self._questions += 1
        if self._questions > MOST_QUESTIONS:
            return f"That was question {self._questions}: only {MOST_QUESTIONS} are answered. Guess."
        heard = self._find_topics(text, self._topics)
        if not heard:
            return _UNKNOWN
        if len(heard) > 1:
            return _ONE
        return self._topics[heard[0]].says

    def _guess(self, text: str) -> str:
        # Among the last four words: "I think that it is the violin" is a guess, a list of all things is none.
        self._right = plain_answer(self._secret) in plain_answer(text).split()[-4:]
        return "Right." if self._right else "Wrong."

    def reward(self) -> float:
        """1 for the right guess."""
        return float(self._right)


def telepathy_tasks() -> list[GymTask]:
    """20 things, each of which its traits alone tell from the others."""
    request = (
        f"I think of something. You may ask {MOST_QUESTIONS} questions that I can answer by yes or no, then guess once."
    )
    tasks: list[GymTask] = []
    for number, thing in enumerate(_THINGS):
        tasks.append(GymTask(f"telepathy-{number}", "telepathy", request, [("answer", thing)]))
    return tasks


def telepathy_episode(task: str, find_topics: FindTopics) -> GymEpisode:
    """A run of the task with this id."""
    return TelepathyEpisode([*_THINGS][number_in(task)], find_topics)


# Turtle: what happened behind a strange story.


class TurtleEpisode(GymEpisode):
    """The reward is the share of the points of the true story that the first answer has."""

    def __init__(self, record: Mapping[str, Any], find_topics: FindTopics) -> None:
        super().__init__([action_tool("action"), action_tool("answer")])
        self._points: Sequence[str] = record["points"]
        self._find_topics = find_topics
        self._share = 0.0
        self._topics: list[Topic] = []
        for truth, facts in (("Yes.", record["yes"]), ("No.", record["no"])):
            for words in facts:
                self._topics.append(Topic(f"it has to do with one of these: {words}", words, truth))

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """Ask, or tell the story."""
        return {"action": self._question, "answer": self._solve}

    def _question(self, text: str) -> str:
        truths = {self._topics[position].says for position in self._find_topics(text, self._topics)}
        if not truths:
            return "That does not matter."
        if len(truths) > 1:  # "Was it night, or did he drown?" has no single answer
            return _ONE
        return truths.pop()

    def _solve(self, text: str) -> str:
        points = [point for point in self._points if matched(point, text)]
        self._share = len(points) / len(self._points)
        return "That is the story." if self._share == 1 else "That is not the whole story."

    def reward(self) -> float:
        """The share of points in the answer; 0 without one."""
        return self._share


def turtle_tasks() -> list[GymTask]:
    """20 stories of our own telling."""
    tasks: list[GymTask] = []
    for number, story in enumerate(records("turtle")):
        request = f"What happened? {story['surface']}"
        tasks.append(GymTask(f"turtle-{number}", "turtle", request, [("answer", story["truth"])]))
    return tasks


def turtle_episode(task: str, find_topics: FindTopics) -> GymEpisode:
    """A run of the task with this id."""
    return TurtleEpisode(records("turtle")[number_in(task)], find_topics)


# Intention: what a vague request leaves open.

# What a request may leave open, and the words by which a question is heard to ask for it.
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

    def __init__(self, topics: Sequence[Topic], find_topics: FindTopics, *more: str) -> None:
        super().__init__([action_tool(name) for name in ("action", *more, "finish")])
        self.topics = topics
        self.uncovered: set[int] = set()
        self._find_topics = find_topics

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """Ask, or end the conversation."""
        return {"action": self._question, "finish": self._finish}

    def _question(self, text: str) -> str:
        heard = self._find_topics(text, self.topics)[:MOST_AT_ONCE]
        self.uncovered.update(heard)
        return " ".join(self.topics[position].says for position in heard) or "I do not know what to say to that."

    def _finish(self, text: str) -> str:
        del text
        return "Thank you."

    def reward(self) -> float:
        """The share of aspects that came out."""
        return len(self.uncovered) / len(self.topics)


def _topics_of(record: Mapping[str, str]) -> list[Topic]:
    """The open details of a vague request: {"request": "Plan a party", "age": "She turns 40", ...}."""
    topics: list[Topic] = []
    for name, detail in record.items():
        if name in _ASPECTS:
            topics.append(Topic(f"{name}: {detail}", _ASPECTS[name], detail))
    return topics


def _paired(words: Sequence[str]) -> list[tuple[str, str]]:
    """Questions about two aspects each."""
    names = [word.partition("|")[0].removesuffix("\\b") for word in words]
    questions: list[tuple[str, str]] = []
    for start in range(0, len(names), 2):
        pair = names[start : start + 2]
        questions.append(("action", f"What about {' and '.join(pair)}?"))
    return questions


def intention_tasks() -> list[GymTask]:
    """20 vague requests with six open details each."""
    tasks: list[GymTask] = []
    for number, record in enumerate(records("intention")):
        right = [*_paired(_telling(_topics_of(record))), ("finish", "Done.")]
        tasks.append(GymTask(f"intention-{number}", record["kind"], record["request"], right))
    return tasks


def _telling(topics: Sequence[Topic]) -> list[str]:
    """Of each topic a word that no other one has."""
    telling: list[str] = []
    for topic in topics:
        others = [other.words for other in topics if other is not topic]
        for word in topic.words.split("|"):
            plain = word.removesuffix("\\b")
            if not any(matched(words, plain) for words in others):
                telling.append(plain)
                break
    return telling


def intention_episode(task: str, find_topics: FindTopics) -> GymEpisode:
    """A run of the task with this id."""
    return ElicitingEpisode(_topics_of(records("intention")[number_in(task)]), find_topics)


# Travel: a trip by preferences that come out one by one.

# The words by which a question is heard to ask for a wish, and what may be wished.
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

    def __init__(self, wished: Mapping[str, str], find_topics: FindTopics) -> None:
        topics: list[Topic] = []
        for name, value in wished.items():
            words = _WISHES[name][0]
            topics.append(Topic(f"{name}: {value}", words, f"For the {name}: {value}."))
        super().__init__(topics, find_topics, "search")
        self._wished = wished
        self._met = 0.0

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """Ask, search, or recommend a trip."""
        return {"action": self._question, "search": self._search, "finish": self._recommend}

    def _search(self, text: str) -> str:
        lines: list[str] = []
        for name, (words, values) in _WISHES.items():
            if matched(words, text):
                lines.append(f"{name}: {', '.join(values)}")
        return "\n".join(lines) or "Nothing is found. Search for climate, days, budget, lodging or food."

    def _recommend(self, text: str) -> str:
        met = 0
        for name, wish in self._wished.items():
            recommended = [value for value in _WISHES[name][1] if matched(value, text)]
            met += recommended == [wish]  # a text that names every option recommends none
        self._met = met / len(self._wished)
        return "That is the trip I want." if self._met == 1 else "That is not quite it, but thank you."

    def reward(self) -> float:
        """The mean of both shares."""
        return (super().reward() + self._met) / 2


def travel_tasks() -> list[GymTask]:
    """20 trips with five wishes each."""
    request = "I would like to go on holiday. Can you recommend something?"
    tasks: list[GymTask] = []
    for number in range(_TRIPS):
        recommended = ", ".join(_trip(number).values())
        right = [*_paired([*_WISHES]), ("search", "hotel and food"), ("finish", recommended)]
        tasks.append(GymTask(f"travel-{number}", "travel", request, right))
    return tasks


def travel_episode(task: str, find_topics: FindTopics) -> GymEpisode:
    """A run of the task with this id."""
    return TravelEpisode(_trip(number_in(task)), find_topics)
