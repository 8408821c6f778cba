"""A virtual environment for each package, in the user's cache, made when it is first used, and checkouts of authors."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hepm.errors import InputError, MissingExtraError
from hepm.user_cache import user_cache

# Where a virtual environment has its programs.
_SCRIPTS: Final = "Scripts" if os.name == "nt" else "bin"


@dataclass(frozen=True, slots=True)
class Package:
    """What an environment needs, pinned.

    Attributes:
        requirements: As pip takes them, that of the environment first.
        complete: They are all that is needed of their dependencies.
        python: The oldest Python that it runs on.
    """

    requirements: Sequence[str]
    complete: bool = False
    python: tuple[int, int] = (3, 11)

    @property
    def name(self) -> str:
        """As errors name it."""
        return self.requirements[0]

    @property
    def variables(self) -> dict[str, str]:
        """Of a process that runs it."""
        return {}

    @property
    def folder(self) -> Path:
        """Where it is installed: another Python or another version is another folder."""
        # Everything that decides what is installed.
        content = repr((sys.version_info[:2], self.requirements, self.complete))
        digest = hashlib.blake2b(content.encode(), digest_size=6).hexdigest()
        return user_cache() / "environments" / f"{self.requirements[0].partition('==')[0]}-{digest}"

    def interpreter(self) -> Path:
        """Its Python; installs the package first, by uv if that is there, else by pip.

        Raises:
            MissingExtraError: it cannot be installed.
        """
        if not self.folder.exists():
            self._install()
        return self.folder / _SCRIPTS / "python"

    def _install(self) -> None:
        name = self.name
        if sys.version_info < self.python:
            needed = ".".join(map(str, self.python))
            raise MissingExtraError(f"{name} needs Python {needed} or newer: run hepm with that")
        uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that the rename below stays on one file system.
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix="making-") as made:
            python = Path(made) / "venv" / _SCRIPTS / "python"
            alone = ["--no-deps"] if self.complete else []
            # Several times as fast as pip.
            if uv:
                make = [uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, f"{made}/venv"]
                install = [uv, "pip", "install", "--quiet", "--python", str(python), *alone, *self.requirements]
            else:
                make = [sys.executable, "-m", "venv", f"{made}/venv"]
                install = [str(python), "-m", "pip", "install", "--quiet", *alone, *self.requirements]
            for command in (make, install):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    # The last line says what failed.
                    reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1].strip()
                    raise MissingExtraError(f"{name} could not be installed ({reason}): check the network, then repeat")
            with suppress(OSError):  # another process was faster
                (Path(made) / "venv").rename(self.folder)


@dataclass(frozen=True, slots=True)
class Checkout:
    """The authors' own checkout, of what is on no package index.

    Attributes:
        repository: Where to get it.
        marker: A file that is in it.
        package: What else it needs; None for Python alone.
        source: The folder.
    """

    repository: str
    marker: str
    package: Package | None = None
    source: str = ""

    @property
    def name(self) -> str:
        """As errors name it."""
        return self.repository.rpartition("/")[2]

    @property
    def folder(self) -> Path:
        """Where it is.

        Raises:
            InputError: no folder is named, or it holds something else.
        """
        if not self.source or not (Path(self.source) / self.marker).is_file():
            what = "none is named"
            if self.source:
                what = f"{self.source!r} is none: there is no {self.marker} in it"
            raise InputError(
                f"{self.name} runs from a checkout of {self.repository}, and {what}. Clone it, and name the folder "
                "by --source."
            )
        return Path(self.source).resolve()

    @property
    def variables(self) -> dict[str, str]:
        """Of a process that runs it."""
        return {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def interpreter(self) -> Path:
        """Its Python; see `Package.interpreter`."""
        if self.package is None:
            return Path(sys.executable)
        return self.package.interpreter()
