"""`hepm serve` in a thread of the tests, on a real port."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import uvicorn

from hepm import Memory
from hepm.agents.guard import Access
from hepm.agents.runs import LiveRuns
from hepm.web.options import ServeOptions
from hepm.web.server import Server, uvicorn_config


@contextlib.contextmanager
def serving(
    memory: Memory, *, tokens: Mapping[str, Access] | None = None, upstream_key: str = "", **options: Any
) -> Iterator[tuple[Server, str]]:
    """A server and its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    chosen = ServeOptions(port=port, **{"hint_timeout_s": 60.0, **options})
    runs = LiveRuns(memory, idle_s=chosen.idle_s, distrust=chosen.distrust)
    server = Server(runs, chosen, tokens=tokens or {}, upstream_key=upstream_key)
    running = uvicorn.Server(uvicorn_config(server.app, chosen))
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        while not running.started:
            time.sleep(0.005)
        yield server, f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join()


def end(url: str, session: str, **outcome: Any) -> None:
    """Tell an outcome, by default a success."""
    answer = httpx2.post(f"{url}/outcome", json={"session": session, **(outcome or {"success": True})})
    assert answer.status_code == 200, answer.text


def hook(url: str, session: str, kind: str, **more: Any) -> dict[str, Any]:
    """What an event of Claude Code is answered."""
    event = {"session_id": session, "hook_event_name": kind, "cwd": "/w", **more}
    answer = httpx2.post(f"{url}/hooks/claude-code", json=event)
    assert answer.status_code == 200, answer.text
    return answer.json().get("hookSpecificOutput", {})


def until(true: Any, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
