"""Options that several commands share, and the stores and input files that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from hepm.cli.commands import Option
from hepm.errors import HepmError, InputError

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

# The defaults of `Memory`, repeated here: `--help` takes half the time without its imports.
STORE: Final = "memory.hepm"
NAMESPACE: Final = "default"

_DEFAULT: Final = "the default in this folder"


@dataclass(frozen=True, slots=True)
class Place:
    """The options that name the memory a command works on."""

    store: StoreOption = STORE
    namespace: NamespaceOption = NAMESPACE

    def open(self) -> Memory:
        """Open the memory for reading; a missing one or an empty namespace is an error."""
        memory = open_existing(self.store)
        try:
            known_namespace(memory, self.namespace, self.store)
        except BaseException:
            memory.close()
            raise
        return memory


def open_memory(
    store: str, *, embedder: str | None = None, counting: Counting | None = None, named_by: str = "--store"
) -> Memory:
    """Open a memory, or create it. `OPENAI_*` variables give the embeddings endpoint.

    `named_by` is the option or argument with its name.
    """
    from hepm.errors import StoreError
    from hepm.memory import Memory

    chosen = chosen_by(store, named_by)
    if (hint := _server_hint(chosen)) and not Path(store).exists():
        print(f"hepm: {store}, {chosen}, is made now.{hint}", file=sys.stderr)
    endpoint = (os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY"))
    try:
        return Memory.open(store, embedder=embedder, counting=counting, endpoint=endpoint)
    except StoreError as error:
        if chosen == f"from {named_by}":
            raise
        raise type(error)(f"{str(error).rstrip('.')}. The store is {store}, {chosen}.") from error


def open_existing(store: str, *, named_by: str = "--store") -> Memory:
    """Open a memory for reading; a missing one is an error."""
    check_store(store, named_by)
    return open_memory(store, named_by=named_by)


def chosen_by(store: str, named_by: str = "--store") -> str:
    """What chose the store, for a sentence."""
    if named_by == "--store" and store == os.environ.get("HEPM_STORE"):
        return "from HEPM_STORE"
    return _DEFAULT if named_by == "--store" and store == STORE else f"from {named_by}"


def _server_hint(chosen: str) -> str:
    """A hint if NEO4J_URI is set but the default was chosen."""
    unused = chosen == _DEFAULT and os.environ.get("NEO4J_URI")
    return ' NEO4J_URI is set: give --store "$NEO4J_URI" to use that server.' if unused else ""


def store_file(store: str) -> Path | None:
    """The file behind `--store`, existing or not; None for a server."""
    from hepm.graph.open_store import is_address
    from hepm.graph.sqlite.store import FILE_NAME

    if is_address(store):
        return None
    path = Path(store)
    return path / FILE_NAME if path.is_dir() else path


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


def check_target(target: Path, store: str) -> None:
    """Reject an output path that is the store being read."""
    file = store_file(store)
    if file is not None and target.exists() and file.exists() and target.samefile(file):
        raise click.BadParameter(f"{target} is the store itself: name another file to write", param_hint="PATH")


@contextmanager
def no_empty_store(store: str) -> Generator[None]:
    """Delete a store that was created inside and is empty at the end, whatever ended it."""
    file = store_file(store)
    existed = file is None or file.exists()
    try:
        yield
    finally:
        if file is not None and not existed and file.exists() and _is_empty(file):
            log = file.with_name(file.name + "-wal")
            if not log.exists():  # else another process has opened it meanwhile, and may be storing runs
                file.unlink()


def _is_empty(file: Path) -> bool:
    if not file.stat().st_size:
        return True
    with suppress(HepmError), open_memory(str(file)) as memory:
        return not memory.namespaces()
    return False


def split_names(text: str | None) -> list[str] | None:
    """Tool names of a comma-separated list; None stays None."""
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]


def check_sources(sources: Sequence[str], hint: str = "RUNS") -> None:
    """Refuse to read a closed standard input; `hint` names the argument that may be -."""
    if "-" in sources and sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # `hepm ... <&-` closes it
        raise click.BadParameter("standard input is closed: there is nothing to read behind -", param_hint=hint)


def read_stdin(hint: str) -> str:
    """All of standard input, as text."""
    check_sources(["-"], hint)
    return _decoded(sys.stdin.buffer.read(), "standard input")


def read_text(path: Path | str, hint: str) -> str:
    """The text of a file, decompressed if its name says so, or of standard input for -."""
    if str(path) == "-":
        return read_stdin(hint)
    from hepm.ingest.sources import STREAM_ERRORS, open_file

    try:
        with open_file(Path(path)) as stream:
            return _decoded(stream.read(), str(path))
    except STREAM_ERRORS as error:
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        raise InputError(f"{path} is damaged or not what its name says: {error}.") from error


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8.") from error
