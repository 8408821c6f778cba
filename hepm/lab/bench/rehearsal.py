"""What a bench will ask, counted on a pilot in which the authors' own actions stand for the model's answers.

The environment answers them, so that conversations grow as they will; memory is made of these runs, so that prompts
hold what it says. Questions get the plainest answer of their form. No model is asked: a model that takes more turns
than the authors takes more of everything, which a pilot of its own shows (`hepm.lab.bench.pilot`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event, Lock
from typing import Any, Final, TypeVar, cast
from weakref import WeakValueDictionary

from hepm.agents.loop import Complete
from hepm.agents.wire import Object
from hepm.errors import AnswerError
from hepm.lab.bench.arms import KnownMemory
from hepm.lab.bench.explore import Exploration
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.models import Model, completion, gold_step, tool_call
from hepm.lab.bench.pilot import ANSWER_TOKENS, MOST_TASKS, SmallBench, explored_rest, rest_of, small_exploration
from hepm.lab.bench.play import Bench
from hepm.lab.environments import Episode, PlayedUser, Task
from hepm.llm import Budget, Client, Endpoint, PaidAnswer, Question, Usage
from hepm.types import SUMMARY_TOOL

_T = TypeVar("_T")
_SUMMARY: Final = (
    "Yes. The user said what is wanted, and for what; the record was found by its number, and holds what the request "
    "names. What is allowed here was checked. Nothing was changed yet; the change itself is still to be made."
)
"""Stands for an answer to the questions whether a summary is due, and for that."""
_HEARD: Final = "Yes, that is right. Please go on with it as you said, and tell me when it is done."
"""Stands for what a played user says."""
_WORDS: Final = 30
"""In a text of an answer to a question."""


def estimate(bench: Bench) -> Usage:
    """About what runs take that wait to be made; InputError if no run could be rehearsed."""
    with TemporaryDirectory(prefix="hepm-rehearsal-") as place, Folder(Path(place), {}) as folder:
        rehearsed = _Rehearsal(bench, folder, lambda number: min(number, MOST_TASKS))
        first, second = bench.plan()
        if any(key not in bench.ended for key in (*first, *second)):
            rehearsed.play(_model(bench.endpoint, folder))
        return rest_of(bench, rehearsed, bench.ended)


def estimate_rounds(exploration: Exploration, memory: KnownMemory, *, distiller: bool) -> Usage:
    """About what rounds take that wait to be made, with the questions of a distilling model.

    Args:
        memory: Where the rehearsed rounds are stored.
    """
    with ExitStack() as stack:
        place = stack.enter_context(TemporaryDirectory(prefix="hepm-rehearsal-"))
        folder = stack.enter_context(Folder(Path(place), {}))
        small = small_exploration(exploration, folder)
        writer = _AnsweringClient(exploration.bench.endpoint, folder) if distiller else None
        small.play(_model(exploration.bench.endpoint, folder), memory, writer)
        return explored_rest(exploration, small, exploration.bench.ended)


def _model(endpoint: Endpoint, folder: Folder) -> Model:
    return Model(_played, folder, _AnsweringClient(endpoint, folder), user=lambda body: completion(_HEARD))


class _Rehearsal(SmallBench):
    def _start(self, key: Key, task: Task) -> Episode:
        episode = super()._start(key, task)
        if isinstance(self.environment, PlayedUser) and task.gold:
            # The rest of an episode it has from the one it stands for, which a type does not see.
            return cast("Episode", _UntilGoldEnds(episode, len(task.gold)))
        return episode


class _AnsweringClient(Client):
    """Asks nothing: gives the plainest answer of the form that is asked for, of words of the question."""

    def __init__(self, endpoint: Endpoint, ledger: Folder) -> None:
        # Nothing of a client is opened: a dry run needs no extra.
        self.endpoint = endpoint
        self.budget = Budget()
        self._ledger = ledger
        self._lock = Lock()
        self._asking = WeakValueDictionary()

    def _ask(self, question: Question[_T], stop: Event) -> tuple[_T, PaidAnswer]:
        text = _plain_answer(question)
        usage = Usage(1, question.input_tokens(), 0, ANSWER_TOKENS)
        paid = PaidAnswer(question.subject, question.step, text, usage)
        try:
            return question.read(text), paid
        except ValueError as error:
            # Kept, so that it counts.
            self._ledger.put(question.key(self.endpoint.model), paid)
            raise AnswerError(f"it is a rehearsal: {error}") from error


def _plain_answer(question: Question[Any]) -> str:
    words = question.messages[-1].text.split()
    # Drawn by the subject, so that answers about different runs differ, as a model's do.
    drawn = " ".join(Random(question.subject).sample(words, min(len(words), _WORDS)))
    if question.tools:
        return json.dumps({"names": [tool.name for tool in question.tools[:3]]})
    if question.schema is None:
        return _SUMMARY
    return json.dumps(_example(question.schema, question.schema, drawn))


def _example(schema: Mapping[str, Any], root: Mapping[str, Any], text: str) -> Any:
    """The plainest value that follows a JSON schema."""
    if "$ref" in schema:
        return _example(root["$defs"][schema["$ref"].rpartition("/")[2]], root, text)
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {name: _example(part, root, text) for name, part in schema["properties"].items()}
    plain: Object = {"string": text, "integer": 1, "number": 0.5, "boolean": False, "array": []}
    return plain.get(schema.get("type", ""), schema.get("const"))


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
            return completion("", tool_call(names[0], _filled(body["tools"][0]), len(body["messages"])))
        return completion(f"<search_knowledge>{_HEARD}</search_knowledge>")

    return complete


def _filled(tool: Object) -> Object:
    """Arguments that a tool takes: the first choice where there are any, else a text."""
    properties = tool["function"]["parameters"].get("properties", {})
    return {name: about.get("enum", [_HEARD])[0] for name, about in properties.items()}
