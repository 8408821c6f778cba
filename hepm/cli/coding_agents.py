"""Where `hepm init` connects each coding agent: a row says which files it reads, and what hooks look like there."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hepm.cli.client_files import TOKEN_HEADER, ClientFile, ServerEntry, hooks_file, servers_file, whole_file
from hepm.cli.commands import Several
from hepm.cli.options import refuse
from hepm.types import Object

_WAIT_S: Final = 5  # for an answer to a hook; the agents' own defaults are up to minutes
_CLAUDE_CODE: Final = (
    "UserPromptSubmit", "PreToolUse", "PostToolBatch", "PostToolUseFailure", "Stop", "SessionEnd",
)  # fmt: skip
_ONE_BY_ONE: Final = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd")
_MARK: Final = "Written by hepm init."
_SCRIPT: Final = f"#!/bin/sh\n# {_MARK}\n{{command}}\n"


class CodingAgent(NamedTuple):
    """A coding agent's files. A path in the home folder is one below `home`, or below the folder that `variable` names.

    Attributes:
        kind: What its hooks are: HTTP requests, commands (in groups, or each an entry), a script for each event, or a
            plugin in JavaScript; "" if it has none.
        hooks: The file of hooks in a project and in the home folder, with {event} where each event has its own.
        mcp: The file of MCP servers, likewise; "" where there is none.
        servers: The key of the servers in it.
        entry: A server there, with the address as URL.
        read_variable: How headers there name an environment variable; "" if they cannot.
    """

    home: str
    kind: Literal["http", "groups", "entries", "scripts", "plugin", ""]
    hooks: tuple[str, str]
    events: Several
    mcp: tuple[str, str]
    entry: Object
    read_variable: str = "${{{}}}"
    servers: str = "mcpServers"
    variable: str = ""

    def path(self, places: tuple[str, str], scope: str | None) -> Path | None:
        """Where a file is; None if there is none in this scope. An agent without one in projects has it at home."""
        project, at_home = places
        if project and scope != "user":
            return Path(project)
        if not at_home:
            return None
        own = os.environ.get(self.variable) if self.variable else None
        return Path(own or Path.home() / self.home) / at_home


URL: Final = "URL"

CODING_AGENTS: Final[Mapping[str, CodingAgent]] = {
    "claude-code": CodingAgent(
        ".claude", "http", (".claude/settings.json", "settings.json"), _CLAUDE_CODE,
        (".mcp.json", ""), {"type": "http", "url": URL}, variable="CLAUDE_CONFIG_DIR",
    ),
    "gemini-cli": CodingAgent(
        ".gemini", "groups", (".gemini/settings.json", "settings.json"),
        ("BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"),
        (".gemini/settings.json", "settings.json"), {"type": "http", "url": URL},
    ),
    "qwen-code": CodingAgent(
        ".qwen", "http", (".qwen/settings.json", "settings.json"), _ONE_BY_ONE,
        (".qwen/settings.json", "settings.json"), {"httpUrl": URL},
    ),
    "opencode": CodingAgent(
        ".config/opencode", "plugin", (".opencode/plugins/hepm.js", "plugins/hepm.js"), (),
        ("opencode.json", "opencode.json"), {"type": "remote", "url": URL}, "{{env:{}}}", "mcp",
        variable="OPENCODE_CONFIG_DIR",
    ),
    "copilot": CodingAgent(
        ".copilot", "entries", (".github/hooks/hepm.json", "hooks/hepm.json"), _ONE_BY_ONE,
        (".mcp.json", "mcp-config.json"), {"type": "http", "url": URL, "tools": ["*"]}, variable="COPILOT_HOME",
    ),
    "cline": CodingAgent(
        ".cline", "scripts", (".clinerules/hooks/{event}", "hooks/{event}"),
        ("UserPromptSubmit", "PreToolUse", "PostToolUse", "TaskComplete", "SessionShutdown"),
        ("", "data/settings/cline_mcp_settings.json"), {"transport": {"type": "streamableHttp", "url": URL}}, "",
    ),
    "cursor": CodingAgent(
        ".cursor", "", ("", ""), (), (".cursor/mcp.json", "mcp.json"), {"url": URL}, "${{env:{}}}",
    ),
}  # fmt: skip


def files_of(name: str, server: ServerEntry, scope: str | None, *, mcp: bool, every: bool) -> list[ClientFile]:
    """The files that connect a coding agent, with its MCP servers if that is asked for; `every` file that may do so."""
    agent = CODING_AGENTS[name]
    files: list[ClientFile] = []
    hooks = agent.path(agent.hooks, scope)
    if hooks is not None:
        files += _hook_files(name, agent, hooks, server)
    servers = agent.path(agent.mcp, scope)
    add = f"`claude mcp add --scope user --transport http hepm {server.url('/mcp')}`"
    refuse(mcp and servers is None, "--mcp", f"hepm writes no MCP servers of {name} for all projects: use {add}")
    if servers is not None and (mcp or every or not agent.kind):
        files.append(_server_file(name, agent, servers, server))
    return files


def _hook_files(name: str, agent: CodingAgent, path: Path, server: ServerEntry) -> list[ClientFile]:
    """A plugin, a script for each event, or a file with a hook for each event beside those of others."""
    door = server.url(f"/hooks/{name}")
    command = _command(door, server)
    if agent.kind == "plugin":
        content = resources.files("hepm.cli").joinpath("opencode_plugin.js").read_text("utf-8")
        content = content.replace("SERVER", json.dumps(door), 1)
        content = content.replace("TOKEN", json.dumps(server.token_env or ""), 1)
        return [whole_file(path, content, _MARK)]
    if agent.kind == "scripts":
        places = [Path(str(path).format(event=event)) for event in agent.events]
        return [whole_file(place, _SCRIPT.format(command=command), _MARK, is_program=True) for place in places]
    others: Object = {}
    hook: Object = {"type": "http", "url": door, "timeout": _WAIT_S}
    if agent.kind == "entries":
        others["version"] = 1
        hook = {"type": "command", "bash": command, "timeoutSec": _WAIT_S}
    elif agent.kind == "groups":
        hook = {"hooks": [{"type": "command", "name": "hepm", "command": command, "timeout": _WAIT_S * 1000}]}
    else:
        if server.token_env:
            # Only the variables that are listed are filled in.
            hook |= {"headers": {TOKEN_HEADER: f"${{{server.token_env}}}"}, "allowedEnvVars": [server.token_env]}
        hook = {"hooks": [hook]}
    address = re.compile(rf"/hooks/{name}(?![\w-])")
    return [hooks_file(path, dict.fromkeys(agent.events, hook), others, lambda text: bool(address.search(text)))]


def _command(door: str, server: ServerEntry) -> str:
    """What sends the event on standard input to the server, and prints the answer; nothing where there is none."""
    token = ""
    if server.token_env:
        token = f'-H "{TOKEN_HEADER}: ${server.token_env}" '
    # An agent may take a command that fails for a refusal.
    json_type = "-H 'Content-Type: application/json'"
    return f"curl -sf -m {_WAIT_S} {json_type} {token}--data-binary @- {shlex.quote(door)} || true"


def _server_file(name: str, agent: CodingAgent, path: Path, server: ServerEntry) -> ClientFile:
    """A file of JSON with hepm among its MCP servers."""
    entry: Object = json.loads(json.dumps(agent.entry).replace(f'"{URL}"', json.dumps(server.url("/mcp"))))
    if server.token_env:
        unread = not agent.read_variable
        refuse(unread, "--token-env", f"the MCP servers of {name} cannot read a variable: leave out --mcp")
        entry["headers"] = {TOKEN_HEADER: agent.read_variable.format(server.token_env)}
    return servers_file(path, agent.servers, entry)
