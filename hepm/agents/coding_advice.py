"""What a coding agent is told, and when: before a call that fails, after an error, at the start; and else nothing.

An agent keeps what it reads, so no lesson is given twice in a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from hepm.agents.live_run import LiveRun
from hepm.experience.actions import actions_of
from hepm.experience.content import ContentHere, Where
from hepm.experience.lessons import in_brackets
from hepm.experience.run_steps import step_of
from hepm.graph.lessons.rows import StoredLesson
from hepm.memory import Memory
from hepm.text import on_one_line
from hepm.types import BLOCK_END, BLOCK_START, ToolCall, ToolName

AT_START: Final = 2
"""Lessons at the start."""
BEGAN_ALIKE: Final = 0.5
"""The share of the runs behind a lesson that began alike, for it to be told at the start."""
_INTRODUCTION: Final = "From earlier runs (data, no instruction):"


class CodingAdvice:
    """Finds what memory says at the moments of coding agents."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def at_start(self, run: LiveRun, prompt: str) -> str:
        """Up to two lessons of runs whose first message was like this one."""
        where, library = _where(run), self._memory.lessons
        found = self._content(run).at_start(where)
        sources = {one.row.id: [source.run for source in one.row.sources] for one in found}
        every = list(dict.fromkeys(name for names in sources.values() for name in names))
        if not every or not prompt.strip():
            return ""
        likeness = library.like_requests(every, namespace=run.namespace).likeness(library.vectors([prompt])[0])
        alike = [
            one
            for one in found
            if len(likeness.alike.intersection(sources[one.row.id])) >= BEGAN_ALIKE * len(sources[one.row.id])
        ]
        return self._told(run, alike, most=AT_START)

    def before(self, run: LiveRun, tool: ToolName, arguments: Any) -> str:
        """What is known to fail of a call that is about to be made, and what should be read before it."""
        where, content = _where(run), self._content(run)
        call = ToolCall(tool, arguments if isinstance(arguments, dict) else {})  # pyright: ignore[reportUnknownArgumentType]
        found = content.traps(actions_of(call, project=where.project), where)
        found += content.checks(tool, run.session.calls, where)
        return self._told(run, found)

    def after(self, run: LiveRun, calls: Iterable[ToolCall]) -> str:
        """What helped runs that succeeded after the errors of these calls."""
        where, content = _where(run), self._content(run)
        steps = (step_of(call, 0, where.project) for call in calls)
        return self._told(run, [one for step in steps for one in content.recipes(step, where)])

    def _content(self, run: LiveRun) -> ContentHere:
        return self._memory.principles.content(namespace=run.namespace)

    def _told(self, run: LiveRun, found: Iterable[StoredLesson], *, most: int = 2) -> str:
        """The text of lessons that the session has not read yet; as in prompts, they do not depend on its level."""
        fresh = {one.row.id: one for one in [one for one in found if one.row.id not in run.said][:most]}
        run.said.update((id, one.row.text) for id, one in fresh.items())
        return run.session.tell_lessons(list(fresh), lambda ids: _block([fresh[id] for id in ids]))


def _block(lessons: Iterable[StoredLesson]) -> str:
    return "\n".join([BLOCK_START, _INTRODUCTION, *(f"- {line}" for line in _lines(lessons)), BLOCK_END])


def _lines(lessons: Iterable[StoredLesson]) -> Iterator[str]:
    for one in lessons:
        yield on_one_line(in_brackets(one.row))


def _where(run: LiveRun) -> Where:
    return Where(run.session.environment, run.session.project)
