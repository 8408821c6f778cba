"""τ-bench in its authors' checkout: its retail tasks, databases, tools, reward and simulated user."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

Object = dict[str, Any]

ask: Any = None
"""Asks the model that plays the user: `serve.py` sets it."""


# Their only other package, with which their user asks its model: hepm asks instead, and keeps the answers.
sys.modules["litellm"] = SimpleNamespace(completion=None)  # type: ignore[assignment]
_retail = importlib.import_module("tau_bench.envs.retail.env")
_user = importlib.import_module("tau_bench.envs.user")
_action = importlib.import_module("tau_bench.types").Action


class _PlayedUser(_user.LLMUserSimulationEnv):
    """The authors' user, which asks for no first message before it has a task."""

    def __init__(self) -> None:
        self.total_cost = 0.0

    def generate_next_message(self, messages: list[Any]) -> str:
        said: str = ask.text(messages)
        self.messages.append({"role": "assistant", "content": said})
        return said


@cache
def _known(split: str) -> list[Any]:
    return getattr(importlib.import_module(f"tau_bench.envs.retail.tasks_{split}"), f"TASKS_{split.upper()}")


def tasks(part: str) -> Iterator[Object]:
    """The tasks of both splits, numbered in each."""
    del part
    for split in ("train", "test"):
        for number, task in enumerate(_known(split)):
            yield {
                "id": f"{split}-{number}",
                "request": "",
                "system": _retail.WIKI,
                "family": task.user_id,
                "split": split,
            }


class TauBenchEpisode:
    """A run. Their reward replays the right actions in the same environment: it is taken once, at the end."""

    def __init__(self, part: str, task: str, seed: int) -> None:
        del part, seed  # nothing is drawn
        split, _, number = task.partition("-")
        self._begun = self._ended = False
        self._reward = 0.0
        # "human" asks no model while it is made.
        self._state = _retail.MockRetailDomainEnv(user_strategy="human", task_split=split, task_index=int(number))
        self._state.user = _PlayedUser()

    def tools(self) -> list[Object]:
        return [tool["function"] for tool in self._state.tools_info]

    def call(self, tool: str, arguments: Object) -> tuple[str, bool]:
        """Run a call. One that hands the user over to a person ends the run."""
        if self._ended:
            return "the conversation has ended", True
        said = self._step(tool, arguments)
        return said, said.startswith(("Error", "Unknown action"))

    def _step(self, name: str, arguments: Object) -> str:
        done = self._state.step(_action(name=name, kwargs=arguments))
        if done.done:
            self._ended = True
            self._reward = float(done.reward)
        return done.observation

    def answer(self, text: str) -> str | None:
        """What the played user says; None at the end."""
        if self._ended:
            return None
        if not self._begun:
            self._begun = True
            return self._state.reset(self._state.task_index).observation
        reply = self._step("respond", {"content": text})
        return None if self._ended else reply

    def reward(self) -> float:
        """By the authors' comparison of databases and outputs; 0 before the end, as for a run out of steps."""
        return self._reward


start = TauBenchEpisode
