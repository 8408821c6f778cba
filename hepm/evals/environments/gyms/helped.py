"""Gyms in which the agent looks things up or acts for a user: persuade, search and tau (PRIME 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from hepm.evals.answers import exact_match
from hepm.evals.environments import ToolFailed
from hepm.evals.environments.gyms.episode import GymEpisode, GymTask, action_tool
from hepm.evals.environments.gyms.hearing import Hearing, Topic
from hepm.evals.environments.gyms.hidden import number_in, records
from hepm.evals.environments.island import Paragraph, long_questions, paragraphs
from hepm.evals.environments.questions import Corpus

# Persuade: a user with three doubts, voiced one after the other.


@cache
def _library() -> Corpus:
    known: list[Paragraph] = []
    for record in records("persuade"):
        known += [Paragraph(record["claim"], text) for text in record["evidence"]]
    return Corpus(known)


class PersuadeEpisode(GymEpisode):
    """An argument counts if it brings evidence against the doubt that was voiced last. The reward is their share."""

    def __init__(self, record: Mapping[str, Any], hear: Hearing) -> None:
        super().__init__([action_tool("action"), action_tool("search"), action_tool("finish")])
        self._hear = hear
        self._answered = 0
        self._topics: list[Topic] = []
        # `key` holds the words that an argument with this evidence has.
        for doubt, evidence, key in zip(record["doubts"], record["evidence"], record["key"], strict=True):
            self._topics.append(Topic(f"{doubt} Against it: {evidence}", key, doubt))

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """Argue, search for evidence, or end the conversation."""
        return {"action": self._argue, "search": self._search, "finish": self._finish}

    def _argue(self, text: str) -> str:
        if self._answered == len(self._topics):
            return "I agree with you."
        if self._answered in self._hear(text, self._topics):
            self._answered += 1
        elif not text.strip().endswith("?"):  # a question is no argument that failed
            return f"That does not convince me. {self._topics[self._answered].says}"
        if self._answered == len(self._topics):
            return "You have convinced me."
        return self._topics[self._answered].says

    def _search(self, text: str) -> str:
        return _library().answer(text)

    def _finish(self, text: str) -> str:
        del text
        return "Goodbye."

    def reward(self) -> float:
        """The share of doubts that were answered."""
        return self._answered / len(self._topics)


def persuade_tasks() -> list[GymTask]:
    """20 claims; the agent is told the claim, and hears the doubts from the user."""
    tasks: list[GymTask] = []
    for number, record in enumerate(records("persuade")):
        arguments = [("action", text) for text in record["evidence"]]
        right = [("search", record["claim"]), *arguments, ("finish", "Thank you.")]
        request = f"Convince me of this, if you can: {record['claim']}"
        tasks.append(GymTask(f"persuade-{number}", "persuade", request, right))
    return tasks


def persuade_episode(task: str, hear: Hearing) -> GymEpisode:
    """A run of the task with this id."""
    return PersuadeEpisode(records("persuade")[number_in(task)], hear)


# Search: a question over three paragraphs of the island.


@cache
def _island() -> Corpus:
    return Corpus(paragraphs())


class SearchEpisode(GymEpisode):
    """The reward is the exact match of the answer."""

    def __init__(self, answers: Sequence[str]) -> None:
        super().__init__([action_tool("search"), action_tool("answer")])
        self._answers = answers
        self._matched = 0.0

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """Search, or answer."""
        return {"search": _island().answer, "answer": self._judge}

    def _judge(self, text: str) -> str:
        # As in the benchmark of questions: punctuation and articles do not count.
        self._matched = exact_match(text, self._answers)
        return "Right." if self._matched else "Wrong."

    def reward(self) -> float:
        """1 for an answer that matches."""
        return self._matched


def search_tasks() -> list[GymTask]:
    """20 questions that `questions` does not ask."""
    tasks: list[GymTask] = []
    for number, question in enumerate(long_questions()):
        searches = [("search", query) for query in question.searches]
        right = [*searches, ("answer", question.answers[0])]
        tasks.append(GymTask(f"search-{number}", "search", question.text, right))
    return tasks


def search_episode(task: str, hear: Hearing) -> GymEpisode:
    """A run of the task with this id; its user is told nothing, so that nobody needs to hear."""
    del hear
    return SearchEpisode(long_questions()[number_in(task)].answers)


# Tau: an order is changed by policy, after the user confirmed.

_KINDS: Final = ("cancel", "address", "refund", "refused")
_ORDERS: Final = 20
_STREETS: Final = ("4 Mill Lane", "9 Harbour Road", "17 Church Street", "2 Station Square", "30 Field Way")
_ITEMS: Final = ("lamp", "kettle", "rucksack", "clock", "blanket")
# "refused" sounds like "cancel": only the state of the order tells them apart.
_WISHES: Final = {
    "cancel": "I want to cancel my order.",
    "address": "My order should go to another address.",
    "refund": "Something I got is broken. I want my money back.",
    "refused": "I want to cancel my order.",
}
_CHANGES: Final = {"cancel": "cancel_order", "address": "change_address", "refund": "refund_item"}
# How agents ask whether they may go ahead.
_CONFIRMING: Final = "confirm|proceed|shall i|should i|go ahead|is that right|okay to|do you want me"
_TAU_TOOLS: Final = (
    action_tool("action"),
    action_tool("get_order", "An order by its number"),
    action_tool("cancel_order", "Cancel an order by its number"),
    action_tool("change_address", "Send an order to another address", ("order", "address")),
    action_tool("refund_item", "Refund an item of an order", ("order", "item")),
    action_tool("finish"),
)


class TauEpisode(GymEpisode):
    """The reward is 1 if the order was looked at, and then changed as it should be, once, after a confirmation."""

    def __init__(self, number: int, hear: Hearing) -> None:
        super().__init__(_TAU_TOOLS)
        kind = _KINDS[number % len(_KINDS)]
        self._right = _change_of(number)
        self._order = _order_of(number)
        self._hear = hear
        self._status = {"refund": "delivered", "refused": "shipped"}.get(kind, "processing")
        self._item = _ITEMS[number % len(_ITEMS)]
        self._changes: list[tuple[str, ...]] = []
        self._seen = self._confirmed = False
        details = "I ordered the wrong thing."
        if kind in ("address", "refund"):
            details = f"{self._right[-1]}."
        self._topics = [
            Topic("the number of the order", "number|which order|order id", f"It is {self._order}."),
            Topic("the new address, the item, or the reason", "address|item|which|reason|why|where", details),
            Topic("whether the agent may go ahead with the change", _CONFIRMING, "Yes, please."),
        ]

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        """Speak, look at the order, change it, or end the conversation."""
        changes: dict[str, Callable[..., str]] = {name: self._changing(name) for name in _CHANGES.values()}
        return {"action": self._say, "get_order": self._look, **changes, "finish": self._finish}

    def _finish(self, text: str) -> str:
        del text
        return "Goodbye."

    def _say(self, text: str) -> str:
        heard = self._hear(text, self._topics)
        # Topic 2 is the confirmation; given before the order was looked at, it confirms nothing.
        if 2 in heard and self._seen:
            self._confirmed = True
        return " ".join(self._topics[position].says for position in heard) or "All right."

    def _look(self, order: str) -> str:
        if order != self._order:
            raise ToolFailed(f"there is no order {order}")
        self._seen = True
        return f"Order {order}: one {self._item}, {self._status}"

    def _changing(self, tool: str) -> Callable[..., str]:
        def change(*arguments: str) -> str:
            # The policy: what is not sent yet can be changed, and what arrived refunded.
            allowed = "delivered" if tool == "refund_item" else "processing"
            if arguments[0] != self._order or not self._seen:
                raise ToolFailed("look at the order first")
            if self._status != allowed:
                raise ToolFailed(f"the order is {self._status}: that is not possible")
            self._changes.append((tool, *arguments))
            return "done"

        return change

    def reward(self) -> float:
        """1 for the right change, confirmed; where the right answer is a refusal, for no change."""
        if not (self.over and self._seen):
            return 0.0
        if not self._right[0]:
            return float(not self._changes)
        return float(self._confirmed and self._changes == [self._right])


def _order_of(number: int) -> str:
    return f"W{4100 + 37 * number}"


def _change_of(number: int) -> tuple[str, ...]:
    """The right change: ("change_address", "W4137", "9 Harbour Road"); ("", order) where it must be refused."""
    kind = _KINDS[number % len(_KINDS)]
    # Kinds, streets and items take turns: five of each.
    order = _order_of(number)
    tool = _CHANGES.get(kind, "")
    if kind == "address":
        return (tool, order, _STREETS[number % len(_STREETS)])
    if kind == "refund":
        return (tool, order, _ITEMS[number % len(_ITEMS)])
    return (tool, order)


def tau_tasks() -> list[GymTask]:
    """20 orders: five to cancel, five to send elsewhere, five with an item to refund, five where it must be refused."""
    tasks: list[GymTask] = []
    for number in range(_ORDERS):
        kind = _KINDS[number % len(_KINDS)]
        tasks.append(GymTask(f"tau-{number}", kind, _WISHES[kind], _right_calls(number)))
    return tasks


def _right_calls(number: int) -> list[tuple[str, Any]]:
    tool, order, *more = _change_of(number)
    calls: list[tuple[str, Any]] = [
        ("action", "What is the number, and which item or address is it about?"),
        ("get_order", order),
    ]
    if tool:
        [function] = [spec["function"] for spec in _TAU_TOOLS if spec["function"]["name"] == tool]
        fields = function["parameters"]["required"]
        calls.append(("action", "Shall I go ahead?"))
        calls.append((tool, dict(zip(fields, (order, *more), strict=True))))
    calls.append(("finish", "Done."))
    return calls


def tau_episode(task: str, hear: Hearing) -> GymEpisode:
    """A run of the task with this id."""
    return TauEpisode(number_in(task), hear)
