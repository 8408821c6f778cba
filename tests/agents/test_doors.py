"""The doors of `hepm serve` against their description in doors.yaml."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hepm import Memory
from hepm.agents.guard import Access
from tests.agents.serving import serving
from tests.agents.test_proxy import memory  # noqa: F401
from tests.agents.test_security import routes

DOORS = Path(__file__).with_name("doors.yaml")
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
TOKEN = "token-of-doors"


def test_every_route_but_the_proxy_is_described(memory: Memory) -> None:
    paths = yaml.safe_load(DOORS.read_text())["paths"]
    described = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    with serving(memory) as (server, _):
        assert described == {(path, method) for path, method in routes(server) if not path.startswith("/v1/")}


def found_by_schemathesis(memory: Memory, folder: Path, phases: str, examples: int) -> str:
    """What it says of the doors; "" if all is as described."""
    command = [SCHEMATHESIS, "run", DOORS, "--phases", phases, "--max-examples", str(examples)]
    command += ["--header", f"X-Hepm-Token:{TOKEN}", "--seed", "1", "--continue-on-failure", "--no-color"]
    with serving(memory, tokens={TOKEN: Access()}) as (_, url):
        done = subprocess.run(
            [*command, "--url", url], cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
    return done.stdout + done.stderr if done.returncode else ""


def test_doors_answer_as_described(memory: Memory, tmp_path: Path) -> None:
    assert not found_by_schemathesis(memory, tmp_path, "examples,coverage", 1)


@pytest.mark.exhaustive
def test_doors_answer_thousands_of_requests_as_described(memory: Memory, tmp_path: Path) -> None:
    assert not found_by_schemathesis(memory, tmp_path, "examples,coverage,fuzzing,stateful", 300)
