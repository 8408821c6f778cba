"""Queries: `hepm suggest`, `search`, `prompt` and `cypher`."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import click

from hepm.cli import options
from hepm.cli.commands import PATH, Argument, Command, options_as
from hepm.cli.model import ModelChoice, cost_of, model_option, tell_cost
from hepm.cli.options import (
    Place,
    json_option,
    place_options,
    plain,
    print_json,
    raw,
    read_messages_file,
    sole_namespace,
    speak_option,
)
from hepm.graph.open_store import embedded_file
from hepm.text import on_one_line

if TYPE_CHECKING:
    from hepm.cypher import NamedQuery
    from hepm.cypher.model import Result, Value
    from hepm.types import Speak, Suggestions

PolicyName: TypeAlias = Literal["hybrid", "adaptive", "episodic", "procedural", "gnn"]


@dataclass(frozen=True, slots=True)
class Calls:
    """The options about what was called, and what can be."""

    after: tuple[str, ...]
    tools: tuple[str, ...]

    def names(self) -> dict[str, Any]:
        """The arguments of `Memory.suggest` and `Memory.prompt`."""
        return {"after": _split_names(self.after), "tools": _split_names(self.tools)}


calls_options = options_as(
    "calls",
    Calls,
    click.option("--after", multiple=True, help="Last tool, or parallel ones, comma-separated. Default: start."),
    click.option("--tools", multiple=True, help="Tools the agent has, comma-separated. Default: all."),
)


def _split_names(texts: Sequence[str]) -> list[str] | None:
    """The names in options that take several, separated by commas; None if no option was given."""
    if not texts:
        return None
    parts = ",".join(texts).split(",")
    names = [part.strip() for part in parts]
    return [name for name in names if name]


@click.command("suggest", cls=Command)
@click.option("--state", help="What the agent knows now, in a few lines.")
@click.option("--history", multiple=True, help="All calls so far, oldest first, comma-separated.")
@click.option("-k", type=click.IntRange(min=1), default=2, show_default=True, help="Maximum number.")
@click.option(
    "--policy",
    type=click.Choice(get_args(PolicyName)),
    default="hybrid",
    show_default=True,
    help="How to rank; gnn needs `hepm rank train`.",
)
@speak_option
@json_option
@place_options
@calls_options
def suggest(
    place: Place,
    calls: Calls,
    state: str | None,
    history: tuple[str, ...],
    k: int,
    policy: PolicyName,
    speak: Speak,
    as_json: bool,
) -> None:
    """Suggest the next tools, or say why there is no opinion.
    Example: `hepm suggest --after get_order_details --state "wants to return two items" --namespace retail`
    """
    with place.open() as memory:
        about: dict[str, Any] = {
            "state": state,
            "k": k,
            "policy": policy,
            "speak": speak,
            "history": _split_names(history) or [],
            **calls.names(),
        }
        found = memory.suggest(namespace=place.namespace, **about)
        if as_json:
            print_json(_to_json(found))
            return
        if found.abstained is not None:
            print(on_one_line(f"no suggestion: {found.abstained}"))
        if line := found.prompt():
            print(line)
        for one in found:
            print(on_one_line(f"  {one.tool}  score {one.score:.2f}: {one.reason}"))
            if one.runs:
                print(on_one_line(f"    runs: {', '.join(one.runs)}"))


def _to_json(found: Suggestions) -> dict[str, object]:
    names = ("tool", "score", "support", "failure_share", "similarity", "reason", "runs", "summaries")
    values = [{name: getattr(one, name) for name in names} for one in found]
    tools = [{name: round(v, 6) if isinstance(v, float) else v for name, v in one.items()} for one in values]
    warnings = [asdict(way) for way in found.warnings]
    return {"tools": tools, "warnings": warnings, "abstained": found.abstained, "prompt": found.prompt()}


@click.command("search", cls=Command)
@click.argument("text", cls=Argument, help="What the agent knows now, in a few lines.")
@click.option("-k", type=click.IntRange(min=1), default=5, show_default=True, help="Maximum number.")
@json_option
@place_options
def search(place: Place, text: str, k: int, as_json: bool) -> None:
    """Find the states most similar to a text, over all tools, and what agents did next.
    Example: `hepm search "wants to return two items" --namespace retail`
    """
    with place.open() as memory:
        found = memory.search(text, k=k, namespace=place.namespace)
    if as_json:
        print_json({"found": [asdict(one) for one in found]})
        return
    for one in found:
        way = f"{', '.join(one.after)} → {', '.join(one.before)}"
        print(on_one_line(f"{one.similarity:.2f}  {way}  ({one.count}×, run {one.run})"))
        for line in one.summary.splitlines():
            print(on_one_line(f"      {line}"))
    if not found:
        print("nothing is remembered here")


@click.command("prompt", cls=Command)
@click.option("--messages", type=PATH, help="A file with OpenAI chat messages; - reads stdin.")
@click.option("--state", default="", help="What the agent knows now, if there are no messages.")
@click.option("--user", default="", help="The user whose notes to include.")
@click.option("--environment", default="", help="Leave out lessons of other environments.")
@click.option("--run", default="", help="Id of the run; the lessons shown are credited with its outcome.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="Maximum number of tokens, approximately.",
)
@click.option("-k", type=click.IntRange(min=0), default=2, show_default=True, help="Maximum number of tools.")
@model_option
@json_option
@place_options
@calls_options
def prompt(
    place: Place,
    calls: Calls,
    messages: Path | None,
    state: str,
    user: str,
    environment: str,
    run: str,
    max_tokens: int,
    k: int,
    model: str | None,
    as_json: bool,
) -> None:
    """Print what memory adds to a prompt now: notes, lessons as sentences, the next tools.

    With a model, it chooses which experiences apply, and which lines of the user's notes matter now.
    Example: `hepm prompt --state "wants to return two items" --after get_order_details --user alice`
    """
    if messages is not None and (state or calls.after):
        raise click.BadParameter("--state and --after are read from --messages: give either")
    from hepm.experience.prompt import PromptOptions

    with place.open() as memory:
        # With a user, answers contain the user's words: they are stored to be forgotten with the user.
        client = ModelChoice(model).client(memory, place.namespace, "user" if user else "lesson")
        chosen = PromptOptions(suggestions=k, model=client)
        about: dict[str, Any] = {"state": state, "user": user, "environment": environment, "run": run, **calls.names()}
        chat = None if messages is None else read_messages_file(messages)
        found = memory.prompt(chat, options=chosen, budget=max_tokens, namespace=place.namespace, **about)
        if as_json:
            parts = {name: getattr(found, name) for name in ("stable", "present", "tokens")}
            parts |= {name: list(getattr(found, name)) for name in ("lessons", "left_out", "runs")}
            print_json({**parts, "suggestions": _to_json(found.suggestions), "cost": cost_of(client)})
        else:
            more = "raise --max-tokens"
            print(found.text or (f"there was no room: {more}" if found.left_out else "memory has nothing to say"))
            if found.text and found.left_out:
                print(f"no room for {', '.join(found.left_out)}: {more}", file=sys.stderr)
    tell_cost(client)


@click.command("cypher", cls=Command)
@click.argument("query", cls=Argument, required=False, help="A question by name, or Cypher; - reads stdin.")
@click.option("-p", "--param", multiple=True, help="k=v for $k; v may be JSON.")
@click.option(
    "--list", "as_list", is_flag=True, help="List the questions of the library; with a QUERY, print its Cypher."
)
@click.option("--favourites", type=PATH, metavar="FILE.zip", help="Write the library as favourites for Neo4j Browser.")
@click.option("--write", is_flag=True, help="Let the query change the graph (only in Neo4j).")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001, max=86_400),
    default=30.0,
    show_default=True,
    help="Time limit in seconds.",
)
@click.option("--limit", type=click.IntRange(min=1), default=10_000, show_default=True, help="Maximum number of rows.")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@place_options
def cypher(
    place: Place,
    query: str | None,
    param: tuple[str, ...],
    as_list: bool,
    favourites: Path | None,
    write: bool,
    timeout: float,
    limit: int,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Run a question of the library, or your own Cypher.
    Example: `hepm cypher strongest_next_tools --param tool=get_order_details --namespace shop`
    """
    if as_json and as_csv:
        raise click.BadParameter("take one of --json and --csv", param_hint="--csv")
    from hepm.cypher import question

    if as_list and query is not None:
        print(question(query).text, end="")
        return
    if as_list:
        _print_library(as_json=as_json)
        return
    if favourites is not None:
        _write_favourites(favourites)
        return
    if query is None:
        raise click.BadParameter("name a question, write Cypher, or list all with --list", param_hint="QUERY")
    text = options.read_text("-", "QUERY") if query == "-" else query
    named = question(text.strip()) if re.fullmatch(r"\s*\w+\s*", text) else None
    if named is not None:
        text = named.text if embedded_file(place.store) is None else named.embedded
    values = _values(param, place.namespace, named)
    with _open(place.store, values.get("namespace") if "$namespace" in text else None, write=write) as (ask, namespace):
        values |= {"namespace": namespace} if namespace is not None else {}
        found = ask(text, values, timeout_s=timeout, limit=limit)
    _print(found, as_json=as_json, as_csv=as_csv)
    if found.truncated:
        print(f"these are the first {limit:,} rows, and there are more: take --limit", file=sys.stderr)


def _write_favourites(file: Path) -> None:
    from hepm.cypher import favourites

    file.write_bytes(favourites())
    print(on_one_line(f"{file} written: drop it onto the window of Neo4j Browser, and look under the star"))


@contextlib.contextmanager
def _open(store: str, namespace: str | None, *, write: bool) -> Generator[tuple[Callable[..., Result], str | None]]:
    """What asks the store, and the namespace to ask about: its only one for "", None for a query without one."""
    file = embedded_file(store)
    if file is None:
        from hepm.graph.neo4j.connection import Connection
        from hepm.graph.neo4j.login import Login

        with contextlib.closing(Connection(Login.from_environment(store))) as server:
            if namespace == "":
                namespace = sole_namespace(sorted(row[0] for row in server.read("namespaces", namespace="")))
            yield partial(server.ask, write=write), namespace
        return
    if write:
        raise click.BadParameter(
            "only a store in Neo4j can be changed by Cypher; an embedded one changes by ingest, import and forget",
            param_hint="--write",
        )
    from hepm.graph.sqlite import SQLiteStore
    from hepm.ingest.pipeline import replay_with

    options.check_store(store)
    with contextlib.closing(SQLiteStore(file)) as embedded:  # not Memory: the copy needs no embedder
        if namespace is not None:
            namespace = options.known_namespace(embedded, namespace, store)
        yield partial(embedded.ask, replay=replay_with(None)), namespace


def _values(given: Sequence[str], namespace: str, named: NamedQuery | None) -> dict[str, Any]:
    types = {parameter.name: parameter.type for parameter in named.parameters} if named is not None else {}
    values: dict[str, Any] = {"namespace": namespace} if named is None or "namespace" in types else {}
    for part in given:
        name, equals, text = part.partition("=")
        name = name.strip().lstrip("$")
        if not equals or not name:
            raise click.BadParameter(f"{part!r} is not of the form k=v", param_hint="--param")
        values[name] = text
        with contextlib.suppress(ValueError):
            value = json.loads(text, parse_constant=str)
            if isinstance(value, str) or types.get(name) != "string":
                values[name] = value
    return values if named is None else named.values(values)


def _print_library(*, as_json: bool) -> None:
    from hepm.cypher import questions

    listed: list[dict[str, Any]] = []
    for q in questions().values():
        if not as_json:
            print(f"{q.name}  {q.asks}")
            if signature := q.signature.removeprefix("namespace").removeprefix(", "):
                print(f"    {signature}")
        parameters = {p.name: {"type": p.type, "default": p.default} for p in q.parameters}
        returns = {"returns": dict(q.returns), "note": q.note, "picture": q.picture}
        listed.append({"name": q.name, "asks": q.asks, "parameters": parameters, **returns})
    if as_json:
        print_json(listed)


def _print(found: Result, *, as_json: bool, as_csv: bool) -> None:
    from hepm.cypher.model import to_json

    if as_json:
        rows = [{name: to_json(value) for name, value in row.items()} for row in found.dicts()]
        print_json({"columns": list(found.columns), "rows": rows, "truncated": found.truncated})
        return
    if as_csv:
        import csv

        def exact(value: Value) -> object:
            if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
                return value
            return raw(value if isinstance(value, str) else json.dumps(to_json(value), ensure_ascii=False))

        csv.writer(sys.stdout).writerows([map(raw, found.columns), *(map(exact, row) for row in found.rows)])
        return
    if not found.rows:
        print("no rows" if found.columns else "done")
        return
    from rich.table import Table

    table = Table()
    for name, values in zip(found.columns, zip(*found.rows, strict=True), strict=True):
        numeric = all(isinstance(value, int | float | None) for value in values)
        table.add_column(plain(name), justify="right" if numeric else "left")
    for row in found.rows:
        table.add_row(*(plain(_cell(value)) for value in row))
    options.print_table(table)


def _cell(value: Value) -> str:
    """A value for people: nodes by their names, paths as names in a row."""
    if isinstance(value, Mapping):
        return _entity(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_cell, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _entity(value: Mapping[str, Value]) -> str:
    if set(value) == {"nodes", "relationships"} and isinstance(nodes := value["nodes"], list):
        return " → ".join(map(_cell, nodes))
    properties = value.get("properties")
    if not isinstance(properties, Mapping):
        return ", ".join(f"{name}: {_cell(item)}" for name, item in value.items())
    if "type" in value:
        return f"{_cell(value['type'])} {{{_entity(properties)}}}" if properties else _cell(value["type"])
    named = properties.get("name", properties.get("summary", properties.get("id")))
    return _cell(named) if named is not None else f"({_entity(properties)})"
