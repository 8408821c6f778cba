"""The jars of a server: fetched once with jgo, each checked against the lock file before it is used.

A lock file names every jar by its Maven coordinate and SHA-256. Nothing is resolved at run time: what the file names is
fetched, and only that. The cache is a folder in the layout of a Maven repository, which many processes may share.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hepm.errors import LocalServerError, MissingExtraError
from hepm.graph.neo4j_local.exclusive import exclusive
from hepm.graph.neo4j_local.folder import DENIED
from hepm.graph.neo4j_local.versions import Line

if TYPE_CHECKING:
    from jgo.maven import Artifact, MavenContext

Report = Callable[[int, int], None]

_AT_ONCE: Final = 8
_ATTEMPTS: Final = 3
_TIMEOUT_S: Final = 30
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar of a lock file.

    Attributes:
        coordinate: `group:artifact:version`, with `:classifier` where there is one.
        sha256: Of its bytes, in hexadecimal.
    """

    coordinate: str
    sha256: str

    @property
    def path(self) -> Path:
        """Where it lies below the cache folder."""
        group, artifact, version, *classifier = self.coordinate.split(":")
        return Path("jars", *group.split("."), artifact, version, f"{'-'.join([artifact, version, *classifier])}.jar")


def cache_folder() -> Path:
    """HEPM_NEO4J_CACHE, or `hepm/neo4j` in the user's cache folder."""
    if named := os.environ.get("HEPM_NEO4J_CACHE"):
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or (sys.platform == "win32" and os.environ.get("LOCALAPPDATA")) or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "hepm" / "neo4j"


def locked(line: Line) -> list[Jar]:
    """Every jar of a line, in the order of its lock file."""
    text = files("hepm.graph.neo4j_local").joinpath(f"jars-{line.name}.lock.txt").read_text("utf-8")
    rows = (row.split() for row in text.splitlines() if row and not row.startswith("#"))
    return [Jar(coordinate, sha256) for sha256, coordinate in rows]


def provide(line: Line, cache: Path, *, report: Report | None = None, say: Callable[[str], None] = print) -> list[Path]:
    """All jars of a line, every one checked; those that are missing or damaged are fetched.

    Safe with many processes on one cache: the first one fetches, the others wait and then find everything there.

    Args:
        report: Told how many jars of how many are there, while some are fetched.
        say: Takes a sentence for the user.
    Raises:
        LocalServerError: a jar cannot be fetched, kept, or is not the one of the lock file.
    """
    wanted = locked(line)
    if _lacking(wanted, cache):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with exclusive(cache / "lock", waiting=lambda: say("another hepm fetches the same jars: waiting for it")):
                _fetch(line, wanted, cache, report, say)
        except OSError as error:
            if error.errno not in DENIED:
                raise
            raise LocalServerError(
                f"the cache {cache} cannot be written ({error.strerror}): name another folder in HEPM_NEO4J_CACHE"
            ) from error
    return [cache / jar.path for jar in wanted]


def sha256_of(file: Path) -> str | None:
    """SHA-256 of a file in hexadecimal; None where there is none."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _lacking(wanted: Sequence[Jar], cache: Path) -> list[Jar]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(sha256_of, [cache / jar.path for jar in wanted])
        return [jar for jar, digest in zip(wanted, found, strict=True) if digest != jar.sha256]


def _fetch(line: Line, wanted: Sequence[Jar], cache: Path, report: Report | None, say: Callable[[str], None]) -> None:
    lacking = _lacking(wanted, cache)  # again: another process may have fetched them meanwhile
    for jar in lacking:
        if (cache / jar.path).exists():
            say(f"{cache / jar.path} is damaged and not used; it is fetched again")
    if not lacking:
        return
    _check_space(cache, lacking)
    say(f"fetching {len(lacking)} of the {len(wanted)} jars of Neo4j {line.release} into {cache}")
    staging = cache / "staging"
    shutil.rmtree(staging, ignore_errors=True)  # what a killed process left
    context = _context(staging)
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        running = [pool.submit(_fetch_one, line, jar, context, cache) for jar in lacking]
        for done, future in enumerate(as_completed(running), start=len(wanted) - len(lacking) + 1):
            future.result()
            if report is not None:
                report(done, len(wanted))
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(staging, ignore_errors=True)


def _check_space(cache: Path, lacking: Sequence[Jar]) -> None:
    needed_mb = 50 + len(lacking)  # jars have 0.8 MB on average
    free_mb = shutil.disk_usage(cache).free >> 20
    if free_mb < needed_mb:
        raise LocalServerError(
            f"the disk of {cache} has {free_mb} MB left, and {needed_mb} MB are needed for the jars of Neo4j:"
            " make room, or name another folder in HEPM_NEO4J_CACHE"
        )


def _context(staging: Path) -> MavenContext:
    try:
        from jgo.config import GlobalSettings
        from jgo.constants import MAVEN_CENTRAL_URL
        from jgo.maven import MavenContext
    except ImportError as error:
        raise MissingExtraError("fetching Neo4j needs jgo: pip install 'hepm[neo4j-local]'") from error
    logging.getLogger("jgo").addHandler(logging.NullHandler())  # what it warns of is checked here, and refused
    mirrors: dict[str, str] = GlobalSettings.load().repositories
    return MavenContext(
        repo_cache=staging, remote_repos={**mirrors, "central": mirrors.get("central", MAVEN_CENTRAL_URL)},
        timeout=_TIMEOUT_S,
    )  # fmt: skip


def _fetch_one(line: Line, jar: Jar, context: MavenContext, cache: Path) -> None:
    group, artifact, version, *classifier = jar.coordinate.split(":")
    wanted = context.project(group, artifact).at_version(version).artifact(*classifier)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            staged = _download(wanted)
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno in _FULL | DENIED:
                raise LocalServerError(f"{jar.coordinate} cannot be kept in {cache}: {error.strerror}") from error
            if attempt == _ATTEMPTS:
                raise LocalServerError(_unreachable(line, jar, error)) from error
            continue
        if sha256_of(staged) == jar.sha256:
            target = cache / jar.path
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)
            return
    raise LocalServerError(
        f"what was fetched as {jar.coordinate} is not the jar that hepm's lock file names, {_ATTEMPTS} times; it is"
        " not used. A proxy or mirror on the way may change files: try from another network"
    )


def _download(artifact: Artifact) -> Path:
    target = artifact.cached_path
    assert target is not None
    target.unlink(missing_ok=True)  # jgo would take half a file of an earlier attempt for the whole
    return artifact.resolve()


def _unreachable(line: Line, jar: Jar, error: Exception) -> str:
    what = "no repository has it" if isinstance(error, RuntimeError) else type(error).__name__
    return (
        f"{jar.coordinate} could not be fetched ({what}). Neo4j {line.release} is fetched once and needs the network"
        " for that: go online and repeat the command, which goes on where it stopped; behind a proxy set HTTPS_PROXY,"
        " and a Maven mirror is named in jgo's settings file, section [repositories]"
    )
