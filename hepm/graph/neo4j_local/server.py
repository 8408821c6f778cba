"""A Neo4j Community server in a folder, on this machine alone."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hepm.errors import InputError, LocalServerError
from hepm.graph.neo4j_local import process
from hepm.graph.neo4j_local.exclusive import exclusive
from hepm.graph.neo4j_local.folder import ServerFolder, Settings, known_version
from hepm.graph.neo4j_local.jars import Report, cache_folder, provide
from hepm.graph.neo4j_local.java import find_java
from hepm.graph.neo4j_local.log import complaint, size_of
from hepm.graph.neo4j_local.login import USER, await_login, require_driver
from hepm.graph.neo4j_local.ports import HOST, choose_port
from hepm.graph.neo4j_local.versions import DEFAULT, Line, line_of

BOLT_PORT: Final = 7687
HTTP_PORT: Final = 7474
HEAP: Final = "1g"
PAGE_CACHE: Final = "256m"
_SIZE: Final = re.compile(r"[1-9]\d*[kmg]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of a server; the password itself is not in it.

    Attributes:
        version: Its release; None for a folder where none was started yet.
        pid: None unless it runs.
    """

    folder: Path
    password_file: Path
    version: str | None
    bolt_port: int | None
    http_port: int | None
    pid: int | None

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.pid is not None

    @property
    def uri(self) -> str | None:
        """Where drivers connect, while it runs."""
        return f"bolt://{HOST}:{self.bolt_port}" if self.running and self.bolt_port else None

    @property
    def browser(self) -> str | None:
        """Where Neo4j Browser is, while it runs."""
        return f"http://{HOST}:{self.http_port}/browser/" if self.running and self.http_port else None

    @property
    def username(self) -> str:
        """Whom drivers log in as."""
        return USER


class _PortTakenError(LocalServerError):
    """A port that was free a moment ago is not."""


def _quiet(sentence: str) -> None:
    """Say nothing."""


class LocalServer:
    """A server by its folder. Two objects for one folder mean one server.

    Args:
        folder: Holds its data, logs, settings and password; made at the first start.
        version: `5.26` or `2026.08`; left out: the one of the folder, else 5.26.
        bolt_port: Left out: that of last time, else 7687, else a free one. `http_port` likewise, with 7474.
        heap: As `512m` or `2g`; left out: that of last time. `page_cache` likewise.
        cache: Where the jars are kept; left out: HEPM_NEO4J_CACHE, else the user's cache folder.
        say: Takes sentences for the user while it works.
        report: Told how many jars of how many are there, while some are fetched.
    """

    def __init__(
        self,
        folder: Path | str = "neo4j",
        version: str | None = None,
        *,
        bolt_port: int | None = None,
        http_port: int | None = None,
        heap: str | None = None,
        page_cache: str | None = None,
        cache: Path | None = None,
        say: Callable[[str], None] = _quiet,
        report: Report | None = None,
    ) -> None:
        for name, size in (("heap", heap), ("page cache", page_cache)):
            if size is not None and not _SIZE.fullmatch(size):
                raise InputError(f"{size!r} is no size of a {name}: write it as 512m or 2g")
        self._version = None if version is None else line_of(version).name
        self._ports = (bolt_port, http_port)
        self._sizes = (heap, page_cache)
        self._cache = cache or cache_folder()
        self._folder = ServerFolder(Path(folder))
        self._mark = f"--home-dir={self._folder.path}"  # no other process has this argument
        self._say = say
        self._report = report

    def __repr__(self) -> str:
        return f"LocalServer({str(self._folder.path)!r})"

    @property
    def password(self) -> str:
        """What drivers log in with."""
        return self._folder.password_file.read_text("utf-8").strip()

    @property
    def log(self) -> Path:
        """What the server tells; before it could tell anything, what Java printed."""
        return self._folder.log if self._folder.log.exists() else self._folder.console

    def status(self) -> Status:
        """What is known now."""
        settings = self._folder.settings()
        return Status(
            folder=self._folder.path,
            password_file=self._folder.password_file,
            version=settings and known_version(settings).release,
            bolt_port=settings and settings.bolt_port,
            http_port=settings and settings.http_port,
            pid=self._pid(),
        )

    def start(self, *, timeout_s: float = 120) -> bool:
        """Start the server and wait until it answers a query.

        Returns:
            False where it ran already.
        Raises:
            LocalServerError: it cannot be fetched or started; the sentence tells why, and nothing is left running.
        """
        require_driver()
        self._folder.make()
        with self._alone():
            line = self._line()
            pid = self._pid()
            if pid is not None and self._folder.settings() is None:
                raise LocalServerError(
                    f"a Neo4j (process {pid}) runs from {self._folder.path}, which was removed under it: end it with"
                    " `hepm neo4j stop`, and start again"
                )
            if pid is not None and self._still_answers(pid, timeout_s):
                return False
            java = find_java(line)
            jars = provide(line, self._cache, report=self._report, say=self._say)
            try:
                self._launch(line, java, jars, timeout_s)
            except _PortTakenError:
                if self._ports != (None, None):
                    raise
                self._launch(line, java, jars, timeout_s)  # on others
        return True

    def stop(self, *, timeout_s: float = 60) -> bool:
        """Stop the server; one that does not end within `timeout_s` is killed, which costs no committed data.

        Returns:
            False where none ran.
        """
        there = self._folder.settings() is not None
        with self._alone() if there else contextlib.nullcontext():
            pid = self._pid()
            if pid is not None and not process.end(pid, self._mark, timeout_s=timeout_s):
                self._say(f"it did not end within {timeout_s:g} s and was killed; committed data are safe")
            self._folder.pid_file.unlink(missing_ok=True)
        return pid is not None

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        return exclusive(self._folder.lock, waiting=lambda: self._say("another hepm starts or stops it: waiting"))

    def _pid(self) -> int | None:
        noted = None
        with contextlib.suppress(OSError, ValueError):
            noted = int(self._folder.pid_file.read_text("ascii"))
        return process.find(self._mark, noted)

    def _line(self) -> Line:
        settings = self._folder.settings()
        if settings is None:
            return line_of(self._version or DEFAULT)
        if self._version not in (None, settings.version):
            raise LocalServerError(
                f"{self._folder.path} holds the data of Neo4j {settings.version}, and {self._version} was asked for:"
                " name another --folder for it, or leave --version out"
            )
        return known_version(settings)

    def _choose(self, line: Line) -> Settings:
        before = self._folder.settings()
        bolt, http = self._ports
        bolt = choose_port(
            "--bolt-port", wanted=bolt, remembered=before and before.bolt_port, usual=BOLT_PORT, taken=http
        )
        http = choose_port(
            "--http-port", wanted=http, remembered=before and before.http_port, usual=HTTP_PORT, taken=bolt
        )
        if before and (bolt, http) != (before.bolt_port, before.http_port) and self._ports == (None, None):
            self._say(f"ports {before.bolt_port} and {before.http_port} of last time: one is in use, so they changed")
        heap, page_cache = self._sizes
        return Settings(
            version=line.name,
            bolt_port=bolt,
            http_port=http,
            heap=heap or (before.heap if before else HEAP),
            page_cache=page_cache or (before.page_cache if before else PAGE_CACHE),
        )

    def _still_answers(self, pid: int, timeout_s: float) -> bool:
        try:
            self._await(pid, timeout_s)
        except LocalServerError:
            if process.is_alive(pid, self._mark):
                raise
            return False  # it was about to end
        return True

    def _launch(self, line: Line, java: Path, jars: list[Path], timeout_s: float) -> None:
        folder, before, settings = self._folder, self._folder.settings(), self._choose(line)
        folder.remember(settings)
        folder.configure(line, settings, jars)
        if folder.put_unfinished_aside():
            self._say("a first start did not get as far as to open the server: its empty data were put aside")
        self._set_first_password(java)
        self._say(f"starting Neo4j {line.release} with {java}")
        command = [java, f"@{folder.arguments}", line.main, self._mark, f"--config-dir={folder.path / 'conf'}"]
        since = size_of(folder.log)
        pid = process.spawn(command, log=folder.console, folder=folder.path, environment=folder.environment)
        try:
            folder.pid_file.write_text(str(pid), "ascii")
            self._await(pid, timeout_s, since)
        except BaseException:
            process.end(pid, self._mark, timeout_s=10)
            # A heap that was too small is not tried again.
            folder.remember(before or replace(settings, heap=HEAP, page_cache=PAGE_CACHE))
            raise

    def _set_first_password(self, java: Path) -> None:
        """Before the first start, so that the server is never open with the password that everybody knows."""
        self._folder.password()
        if self._folder.is_new:
            self._folder.set_first_start(True)
            # The command reads `@file` as the arguments in that file: no password in a process list.
            admin = [java, f"@{self._folder.arguments}", "org.neo4j.cli.AdminTool", "dbms", "set-initial-password"]
            # Where it fails, the server tells why when it starts, or gets the password as soon as it opens.
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [*admin, f"@{self._folder.password_file}"],
                    env=self._folder.environment, capture_output=True, check=False, timeout=120,
                )  # fmt: skip

    def _await(self, pid: int, timeout_s: float, since: int = 0) -> None:
        settings = self._folder.settings()
        assert settings is not None
        ports = (settings.bolt_port, settings.http_port)
        if await_login(
            settings.bolt_port,
            self._folder.password(),
            alive=lambda: process.is_alive(pid, self._mark),
            listens=lambda: process.listens(pid, ports),
            timeout_s=timeout_s,
        ):
            self._folder.set_first_start(False)
            return
        if process.is_alive(pid, self._mark):
            raise LocalServerError(f"Neo4j did not answer within {timeout_s:g} s. What it did so far is in {self.log}")
        why = complaint(self._folder.console) or complaint(self._folder.log, since=since) or "it did not tell why"
        if "already in use" in why:  # "Address already in use", "Address 127.0.0.1:7475 is already in use"
            raise _PortTakenError(f"another program took port {ports[0]} or {ports[1]} meanwhile: start it again")
        free_mb = shutil.disk_usage(self._folder.path).free >> 20
        room = f"; its disk has {free_mb} MB left" if free_mb < 200 else ""
        raise LocalServerError(f"Neo4j ended while it started: {why}. Its logs are in {self._folder.logs}{room}")
