"""What the commands on experiences, principles and preferences share: how a lesson is printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hepm.cli.output import print_json
from hepm.cli.standard_input import read_text
from hepm.errors import InputError
from hepm.ingest.document import without_surrogates
from hepm.ingest.records import is_list, is_object
from hepm.text import count_of, on_one_line

if TYPE_CHECKING:
    from hepm.experience.distilling.pipeline import DistilReport
    from hepm.graph.lessons.rows import Kind, StoredLesson
    from hepm.memory import Memory

LessonArgument = Annotated[str, typer.Argument(help="Its id, or how the id begins.")]
RetiredOption = Annotated[bool, typer.Option("--retired", help="Those too that are found no more.")]
EnvironmentOption = Annotated[str | None, typer.Option("--environment", help="That hold in one environment.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="At most so many, the newest.")]


def lesson_json(stored: StoredLesson) -> dict[str, Any]:
    """A lesson as programs read it."""
    from hepm.experience.documents import document_of

    told = document_of(stored)
    return {name: value for name, value in told.items() if name not in ("hepm", "version", "digest")}


def holds_in(stored: StoredLesson, environment: str | None) -> bool:
    """Whether a lesson is from an environment, or from any."""
    return environment is None or environment in stored.row.properties["environments"]  # type: ignore[operator]


def list_lessons(found: Sequence[StoredLesson], limit: int, *, as_json: bool) -> None:
    """Print the newest of some lessons, one a line."""
    shown = found[-limit:]
    if as_json:
        print_json({"total": len(found), "lessons": [lesson_json(one) for one in shown]})
        return
    for one in shown:
        print(on_one_line(_line(one)))
    if len(found) > len(shown):
        print(f"({len(found) - len(shown):,} more: --limit {len(found)})", file=sys.stderr)
    if not found:
        print("none")


def nothing_similar(what: str, nearest: float | None, floor: float) -> str:
    """Why a search found nothing: how similar the nearest one is, below the floor; None where there is none at all."""
    if nearest is None:
        return f"there is no {what} here to compare with"
    if nearest >= floor:
        return f"the model chose none; the nearest {what} has a similarity of {nearest:.2f}"
    below = f"{nearest - 0.005:.2f}"  # so that what is printed in two digits is not above it
    return (
        f"no {what} is similar enough: the nearest one's similarity is {nearest:.2f}, the floor {floor:g}; "
        f"--floor {below} finds it"
    )


def _line(one: StoredLesson) -> str:
    row = one.row
    label = {
        "experience": lambda: f"{row.properties['zone']}, {row.properties['stage']}",
        "principle": lambda: f"{row.properties['kind']}",
        "notes": lambda: f"{row.user}, version {row.properties['version']}",
    }[row.kind]()
    words = row.properties["lesson"] if row.kind == "experience" else row.text
    uses = f", {one.uses.successes} of {one.uses.uses} uses went well" if one.uses.uses else ""
    retired = f", {row.retired}" if row.retired else ""
    return f"{row.id}  {label}{uses}{retired}: {words}"


def show_lesson(memory: Memory, name: str, kind: Kind, *, namespace: str, as_json: bool) -> None:
    """Print one lesson whole."""
    one = find_lesson(memory, name, kind, namespace=namespace)
    told = lesson_json(one)
    told["score"] = round(one.uses.score, 6)
    told["shown_in"] = memory.library.shown_in(one.row.id, namespace=namespace)
    if as_json:
        print_json(told)
        return
    for label, value in told.items():
        if value not in ([], {}, ""):
            print(on_one_line(f"{label + ':':16}{_plain(value)}"))


def _plain(value: Any) -> str:
    if is_object(value):
        return ", ".join(f"{name} {_plain(member)}" for name, member in value.items())
    if is_list(value):
        return "; ".join(f"({', '.join(map(str, one))})" if is_list(one) else _plain(one) for one in value)
    return str(value)


def find_lesson(memory: Memory, name: str, kind: Kind, *, namespace: str) -> StoredLesson:
    """The one lesson of a kind whose id begins so, retired or not."""
    if not name:
        raise typer.BadParameter(f"name a lesson: `hepm {kind} list` lists them")
    found = [one for one in memory.library.list(kind, namespace=namespace, retired=True) if one.row.id.startswith(name)]
    exact = [one for one in found if one.row.id == name]
    if len(exact or found) != 1:
        among = f"{len(found)} begin so: {', '.join(one.row.id for one in found[:5])}" if found else "none does"
        raise typer.BadParameter(f"no {kind} is called {name!r} ({among}). See `hepm {kind} list --retired`.")
    return (exact or found)[0]


def tell_report(report: DistilReport, noun: str) -> None:
    """What became of distilling, in a few lines."""
    parts = [f"{count_of(report.runs, 'run')} gave {count_of(report.new, f'new {noun}')}"]
    if report.merged:
        parts.append(f"{report.merged:,} said what one said already")
    if report.dropped:
        parts.append(f"{report.dropped:,} said what others of their task say")
    if report.retired:
        parts.append(f"{count_of(report.retired, 'former one')} no longer taught")
    if report.refused:
        parts.append(f"{report.refused:,} came from runs that are gone")
    print("; ".join(parts))
    if report.alike:
        print(f"{report.alike:,} were compared with runs of like requests, as no other run names their task")
    if not report.runs:
        print("nothing was left to learn from: runs without an outcome wait for one", file=sys.stderr)
    if report.unasked:
        print(f"{report.unasked:,} runs wait: the budget is spent. Run it again to go on.", file=sys.stderr)
    for run, why in report.failed[:10]:
        print(on_one_line(f"{run}: {why}"), file=sys.stderr)
    if len(report.failed) > 10:
        print(f"and {len(report.failed) - 10:,} more runs gave none; they are asked about again", file=sys.stderr)


def read_messages_file(path: Path) -> list[dict[str, Any]]:
    """OpenAI chat messages: a JSON list, an object that holds one as "messages", or one a line."""
    told = _decoded(read_text(path, "--messages"), path)
    if isinstance(told, dict):
        told = told.get("messages")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(told, list) or not all(isinstance(one, dict) and "role" in one for one in told):  # pyright: ignore[reportUnknownVariableType]
        raise InputError(f"{path} holds no chat messages: a list of objects with a role and content is needed.")
    return told  # pyright: ignore[reportUnknownVariableType]


def _decoded(text: str, path: Path) -> Any:
    try:
        return without_surrogates(_json(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} holds no chat messages: it is neither JSON nor JSON Lines ({error}).") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # Not splitlines(): a string in JSON may hold U+2028 and the like as they are.
        return [json.loads(line) for line in text.split("\n") if line.strip()]
