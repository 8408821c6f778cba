"""How `hepm export` and `hepm import` treat files of lessons: to review, to edit, to carry to another store."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from hepm.cli.commands import flag, option, options_as
from hepm.cli.lesson_list import LessonKind, remark_pending, stored_kind
from hepm.cli.options import (
    StorePlace,
    check_target,
    no_empty_store,
    print_json,
    print_lines,
    read_text,
    tell,
    write_lines,
)
from hepm.errors import InputError
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.experience.lesson_bank import LessonBank
    from hepm.graph.lessons.rows import Kind

LessonForm: TypeAlias = Literal["lessons", "agents"]

_HEAD: Final = 4_096  # first bytes of a file that tell whether it holds lessons
_NO_TEXT: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
_BEGINS_A_LESSON: Final = re.compile(r'\{\s*"hepm":\s*"lesson"')


# Export


@dataclass(frozen=True, slots=True)
class LessonExport:
    """The options of `hepm export` that write lessons alone."""

    form: LessonForm | None
    kinds: tuple[LessonKind, ...]
    every: bool
    pending: bool

    def form_for(self, path: str) -> LessonForm | None:
        """The form that is named, or that the file's name stands for; None for an export of runs and lessons."""
        from hepm.ingest.files.compression import uncompressed_name

        name = uncompressed_name(Path(path).name.lower())
        if self.form is not None:
            return self.form
        if name.endswith((".md", ".markdown")):
            return "agents"
        if self.kinds or self.every:
            return "lessons"
        return None

    @property
    def stored_kinds(self) -> list[Kind]:
        """The kinds that are named, as stores call them."""
        return [stored_kind(kind) for kind in self.kinds]


lesson_export_options = options_as(
    "lessons",
    LessonExport,
    option(
        "--form",
        "Lessons alone: lines of JSON to edit, or a section of Markdown for agents.",
        one_of=get_args(LessonForm),
    ),
    option(
        "--kind kinds",
        "Lessons alone, only of this kind; repeatable.",
        one_of=get_args(LessonKind),
        multiple=True,
    ),
    flag(
        "--all every",
        "Of lessons alone: include retired ones; for agents, instead, those that no prompt shows.",
    ),
    flag("--pending", "For agents: include lessons that wait for approval, to propose them in a pull request."),
)


def export_lessons_alone(place: StorePlace, path: str, form: LessonForm, chosen: LessonExport) -> None:
    """Write lessons to a file, or to stdout for -."""
    if form == "agents":
        with place.open() as memory:
            file = None if path == "-" else Path(path)
            kinds = chosen.stored_kinds or ("principle",)
            write_for_agents(memory.lessons, place, file, kinds, every=chosen.every, pending=chosen.pending)
        return
    from hepm.experience.exchange import export_lessons, write_documents
    from hepm.graph.lessons.rows import KINDS

    kinds = chosen.stored_kinds or KINDS
    with place.open() as memory:
        exported = export_lessons(memory.lessons, namespace=place.namespace, kinds=kinds, retired=chosen.every)
        lines = write_documents(exported)
        if path == "-":
            print_lines(lines)
            return
        write_lines(lines, Path(path), "the lessons")
    tell(f"lessons written to {path}")


def write_for_agents(
    bank: LessonBank,
    place: StorePlace,
    target: Path | None,
    kinds: Sequence[Kind] = ("principle",),
    *,
    every: bool = False,
    pending: bool = False,
) -> None:
    """Write lessons into a file that agents read; what it holds beside them, and what people changed there, stays.

    Args:
        target: None for stdout.
    """
    from hepm.experience.lesson_files import has_section, lessons_for_file, section_of, with_section

    former = ""
    if target is not None and target.exists():
        former = read_text(target, "PATH")
    namespace = place.namespace
    lessons, left_out = lessons_for_file(bank, namespace=namespace, kinds=kinds, every=every, pending=pending)
    # A section that was written before is emptied: its lessons no longer hold.
    if not lessons and not has_section(former):
        raise InputError(_why_nothing(left_out))
    section = section_of(lessons, bank, namespace=namespace, former=former, name=str(target))
    text = with_section(former, section, str(target))
    if target is None:
        print_lines(text.splitlines())
        return
    check_target(target, place.store)
    # Each line gets its end.
    write_lines([text.removesuffix("\n")], target, "the lessons")
    sentence = f"{count_of(len(lessons), 'lesson')} written to {target}"
    if left_out:
        sentence += f"; {left_out:,} left out: no prompt shows them, or they hang on a word (--all)"
    tell(sentence)


def _why_nothing(left_out: int) -> str:
    if not left_out:
        return "there are no lessons to write: `hepm lesson distill` makes them."
    return (
        f"no prompt shows any of the {count_of(left_out, 'lesson')}, or they hang on a word: nothing was written. "
        "--all writes them all the same."
    )


# Import


def holds_lessons(path: str) -> bool:
    """Whether a file holds lessons alone: lines of JSON of which the first is a lesson, or a text, which is none."""
    if path == "-":
        return _begins_with_lessons(_head_of_stdin())
    file = Path(path)
    if not file.is_file():
        return False
    from hepm.ingest.files.compression import is_archive, open_file
    from hepm.ingest.files.unreadable import STREAM_ERRORS

    if is_archive(file.name):
        return False
    try:
        with open_file(file) as stream:
            return _begins_with_lessons(stream.read(_HEAD))
    except STREAM_ERRORS:
        # The reader of runs says what is wrong.
        return False


def _head_of_stdin() -> bytes:
    """The first bytes of standard input, which will be read again."""
    stream: Any = sys.stdin.buffer
    # A pipe can be looked at, but not wound back.
    if hasattr(stream, "peek"):
        return stream.peek(_HEAD)
    start = stream.tell()
    head = stream.read(_HEAD)
    stream.seek(start)
    return head


def _begins_with_lessons(head: bytes) -> bool:
    from hepm.graph.lessons.rows import KINDS

    text = head.decode("utf-8-sig", "replace").lstrip()
    if not text.startswith(("{", "[")):
        # An export of runs is JSON; compressed bytes are no text.
        return bool(text) and _NO_TEXT.search(text[:200]) is None
    try:
        document = json.loads(text.partition("\n")[0])
    except (ValueError, RecursionError):
        # Perhaps a long line, of which this is the beginning.
        return _BEGINS_A_LESSON.match(text) is not None
    if not isinstance(document, dict):
        return False
    about: dict[str, Any] = document  # pyright: ignore[reportUnknownVariableType]
    # Lessons that a person wrote name their kind alone.
    return about.get("hepm") == "lesson" or about.get("kind") in KINDS


def import_lessons_alone(place: StorePlace, path: str, retire_missing: Sequence[LessonKind], *, as_json: bool) -> None:
    """Read lessons from a file, all or none; an edited lesson replaces the original."""
    from hepm.experience.exchange import import_lessons, read_documents

    lines = io.StringIO(read_text(path, "PATHS"), newline=None)
    # For messages.
    name = "stdin" if path == "-" else path
    with no_empty_store(place.store), place.create() as memory:
        done = import_lessons(
            memory.lessons,
            read_documents(lines, name),
            namespace=place.namespace,
            retire_missing=[stored_kind(kind) for kind in retire_missing],
        )
        remark_pending(memory, place.namespace)
    if as_json:
        print_json(asdict(done))
        return
    print(
        f"{done.read:,} lessons read: {done.new:,} new, {done.known:,} known, {done.edited:,} edited, "
        f"{done.retired:,} retired"
    )
