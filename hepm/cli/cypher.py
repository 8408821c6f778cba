"""`hepm cypher`: questions in Cypher, with a server and without one."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import click

from hepm.cli.commands import Argument, Option
from hepm.cli.options import JsonOption, Place, check_store, known_namespace, read_stdin, store_file
from hepm.cli.output import plain, print_json, print_table, raw

if TYPE_CHECKING:
    from hepm.cypher.model import Result, Value
    from hepm.cypher.questions import Question


def cypher(
    place: Place,
    query: Annotated[
        str | None, Argument(help="A question of the library by name, or Cypher; - reads standard input.")
    ] = None,
    param: Annotated[
        list[str] | None, Option("--param", "-p", help="k=v, for $k in the query; v is read as JSON if it parses.")
    ] = None,
    list_all: Annotated[bool, Option("--list", help="List the questions of the library.")] = False,
    show: Annotated[str | None, Option("--show", metavar="NAME", help="Print a question's Cypher.")] = None,
    write: Annotated[bool, Option("--write", help="Let the query change the graph (only in Neo4j).")] = False,
    timeout: Annotated[float, Option(min=0.001, max=86_400, help="Time limit in seconds.")] = 30.0,
    limit: Annotated[int, Option(min=1, help="Maximum number of rows.")] = 10_000,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Run a question of the library, or your own Cypher.

    Example: `hepm cypher strongest_next_tools --param tool=get_order_details --namespace shop`
    """
    if as_json and as_csv:
        raise click.BadParameter("take one of --json and --csv", param_hint="--csv")
    if list_all:
        _print_library(as_json=as_json)
        return
    from hepm.cypher.questions import question

    if show is not None:
        print(question(show).text, end="")
        return
    if query is None:
        raise click.BadParameter(
            "name a question, write Cypher, or take --list to see what there is", param_hint="QUERY"
        )
    text = read_stdin("QUERY") if query == "-" else query
    named = question(text.strip()) if re.fullmatch(r"\s*\w+\s*", text) else None
    if named is not None:
        text = named.text if store_file(place.store) is None else named.embedded
    values = _values(param or [], place.namespace, named)
    with _open(place.store, place.namespace if "$namespace" in text else None, write=write) as ask:
        found = ask(text, values, timeout_s=timeout, limit=limit)
    _print(found, as_json=as_json, as_csv=as_csv)
    if found.truncated:
        print(f"these are the first {limit:,} rows, and there are more: take --limit", file=sys.stderr)


@contextlib.contextmanager
def _open(store: str, namespace: str | None, *, write: bool) -> Generator[Callable[..., Result]]:
    file = store_file(store)
    if file is None:
        from hepm.graph.neo4j.connection import Connection
        from hepm.graph.open_store import Login

        with contextlib.closing(Connection(Login.from_environment(store))) as server:
            yield partial(server.ask, write=write)
        return
    if write:
        raise click.BadParameter(
            "only a store in Neo4j can be changed by Cypher; an embedded one changes by ingest, import and forget",
            param_hint="--write",
        )
    from hepm.graph.model_rows import open_copy
    from hepm.graph.sqlite import SQLiteStore
    from hepm.ingest.pipeline import replay_with

    check_store(store)
    with contextlib.closing(SQLiteStore(file)) as embedded:  # not Memory: the copy needs no embedder
        if namespace is not None:
            known_namespace(embedded, namespace, store)
        with open_copy(embedded, file, replay_with(None)) as copy:
            yield copy.ask


def _values(given: Sequence[str], namespace: str, named: Question | None) -> dict[str, Any]:
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
    from hepm.cypher.questions import questions

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

        writer = csv.writer(sys.stdout)
        writer.writerow(map(raw, found.columns))
        writer.writerows([_csv_cell(value) for value in row] for row in found.rows)
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
    print_table(table)


def _cell(value: Value) -> str:
    """A value for people: nodes by their names, paths as names in a row."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return _entity(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_cell, value))
    return str(value)


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


def _csv_cell(value: Value) -> object:
    from hepm.cypher.model import to_json

    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return raw(value if isinstance(value, str) else json.dumps(to_json(value), ensure_ascii=False))
