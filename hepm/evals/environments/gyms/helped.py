"""Gyms in which the agent looks things up or acts for a user: persuade, search and tau (PRIME 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from hepm.evals.answers import exact_match
from hepm.evals.environments import ToolFailed
from hepm.evals.environments.gyms.episode import GymEpisode, GymTask, action_tool
from hepm.evals.environments.gyms.hearing import Hearing, Topic
from hepm.evals.environments.gyms.hidden import records
from hepm.evals.environments.island import Paragraph, long_questions, paragraphs
from hepm.evals.environments.questions import Corpus

# Persuade: a user with three doubts, voiced one after the other.


@cache
def _library() -> Corpus:
    return Corpus([Paragraph(one["claim"], text) for one in records("persuade") for text in one["evidence"]])


class PersuadeEpisode(GymEpisode):
    """An argument counts if it brings evidence against the doubt that was voiced last. The reward is their share."""

    def __init__(self, record: Mapping[str, Any], hear: Hearing) -> None:
        super().__init__([action_tool("action"), action_tool("search"), action_tool("finish")])
        self._hear, self._settled = hear, 0
        known = zip(record["doubts"], record["evidence"], record["key"], strict=True)
        self._topics = [Topic(f"{doubt} Against it: {text}", key, doubt) for doubt, text, key in known]

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        return {"action": self._argue, "search": self._search, "finish": self._finish}

    def _argue(self, text: str) -> str:
        if self._settled == len(self._topics):
            return "I agree with you."
        if self._settled in self._hear(text, self._topics):
            self._settled += 1
        elif not text.strip().endswith("?"):
            return f"That does not convince me. {self._topics[self._settled].says}"
        left = self._topics[self._settled :]
        return left[0].says if left else "You have convinced me."

    def _search(self, text: str) -> str:
        return _library().told(text)

    def _finish(self, text: str) -> str:
        del text
        return "Goodbye."

    def reward(self) -> float:
        return self._settled / len(self._topics)


def persuade_tasks() -> list[GymTask]:
    """20 claims; the agent is told the claim, and hears the doubts from the user."""
    return [
        GymTask(
            f"persuade-{at}", "persuade", f"Convince me of this, if you can: {one['claim']}",
            [("search", one["claim"]), *(("action", text) for text in one["evidence"]), ("finish", "Thank you.")],
        )
        for at, one in enumerate(records("persuade"))
    ]  # fmt: skip


def persuade_episode(task: str, hear: Hearing) -> GymEpisode:  # noqa: D103
    return PersuadeEpisode(records("persuade")[int(task.rpartition("-")[2])], hear)


# Search: a question over three paragraphs of the island.


@cache
def _island() -> Corpus:
    return Corpus(paragraphs())


class SearchEpisode(GymEpisode):
    """The reward is the exact match of the answer."""

    def __init__(self, answers: Sequence[str]) -> None:
        super().__init__([action_tool("search"), action_tool("answer")])
        self._answers, self._matched = answers, 0.0

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        return {"search": _island().told, "answer": self._judge}

    def _judge(self, text: str) -> str:
        self._matched = exact_match(text, self._answers)
        return "Right." if self._matched else "Wrong."

    def reward(self) -> float:
        return self._matched


def search_tasks() -> list[GymTask]:
    """20 questions that `questions` does not ask."""
    return [
        GymTask(
            f"search-{at}", "search", one.text,
            [*(("search", query) for query in one.searches), ("answer", one.answers[0])],
        )
        for at, one in enumerate(long_questions())
    ]  # fmt: skip


def search_episode(task: str, hear: Hearing) -> GymEpisode:  # noqa: D103
    del hear
    return SearchEpisode(long_questions()[int(task.rpartition("-")[2])].answers)


# Tau: an order is changed by policy, after the user confirmed.

_KINDS: Final = ("cancel", "address", "refund", "refused")
_ORDERS: Final = 20
_STREETS: Final = ("4 Mill Lane", "9 Harbour Road", "17 Church Street", "2 Station Square", "30 Field Way")
_ITEMS: Final = ("lamp", "kettle", "rucksack", "clock", "blanket")
_WISHES: Final = {
    "cancel": "I want to cancel my order.",
    "address": "My order should go to another address.",
    "refund": "Something I got is broken. I want my money back.",
    "refused": "I want to cancel my order.",
}
_CHANGES: Final = {"cancel": "cancel_order", "address": "change_address", "refund": "refund_item"}
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
        self._order, self._hear = _order_of(number), hear
        self._status = {"refund": "delivered", "refused": "shipped"}.get(kind, "processing")
        self._item = _ITEMS[number % len(_ITEMS)]
        self._changes: list[tuple[str, ...]] = []
        self._seen = self._confirmed = False
        details = f"{self._right[-1]}." if kind in ("address", "refund") else "I ordered the wrong thing."
        self._topics = [
            Topic("the number of the order", "number|which order|order id", f"It is {self._order}."),
            Topic("the new address, the item, or the reason", "address|item|which|reason|why|where", details),
            Topic("whether the agent may go ahead with the change", _CONFIRMING, "Yes, please."),
        ]

    @property
    def actions(self) -> Mapping[str, Callable[..., str]]:
        changes: dict[str, Callable[..., str]] = {name: self._changing(name) for name in _CHANGES.values()}
        return {"action": self._say, "get_order": self._look, **changes, "finish": self._finish}

    def _finish(self, text: str) -> str:
        del text
        return "Goodbye."

    def _say(self, text: str) -> str:
        found = self._hear(text, self._topics)
        self._confirmed |= 2 in found and self._seen
        return " ".join(self._topics[at].says for at in found) or "All right."

    def _look(self, order: str) -> str:
        if order != self._order:
            raise ToolFailed(f"there is no order {order}")
        self._seen = True
        return f"Order {order}: one {self._item}, {self._status}"

    def _changing(self, tool: str) -> Callable[..., str]:
        def change(*arguments: str) -> str:
            allowed = "delivered" if tool == "refund_item" else "processing"
            if arguments[0] != self._order or not self._seen:
                raise ToolFailed("look at the order first")
            if self._status != allowed:
                raise ToolFailed(f"the order is {self._status}: that is not possible")
            self._changes.append((tool, *arguments))
            return "done"

        return change

    def reward(self) -> float:
        if not (self.over and self._seen):
            return 0.0
        return float(
            self._changes == ([self._right] if self._right[0] else []) and (self._confirmed or not self._right[0])
        )


def _order_of(number: int) -> str:
    return f"W{4100 + 37 * number}"


def _change_of(number: int) -> tuple[str, ...]:
    kind, order = _KINDS[number % len(_KINDS)], _order_of(number)
    more = {"address": (_STREETS[number % len(_STREETS)],), "refund": (_ITEMS[number % len(_ITEMS)],)}
    return (_CHANGES.get(kind, ""), order, *more.get(kind, ()))


def tau_tasks() -> list[GymTask]:
    """20 orders: five to cancel, five to send elsewhere, five with an item to refund, five where it must be refused."""
    return [
        GymTask(f"tau-{at}", kind, _WISHES[kind], _right_calls(at))
        for at in range(_ORDERS)
        for kind in (_KINDS[at % len(_KINDS)],)
    ]


def _right_calls(number: int) -> list[tuple[str, Any]]:
    tool, order, *more = _change_of(number)
    asked: list[tuple[str, Any]] = [
        ("action", "What is the number, and which item or address is it about?"),
        ("get_order", order),
    ]
    if tool:
        fields = next(
            one["function"]["parameters"]["required"] for one in _TAU_TOOLS if one["function"]["name"] == tool
        )
        asked += [("action", "Shall I go ahead?"), (tool, dict(zip(fields, (order, *more), strict=True)))]
    return [*asked, ("finish", "Done.")]


def tau_episode(task: str, hear: Hearing) -> GymEpisode:  # noqa: D103
    return TauEpisode(int(task.rpartition("-")[2]), hear)
