"""Queries: `hepm suggest`, `prompt` and `cypher`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hepm.cli.commands import PATH, Several, argument, command, flag, option
from hepm.cli.model import ModelChoice, cost_of, model_option
from hepm.cli.options import (
    Bar,
    StorePlace,
    json_option,
    json_or_text,
    known_namespace,
    names_in,
    open_existing,
    pairs,
    place_options,
    print_json,
    print_rows,
    read_messages_file,
    read_text,
    refuse,
    remark,
    tell,
    with_memory,
)
from hepm.types import Object, Objects, PolicyName, Suggestions

if TYPE_CHECKING:
    from hepm.cypher import NamedQuery
    from hepm.cypher.model import Result, Value
    from hepm.memory import Memory


_after_option = option("--after", "Last tool, or parallel ones, comma-separated. Default: start.", multiple=True)
_tools_option = option("--tools", "Tools the agent has, comma-separated. Default: all.", multiple=True)


def _split_names(texts: Sequence[str]) -> list[str] | None:
    """The names in options that take several, separated by commas; None if no option was given."""
    if not texts:
        return None
    return list(filter(None, names_in(",".join(texts))))


@command("suggest")
@option("--state", "What the agent knows now, in a few lines.")
@option("--history", "All calls so far, oldest first, comma-separated.", multiple=True)
@option("-k", "Maximum number.", least=1, default=2)
@option("--policy", "How to rank.", one_of=get_args(PolicyName), default="hybrid")
@option(
    "--speak",
    "Name what is right in nine of ten such cases, also what is likely, with its chance, or rank all.",
    one_of=["sure", "weighed", "all"],
    default="sure",
)
@json_option
@with_memory
@_after_option
@_tools_option
def suggest(
    memory: Memory,
    namespace: str,
    after: Several,
    tools: Several,
    history: Several,
    as_json: bool,
    **about: Any,
) -> None:
    """Suggest the next tools, or say why there is no opinion.

    Example: `hepm suggest --after find_user_id_by_email --state "wants to return two items" --namespace retail`
    """
    about |= {"after": _split_names(after), "tools": _split_names(tools), "history": _split_names(history) or []}
    # The first suggestion of a memory measures how often its hints are right.
    with Bar("reading the memory"):
        suggestions = memory.suggest(namespace=namespace, **about)
    if as_json:
        print_json(_to_json(suggestions))
        return
    if suggestions.abstained is not None and not suggestions.done:
        tell(f"no suggestion: {suggestions.abstained}")
    line = suggestions.prompt()
    if line:
        print(line)
    for suggestion in suggestions:
        tell(f"  {suggestion.tool}  score {suggestion.score:.2f}: {suggestion.reason}")
        if suggestion.runs:
            tell(f"    runs: {', '.join(suggestion.runs)}")


def _to_json(suggestions: Suggestions) -> Object:
    tools: Objects = []
    for suggestion in suggestions:
        document: Object = {}
        for name in ("tool", "score", "support", "failure_share", "similarity", "reason", "runs", "summaries"):
            value = getattr(suggestion, name)
            # More digits would differ between machines.
            document[name] = round(value, 6) if isinstance(value, float) else value
        tools.append(document)
    return {
        "tools": tools,
        "warnings": [asdict(warning) for warning in suggestions.warnings],
        "abstained": suggestions.abstained,
        "done": round(suggestions.done, 6),
        "prompt": suggestions.prompt(),
    }


@command("prompt")
@option("--messages", "A file with OpenAI chat messages; - reads stdin.", type=PATH)
@option("--state", "What the agent knows now, if there are no messages.", default="")
@option("--user", "The user whose notes to include.", default="")
@option("--max-tokens", "Maximum number of tokens, approximately.", least=1, default=1_000)
@option("-k", "Maximum number of tools.", least=0, default=2)
@model_option
@json_option
@with_memory
@_after_option
@_tools_option
def prompt(
    memory: Memory,
    namespace: str,
    after: Several,
    tools: Several,
    messages: Path | None,
    state: str,
    user: str,
    max_tokens: int,
    k: int,
    model: str | None,
    as_json: bool,
) -> None:
    """Print what memory adds to a prompt now: notes, lessons as sentences, the next tools.

    With a model, it chooses which experiences apply, and which lines of the user's notes matter now.

    Example: `hepm prompt --state "wants to return two items" --after get_order_details --user alice`
    """
    # Two sources of one fact could disagree.
    refuse(messages is not None and (state or after), "", "--state and --after are read from --messages: give either")
    from hepm.experience.prompt import PromptOptions

    chat = None if messages is None else read_messages_file(messages)
    # With a user, answers contain the user's words: they are stored to be forgotten with the user.
    client = ModelChoice(model).client(memory, namespace, "user" if user else "lesson")
    addition = memory.prompt(
        chat,
        state=state,
        after=_split_names(after),
        tools=_split_names(tools),
        user=user,
        options=PromptOptions(suggestions=k, model=client),
        budget=max_tokens,
        namespace=namespace,
    )
    if as_json:
        document: Object = {"suggestions": _to_json(addition.suggestions), "cost": cost_of(client)}
        for name in ("stable", "present", "tokens", "lessons", "left_out", "runs"):
            document[name] = getattr(addition, name)
        print_json(document)
        return
    print(addition.text or "memory has nothing to say")
    if addition.left_out:
        remark(f"no room for {', '.join(addition.left_out)}: raise --max-tokens")


@command("cypher")
@argument("query", "A question by name, or Cypher; - reads stdin.", required=False)
@option("-p --param", "k=v for $k; v may be JSON.", multiple=True)
@flag("--list as_list", "List the questions of the library; with a QUERY, print its Cypher.")
@option("--favourites", "Write the library as favourites for Neo4j Browser.", type=PATH, metavar="FILE.zip")
@option("--timeout", "Time limit in seconds.", least=0.001, most=86_400, default=30.0)
@option("--limit", "Maximum number of rows.", least=1, default=10_000)
@json_option
@place_options
def cypher(
    place: StorePlace,
    query: str | None,
    param: Several,
    as_list: bool,
    favourites: Path | None,
    timeout: float,
    limit: int,
    as_json: bool,
) -> None:
    """Run a question of the library, or your own Cypher.

    Example: `hepm cypher strongest_next_tools --param tool=get_order_details --namespace shop`
    """
    from hepm.cypher import question

    if as_list:
        if query is None:
            _print_library()
        else:
            print(question(query).text, end="")
        return
    if favourites is not None:
        from hepm.cypher import favourites as archive

        favourites.write_bytes(archive())
        tell(f"{favourites} written: drop it onto the window of Neo4j Browser, and look under the star")
        return
    refuse(query is None, "QUERY", "name a question, write Cypher, or list all with --list")
    text = read_text("-") if query == "-" else query or ""
    # One word is the name of a question: no query in Cypher is that short.
    named = question(text.strip()) if re.fullmatch(r"\s*\w+\s*", text) else None
    values = _values(param, named)
    with open_existing(place.store) as memory:
        if named is not None:
            text = named.text if memory.store.remote else named.embedded
        if "$namespace" in text:
            values["namespace"] = known_namespace(memory, values.get("namespace", place.namespace), place.store)
        if named is not None:
            values = named.values(values)
        result = memory.store.ask(text, values, timeout_s=timeout, limit=limit)
    _print(result, as_json=as_json)
    if result.truncated:
        remark(f"these are the first {limit:,} rows, and there are more: take --limit")


def _values(given: Several, named: NamedQuery | None) -> Object:
    """The values of `--param`, by the types of a question's parameters where they are known."""
    types: dict[str, str] = {}
    if named is not None:
        types = {parameter.name: parameter.type for parameter in named.parameters}
    values: Object = {}
    for key, text in pairs(given, "--param", "of the form k=v").items():
        name = key.lstrip("$")
        value = json_or_text(text)
        if types.get(name) == "string" and not isinstance(value, str):
            value = text  # a string stays text even if it looks like a number
        values[name] = value
    return values


def _print_library() -> None:
    from hepm.cypher import questions

    for question in questions().values():
        print(f"{question.name}  {question.asks}")
        # Every question has a namespace.
        signature = question.signature.removeprefix("namespace").removeprefix(", ")
        if signature:
            print(f"    {signature}")


def _print(result: Result, *, as_json: bool) -> None:
    from hepm.cypher.model import to_json

    if as_json:
        print_json({"columns": result.columns, "rows": to_json(result.dicts()), "truncated": result.truncated})
    elif result.rows:
        print_rows(result.columns, [list(map(_cell, row)) for row in result.rows])
    elif result.columns:
        print("no rows")
    else:
        print("done")


def _cell(value: Value) -> str | float:
    """A value for people: nodes by their names, what has no name as JSON."""
    from hepm.cypher.model import to_json

    if value is None:
        return ""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        properties = value.get("properties")
        if isinstance(properties, Mapping) and "type" not in value:
            named = properties.get("name", properties.get("summary", properties.get("id")))
            if named is not None:
                return _cell(named)
    elif isinstance(value, Sequence):
        return ", ".join([str(_cell(one)) for one in value])
    return json.dumps(to_json(value), ensure_ascii=False)
