"""How `hepm export` writes lessons into a file that agents read, such as AGENTS.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from hepm.cli.commands import flag, option, options_as
from hepm.cli.options import StorePlace, check_target, print_lines, read_text, tell, write_lines
from hepm.errors import InputError
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.experience.lesson_bank import LessonBank
    from hepm.graph.lessons.rows import Kind

FileKind: TypeAlias = Literal["experience", "principle"]


@dataclass(frozen=True, slots=True)
class LessonExport:
    """The options of `hepm export` that write lessons alone."""

    agents: bool
    kinds: tuple[FileKind, ...]
    every: bool
    pending: bool

    def is_for(self, path: str) -> bool:
        """Whether lessons alone are written: an option says so, or the file's name."""
        from hepm.ingest.files.compression import uncompressed_name

        name = uncompressed_name(Path(path).name.lower())
        named = self.agents or bool(self.kinds) or self.every or self.pending
        return named or name.endswith((".md", ".markdown"))


lesson_export_options = options_as(
    "lessons",
    LessonExport,
    flag("--agents", "Lessons alone, as a section of Markdown, in a file of any name."),
    option(
        "--kind kinds",
        "For agents: lessons of this kind. Default: principle.",
        one_of=get_args(FileKind),
        multiple=True,
    ),
    flag("--all every", "For agents: include lessons that no prompt shows."),
    flag("--pending", "For agents: include lessons that wait for approval, to propose them in a pull request."),
)


def export_for_agents(place: StorePlace, path: str, chosen: LessonExport) -> None:
    """Write lessons into a file, or to stdout for -."""
    with place.open() as memory:
        file = None if path == "-" else Path(path)
        kinds = chosen.kinds or ("principle",)
        write_for_agents(memory.lessons, place, file, kinds, every=chosen.every, pending=chosen.pending)


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
