"""The folder of the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """The folder of the user's cache, for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or (sys.platform == "win32" and os.environ.get("LOCALAPPDATA")) or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "hepm"
