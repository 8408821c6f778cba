"""The Model Context Protocol: memory as tools that an agent may call, over stdio and over HTTP.

Every tool takes the session's id, as the protocol itself has no sessions any more (2026-07-28).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError

import hepm
from hepm.agents.guard import NAMESPACE, WRITES
from hepm.agents.live_run import MCP_DOOR, TOKEN, Bounded, LiveRun, only_summarised
from hepm.agents.runs import MOST, LiveRuns, check_own
from hepm.errors import HepmError, InputError, NotFoundError
from hepm.experience.experiences import Experiences
from hepm.experience.lesson_files import named_in
from hepm.experience.lessons import Principle
from hepm.experience.matching import SENTENCE_CHARS
from hepm.experience.notes import lines_of
from hepm.experience.principles import Principles
from hepm.graph.delta import Names
from hepm.graph.lessons.rows import FAILS_AFTER, LessonRow, Source
from hepm.graph.lessons.transaction import LessonChange
from hepm.ingest.call_errors import errors_of
from hepm.ingest.records import MAX_LABEL, without_surrogates
from hepm.ingest.transitions import own_tool
from hepm.memory.session import HELD_OUT
from hepm.text import day_of, what_is_wrong
from hepm.types import RECORDED_BY, START, SUMMARY_TOOL, FailedWay, Object, Suggestions, ToolName

_LESSONS: Final = 3  # of each kind
MOST_PENDING: Final = 100
"""Lessons of one agent that wait for approval at once."""
NOTHING: Final = "memory has nothing to say here"

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# Called again with the same arguments, they change nothing more.
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_REMOVES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

SessionId = Annotated[str, Field(description="Any id, the same throughout one task", min_length=1, max_length=200)]

TaskId = Annotated[str, Field(description="The id of this task, as for the other tools", max_length=200)]

History = Annotated[list[str], Field(description="Names of the tools called so far, oldest first")]

Most = Annotated[int, Field(ge=1, le=20)]

Known = Annotated[str, Field(description="What is known now, in a few lines")]

UserName = Annotated[
    str, Field(description="Whom the task is for, where nothing else that hepm records says it", max_length=MAX_LABEL)
]

Rounded = Annotated[float, AfterValidator(lambda value: round(value, 3))]


class _Given(BaseModel):
    """An answer; the text below a field is what an agent reads of it."""

    model_config = ConfigDict(use_attribute_docstrings=True, from_attributes=True)


class NextTool(_Given):
    """A tool to try next."""

    tool: str
    score: Rounded
    support: int
    """Successful runs that called it from here"""
    failure_share: Rounded | None
    """Share of the runs that failed after calling it from here"""
    reason: str


class NextTools(_Given):
    """The tools to try next, best first."""

    tools: list[NextTool]
    prompt: str
    """The same as a line of text; empty without an opinion"""
    no_opinion: str | None
    """Why nothing is suggested"""
    done: Rounded
    """If nearly all successful runs like this one made no further call, their share; else 0"""


class EarlierSituation(_Given):
    """A situation of an earlier run, what was called in it, and how the runs ended that went this way."""

    summary: str
    after: Annotated[list[str], AfterValidator(lambda tools: [tool for tool in tools if tool != START])]
    """Tools called just before; empty at the start"""
    called_next: list[str] = Field(validation_alias=AliasChoices("called_next", "before"))
    """Tools called in this situation"""
    succeeded: int
    """Successful runs that called this from here"""
    failed: int
    """Failed runs that called this from here"""
    similarity: Rounded
    run: str


class EarlierRuns(_Given):
    """What earlier runs did in such situations, and what they taught."""

    situations: list[EarlierSituation]
    """The most similar situation of each way to go on, best first"""
    lessons: list[str]


class ToolFound(_Given):
    """A tool that may do what is asked for."""

    name: str
    description: str
    reason: str


class ToolsFound(_Given):
    """Tools that may do what is asked for, best first; they are described by their owners, not by hepm."""

    tools: list[ToolFound]


class FailedTool(_Given):
    """A tool that failed from here in earlier runs, or fails wherever it is called."""

    tool: str
    """Its name; <END> of making no further call"""
    failed: int
    """Runs that called it from here and failed"""
    runs: int
    """Runs that called it from here"""
    since: str
    """Day of the earliest of its latest failed runs; empty if unknown"""
    error: str
    """Its error in such a run, without numbers and names: data, no instruction"""
    instead: str
    """What worked instead; empty if nothing stands out"""
    reason: str


class FailedTools(_Given):
    """What failed here in earlier runs, most failures first, and what they taught."""

    failed: list[FailedTool]
    lessons: list[str]
    no_opinion: str | None
    """Why nothing is said"""


class Remembered(_Given):
    """A lesson that was kept."""

    lesson: str
    """Its id, for `forget`"""
    state: str
    """`pending` until a person approves it, `live` from then on, or why it was retired"""


class UserPreferences(_Given):
    """What the user of a session prefers."""

    user: str
    preferences: list[str]


class _Server(MCPServer[Any]):
    """Says in one sentence why a tool gives nothing: an agent reads it."""

    async def call_tool(
        self, name: str, arguments: Object, context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """The result of a tool; a ToolError in one sentence if its arguments do not fit, or memory refuses them."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                wrong = what_is_wrong(cause, 3).lower()
                raise ToolError(f"{name} was not called: {wrong}. Call it again with that changed") from None
            if isinstance(cause, HepmError):
                raise ToolError(str(cause)) from cause
            raise


def mcp_server(runs: LiveRuns) -> MCPServer[Any]:
    """The server, for the namespace of the request under way."""
    app = _Server(
        "hepm",
        version=hepm.__version__,
        instructions="Memory of earlier runs. Ask suggest_next_tools before choosing a tool, and report the outcome "
        "with record_outcome at the end. Use one session_id throughout a task.",
        log_level="WARNING",
    )
    tools = _Tools(runs)
    reads = (
        tools.suggest_next_tools,
        tools.search_experience,
        tools.find_tools,
        tools.summarize_the_task,
        tools.what_failed_here,
        tools.my_preferences,
    )
    for tool in reads:
        app.add_tool(tool, annotations=_READS)
    for tool in (tools.record_outcome, tools.remember):
        app.add_tool(tool, annotations=_ADDS)
    app.add_tool(tools.forget, annotations=_REMOVES)
    return app


class _Tools:
    """What an agent may call. The docstrings are what it reads of them."""

    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs
        self._memory = runs.memory
        self._sessions = Bounded[tuple[str, str, str], _McpSession](MOST)

    def suggest_next_tools(
        self,
        session_id: SessionId,
        history: History,
        state: Known = "",
        tools: Annotated[list[str] | None, Field(description="Names of the tools you have; null for any")] = None,
        k: Most = 2,
    ) -> NextTools:
        """Rank the tools that worked next in earlier runs, with the reason for each."""
        suggestions = self._suggestions(session_id, history, state, tools, k=k)
        ranked = [NextTool.model_validate(suggestion) for suggestion in suggestions]
        session = self._of(session_id)
        session.named[len(session.history)] = [tool.tool for tool in ranked]
        return NextTools(
            tools=ranked, prompt=suggestions.prompt(), no_opinion=suggestions.abstained, done=suggestions.done
        )

    def _suggestions(
        self, session_id: str, history: list[ToolName], state: str, tools: list[str] | None, *, k: int
    ) -> Suggestions:
        """What memory says after these calls; with k = 0 no tool, only what to avoid."""
        history = [name for name in history if not own_tool(name)]
        # Kept for `summarize_the_task` and `record_outcome`, which are not sent the calls.
        self._of(session_id).history = history
        run = self._run_of(session_id)
        if self._is_control(run):
            return Suggestions(abstained=HELD_OUT)
        suggestions = self._memory.suggest(
            history=history,
            state=state or None,
            tools=tools,
            k=k or 1,
            namespace=NAMESPACE.get(),
        )
        if run is not None:
            suggestions = run.session.guarded(suggestions)
        if not k:
            suggestions = suggestions.without([suggestion.tool for suggestion in suggestions], NOTHING)
        if run is not None:
            suggestions = run.session.tell_tools(suggestions, calls=len(history))
        return suggestions

    def what_failed_here(
        self,
        session_id: SessionId,
        history: History,
        state: Known = "",
    ) -> FailedTools:
        """Say which tools failed from here in earlier runs, since when and with which error, and what worked."""
        found = self._suggestions(session_id, history, state, None, k=0)
        if found.abstained == HELD_OUT:
            return FailedTools(failed=[], lessons=[], no_opinion=HELD_OUT)
        failed = [self._failed_tool(way) for way in found.warnings]
        principles = Principles(self._memory.lessons.read_by(TOKEN.get()))
        history = self._of(session_id).history
        stored = principles.at(history[-1:], state=state, history=history, namespace=NAMESPACE.get())
        lessons: list[str] = []
        for one in stored:
            if any(triple.predicate == FAILS_AFTER for triple in one.principle.triples):
                lessons.append(one.principle.line)
        none = None if failed or lessons else NOTHING
        return FailedTools(failed=failed, lessons=lessons, no_opinion=none)

    def _failed_tool(self, way: FailedWay) -> FailedTool:
        """With what the failed runs say that this token may read."""
        errors: list[str] = []
        failed = list(self._memory.lessons.runs(way.failed_runs, namespace=NAMESPACE.get()))
        days = filter(None, [day_of(run.ended_at) for run in failed])
        for run in failed:
            if _may_read(run.tags.get(RECORDED_BY, "")):
                for call in run.calls():
                    if call.name == way.tool and (call.error or (call.result or "").lstrip()[:5].lower() == "error"):
                        errors += errors_of(call)[:1]
        return FailedTool(
            tool=way.tool,
            failed=way.failures,
            runs=way.runs,
            since=min(days, default=""),
            error=(*errors, "")[0],
            instead=way.instead,
            reason=way.named,
        )

    def remember(
        self,
        session_id: SessionId,
        lesson: Annotated[
            str,
            Field(description="One sentence: when it holds, and what to do", min_length=1, max_length=SENTENCE_CHARS),
        ],
        said_by: Annotated[Literal["agent", "user"], Field(description="Whose words or wish it is")] = "agent",
    ) -> Remembered:
        """Keep a lesson for later tasks. No agent is told it before a person approves it."""
        memory = self._memory
        namespace = NAMESPACE.get()
        author = _author(said_by)
        run = self._run_of(session_id, writes=True)
        text = " ".join(without_surrogates(lesson).split())
        redactor = self._runs.ingest_options().redactor
        if redactor is not None:
            text = redactor.text(text)
        if not text:
            raise InputError("the lesson is empty: say when it holds, and what to do")
        authors = [_said_by(stored.row) for stored in memory.lessons.pending(namespace=namespace)]
        waiting = authors.count(author)
        if waiting >= MOST_PENDING:
            raise InputError(f"{waiting} lessons of this agent are pending: a person has to read them first")
        known = [tool.name for tool in memory.tools.list(namespace=namespace) if tool.name in text]
        # In the words of this run, which may be stored later: forgetting it forgets the lesson.
        source = session_id if run is None else run.id
        recorded_by = memory.store.tokens_of([source], namespace=namespace).get(source, "")
        sources = (Source(source),) if _may_read(recorded_by) else ()
        made = Principle("guiding", text, sources=sources, tools=named_in(text, known), distilled_by=author)
        memory.lessons.change(LessonChange(put=[made.row()], imported=True), namespace=namespace)
        (stored,) = memory.store.lessons.get([made.id], namespace=namespace)
        return Remembered(lesson=made.id, state=stored.row.retired or "live")

    def forget(
        self,
        session_id: SessionId,
        lesson: Annotated[str, Field(description="Id of a lesson that `remember` gave")] = "",
        preference: Annotated[str, Field(description="One of `my_preferences`, word for word")] = "",
        user: UserName = "",
    ) -> str:
        """Forget a lesson that this agent or its user had remembered, or a preference of the user of this session."""
        memory = self._memory
        namespace = NAMESPACE.get()
        if bool(lesson) == bool(preference):
            raise InputError("say what to forget: a lesson, by its id, or a preference, in its words")
        self._run_of(session_id, writes=True)
        if lesson:
            stored = memory.lessons.lessons(namespace).get(lesson)
            if stored is None or _said_by(stored.row) not in (_author("agent"), _author("user")):
                raise InputError(f"{lesson!r} is no lesson that this agent remembered: a person may retire others")
            memory.lessons.change(LessonChange(drop=[lesson]), namespace=namespace)
        else:
            mine = self.my_preferences(session_id, user)
            if preference not in mine.preferences:
                raise InputError(f"{preference!r} is none of the preferences of this user: see my_preferences")
            kept = [line for line in mine.preferences if line != preference]
            memory.preferences.edit(mine.user, "\n".join(kept), namespace=namespace)
        return "forgotten"

    def my_preferences(self, session_id: SessionId, user: UserName = "") -> UserPreferences:
        """Say what the user of this session prefers, as earlier sessions noted it."""
        run = self._run_of(session_id)
        known = "" if run is None else run.session.so_far.user
        # A token speaks for the user whose session it recorded; without tokens, whoever asks is the owner.
        if user not in ("", known) and (known or TOKEN.get()):
            raise InputError(f"this session is not known to be of the user {user!r}")
        user = known or user
        if not user:
            raise InputError("no user is known of this session: give `user`")
        notes = self._memory.preferences.notes(user, namespace=NAMESPACE.get())
        return UserPreferences(user=user, preferences=[] if notes is None else lines_of(notes.text))

    def _run_of(self, session_id: str, *, writes: bool = False) -> LiveRun | None:
        """The run of a session under way; None if there is none, and for a token that only reads.

        In an experiment it begins with its first question, as it draws its arm then.

        Raises:
            InputError: something is to be written, which this token may not.
        """
        namespace = NAMESPACE.get()
        if not WRITES.get():
            if writes:
                raise InputError("this token may not write")
            return None
        if self._memory.holdout and not writes:
            return self._runs.named(session_id, namespace=namespace, door=MCP_DOOR)
        run = self._runs.find(session_id, namespace=namespace)
        if run is not None:
            check_own(run.session)
        return run

    def _may_search(self, session_id: str) -> bool:
        """Whether a session may read what earlier runs did. In an experiment it says who it is, as it has an arm."""
        if not session_id and self._memory.holdout:
            raise InputError("give the session_id of this task: an experiment is under way")
        run = self._run_of(session_id) if session_id else None
        return not self._is_control(run) and (run is None or not run.session.is_shadow)

    def _is_control(self, run: LiveRun | None) -> bool:
        """Whether memory says nothing to a session: of those that this token cannot record, to none."""
        if run is not None:
            return run.session.is_control
        return bool(self._memory.holdout) and not WRITES.get()

    def _of(self, session_id: str) -> _McpSession:
        """What is known of a session."""
        key = NAMESPACE.get(), TOKEN.get(), session_id
        session = self._sessions[key] = self._sessions.get(key) or _McpSession()
        return session

    def search_experience(
        self,
        query: Annotated[str, Field(description="The situation, in a few words", min_length=1)],
        k: Most = 5,
        session_id: TaskId = "",
    ) -> EarlierRuns:
        """Find the situations of earlier runs most similar to this one, what was called there, and lessons from it."""
        memory = self._memory
        namespace = NAMESPACE.get()
        if not self._may_search(session_id):
            return EarlierRuns(situations=[], lessons=[])
        # Many more than k: among 50 situations there are often only a few ways to go on.
        matches = memory.search(query, k=50, namespace=namespace)
        # The words of a situation are one run's: only the token that recorded it reads them.
        tokens = memory.store.tokens_of([match.run for match in matches], namespace=namespace)
        ways: dict[tuple[Names, Names], EarlierSituation] = {}
        for match in matches:
            if (match.after, match.before) not in ways and _may_read(tokens.get(match.run, "")):
                ways[match.after, match.before] = EarlierSituation.model_validate(match)
        readable = memory.lessons.read_by(TOKEN.get())
        principles = Principles(readable).search(query, k=_LESSONS, namespace=namespace)
        experiences = Experiences(readable).search(query, k=_LESSONS, namespace=namespace)
        lessons = [match.principle.sentence for match in principles]
        lessons += [match.experience.lesson for match in experiences]
        return EarlierRuns(situations=list(ways.values())[:k], lessons=list(dict.fromkeys(lessons)))

    def find_tools(
        self,
        query: Annotated[str, Field(description="What the tool should do, in a few words", min_length=1)],
        tools: Annotated[
            list[str] | None, Field(description="Names of the tools you have; null for all that runs had")
        ] = None,
        k: Annotated[int, Field(ge=1, le=50)] = 10,
        session_id: TaskId = "",
    ) -> ToolsFound:
        """Find the tools for a task by words, and by what earlier runs of like tasks called."""
        if not self._may_search(session_id):
            return ToolsFound(tools=[])
        found = self._memory.shortlists.find_known(query, tools, k=k, namespace=NAMESPACE.get())
        return ToolsFound(tools=[ToolFound.model_validate(one) for one in found])

    def summarize_the_task(
        self,
        session_id: SessionId,
        summary: Annotated[str, Field(description="What the task is, what is done and what is known", min_length=1)],
    ) -> str:
        """Say what you know before you choose the next tool; returns what memory says about such a situation."""
        session = self._of(session_id)
        history = session.history
        if WRITES.get():
            run = self._runs.named(session_id, namespace=NAMESPACE.get(), door=MCP_DOOR)
            with run.lock:
                if run.door == MCP_DOOR:  # else another door records the calls
                    _record_calls(run, history, session.named)
                run.session.record(SUMMARY_TOOL, {"summary": summary}, "")
                run.check_kept()
            prompt = self._runs.prompt(run)
        elif self._is_control(None):
            return NOTHING
        else:  # a token that only reads gets the answer, and nothing is recorded
            prompt = self._memory.prompt(state=summary, history=history, token=TOKEN.get(), namespace=NAMESPACE.get())
        return prompt.text or NOTHING

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
            raise InputError("this token may not write")
        if success is None and reward is None:
            raise InputError("say how the task ended: success true or false, or a reward")
        namespace = NAMESPACE.get()
        nothing = f"nothing is recorded of the session {session_id!r}: give `calls`, the names of all tools called"
        session = self._of(session_id)
        is_given = calls is not None
        calls = [name for name in calls or session.history if not own_tool(name)]
        run = self._runs.find(session_id, namespace=namespace)
        if calls and (run is not None or not self._runs.is_over(session_id, namespace=namespace)):
            run = self._runs.named(session_id, namespace=namespace, door=MCP_DOOR)
        if run is not None:
            with run.lock:
                if is_given or run.door == MCP_DOOR:
                    _record_calls(run, calls, session.named)
            if only_summarised(run):
                raise InputError(nothing)
        try:
            self._runs.finish(session_id, namespace=namespace, success=success, reward=reward)
        except NotFoundError:
            raise InputError(nothing) from None
        self._sessions.pop((namespace, TOKEN.get(), session_id), None)
        return "recorded"


class _McpSession:
    """What the agent of a session sent, and what it was shown.

    Attributes:
        history: Names of the tools called so far.
        named: Tools that were suggested to it, by how many calls it had made.
    """

    def __init__(self) -> None:
        self.history = list[ToolName]()
        self.named = dict[int, list[ToolName]]()


def _author(said_by: str) -> str:
    """Who a lesson of the request under way is by: "agent of ann", or "agent" at a server without tokens."""
    token = TOKEN.get()
    return f"{said_by} of {token}" if token else said_by


def _may_read(recorded_by: str) -> bool:
    """Whether the words of a run that this token recorded are for the request under way."""
    return not TOKEN.get() or recorded_by in ("", TOKEN.get())


def _said_by(row: LessonRow) -> str:
    return str(row.properties.get("distilled_by", ""))


def _record_calls(run: LiveRun, calls: Sequence[ToolName], named: Mapping[int, Sequence[ToolName]]) -> None:
    """Record the calls that a run lacks, if they continue it: a client that had no answer sends all of them again."""
    for calls_made, tools in named.items():
        run.session.note_hint(tools, calls=calls_made)
    known = [name for name in run.session.calls if name != SUMMARY_TOOL]
    # [find, book] is known, [find, book, pay] was sent: "pay" is new. [book, pay] does not continue it.
    for name in calls[len(known) :] if list(calls[: len(known)]) == known else ():
        run.session.record(name)
