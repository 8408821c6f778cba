"""`hepm serve` and `hepm mcp`: doors for running agents."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hepm.cli.commands import Option
from hepm.cli.options import (
    OUTCOME_BY,
    STORE,
    GuardOption,
    HoldoutNotesOption,
    HoldoutOption,
    OutcomeByOption,
    Place,
    SessionSpeakOption,
    StoreOption,
    SuccessFromOption,
    open_memory,
    rules_of,
)
from hepm.errors import MissingExtraError
from hepm.graph.open_store import is_address

if TYPE_CHECKING:
    from hepm.agents.guard import Access


def serve(
    store: StoreOption = STORE,
    host: Annotated[str, Option(help="Address to listen on. Others than this machine need a token.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65_535, help="Port; 0 for any free one.")] = 8765,
    upstream: Annotated[
        str, Option(envvar="HEPM_UPSTREAM", help="The endpoint behind the proxy, with its /v1.")
    ] = "https://api.openai.com/v1",
    placement: Annotated[
        Literal["auto", "behind", "tail", "system", "message"],
        Option(help="Where a hint goes: behind the results, in the last message, in the system's, or in its own."),
    ] = "auto",
    upstream_key: Annotated[
        str, Option(envvar="HEPM_UPSTREAM_KEY", help="The endpoint's key, for clients that do not have it.")
    ] = "",
    idle: Annotated[float, Option(min=1.0, help="Seconds after which a resting run is stored.")] = 1800,
    outcome_by: OutcomeByOption = OUTCOME_BY,
    success_from: SuccessFromOption = None,
    speak: SessionSpeakOption = None,
    guard: GuardOption = True,
    holdout: HoldoutOption = 0.0,
    holdout_notes: HoldoutNotesOption = False,
    hint_timeout: Annotated[float, Option(min=0.001, help="Seconds that a request waits for a hint.")] = 1.0,
    sessions: Annotated[
        Path | None,
        Option(help="Folder for runs under way. Default: beside the file; ./hepm-sessions for a Neo4j server."),
    ] = None,
    token: Annotated[str, Option(envvar="HEPM_TOKEN", help="Bearer token that opens every namespace.")] = "",
    tokens: Annotated[
        Path | None,
        Option(help='JSON file of tokens: {"TOKEN": {"name": "ann", "namespaces": ["desk"], "write": true}}.'),
    ] = None,
    distrust: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Store runs of the token of this name, but learn nothing from them; repeatable."),
    ] = None,
    rate: Annotated[float, Option(min=0.0, help="Requests a second of one client; 0 for no limit.")] = 0.0,
    max_body: Annotated[int, Option(min=1, help="Size limit of a request, in bytes.")] = 64 << 20,
) -> None:
    """Serve a memory to running agents: a proxy for OpenAI clients, MCP, and hooks of Claude Code.

    Example: `hepm serve --upstream http://localhost:11434/v1`, and base_url="http://127.0.0.1:8765/v1" in the agent.
    """
    try:
        from hepm.agents.guard import Access, read_tokens
        from hepm.agents.server import ServeOptions, serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"`hepm serve` needs {error.name}: pip install 'hepm[serve]'") from error

    allowed: dict[str, Access] = {} if tokens is None else read_tokens(tokens)
    if token:
        allowed[token] = Access()
    options = ServeOptions(
        host=host,
        port=port,
        upstream=upstream,
        upstream_key=upstream_key,
        placement=placement,
        idle_s=idle,
        outcome_by=rules_of(outcome_by),
        hint_s=hint_timeout,
        tokens=allowed,
        distrust=tuple(distrust or ()),
        rate=rate,
        max_body=max_body,
    )

    def say(address: str) -> None:
        print(f"hepm serves {store} (upstream {upstream}) at {address}", file=sys.stderr, flush=True)

    _log_plainly()
    about: dict[str, Any] = {"sessions": _sessions(store, sessions), "success_from": success_from}
    about |= {"speak": speak, "guard": guard, "holdout": holdout, "holdout_notes": holdout_notes}
    with open_memory(store, **about) as memory:
        serve(memory, options, say)


def mcp(
    place: Place,
    speak: SessionSpeakOption = None,
    guard: GuardOption = True,
    holdout: HoldoutOption = 0.0,
    holdout_notes: HoldoutNotesOption = False,
) -> None:
    """Serve a memory as MCP tools on standard input and output, for a client that starts this command.

    Example: `hepm mcp --store runs.hepm`; for Claude Code, `claude mcp add hepm -- hepm mcp --store runs.hepm`.
    """
    try:
        from hepm.agents.guard import NAMESPACE
        from hepm.agents.mcp import mcp_server
        from hepm.agents.runs import LiveRuns
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"`hepm mcp` needs {error.name}: pip install 'hepm[serve]'") from error

    _log_plainly()
    about: dict[str, Any] = {"speak": speak, "guard": guard, "holdout": holdout, "holdout_notes": holdout_notes}
    with place.create(sessions=_sessions(place.store, None), **about) as memory:
        NAMESPACE.set(place.namespace)
        mcp_server(LiveRuns(memory)).run(transport="stdio")


def _log_plainly() -> None:
    """A line for each message on standard error, before the MCP SDK wraps them at 80 characters."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")


def _sessions(store: str, folder: Path | None) -> Path | None:
    """Where runs under way are kept; None for beside the file."""
    return Path("hepm-sessions") if folder is None and is_address(store) else folder
