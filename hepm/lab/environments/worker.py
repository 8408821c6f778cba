"""An environment whose package runs in processes of its own: one for each running episode, reused when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final

from hepm.agents.loop import ChatModel
from hepm.errors import EpisodeError
from hepm.ingest.formats.bfcl import json_schema, parse_call
from hepm.lab.environments import Ask, Schema, Task, ToolFailed, endpoint_of_user
from hepm.lab.environments.packages import Package
from hepm.llm import Endpoint
from hepm.types import Object, Tool, ToolCall, Turn

# A hash seed, so that sets keep their order; no request to the network for prices of models.
_OURS: Final = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


class Worker:
    """A process that runs `backends/serve.py`."""

    def __init__(self, package: Package, backend: str) -> None:
        self._name = package.name
        # Ours would point the package's Python at our modules.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = [package.interpreter(), Path(__file__).with_name("backends") / "serve.py", backend]
        variables = kept | _OURS | package.variables
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the process
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=variables, encoding="utf-8",
        )  # fmt: skip

    def ask(self, do: str, *arguments: Any, model: Ask | None = None) -> Any:
        """What a function of the backend returns, which may ask a model. Raises what the model raises.

        Raises:
            EpisodeError: it raised, or the process ended.
        """
        message: Object = {"do": do, "with": arguments}
        problem: Exception | None = None
        reply = self._exchange(message, do)
        # The backend may ask a model several times before it answers.
        while "ask" in reply:
            try:
                if problem or model is None:
                    raise problem or EpisodeError(f"{self._name} asks a model during {do}, and there is none")
                message = {"answer": model(reply["ask"])}
            except Exception as error:  # the backend hears of it, so that it can take its next request
                problem, message = error, {"refused": str(error)}
            reply = self._exchange(message, do)
        if problem is not None:
            raise problem
        if "broke" in reply:
            raise EpisodeError(f"{self._name} raised during {do}: {reply['broke']}")
        return reply["value"]

    def _exchange(self, message: Object, do: str) -> Object:
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise EpisodeError(f"the process of {self._name} ended during {do} ({self._end()})") from error

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def _end(self) -> str:
        """End the process; returns its last words."""
        self.process.kill()
        self.process.communicate()
        with self._log:
            self._log.seek(0)
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        if not lines:
            return f"exit status {self.process.returncode}"
        return lines[-1]

    def close(self) -> None:
        if not self._log.closed:
            self._end()


@dataclass(eq=False)
class WorkerEpisode:
    """An episode in a worker, which is its own until it is closed; `ask` asks the model that plays its user."""

    worker: Worker
    release: Callable[[Worker], None]
    ask: Ask | None
    _tools: Sequence[Schema] | None = None

    @property
    def tools(self) -> Sequence[Schema]:
        """Those of this turn of the user: a text of the user may bring others."""
        if self._tools is None:
            self._tools = [{"type": "function", "function": json_schema(tool)} for tool in self.worker.ask("tools")]
        return self._tools

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What the tool returns in the worker, which may be what the user says; ToolFailed if it raised there."""
        known = [spec["function"]["name"] for spec in self.tools]
        # Some packages evaluate the text of a call: no other name may reach them.
        if tool not in known:
            raise ToolFailed(f"there is no tool {tool}; there are {', '.join(known)}")
        text, failed = self.worker.ask("call", tool, dict(arguments), model=self.ask)
        if failed:
            raise ToolFailed(text)
        return text

    def answer(self, text: str) -> str | None:
        """What the user says; the model that plays the user is asked from here."""
        self._tools = None
        return self.worker.ask("answer", text, model=self.ask)

    def reward(self) -> float:
        return self.worker.ask("reward")

    def scores(self) -> Mapping[str, float]:
        return self.worker.ask("scores")

    def close(self) -> None:
        """End the run; its worker is free for the next one."""
        # A process that died has nothing to close; it is not taken again.
        if self.worker.alive:
            with suppress(EpisodeError):
                self.worker.ask("close")
        self.release(self.worker)


def task_of(record: Object) -> Task:
    """A task as backends give it: the fields of `Task`; `gold`, if any, as [[CALLS, text], ...].

    A call is [tool, arguments], or written as Python, "cd(folder='document')", with the descriptions of `tools`.
    """
    known = {spec["name"]: Tool(spec["name"], "", spec["parameters"]) for spec in record.pop("tools", ())}
    gold: list[Turn] = []
    for written, text in record.pop("gold", ()):
        calls = [parse_call(call, known) if isinstance(call, str) else ToolCall(*call) for call in written]
        gold.append(Turn("assistant", text, tuple(calls)))
    return Task(**record, gold=tuple(gold))


@dataclass(eq=False)
class WorkerEnvironment:
    """`name` of a package, whose `backend` takes `part` to know which of its tasks are meant."""

    name: str
    package: Package
    backend: str
    part: str

    def __post_init__(self) -> None:
        self._tasks: Sequence[Task] | None = None
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._lock = Lock()

    def tasks(self) -> Sequence[Task]:
        """The tasks, asked for once; the package is installed first."""
        with self._lock:
            if self._tasks is None:
                worker = self._take()
                self._tasks = [task_of(record) for record in worker.ask("tasks", self.part)]
                self._idle.append(worker)
            return self._tasks

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> WorkerEpisode:
        """A fresh state, in an idle worker or a new one."""
        with self._lock:
            worker = self._take()
        try:
            # Outside the lock: making a state may take seconds.
            worker.ask("start", self.part, task.id, seed)
        except EpisodeError:
            self._idle.append(worker)
            raise
        return WorkerEpisode(worker, self._idle.append, ask)

    def _take(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
        self._workers.append(Worker(self.package, self.backend))
        return self._workers[-1]

    def close(self) -> None:
        while self._workers:
            self._workers.pop().close()


class PlayedWorkerEnvironment(WorkerEnvironment):
    """Tasks whose user a model plays: a `hepm.lab.environments.PlayedUser`.

    The model is asked at its own endpoint, which is opened when it is first asked, unless a bench answers for it.
    """

    @property
    def user(self) -> Endpoint:
        """HEPM_USER_MODEL, at `Endpoint.of_user`."""
        return endpoint_of_user(self.name, "plays the user")

    @cached_property
    def chat(self) -> ChatModel:
        """The model at its endpoint."""
        return ChatModel(self.user)

    def close(self) -> None:
        """Close the connections, and end the workers."""
        super().close()
        # A cached property: in the instance once it was read.
        chat = self.__dict__.pop("chat", None)
        if chat:
            chat.__exit__()

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> WorkerEpisode:
        """A fresh state; the seed is sent with each request to the model."""
        model = self.user.model
        return super().start(task, seed=seed, ask=lambda body: (ask or self.chat)({"model": model, **body}))
