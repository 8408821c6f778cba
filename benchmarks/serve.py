"""What `hepm serve` adds to a request, to the first byte of a stream, and under many streams at once.

usage: python benchmarks/serve.py [--runs 300 20000 100000] [--requests 200] [--seconds 60] [--streams 200]

The upstream, `hepm serve` and this client are three processes on one machine. The baseline is the same request to the
same upstream without the proxy, sent in turns. A conversation takes ten requests of 15 to 25 kB, 20 ms apart: system
prompt, 20 tools, and each reply with the result of its call. The streams all last for `--seconds`, an event each
250 ms; how late an event is counts from its sending. The memory holds made-up runs of 60 tools. Prints a JSON line a
size, then a table.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from speed import random_runs

from hepm import Memory

SEED = 7
TURNS = 10
BAR_MS = {"request": 2.0, "first byte": 1.0}
EVERY_S = 0.25
_PAUSE_S = 0.02  # a model's answer takes far longer
_NUMBERS = itertools.count(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, nargs="+", default=[300, 20_000, 100_000])
    parser.add_argument("--requests", type=int, default=200, help="of each kind, each way")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the streams; 0 for none")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.upstream:
        upstream()
        return
    rows: list[dict[str, Any]] = []
    with _process([sys.executable, __file__, "--upstream"]) as (direct, _):
        for count in arguments.runs:
            with tempfile.TemporaryDirectory() as folder:
                with Memory.open(folder) as memory:
                    memory.ingest(random_runs(np.random.default_rng(SEED), 0, count))
                hepm = str(Path(sysconfig.get_path("scripts"), "hepm"))
                command = [hepm, "serve", "--store", folder, "--port", "0", "--upstream", f"{direct}/v1"]
                with _process(command) as (proxied, pid):
                    rows.append({"runs": count} | measured(direct, proxied, pid, arguments))
            machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
            print(json.dumps(rows[-1] | {"machine": machine, "python": platform.python_version()}), flush=True)
    _print_table(rows)


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[tuple[str, int]]:
    """A server's address, which ends the first line that it writes to standard error, and its process id."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split()[-1], process.pid
        finally:
            process.terminate()


def measured(direct: str, proxied: str, pid: int, arguments: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, bar_ms in BAR_MS.items():
        ways: dict[str, list[float]] = {direct: [], proxied: []}
        for number in range(arguments.requests // TURNS + 1):
            some = conversation(number, [direct, proxied], stream=kind == "first byte")
            if number:  # the first one opens connections
                for url, took in some:
                    ways[url].append(took)
        without, within = (np.array(ways[url]) * 1e3 for url in (direct, proxied))
        added = np.median(within) - np.median(without)
        found[kind] = {
            "without_ms": _rounded(np.median(without)),
            "with_ms": _rounded(np.median(within)),
            "added_ms": _rounded(added),
            "ratio": _rounded(np.median(within) / np.median(without)),
            "added_p95_ms": _rounded(np.percentile(within, 95) - np.percentile(without, 95)),
            "within_bar": bool(added <= bar_ms),
        }
    if arguments.seconds:
        found["streams"] = asyncio.run(streams(direct, proxied, pid, arguments.streams, arguments.seconds))
    return found


def _rounded(number: float | np.floating[Any]) -> float:
    return round(float(number), 2)


# One request after another


def conversation(number: int, urls: list[str], *, stream: bool) -> Iterator[tuple[str, float]]:
    """The requests of one conversation, each to every address, with the seconds to the end, or to the first byte."""
    connections = {url: http.client.HTTPConnection(urlsplit(url).netloc) for url in urls}
    messages = opening(f"{number} {stream}")
    for turn in range(TURNS):
        body = request_body(messages, stream)
        for url in urls if turn % 2 else urls[::-1]:
            time.sleep(_PAUSE_S)
            yield url, _seconds(connections[url], body, stream)
        id = f"call_{next(_NUMBERS)}"
        function = {"name": f"tool{(number * 7 + turn) % 60}", "arguments": '{"order": 7}'}
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": id, "function": function}]})
        messages.append({"role": "tool", "tool_call_id": id, "content": f"result {turn} " + "delivered " * 85})
    for connection in connections.values():
        connection.close()


def opening(title: str) -> list[dict[str, Any]]:
    said = f"Ticket {title}: my parcel came broken and I want my money back."
    return [
        {"role": "system", "content": "You work at a service desk. " + "Be kind and follow the rules. " * 210},
        {"role": "user", "content": said},
    ]


def request_body(messages: list[dict[str, Any]], stream: bool) -> bytes:
    properties = {name: {"type": "string", "description": "What the tool needs to know."} for name in "abcd"}
    parameters = {"type": "object", "properties": properties, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": f"tool{n}", "parameters": parameters}} for n in range(20)]
    return json.dumps({"model": "small", "messages": messages, "tools": tools, "stream": stream}).encode()


def _seconds(connection: http.client.HTTPConnection, body: bytes, stream: bool) -> float:
    started = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json", "x-events": "3"})
    response = connection.getresponse()
    if stream:
        response.read(1)
        took = time.perf_counter() - started
        response.read()
        return took
    response.read()
    return time.perf_counter() - started


# Many streams at once


async def streams(direct: str, proxied: str, pid: int, count: int, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"streams": count, "seconds": seconds}
    for way, url in (("without", direct), ("with", proxied)):
        late: list[float] = []
        sizes: list[float] = []
        watching = asyncio.create_task(_watch(pid, sizes))
        events = max(1, round(seconds / EVERY_S))
        opened = [_stream(url, number, events, late) for number in range(count)]
        wrong = [one for one in await asyncio.gather(*opened, return_exceptions=True) if one is not None]
        watching.cancel()
        found[f"errors {way}"] = len(wrong)
        found[f"late {way}_ms"] = {
            "median": _rounded(1e3 * statistics.median(late)),
            "p95": _rounded(1e3 * np.percentile(late, 95)),
        }
        if way == "with":  # the requests themselves come in the first quarter
            found["rss_mb"] = {"quarter": _rounded(sizes[len(sizes) // 4]), "end": _rounded(sizes[-1])}
            found["rss_growth"] = _rounded(sizes[-1] / sizes[len(sizes) // 4])
        if wrong:
            found["first error"] = repr(wrong[0])
    return found


async def _stream(url: str, number: int, events: int, late: list[float]) -> None:
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    body = request_body(opening(f"{number} of many"), True)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\nx-events: {events}\r\nx-every-s: {EVERY_S}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    came = 0
    async for line in reader:
        if line.startswith(b"data: {"):
            late.append(time.monotonic() - json.loads(line[6:])["at"])
            came += 1
    writer.close()
    if came != events:
        raise ConnectionError(f"{came} of {events} events came")


async def _watch(pid: int, sizes: list[float]) -> None:
    while True:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        sizes.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        await asyncio.sleep(0.25)


# The upstream


def upstream() -> None:
    """A light endpoint with one answer; the header x-events says how many events a stream has."""
    import uvicorn

    with socket.socket(proto=socket.IPPROTO_TCP) as listening:  # named, so that asyncio sets TCP_NODELAY
        listening.bind(("127.0.0.1", 0))
        listening.listen(2_048)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
        config = uvicorn.Config(answer, log_level="error", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])


async def answer(scope: Any, receive: Any, send: Any) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    stream = b'"stream": true' in body
    kind = b"text/event-stream" if stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    if not stream:
        message = {"role": "assistant", "content": "I go on."}
        whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        await send({"type": "http.response.body", "body": json.dumps(whole).encode()})
        return
    async for event in _events(dict(scope["headers"])):
        await send({"type": "http.response.body", "body": b"data: " + event + b"\n\n", "more_body": True})
    await send({"type": "http.response.body"})


async def _events(headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
    every = float(headers.get(b"x-every-s", b"0"))
    for number in range(int(headers[b"x-events"])):
        if number and every:
            await asyncio.sleep(every)
        choices = [{"index": 0, "delta": {"content": "I go on. " * 10}}]
        yield json.dumps({"at": time.monotonic(), "object": "chat.completion.chunk", "choices": choices}).encode()
    yield b"[DONE]"


def _print_table(rows: list[dict[str, Any]]) -> None:
    print("\n| runs | of | without, ms | with, ms | added, ms | ratio | added p95, ms | bar |")
    print("|--:|--|--:|--:|--:|--:|--:|--|")
    for row in rows:
        for kind, bar in BAR_MS.items():
            one = row[kind]
            verdict = f"≤ {bar:g} ms: {'yes' if one['within_bar'] else 'no'}"
            cells = [row["runs"], kind, one["without_ms"], one["with_ms"], one["added_ms"], one["ratio"]]
            print("|", " | ".join(map(str, [*cells, one["added_p95_ms"], verdict])), "|")


if __name__ == "__main__":
    main()
