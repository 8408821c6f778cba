"""What stands for the model in a pilot that asks nothing: the authors' own actions, and the plainest answers.

The environment answers these actions, so that conversations grow as they will; memory is made of these runs, so that
prompts hold what it says. Users take as many replies as those of MultiSessionCollab. A model that takes more turns
takes more of everything, which a pilot of its own shows (`hepm.lab.bench.pilot`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from threading import Lock
from typing import Any, Final, Self, TypeVar, cast
from weakref import WeakValueDictionary

from hepm.agents.loop import Complete
from hepm.agents.wire import Object
from hepm.errors import AnswerError
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.models import Model, completion, gold_step, tool_call
from hepm.lab.bench.pilot import MOST, SmallBench
from hepm.lab.bench.play import Bench
from hepm.lab.collaboration.mem0 import UserFacts
from hepm.lab.collaboration.play import UserBench
from hepm.lab.collaboration.simulator import ModelUser
from hepm.lab.environments import Episode, PlayedUser, Task
from hepm.llm import Budget, Client, Endpoint, PaidAnswer, Question, Usage
from hepm.types import SUMMARY_TOOL

_T = TypeVar("_T")
ANSWER_TOKENS: Final = 200
"""About what a model answers to a question about a run."""
REPLIES: Final = 7
"""Of an agent in a session: a length of 15 messages (MultiSessionCollab, table 1: 14 to 17 without memory)."""
_USERS: Final = 2
"""Users who are rehearsed, with all their sessions."""
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


def rehearsing_model(endpoint: Endpoint, folder: Folder) -> Model:
    """What answers in a rehearsal."""
    return Model(_played, folder, RehearsingClient(endpoint, folder), user=lambda body: completion(_HEARD))


class Rehearsal(SmallBench):
    """At most a dozen tasks."""

    def __init__(self, bench: Bench, folder: Folder) -> None:
        super().__init__(bench, folder, lambda number: MOST)

    def _start(self, key: Key, task: Task) -> Episode:
        episode = super()._start(key, task)
        if isinstance(self.environment, PlayedUser) and task.gold:
            # The rest of an episode it has from the one it stands for, which a type does not see.
            return cast("Episode", _UntilGoldEnds(episode, len(task.gold)))
        return episode


class UserRehearsal(UserBench):
    """Users who are content after `REPLIES`."""

    @classmethod
    def of(cls, bench: UserBench, folder: Folder) -> UserBench:
        """The first users of a bench."""
        client = RehearsingClient(bench.endpoint, folder)
        users = [*bench.users[:_USERS]]
        for place, user in enumerate(users):
            if isinstance(user, ModelUser):
                users[place] = replace(user, client=client)
        return cls(
            bench.environment,
            users,
            folder,
            bench.endpoint,
            arms=bench.arms,
            sessions=bench.sessions,
            max_turns=min(bench.max_turns, REPLIES),
            options=bench.options,
        )

    def _facts(self, user: str, place: str) -> UserFacts:
        return _NoFacts(user, place)


class _NoFacts(UserFacts):
    """Finds nothing; asks for the facts of each turn, in as many tokens as mem0."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def recalled(self, messages: object) -> tuple[str, str]:
        return "", ""

    def add(self, turns: object, complete: Complete) -> None:
        # Three bytes a token: `tokens_of`.
        complete({"messages": [{"role": "user", "content": "fact" * (self.PROMPT_TOKENS * 3 // 4)}]})


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
    """The gold actions with a summary where one can be noted; without them a call at each turn, or a text to users."""

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
        if "<search_knowledge>" in str(body["messages"][0]["content"]):
            return completion(f"<search_knowledge>{_HEARD}</search_knowledge>")
        return completion(_REPLY)

    return complete


def _filled(tool: Object) -> Object:
    """Arguments that a tool takes: the first choice where there are any, else a text."""
    properties = tool["function"]["parameters"].get("properties", {})
    return {name: about.get("enum", [_HEARD])[0] for name, about in properties.items()}
