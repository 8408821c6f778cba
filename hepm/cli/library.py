"""`hepm library`: experiences, principles and notes as a file."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

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
from hepm.text import on_one_line

LessonKind = Literal["experience", "principle", "notes"]
KindsOption = Annotated[list[LessonKind] | None, Option("--kind", help="Only this kind; repeatable.")]

app = Group("library", "Experiences, principles and notes as a file: to review, to edit, to carry to another store.")


@app.takes
def export_(
    place: Place,
    path: Annotated[str, Argument(help="The file to write; .md gives Markdown, - writes to stdout.")] = "-",
    form: Annotated[Literal["jsonl", "markdown"] | None, Option("--form", help="Default: by the file's name.")] = None,
    kinds: KindsOption = None,
    retired: Annotated[bool, Option("--retired", help="Include retired ones.")] = False,
) -> None:
    """Write lessons to a file: JSON Lines to edit and import, or Markdown to read.

    Example: `hepm library export lessons.jsonl --namespace retail`
    """
    from hepm.experience.exchange import export_lessons, write_documents
    from hepm.graph.lessons.rows import KINDS
    from hepm.ingest.sources import uncompressed_name

    chosen = form or ("markdown" if uncompressed_name(path.lower()).endswith((".md", ".markdown")) else "jsonl")
    if path != "-":
        check_target(Path(path), place.store)
    with place.open() as memory:
        found = export_lessons(memory.library, namespace=place.namespace, kinds=kinds or KINDS, retired=retired)
        lines = write_documents(found, chosen)
        if path == "-":
            print_lines(lines)
            return
        write_lines(lines, Path(path), "the lessons")
    print(on_one_line(f"lessons written to {path}"))


@app.takes
def import_(
    place: Place,
    path: Annotated[str, Argument(help="A JSON Lines file of `library export`, edited or not; - reads stdin.")],
    retire_missing: Annotated[
        list[LessonKind] | None,
        Option("--retire-missing", help="Retire stored lessons of this kind that are missing in the file; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read lessons from a file, all or none; an edited lesson replaces the original.

    Example: `hepm library import lessons.jsonl --namespace retail`
    """
    from hepm.experience.exchange import import_lessons, read_documents

    lines = io.StringIO(read_text(path, "PATH"), newline=None)
    with no_empty_store(place.store), place.create() as memory:
        done = import_lessons(
            memory.library,
            read_documents(lines, "stdin" if path == "-" else path),
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
        memory.library.record_outcome(run, success=success, namespace=place.namespace)
    print(on_one_line(f"{run} ended in {'success' if success else 'failure'}"))
