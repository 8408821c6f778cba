"""Options that several commands share, each with one meaning."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from hepm.cli.commands import Option
from hepm.errors import InputError

if TYPE_CHECKING:
    from hepm.graph.store import Counting, Store
    from hepm.memory import Memory

StoreOption = Annotated[
    str,
    Option(
        "--store",
        "-s",
        envvar="HEPM_STORE",
        help="The memory: a file, a folder that contains one, or a Neo4j address (neo4j://host:7687).",
    ),
]
NamespaceOption = Annotated[str, Option("--namespace", "-n", help="The partition of the store to work in.")]
JsonOption = Annotated[bool, Option("--json", help="Print JSON for programs.")]

# The defaults of `Memory`, written again: `--help` and a misuse answer in half the time without its imports.
STORE: Final = "memory.hepm"
NAMESPACE: Final = "default"

_DEFAULT: Final = "the default in this folder"


@dataclass(frozen=True, slots=True)
class Place:
    """The options that say which memory a command works on."""

    store: StoreOption = STORE
    namespace: NamespaceOption = NAMESPACE

    def open(self) -> Memory:
        """Open the memory to read it; a missing one, or an empty namespace, is a misuse."""
        return open_existing(self.store, self.namespace)


def open_memory(
    store: str, *, embedder: str | None = None, counting: Counting | None = None, named_by: str = "--store"
) -> Memory:
    """Open a memory, or create it; the embeddings endpoint comes from the `OPENAI_*` variables.

    `named_by` is the option or argument that may have named it.
    """
    from hepm.errors import StoreError
    from hepm.memory import Memory

    chosen = chosen_by(store, named_by)
    if (hint := _server_hint(chosen)) and not Path(store).exists():
        print(f"hepm: {store}, {chosen}, is made now.{hint}", file=sys.stderr)
    try:
        return Memory.open(
            store,
            embedder=embedder,
            counting=counting,
            endpoint=(os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")),
        )
    except StoreError as error:
        if chosen == f"from {named_by}":
            raise
        raise type(error)(f"{str(error).rstrip('.')}. The store is {store}, {chosen}.") from error


def chosen_by(store: str, named_by: str = "--store") -> str:
    """What chose the store, for a sentence."""
    if named_by == "--store":
        if store == os.environ.get("HEPM_STORE"):
            return "from HEPM_STORE"
        if store == STORE:
            return _DEFAULT
    return f"from {named_by}"


def _server_hint(chosen: str) -> str:
    """What to do where NEO4J_URI is set and the default was chosen all the same; "" elsewhere."""
    unused = chosen == _DEFAULT and os.environ.get("NEO4J_URI")
    return ' NEO4J_URI is set: give --store "$NEO4J_URI" to use that server.' if unused else ""


def store_file(store: str) -> Path | None:
    """The file behind `--store`, there or not; None where it names a server."""
    from hepm.graph.open_store import is_address
    from hepm.graph.sqlite.store import FILE_NAME

    if is_address(store):
        return None
    path = Path(store)
    return path / FILE_NAME if path.is_dir() else path


def open_existing(store: str, namespace: str | None = None, *, named_by: str = "--store") -> Memory:
    """Open a memory for reading; a missing one is an error."""
    check_store(store, named_by)
    memory = open_memory(store, named_by=named_by)
    try:
        if namespace is not None:
            known_namespace(memory, namespace, store, named_by)
    except BaseException:
        memory.close()
        raise
    return memory


def check_store(store: str, named_by: str = "--store") -> None:
    """Reject a missing file."""
    file = store_file(store)
    if file is not None and not file.exists():
        chosen = chosen_by(store, named_by)
        option = f" --store {store}" if chosen == f"from {named_by}" else ""
        raise click.BadParameter(
            f"there is no memory at {file}, {chosen}. Make one with `hepm ingest RUNS{option}`.{_server_hint(chosen)}",
            param_hint=named_by,
        )


def known_namespace(memory: Memory | Store, namespace: str, store: str, named_by: str = "--store") -> str:
    """The namespace if it is not empty; an empty one is likely a misspelling."""
    known = memory.namespaces()
    if namespace not in known:
        there = f"There are: {', '.join(known)}." if known else "The store is empty."
        raise click.BadParameter(
            f"nothing is stored in {namespace!r}. {there} The store is {store}, {chosen_by(store, named_by)}.",
            param_hint="--namespace",
        )
    return namespace


def check_sources(sources: Sequence[str]) -> None:
    """Refuse to read a standard input that is closed."""
    if "-" in sources:
        check_stdin("RUNS")


def check_target(target: Path, store: str) -> None:
    """Reject an output path that is the store being read."""
    file = store_file(store)
    if file is not None and target.exists() and file.exists() and target.samefile(file):
        raise click.BadParameter(f"{target} is the store itself: name another file to write", param_hint="PATH")


def split_names(text: str | None) -> list[str] | None:
    """Tool names of a comma-separated list; None stays None."""
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]


def check_stdin(hint: str) -> None:
    """Refuse to read a standard input that is closed.

    Args:
        hint: What to call the place of the - on the command line.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # `hepm ... <&-` closes it
        raise click.BadParameter("standard input is closed: there is nothing to read behind -", param_hint=hint)


def read_stdin(hint: str) -> str:
    """All of standard input, as text."""
    check_stdin(hint)
    return _decoded(sys.stdin.buffer.read(), "standard input")


def read_text(path: Path, hint: str) -> str:
    """The text of a file, or of standard input where that is -."""
    return read_stdin(hint) if str(path) == "-" else _decoded(path.read_bytes(), str(path))


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8.") from error
