"""The folder of a server: what lies where in it, its settings, its password. Readable by the owner alone."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from hepm.errors import LocalServerError
from hepm.graph.neo4j_local.versions import LINES, Line

# What a start may have left that was killed before the settings were written.
_EARLY: Final = {"lock", ".gitignore", "settings.json.new"}
DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_JVM: Final = (
    "-XX:+UseG1GC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dlog4j2.disable.jmx=true",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a folder remembers from one start to the next.

    Attributes:
        version: Name of the line whose data lie in the folder.
        heap: Of the Java machine, as `512m` or `2g`.
        page_cache: For the pages of the database files, likewise.
    """

    version: str
    bolt_port: int
    http_port: int
    heap: str
    page_cache: str


class ServerFolder:
    """Paths in a server's folder, and the small files that hepm keeps there."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.lock = self.path / "lock"
        self.password_file = self.path / "password"
        self.logs = self.path / "logs"
        self.log = self.logs / "neo4j.log"
        self.console = self.logs / "console.log"
        self.pid_file = self.path / "run" / "server.pid"
        self.arguments = self.path / "run" / "java.args"
        self._settings = self.path / "settings.json"
        self._first_start = self.path / "run" / "first-start"

    def make(self) -> None:
        """Make the folder; one that holds anything else is left alone."""
        try:
            self.path.mkdir(parents=True, mode=0o700, exist_ok=True)
            if not self._settings.exists() and (others := {one.name for one in self.path.iterdir()} - _EARLY):
                raise LocalServerError(
                    f"{self.path} holds other things ({', '.join(sorted(others)[:3])}): name a new or empty folder for"
                    " Neo4j with --folder or HEPM_NEO4J_FOLDER"
                )
            self.path.chmod(0o700)
        except (FileExistsError, NotADirectoryError) as error:
            raise LocalServerError(f"{self.path} is no folder: name one with --folder or HEPM_NEO4J_FOLDER") from error
        except OSError as error:
            if error.errno not in DENIED:
                raise
            raise LocalServerError(
                f"{self.path} cannot be written ({error.strerror}): name a folder of your own with --folder or"
                " HEPM_NEO4J_FOLDER"
            ) from error

    @property
    def is_new(self) -> bool:
        """Whether no server has run here yet, so that the first password can be set beforehand."""
        return not (self.path / "data" / "databases" / "system").exists()

    def settings(self) -> Settings | None:
        """What the folder remembers; None for a new one."""
        try:
            found = Settings(**json.loads(self._settings.read_text("utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as error:
            raise LocalServerError(
                f"{self._settings} is damaged ({error}): remove it and start again with the --version that it had"
            ) from error
        return found

    def remember(self, settings: Settings) -> None:
        """Keep settings for the next start."""
        ignored = self.path / ".gitignore"
        if not ignored.exists():
            ignored.write_text("# Data and a password: not for a repository.\n*\n", "utf-8")
        _write_whole(self._settings, json.dumps(asdict(settings), indent=1) + "\n")

    def password(self) -> str:
        """The password; made, and kept, where there is none yet."""
        try:
            return self.password_file.read_text("utf-8").strip()
        except FileNotFoundError:
            # The admin command reads it from a file, where a dash or a quote in front would mean something.
            made = "n" + secrets.token_urlsafe(24)
            _write_whole(self.password_file, made)
            return made

    def configure(self, line: Line, settings: Settings, jars: list[Path]) -> None:
        """Write neo4j.conf, and the arguments of Java into a file: short in a process list, and exactly these jars."""
        for inside in (self.logs, self.arguments.parent, self.path / "conf"):
            inside.mkdir(exist_ok=True)
        bolt, http = f"127.0.0.1:{settings.bolt_port}", f"127.0.0.1:{settings.http_port}"
        conf = [
            "# Written by hepm at each start.",
            "server.default_listen_address=127.0.0.1",
            f"server.bolt.listen_address={bolt}",
            f"server.bolt.advertised_address={bolt}",
            f"server.http.listen_address={http}",
            f"server.http.advertised_address={http}",
            "server.https.enabled=false",
            f"server.memory.pagecache.size={settings.page_cache}",
            "dbms.usage_report.enabled=false",
            "client.allow_telemetry=false",  # else Browser greets with a banner about it
            "db.tx_log.preallocate=false",  # else a new folder takes 500 MB
            *line.settings,
        ]
        _write_whole(self.path / "conf" / "neo4j.conf", "\n".join([*conf, ""]))
        arguments = [f"-Xmx{settings.heap}", *_JVM, "-cp", os.pathsep.join(map(str, jars))]
        _write_whole(self.arguments, "\n".join([*map(_quoted, arguments), ""]))

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the server and the admin command; nobody's credentials are in it."""
        passed = {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}
        return {**passed, "NEO4J_HOME": str(self.path), "NEO4J_CONF": str(self.path / "conf")}

    def set_first_start(self, running: bool) -> None:
        """Note that the very first start has begun, or that the server has answered."""
        if running:
            self._first_start.touch(mode=0o600)
        else:
            self._first_start.unlink(missing_ok=True)

    def put_unfinished_aside(self) -> bool:
        """Take away the data of a first start that was killed before the server let anybody in.

        Neo4j refuses such data: "Transaction logs are missing and recovery is not possible". Nothing of anybody's is in
        them. They are moved, not removed. Whether there were any.
        """
        data, aside = self.path / "data", self.path / "data.unfinished"
        if not (self._first_start.exists() and data.exists()):
            return False
        if self.log.exists() and "Bolt enabled" in self.log.read_text("utf-8", "replace"):
            return False
        shutil.rmtree(aside, ignore_errors=True)
        data.rename(aside)
        return True


def known_version(settings: Settings) -> Line:
    """The line of a folder's data."""
    if settings.version not in LINES:
        raise LocalServerError(f"the folder's data are of Neo4j {settings.version}, which this hepm does not run")
    return LINES[settings.version]


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write_whole(file: Path, text: str) -> None:
    """Write a file that its owner alone may read, all of it or nothing."""
    new = file.with_name(f"{file.name}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(handle)
    new.replace(file)
