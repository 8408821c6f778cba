"""Sessions for programs that call a model themselves: what memory says before a call, and the record of the run."""

from __future__ import annotations

from itertools import takewhile
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from typing_extensions import TypedDict

from hepm.agents.guard import namespace_of
from hepm.agents.live_run import LiveRun
from hepm.agents.mcp import NextTool
from hepm.agents.replies import Reply
from hepm.agents.runs import MOST_ID, LiveRuns
from hepm.agents.wire import MOST_MESSAGES, name_of, objects, tagged, tools_of
from hepm.memory.shortlist import Shortlist
from hepm.types import Object, Objects
from hepm.web.answers import Label
from hepm.web.doors import Door

SessionName = Annotated[
    str,
    Field(
        description="Your own id of the run, the same in each request of it",
        min_length=1,
        max_length=MOST_ID,
        examples=["ticket-7"],
    ),
]


class RunSoFar(BaseModel):
    """The whole conversation of a run so far."""

    session: SessionName
    messages: Objects = Field(min_length=1, max_length=MOST_MESSAGES, description="As OpenAI's chat API writes them")
    tools: Objects = Field(default=[], description="The agent's tools, as OpenAI's chat API writes them")
    user: Label = ""
    task: Label = ""
    environment: Label = ""
    model: Label = ""


class PromptParts(TypedDict):
    """What memory says before the next call of the model; empty texts if nothing.

    `stable` belongs into the system message and stays through the run; `present` belongs to the end of the user's
    message, or into one of its own behind results. `run` is the id under which the run is stored.
    """

    run: str
    stable: str
    present: str
    tools: list[NextTool]


class Recorded(TypedDict):
    """What is on the disk: a run, with so many messages."""

    run: str
    messages: int


class Ending(BaseModel):
    """How a run ended; null for one whose outcome is not known."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["success"]}, {"required": ["reward"]}]})

    session: SessionName
    success: bool | None = None
    reward: float | None = Field(default=None, description="Instead of success: 1 for solved, less for less")

    @model_validator(mode="after")
    def _says_how(self) -> Ending:
        if not self.model_fields_set & {"success", "reward"}:
            raise ValueError('neither "success" nor "reward" is given: give one of the two')
        return self


class OutcomeKept(TypedDict):
    """A run that is stored with its outcome: the one under way, else the latest, of this session."""

    session: str
    run: str
    stored: bool


class ManyTools(BaseModel):
    """A conversation, or a request alone, and the tools of which to choose."""

    messages: Objects | str = Field(examples=["cancel my flight"])
    tools: list[Object | str] = Field(examples=[["cancel_flight", "book_flight"]])
    k: int = Field(default=20, ge=1, description="How many tools the words of a request choose")
    budget_tokens: int | None = Field(default=None, ge=1, description="Tokens beyond which words add no tool")
    tool_choice: Any = None


class SessionDoors:
    """Answers to what programs say of their runs."""

    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs
        self.all: list[Door] = [
            Door("POST", "/outcome", self._outcome, writes=True, refuses=(404, 409, 503)),
            Door("POST", "/api/hint", self._hint, writes=True, refuses=(409,)),
            Door("POST", "/api/record", self._record, writes=True, refuses=(409, 503)),
            Door("POST", "/shortlist", self._shortlist, refuses=(503,)),
        ]

    def _outcome(self, request: Request, ending: Ending) -> OutcomeKept:
        """Store a run with its outcome."""
        namespace = namespace_of(request)
        run = self._runs.finish(ending.session, namespace=namespace, success=ending.success, reward=ending.reward)
        return {"session": ending.session, "run": run, "stored": True}

    def _hint(self, request: Request, conversation: RunSoFar) -> PromptParts:
        """What memory says before the next call of the model; records the conversation up to here."""
        run = self._run_of(request, conversation)
        prompt = self._runs.prompt(run, keep=run.behind)
        self._runs.replied(run, Reply())  # which keeps it on the disk
        present = prompt.present and tagged(prompt.present)
        tools = [NextTool.model_validate(suggestion) for suggestion in prompt.suggestions.ranked]
        return {"run": run.id, "stable": run.stable, "present": present, "tools": tools}

    def _record(self, request: Request, conversation: RunSoFar) -> Recorded:
        """Record the conversation, with the model's last reply if it ends with that."""
        run = self._run_of(request, conversation)
        called: list[str] = []
        for message in takewhile(_is_reply, reversed(conversation.messages)):
            called += map(name_of, objects(message.get("tool_calls")))
        with run.lock:
            run.replied = _is_reply(conversation.messages[-1])
            self._runs.replied(run, Reply())
            self._runs.called(run, called)
            run.check_kept()
            return {"run": run.id, "messages": len(run.messages)}

    def _shortlist(self, request: Request, given: ManyTools) -> Shortlist:
        """The tools to send of the many that an agent has; the same list for all runs of a namespace."""
        return self._runs.memory.shortlist(**dict(given), namespace=namespace_of(request))

    def _run_of(self, request: Request, conversation: RunSoFar) -> LiveRun:
        """The run of a session, with the conversation in its record."""
        return self._runs.continued(
            conversation.messages,
            id=conversation.session,
            namespace=namespace_of(request),
            door="api",
            list_tools=lambda: tools_of({"tools": conversation.tools}),
            **conversation.model_dump(include={"user", "task", "environment", "model"}),
        )


def _is_reply(message: Object) -> bool:
    return message.get("role") == "assistant"
