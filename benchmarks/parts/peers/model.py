"""A loopback model and embedder: python model.py prints its port, and serves until its standard input ends.

Paths are /DELAY/v1/chat/completions and /DELAY/v1/embeddings, DELAY in seconds; /counts says what was asked since the
last time. Answers follow from the prompt alone: the tools that a run called, and which followed which. Tokens are
characters / 4.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

MOST_FACTS: Final = 6
DIMENSIONS: Final = 1536
_REQUEST_LENGTH: Final = 160
_CALL: Final = re.compile(r"calls ([\w.-]+)\(")
_REQUEST: Final = re.compile(r"user: (.+)")

Json = dict[str, Any]


def request_in(text: str) -> str:
    """What the user of a run first asked for, on one line, cut."""
    found = _REQUEST.search(text)
    return found[1][:_REQUEST_LENGTH].strip() if found else "a run without a request"


def facts_in(text: str) -> list[tuple[str, str, str]]:
    """Subject, object and sentence of each fact: how the request was begun, and which tool followed which."""
    tools = _CALL.findall(text)
    request = request_in(text)
    if not tools:
        return []
    facts = [(request, tools[0], f"{tools[0]} was called first when the user asked: {request}")]
    for before, after in dict.fromkeys(pairwise(tools)):
        if before != after:
            facts.append((before, after, f"{after} was called after {before}"))
    return facts[:MOST_FACTS]


def between(text: str, begin: str, end: str) -> str:
    """What stands between two marks, "" where the first is missing."""
    return text.partition(begin)[2].partition(end)[0]


# What each kind of question is answered with. mem0 asks one kind, Graphiti one for each of its schemas.


def memories(prompt: str) -> Json:
    text = between(prompt, "## New Messages", "## Observation Date")
    sentences = [sentence for *_, sentence in facts_in(text)] or [f"The user asked: {request_in(text)}"]
    found = [{"id": str(number), "text": sentence} for number, sentence in enumerate(sentences)]
    return {"memory": found}


def entities(prompt: str) -> Json:
    text = between(prompt, "<CURRENT MESSAGE>", "</CURRENT MESSAGE>")
    names = dict.fromkeys([request_in(text), *(name for fact in facts_in(text) for name in fact[:2])])
    return {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in names]}


def edges(prompt: str) -> Json:
    text = between(prompt, "<CURRENT_MESSAGE>", "</CURRENT_MESSAGE>")
    known = between(prompt, "<ENTITIES>", "</ENTITIES>")
    # The prompt wants this for what holds at the time. Without it each fact costs another question.
    now = between(prompt, "<REFERENCE_TIME>", "</REFERENCE_TIME>").split()[0]
    found: list[Json] = []
    for source, target, sentence in facts_in(text):
        if json.dumps(source, ensure_ascii=False) in known and json.dumps(target, ensure_ascii=False) in known:
            ends = {"source_entity_name": source, "target_entity_name": target}
            found.append({**ends, "relation_type": "FOLLOWED_BY", "fact": sentence, "valid_at": now})
    return {"edges": found}


def resolutions(prompt: str) -> Json:
    asked = json.loads(between(prompt, "<ENTITIES>", "</ENTITIES>"))
    existing = json.loads(between(prompt, "<EXISTING ENTITIES>", "</EXISTING ENTITIES>"))
    known = {one["name"].lower(): one["candidate_id"] for one in reversed(existing)}
    found = [
        {"id": one["id"], "name": one["name"], "duplicate_candidate_id": known.get(one["name"].lower(), -1)}
        for one in asked
    ]
    return {"entity_resolutions": found}


def duplicates(prompt: str) -> Json:
    existing = ast.literal_eval(between(prompt, "<EXISTING FACTS>", "</EXISTING FACTS>").strip() or "[]")
    new = between(prompt, "<NEW FACT>", "</NEW FACT>").strip()
    same = [one["idx"] for one in existing if one["fact"] == new]
    return {"duplicate_facts": same, "contradicted_facts": []}


def summaries(prompt: str) -> Json:
    names = dict.fromkeys(re.findall(r'"name": "((?:[^"\\]|\\.)*)"', prompt))
    found = [{"name": name, "summary": f"{name} was seen in recorded runs."} for name in names]
    return {"summaries": found}


ANSWERS: Final[dict[str, Callable[[str], Json]]] = {
    "": memories,
    "ExtractedEntities": entities,
    "ExtractedEdges": edges,
    "NodeResolutions": resolutions,
    "EdgeDuplicate": duplicates,
    "SummarizedEntities": summaries,
}


def chat(body: Json, counts: Counter[str]) -> Json:
    prompt = "\n".join(message["content"] for message in body["messages"])
    kind = body.get("response_format", {}).get("json_schema", {}).get("name", "")
    text = json.dumps(ANSWERS[kind](body["messages"][-1]["content"]), ensure_ascii=False)
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
    counts["model_calls"] += 1
    counts[f"model_calls:{kind or 'memories'}"] += 1
    counts["prompt_tokens"] += usage["prompt_tokens"]
    counts["completion_tokens"] += usage["completion_tokens"]
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage["total_tokens"] = sum(usage.values())
    about = {"id": "1", "object": "chat.completion", "created": 0, "model": "loopback"}
    return {**about, "choices": [choice], "usage": usage}


@cache
def _direction_D(word: str) -> np.ndarray:
    return np.random.default_rng(list(word.encode())).standard_normal(DIMENSIONS, dtype=np.float32)


def vector_D(text: str, size: int) -> np.ndarray:
    """A bag of words, each a random direction: texts that share words are near each other. Shape (size,), length 1."""
    words = re.findall(r"\w+", text.lower())[:500] or ["nothing"]
    total = np.sum([_direction_D(word) for word in words], axis=0)[:size]
    return (total / np.linalg.norm(total)).astype("<f4")


def embeddings(body: Json, counts: Counter[str]) -> Json:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [vector_D(text, body.get("dimensions") or DIMENSIONS) for text in texts]
    counts["embedding_calls"] += 1
    counts["embedding_tokens"] += sum(map(len, texts)) // 4
    packed = body.get("encoding_format") == "base64"
    written = [base64.b64encode(one.tobytes()).decode() if packed else one.tolist() for one in vectors]
    rows = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(written)]
    return {"object": "list", "data": rows, "model": "loopback", "usage": {"prompt_tokens": 0, "total_tokens": 0}}


async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: Counter[str]) -> None:
    """Answer the requests of one connection, one after the other."""
    try:
        while line := await reader.readline():
            _, path, _ = line.decode().split()
            length = 0
            while (header := await reader.readline()) not in (b"\r\n", b""):
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            body = json.loads(await reader.readexactly(length)) if length else {}
            if path == "/counts":
                answer = dict(counts)
                counts.clear()
            else:
                started = time.process_time_ns()
                answer = (chat if path.endswith("/chat/completions") else embeddings)(body, counts)
                counts["busy_us"] += (time.process_time_ns() - started) // 1000
                await asyncio.sleep(float(path.split("/")[1]))
            content = json.dumps(answer).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            # One write: headers in a packet of their own wait for the client's delayed acknowledgement, 40 ms.
            writer.write(head.encode() + content)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        pass  # the client was killed, or this server ends
    finally:
        writer.close()


async def main() -> None:
    counts = Counter[str]()
    serve = partial(serve_client, counts=counts)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
