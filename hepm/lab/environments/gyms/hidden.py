"""Gyms in which the agent uncovers what a user knows or wants: telepathy, turtle, intention and travel (PRIME 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hepm.lab.environments.answers import plain_answer
from hepm.lab.environments.gyms.episode import GymEpisode, action_tool, records, words
from hepm.lab.environments.gyms.topics import Topic, matched

MOST_AT_ONCE: Final = 2
"""Questions of one message that a user answers: related ones may be paired (PRIME, figure 9), all at once may not."""
MOST_QUESTIONS: Final = 20
"""Questions that the user of telepathy answers."""
MOST_TOUCHED: Final = 3
"""Other stories that an answer may share a point with by chance; one that shares more is a list of guesses."""
_ONE: Final = "Ask one thing at a time."
# What may stand around a guess: "I think that it is the violin".
_AROUND: Final = " i think believe guess that it is its this you of are thinking must be my final answer would say "


class TelepathyEpisode(GymEpisode):
    """A thing is guessed by questions of yes and no; the reward is 1 for the right guess.

    `Topic.says` is what is true: "Yes." or "No.".
    """

    system = (
        "The user thinks of something. Find out what by at most "
        f"{MOST_QUESTIONS} questions of yes and no, each of which should halve what is left. Then answer once, by its "
        "name alone. Actions: action (a question), answer."
    )
    tools = (action_tool("action"), action_tool("answer"))

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._questions = 0
        traits = record["traits"].split()
        for trait, pattern in words()["traits"].items():
            truth = "Yes." if trait in traits else "No."
            self.topics.append(Topic(pattern, truth))

    def do_action(self, text: str) -> str:
        """Answer a question about one trait."""
        self._questions += 1
        if self._questions > MOST_QUESTIONS:
            return f"That was question {self._questions}: only {MOST_QUESTIONS} are answered. Guess."
        heard = self.heard(text)
        if not heard:
            return "I cannot say."
        if len(heard) > 1:
            return _ONE
        return self.topics[heard[0]].says

    def do_answer(self, text: str) -> str:
        """Judge the guess."""
        # The thing once and nothing that could be another one: a guess that names several names none.
        named = [word for word in plain_answer(text).split() if f" {word} " not in _AROUND]
        self.score = float(named == [plain_answer(self.record["thing"])])
        return "Right." if self.score else "Wrong."


class TurtleEpisode(GymEpisode):
    """What happened behind a strange story; the reward is the share of its points that the first answer has.

    An answer that tells several stories tells none.
    """

    system = (
        "The user tells a strange story. Find out what happened by questions of yes and no, one thing at a time: begin "
        "with what is odd, and narrow down. Then answer once, with all of it. Actions: action (a question), answer."
    )
    tools = (action_tool("action"), action_tool("answer"))

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        for truth in ("yes", "no"):
            for pattern in record[truth]:
                self.topics.append(Topic(pattern, f"{truth.capitalize()}."))

    def do_action(self, text: str) -> str:
        """Answer a question by yes or no."""
        truths = {self.topics[position].says for position in self.heard(text)}
        if not truths:
            return "That does not matter."
        if len(truths) > 1:  # "Was it night, or did he drown?" has no single answer
            return _ONE
        return truths.pop()

    def do_answer(self, text: str) -> str:
        """Judge the story."""
        told = self.own_words(text)
        others = [_share(record, told) for record in records("turtle") if record is not self.record]
        touched = sum(share > 0 for share in others)
        if touched <= MOST_TOUCHED and 1 not in others:
            self.score = _share(self.record, told)
        return "That is the story." if self.score == 1 else "That is not the whole story."


def _share(record: Mapping[str, Any], text: str) -> float:
    """Of the points of a story, those that a text has."""
    points = record["points"]
    return sum(bool(matched(point, text)) for point in points) / len(points)


class IntentionEpisode(GymEpisode):
    """A user with open details, who answers no message of more than two questions; the reward is the share known.

    A record has the details by their name among the aspects: {"age": "She turns eight.", ...}.
    """

    system = (
        "The user's request is vague. Find out all that it leaves open by questions, at most two related ones in a "
        "message, then finish with what you understood. Actions: action (a question), finish."
    )
    tools = (action_tool("action"), action_tool("finish"))

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._uncovered: set[int] = set()
        aspects = words()["aspects"]
        for name, detail in record.items():
            if name in aspects:
                self.topics.append(Topic(aspects[name], detail))

    def do_action(self, text: str) -> str:
        """Answer up to two questions, and none of a message with more."""
        heard = self.heard(text)
        # Else a list of all that can be asked, in another order each turn, would uncover all.
        if len(heard) > MOST_AT_ONCE:
            return f"Ask at most {MOST_AT_ONCE} things at a time."
        self._uncovered.update(heard)
        self.score = len(self._uncovered) / len(self.topics)
        return " ".join(self.topics[position].says for position in heard) or "I do not know what to say to that."


class TravelEpisode(IntentionEpisode):
    """Half of the reward is for wishes that came out, half for those of them that the recommendation meets."""

    system = (
        "You plan a trip for a user. Find out by questions what the user wants of climate, days, budget, lodging and "
        "food, at most two at once, then search what there is, and finish with a recommendation that names one of the "
        "options for each. Actions: action (a question), search, finish."
    )
    tools = (action_tool("action"), action_tool("search"), action_tool("finish"))

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._met = 0.0
        for name, wish in record["wished"].items():
            self.topics.append(Topic(words()["wishes"][name], f"For the {name}: {wish}."))

    def do_search(self, text: str) -> str:
        """List what there is to choose from."""
        lines: list[str] = []
        for name, options in words()["options"].items():
            if matched(words()["wishes"][name], text):
                lines.append(f"{name}: {', '.join(options)}")
        return "\n".join(lines) or "Nothing is found. Search for climate, days, budget, lodging or food."

    def do_finish(self, text: str) -> str:
        """Judge the recommendation."""
        met = 0
        for position, (name, wish) in enumerate(self.record["wished"].items()):
            recommended = [value for value in words()["options"][name] if matched(value, text)]
            # A text that names every option recommends none, and a wish that nobody asked for was guessed.
            met += recommended == [wish] and position in self._uncovered
        self._met = met / len(self.topics)
        return "That is the trip I want." if self._met == 1 else "That is not quite it, but thank you."

    def reward(self) -> float:
        """The mean of both shares."""
        return (self.score + self._met) / 2
