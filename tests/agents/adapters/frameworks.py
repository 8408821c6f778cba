"""Virtual environments of agent frameworks, which cannot share one: made by uv once, and kept below this one's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).parent.parent.parent.parent

PACKAGES = {
    "pydantic_ai": (),  # in the environment of the tests
    "langchain": ("langchain", "langchain-openai"),
    "openai_agents": ("openai-agents",),
    "litellm": ("litellm[proxy]",),
    "claude_agent": ("claude-agent-sdk",),  # with the command line of Claude Code
}


def python_of(framework: str) -> str:
    """The interpreter that has a framework, and hepm."""
    packages = PACKAGES[framework]
    if not packages:
        return sys.executable
    folder = Path(sys.prefix) / "frameworks" / framework
    python, made = folder / "bin" / "python", folder / "made"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not made.exists():
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
            install = [*uv, "pip", "install", "--quiet", "--python", python, *packages, "--editable", ROOT]
            subprocess.run(install, check=True)
            made.touch()
    return str(python)


def drive(framework: str, script: str, scenarios: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Play scenarios with `tests.agents.adapters.SCRIPT` in the environment of a framework; what each returned."""
    command = [python_of(framework), "-m", f"tests.agents.adapters.{script}"]
    given = json.dumps(scenarios)
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {one["scenario"]: one for one in found}


def run_block(framework: str, code: str, folder: Path, **environment: str) -> str:
    """Run a block of the documentation as a program in the environment of a framework; what it wrote on stderr."""
    (folder / "block.py").write_text(code, "utf-8")
    done = subprocess.run(
        [python_of(framework), "block.py"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr
