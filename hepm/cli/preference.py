"""`hepm preference`: what each user wants of the agent."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import click

from hepm.cli.commands import Argument, Group, Option
from hepm.cli.model import DryRunOption, ModelChoice, ModelOption, cost_of, tell_cost, tell_estimate
from hepm.cli.options import Bar, JsonOption, Place, print_json, read_messages_file, read_text
from hepm.text import count_of, on_one_line

UserArgument = Annotated[str, Argument(help="The user's id.")]

app = Group("preference", "What each user wants of the agent, refined after every session (MultiSessionCollab).")


def _print(members: dict[str, object], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json(members)
    else:
        print("\n".join(map(on_one_line, lines)))


@app.takes
def reflect(
    place: Place,
    choice: ModelChoice,
    user: Annotated[str | None, Option(help="The session's user. Default: all stored runs that are new.")] = None,
    messages: Annotated[Path | None, Option(help="The session: a file of OpenAI chat messages; - reads stdin.")] = None,
    run: Annotated[str, Option(help="The session: a stored run.")] = "",
    again: Annotated[bool, Option("--again", help="Include runs that were reflected on before.")] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write users' preferences into their notes, from one session or from all new stored runs.

    Example: `hepm preference reflect --namespace retail`
    """
    from hepm.experience.preferences import unseen

    one = messages is not None or bool(run)
    if one != (user is not None):
        raise click.BadParameter("one session needs its user: give --user with --messages or --run, or none of them")
    opened = place.create() if messages is not None else place.open()
    with opened as memory, Bar("runs reflected on") as bar:
        client = choice.client(memory, place.namespace, "user")
        if dry_run:
            waiting = sum(1 for _ in unseen(memory.lessons, place.namespace, again=again))
            cost = client and memory.preferences.estimate(client, namespace=place.namespace, again=again)
            return tell_estimate(waiting, cost, as_json=as_json)
        if user is not None:
            session = read_messages_file(messages) if messages is not None else run
            done = memory.preferences.reflect(user, session, namespace=place.namespace, model=client)
            result: dict[str, object] = {"outcome": done.outcome, "notes": done.notes and asdict(done.notes)}
            line = f"{user}: {done.outcome}"
        else:
            report = memory.preferences.reflect_all(
                namespace=place.namespace, model=client, again=again, on_progress=lambda so_far: bar.show(so_far.runs)
            )
            result = {**asdict(report), "failed": dict(report.failed)}
            line = f"{count_of(report.runs, 'run')} reflected on: {count_of(report.written, 'new version')} of notes"
            for name, why in report.failed[:10]:
                print(on_one_line(f"{name}: {why}"), file=sys.stderr)
    tell_cost(client)
    _print({**result, "cost": cost_of(client)}, [line], as_json=as_json)


@app.takes
def list_(place: Place, as_json: JsonOption = False) -> None:
    """List the users with notes.

    Example: `hepm preference list`
    """
    with place.open() as memory:
        users = memory.preferences.users(namespace=place.namespace)
    _print({"users": users}, users or ["none"], as_json=as_json)


@app.takes
def show(
    place: Place,
    user: UserArgument,
    history: Annotated[bool, Option("--history", help="All versions, the oldest first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the notes on a user.

    Example: `hepm preference show alice --history`
    """
    with place.open() as memory:
        newest = memory.preferences.notes(user, namespace=place.namespace)
        found = memory.preferences.history(user, namespace=place.namespace) if history else [newest] if newest else []
    lines: list[str] = []
    for one in found:
        lines.append(f"version {one.version}, by {one.written_by}" + (f", after {one.session}" if one.session else ""))
        lines += (f"  {line}" for line in one.text.splitlines())
    _print({"notes": [asdict(one) for one in found]}, lines or [f"there are no notes on {user}"], as_json=as_json)


@app.takes
def search(
    place: Place,
    user: UserArgument,
    context: Annotated[str, Argument(help="What the agent knows now, or the latest message.")],
    k: Annotated[int, Option("-k", min=1, help="Maximum number of lines.")] = 3,
    floor: Annotated[float | None, Option(min=-1, max=1, help="Minimum similarity.")] = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the lines of a user's notes that matter now; a model, if named, chooses them.

    Example: `hepm preference search alice "writes a summary of the report"`
    """
    with place.open() as memory:
        client = ModelChoice(model).client(memory, place.namespace, "user")
        found = memory.preferences.recall(user, context, namespace=place.namespace, k=k, floor=floor, model=client)
    tell_cost(client)
    _print({"lines": found, "cost": cost_of(client)}, found or ["no line matters now"], as_json=as_json)


@app.takes
def edit(
    place: Place,
    user: UserArgument,
    text: Annotated[str, Argument(help="The notes, one preference per line; - reads stdin.")],
    version: Annotated[int | None, Option(min=0, help="The version you edited; newer ones are not changed.")] = None,
) -> None:
    """Write a new version of a user's notes.

    Example: `hepm preference edit alice "short answers"`
    """
    words = read_text("-", "TEXT") if text == "-" else text
    with place.create() as memory:
        notes = memory.preferences.edit(user, words, namespace=place.namespace, version=version)
    print(on_one_line(f"{user}: version {notes.version} written"))


@app.takes
def restore(
    place: Place, user: UserArgument, version: Annotated[int, Argument(min=1, help="Number, from `show --history`.")]
) -> None:
    """Copy an earlier version of the notes to a new version.

    Example: `hepm preference restore alice 2`
    """
    with place.open() as memory:
        notes = memory.preferences.restore(user, version, namespace=place.namespace)
    print(on_one_line(f"{user}: version {notes.version} written"))


@app.takes
def forget(place: Place, user: UserArgument, as_json: JsonOption = False) -> None:
    """Delete every version of a user's notes; `hepm forget --user` deletes their runs too.

    Example: `hepm preference forget alice`
    """
    with place.open() as memory:
        gone = memory.preferences.forget(user, namespace=place.namespace)
    _print({"forgotten": gone}, [f"{count_of(len(gone), 'version')} forgotten"], as_json=as_json)
    if not gone:
        raise click.exceptions.Exit(1)
