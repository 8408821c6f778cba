"""What a bench will ask, counted on a few of its runs, in which the authors' own actions stand for the model's answers.

The environment answers them, so that conversations grow as they will; memory is made of these runs, so that prompts
hold what it says. No model is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Final, TypeVar, cast

from hepm.agents.loop import Complete
from hepm.agents.wire import Object
from hepm.errors import AnswerError, InputError
from hepm.lab.bench.arms import ARMS, reflection_on
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.models import Model, completion, gold_step, tool_call
from hepm.lab.bench.play import Bench
from hepm.lab.environments import Episode, PlayedUser, Task
from hepm.llm import Client, Endpoint, Question, Usage
from hepm.llm.client import Failed
from hepm.types import SUMMARY_TOOL

_T = TypeVar("_T")
MOST_TASKS: Final = 12
"""Tasks that are rehearsed, evenly spread over all."""
ANSWER_TOKENS: Final = 200
"""About what a model answers to a question about a run."""
_SUMMARY: Final = (
    "Yes. The user said what is wanted, and for what; the record was found by its number, and holds what the request "
    "names. What is allowed here was checked. Nothing was changed yet; the change itself is still to be made."
)
"""Stands for an answer to the questions whether a summary is due, and for that."""
_HEARD: Final = "Yes, that is right. Please go on with it as you said, and tell me when it is done."
"""Stands for what a played user says."""


def estimate(bench: Bench, keys: Sequence[Key]) -> Usage:
    """About what runs take that wait to be made.

    Raises:
        InputError: no run could be rehearsed.
    """
    if not keys:
        return Usage(estimated=True)
    with TemporaryDirectory(prefix="hepm-rehearsal-") as place, Folder(Path(place), {}) as folder:
        rehearsed = _Rehearsal(bench, folder)
        client = _CountingClient(bench.endpoint)
        rehearsed.play(Model(_played, folder, client, user=lambda body: completion(_HEARD)))
        return _scaled(rehearsed, client.questions, keys)


def _scaled(rehearsed: Bench, questions: Usage, keys: Sequence[Key]) -> Usage:
    """What runs take, as the rehearsed ones of their arms did in the mean."""
    took: defaultdict[str, list[Usage]] = defaultdict(list)
    for key in rehearsed.ended:
        took[key.arm].append(rehearsed.folder.usage(key) + rehearsed.folder.usage(key.of_user))
    if not took:
        reason = next(iter(rehearsed.failed.values()), "there is no run")
        raise InputError(f"the cost cannot be estimated, as no run could be rehearsed: {reason}")
    total = _times(questions, len(keys) / len(rehearsed.ended))
    for arm in dict.fromkeys(key.arm for key in keys):
        runs = [key for key in keys if key.arm == arm]
        # An arm whose rehearsal broke off is taken for the mean of the others.
        known = took[arm] or [usage for of_arm in took.values() for usage in of_arm]
        total += _times(sum(known, Usage()), len(runs) / len(known))
        if ARMS[arm].reflects:
            # A reflection after each trial but the last, if it fails.
            about = fmean(reflection_on(ended.run).input_tokens() for ended in rehearsed.ended.values())
            again = sum(key.trial > 0 for key in runs)
            total += Usage(again, round(again * about), 0, again * ANSWER_TOKENS)
    return replace(total, estimated=True)


def _times(usage: Usage, times: float) -> Usage:
    return Usage(round(times * usage.calls), round(times * usage.input_tokens), 0, round(times * usage.output_tokens))


class _Rehearsal(Bench):
    """A few tasks of a bench, one trial each."""

    def __init__(self, bench: Bench, folder: Folder) -> None:
        options = replace(bench.options, trials=1, rollouts=min(bench.options.rollouts, 1), concurrency=1)
        super().__init__(bench.environment, _some(bench.tested), folder, bench.endpoint, options, given=bench.given)

    def _start(self, key: Key, task: Task) -> Episode:
        episode = super()._start(key, task)
        if isinstance(self.environment, PlayedUser) and task.gold:
            # The rest of an episode it has from the one it stands for, which a type does not see.
            return cast("Episode", _UntilGoldEnds(episode, len(task.gold)))
        return episode

    def training_tasks(self) -> Sequence[Task]:
        tasks = super().training_tasks()
        if tasks is self.tested:
            return tasks
        return _some(tasks)


def _some(tasks: Sequence[Task]) -> Sequence[Task]:
    step = -(-len(tasks) // MOST_TASKS)
    return tasks[:: max(step, 1)]


class _CountingClient(Client):
    """Asks nothing, and counts what it would have asked beside the conversation."""

    def __init__(self, endpoint: Endpoint) -> None:
        # Nothing of a client is opened: a dry run needs no extra.
        self.endpoint = endpoint
        self.questions = Usage()

    def _result(self, question: Question[_T], stop: Event) -> Failed[_T]:
        self.questions += Usage(1, question.input_tokens(), 0, ANSWER_TOKENS)
        return Failed(question, AnswerError("it is a rehearsal"))


class _UntilGoldEnds:
    """An episode whose user has no player and is content with the text behind the last gold action."""

    def __init__(self, episode: Episode, texts: int) -> None:
        self._episode = episode
        self._left = texts + 1  # the user begins

    def __getattr__(self, name: str) -> Any:
        return getattr(self._episode, name)

    def answer(self, text: str) -> str | None:
        """What the user says; None to the last text."""
        heard = self._episode.answer(text)
        self._left -= 1
        if not self._left:
            return None
        return heard


def _played(task: Task | None) -> Complete:
    """The gold actions with a summary where one can be noted; without gold actions a call at each turn."""

    def complete(body: Object) -> Object:
        if body.get("tool_choice") == "none":
            return completion(_SUMMARY)
        names: list[str] = [tool["function"]["name"] for tool in body.get("tools", ())]
        noted = str(body["messages"]).count(f"'name': '{SUMMARY_TOOL}'")
        if SUMMARY_TOOL in names and not noted:
            return completion("", tool_call(SUMMARY_TOOL, {"summary": _SUMMARY}, noted))
        if task is None or task.gold:
            return gold_step(task, body, others=noted)
        if names:
            return completion("", tool_call(names[0], {}, len(body["messages"])))
        return completion(f"<search_knowledge>{_HEARD}</search_knowledge>")

    return complete
