"""`hepm neo4j`: a Neo4j Community server of one's own, without Docker, root or a system Java."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from click.exceptions import Exit

from hepm.cli.commands import PATH, group, option
from hepm.cli.options import Bar, json_option, print_json, remark, tell
from hepm.errors import LocalServerError

if TYPE_CHECKING:
    from hepm.graph.neo4j_local import LocalServer, Status

FOLDER: Final = Path("neo4j")
folder_option = option(
    "--folder", "Folder of the server's data, logs, settings and password.", type=PATH, default=FOLDER
)

app = group("neo4j", "Run a Neo4j Community server on this machine: no Docker, no root, no system Java.")


@app.command("start")
@folder_option
@option("--bolt-port", "Port for drivers; 7687 or a free one.", least=1, most=65_535)
@option("--heap", "Java's heap; 1g for a new folder.")
def start(folder: Path, bolt_port: int | None, heap: str | None) -> None:
    """Start a server in a folder and wait until it answers. The first start downloads 160 MB.

    Example: `hepm neo4j start`
    """
    # The first start fetches a server, later ones find it in the cache.
    with Bar("jars of Neo4j fetched") as bar:
        server = _server(folder, bolt_port=bolt_port, heap=heap, say=remark, report=bar.show)
        started = server.start()
    _print_status(server.status(), "runs" if started else "is running already")
    print(f'Next: eval "$({_command("env", folder)})"')


@app.command("stop")
@folder_option
def stop(folder: Path) -> None:
    """Stop the server of a folder. Its data stay.

    Example: `hepm neo4j stop`
    """
    stopped = _server(folder, say=remark).stop()
    state = "has stopped" if stopped else "was not running"
    tell(f"Neo4j {state} in {folder}")


@app.command("status")
@folder_option
@json_option
def status(folder: Path, as_json: bool) -> None:
    """Print whether the server of a folder is running, and its addresses; exit 0 if running, 3 if not.

    Example: `hepm neo4j status --json`
    """
    server_status = _server(folder).status()
    if as_json:
        document = asdict(server_status)
        document["ports"] = {"bolt": document.pop("bolt_port"), "http": document.pop("http_port")}
        print_json(document)
    else:
        _print_status(server_status, "runs" if server_status.running else "is not running")
        if not server_status.running:
            print(f"Start it: {_command('start', folder)}")
    if not server_status.running:
        raise Exit(3)


@app.command("env")
@folder_option
def env(folder: Path) -> None:
    """Print HEPM_STORE, NEO4J_URI, NEO4J_USERNAME and NEO4J_PASSWORD as lines for a shell.

    Example: `hepm neo4j env`
    """
    server = _server(folder)
    server_status = server.status()
    if server_status.uri is None:
        raise LocalServerError(f"no Neo4j runs in {server_status.folder}: start it with `{_command('start', folder)}`")
    login = {
        "HEPM_STORE": server_status.uri,
        "NEO4J_URI": server_status.uri,
        "NEO4J_USERNAME": server_status.username,
        "NEO4J_PASSWORD": server.password,
    }
    # For `eval` in a POSIX shell: a password may hold any character.
    for name, value in login.items():
        print(f"export {name}={shlex.quote(value)}")


def _server(folder: Path, **options: Any) -> LocalServer:
    from hepm.graph.neo4j_local import LocalServer

    return LocalServer(folder, **options)


def _print_status(server_status: Status, state: str) -> None:
    tell(f"Neo4j {server_status.version or ''} {state} in {server_status.folder}")
    if server_status.running:
        rows = {"bolt": server_status.uri, "browser": server_status.browser, "user": server_status.username}
        for name, value in {**rows, "password": f"in {server_status.password_file}"}.items():
            tell(f"  {name + ':':<10} {value}")


def _command(name: str, folder: Path) -> str:
    command = f"hepm neo4j {name}"
    if folder != FOLDER:
        command += f" --folder {shlex.quote(str(folder))}"
    return command
