"""Open a store by its path, or by the address of a Neo4j server."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hepm.errors import InputError
from hepm.graph.neo4j.login import Login

if TYPE_CHECKING:
    from hepm.graph.rows import Counting
    from hepm.graph.store import Store

DEFAULT_STORE: Final = "memory.hepm"


def open_store(
    location: str | os.PathLike[str], *, counting: Counting | None = None, auth: tuple[str, str] | None = None
) -> Store:
    """Open a store; make it if it is missing.

    Args:
        location: A file, a folder that then holds `memory.hepm`, or an address such as neo4j://localhost:7687 or
            neo4j://host/database.
        counting: Which runs count; None takes what the store was made with.
        auth: User and password for a server; None takes NEO4J_USERNAME and NEO4J_PASSWORD. NEO4J_DATABASE names the
            database if the address does not.
    """
    address = os.fspath(location)
    if is_address(address):
        from hepm.graph.neo4j.store import Neo4jStore

        return Neo4jStore(Login.from_environment(address, auth=auth), counting=counting)
    from hepm.graph.sqlite import SQLiteStore

    return SQLiteStore(_path(address), counting=counting)


def is_address(location: object) -> bool:
    """Whether a store is named by the address of a server, and not by a path."""
    return isinstance(location, str) and re.match(r"(neo4j|bolt)(\+s(sc)?)?://", location) is not None


def embedded_file(location: str | os.PathLike[str]) -> Path | None:
    """The file behind a path, existing or not; None for a server."""
    if is_address(location):
        return None
    from hepm.graph.sqlite.store import FILE_NAME

    path = _path(location)
    return path / FILE_NAME if path.is_dir() else path


def _path(location: str | os.PathLike[str]) -> Path:
    scheme, slashes, _ = os.fspath(location).partition("://")
    if slashes and len(scheme) > 1 and scheme.replace("+", "").isalnum():  # not C://runs
        raise InputError(
            f"a store is a file, or the address of a Neo4j server such as neo4j://localhost:7687, not {scheme}://…"
        )
    return Path(location)


def artifact_folder(location: str | os.PathLike[str]) -> Path:
    """Where what is computed from a large memory is kept: beside the file, or of a server in the user's cache."""
    file = embedded_file(location)
    if file is not None:
        return file.with_name(f"{file.name}-fit")
    login = Login.from_environment(os.fspath(location))
    return user_cache() / "fit" / hashlib.blake2b(f"{login.uri}/{login.database}".encode(), digest_size=8).hexdigest()


def user_cache() -> Path:
    """The folder of the user's cache, for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or (sys.platform == "win32" and os.environ.get("LOCALAPPDATA")) or ""
    if os.path.isabs(base):
        return Path(base) / "hepm"
    return Path.home() / ".cache" / "hepm"
