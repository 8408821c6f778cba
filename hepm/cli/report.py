"""`hepm report` and `hepm check`: where agents go wrong, and whether runs still support the lines of a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from hepm.cli.commands import PATH, Several, argument, command, flag, option
from hepm.cli.options import (
    Bar,
    StorePlace,
    check_target,
    format_option,
    json_option,
    place_options,
    print_json,
    print_lines,
    raw,
    read_text,
    remark,
    remark_unusable,
    tell,
    write_lines,
)
from hepm.errors import InputError
from hepm.text import count_of
from hepm.types import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from hepm.experience.lesson_bank import LessonBank
    from hepm.memory import Memory

_UNFIT: Final = (
    "no prompt shows, that hang on a word, number or id, or that say what fails, not when nor what else to do"
)

runs_argument = argument("runs", "Files, folders, globs or tar archives of runs, instead of a store.", nargs=-1)


@command("report")
@runs_argument
@flag("--all every", "Every row of each section.")
@option("--html", "Write one page with everything, and the runs to open.", type=PATH)
@flag("--markdown", "Print Markdown.")
@option("--write", "Write the lessons that runs support into a file such as AGENTS.md.", type=PATH)
@json_option
@format_option
@place_options
def report(
    place: StorePlace,
    runs: Several,
    every: bool,
    html: Path | None,
    markdown: bool,
    write: Path | None,
    as_json: bool,
    format: str,
) -> None:
    """Say where agents go wrong, what worked instead, what no run solved, and what to tell the agent.

    Example: `hepm report results/*.json --html report.html`
    """
    from hepm.report.text import report_lines

    with _memory_of(runs, place, format) as memory:
        with Bar("reading runs") as bar:
            found = memory.report(namespace=place.namespace, anew=True, on_progress=bar.say)
        if html is not None:
            from hepm.web.transcripts import report_page

            check_target(html, place.store)
            write_lines([report_page(memory, found)], html, "the report")
            tell(f"report written to {html}")
        if as_json:
            print_json(found.to_json())
        elif markdown:
            print_lines(report_lines(found, every=every, markdown=True))
        elif html is None and write is None:
            for line in report_lines(found, every=every):
                print(raw(line))
        else:
            tell(found.sentence)
        if write is not None:
            from hepm.experience.counted import learn_by_counting

            learn_by_counting(memory.lessons, namespace=place.namespace)
            write_for_agents(memory.lessons, place, write)


def write_for_agents(
    bank: LessonBank, place: StorePlace, target: Path, *, every: bool = False, pending: bool = False
) -> None:
    """Write lessons into a file that agents read; what it holds beside them, and what people changed there, stays."""
    from hepm.experience.lesson_files import LessonFile, lessons_for_file

    check_target(target, place.store)
    file = LessonFile.read(read_text(target) if target.exists() else "", str(target))
    namespace = place.namespace
    lessons, left_out = lessons_for_file(bank, namespace=namespace, every=every, pending=pending)
    # A section that was written before is emptied: its lessons no longer hold.
    if not lessons and not file.namespace:
        others = ". `hepm lesson distill` makes lessons."
        if left_out:
            others = f", but {left_out:,} that {_UNFIT} (`hepm export FILE.md --all` writes them)."
        raise InputError(f"there are no lessons to write{others}")
    text = file.with_lessons(lessons, namespace=namespace)
    # Each line gets its end.
    write_lines([text.removesuffix("\n")], target, "the lessons")
    others = ""
    if left_out:
        others = f"; {left_out:,} left out that {_UNFIT} (`export --all`)"
    tell(f"{count_of(len(lessons), 'lesson')} written to {target}{others}")


@command("check")
@argument("file", "A file with lessons that `hepm report --write` or `hepm export` wrote.", type=PATH)
@runs_argument
@json_option
@format_option
@place_options
def check(place: StorePlace, file: Path, runs: Several, as_json: bool, format: str) -> None:
    """Check by runs whether the lessons in AGENTS.md still hold; exit 1 where runs no longer support one.

    Example: `hepm check AGENTS.md results/*.json`
    """
    from hepm.report.check import check_lines, lines_to_check

    lines = lines_to_check(read_text(file), str(file))
    with _memory_of(runs, place, format) as memory, Bar("counting rules"):
        evidence = memory.evidence(place.namespace)
        checked = check_lines(lines, memory.lessons, evidence, namespace=place.namespace)
    if as_json:
        print_json(list(map(asdict, checked)))
    else:
        for row in checked:
            tell(row.sentence)
    by_verdict: defaultdict[str, list[str]] = defaultdict(list)
    for row in checked:
        by_verdict[row.verdict].append(row.id)
    changed = by_verdict["changed by hand"]
    untrue = by_verdict["untrue"]
    if changed:
        number = count_of(len(changed), "line was", "lines were")
        remark(
            f"{number} changed by hand, and runs do not say whether the new words hold: {'; '.join(changed)}. Read the "
            "numbers, which are of the words before; to make a line your own, delete the comment at its end"
        )
    if untrue:
        number = count_of(len(untrue), "line is", "lines are")
        raise InputError(f"{number} no longer supported by the runs: " + "; ".join(untrue))
    supported = len(by_verdict["supported"])
    remark(f"{supported:,} of {count_of(len(checked), 'line')} supported, none is untrue")


@contextmanager
def _memory_of(runs: Several, place: StorePlace, format: str) -> Generator[Memory]:
    """The memory that is asked, in whose namespace `place` then is: the store's, or a passing one of runs."""
    if not runs:
        with place.open() as memory:
            yield memory
        return
    from hepm.ingest.prepare import IngestOptions
    from hepm.ingest.records import ReadOptions
    from hepm.memory import Memory

    place.namespace = place.namespace or DEFAULT_NAMESPACE
    with TemporaryDirectory(prefix="hepm-") as folder, Memory.open(Path(folder) / "runs.hepm") as memory:
        with Bar("runs read") as bar:
            read = memory.ingest(
                list(runs),
                namespace=place.namespace,
                reading=ReadOptions(format=format),
                options=IngestOptions(vectors=False),
                on_batch=lambda so_far: bar.show(so_far.read),
            )
        remark_unusable(read.rejected)
        if not read.stored:
            raise InputError(f"no run could be read from {', '.join(runs)}.")
        yield memory
