"""What is written for simulated users, in users.json: problems, preferences with their wordings, and personas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

WRITTEN: Final[Mapping[str, Any]] = json.loads(Path(__file__).with_name("users.json").read_text("utf-8"))
