"""What the user says and what a run is worth, gym by gym (PRIME 4.1, appendix C; Qian et al., 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from hepm.lab.environments import ToolFailed
from hepm.lab.environments.answers import exact_match, plain_answer
from hepm.lab.environments.gyms.episode import GymEpisode, Record, matched, records, written
from hepm.lab.environments.island import Paragraph, paragraphs
from hepm.lab.environments.questions import Corpus

MOST_QUESTIONS: Final = 20
"""Questions that the user of telepathy answers."""
MOST_TOUCHED: Final = 3
"""Other stories that an answer may share a point with by chance; one that shares more is a list of guesses."""
MOST_VALUES: Final = 30
"""Values of a hidden function that an agent may ask for."""
# What may stand around a guess: "I think that it is the violin".
_AROUND: Final = " i think believe guess that it is its this you of are thinking must be my final answer would say "


class TelepathyEpisode(GymEpisode):
    """A thing is guessed by questions of yes and no, one trait each; the reward is 1 for the right guess."""

    def __init__(self, gym: str, record: Record) -> None:
        super().__init__(gym, record)
        self._questions = 0

    def do_action(self, text: str) -> str:
        """Answer a question."""
        self._questions += 1
        if self._questions > MOST_QUESTIONS:
            return f"Only {MOST_QUESTIONS} questions are answered. Guess."
        return super().do_action(text)

    def do_answer(self, text: str) -> str:
        """Judge the guess."""
        # The thing once and nothing that could be another one: a guess that names several names none.
        named = [word for word in plain_answer(text).split() if f" {word} " not in _AROUND]
        self.score = float(named == [plain_answer(self.record["thing"])])
        return "Right." if self.score else "Wrong."


class TurtleEpisode(GymEpisode):
    """What happened behind a strange story; the reward is the share of its points that the first answer has.

    An answer with several stories has none.
    """

    def do_answer(self, text: str) -> str:
        """Judge the story."""
        story = self.own_words(text)
        others = [_share(record, story) for record in records("turtle") if record is not self.record]
        touched = sum(share > 0 for share in others)
        if touched <= MOST_TOUCHED and 1 not in others:
            self.score = _share(self.record, story)
        return "That is the story." if self.score == 1 else "That is not the whole story."


def _share(record: Record, text: str) -> float:
    """Of the points of a story, those that a text has."""
    points = record["points"]
    return sum(matched(point, text) for point in points) / len(points)


class IntentionEpisode(GymEpisode):
    """A user with open details; the reward is the share known."""

    def reward(self) -> float:
        """The share of the details that came out."""
        return len(self.uncovered) / len(self.topics)


class TravelEpisode(IntentionEpisode):
    """Half of the reward is for wishes that came out, half for those of them that the recommendation meets."""

    def do_search(self, text: str) -> str:
        """List what there is to choose from."""
        lines: list[str] = []
        for name, options in written("words")["options"].items():
            if matched(written("words")["travel"][name], text):
                lines.append(f"{name}: {', '.join(options)}")
        return "\n".join(lines) or "Nothing is found. Search for climate, days, budget, lodging or food."

    def do_finish(self, text: str) -> str:
        """Judge the recommendation."""
        met = 0
        for position, (name, wish) in enumerate(self.record["wished"].items()):
            recommended = [value for value in written("words")["options"][name] if matched(value, text)]
            # A text that names every option recommends none, and a wish that was not asked for was guessed.
            met += recommended == [wish] and position in self.uncovered
        self.score = met / len(self.topics)
        return "That is the trip I want." if self.score == 1 else "That is not quite it, but thank you."

    def reward(self) -> float:
        """The mean of both shares."""
        return (super().reward() + self.score) / 2


@cache
def _corpus(gym: str) -> Corpus:
    """What is searched: the evidence of all claims, or the island."""
    if gym == "search":
        return Corpus(paragraphs())
    known: list[Paragraph] = []
    for record in records(gym):
        known += [Paragraph(record["claim"], text) for text in record["evidence"]]
    return Corpus(known)


class PersuadeEpisode(GymEpisode):
    """A user with three doubts, voiced one after the other; the reward is the share of those that were answered.

    An argument counts if it brings evidence against the doubt that was voiced last, and no other: `key` holds the words
    of each. A message that brings several is a list.
    """

    def do_action(self, text: str) -> str:
        """Hear an argument."""
        doubts, keys = self.record["doubts"], self.record["key"]
        answered = len(self.uncovered)
        if answered == len(doubts):
            return "I agree with you."
        every_key = [key for record in records("persuade") for key in record["key"]]
        if sum(matched(key, text) for key in every_key) > self.rules["at_once"]:
            return f"{self.rules['too_many']} {doubts[answered]}"
        if matched(keys[answered], self.own_words(text)):
            self.uncovered.add(answered)
            self.score = len(self.uncovered) / len(doubts)
            return [*doubts, "You have convinced me."][answered + 1]
        if text.strip().endswith("?"):  # a question is no argument that failed
            return doubts[answered]
        return f"{self.rules['unheard']} {doubts[answered]}"

    def do_search(self, text: str) -> str:
        """Evidence."""
        return _corpus("persuade").answer(text)


class SearchEpisode(GymEpisode):
    """A question over three paragraphs of the island; the reward is the exact match of the answer."""

    def do_search(self, text: str) -> str:
        """Paragraphs."""
        return _corpus("search").answer(text)

    def do_answer(self, text: str) -> str:
        """Judge the answer, as in the benchmark of questions: punctuation and articles do not count."""
        self.score = exact_match(text, self.record["answers"])
        return "Right." if self.score else "Wrong."


class ShopEpisode(GymEpisode):
    """An order is changed by policy, after the user confirmed.

    The reward is 1 if the order was looked at, and then changed as it should be, once, after a confirmation. Where the
    policy forbids a change (`change` is empty), it is 1 if none was tried and the agent said so after the look.
    """

    def __init__(self, gym: str, record: Record) -> None:
        super().__init__(gym, record)
        self._changes: list[list[str]] = []
        self._seen = self._confirmed = self._refused = False

    def act(self, tool: str, fields: list[Any]) -> str:
        """What comes of an action; a change is refused unless the order was looked at and its status allows it."""
        allowed = self.rules["changes"].get(tool)
        if allowed is None:
            self._refused |= self._seen and matched(self.rules["refusing"], self.own_words(fields[0]))
            return super().act(tool, fields)
        if fields[0] != self.record["order"] or not self._seen:
            raise ToolFailed("look at the order first")
        # Tried is tried: an agent that lets the shop refuse keeps no policy.
        self._changes.append([tool, *fields])
        status = self.record["status"]
        if status != allowed:
            raise ToolFailed(f"the order is {status}: that is not possible")
        return "done"

    def do_action(self, text: str) -> str:
        """Hear what the agent says."""
        # Given before the order was looked at, it confirms nothing.
        self._confirmed |= self._seen and matched(written("words")["tau"]["confirm"], self.own_words(text))
        return super().do_action(text)

    def do_get_order(self, order: str) -> str:
        """Show the order."""
        if order != self.record["order"]:
            raise ToolFailed(f"there is no order {order}")
        self._seen = True
        return f"Order {order}: one {self.record['item']}, {self.record['status']}"

    def reward(self) -> float:
        """1 for the right change, confirmed; where the right answer is a refusal, for saying so and no change."""
        right = self.record["change"]
        if not (self.over and self._seen):
            return 0.0
        if not right:
            return float(self._refused and not self._changes)
        return float(self._confirmed and self._changes == [right])


class FunctionEpisode(GymEpisode):
    """The value of a hidden function of four integers at a test input; the reward is 1 for the first submission."""

    def __init__(self, gym: str, record: Record) -> None:
        super().__init__(gym, record)
        self._asked = 0

    def _value(self, point: list[int]) -> int:
        formula: str = self.rules["kinds"][self.record["kind"]]
        names = {"k": self.record["k"], "m": self.record["m"], "max": max, "min": min}
        # A formula of ours, from `gyms.json`.
        return eval(formula, names | dict(zip("abcd", point, strict=True)))

    def do_show_test_input(self) -> str:
        """Show the input."""
        return ", ".join(f"{name} = {value}" for name, value in zip("abcd", self.record["test"], strict=True))

    def do_submit(self, value: int) -> str:
        """Judge the submission."""
        self.score = float(value == self._value(self.record["test"]))
        return "submitted"

    def do_evaluate(self, *point: int) -> str:
        """Give a value, but for the one that is asked; refused calls count too."""
        self._asked += 1
        # Else the answer could be asked for.
        if [*point] == self.record["test"]:
            raise ToolFailed("f is not evaluated at the test input")
        if self._asked > MOST_VALUES:
            raise ToolFailed(f"{MOST_VALUES} values were asked for: submit an answer")
        return str(self._value([*point]))


GYMS: Final[Mapping[str, type[GymEpisode]]] = {
    "travel": TravelEpisode,
    "turtle": TurtleEpisode,
    "telepathy": TelepathyEpisode,
    "intention": IntentionEpisode,
    "persuade": PersuadeEpisode,
    "search": SearchEpisode,
    "tau": ShopEpisode,
    "functions": FunctionEpisode,
}
