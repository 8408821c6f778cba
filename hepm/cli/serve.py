"""`hepm serve` and `hepm mcp`: doors for running agents."""

from __future__ import annotations

import logging
import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hepm.cli.commands import command, option
from hepm.cli.config import ConfigFile, read_config
from hepm.cli.options import StorePlace, open_memory, place_options, store_option
from hepm.errors import MissingExtraError
from hepm.types import Object
from hepm.web.options import ServeOptions

if TYPE_CHECKING:
    from hepm.agents.guard import Access
    from hepm.agents.runs import LiveRuns
    from hepm.memory import Memory


@command("serve")
@store_option
@option("--port", config="serve.port")
@option("--upstream", config="serve.upstream")
@option(
    "--holdout",
    "Share of sessions, by chance, that get nothing from memory. `hepm uplift` compares. 1: shadow mode.",
    config="serve.holdout",
)
@option("--deny", config="serve.deny", is_flag=True)
def serve(store: str, **given: Any) -> None:
    """Serve a memory to running agents: a proxy for clients of OpenAI, Anthropic and Gemini, MCP, hooks, traces.

    HEPM_UPSTREAM_KEY is the endpoint's key, for clients that do not have it, and HEPM_TOKEN the token that opens every
    namespace. `[serve]` in hepm.toml has more settings: the address to listen on, tokens of clients.

    Example: `hepm serve --upstream http://localhost:11434/v1`, and base_url="http://127.0.0.1:8765/v1" in the agent.
    """
    # Web frameworks are an extra: the message names it.
    try:
        from hepm.agents.guard import Access, read_tokens
        from hepm.web.server import Server, listening, serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"`hepm serve` needs {error.name}: pip install 'hepm[serve]'") from error

    config = read_config()
    options = replace(config.serve, **given)
    # A token is no option: the list of processes would show it.
    tokens: dict[str, Access] = {}
    if options.tokens is not None:
        tokens |= read_tokens(options.tokens)
    token = os.environ.get("HEPM_TOKEN")
    if token:
        tokens[token] = Access()

    def say(address: str) -> None:
        source = ""
        if config.path:
            source = f", by {config.path}"
        shown = re.sub("//[^/]*@", "//", options.upstream)  # without a password
        # Flushed: programs that start the server wait for this line.
        print(f"hepm serves {store} (upstream {shown}{source}) at {address}", file=sys.stderr, flush=True)

    # The port first: where it is in use, no store is made.
    with listening(options) as port, open_memory(store, **_session_settings(options), deny=options.deny) as memory:
        runs = _live_runs(memory, config)
        logging.getLogger("hepm").setLevel(logging.INFO)  # runs that begin and are stored
        server = Server(runs, options, tokens=tokens, upstream_key=os.environ.get("HEPM_UPSTREAM_KEY", ""))
        serve(server, port, say)


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
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"`hepm mcp` needs {error.name}: pip install 'hepm[serve]'") from error

    config = read_config()
    with place.create(**_session_settings(config.serve)) as memory:
        # All runs of this process: a client that starts the command names no namespace.
        NAMESPACE.set(place.namespace)
        mcp_server(_live_runs(memory, config)).run(transport="stdio")


def _live_runs(memory: Memory, config: ConfigFile) -> LiveRuns:
    """The runs under way of this process, by the settings of the file; a line on standard error for each message."""
    from hepm.agents.runs import LiveRuns

    # Before the MCP SDK wraps lines at 80 characters.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    return LiveRuns(
        memory,
        idle_s=config.serve.idle_s,
        outcome_by=config.outcome_by,
        distrust=config.serve.distrust,
        redactor=config.redaction.redactor,
    )


def _session_settings(table: ServeOptions) -> Object:
    """What `open_memory` takes of the settings of sessions."""
    return {key: getattr(table, key) for key in ("speak", "guard", "holdout")}
