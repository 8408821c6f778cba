"""A service desk for parcels, as an environment, and the model that works there: without a hint it guesses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import md5
from typing import Any, Final

from hepm.lab.environments import Ask, Schema, Task, ToolFailed
from hepm.llm import Endpoint
from hepm.types import SUMMARY_TOOL, ToolCall, Turn
from tests.loopback import Reply, Request, completion

RIGHT: Final = {
    "late": "apologise",
    "broken": "refund",
    "mistaken": "replace",
    "lost": "refund",
    "damp": "replace",
    "heavy": "apologise",
}
"""What helps where a parcel is so."""
ACTIONS: Final = sorted(set(RIGHT.values()))
NAMES: Final = ("Ada", "Ben", "Cleo", "Dana")


class Desk:
    """One conversation."""

    def __init__(self, task: Task) -> None:
        self.right, self.done, self.seen = RIGHT[task.id.partition("-")[0]], list[str](), False

    @property
    def tools(self) -> Sequence[Schema]:
        parameters = {"type": "object", "properties": {"parcel": {"type": "integer"}}}
        return [
            {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}
            for name in ("get_parcel", *ACTIONS)
        ]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if tool != "get_parcel" and not self.seen:
            raise ToolFailed("look at the parcel first")
        self.seen = True
        self.done += [tool] if tool != "get_parcel" else []
        return json.dumps({"parcel": arguments.get("parcel"), "done": tool})

    def answer(self, text: str) -> str | None:
        del text
        return None

    def reward(self) -> float:
        return float(self.done == [self.right])

    def scores(self) -> Mapping[str, float]:
        """Whether no money was given away, where none is due."""
        return {} if self.right == "refund" else {"thrift": float("refund" not in self.done)}

    def close(self) -> None:
        pass


class Parcels:
    """24 tasks of four customers, who are families; no split, or Ada and Ben to learn from."""

    def __init__(self, *, split: bool = False) -> None:
        self.name = "parcels"
        self._split = split

    def tasks(self) -> Sequence[Task]:
        return [
            Task(
                f"{kind}-{name}",
                f"I am {name}. My parcel {number} is {kind}, what now?",
                system="You work at a service desk.",
                family=name,
                split=("train" if name in NAMES[:2] else "test") if self._split else "",
                gold=(
                    Turn(
                        "assistant",
                        "",
                        (ToolCall("get_parcel", {"parcel": number}), ToolCall(right, {"parcel": number})),
                    ),
                ),
            )
            for number, name in enumerate(NAMES)
            for kind, right in RIGHT.items()
        ]

    def start(self, task: Task, *, seed: int = 0) -> Desk:
        del seed
        return Desk(task)

    def close(self) -> None:
        pass


class PaidDesk(Desk):
    """Half of the reward is for looking at the parcel."""

    def reward(self) -> float:
        return (self.seen + super().reward()) / 2


class GradedParcels(Parcels):
    """The same tasks, whose rewards are graded."""

    def start(self, task: Task, *, seed: int = 0) -> Desk:
        return PaidDesk(task)


class Talk(Desk):
    """A conversation that a model begins and ends, as the customer."""

    def __init__(self, task: Task, seed: int, ask: Ask) -> None:
        super().__init__(task)
        self._wish, self._seed, self._ask, self._texts = task.system, seed, ask, list[str]()

    def answer(self, text: str) -> str | None:
        self._texts.append(text)
        messages = [{"role": "user", "content": one} for one in (self._wish, *self._texts)]
        reply = self._ask({"model": "customer", "messages": messages, "seed": self._seed})
        said = str(reply["choices"][0]["message"]["content"])
        return None if said == "STOP" else said


class TalkingParcels(Parcels):
    """The same tasks; a model plays the customer."""

    def tasks(self) -> Sequence[Task]:
        return [replace(task, request="", system=task.request) for task in super().tasks()]

    @property
    def user(self) -> Endpoint:
        return Endpoint.from_environment(model="customer")

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> Desk:
        assert ask
        return Talk(task, seed, ask)


def customer_or_clerk(request: Request) -> Reply:
    """Plays both sides."""
    if request.body["model"] != "customer":
        return clerk(request)
    first, *texts = (message["content"] for message in request.body["messages"])
    return completion("STOP" if len(texts) > 1 else first, usage=(100, 50))


def split_parcels() -> Parcels:
    return Parcels(split=True)


class Counters(Parcels):
    """The same tasks, at two counters with names of their own."""

    def tasks(self) -> Sequence[Task]:
        return [replace(task, place="north" if task.id < "h" else "south") for task in super().tasks()]


def split_counters() -> Counters:
    return Counters(split=True)


def clerk(request: Request) -> Reply:
    """Looks at the parcel, notes a summary if it can, does what a hint says or else something, and ends."""
    messages = request.body["messages"]
    every = [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())]
    called = [name for name in every if name != SUMMARY_TOOL]
    wish = next(message["content"] for message in messages if message["role"] == "user")
    if "tools" not in request.body:
        return completion("Do another thing.")
    parcel = {"parcel": int(re.search(r"parcel (\d+)", wish)[1])}  # pyright: ignore
    if "tool_choice" in request.body:
        return completion("Yes" if "Yes" in messages[-1]["content"] else f"The customer says: {wish}")
    if not called:
        return completion(None, tool_calls=[("get_parcel", parcel)])
    if len(called) > 1:
        return completion("Done.")
    offered = [tool["function"]["name"] for tool in request.body["tools"]]
    if SUMMARY_TOOL in offered and SUMMARY_TOOL not in every:
        return completion(None, tool_calls=[(SUMMARY_TOOL, {"summary": f"The customer says: {wish}"})])
    text = "\n".join(str(message["content"]) for message in (messages[0], messages[-1]))
    named = [
        name
        for line in re.findall("Suggested next tools: (.*)", text)
        for name in re.findall(r"\w+(?= \((?:right|\d)|, |$)", line)
    ]
    advised = [name for name in named if name in ACTIONS]
    wish = wish.partition("\n")[0]
    guess = ACTIONS[int(md5(wish.encode()).hexdigest(), 16) % len(ACTIONS)]
    if "Your own advice" in text:  # it tries another action
        guess = ACTIONS[(ACTIONS.index(guess) + text.count("\n- ")) % len(ACTIONS)]
    return completion(None, tool_calls=[((advised or [guess])[0], parcel)], usage=(20, 5))


_LESSON = re.compile(r'is (\w+), what now.*?led to (success|failure)[^"]*: get_parcel, then (\w+)\.')


def learner(request: Request) -> Reply:
    """Does what lessons on such a parcel say that worked, else something that they do not say failed."""
    messages = request.body["messages"]
    called = [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())]
    wish = next(message["content"] for message in messages if message["role"] == "user")
    number, kind = re.search(r"parcel (\d+) is (\w+)", wish).groups()  # pyright: ignore
    parcel = {"parcel": int(number)}
    if len(called) > 1:
        return completion("Done.")
    if not called:
        return completion(None, tool_calls=[("get_parcel", parcel)])
    return completion(
        None, tool_calls=[(_chosen(kind, wish, "\n".join(str(m.get("content")) for m in messages)), parcel)]
    )


def _chosen(kind: str, wish: str, lessons: str) -> str:
    ways = [(end, tool) for about, end, tool in _LESSON.findall(lessons) if about == kind]
    worked = [tool for end, tool in ways if end == "success"]
    left = [tool for tool in ACTIONS if ("failure", tool) not in ways]
    return (worked or [left[int(md5(wish[:40].encode()).hexdigest(), 16) % len(left)]])[0]


def tagging(request: Request) -> Reply:
    """As an agent with tags: asks memory, looks at the parcel, does what a principle says or else something, ends."""
    messages = request.body["messages"]
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    wish = messages[1]["content"]
    parcel = re.search(r"parcel (\d+)", wish)[1]  # pyright: ignore
    advised = re.search(r"guiding, score [\d.]+: .*?call (\w+)", "\n".join(m["content"] for m in messages))
    action = advised[1] if advised else _chosen("", wish, "")
    steps = (
        "I am not sure what to do.",
        f"<think>Did others see this?</think><search_experience>parcels: {wish} get_parcel led to</search_experience>",
        f'<think>Look.</think><search_knowledge>get_parcel {{"parcel": {parcel}}}</search_knowledge>invented',
        f'<search_knowledge>{{"name": "{action}", "arguments": {{"parcel": {parcel}}}}}</search_knowledge>',
        "<think>That is all.</think><answer>Done.</answer>",
    )
    return completion(steps[len(said)])
