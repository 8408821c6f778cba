"""`hepm init`: the lines that connect an agent to a memory, printed, written into its files, or removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from hepm.agents import DOORS
from hepm.cli.client_files import ClientFile, ServerEntry, codex_config
from hepm.cli.coding_agents import CODING_AGENTS, files_of
from hepm.cli.commands import argument, command, flag, option
from hepm.cli.config import read_config
from hepm.cli.options import refuse, remark, store_option
from hepm.types import DEFAULT_NAMESPACE


@command("init")
@argument(
    "client",
    "The agent to connect.",
    type=click.Choice([*CODING_AGENTS, "codex", "mcp"]),
    metavar="CLIENT",
)
@flag("--write", "Write the lines into the client's file.")
@flag("--remove", "Remove the lines that --write wrote.")
@option("--scope", "Write for the project in this folder, or for all of yours.", one_of=("project", "user"))
@flag("--mcp", "Connect the MCP tools too.")
@option("--server", "Address of `hepm serve`. Default: this machine, with the port of hepm.toml, or 8765.")
@option("--namespace -n", "The partition to record in.", config="namespace", default=DEFAULT_NAMESPACE)
@option("--token-env", "Environment variable that holds the server's token.")
@store_option
def init(
    client: str,
    write: bool,
    remove: bool,
    scope: str | None,
    mcp: bool,
    server: str | None,
    namespace: str,
    token_env: str | None,
    store: str,
) -> None:
    """Print the lines that connect an agent to a memory, or write them, or remove them.

    Example: `hepm init claude-code --write`
    """
    # Port 0 of the file means any free one, which is known only once the server runs.
    server = server or f"http://127.0.0.1:{read_config().serve.port or 8765}"
    refuse(write and remove, "--remove", "give --write or --remove, not both")
    refuse(not re.fullmatch(r"https?://[^/\s]+/?", server), "--server", "write it like http://127.0.0.1:8765")
    # The namespace is the first part of the paths that an agent calls: http://127.0.0.1:8765/desk/v1.
    no_path = "/" in namespace or namespace in DOORS
    refuse(no_path, "--namespace", f"{namespace!r} cannot be a part of an address: choose another name")
    # The token itself would stand in a file that may be committed.
    named = token_env is None or re.fullmatch("[A-Z_][A-Z0-9_]*", token_env)
    refuse(not named, "--token-env", "name an environment variable, such as HEPM_TOKEN, not the token itself")
    # --remove also removes the lines of --mcp.
    files = _files(client, ServerEntry(server, namespace, token_env), scope, mcp=mcp, every=remove)
    refuse((write or remove) and not files, "--write", f"{client} has no file for these lines: print and paste them")
    for file in files:
        # Lines to paste go to stdout, all else to stderr.
        if write or remove:
            remark(file.edit(remove=remove))
        else:
            remark(f"{file.path}, which --write writes:")
            print(file.change("", True), end="")
    if not files:
        print(_mcp_entry(store, namespace))
    if not remove and client in (*CODING_AGENTS, "codex"):
        remark(f"{client} reaches hepm while `hepm serve` runs at {server}")


def _files(client: str, server: ServerEntry, scope: str | None, *, mcp: bool, every: bool) -> Sequence[ClientFile]:
    if client == "codex":
        refuse(scope == "project", "--scope", "Codex reads a model_provider from the user's file alone")
        path = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
        return [codex_config(path, server, mcp=mcp or every)]
    if client not in CODING_AGENTS:
        return []
    return files_of(client, server, scope, mcp=mcp, every=every)


def _mcp_entry(store: str, namespace: str) -> str:
    """The entry of a client that starts `hepm mcp`, from any folder."""
    if "://" not in store:
        store = str(Path(store).absolute())
    arguments = ["mcp", "--store", store]
    if namespace != DEFAULT_NAMESPACE:
        arguments += ["--namespace", namespace]
    # A client that is no child of this shell does not find a command in a virtual environment by its name.
    command = shutil.which("hepm", path=str(Path(sys.executable).parent)) or "hepm"
    return json.dumps({"mcpServers": {"hepm": {"command": command, "args": arguments}}}, indent=2)
