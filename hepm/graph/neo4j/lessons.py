"""Lessons as nodes of Neo4j, and their relationships."""

from __future__ import annotations

from typing import Final

from hepm.graph.lessons.rows import LessonRow
from hepm.graph.rows import Aliases, Values

LINKS: Final = (
    "unlink_lesson_runs",  # a run that no longer stands behind a lesson must go
    "link_lesson_runs",
    "link_lesson_tools",
    "link_lesson_parents",
    "link_triples",
)
"""Statements that link lessons by rows of `links_of`."""


def links_of(row: LessonRow, aliases: Aliases) -> Values:
    """What a lesson's node is linked to: runs, tools, the lessons that it was made of, and what it says."""
    parents: list[dict[str, str]] = []
    if row.kind != "notes":
        parents = [{"parent": parent.id, "operator": parent.operator} for parent in row.parents]
    return {
        "lesson": row.id,
        "links": [source._asdict() for source in row.sources],
        "tools": [{"tool": aliases.get(tool, tool)} for tool in row.tools],
        "parents": parents,
        "triples": [triple._asdict() for triple in row.triples],
    }


def notes_link_of(row: LessonRow) -> dict[str, str]:
    """The user of notes, and the notes that they revise: the last ones are preferred."""
    parent = row.parents[0].id if row.parents else ""
    return {"lesson": row.id, "parent": parent, "user": row.user}
