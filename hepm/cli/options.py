"""Options that commands share, the stores and files that they name, and what commands print and write."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

import click

from hepm.cli.commands import Callback, Several, flag, option, options_as
from hepm.cli.config import read_config
from hepm.errors import InputError, StoreError
from hepm.graph.open_store import DEFAULT_STORE, embedded_file, is_address
from hepm.text import count_of, on_one_line
from hepm.types import DEFAULT_NAMESPACE, Object, Objects

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

    from hepm.ingest.records import Rejection
    from hepm.memory import Memory


FROM_COMMAND: Final = "from the command line"

store_option = option(
    "--store -s",
    "The memory: a file, a folder that contains one, or a Neo4j address (neo4j://host:7687).",
    config="store",
    default=DEFAULT_STORE,
    envvar="HEPM_STORE",
    show_envvar=True,
)
format_option = option("--format -f", "A reader's name; auto recognises each file.", default="auto")
yes_option = flag("--yes -y", "Do not ask before something is deleted.")
json_option = flag("--json as_json", "Print JSON for programs.")

namespace_option = option(
    "--namespace -n", "The partition. Default: the only one of the store, else default.", config="namespace", default=""
)


@dataclass(slots=True)
class StorePlace:
    """The options that name the memory a command works on. A namespace that is not given is chosen on opening."""

    store: str = DEFAULT_STORE
    namespace: str = ""

    @contextmanager
    def open(self) -> Generator[Memory]:
        """Open the memory for reading; a missing one or an empty namespace is an error."""
        with open_existing(self.store) as memory:
            self.namespace = known_namespace(memory, self.namespace, self.store, also=memory.sessions.by_namespace)
            yield memory

    def create(self, **options: Any) -> Memory:
        """Open the memory, or make it: see `open_memory`. Says so if it chose a namespace that is not the default."""
        memory = open_memory(self.store, **options)
        chosen = self.namespace or sole_namespace(memory.namespaces())
        if chosen not in (self.namespace, DEFAULT_NAMESPACE):
            remark(f"hepm: the namespace is {chosen!r}, the only one in {self.store}; --namespace names another")
        self.namespace = chosen
        return memory


place_options = options_as("place", StorePlace, store_option, namespace_option)


def open_memory(store: str, **about: Any) -> Memory:
    """Open a memory, or create it, with more arguments of `Memory.open`; `OPENAI_*` variables give the embeddings
    endpoint, and settings the folder of sessions under way.
    """
    from hepm.memory import Memory

    config = read_config()
    sessions = config.serve.sessions
    # A server may be far away; a run under way must be on a disk of this machine.
    if sessions is None and is_address(store):
        sessions = Path("hepm-sessions")
    # Of embeddings: a store whose embedder is a model of OpenAI's asks it.
    endpoint = (os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY"))
    try:
        return Memory.open(store, endpoint=endpoint, sessions=sessions, approve=config.lessons.approve, **about)
    except StoreError as error:
        if chosen_by(store) == FROM_COMMAND:  # the message has the name already
            raise
        raise type(error)(f"{str(error).rstrip('.')}. The store is {store}, {chosen_by(store)}.") from error


def open_existing(store: str) -> Memory:
    """Open a memory for reading; a missing one is an error."""
    check_store(store)
    return open_memory(store)


def chosen_by(store: str) -> str:
    """What chose the store, for a sentence."""
    # In the order in which they win, but for the command line, which may say the same.
    if store == os.environ.get("HEPM_STORE"):
        return "from HEPM_STORE"
    config = read_config()
    if store == config.store:
        return f"from {config.path}"
    if store == DEFAULT_STORE:
        return "the default in this folder"
    return FROM_COMMAND


def check_store(store: str) -> None:
    """Reject a missing file."""
    file = embedded_file(store)
    if file is not None and not file.exists():
        raise click.BadParameter(
            f"there is no memory at {file}, {chosen_by(store)}. Make one with `hepm ingest RUNS --store {store}`."
        )


def sole_namespace(namespaces: Sequence[str]) -> str:
    """The namespace of a command that names none: the only one of the store, else the default."""
    if len(namespaces) == 1:
        return namespaces[0]
    return DEFAULT_NAMESPACE


def known_namespace(memory: Memory, namespace: str, store: str, *, also: Callable[[], Container[str]] = tuple) -> str:
    """The namespace, if something is stored in it; else it is likely misspelt. "" for the store's only one.

    `also` returns names that are known though nothing is stored.
    """
    namespaces = memory.namespaces()
    namespace = namespace or sole_namespace(namespaces)
    if namespace not in namespaces and namespace not in also():
        there = "The store is empty."
        if namespaces:
            there = f"There are: {', '.join(namespaces)}."
        raise click.BadParameter(
            f"nothing is stored in {namespace!r}. {there} The store is {store}, {chosen_by(store)}.",
            param_hint="--namespace",
        )
    return namespace


def with_memory(function: Callback) -> Callback:
    """A command that gets the `memory` that --store names, open, and the `namespace` to read."""

    @wraps(function)
    def call(place: StorePlace, **values: Any) -> Any:
        with place.open() as memory:
            return function(memory=memory, namespace=place.namespace, **values)

    return place_options(call)


def with_namespaces(function: Callback) -> Callback:
    """A command that gets the `memory` of a `store`, open, and all its `namespaces`, or the one that is named."""

    @wraps(function)
    def call(store: str, namespace: str | None, **values: Any) -> Any:
        with open_existing(store) as memory:
            names: Sequence[str] = memory.namespaces()
            if namespace is not None:
                names = [known_namespace(memory, namespace, store, also=memory.sessions.by_namespace)]
            return function(memory=memory, namespaces=names, store=store, **values)

    return store_option(option("--namespace -n", "One partition. Default: all.")(call))


def check_target(target: Path, store: str) -> None:
    """Reject an output path that is the store being read."""
    file = embedded_file(store)
    refuse(
        file is not None and target.exists() and file.exists() and target.samefile(file),
        "PATH",
        f"{target} is the store itself: name another file to write",
    )


def confirm(question: str) -> None:
    """Ask in the terminal before something is deleted; without a terminal, say which option skips the question.

    Raises:
        click.Abort: the answer is no.
    """
    refuse(not sys.stdin.isatty(), "", f"{question} Add --yes to do so, or --dry-run to see which.")
    click.confirm(question[0].upper() + question[1:], abort=True, err=True)


def remark_unusable(rejected: Sequence[Rejection]) -> None:
    """Say how many files and records could not be used, and why the first, if any."""
    for first in rejected[:1]:
        remark(f"hepm: {count_of(len(rejected), 'input')} could not be used, such as {first.file}: {first.reason}")


def read_text(path: Path | str) -> str:
    """The text of a file, or of standard input for -."""
    name = str(path)
    content = b""
    if name == "-":
        name = "standard input"
        content = sys.stdin.buffer.read()
    else:
        content = Path(path).read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8.") from error


def read_messages_file(path: Path) -> Objects:
    """OpenAI chat messages: a JSON list, or an object that holds one as "messages"."""
    from hepm.ingest.records import without_surrogates

    try:
        messages: Any = without_surrogates(json.loads(read_text(path)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} holds no chat messages: it is no JSON ({error}).") from error
    if isinstance(messages, dict):
        messages = cast(Object, messages).get("messages")
    if not isinstance(messages, list) or not all(isinstance(one, dict) and "role" in one for one in messages):  # pyright: ignore[reportUnknownVariableType]
        raise InputError(f"{path} holds no chat messages: a list of objects with a role and content is needed.")
    return cast("Objects", messages)


def refuse(wrong: object, named: str, message: str) -> None:
    """Raise a misuse, if it is one: of an option or argument, or of none where that is ""."""
    if wrong:
        raise click.BadParameter(message, param_hint=named or None)


def pairs(given: Several, named: str, form: str) -> dict[str, str]:
    """The values of a repeatable option of the form NAME=VALUE, by name."""
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        refuse(not (name.strip() and equals), named, f"{text!r} is not {form}")
        values[name.strip()] = value
    return values


def names_in(text: str) -> list[str]:
    """The names in a text, separated by commas."""
    return [name.strip() for name in text.split(",")]


def json_or_text(text: str) -> Any:
    """A value that a user wrote: temperature=0 is a number, reasoning_effort=low is text."""
    try:
        # NaN and Infinity are no JSON: they stay text.
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


def tell(text: str) -> None:
    """Print a result on one line."""
    print(on_one_line(text))


def remark(text: str) -> None:
    """Print what people should know beside the result: one line on stderr."""
    print(on_one_line(text), file=sys.stderr)


def print_json(value: object) -> None:
    """Print one line of JSON, in ASCII."""
    print(json.dumps(value, default=str))


def raw(text: str) -> str:
    """Data for stdout: exact in a pipe or a file; on a terminal with control characters escaped."""
    if not sys.stdout.isatty():
        return text
    return "\n".join(map(on_one_line, text.split("\n")))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout in UTF-8, whatever a terminal shows."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(raw(line))


def write_lines(lines: Iterable[str], target: Path, what: str) -> int:
    """Write lines to a file atomically, compressed if its name ends in .gz; returns their number.

    `what` names the lines in error messages: "the runs".
    """
    import gzip

    from hepm.atomic_file import atomic_file

    count = 0
    # Closed from the innermost outwards: the file appears under its name once it is whole.
    with (
        atomic_file(target, what) as place,
        place.open("wb") as file,
        # No time: equal bytes give an equal file.
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) if target.suffix == ".gz" else nullcontext(file) as stream,
        Bar("lines written") as bar,
    ):
        for line in lines:
            stream.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            count += 1
            if not count % 100:
                bar.show(count)
    return count


def print_table(table: RenderableType) -> None:
    """Print a table, or texts and tables, uncut, however narrow the terminal is."""
    from rich.console import Console
    from rich.measure import Measurement

    # Texts are shown as they are: "[/b]" and ":smile:" may be names of tools.
    console = Console(markup=False, emoji=False, highlight=False)
    unlimited = console.options.update(width=1_000_000)
    console.width = max(console.width, Measurement.get(console, unlimited, table).maximum)
    console.print(table, soft_wrap=True)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str | float]], title: str = "") -> None:
    """Print a table without lines; columns of numbers stand on the right."""
    from rich.table import Table

    named = on_one_line(title) or None
    table = Table(title=named, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(on_one_line(column))
    for row in rows:
        cells: list[str] = []
        for column, value in zip(table.columns, row, strict=True):
            shown = value
            if not isinstance(value, str):
                column.justify = "right"
                shown = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
            cells.append(on_one_line(str(shown)))
        table.add_row(*cells)
    print_table(table)


class Bar:
    """A bar with a count and the time; silent if stderr is not a terminal.

    Attributes:
        what: What is counted or done; it may change on the way.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._drawn: Progress | None = None
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # Until a total is known, the bar only shows that work goes on.
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
        # Results of a pipe stay on stdout; only at a terminal they are written above the bar.
        above = sys.stdout.isatty()
        self._drawn = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=above)
        self._task = self._drawn.add_task(what, total=None)

    def show(self, done: int, total: int | None = None) -> None:
        """Update the count."""
        if self._drawn is None:
            return
        progress = f"{done:,}"
        if total:
            progress += f" of {total:,}"
        self._drawn.update(self._task, description=f"{progress} {self.what}", completed=done, total=total)

    def say(self, what: str) -> None:
        """Name what is done next."""
        self.what = what
        if self._drawn is not None:
            self._drawn.update(self._task, description=what, completed=0, total=None)

    def __enter__(self) -> Self:
        if self._drawn is not None:
            self._drawn.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()
