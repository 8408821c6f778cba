"""What answers the agent of a bench: a model at an endpoint, gold actions, an environment's own script, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Event
from typing import Final

from hepm.agents.loop import ChatModel, Complete
from hepm.agents.wire import Object
from hepm.errors import LlmError
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.environments import Environment, PlayedUser, Task
from hepm.llm import Budget, Client, Endpoint, Prices, Usage
from hepm.llm.usage import estimate_tokens

# Names of models that are none: the authors' actions, and nothing.
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
        judge: Asks another model for verdicts and lessons, where there is one.
        user: Answers the requests of the model that plays the user, where one does.
        player: Asks that model, where an environment has questions to it.
        stop: Set when no further request is to be sent.
        on_run: Called with the number of runs that are there, and of all.
    """

    complete: Callable[[Task], Complete]
    folder: Folder
    client: Client | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Prices | None = None
    user: Complete | None = None
    judge: Client | None = None
    player: Client | None = None
    stop: Event = field(default_factory=Event)
    on_run: Callable[[int, int], object] = lambda done, total: None
    _longest: int = 0

    def run_all(self, jobs: Sequence[Callable[[], object]], *, concurrency: int) -> None:
        """Run jobs that ask it in threads. The first error stops the others; answers under way are recorded before."""
        pool = ThreadPoolExecutor(concurrency, thread_name_prefix="hepm-bench")
        try:
            for future in as_completed([pool.submit(job) for job in jobs]):
                future.result()
        except BaseException:
            self.stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def recorded(self, key: Key, task: Task) -> Complete:
        """Answers of one run, in order, from the folder; others are asked for, and recorded before they are used."""
        return self._recorded(key, self.complete(task), asked=self.client is not None)

    def recorded_user(self, key: Key) -> Complete:
        """As `recorded`, for the model that plays the user in a run."""
        assert self.user
        return self._recorded(key.of_user, self.user, asked=True)

    def _recorded(self, key: Key, complete: Complete, *, asked: bool) -> Complete:
        numbers = count()  # of the requests of this run: the same request may come twice, with another answer

        def answer(body: Object) -> Object:
            """The recorded answer to the next request, else the model's, which is recorded."""
            number = next(numbers)
            recorded = self.folder.answer(key, number, body)
            if recorded is not None:
                self.budget.add_paid_before()
                return recorded
            if self.stop.is_set():
                raise StoppedError("the command is ending")
            most = self._most(body)
            used = Usage()
            # Held before it is sent: requests of other threads together must not go beyond the budget.
            self.budget.hold(most)
            try:
                completion = complete(body)
                used = Usage(1)
                if asked:
                    used = self._usage(body, completion)
                self._longest = max(self._longest, used.output_tokens)
                self.folder.add_answer(key, number, body, completion, used)
            finally:
                # Also of a request that failed: what was held for it is free again.
                self.budget.release(most, used)
            return completion

        return answer

    def _most(self, body: Object) -> Usage:
        """What is reserved for a request: its tokens, and its limit for the answer, or else the longest one so far."""
        # Without a limit, an answer may be longer than any so far: the budget is then exceeded once.
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or self._longest
        return self._priced(Usage(1, tokens_of(body), 0, limit, estimated=True))

    def _priced(self, usage: Usage) -> Usage:
        return replace(usage, cost_usd=self.prices and self.prices.cost_usd(usage))

    def _usage(self, body: Object, completion: Object) -> Usage:
        """What an answer took, as the endpoint reports it; estimated if it does not."""
        reported: Object = completion.get("usage") or {}
        sent = reported.get("prompt_tokens")
        answered = reported.get("completion_tokens")
        if not isinstance(sent, int) or not isinstance(answered, int):
            message = completion["choices"][0]["message"]
            return self._priced(Usage(1, tokens_of(body), 0, tokens_of(message), estimated=True))
        details: Object = reported.get("prompt_tokens_details") or {}
        cached = min(details.get("cached_tokens") or 0, sent)  # part of what was sent, whatever a server reports
        return self._priced(Usage(1, sent, cached, answered))


@contextmanager
def open_model(
    endpoint: Endpoint,
    folder: Folder,
    *,
    budget: Budget,
    prices: Prices | None,
    environment: Environment | None = None,
    judge: Endpoint | None = None,
    on_run: Callable[[int, int], object] = lambda done, total: None,
) -> Generator[Model]:
    """The model at an endpoint; `GOLD` and `NONE` need none.

    Where a model plays the user of the environment, it is asked within the same budget.
    """
    with ExitStack() as stack:
        asking: Object = {"ledger": folder, "budget": budget, "prices": prices}
        model = Model(lambda task: lambda body: completion(""), folder, budget=budget, prices=prices, on_run=on_run)
        if isinstance(environment, PlayedUser):
            model.user = stack.enter_context(ChatModel(environment.user))
            model.player = stack.enter_context(Client(environment.user, **asking))
        if endpoint.model == GOLD:
            model.complete = _gold
        elif endpoint.model != NONE:
            chat = stack.enter_context(ChatModel(endpoint))
            model.complete = lambda task: chat
            model.client = stack.enter_context(Client(endpoint, **asking))
        if judge is not None:
            model.judge = stack.enter_context(Client(judge, **asking))
        yield model


def tokens_of(part: object) -> int:
    """About how many tokens a part of a request has."""
    return estimate_tokens(json.dumps(part, ensure_ascii=False))


def completion(text: str, *calls: Object) -> Object:
    """An answer of a model, of a text and calls."""
    message: Object = {"role": "assistant", "content": text}
    if calls:  # servers refuse an empty list of calls in a message that is sent back
        message["tool_calls"] = list(calls)
    return {"choices": [{"message": message}]}


def _gold(task: Task) -> Complete:
    """The gold calls of a task one after another, each turn's text behind its calls, then nothing."""
    steps: list[Object] = []
    for turn in task.gold:
        for call in turn.calls:
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            steps.append(completion("", {"id": f"call_{len(steps)}", "type": "function", "function": function}))
        steps.append(completion(turn.text))

    def complete(body: Object) -> Object:
        if body.get("tool_choice") == "none":
            return completion("No")  # asked whether a summary is due
        done = sum(message["role"] == "assistant" for message in body["messages"])
        return steps[done] if done < len(steps) else completion("")

    return complete
