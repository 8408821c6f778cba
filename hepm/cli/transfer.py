"""`hepm export`, `import` and `copy`: runs and lessons to files, back, and into other stores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from click.exceptions import Exit

from hepm.cli.commands import Several, argument, command, flag, option
from hepm.cli.ingest import store_runs
from hepm.cli.options import (
    Bar,
    StorePlace,
    check_target,
    json_option,
    known_namespace,
    open_existing,
    open_memory,
    place_options,
    print_lines,
    refuse,
    tell,
    write_lines,
)
from hepm.cli.report import write_for_agents
from hepm.graph.open_store import embedded_file
from hepm.text import count_of

if TYPE_CHECKING:
    from hepm.memory import Memory


@command("export")
@argument(
    "path",
    "The file to write, such as runs.jsonl.gz or AGENTS.md; - writes to stdout.",
    required=False,
    default="-",
)
@option(
    "--sft",
    "Successful runs alone, to train a model on: as chats, or those of tagged agents, with EvolveR's settings beside.",
    one_of=("chats", "tagged"),
)
@flag("--all every", "In a file for agents: include lessons that no prompt shows.")
@flag("--pending", "In a file for agents: include lessons that wait for approval, to propose them in a pull request.")
@place_options
def export(place: StorePlace, path: str, sft: str | None, every: bool, pending: bool) -> None:
    """Write the runs and lessons of a namespace as lines of hepm's own JSON, or lessons alone, for agents to read.

    Lessons alone go to names in .md such as AGENTS.md: a section; the rest of the file stays.

    Example: `hepm export runs.jsonl --namespace retail`
    """
    for_agents = path.lower().endswith(".md")
    refuse(for_agents and sft is not None, "", "--sft writes runs, and this is an export of lessons alone.")
    refuse(
        (every or pending) and not for_agents, "", "--all and --pending are of a file for agents, such as AGENTS.md."
    )
    refuse(sft == "tagged" and path == "-", "", "--sft tagged needs a file: settings are written beside it")
    if path != "-":
        check_target(Path(path), place.store)
    with place.open() as memory:
        if for_agents:
            write_for_agents(memory.lessons, place, Path(path), every=every, pending=pending)
        elif sft is None:
            _write(memory.export(namespace=place.namespace), path, "line")
        else:
            _write(_examples(memory, place.namespace, path, sft), path, "example")


def _examples(memory: Memory, namespace: str, path: str, form: str) -> Iterator[str]:
    """What `hepm.lab.rl.sft` makes of the successful runs; of tagged agents with EvolveR's settings beside."""
    from hepm.lab.rl.sft import COLD_START, cold_start, sft_examples

    if form == "tagged":
        settings = Path(f"{path}.settings.json")
        write_lines([json.dumps(COLD_START)], settings, "the settings")
        tell(f"settings written to {settings}")
    make = sft_examples
    if form == "tagged":
        make = cold_start
    # Lazily, as the lines are written: a memory may hold a million runs.
    for example in make(memory, namespace=namespace):
        yield json.dumps(example, ensure_ascii=False)


def _write(lines: Iterable[str], path: str, what: str) -> None:
    """Write lines to a file, and say how many, or to stdout for -."""
    if path == "-":
        print_lines(lines)
    else:
        tell(f"{count_of(write_lines(lines, Path(path), f'the {what}s'), what)} written to {path}")


@command("import")
@argument(
    "paths",
    "Files that `hepm export` wrote; - reads stdin.",
    nargs=-1,
    required=True,
)
@json_option
@place_options
def import_(place: StorePlace, paths: Several, as_json: bool) -> None:
    """Read an export back: runs, counts, lessons and credit.

    Example: `hepm import runs.jsonl --store other.hepm`
    """
    from hepm.ingest.prepare import IngestOptions
    from hepm.ingest.records import ReadOptions

    # Not redacted again: secrets were removed when the runs were first stored.
    report = store_runs(place, ReadOptions("hepm"), IngestOptions(redactor=None), paths, (), {}, as_json=as_json)
    if not report.read and not report.lessons:
        raise Exit(1)


@command("copy")
@argument("source", "The memory to read: a file, a folder, or a Neo4j address.")
@argument("target", "The memory to fill, created if missing.")
@option("--namespace -n", "Only this partition; repeatable.", multiple=True)
def copy(source: str, target: str, namespace: Several) -> None:
    """Copy runs, lessons, counts, states and vectors between files and Neo4j, and compare at the end.

    Repeat it to continue after an interruption. `hepm export` and `hepm import` do the same with files of JSON.

    Example: `hepm copy memory.hepm neo4j://localhost:7687`
    """
    # Two names of one store would compare it with itself.
    refuse(_address_of(source) == _address_of(target), "TARGET", "name another store than the source")
    with open_existing(source) as memory:
        names = [known_namespace(memory, name, source) for name in namespace or memory.namespaces()]
        # Opened after the names are checked: a wrong name must leave no empty store behind.
        total = sum(memory.totals(namespace=name).trajectories for name in names)
        with _target(target, memory) as filled, Bar("runs copied and compared") as bar:
            copies = list(memory.copy_to(filled, namespaces=names, on_progress=partial(bar.show, total=total)))
    for copied in copies:
        known = ""
        if copied.runs > copied.stored:
            known = f", {copied.runs - copied.stored:,} known before"
        verdict = "both hold the same"
        if copied.differences:
            verdict = f"they differ: {'; '.join(copied.differences)}"
        tell(f"{copied.namespace}: {copied.stored:,} runs copied{known}; {verdict}")
    if any(copied.differences for copied in copies):
        raise Exit(1)


def _address_of(store: str) -> str:
    """Where a store is: the whole path of its file, or the address of its server."""
    file = embedded_file(store)
    if file is None:
        return store.rstrip("/")
    return str(file.absolute())


def _target(target: str, source: Memory) -> Memory:
    """The memory to copy into; a new one counts as the source does."""
    file = embedded_file(target)
    # A store that is there keeps its own threshold: another one would count its runs again.
    success_from = None
    if file is not None and not file.exists():
        success_from = source.header.success_from
    return open_memory(target, counting=source.header.counting, success_from=success_from)
