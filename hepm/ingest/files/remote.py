"""Files at addresses such as s3://bucket/runs/*.jsonl, through fsspec and its package for the service."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import IO, Any, TypeAlias, cast

from hepm.errors import InputError, MissingExtraError

FileSystem: TypeAlias = Any
"""An `fsspec.AbstractFileSystem`: fsspec has no types."""


def is_remote(name: str) -> bool:
    """Whether a name is an address."""
    return "://" in name


@lru_cache
def _located(name: str) -> tuple[FileSystem, str]:
    """The file system of an address, and the path there. MissingExtraError, InputError: it cannot be reached."""
    service = name.partition("://")[0]
    try:
        return cast("tuple[FileSystem, str]", import_module("fsspec.core").url_to_fs(name))
    except ImportError as error:
        # Else fsspec's own message names the package: "Please install s3fs to access S3".
        missing = "pip install fsspec" if (error.name or "").startswith("fsspec") else str(error)
        raise MissingExtraError(
            f"{name} is read through fsspec, which lacks a package for {service}: {missing}"
        ) from None
    except ValueError as error:
        raise InputError(f"{name} is no address that fsspec reads: {error}.") from error


def remote_files(name: str, wanted: Callable[[str], bool]) -> list[str]:
    """The addresses of a file, of the `wanted` files of a folder, or of those that a pattern matches, in order."""
    files, path = _located(name)
    try:
        return [files.unstrip_protocol(file_path) for file_path in sorted(_paths(files, path, wanted))]
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error}.") from error


def _paths(files: FileSystem, path: str, wanted: Callable[[str], bool]) -> list[str]:
    """Paths without the service. Hidden files, and those in hidden folders, are left out as on this machine."""
    if files.isdir(path):
        return [below for below in files.find(path) if wanted(below) and "/." not in below[len(path) :]]
    if any(mark in path for mark in "*?["):
        return [matched for matched in files.glob(path) if "/." not in matched and not files.isdir(matched)]
    if files.exists(path):
        return [path]
    return []


@contextmanager
def open_remote(name: str) -> Generator[tuple[IO[bytes], str, Callable[[str], bytes | None]]]:
    """The bytes of a file, its path, and what reads another file by its path; OSError if it cannot be read."""
    files, path = _located(name)

    def beside(other: str) -> bytes | None:
        if not files.isfile(other):
            return None
        return cast("bytes", files.cat_file(other))

    with files.open(path, "rb") as stream:
        yield stream, path, beside
