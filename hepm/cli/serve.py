"""`hepm serve` and `hepm mcp`: doors for running agents."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from hepm.cli.commands import command, option
from hepm.cli.config import ServeTable, read_config
from hepm.cli.options import StorePlace, holdout_option, open_memory, place_options, store_option
from hepm.errors import MissingExtraError
from hepm.graph.open_store import is_address
from hepm.types import Object

if TYPE_CHECKING:
    from hepm.agents.guard import Access


@command("serve")
@store_option
@option("--port", config="serve.port")
@option("--upstream", config="serve.upstream")
@holdout_option
@option("--deny", config="serve.deny", is_flag=True)
def serve(store: str, port: int, upstream: str, holdout: float, deny: bool) -> None:
    """Serve a memory to running agents: a proxy for clients of OpenAI, Anthropic and Gemini, MCP, hooks, traces.

    HEPM_UPSTREAM_KEY is the endpoint's key, for clients that do not have it, and HEPM_TOKEN the token that opens every
    namespace. `[serve]` in hepm.toml has more settings: the address to listen on, tokens of clients.
    Example: `hepm serve --upstream http://localhost:11434/v1`, and base_url="http://127.0.0.1:8765/v1" in the agent.
    """
    # Web frameworks are an extra: the message names it.
    try:
        from hepm.agents.guard import Access, read_tokens
        from hepm.ingest.inner_tools import set_inner_tools
        from hepm.web.server import ServeOptions, serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"`hepm serve` needs {error.name}: pip install 'hepm[serve]'") from error

    config = read_config()
    set_inner_tools(config.ingest.inner_tool)
    # A token is no option: the list of processes would show it.
    allowed: dict[str, Access] = {}
    if config.serve.tokens is not None:
        allowed |= read_tokens(config.serve.tokens)
    token = os.environ.get("HEPM_TOKEN")
    if token:
        allowed[token] = Access()
    # What the server's options and `[serve]` call the same is the same.
    table = asdict(config.serve)
    settings: Object = {each.name: table[each.name] for each in fields(ServeOptions) if each.name in table}
    settings |= {
        "port": port,
        "upstream": upstream,
        "upstream_key": os.environ.get("HEPM_UPSTREAM_KEY", ""),
        "outcome_by": config.outcome_by,
        "tokens": allowed,
        # A function, as each run gets a redactor of its own.
        "redactor": config.redaction.redactor,
    }
    options = ServeOptions(**settings)

    def say(address: str) -> None:
        source = ""
        if config.path:
            source = f", by {config.path}"
        # Flushed: programs that start the server wait for this line.
        print(f"hepm serves {store} (upstream {upstream}{source}) at {address}", file=sys.stderr, flush=True)

    _log_plainly()
    logging.getLogger("hepm").setLevel(logging.INFO)  # runs that begin and are stored
    of_sessions: Object = _session_settings(config.serve, store) | {"holdout": holdout, "deny": deny}
    with open_memory(store, **of_sessions) as memory:
        serve(memory, options, say)


@command("mcp")
@place_options
def mcp(place: StorePlace) -> None:
    """Serve a memory as MCP tools on standard input and output, for a client that starts this command.

    `[serve]` in hepm.toml has more settings.
    Example: `hepm mcp --store runs.hepm`; for Claude Code, `claude mcp add hepm -- hepm mcp --store runs.hepm`.
    """
    try:
        from hepm.agents.guard import NAMESPACE
        from hepm.agents.mcp import mcp_server
        from hepm.agents.runs import LiveRuns
        from hepm.ingest.inner_tools import set_inner_tools
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"`hepm mcp` needs {error.name}: pip install 'hepm[serve]'") from error

    config = read_config()
    set_inner_tools(config.ingest.inner_tool)
    _log_plainly()
    with place.create(**_session_settings(config.serve, place.store)) as memory:
        # All runs of this process: a client that starts the command names no namespace.
        NAMESPACE.set(place.namespace)
        runs = LiveRuns(
            memory,
            idle_s=config.serve.idle_s,
            outcome_by=config.outcome_by,
            redactor=config.redaction.redactor,
        )
        mcp_server(runs).run(transport="stdio")


def _session_settings(table: ServeTable, store: str) -> Object:
    """What `open_memory` takes of the settings of sessions."""
    settings: Object = {key: getattr(table, key) for key in ("speak", "guard", "holdout", "sessions")}
    # A server may be far away; a run under way must be on a disk of this machine.
    if is_address(store):
        settings["sessions"] = table.sessions or Path("hepm-sessions")
    return settings


def _log_plainly() -> None:
    """A line for each message on standard error, before the MCP SDK wraps them at 80 characters."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
