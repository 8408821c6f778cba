"""`hepm library`: experiences, principles and notes as a file to read, edit and carry along."""

from __future__ import annotations

import io
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hepm.cli.export import print_lines, write_lines
from hepm.cli.ingest import no_empty_store
from hepm.cli.options import (
    NAMESPACE,
    STORE,
    JsonOption,
    NamespaceOption,
    StoreOption,
    check_target,
    open_existing,
    open_memory,
)
from hepm.cli.output import print_json
from hepm.cli.standard_input import read_stdin
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.graph.lessons.rows import Kind


class KindName(StrEnum):
    """Kinds of lessons, as an option takes them."""

    EXPERIENCE = "experience"
    PRINCIPLE = "principle"
    NOTES = "notes"


KindsOption = Annotated[list[KindName] | None, typer.Option("--kind", help="Of this kind alone; may be repeated.")]

app = typer.Typer(
    name="library",
    help="Experiences, principles and notes as a file: to review, to edit, to carry to another store.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.command("export")
def export_(
    path: Annotated[str, typer.Argument(help="The file to write; .md gives Markdown, - writes to stdout.")] = "-",
    form: Annotated[
        Literal["jsonl", "markdown"] | None, typer.Option("--form", help="Left out: by the file's name.")
    ] = None,
    kinds: KindsOption = None,
    retired: Annotated[bool, typer.Option("--retired", help="Those too that are found no more.")] = False,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
) -> None:
    """Write lessons to a file that people can read and edit.

    Example: `hepm library export lessons.md --namespace retail`
    """
    from hepm.experience.documents import write_documents
    from hepm.experience.exchange import export_lessons
    from hepm.graph.lessons.rows import KINDS
    from hepm.ingest.compression import uncompressed_name

    chosen = form or ("markdown" if uncompressed_name(path.lower()).endswith((".md", ".markdown")) else "jsonl")
    if path != "-":
        check_target(Path(path), store)
    with open_existing(store, namespace) as memory:
        found = export_lessons(memory.library, namespace=namespace, kinds=_named(kinds) or KINDS, retired=retired)
        lines = write_documents(found, chosen)
        if path == "-":
            print_lines(lines)
            return
        write_lines(lines, Path(path), "the lessons")
    print(on_one_line(f"lessons written to {path}"))


@app.command("import")
def import_(
    path: Annotated[str, typer.Argument(help="A file that `library export` wrote, edited or not; - reads stdin.")],
    retire_missing: Annotated[
        list[KindName] | None,
        typer.Option("--retire-missing", help="Retire known lessons of this kind that the file lacks; repeatable."),
    ] = None,
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Read lessons from a file, all or none; an edited one takes the place of the one it was written from.

    Example: `hepm library import lessons.md --namespace retail`
    """
    from hepm.cli.compressed import lines_of
    from hepm.experience.documents import read_documents
    from hepm.experience.exchange import import_lessons

    name, lines = ("stdin", io.StringIO(read_stdin("PATH"))) if path == "-" else (path, lines_of(Path(path)))
    with no_empty_store(store), open_memory(store) as memory:
        done = import_lessons(
            memory.library, read_documents(lines, name), namespace=namespace, retire_missing=_named(retire_missing)
        )
    if as_json:
        print_json(asdict(done))
        return
    print(
        f"{done.read:,} lessons read: {done.new:,} new, {done.known:,} known, {done.edited:,} edited, "
        f"{done.retired:,} retired"
    )


@app.command()
def settle(
    run: Annotated[str, typer.Argument(help="Id of the run, as `hepm prompt --run` was told it.")],
    success: Annotated[bool, typer.Option("--success/--failure", help="How it ended.")],
    store: StoreOption = STORE,
    namespace: NamespaceOption = NAMESPACE,
) -> None:
    """Tell how a run ended that is not ingested: the lessons shown in it are credited, once.

    Example: `hepm library settle run-7 --success`
    """
    with open_existing(store, namespace) as memory:
        memory.library.settle(run, success=success, namespace=namespace)
    print(on_one_line(f"{run} ended in {'success' if success else 'failure'}"))


def _named(kinds: list[KindName] | None) -> list[Kind]:
    return [kind.value for kind in kinds or []]
