"""The Model Context Protocol: memory as tools that an agent may call, over stdio and over HTTP.

Every tool takes the session's id, as the protocol itself has no sessions any more (2026-07-28).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import AfterValidator, BaseModel, Field

from hepm.agents.guard import NAMESPACE, WRITES
from hepm.agents.runs import LiveRuns
from hepm.errors import HepmError, NotFoundError
from hepm.ingest.transitions import SUMMARY_TOOL, own_tool

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)

SessionId = Annotated[str, Field(description="Any id, the same throughout one task", min_length=1, max_length=200)]

Rounded = Annotated[float, AfterValidator(lambda value: round(value, 3))]


class NextTool(BaseModel):
    """A tool to try next."""

    tool: str
    score: Rounded
    support: int = Field(description="Successful runs that called it from here")
    failure_share: Rounded | None = Field(description="Share of the runs that failed after calling it from here")
    reason: str


class NextTools(BaseModel):
    """The tools to try next, best first."""

    tools: list[NextTool]
    prompt: str = Field(description="The same as a line of text; empty without an opinion")
    no_opinion: str | None = Field(description="Why nothing is suggested")


class Situation(BaseModel):
    """A remembered situation and what agents did in it."""

    summary: str
    after: list[str]
    before: list[str]
    similarity: Rounded
    run: str


def mcp_server(runs: LiveRuns) -> MCPServer[Any]:
    """The server, for the namespace of the request under way."""
    app: MCPServer[Any] = MCPServer(
        "hepm",
        instructions="Memory of earlier runs. Ask suggest_next_tools before choosing a tool, and report the outcome "
        "with record_outcome at the end. Use one session_id throughout a task.",
        log_level="WARNING",
    )
    tools = _Tools(runs)
    app.tool(annotations=_READS)(tools.suggest_next_tools)
    app.tool(annotations=_READS)(tools.search_experience)
    app.tool(name=SUMMARY_TOOL, annotations=_READS)(tools.summarize_the_task)
    app.tool()(tools.record_outcome)
    return app


class _Tools:
    """What an agent may call. The docstrings are what it reads of them."""

    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs

    def suggest_next_tools(
        self,
        session_id: SessionId,
        history: Annotated[list[str], Field(description="Names of the tools called so far, oldest first")],
        state: Annotated[str, Field(description="What is known now, in a few lines")] = "",
        tools: Annotated[list[str] | None, Field(description="Names of the tools you have; null for any")] = None,
        k: Annotated[int, Field(ge=1, le=20)] = 2,
    ) -> NextTools:
        """Rank the tools that worked next in earlier runs, with the reason for each."""
        del session_id
        history = [name for name in history if not own_tool(name)]
        with _explained():
            found = self._runs.memory.suggest(
                history=history, state=state or None, tools=tools, k=k, namespace=NAMESPACE.get()
            )
        ranked = [NextTool.model_validate(one, from_attributes=True) for one in found]
        return NextTools(tools=ranked, prompt=found.prompt(), no_opinion=found.abstained)

    def search_experience(
        self,
        query: Annotated[str, Field(description="The situation, in a few words", min_length=1)],
        k: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> list[Situation]:
        """Find the situations of earlier runs most similar to this one, and what agents did in them."""
        with _explained():
            found = self._runs.memory.search(query, k=k, namespace=NAMESPACE.get())
        return [Situation.model_validate(one, from_attributes=True) for one in found]

    def summarize_the_task(
        self,
        session_id: SessionId,
        summary: Annotated[str, Field(description="What the task is, what is done and what is known", min_length=1)],
    ) -> str:
        """Say what you know before you choose the next tool; returns what memory says about such a situation."""
        if WRITES.get():
            run = self._runs.named(session_id, namespace=NAMESPACE.get(), door="mcp")
            with run.lock:
                run.session.record(SUMMARY_TOOL, {"summary": summary}, "")
            found = self._runs.hint(run)
        else:  # a token that only reads gets the answer, and nothing is recorded
            with _explained():
                found = self._runs.memory.prompt(state=summary, namespace=NAMESPACE.get())
        return found.text or "memory has nothing to say here"

    def record_outcome(
        self,
        session_id: SessionId,
        success: Annotated[bool | None, Field(description="Whether the task is solved")] = None,
        reward: Annotated[float | None, Field(description="Instead: 1 for solved, less for less")] = None,
        calls: Annotated[
            list[str] | None, Field(description="Names of all tools called, in order, if nothing else records them")
        ] = None,
    ) -> str:
        """Report how the task ended, so that later runs learn from it."""
        if not WRITES.get():
            raise ToolError("this token may not write")
        with _explained():
            if calls and not self._runs.is_over(session_id, namespace=NAMESPACE.get()):
                run = self._runs.named(session_id, namespace=NAMESPACE.get(), door="mcp")
                with run.lock:
                    known = [name for name in run.session.calls if name != SUMMARY_TOOL]
                    # A client that had no answer sends it again.
                    calls = [name for name in calls if not own_tool(name)]
                    for name in calls[len(known) :] if calls[: len(known)] == known else ():
                        run.session.record(name)
            try:
                self._runs.finish(session_id, namespace=NAMESPACE.get(), success=success, reward=reward)
            except NotFoundError as error:
                raise ToolError(
                    f"nothing is recorded of the session {session_id!r}: give `calls`, the names of all tools called"
                ) from error
        return "recorded"


@contextmanager
def _explained() -> Generator[None]:
    """Errors of hepm as errors of the tool, whose text the agent reads."""
    try:
        yield
    except HepmError as error:
        raise ToolError(str(error)) from error
