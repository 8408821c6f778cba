"""A Neo4j Community server in a folder, on this machine alone, as a process that outlives its terminal."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import psutil
from filelock import FileLock

from hepm.errors import InputError, LocalServerError
from hepm.graph.neo4j_local.installation import (
    LINE,
    MAIN,
    VERSION,
    Report,
    Say,
    find_java,
    provide_jars,
)

HOST: Final = "127.0.0.1"  # no other machine can reach it
USER: Final = "neo4j"  # Neo4j Community's only one at the start
# What precedes the message of a Java error.
_ERROR_PREFIX: Final = re.compile(r"^.* ERROR +|(Caused by: |Exception in thread \S+ )?([a-z]\w*\.)+[\w$]+: ")
_started: Final[list[subprocess.Popen[bytes]]] = []  # Python complains of a running one without a reference


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a folder keeps from one start to the next; `version` is the line of releases that wrote its data."""

    version: str = LINE
    bolt_port: int = 7687
    http_port: int = 7474
    heap: str = "1g"
    page_cache: str = "256m"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a server, without its password; uri, browser and pid are None unless it is running."""

    running: bool
    version: str | None
    folder: Path
    uri: str | None
    browser: str | None
    pid: int | None
    username: str
    password_file: Path
    bolt_port: int | None
    http_port: int | None


class LocalServer:
    """A server by its folder, which only its owner can read. Two objects for one folder mean one server.

    Args:
        folder: Its data, logs, settings and password; made at the first start.
        bolt_port, http_port: Default: the last ones, else 7687 and 7474 or the next free ones.
        heap: Such as `512m` or `2g`. Default: the last one.
        lines: Further lines of neo4j.conf, for a start by this object.
        say: Receives sentences for the user.
        report: Called while jars are fetched, with how many are present and how many there are.
    """

    def __init__(
        self,
        folder: Path | str = "neo4j",
        *,
        bolt_port: int | None = None,
        http_port: int | None = None,
        heap: str | None = None,
        lines: Sequence[str] = (),
        say: Say = lambda _: None,
        report: Report | None = None,
    ) -> None:
        if heap is not None and not re.fullmatch(r"[1-9]\d*[kmg]", heap, re.IGNORECASE):
            raise InputError(f"{heap!r} is no size of a heap: write it as 512m or 2g")
        self._ports = (bolt_port, http_port)
        self._heap = heap
        self._lines = lines
        self._say = say
        self._report = report
        self._folder = Path(folder).expanduser().resolve()
        self._mark = f"--home-dir={self._folder}"  # no other process has this argument
        self._lock_file = self._folder / "lock"
        self._password_file = self._folder / "password"
        self._settings_file = self._folder / "settings.json"
        self._java_arguments = self._folder / "run" / "java.args"
        self._neo4j_log = self._folder / "logs" / "neo4j.log"
        self._java_log = self._folder / "logs" / "console.log"

    @property
    def password(self) -> str:
        """For drivers and Browser."""
        return self._password_file.read_text("utf-8").strip()

    def status(self) -> Status:
        """The state now."""
        settings, process = self._settings(), _find(self._mark)
        uri = browser = version = bolt_port = http_port = None
        if settings is not None:
            version = VERSION
            bolt_port, http_port = settings.bolt_port, settings.http_port
            if process is not None:
                uri, browser = f"bolt://{HOST}:{bolt_port}", f"http://{HOST}:{http_port}/browser/"
        return Status(
            running=process is not None,
            version=version,
            folder=self._folder,
            uri=uri,
            browser=browser,
            pid=process.pid if process is not None else None,
            username=USER,
            password_file=self._password_file,
            bolt_port=bolt_port,
            http_port=http_port,
        )

    def start(self, *, timeout_s: float = 120) -> bool:
        """Start the server and wait until it answers a query; returns False if it was running already.

        Raises:
            LocalServerError: it cannot be fetched or started; nothing is left running.
        """
        self._make_folder()
        with FileLock(self._lock_file):
            settings, process = self._settings(), _find(self._mark)
            if process is None:
                self._launch(settings, timeout_s)
                return True
            if settings is None:
                raise LocalServerError(
                    f"a Neo4j (process {process.pid}) that was not started to its end runs from {self._folder}: end it"
                    " with `hepm neo4j stop`, and start again"
                )
            self._await(process, settings, timeout_s)
            return False

    def stop(self) -> bool:
        """Stop the server; returns False if it was not running. It is killed after a minute: committed data stay."""
        with FileLock(self._lock_file) if self._settings() else contextlib.nullcontext():
            process = _find(self._mark)
            if process is not None:
                _end(process, timeout_s=60)
        return process is not None

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            # The lock is the first file of a start.
            others = sorted(entry.name for entry in self._folder.iterdir())
            if not others or self._lock_file.exists():
                self._folder.chmod(0o700)
                return
            why = f"holds other things ({', '.join(others[:3])})"
        except OSError as error:
            why = f"cannot hold a server ({error.strerror})"
        raise LocalServerError(f"{self._folder} {why}: name a new folder with --folder")

    def _settings(self) -> ServerSettings | None:
        try:
            settings = ServerSettings(**json.loads(self._settings_file.read_text("utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as error:
            raise LocalServerError(f"{self._settings_file} is damaged ({error}): remove it and start again") from error
        if settings.version != LINE:
            raise LocalServerError(
                f"{self._folder} holds the data of Neo4j {settings.version}, and hepm runs {LINE}: `hepm copy` the"
                " memory with the hepm that made it, or name another --folder"
            )
        return settings

    def _launch(self, before: ServerSettings | None, timeout_s: float) -> None:
        java = find_java()
        jars = provide_jars(report=self._report, say=self._say)
        settings = self._new_settings(before)
        self._configure(settings, jars)
        conf = self._folder / "conf"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}
        environment |= {"NEO4J_HOME": str(self._folder), "NEO4J_CONF": str(conf)}
        self._set_first_password(java, environment)
        self._say(f"starting Neo4j {VERSION} with {java}")
        command = [java, f"@{self._java_arguments}", MAIN, self._mark, f"--config-dir={conf}"]
        log_bytes = 0  # of earlier starts, whose errors are not this one's
        if self._neo4j_log.exists():
            log_bytes = self._neo4j_log.stat().st_size
        process = _spawn(command, log=self._java_log, folder=self._folder, environment=environment)
        try:
            self._await(process, settings, timeout_s, log_bytes)
        except BaseException:
            _end(process, timeout_s=10)
            raise
        # Only now: the next start must not repeat a heap that was too small.
        _write_private(self._settings_file, json.dumps(asdict(settings), indent=1) + "\n")

    def _new_settings(self, before: ServerSettings | None) -> ServerSettings:
        """The settings of this start: what was asked for, else those of last time, with ports that are free."""
        base = before or ServerSettings()
        bolt, http = self._ports
        bolt = _choose_port(bolt, base.bolt_port, taken=http)
        http = _choose_port(http, base.http_port, taken=bolt)
        return ServerSettings(LINE, bolt, http, self._heap or base.heap, base.page_cache)

    def _configure(self, settings: ServerSettings, jars: list[Path]) -> None:
        for name in ("logs", "run", "conf"):
            (self._folder / name).mkdir(exist_ok=True)
        (self._folder / ".gitignore").write_text("# Data and a password: not for a repository.\n*\n", "utf-8")
        templates = resources.files("hepm.graph.neo4j_local")
        conf = templates.joinpath("neo4j.conf").read_text("utf-8").format(**asdict(settings))
        for line in self._lines:
            conf += f"{line}\n"
        _write_private(self._folder / "conf" / "neo4j.conf", conf)
        class_path = json.dumps(os.pathsep.join(map(str, jars)), ensure_ascii=False)  # quoted as Java reads it
        arguments = templates.joinpath("java.args").read_text("utf-8")
        _write_private(self._java_arguments, arguments.format(heap=settings.heap, class_path=class_path))

    def _set_first_password(self, java: Path, environment: dict[str, str]) -> None:
        """Set the password before the first start: the server is never open with Neo4j's own first password."""
        if not self._password_file.exists():
            # The command below reads the file as an argument, where a leading dash or quote has a meaning.
            _write_private(self._password_file, "n" + secrets.token_urlsafe(24))
        if (self._folder / "data" / "databases" / "system").exists():
            return
        # The command reads `@file` as its arguments, so no process list shows the password.
        admin = [java, f"@{self._java_arguments}", "org.neo4j.cli.AdminTool", "dbms", "set-initial-password"]
        with self._java_log.open("wb") as log:
            done = subprocess.run(
                [*admin, f"@{self._password_file}"],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=120,
            )
        if done.returncode:
            self._fail(_last_error(self._java_log))

    def _await(self, process: psutil.Process, settings: ServerSettings, timeout_s: float, log_bytes: int = 0) -> None:
        until = time.monotonic() + timeout_s
        while _runs(process):
            if self._answers(settings.bolt_port):
                return
            if time.monotonic() > until:
                raise LocalServerError(
                    f"Neo4j did not answer within {timeout_s:g} s. Its logs are in {self._neo4j_log.parent}"
                )
            time.sleep(0.1)
        self._fail(_last_error(self._java_log) or _last_error(self._neo4j_log, since=log_bytes))

    def _fail(self, why: str | None) -> None:
        raise LocalServerError(
            f"Neo4j ended while it started: {why or 'it gave no reason'}. Its logs are in {self._neo4j_log.parent}"
        )

    def _answers(self, port: int) -> bool:
        """Whether the server answers a query."""
        from neo4j import GraphDatabase
        from neo4j.exceptions import AuthError, DriverError, Neo4jError

        logging.getLogger("neo4j").addHandler(logging.NullHandler())
        try:
            with GraphDatabase.driver(
                f"bolt://{HOST}:{port}",
                auth=(USER, self.password),
                connection_timeout=5,
                max_transaction_retry_time=0,
                telemetry_disabled=True,
            ) as driver:
                driver.execute_query("RETURN 1", database_="neo4j")
        except AuthError as refused:
            raise LocalServerError(
                "the server refuses the password that lies in its folder: was it changed elsewhere? Write the right one"
                " into the file that `hepm neo4j status` names, and start again"
            ) from refused
        except (DriverError, Neo4jError):  # not up yet: a database that starts, a connection that is cut
            return False
        return True


def _spawn(command: Sequence[str | Path], *, log: Path, folder: Path, environment: Mapping[str, str]) -> psutil.Process:
    """Start a process that outlives this one and its terminal."""
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            creationflags=flags,
            umask=0o077,
        )
    _started.append(child)
    return psutil.Process(child.pid)


def _find(mark: str) -> psutil.Process | None:
    """The running process that has `mark` among its arguments."""
    for process in psutil.process_iter(["cmdline"]):
        if mark in (process.info["cmdline"] or ()):  # a zombie has none
            return process
    return None


def _runs(process: psutil.Process) -> bool:
    """Whether a process has not ended. Its first thread ends before the others, and only the last one frees files."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    return False


def _end(process: psutil.Process, *, timeout_s: float) -> None:
    """Terminate a process, and kill it after `timeout_s`."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.terminate()
        until = time.monotonic() + timeout_s
        while _runs(process):
            if time.monotonic() > until:
                process.kill()
                return
            time.sleep(0.05)


def _last_error(log: Path, *, since: int = 0) -> str | None:
    """The last error in a log after `since` bytes, or None."""
    if not log.exists():
        return None
    lines = log.read_bytes()[since:].decode("utf-8", "replace").splitlines()
    lines = [line for line in lines if not line.startswith("Picked up ")]  # Java's note about JAVA_TOOL_OPTIONS
    if lines and lines[0].startswith("Error occurred during initialization of VM"):
        return ": ".join(lines[:2])
    for line in reversed(lines):
        if re.search(r"^(Exception|Error|Caused by)\b| ERROR ", line):
            return _ERROR_PREFIX.sub("", line).strip(" .")[:400]
    return None


def _write_private(file: Path, text: str) -> None:
    """Write a file atomically that only its owner may read."""
    new = file.with_name(f"{file.name}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    new.replace(file)


def _choose_port(chosen: int | None, usual: int, *, taken: int | None) -> int:
    """The port that was asked for, or else the first free one from the usual one on."""
    for port in range(usual, 65536) if chosen is None else [chosen]:
        if port != taken and _is_free(port):
            return port
    raise LocalServerError(
        f"port {chosen or usual} of {HOST} is in use: choose another with --bolt-port, or leave it out for a free one"
    )


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server((HOST, port)):
        return True
    return False
