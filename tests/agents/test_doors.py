"""The doors of `hepm serve` against their description in doors.yaml."""

# ruff: noqa: F811, as fixtures are arguments
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
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
        assert described == {(path, method) for path, method in routes(server) if not path.startswith("/v1")}


SPAN = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "chat"}
LISTED = {"key": "gen_ai.operation.name", "value": {"arrayValue": {"values": []}}}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/nothing", None, 404, "Not Found"),
        ("PUT", "/outcome", {}, 405, "Method Not Allowed"),
        ("PUT", "/api/notes", {}, 405, "Method Not Allowed"),
        ("GET", "/api/graph?tool=fly", None, 404, "no tool 'fly'"),
        ("GET", "/api/edge?source=refund", None, 400, "'target' is missing"),
        ("GET", "/api/lessons?kind=x", None, 400, "of the kind 'x'"),
        ("GET", "/api/lessons?kind=principle&retired=1", None, 400, '"retired" is neither'),
        ("GET", "/api/notes?user=", None, 400, "Name a user"),
        ("POST", "/api/notes", {"user": "ada", "text": "", "version": "1"}, 400, "is no number"),
        ("POST", "/outcome", {"session": "none", "success": True}, 404, "'none'"),
    ],
)
def test_a_refusal_says_why_in_json(memory: Memory, method: str, path: str, body: Any, status: int, said: str) -> None:
    with serving(memory) as (_, url):
        answer = httpx2.request(method, url + path, json=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert said in error["message"]
    assert error["type"] == "hepm"
    if status == 405:
        assert "POST" in answer.headers["allow"]


def test_a_span_whose_operation_is_a_list_is_taken_as_any_other(memory: Memory) -> None:
    spans = [SPAN | {"attributes": [LISTED]}]
    with serving(memory) as (_, url):
        taken = httpx2.post(f"{url}/otlp/v1/traces", json={"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
        odd = httpx2.post(f"{url}/otlp/v1/traces", json={"resourceSpans": [{"scopeSpans": {}}]})
    assert (taken.status_code, taken.json()) == (200, {})
    assert odd.status_code == 400


# The command of schemathesis takes 3.5 s of processor time before its first request.


@pytest.mark.exhaustive
def test_doors_answer_thousands_of_requests_as_described(memory: Memory, tmp_path: Path) -> None:
    command = [
        SCHEMATHESIS,
        "run",
        DOORS,
        "--max-examples",
        "150",
        "--seed",
        "1",
        "--continue-on-failure",
        "--no-color",
    ]
    with serving(memory, tokens={TOKEN: Access()}) as (_, url):
        command += ["--url", url, "--header", f"X-Hepm-Token:{TOKEN}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
