"""What stands for the model in a pilot that asks nothing: the authors' own actions, and the plainest answers.

The environment answers these actions, so that conversations grow as they will; memory is made of these runs, so that
prompts hold what it says. Users take as many replies as those of MultiSessionCollab. A model that takes more turns
takes more of everything, which a pilot of its own shows (`hepm.lab.bench.pilot`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from threading import Lock
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from hepm.agents.loop import Complete
from hepm.agents.wire import Object
from hepm.errors import AnswerError
from hepm.lab.bench.folder import Folder
from hepm.lab.bench.models import Model, completion, gold_step, gold_steps, tool_call
from hepm.lab.collaboration.environment import UsersEnvironment
from hepm.lab.environments import Environment, PlayedUser, Task
from hepm.llm import Budget, Client, Endpoint, PaidAnswer, Question, Usage
from hepm.types import SUMMARY_TOOL

_T = TypeVar("_T")
ANSWER_TOKENS: Final = 200
"""About what a model answers to a question about a run."""
REPLIES: Final = 7
"""Of an agent in a session: a length of 15 messages (MultiSessionCollab, table 1: 14 to 17 without memory)."""
_SUMMARY: Final = (
    "Yes. The user said what is wanted, and for what; the record was found by its number, and holds what the request "
    "names. What is allowed here was checked. Nothing was changed yet; the change itself is still to be made."
)
"""Stands for an answer to the questions whether a summary is due, and for that."""
_HEARD: Final = "Yes, that is right. Please go on with it as you said, and tell me when it is done."
"""Stands for what a played user says."""
_REPLY: Final = " ".join([_SUMMARY] * 4)
"""Stands for what an agent says to a user, which explains the way to an answer."""
_WORDS: Final = 30
"""In a text of an answer to a question."""


def rehearsing_model(endpoint: Endpoint, folder: Folder, environment: Environment) -> Model:
    """What answers in a rehearsal."""
    client = RehearsingClient(endpoint, folder)

    def most_turns(limit: int, task: Task, notes: bool) -> int:
        # A played user is content with the text behind the last gold action; notes of a summary take one turn more.
        if isinstance(environment, PlayedUser) and task.gold:
            return min(limit, len(gold_steps(task)) + notes)
        if isinstance(environment, UsersEnvironment):
            return min(limit, REPLIES)
        return limit

    return Model(
        _played,
        folder,
        client,
        user=lambda body: completion(_HEARD),
        player=client,
        rehearses=True,
        most_turns=most_turns,
    )


class RehearsingClient(Client):
    """Asks nothing: gives the plainest answer of the form that is asked for, of words of the question."""

    def __init__(self, endpoint: Endpoint, ledger: Folder) -> None:
        # Nothing of a client is opened: a dry run needs no extra.
        self.endpoint = endpoint
        self.budget = Budget()
        self._ledger = ledger
        self._lock = Lock()
        self._asking = WeakValueDictionary()

    def _ask(self, question: Question[_T]) -> tuple[_T, PaidAnswer]:
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
    text = question.messages[-1].text
    words = text.split()
    # Drawn by the subject, so that answers about different runs differ, as a model's do.
    drawn = " ".join(Random(question.subject).sample(words, min(len(words), _WORDS)))
    if question.tools:
        return json.dumps({"names": [tool.name for tool in question.tools[:3]]})
    if question.schema is None:
        return _SUMMARY
    answer = _example(question.schema, question.schema, drawn)
    if question.step == "simulate" and "checks" in answer:
        answer["checks"] = [{"preference": number, "reason": drawn, "violated": False} for number in (1, 2, 3)]
    elif question.step == "reflect":
        # Only what the user said can be noted.
        heard = text.partition("user:\n> ")[2].partition("\n")[0]
        answer["notes"] = [{"text": heard, "quote": heard, "reply": "", "refines": ""}]
    return json.dumps(answer)


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


def _played(task: Task) -> Complete:
    """The gold actions with a summary where one can be noted; without them a call at each turn, or a text to users."""

    def complete(body: Object) -> Object:
        if body.get("tool_choice") == "none":
            return completion(_SUMMARY)
        names: list[str] = [tool["function"]["name"] for tool in body.get("tools", ())]
        noted = str(body["messages"]).count(f"'name': '{SUMMARY_TOOL}'")
        if SUMMARY_TOOL in names and not noted:
            return completion("", tool_call(SUMMARY_TOOL, {"summary": _SUMMARY}, noted))
        if task.gold:
            return gold_step(task, body, others=noted)
        if names:
            return completion("", tool_call(names[0], _filled(body["tools"][0]), len(body["messages"])))
        if "<search_knowledge>" in str(body["messages"][0]["content"]):
            return completion(f"<search_knowledge>{_HEARD}</search_knowledge>")
        return completion(_REPLY)

    return complete


def _filled(tool: Object) -> Object:
    """Arguments that a tool takes: the first choice where there are any, else a text."""
    properties = tool["function"]["parameters"].get("properties", {})
    return {name: about.get("enum", [_HEARD])[0] for name, about in properties.items()}
