"""The service desks as an environment: several troubles in a row, all of which must be solved.

No package and no model is needed, so that a training can be tried in a minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Literal

from hepm.evals.environments import Schema, Task, ToolFailed
from hepm.evals.service_desk import ACTS, CHECKS, CLOSINGS, LOOKUPS, Desk
from hepm.evals.service_desk import DeskRun as Trouble

Split = Literal["train", "test"]


class DeskEpisode:
    """A run. Each trouble ends with its closing call, or after as many calls as a desk allows."""

    def __init__(self, desk: Desk, troubles: Sequence[Trouble], most_calls: int) -> None:
        self.tools: Sequence[Schema] = [_schema(tool) for tool in desk.tools]
        self._troubles, self._most = troubles, most_calls
        self._calls: tuple[str, ...] = ()
        self._solved: list[bool] = []

    @property
    def _over(self) -> bool:
        return len(self._calls) >= self._most or self._now.kind.outcome(self._calls) is not None

    @property
    def _now(self) -> Trouble:
        return self._troubles[len(self._solved)]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if arguments or tool not in {schema["function"]["name"] for schema in self.tools}:
            raise ToolFailed(f"there is no tool {tool} with these arguments")
        if self._over:
            raise ToolFailed("this trouble is closed: answer the user")
        self._calls += (tool,)
        return str(self._now.messages(self._calls)[-1]["content"])

    def answer(self, text: str) -> str | None:
        """The next trouble, whether this one was solved or not; None after the last one."""
        del text
        self._solved.append(self._now.kind.outcome(self._calls) is True)
        self._calls = ()
        return self._now.user if len(self._solved) < len(self._troubles) else None

    def reward(self) -> float:
        return float(sum(self._solved) == len(self._troubles))

    def scores(self) -> Mapping[str, float]:
        return {"solved": sum(self._solved) / len(self._troubles)}

    def close(self) -> None: ...


class DeskEnvironment:
    """Tasks of `troubles` troubles each, of kinds drawn by weight; test tasks in wordings that no log and no train task
    holds."""

    def __init__(self, desk: Desk, *, troubles: int = 1, train: int = 400, test: int = 96, most_calls: int = 6) -> None:
        self.desk, self.troubles, self.most_calls = desk, troubles, most_calls
        self.name = f"service-desk-{desk.seed}"
        numbers: dict[Split, int] = {"train": train, "test": test}
        self._worded = {
            f"{split}-{number}": self._draw(split, number) for split, many in numbers.items() for number in range(many)
        }

    def tasks(self) -> Sequence[Task]:
        return [
            Task(name, troubles[0].user, family=name, split=name.partition("-")[0])
            for name, troubles in self._worded.items()
        ]

    def troubles_of(self, task: Task) -> Sequence[Trouble]:
        """The troubles of a task, in order."""
        return self._worded[task.id]

    def start(self, task: Task, *, seed: int = 0) -> DeskEpisode:
        del seed
        return DeskEpisode(self.desk, self._worded[task.id], self.most_calls)

    def close(self) -> None: ...

    def _draw(self, split: Split, number: int) -> list[Trouble]:
        kinds = self.desk.kinds
        drawn = Random(f"{self.desk.seed} {split} {number}").choices(kinds, [k.weight for k in kinds], k=self.troubles)
        return [
            self.desk.episode(f"{split} {number} {at}", kind, seen=split == "train") for at, kind in enumerate(drawn)
        ]


def _schema(tool: str) -> Schema:
    kinds = {"look something up": LOOKUPS, "check": CHECKS, "close the case": CLOSINGS, "act": ACTS}
    about = next(name for name, tools in kinds.items() if tool in tools)
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": tool, "description": about, "parameters": empty}}
