"""What answers the agent of a bench: a model at an endpoint, the authors' gold actions, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Event, Lock
from typing import Final

from hepm.agents.loop import ChatModel, Complete
from hepm.agents.wire import Object
from hepm.errors import LlmError
from hepm.evals.bench.folder import Folder, Key
from hepm.evals.environments import Task
from hepm.llm import Budget, Client, Endpoint, Prices, Usage
from hepm.llm.usage import estimate_tokens

GOLD: Final = "gold"
NONE: Final = "none"


class StoppedError(LlmError):
    """The command is ending: no further request is sent."""


@dataclass
class Model:
    """What answers. Threads may share it.

    Attributes:
        complete: Answers the requests of a run of a task.
        client: Asks for reflections and verdicts; None where no model is asked.
        paid_before: How many answers came from the folder.
        stop: Set when no further request is to be sent.
    """

    complete: Callable[[Task | None], Complete]
    folder: Folder
    client: Client | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Prices | None = None
    paid_before: int = 0
    stop: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)

    def recorded(self, key: Key, task: Task | None = None) -> Complete:
        """Answers of one run, in order, from the folder; others are asked for, and recorded before they are used."""
        numbers, complete = count(), self.complete(task)

        def answer(body: Object) -> Object:
            number = next(numbers)
            if (found := self.folder.answer(key, number, body)) is not None:
                with self._lock:
                    self.paid_before += 1
                return found
            if self.stop.is_set():
                raise StoppedError("the command is ending")
            most, used = self._most(body), Usage()
            self.budget.hold(most)
            try:
                found = complete(body)
                used = self._usage(body, found)
                self.folder.add_answer(key, number, body, found, used)
            finally:
                self.budget.settle(most, used)
            return found

        return answer

    def _most(self, body: Object) -> Usage:
        """The most that a request may take: its own tokens, and the answer's where the request limits them."""
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        most = Usage(1, tokens_of(body), 0, limit if isinstance(limit, int) else 0, estimated=True)
        return replace(most, cost_usd=self.prices and self.prices.cost_usd(most))

    def _usage(self, body: Object, completion: Object) -> Usage:
        """What an answer took, as the endpoint reports it; estimated if it does not."""
        if self.client is None:
            return Usage(1)
        reported: Object = completion.get("usage") or {}
        sent, answered = reported.get("prompt_tokens"), reported.get("completion_tokens")
        cached: Object = reported.get("prompt_tokens_details") or {}
        if isinstance(sent, int) and isinstance(answered, int):
            used = Usage(1, sent, min(cached.get("cached_tokens") or 0, sent), answered)
        else:
            message = completion["choices"][0]["message"]
            used = Usage(1, tokens_of(body), 0, tokens_of(message), estimated=True)
        return replace(used, cost_usd=self.prices and self.prices.cost_usd(used))


@contextmanager
def open_model(endpoint: Endpoint, folder: Folder, *, budget: Budget, prices: Prices | None) -> Generator[Model]:
    """The model at an endpoint; `GOLD` and `NONE` need none."""
    if endpoint.model in (GOLD, NONE):
        yield Model(_gold if endpoint.model == GOLD else lambda task: _none, folder, budget=budget)
        return
    with (
        ChatModel(endpoint) as chat,
        Client(endpoint, ledger=folder, budget=budget, prices=prices) as client,
    ):
        yield Model(lambda task: chat, folder, client, budget, prices)


def tokens_of(part: object) -> int:
    """About how many tokens a part of a request has."""
    return estimate_tokens(json.dumps(part, ensure_ascii=False))


def _completion(text: str, *calls: Object) -> Object:
    return {
        "choices": [{"message": {"role": "assistant", "content": text, **({"tool_calls": [*calls]} if calls else {})}}]
    }


def _none(body: Object) -> Object:
    del body
    return _completion("")


def _in_tags(step: Object) -> Object:
    """A completion as a `TaggedAgent` reads it, which is offered no tools."""
    message = step["choices"][0]["message"]
    calls = [f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", ())]
    tag, text = ("search_knowledge", calls[0]) if calls else ("answer", message["content"] or "Done.")
    return _completion(f"<{tag}>{text}</{tag}>")


def _gold(task: Task | None) -> Complete:
    steps: list[Object] = []
    for turn in task.gold if task else ():
        for call in turn.calls:
            function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
            steps.append(_completion("", {"id": f"call_{len(steps)}", "type": "function", "function": function}))
        steps.append(_completion(turn.text))

    def complete(body: Object) -> Object:
        if body.get("tool_choice") == "none":
            return _completion("No")
        done = sum(message["role"] == "assistant" for message in body["messages"])
        step = steps[done] if done < len(steps) else _completion("")
        return step if "tools" in body else _in_tags(step)

    return complete
