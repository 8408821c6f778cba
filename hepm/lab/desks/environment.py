"""The service desks as an environment: several troubles in a row, all of which must be solved.

No package and no model is needed, so that a training or a bench can be tried in a minute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from hepm.lab.bench.models import completion, tool_call
from hepm.lab.desks.service_desk import CHECKS, CLOSINGS, LOOKUPS, MOST_CALLS, Desk, make_desk
from hepm.lab.desks.service_desk import DeskRun as Trouble
from hepm.lab.environments import Ask, Task, ToolFailed, tool_schema
from hepm.types import FAILED_HINT, HINT, SUMMARY_TOOL, ToolName

DESKS: Final = 3
"""How many desks `hepm bench` knows by name: service-desk-0 and the next ones."""
LOGGED_RUNS: Final = 100  # of a desk of `hepm bench`, to learn from


class DeskEpisode:
    """A run. Each trouble ends with its closing call, or after as many calls as a desk allows."""

    def __init__(self, desk: Desk, troubles: Sequence[Trouble], most_calls: int) -> None:
        self.tools = [tool_schema(tool, _ABOUT.get(tool, "act"), {}) for tool in desk.tools]
        self._troubles = troubles
        self._most = most_calls
        self._calls: tuple[str, ...] = ()
        self._solved: list[bool] = []

    @property
    def _finished(self) -> bool:
        return len(self._calls) >= self._most or self._now.kind.outcome(self._calls) is not None

    @property
    def _now(self) -> Trouble:
        return self._troubles[len(self._solved)]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What the tool returns; ToolFailed for one that is not there, and once the trouble is closed."""
        if arguments or tool not in {schema["function"]["name"] for schema in self.tools}:
            raise ToolFailed(f"there is no tool {tool} with these arguments")
        # The agent has to answer before the next trouble begins.
        if self._finished:
            raise ToolFailed("this trouble is closed: answer the user")
        self._calls += (tool,)
        return str(self._now.messages(self._calls)[-1]["content"])

    def answer(self, text: str) -> str | None:
        """The next trouble, whether this one was solved or not; None after the last one."""
        del text
        self._solved.append(self._now.kind.outcome(self._calls) is True)
        self._calls = ()
        if len(self._solved) == len(self._troubles):
            return None
        return self._now.user

    def reward(self) -> float:
        """1 if all troubles were solved."""
        return float(sum(self._solved) == len(self._troubles))

    def scores(self) -> Mapping[str, float]:
        """The share of troubles that were solved, if there are several."""
        if len(self._troubles) == 1:
            return {}  # the reward says it
        return {"solved": sum(self._solved) / len(self._troubles)}

    def close(self) -> None:
        """Nothing is held."""


class DeskEnvironment:
    """Tasks of `troubles` troubles each, of kinds drawn by weight; test tasks in wordings that no log and no train task
    holds."""

    def __init__(self, desk: Desk, *, troubles: int = 1, train: int = 400, test: int = 96, most_calls: int = 6) -> None:
        self.desk = desk
        self.troubles = troubles
        self.most_calls = most_calls
        self.name = f"service-desk-{desk.seed}"
        self._tasks = {"train": train, "test": test}

    def tasks(self) -> Sequence[Task]:
        """Those to learn from, then those to test."""
        tasks: list[Task] = []
        for split, many in self._tasks.items():
            for number in range(many):
                id = f"{split}-{number}"
                tasks.append(Task(id, self._troubles(id)[0].user, family=id, split=split))
        return tasks

    def troubles_of(self, task: Task) -> Sequence[Trouble]:
        """The troubles of a task, in order."""
        return self._troubles(task.id)

    def start(self, task: Task, *, seed: int = 0) -> DeskEpisode:
        """A run; the troubles depend on the task alone."""
        del seed
        return DeskEpisode(self.desk, self.troubles_of(task), self.most_calls)

    def scripted(self, task: Task) -> Ask:
        """An agent that follows hints: see `DeskAgent`."""
        return DeskAgent(self.desk, self.troubles_of(task))

    def close(self) -> None:
        """Nothing is held."""

    def _troubles(self, id: str) -> list[Trouble]:
        """The troubles of the task "train-3"; the names of the episodes seed their wording."""
        split, _, number = id.partition("-")
        kinds = self.desk.kinds
        random = Random(f"{self.desk.seed} {split} {number}")
        drawn = random.choices(kinds, [kind.weight for kind in kinds], k=self.troubles)
        troubles: list[Trouble] = []
        for place, kind in enumerate(drawn):
            troubles.append(self.desk.episode(f"{split} {number} {place}", kind, seen=split == "train"))
        return troubles


# What a tool is for. Tools say no more: which act helps has to be learned.
_ABOUT: Final = {
    **dict.fromkeys(LOOKUPS, "look something up"),
    **dict.fromkeys(CHECKS, "check"),
    **dict.fromkeys(CLOSINGS, "close the case"),
}


def bench_desk(seed: int) -> DeskEnvironment:
    """A desk as `hepm bench` knows it: one trouble a task, and runs that may be as long as those of its logs."""
    return DeskEnvironment(make_desk(seed), train=LOGGED_RUNS, most_calls=MOST_CALLS)


@dataclass(frozen=True)
class DeskAgent:
    """Plays the agent of one run without a model. Its draws are those of `Desk.run`.

    It calls the first tool that a hint names. If a hint only warns, it chooses among the other tools; without one it
    acts like the agents of the logs. A request may carry `follow`, the chance that it reads the hint: 1 by default.
    Where it can note a summary, it notes the user's words and the last result before each call.
    """

    desk: Desk
    troubles: Sequence[Trouble]

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        """The chat completion for the body of a request."""
        messages: list[dict[str, Any]] = body["messages"]
        # An agent without a state of its own: all that it knows is in the request.
        calls, answers, last = _calls_of(messages)
        trouble = self.troubles[min(answers, len(self.troubles) - 1)]
        # What it notes where it can: the last result, behind the user's words.
        summary = str(trouble.messages(calls)[-1]["content"])
        if calls:
            summary = f"{trouble.user} {summary}"
        if body.get("tool_choice") == "none":  # asked whether a summary is due, or for one
            if "Write a summary" in str(messages[-1]["content"]):
                return completion(summary)
            return completion("Yes")
        # Closed, or out of calls: it says so.
        if len(calls) >= MOST_CALLS or trouble.kind.outcome(calls) is not None:
            return completion("Done.")
        offered = {tool["function"]["name"] for tool in body["tools"]}
        if SUMMARY_TOOL in offered and last != SUMMARY_TOOL:
            return completion("", tool_call(SUMMARY_TOOL, {"summary": summary}, len(messages)))
        read, draw = self.desk.draws(trouble)[len(calls)]
        named: list[ToolName] = []
        avoided: list[ToolName] = []
        if read < body.get("follow", 1.0):
            named, avoided = _hint_in(messages)
        tool = self.desk.next_call(trouble.kind, calls, draw, named, avoided)
        return completion("", tool_call(tool, {}, len(messages)))


def _calls_of(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[ToolName, ...], int, ToolName]:
    """The calls for the present trouble without summaries, how many texts came before, and the last call of all."""
    calls: tuple[ToolName, ...] = ()
    answers = 0
    last = ""
    for message in messages:
        if message["role"] != "assistant":
            continue
        if not message.get("tool_calls"):
            calls = ()
            answers += 1
        for call in message.get("tool_calls") or ():
            last = call["function"]["name"]
            if last != SUMMARY_TOOL:
                calls += (last,)
    return calls, answers, last


def _hint_in(messages: Sequence[Mapping[str, Any]]) -> tuple[list[ToolName], list[ToolName]]:
    """The tools that a hint names, and those that it warns of, in the first message or the last."""
    text = f"{messages[0]['content']}\n{messages[-1]['content']}"
    hinted: list[ToolName] = []
    avoided: list[ToolName] = []
    # "Suggested next tools: refund, ship; close_ticket: failed in 10 of 10 ..."
    for start, tools, warnings in re.findall(rf"^({HINT}|{FAILED_HINT})([^;\n]*)(.*)", text, re.MULTILINE):
        if start == HINT:
            hinted += re.findall(r"\w+", tools)
        warned = warnings if start == HINT else tools + warnings
        avoided += re.findall(r"(?:^|[,;] )(\w+)", warned)
    return hinted, avoided
