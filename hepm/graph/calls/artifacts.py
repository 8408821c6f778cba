"""What is computed from a large memory, as files beside it: processes share it, and a new one need not compute it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import mmap
import os
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Collection, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_log = logging.getLogger("hepm")

FORMAT: Final = 6  # raised when the files change: older ones are computed again
_ABOUT: Final = "about.json"  # what JSON can say about the arrays of a version
PART: Final = ".part"  # ending of a file with arrays that are added later
PARTS: Final = "parts-"  # beginning of the name of a folder with such files
_PATIENCE_S: Final = 60.0
_ALIGNED: Final = 64  # bytes at whose multiples arrays begin
_LONGEST_HEAD: Final = 4096  # bytes of the line of JSON before the arrays of a part


class Artifacts:
    """Named arrays of one namespace in a folder; each version is a folder of its own, written atomically."""

    def __init__(self, folder: Path, namespace: str) -> None:
        # A namespace may hold characters that no file name may.
        digest = hashlib.blake2b(namespace.encode("utf-8", "replace"), digest_size=6).hexdigest()
        self._folder = folder / digest

    def write(self, version: int, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], parts: str) -> None:
        """Keep arrays, and what JSON can say about them; earlier versions are removed. A full disk keeps none.

        Args:
            parts: Name of a folder for arrays that are added later (see `write_part`). It stays while versions name it.
        """
        target, part = self._folder / str(version), self._folder / f".{version}-{os.getpid()}"
        try:
            part.mkdir(parents=True, exist_ok=True)
            for name, array in arrays.items():
                np.save(part / f"{name}.npy", array, allow_pickle=False)
            sums = {name: _checksum(array) for name, array in arrays.items()}
            text = json.dumps({**about, "format": FORMAT, "checksums": sums, "parts": parts})
            (part / _ABOUT).write_text(text, encoding="utf-8")
            shutil.rmtree(target, ignore_errors=True)
            self.parts(parts).mkdir(exist_ok=True)
            # Atomic: a reader sees the whole version, or the one before.
            part.rename(target)
        except OSError as error:
            _log.info("%s cannot be written, and is computed again by the next process: %s", target, error)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for other in self._versions():
            if other < version:
                shutil.rmtree(self._folder / str(other), ignore_errors=True)
        for former in self._folder.glob(f"{PARTS}*"):
            if former.name != parts:
                shutil.rmtree(former, ignore_errors=True)

    def read(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """What was kept last, its arrays mapped into memory; None if there is nothing, or it is damaged."""
        for version in self._versions()[::-1]:
            folder = self._folder / str(version)
            try:
                about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
                if about["format"] != FORMAT:
                    continue
                arrays: dict[str, NDArray[Any]] = {}
                for path in folder.glob("*.npy"):
                    # A view without the class `memmap`, which would slow every operation down.
                    arrays[path.stem] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
                return about, arrays
            except (OSError, ValueError, KeyError, TypeError, EOFError) as error:  # or another process just replaced it
                _log.debug("%s cannot be read: %s", folder, error)
        return None

    def write_note(self, name: str, values: Mapping[str, Any]) -> None:
        """Keep what JSON can say, atomically, whatever version the arrays have. A full disk keeps nothing."""
        part = self._folder / f".{name}-{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps({**values, "format": FORMAT}), encoding="utf-8")
            part.replace(self._note(name))
        except OSError as error:
            _log.info("%s cannot be written, and is measured again by the next process: %s", self._note(name), error)

    def read_note(self, name: str) -> dict[str, Any] | None:
        """What was kept under this name; None if there is nothing, or it is damaged."""
        try:
            note = json.loads(self._note(name).read_text(encoding="utf-8"))
            if note["format"] == FORMAT:
                return note
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None

    def _note(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    @contextlib.contextmanager
    def alone(self) -> Generator[None]:
        """Let no other process compute the same meanwhile; after `_PATIENCE_S` each computes for itself."""
        lock = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Locks of SQLite work on every system, and go with a process that is killed.
            lock = sqlite3.connect(self._folder / "lock", timeout=_PATIENCE_S, check_same_thread=False)
            lock.execute("BEGIN EXCLUSIVE")
        except (OSError, sqlite3.Error) as error:
            _log.debug("%s cannot be locked: %s", self._folder, error)
        try:
            yield
        finally:
            if lock is not None:
                lock.close()

    def damage(self) -> Iterator[str]:
        """Sentences on the files of the last version that cannot be read, or hold other numbers than were written."""
        for version in self._versions()[-1:]:
            kept = self.read()
            if kept is None:
                yield f"{self._folder / str(version)} cannot be read"
                continue
            about, arrays = kept
            for name, checksum in about["checksums"].items():
                if name not in arrays or _checksum(arrays[name]) != checksum:
                    yield f"{self._folder / str(version) / name}.npy is not as it was written"
            for file in sorted(self.parts(about["parts"]).glob(f"*{PART}")):
                if read_part(file) is None:
                    yield f"{file} cannot be read"

    def parts(self, name: str) -> Path:
        """A folder for parts."""
        return self._folder / name

    def drop(self) -> None:
        """Remove all versions."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _versions(self) -> list[int]:
        with contextlib.suppress(OSError):
            return sorted(int(entry.name) for entry in self._folder.iterdir() if entry.name.isdecimal())
        return []


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def write_part(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file in the folder of a version, atomically, unless that is gone."""
    flat = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    about = {name: (array.dtype.str, array.shape, _checksum(array)) for name, array in flat.items()}
    head = json.dumps(about).encode()
    part = file.with_name(f".{file.name}-{os.getpid()}-{threading.get_ident()}")
    try:
        with part.open("wb") as stream:
            for piece in (head + b"\n", *(array.tobytes() for array in flat.values())):
                stream.write(piece + bytes(-len(piece) % _ALIGNED))
        part.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()


def read_part(file: Path, *, unchecked: Collection[str] = ()) -> dict[str, NDArray[Any]] | None:
    """Arrays that `write_part` wrote, mapped into memory; None if there are none, or they are damaged.

    Of the arrays named in `unchecked`, which may be long, the size alone is checked.
    """
    try:
        with file.open("rb") as stream:
            head = stream.readline(_LONGEST_HEAD)
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        arrays: dict[str, NDArray[Any]] = {}
        offset = len(head) + -len(head) % _ALIGNED
        for name, (kind, shape, checksum) in json.loads(head).items():
            dtype = np.dtype(kind)
            array = np.frombuffer(mapped, dtype, math.prod(shape), offset).reshape(shape)
            if name not in unchecked and _checksum(array) != checksum:
                return None
            arrays[name] = array
            offset += array.nbytes + -array.nbytes % _ALIGNED
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    if offset != len(mapped):  # a part of the file is missing, or is of another one
        return None
    return arrays
