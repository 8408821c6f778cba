"""Sessions of simulated users with an agent, with each kind of memory (MultiSessionCollab 3, 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import ClassVar, Final

from hepm.atomic_file import atomic_file
from hepm.errors import AnswerError
from hepm.experience.prompt import PromptOptions
from hepm.experience.reflection import quoted_conversation
from hepm.lab.bench.arms import Arm, scratch_memory
from hepm.lab.bench.folder import Ended, Key
from hepm.lab.bench.models import Model, tokens_of
from hepm.lab.bench.play import Bench, Stream
from hepm.lab.collaboration.environment import GREETING, DirectEpisode, UserEpisode, UsersEnvironment
from hepm.lab.collaboration.mem0 import UserFacts
from hepm.lab.collaboration.simulator import ModelUser
from hepm.lab.environments import Task
from hepm.lab.rl.reflections import reflection_rows
from hepm.llm import Budget, Client
from hepm.types import Turn

SETTINGS: Final = {"direct": "S1", "plain": "S2", "off": "S3", "oracle": "S4", "notes": "S5"}
"""Settings of the paper (appendix C): the problem given at once, users without preferences, the benchmark itself, an
agent that is given the preferences, and one with memory."""
HISTORIES: Final[Mapping[str, int | None]] = {"recent": 3, "history": None}
"""How many of the last sessions the agent is given (appendix E, table 7); None for all."""
# The notes, and the lines of them that matter in this turn, by the model where one is asked (4.1, appendix B).
_NOTES: Final = Arm(
    "notes", "", prompt=PromptOptions(suggestions=0, experiences=0, principles=0), chooses=True, placement="system"
)
USER_ARMS: Final = {name: Arm(name, "", placement="system") for name in (*SETTINGS, *HISTORIES, "mem0")} | {
    "notes": _NOTES
}
"""What the agent knows of its users: the arms of a bench of users."""


@dataclass(frozen=True)
class PlayedSession:
    """A session that a model reflected on.

    Attributes:
        notes: What memory knew of the user when the session began.
        messages: The conversation, greeting included.
        wishes: The messages in which the user enforced preferences.
    """

    user: str
    notes: str
    messages: Sequence[Turn]
    wishes: Sequence[str]


@dataclass(eq=False)
class UserBench(Bench):
    """Sessions of users with an agent: a task is a user, a trial is a session, and no user's memory is another's.

    Attributes:
        episodes: The sessions that were played or replayed, by their names in the folder.
    """

    what: ClassVar = "session"
    at_once: ClassVar = True
    has_sessions: ClassVar = True
    not_compared: ClassVar = ("direct", "plain")  # settings whose users enforce nothing

    def __post_init__(self) -> None:
        super().__post_init__()
        self.episodes: dict[Key, UserEpisode] = {}
        self._users: dict[str, ModelUser] = {}
        self._mem0: dict[str, UserFacts] = {}
        self._reflected: dict[Key, PlayedSession] = {}

    def play(self, model: Model) -> None:
        """As `Bench.play`, and write what a model reflected as rows for a training of reflections."""
        assert isinstance(self.environment, UsersEnvironment)
        assert model.player is not None, "the bench has a model that plays the users"
        self._users = {user.name: user for user in self.environment.users(model.player, seed=self.options.seed)}
        super().play(model)
        # The agents "gold" and "none" reflect on nothing.
        if model.client is None:
            return
        # It only reads what was answered: nothing is asked, or counted, twice.
        with Client(self.endpoint, ledger=self.folder, budget=Budget(calls=0)) as known:
            sessions = [self._reflected[key] for key in sorted(self._reflected)]
            rows = [json.dumps(row, ensure_ascii=False) + "\n" for row in reflection_rows(sessions, known)]
        if rows:
            with atomic_file(self.folder.path / "reflections.jsonl", "the reflections") as place:
                place.write_text("".join(rows), "utf-8")

    def _chain_of(self, key: Key) -> object:
        return key.arm, key.task

    def _play_stream(self, stream: Stream, total: int) -> None:
        first = stream.keys[0]
        with ExitStack() as stack:
            stream.memory = stack.enter_context(scratch_memory())
            if first.arm == "mem0":
                facts = UserFacts(first.task, stack.enter_context(TemporaryDirectory(prefix="hepm-users-")))
                self._mem0[first.task] = facts
                stack.callback(facts.close)
            super()._play_stream(stream, total)

    def _found(self, key: Key) -> Ended | None:
        # What memory knows of a user is made anew from recorded answers when the command is repeated.
        if key.arm in ("notes", "mem0"):
            return None
        return super()._found(key)

    def _about(self, key: Key) -> Mapping[str, str]:
        return {"task": f"{key.task}, session {key.trial + 1}", "user": key.task}

    def _start(self, key: Key, task: Task, stream: Stream) -> UserEpisode:
        user, session = self._users[key.task], key.trial + 1
        episode = UserEpisode(user, session)
        if key.arm == "direct":
            episode = DirectEpisode(user, session)
        elif key.arm == "plain":
            episode = UserEpisode(replace(user, preferences=()), session)
        elif key.arm == "mem0":
            facts = self._mem0[key.task]
            stream.memory.says = lambda: facts.recalled(episode.last.message)
            complete = self._model.recorded(key._replace(arm="mem0, memory"), task)
            # What mem0 asks names no model.
            episode.heard = partial(facts.add, complete=lambda body: complete({"model": self.endpoint.model} | body))
        self.episodes[key] = episode
        return episode

    def _shown(self, key: Key, request: str, stream: Stream) -> str:
        if key.arm == "oracle":
            wishes = [f"- {wish}" for wish in self._users[key.task].wishes]
            return "\n".join(["What this user prefers:", *wishes])
        past = [self.ended[known] for known in stream.keys[: key.trial]]
        if key.arm not in HISTORIES or not past:
            return ""
        last = HISTORIES[key.arm] or len(past)
        sessions = [
            f"Session {ended.key.trial + 1}:\n{quoted_conversation(_conversation(ended))}" for ended in past[-last:]
        ]
        return "\n\n".join(["Earlier sessions with this user, as data:", *sessions])

    def _learned(self, stream: Stream, ended: Ended) -> Ended:
        """After a session with notes they are written anew; that of the last one has sizes besides (table 6)."""
        key = ended.key
        if key.arm != "notes":
            return ended
        preferences = stream.memory.preferences
        notes, turns = preferences.notes(key.task), _conversation(ended)
        known = notes.text if notes else ""
        self._reflected[key] = PlayedSession(key.task, known, turns, self.episodes[key].wishes)
        conversation = [{"role": turn.role, "content": turn.text} for turn in turns]
        try:
            preferences.reflect(key.task, conversation, model=self._model.client)
        # The notes that were there stay.
        except AnswerError:
            self.unreflected += 1
        if key != stream.keys[-1]:
            return ended
        runs = [*[self.ended[known] for known in stream.keys[:-1]], ended]
        texts = [turn.text for run in runs for turn in _conversation(run)]
        notes = preferences.notes(key.task)
        sizes = {"history_tokens": tokens_of(texts), "memory_tokens": tokens_of(notes.text if notes else "")}
        return replace(ended, facts=replace(ended.facts, scores={**ended.facts.scores, **sizes}))


def _conversation(ended: Ended) -> Sequence[Turn]:
    """The messages of a session, greeting included, without one of the user that was never answered."""
    turns = [turn for turn in ended.run.turns if turn.role != "system"]
    if turns[-1].role == "user":
        turns.pop()
    if ended.key.arm == "direct":
        return turns
    return [Turn("assistant", GREETING), *turns]
