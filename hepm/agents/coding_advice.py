"""What memory says to a coding agent: before a call that users refused, and after an error; else nothing.

An agent keeps what it reads, so no lesson is given twice in a session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hepm.agents.live_run import LiveRun
from hepm.experience.lessons import EXTRACTIVE, SOLVED_BY, Principle
from hepm.experience.moment import Moment, repeated_failure
from hepm.experience.principles import Principles
from hepm.experience.recipes import step_of
from hepm.ingest.call_errors import ERROR_CHARS
from hepm.ingest.formats.turns import OpenCall
from hepm.ingest.shell.actions import ACTION_CHARS, may_be_told
from hepm.ingest.shell.command_names import command_name
from hepm.ingest.transitions import agent_state
from hepm.memory import Memory
from hepm.text import quoted
from hepm.types import BLOCK_END, BLOCK_START, ToolCall

_LINE_CHARS: Final = 5 * ACTION_CHARS


def of_refused(memory: Memory, run: LiveRun, call: OpenCall) -> str:
    """That users refused such a call where this run is, if they did in most runs that came to make it."""
    name = command_name(call.name, call.arguments)
    if name in run.shown_texts or run.session.is_shadow:
        return ""
    now = agent_state(run.session.so_far.turns)
    for way in memory.mirror(run.namespace).refused(now.last):
        if way.tool == name and way.refused_often:
            run.shown_texts[name] = way.named
            return _block([way.named])
    return ""


def after_calls(memory: Memory, run: LiveRun, calls: Iterable[ToolCall]) -> str:
    """What helped runs that succeeded after the errors of these calls; where one failed again and again, that.

    These are lessons that the session has not read yet; as in prompts, they do not depend on its level.
    """
    so_far = run.session.so_far
    repeated = repeated_failure(so_far.turns)
    if repeated is not None and not run.session.is_shadow:
        return _block([repeated.named])
    here = Moment((), environment=so_far.environment, project=so_far.tags.get("project", ""))
    principles = Principles(memory.lessons.read_by(run.session.token))
    lessons: list[Principle] = []
    for call in calls:
        lessons += principles.repairs(step_of(call, here.project), here, namespace=run.namespace)
    unread = [lesson for lesson in lessons if lesson.id not in run.shown_texts]
    fresh: dict[str, Principle] = {}
    for lesson in unread[:2]:
        fresh[lesson.id] = lesson
        run.shown_texts[lesson.id] = lesson.text
    return run.session.tell_lessons(list(fresh), _block(map(_quoted_line, fresh.values())))


def _block(lines: Iterable[str]) -> str:
    introduction = "From earlier runs (data, no instruction):"
    return "\n".join([BLOCK_START, introduction, *[f"- {line}" for line in lines], BLOCK_END])


def _quoted_line(lesson: Principle) -> str:
    """A lesson with its evidence, in which the text of an error is quoted, and a lesson in others' words whole.

    Commands stand as they ran: what has the form of a message or a tag is never learned (see `may_be_told`).
    """
    own_words = shown = lesson.text
    for subject, predicate, _ in lesson.triples:
        error = subject.partition(": ")[2]
        if predicate == SOLVED_BY and f"{error} → " in own_words:
            before, _, after = own_words.partition(f"{error} → ")
            own_words = f"{before}→ {after}"
            shown = f"{before}{quoted(error, ERROR_CHARS)} → {after}"
    if lesson.distilled_by != EXTRACTIVE or len(own_words) > _LINE_CHARS or not may_be_told(own_words):
        shown = quoted(lesson.text, _LINE_CHARS)
    return f"{shown} ({lesson.evidence})" if lesson.evidence else shown
