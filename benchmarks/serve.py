"""What `hepm serve` adds to a request, to the first byte of a stream, and under many streams at once.

usage: python benchmarks/serve.py [--runs 300 20000 100000] [--requests 200] [--seconds 60] [--streams 200]

The upstream, `hepm serve` and this client are processes of one machine. The baseline is the same request to the same
upstream without the proxy, sent in turns; a second one is a bare proxy of the same libraries, uvicorn and httpx2, that
only passes requests on: what it adds is their cost and not memory's. "held out" is a second `hepm serve` on a copy of
the memory, all of whose sessions are controls (`--holdout 0.999999`): recorded and told nothing. The memory holds runs
at a generated service desk, and a conversation is one that it has not seen: a request of 20 kB for each call, 20 ms
apart, with a long system prompt, the desk's tools, and each reply as it came, with the result of its call. `hinted` is
the share of requests that reached the upstream with a hint. The streams all last for `--seconds`, an event each 250 ms;
how late an event is counts from its sending. Prints a JSON line a size, then a table.
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
import shutil
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np

from hepm import Memory
from hepm.agents import wire
from hepm.agents.runs import LiveRuns
from hepm.evals.service_desk import DeskRun, make_desk
from hepm.types import HINT

DESK = make_desk(7)
BAR_MS = {"request": 2.0, "first byte": 1.0}
NEARLY_ALL = 0.999_999
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
    parser.add_argument("--bare", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.upstream:
        run_server(answer)
        return
    if arguments.bare:
        run_server(bare_proxy(arguments.bare))
        return
    rows: list[dict[str, Any]] = []
    python = [sys.executable, __file__]
    hepm = str(Path(sysconfig.get_path("scripts"), "hepm"))
    with process([*python, "--upstream"]) as (direct, _), process([*python, "--bare", direct]) as (bare, _):
        for count in arguments.runs:
            with tempfile.TemporaryDirectory() as folder:
                with Memory.open(folder) as memory:
                    memory.ingest(DESK.record(one, *DESK.run(one)) for one in DESK.training(count))
                copy = shutil.copytree(folder, f"{folder}-copy")
                work = {"held_out_work_ms": held_out_work(copy)}
                command = [hepm, "serve", "--port", "0", "--upstream", f"{direct}/v1", "--store"]
                held_out = [*command, copy, "--holdout", str(NEARLY_ALL)]
                with process([*command, folder]) as (proxied, pid), process(held_out) as (held, _):
                    rows.append({"runs": count} | measured(direct, bare, held, proxied, pid, arguments) | work)
                shutil.rmtree(copy)
            machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
            print(json.dumps(rows[-1] | {"machine": machine, "python": platform.python_version()}), flush=True)
    _print_table(rows)


@contextlib.contextmanager
def process(command: list[str]) -> Iterator[tuple[str, int]]:
    """A server's address, which ends the first line that it writes to standard error, and its process id."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split()[-1], process.pid
        finally:
            process.terminate()


def measured(
    direct: str, bare: str, held_out: str, proxied: str, pid: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, bar_ms in BAR_MS.items():
        ways: dict[str, list[float]] = {direct: [], bare: [], held_out: [], proxied: []}
        hints: list[bool] = []
        for number, episode in enumerate(itertools.cycle(DESK.held_out())):
            for url, took, hinted in conversation(episode, list(ways), stream=kind == "first byte"):
                if number:  # the first one opens connections
                    ways[url].append(took)
                    hints += [hinted] if url == proxied else []
            if len(hints) >= arguments.requests:
                break
        without, only, control, within = (np.array(ways[url]) * 1e3 for url in ways)
        added = np.median(within) - np.median(without)
        found[kind] = {
            "without_ms": rounded(np.median(without)),
            "with_ms": rounded(np.median(within)),
            "added_ms": rounded(added),
            "bare_added_ms": rounded(np.median(only) - np.median(without)),
            "held_out_added_ms": rounded(np.median(control) - np.median(without)),
            "ratio": rounded(np.median(within) / np.median(without)),
            "added_p95_ms": rounded(np.percentile(within, 95) - np.percentile(without, 95)),
            "hinted": rounded(np.mean(hints)),
            "within_bar": bool(added <= bar_ms),
        }
    if arguments.seconds:
        found["streams"] = asyncio.run(streams(direct, proxied, pid, arguments.streams, arguments.seconds))
    return found


def held_out_work(folder: str) -> dict[str, float]:
    """Milliseconds of memory's own work on a control's first request and on a later one, medians, in this process.

    It reads the body, finds the run, draws the arm, and gives the body back as it came.
    """
    took: dict[bool, list[float]] = {True: [], False: []}
    with Memory.open(folder, holdout=NEARLY_ALL) as memory:
        runs = LiveRuns(memory)
        for number, episode in enumerate(DESK.held_out()):
            said = episode.messages(DESK.run(episode)[0])
            messages = [system_prompt(), said[0] | {"content": f"{said[0]['content']} (ticket {next(_NUMBERS)})"}]
            for at, (reply, result) in enumerate(zip(said[1::2], said[2::2], strict=True)):
                raw = request_body(messages, False)
                started = time.perf_counter()
                body = wire.read_body("chat", raw)
                tools = wire.tools_of(body)
                about = {"namespace": "default", "door": "proxy", "tools": tools}
                run = runs.continued(wire.messages_of("chat", body), id="", sequel="", group="", **about)
                prompt = runs.prompt(run, keep=run.behind)
                own = wire.without_foreign_hints("chat", body)
                sent = wire.with_hint("chat", own, stable=run.stable, present=prompt.present, placement="behind")
                ended = time.perf_counter()
                assert sent is body
                if number:
                    took[not at].append(1e3 * (ended - started))
                runs.replied(run, wire.Reply((reply,)))
                messages += [reply, result]
    return {"first": rounded(statistics.median(took[True])), "later": rounded(statistics.median(took[False]))}


def rounded(number: float | np.floating[Any]) -> float:
    return round(float(number), 2)


# One request after another


def conversation(episode: DeskRun, urls: list[str], *, stream: bool) -> Iterator[tuple[str, float, bool]]:
    """The requests of one conversation, each to every address.

    Yields the address, the seconds to the end or to the first byte, and whether a hint reached the upstream.
    """
    connections = {url: http.client.HTTPConnection(urlsplit(url).netloc) for url in urls}
    # Every conversation has a number of its own: an equal one would continue the first.
    said = episode.messages(DESK.run(episode)[0])
    messages = [system_prompt(), said[0] | {"content": f"{said[0]['content']} (ticket {next(_NUMBERS)})"}]
    for reply, result in zip(said[1::2], said[2::2], strict=True):
        body = request_body(messages, stream)
        answers: list[Any] = []
        for url in urls if len(messages) % 4 else urls[::-1]:
            time.sleep(_PAUSE_S)
            took, hinted, answer = asked(connections[url], body, reply, stream)
            answers.append(answer)
            yield url, took, hinted
        assert answers == answers[:1] * len(urls), "the proxy changed a reply"
        messages += [reply, result]  # as the answers say it
    for connection in connections.values():
        connection.close()


def system_prompt() -> dict[str, Any]:
    return {"role": "system", "content": "You work at a service desk. " + "Be kind and follow the rules. " * 430}


def request_body(messages: list[dict[str, Any]], stream: bool) -> bytes:
    properties = {name: {"type": "string", "description": "What the tool needs to know."} for name in "abcd"}
    parameters = {"type": "object", "properties": properties, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in DESK.tools]
    return json.dumps({"model": "small", "messages": messages, "tools": tools, "stream": stream}).encode()


def asked(
    connection: http.client.HTTPConnection,
    body: bytes,
    reply: dict[str, Any],
    stream: bool,
    about: Mapping[str, str] | None = None,
) -> tuple[float, bool, bytes]:
    headers = {"content-type": "application/json", "x-events": "3", "x-reply": json.dumps(reply), **(about or {})}
    started = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body, headers)
    response = connection.getresponse()
    first = response.read(1) if stream else response.read()
    took = time.perf_counter() - started
    answer = first + response.read()
    return took, response.headers["x-hinted"] == "yes", b"" if stream else answer


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
            "median": rounded(1e3 * statistics.median(late)),
            "p95": rounded(1e3 * np.percentile(late, 95)),
        }
        if way == "with":  # the requests themselves come in the first quarter
            found["rss_mb"] = {"quarter": rounded(sizes[len(sizes) // 4]), "end": rounded(sizes[-1])}
            found["rss_growth"] = rounded(sizes[-1] / sizes[len(sizes) // 4])
        if wrong:
            found["first error"] = repr(wrong[0])
    return found


async def _stream(url: str, number: int, events: int, late: list[float]) -> None:
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    episode = next(DESK.training(1))
    said = {"role": "user", "content": f"{episode.user} (one of many: {number})"}
    body = request_body([system_prompt(), said], True)
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


def run_server(app: Any) -> None:
    """Serve on a free port, whose address is written to standard error."""
    import uvicorn

    with socket.socket(proto=socket.IPPROTO_TCP) as listening:  # named, so that asyncio sets TCP_NODELAY
        listening.bind(("127.0.0.1", 0))
        listening.listen(2_048)
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])


def bare_proxy(upstream: str) -> Any:
    """A proxy that passes requests on and does nothing else."""
    client = httpx2.AsyncClient()
    own = {b"host", b"connection", b"content-length", b"transfer-encoding"}

    async def pass_on(scope: Any, receive: Any, send: Any) -> None:
        body = await _body(receive)
        headers = [(name, value) for name, value in scope["headers"] if name not in own]
        asked = httpx2.Request(scope["method"], upstream + scope["path"], content=body, headers=headers)
        found = await client.send(asked, stream=True)
        kept = [(name.lower(), value) for name, value in found.headers.raw if name.lower() not in own]
        await send({"type": "http.response.start", "status": found.status_code, "headers": kept})
        async for part in found.aiter_raw():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    return pass_on


async def _body(receive: Any) -> bytes:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """A light endpoint: it answers what x-reply says, in a stream of as many events as x-events says."""
    body = await _body(receive)
    stream = b'"stream": true' in body
    given = dict(scope["headers"])
    said = [(b"content-type", b"text/event-stream" if stream else b"application/json")]
    said.append((b"x-hinted", b"yes" if HINT.encode() in body else b"no"))
    await send({"type": "http.response.start", "status": 200, "headers": said})
    reply = json.loads(given.get(b"x-reply", b"{}"))
    if not stream:
        whole = {"object": "chat.completion", "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}]}
        await send({"type": "http.response.body", "body": json.dumps(whole).encode()})
        return
    async for event in _events(given, reply):
        await send({"type": "http.response.body", "body": b"data: " + event + b"\n\n", "more_body": True})
    await send({"type": "http.response.body"})


async def _events(given: dict[bytes, bytes], reply: dict[str, Any]) -> AsyncIterator[bytes]:
    every = float(given.get(b"x-every-s", b"0"))
    events = int(given[b"x-events"])
    calls = [{"index": at, **call} for at, call in enumerate(reply.get("tool_calls", ()))]
    for number in range(events):
        if number and every:
            await asyncio.sleep(every)
        ends = calls and number == events - 1
        delta: dict[str, Any] = {"tool_calls": calls} if ends else {"content": "" if calls else "I go on. " * 10}
        choices = [{"index": 0, "delta": delta}]
        yield json.dumps({"at": time.monotonic(), "object": "chat.completion.chunk", "choices": choices}).encode()
    yield b"[DONE]"


def _print_table(rows: list[dict[str, Any]]) -> None:
    head = "runs | of | without, ms | with, ms | added, ms | held out | by a bare proxy | ratio | added p95, ms | bar"
    print(f"\n| {head} |")
    print("|--:|--|--:|--:|--:|--:|--:|--:|--:|--|")
    for row in rows:
        for kind, bar in BAR_MS.items():
            one = row[kind]
            verdict = f"≤ {bar:g} ms: {'yes' if one['within_bar'] else 'no'}"
            cells = [
                row["runs"],
                kind,
                one["without_ms"],
                one["with_ms"],
                one["added_ms"],
                one["held_out_added_ms"],
                one["bare_added_ms"],
                one["ratio"],
            ]
            print("|", " | ".join(map(str, [*cells, one["added_p95_ms"], verdict])), "|")


if __name__ == "__main__":
    main()
