"""`hepm library`: experiences, principles and notes as a file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, Literal

import click

from hepm.cli.commands import Argument, Group, Option
from hepm.cli.options import (
    JsonOption,
    Place,
    check_target,
    no_empty_store,
    print_json,
    print_lines,
    read_text,
    write_lines,
)
from hepm.errors import InputError
from hepm.text import count_of, on_one_line

LessonKind = Literal["experience", "principle", "notes"]
FileForm = Literal["jsonl", "markdown", "agents", "skill"]
SKILL_FILE: Final = "SKILL.md"
KindsOption = Annotated[list[LessonKind] | None, Option("--kind", help="Only this kind; repeatable.")]

app = Group("library", "Experiences, principles and notes as a file: to review, to edit, to carry to another store.")


@app.takes
def export_(
    place: Place,
    path: Annotated[
        str,
        Argument(help="The file to write: AGENTS.md, CLAUDE.md, SKILL.md, .jsonl or .md; - writes to stdout."),
    ] = "-",
    form: Annotated[FileForm | None, Option("--form", help="Default: by the file's name.")] = None,
    kinds: KindsOption = None,
    retired: Annotated[bool, Option("--retired", help="Include retired ones (jsonl and markdown).")] = False,
    every: Annotated[
        bool, Option("--all", help="Include lessons that no held-out runs support, and old ones (agents and skill).")
    ] = False,
) -> None:
    """Write lessons to a file: JSON Lines to edit and import, a section for agents, a skill, or Markdown to read.

    Example: `hepm library export AGENTS.md --namespace retail`
    """
    from hepm.experience.exchange import export_lessons, write_documents
    from hepm.graph.lessons.rows import KINDS

    chosen = form or _form_of(path)
    if chosen in ("agents", "skill"):
        if retired:
            raise click.UsageError(f"--retired is not for --form {chosen}: agents read such a file.")
        _export_for_agents(place, path, kinds or ("principle",), skill=chosen == "skill", every=every)
        return
    if every:
        raise click.UsageError("--all is for --form agents and --form skill: this file gets all lessons.")
    if path != "-":
        check_target(Path(path), place.store)
    with place.open() as memory:
        found = export_lessons(memory.lessons, namespace=place.namespace, kinds=kinds or KINDS, retired=retired)
        lines = write_documents(found, chosen)
        if path == "-":
            print_lines(lines)
            return
        write_lines(lines, Path(path), "the lessons")
    print(on_one_line(f"lessons written to {path}"))


def _form_of(path: str) -> FileForm:
    from hepm.ingest.sources import uncompressed_name

    name = uncompressed_name(Path(path).name.lower())
    if name in ("agents.md", "claude.md", "gemini.md"):
        return "agents"
    if name == SKILL_FILE.lower():
        return "skill"
    return "markdown" if name.endswith((".md", ".markdown")) else "jsonl"


def _export_for_agents(place: Place, path: str, kinds: Sequence[LessonKind], *, skill: bool, every: bool) -> None:
    """Write the section of a file; what the file holds beside it stays, and edits that were not imported stop it."""
    from hepm.experience.lesson_files import (
        has_section,
        lessons_for_file,
        read_section,
        section_of,
        skill_text,
        with_section,
    )

    target = Path(path)
    if path != "-" and skill and target.name.lower() != SKILL_FILE.lower():
        target /= SKILL_FILE
    former = read_text(target, "PATH") if path != "-" and target.exists() else ""
    with place.open() as memory:
        library, namespace = memory.lessons, place.namespace
        if has_section(former):
            edits = read_section(former, str(target), library, namespace=namespace).edits
            if edits:
                raise InputError(
                    f"{target} has {count_of(edits, 'edit')} not imported, which would be lost: "
                    f"run `hepm library import {target}` first."
                )
        lessons, left_out = lessons_for_file(library, namespace=namespace, kinds=kinds, every=every)
        if not lessons and not has_section(former):
            raise InputError(
                f"no lesson is supported by runs that it was not made from ({left_out:,} are not): nothing was "
                "written. --all writes them all the same; more runs may support them."
                if left_out
                else "there are no lessons to write: `hepm lesson distill` makes them."
            )
        if skill:
            folder = target.absolute().parent.name if path != "-" else namespace
            text = skill_text(former, lessons, library, namespace=namespace, folder=folder)
        else:
            text = with_section(former, section_of(lessons, library, namespace=namespace), str(target))
    if path == "-":
        print_lines(text.splitlines())
        return
    if skill:
        target.parent.mkdir(parents=True, exist_ok=True)
    check_target(target, place.store)
    write_lines([text.removesuffix("\n")], target, "the lessons")
    rest = f"; {left_out:,} left out: held-out runs do not support them, or they are old (--all)" if left_out else ""
    print(on_one_line(f"{count_of(len(lessons), 'lesson')} written to {target}{rest}"))


@app.takes
def import_(
    place: Place,
    path: Annotated[
        str, Argument(help="A file of `library export`, edited or not, or a skill's folder; - reads stdin.")
    ],
    retire_missing: Annotated[
        list[LessonKind] | None,
        Option(
            "--retire-missing",
            help="Retire stored lessons of this kind that are missing in a JSON Lines file; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read lessons from a file, all or none; an edited lesson replaces the original.

    In a section for agents or a skill, a deleted line retires its lesson.

    Example: `hepm library import lessons.jsonl --namespace retail`
    """
    from hepm.experience.exchange import import_lessons, read_documents
    from hepm.experience.lesson_files import has_section, read_section

    source = path if path == "-" or not Path(path).is_dir() else str(Path(path) / SKILL_FILE)
    text = read_text(source, "PATH")
    name = "stdin" if path == "-" else source
    if has_section(text):
        if retire_missing:
            raise click.UsageError("--retire-missing is for JSON Lines: here a deleted line retires its lesson.")
        with place.open() as memory:
            read = read_section(text, name, memory.lessons, namespace=place.namespace)
            done = import_lessons(memory.lessons, read.lessons, namespace=place.namespace, deleted=read.deleted)
    else:
        lines = io.StringIO(text, newline=None)
        with no_empty_store(place.store), place.create() as memory:
            done = import_lessons(
                memory.lessons,
                read_documents(lines, name),
                namespace=place.namespace,
                retire_missing=retire_missing or (),
            )
    if as_json:
        print_json(asdict(done))
        return
    print(
        f"{done.read:,} lessons read: {done.new:,} new, {done.known:,} known, {done.edited:,} edited, "
        f"{done.retired:,} retired"
    )


@app.takes
def settle(
    place: Place,
    run: Annotated[str, Argument(help="Id of the run, as given to `hepm prompt --run`.")],
    success: Annotated[bool, Option("--success/--failure", help="Its outcome.")],
) -> None:
    """Report the outcome of a run that is not ingested; the lessons shown in it are credited once.

    Example: `hepm library settle run-7 --success`
    """
    with place.open() as memory:
        memory.lessons.record_outcome(run, success=success, namespace=place.namespace)
    print(on_one_line(f"{run} ended in {'success' if success else 'failure'}"))
