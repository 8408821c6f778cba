"""Gyms in which the agent looks things up or acts for a user: persuade, search and tau (PRIME 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any, Final

from hepm.lab.environments import ToolFailed
from hepm.lab.environments.answers import exact_match
from hepm.lab.environments.gyms.episode import GymEpisode, action_tool, records
from hepm.lab.environments.gyms.topics import Topic, matched
from hepm.lab.environments.island import Paragraph, paragraphs
from hepm.lab.environments.questions import Corpus

# How agents ask whether they may go ahead.
_CONFIRMING: Final = "confirm|proceed|shall i|should i|go ahead|is that right|okay to|do you want me"
# How they refuse.
_REFUSING: Final = "cannot|can.?t\\b|can not|unable|not able|not possible|impossible|not allowed|refuse|too late"


@cache
def _library() -> Corpus:
    known: list[Paragraph] = []
    for record in records("persuade"):
        known += [Paragraph(record["claim"], text) for text in record["evidence"]]
    return Corpus(known)


class PersuadeEpisode(GymEpisode):
    """A user with three doubts, voiced one after the other; the reward is the share of those that were answered.

    An argument counts if it brings evidence against the doubt that was voiced last, and no other: `key` holds the words
    of each. A message that brings several is a list.
    """

    system = (
        "Change the user's mind. Hear the doubt, search for a fact that answers it, and bring that fact as argument, "
        "one doubt after the other. Then finish. Actions: action (an argument), search, finish."
    )
    tools = (action_tool("action"), action_tool("search"), action_tool("finish"))

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._answered = 0
        for doubt, key in zip(record["doubts"], record["key"], strict=True):
            self.topics.append(Topic(key, doubt))

    def do_action(self, text: str) -> str:
        """Hear an argument."""
        if self._answered == len(self.topics):
            return "I agree with you."
        if _pieces(text) > 1:
            return f"One argument at a time, please. {self.topics[self._answered].says}"
        if self._answered in self.heard(text):
            self._answered += 1
            self.score = self._answered / len(self.topics)
        elif not text.strip().endswith("?"):  # a question is no argument that failed
            return f"That does not convince me. {self.topics[self._answered].says}"
        if self._answered == len(self.topics):
            return "You have convinced me."
        return self.topics[self._answered].says

    def do_search(self, text: str) -> str:
        """Evidence."""
        return _library().answer(text)


def _pieces(text: str) -> int:
    """How many pieces of evidence a text brings, for whatever claim."""
    keys = chain.from_iterable(record["key"] for record in records("persuade"))
    return sum(bool(matched(key, text)) for key in keys)


@cache
def _island() -> Corpus:
    return Corpus(paragraphs())


class SearchEpisode(GymEpisode):
    """A question over three paragraphs of the island; the reward is the exact match of the answer."""

    system = (
        "Answer the user's question from what you find, in as few words as it takes. It needs several searches, each "
        "with a name that the last one gave. Actions: search, answer."
    )
    tools = (action_tool("search"), action_tool("answer"))

    def do_search(self, text: str) -> str:
        """Paragraphs."""
        return _island().answer(text)

    def do_answer(self, text: str) -> str:
        """Judge the answer, as in the benchmark of questions: punctuation and articles do not count."""
        self.score = exact_match(text, self.record["answers"])
        return "Right." if self.score else "Wrong."


class ShopEpisode(GymEpisode):
    """An order is changed by policy, after the user confirmed.

    The reward is 1 if the order was looked at, and then changed as it should be, once, after a confirmation. Where the
    policy forbids a change (`change` is empty), it is 1 if none was tried and the user was told so after the look.
    """

    system = (
        "You serve customers of a shop. Ask for the number of the order and look at it. Orders that are processing "
        "alone can be cancelled or sent elsewhere, and only items of delivered ones refunded; refuse all else. Before "
        "you change an order, say what you will do and ask whether you may go ahead. Then finish."
    )
    tools = (
        action_tool("action"),
        action_tool("get_order", "An order by its number"),
        action_tool("cancel_order", "Cancel an order by its number"),
        action_tool("change_address", "Send an order to another address", ("order", "address")),
        action_tool("refund_item", "Refund an item of an order", ("order", "item")),
        action_tool("finish"),
    )

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._changes: list[list[str]] = []
        self._seen = self._confirmed = self._refused = False
        self.topics = [
            Topic("number|which order|order id", f"It is {record['order']}."),
            Topic("address|item|which|reason|why|where", record["details"]),
            Topic(_CONFIRMING, "Yes, please."),
        ]

    def do_action(self, text: str) -> str:
        """Hear what the agent says."""
        heard = self.heard(text)
        # Topic 2 is the confirmation; given before the order was looked at, it confirms nothing.
        if 2 in heard and self._seen:
            self._confirmed = True
        self._hear_refusal(text)
        return " ".join(self.topics[position].says for position in heard) or "All right."

    def do_finish(self, text: str) -> str:
        """End the conversation; a refusal may be told here too."""
        self._hear_refusal(text)
        return super().do_finish(text)

    def _hear_refusal(self, text: str) -> None:
        self._refused |= self._seen and bool(matched(_REFUSING, self.own_words(text)))

    def do_get_order(self, order: str) -> str:
        """Show the order."""
        if order != self.record["order"]:
            raise ToolFailed(f"there is no order {order}")
        self._seen = True
        return f"Order {order}: one {self.record['item']}, {self.record['status']}"

    def do_cancel_order(self, order: str) -> str:
        """Cancel an order that is not sent yet."""
        return self._change("processing", "cancel_order", order)

    def do_change_address(self, order: str, address: str) -> str:
        """Send an order elsewhere that is not sent yet."""
        return self._change("processing", "change_address", order, address)

    def do_refund_item(self, order: str, item: str) -> str:
        """Refund what arrived."""
        return self._change("delivered", "refund_item", order, item)

    def _change(self, allowed: str, *change: str) -> str:
        if change[1] != self.record["order"] or not self._seen:
            raise ToolFailed("look at the order first")
        status = self.record["status"]
        # Tried is tried: an agent that lets the shop refuse keeps no policy.
        self._changes.append([*change])
        if status != allowed:
            raise ToolFailed(f"the order is {status}: that is not possible")
        return "done"

    def reward(self) -> float:
        """1 for the right change, confirmed; where the right answer is a refusal, for saying so and no change."""
        right = self.record["change"]
        if not (self.over and self._seen):
            return 0.0
        if not right:
            return float(self._refused and not self._changes)
        return float(self._confirmed and self._changes == [right])
