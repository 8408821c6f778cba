"""The virtual environment of agent frameworks: made by uv once, and kept below that of the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).parent.parent.parent.parent

PACKAGES = ("langchain", "langchain-openai", "openai-agents", "litellm", "google-adk", "claude-agent-sdk")
# The newest of pydantic-ai and openai, as the tests' own environment has them, so that none gets an old one.
ALSO = ("pydantic-ai-slim[openai]",)


def python_of_frameworks() -> str:
    """The interpreter that has all frameworks, and hepm."""
    folder = Path(sys.prefix) / "frameworks"
    python, made = folder / "bin" / "python", folder / "made"
    with FileLock(f"{folder}.lock"):
        if not made.exists():
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
            install = [*uv, "pip", "install", "--quiet", "--python", python, *PACKAGES, *ALSO, "--editable", ROOT]
            subprocess.run(install, check=True)
            made.touch()
    return str(python)


def drive(framework: str, script: str, scenarios: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Play scenarios with `tests.agents.adapters.SCRIPT` in the environment of a framework; what each returned."""
    python = sys.executable if framework == "pydantic_ai" else python_of_frameworks()
    command = [python, "-m", f"tests.agents.adapters.{script}"]
    given = json.dumps(scenarios)
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {one["scenario"]: one for one in found}
