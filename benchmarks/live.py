"""What a server that learns from each run costs: what it adds to requests, `/outcome`, and its own CPU time.

usage: python benchmarks/live.py [--runs 200 5000 100000] [--sessions 30] [--policy procedural] [--without-lessons]
       [--stores FOLDER] [--api messages]

A real `hepm serve` on runs of a generated service desk, none of them in the sessions; upstream, server and client are
processes of one machine. A session is five chat requests of 20 kB, each also sent to the upstream directly, and then
`POST /outcome`; so runs arrive between the requests, which come `--pause` seconds apart. `added` is the median of
proxied requests less that of direct ones, `bare` the same for a proxy of uvicorn, Starlette and httpx2 that only passes
bytes on, `next` that of the first request after an outcome, `cpu` the server's CPU
time, with all of its threads and until it rests again, per session. With `--policy procedural` no engine is asked for
hints, and `--without-lessons` shows and distills none: what is left is the store, the record of runs, and HTTP.
`--api messages` speaks Anthropic's form.

`--stores` keeps the stores of each size for the next call: to make one of 100,000 runs takes a quarter of an hour.
Prints one JSON line a size, then a table.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from parts.measured import about, options

from hepm import Memory
from hepm.experience.prompt import PromptOptions
from hepm.lab.desks.service_desk import DeskRun, make_desk
from hepm.types import HINT

DESK = make_desk(7)
REQUESTS = 5
WARM_UP = 3
_MOST_REST_S = 120.0
_LATER = 1_000_000  # episodes of the stream after those that a store may hold


def main() -> None:
    parser = options(__doc__, recorded=False)
    parser.add_argument("--runs", type=int, nargs="+", default=[200, 5_000, 100_000])
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--pause", type=float, default=0.1)
    parser.add_argument("--policy", default="hybrid")
    parser.add_argument("--without-lessons", action="store_true")
    parser.add_argument("--stores", type=Path)
    parser.add_argument("--api", choices=("chat", "messages"), default="chat")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.upstream:
        run(answer)
        return
    if arguments.bare:
        run(bare_proxy(arguments.bare))
        return
    if arguments.serve:
        store, upstream = arguments.serve
        serve(store, upstream, prompt_options(arguments))
        return
    rows: list[dict[str, Any]] = []
    with process([sys.executable, __file__, "--upstream"]) as (direct, _):
        for count in arguments.runs:
            with tempfile.TemporaryDirectory() as folder:
                store = filled(arguments.stores or Path(folder), count, lessons=not arguments.without_lessons)
                row = {"runs": count} | served(copied(store, folder), direct, arguments)
            rows.append(row)
            print(json.dumps(about("live") | row | {"load": rounded(os.getloadavg()[0])}), flush=True)
    columns = [
        "runs",
        "bare_ms",
        "added_ms",
        "ratio",
        "next_added_ms",
        "outcome_ms",
        "outcome_p95_ms",
        "cpu_ms",
        "hinted",
    ]
    print(f"\n| {' | '.join(columns)} |\n|{'--:|' * len(columns)}")
    for row in rows:
        print("|", " | ".join(str(row[column]) for column in columns), "|")


def prompt_options(arguments: argparse.Namespace) -> PromptOptions:
    if arguments.without_lessons:
        return PromptOptions(policy=arguments.policy, experiences=0, principles=0, recalled=0)
    return PromptOptions(policy=arguments.policy)


def filled(folder: Path, count: int, *, lessons: bool) -> Path:
    """A store with so many runs, in a folder of its own, and what they taught; made unless it is there."""
    store = folder / (f"{count}-runs" if lessons else f"{count}-runs-alone")
    if not store.exists():
        making = folder / f"{count}-making"
        making.mkdir(parents=True)
        with Memory.open(making) as memory:
            memory.ingest(DESK.record(one, *DESK.run(one)) for one in DESK.training(count))
            if lessons:
                memory.principles.distill()
        making.rename(store)
    return store


def copied(store: Path, folder: str) -> Path:
    copy = Path(folder, "copy")
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(store, copy))


def serve(folder: str, upstream: str, options: PromptOptions) -> None:
    """`hepm serve` whose hints are made with these options."""
    from functools import partial

    from hepm.cli import main as hepm_command
    from hepm.memory.sessions import Sessions
    from hepm.web import server

    server.LiveRuns = partial(server.LiveRuns, options=options)  # type: ignore[assignment,misc]
    if not options.principles:
        Sessions.distill_soon = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    sys.argv = ["hepm", "serve", "--port", "0", "--upstream", upstream, "--store", folder]
    hepm_command()


# A server


@contextlib.contextmanager
def process(command: list[str]) -> Iterator[tuple[str, int]]:
    """A server's address, which ends the first line that it writes to standard error, and its process id."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split()[-1], process.pid
        finally:
            process.terminate()


def run(app: Any) -> None:
    """Serve an application on a free port, whose address is written to standard error."""
    import uvicorn

    with socket.socket(proto=socket.IPPROTO_TCP) as listening:  # named, so that asyncio sets TCP_NODELAY
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])


def bare_proxy(upstream: str) -> Any:
    """A proxy of the libraries of `hepm serve` that passes bytes on as they come."""
    import httpx2
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    client = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=None))
    dropped = {"host", "content-length", "connection", "accept-encoding"}

    async def passed_on(request: Request) -> StreamingResponse:
        headers = [(name, value) for name, value in request.headers.items() if name not in dropped]
        sent = client.build_request("POST", upstream + request.url.path, content=await request.body(), headers=headers)
        got = await client.send(sent, stream=True)
        return StreamingResponse(
            got.aiter_raw(), got.status_code, dict(got.headers), background=BackgroundTask(got.aclose)
        )

    return Starlette(routes=[Route("/v1/{path:path}", passed_on, methods=["POST"])])


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer what the header x-reply says, and in x-hinted whether a hint came."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    reply = json.loads(dict(scope["headers"]).get(b"x-reply", b"{}"))
    whole: dict[str, Any] = {"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}]}
    if scope["path"].endswith("/messages"):
        whole = {"type": "message", **anthropic_message(reply)}
    hinted = b"yes" if HINT.encode() in body else b"no"
    said = [(b"content-type", b"application/json"), (b"x-hinted", hinted)]
    await send({"type": "http.response.start", "status": 200, "headers": said})
    await send({"type": "http.response.body", "body": json.dumps(whole).encode()})


def served(folder: Path, direct: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--policy", arguments.policy, "--serve", str(folder), f"{direct}/v1"]
    if arguments.without_lessons:
        command.append("--without-lessons")
    took: dict[str, list[float]] = {"direct": [], "bare": [], "proxied": [], "next": [], "outcome": []}
    desk = episodes()
    with process(command) as (proxied, pid), process([sys.executable, __file__, "--bare", direct]) as (bare, _):
        addresses = {"direct": direct, "bare": bare, "proxied": proxied}
        client = Client(addresses, arguments.pause, arguments.api)
        rested(pid)
        for number in range(WARM_UP):
            client.session(f"warm {number}", next(desk))
        rested(pid)
        before = cpu_s(pid)
        for number in range(arguments.sessions):
            one = client.session(f"session {number}", next(desk))
            for way, seconds in one.items():
                took[way] += seconds
        rested(pid)
        used = cpu_s(pid) - before
    found = {way: np.array(seconds) * 1e3 for way, seconds in took.items()}
    without = np.median(found["direct"])
    return {
        "policy": arguments.policy + ", without lessons" * arguments.without_lessons,
        "api": arguments.api,
        "direct_ms": rounded(without),
        "bare_ms": rounded(np.median(found["bare"]) - without),
        "ratio": rounded((np.median(found["proxied"]) - without) / (np.median(found["bare"]) - without)),
        "added_ms": rounded(np.median(found["proxied"]) - without),
        "added_p95_ms": rounded(np.percentile(found["proxied"], 95) - without),
        "next_added_ms": rounded(np.median(found["next"]) - without),
        "outcome_ms": rounded(np.median(found["outcome"])),
        "outcome_p95_ms": rounded(np.percentile(found["outcome"], 95)),
        "cpu_ms": rounded(1e3 * used / arguments.sessions),
        "hinted": rounded(np.mean(client.hints)),
    }


def episodes() -> Iterator[DeskRun]:
    """Episodes in words of logs, of four calls each: with the last answer that is five requests."""
    for number in itertools.count(_LATER):
        episode = DESK.episode(f"run {number}", DESK.kinds[number % len(DESK.kinds)], seen=True)
        if len(DESK.run(episode)[0]) == REQUESTS - 1:
            yield episode


class Client:
    """Sends sessions to a server and, request by request, to the upstream behind it."""

    def __init__(self, addresses: Mapping[str, str], pause_s: float, api: str) -> None:
        self._addresses = addresses
        self._pause_s = pause_s
        self._api = api
        self.hints: list[bool] = []

    def session(self, id: str, episode: DeskRun) -> dict[str, list[float]]:
        """The seconds that each request took."""
        calls, success = DESK.run(episode)
        took: dict[str, list[float]] = {way: [] for way in self._addresses}
        headers = {"content-type": "application/json", "x-hepm-session": id, "x-hepm-environment": "service desk"}
        connections: dict[str, http.client.HTTPConnection] = {}
        for way, address in self._addresses.items():
            connections[way] = http.client.HTTPConnection(urlsplit(address).netloc)
            connections[way].connect()
        said = episode.messages(calls)
        messages = [system_prompt(), said[0]]
        replies = [*said[1::2], {"role": "assistant", "content": "It is done."}]
        for reply, result in zip(replies, [*said[2::2], None], strict=True):
            body = request_body(messages, self._api)
            for way, connection in connections.items():
                time.sleep(self._pause_s / len(connections))
                seconds, hinted = asked(connection, body, {"x-reply": json.dumps(reply), **headers}, self._api)
                took[way].append(seconds)
                if way == "proxied":
                    self.hints.append(hinted)
            messages += [reply, result]
        time.sleep(self._pause_s)
        body = json.dumps({"session": id, "success": success})
        started = time.perf_counter()
        connections["proxied"].request("POST", "/outcome", body, {"content-type": "application/json"})
        response = connections["proxied"].getresponse()
        answer = response.read()
        ended = time.perf_counter()
        assert response.status == 200, answer
        for connection in connections.values():
            connection.close()
        return took | {"next": took["proxied"][:1], "outcome": [ended - started]}


def system_prompt() -> dict[str, Any]:
    return {"role": "system", "content": "You work at a service desk. " + "Be kind and follow the rules. " * 430}


def request_body(messages: list[dict[str, Any]], api: str) -> bytes:
    properties = {name: {"type": "string", "description": "What the tool needs to know."} for name in "abcd"}
    parameters = {"type": "object", "properties": properties, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in DESK.tools]
    body: dict[str, Any] = {"model": "small", "messages": messages, "tools": tools, "stream": False}
    if api == "messages":
        system, *rest = messages
        body |= {"system": system["content"], "messages": list(map(anthropic_message, rest)), "max_tokens": 500}
        body["tools"] = [{"name": tool["function"]["name"], "input_schema": parameters} for tool in tools]
    return json.dumps(body).encode()


def anthropic_message(message: dict[str, Any]) -> dict[str, Any]:
    """A chat message in Anthropic's form."""
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [result]}
    blocks: list[dict[str, Any]] = []
    if message.get("content"):
        blocks.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        given = json.loads(function["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": given})
    return {"role": message["role"], "content": blocks}


def asked(
    connection: http.client.HTTPConnection, body: bytes, headers: Mapping[str, str], api: str
) -> tuple[float, bool]:
    """The seconds of a request, and whether a hint reached the upstream."""
    path = "/v1/messages" if api == "messages" else "/v1/chat/completions"
    started = time.perf_counter()
    connection.request("POST", path, body, dict(headers))
    response = connection.getresponse()
    response.read()
    return time.perf_counter() - started, response.headers["x-hinted"] == "yes"


def rounded(number: float | np.floating[Any]) -> float:
    return round(float(number), 2)


def cpu_s(pid: int) -> float:
    """User and system time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rested(pid: int) -> None:
    """Wait until a process has done hardly anything for a second."""
    ends = time.monotonic() + _MOST_REST_S
    used = cpu_s(pid)
    while time.monotonic() < ends:
        time.sleep(1.0)
        before, used = used, cpu_s(pid)
        if used - before <= 0.03:
            return
    raise SystemExit(f"the server does not rest in {_MOST_REST_S:g} s")


if __name__ == "__main__":
    main()
