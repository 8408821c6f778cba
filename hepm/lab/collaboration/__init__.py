"""Sessions of simulated users with an agent that may remember what they prefer (MultiSessionCollab)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

WRITTEN: Final[Mapping[str, Any]] = json.loads(Path(__file__).with_name("users.json").read_text("utf-8"))
"""What is written for simulated users: problems, preferences with their wordings, personas, and an agent's phrases."""
