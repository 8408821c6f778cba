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
from hepm.graph.open_store import user_cache

# Where a virtual environment has its programs.
_SCRIPTS: Final = "Scripts" if os.name == "nt" else "bin"


@dataclass(frozen=True, slots=True)
class Package:
    """What an environment needs: pinned requirements, a checkout of its authors, or both.

    Attributes:
        requirements: As pip takes them, that of the environment first; none for a checkout that needs Python alone.
        complete: They are all that is needed of their dependencies.
        repository: Where to get the checkout, of what is on no package index.
        marker: A file that is in it.
        source: Its folder.
    """

    requirements: Sequence[str] = ()
    complete: bool = False
    repository: str = ""
    marker: str = ""
    source: str = ""

    @property
    def name(self) -> str:
        """As errors name it."""
        return self.repository.rpartition("/")[2] or self.requirements[0]

    @property
    def variables(self) -> dict[str, str]:
        """Of a process that runs it."""
        if not self.repository:
            return {}
        return {"PYTHONPATH": str(self.checkout), "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def checkout(self) -> Path:
        """The folder of the checkout.

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

    def interpreter(self) -> Path:
        """Its Python; installs what is needed first, by uv if that is there, else by pip.

        Raises:
            MissingExtraError: it cannot be installed.
        """
        if not self.requirements:
            return Path(sys.executable)
        # Everything that decides what is installed: another Python or another version is another folder.
        content = repr((sys.version_info[:2], self.requirements, self.complete))
        digest = hashlib.blake2b(content.encode(), digest_size=6).hexdigest()
        folder = user_cache() / "environments" / f"{self.requirements[0].partition('==')[0]}-{digest}"
        if not folder.exists():
            self._install(folder)
        return folder / _SCRIPTS / "python"

    def _install(self, folder: Path) -> None:
        uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that the rename below stays on one file system.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as made:
            venv = f"{made}/venv"
            python = f"{venv}/{_SCRIPTS}/python"
            make = [sys.executable, "-m", "venv", venv]
            install = [python, "-m", "pip", "install", "--quiet"]
            # Several times as fast as pip.
            if uv:
                make = [uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, venv]
                install = [uv, "pip", "install", "--quiet", "--python", python]
            if self.complete:
                install.append("--no-deps")
            for command in (make, [*install, *self.requirements]):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    # The last line says what failed.
                    reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1].strip()
                    raise MissingExtraError(
                        f"{self.name} could not be installed ({reason}): check the network, then repeat"
                    )
            with suppress(OSError):  # another process was faster
                Path(venv).rename(folder)
