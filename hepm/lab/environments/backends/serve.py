"""The process in which an environment's package runs: `python serve.py BACKEND`, one JSON request and one reply a line.

Runs in a virtual environment of its own, without hepm. BACKEND is a module of this folder with `tasks(part)` and
`start(part, task, seed)`, whose episodes have the methods of `hepm.lab.environments.Episode` (those of `_DEFAULTS` if
they like); `call`, of a tool of `tools`, returns the text and whether the call failed. Its variable `ask` is made an
`Asker`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any, TextIO

_DEFAULTS = {"scores": dict, "close": lambda: None}
"""What is done where an episode has no such method: it judges nothing besides the reward, and holds nothing."""


class Asker:
    """Asks a model through hepm, which keeps its answers and the budget: {"ask": BODY}, by {"answer": COMPLETION}."""

    def __init__(self, requests: TextIO, replies: TextIO) -> None:
        self._requests = requests
        self._replies = replies

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        """The chat completion for the body of a request; RuntimeError if there is none."""
        self._replies.write(json.dumps({"ask": body}) + "\n")
        self._replies.flush()
        reply = json.loads(self._requests.readline() or '{"refused": "hepm ended"}')
        if "refused" in reply:
            raise RuntimeError(reply["refused"])
        return reply["answer"]

    def text(self, messages: list[Any], **options: Any) -> str:
        """What the model says to these messages."""
        return self({"messages": messages, **options})["choices"][0]["message"].get("content") or ""


def written(tool: str, arguments: dict[str, Any]) -> str:
    """A call as Python text, for packages that evaluate it; "" if the name of an argument is none, as nothing else of
    an agent may be evaluated."""
    if not all(name.isidentifier() for name in arguments):
        return ""
    return f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def forget(module: Any, prefix: str) -> None:
    """Remove the objects of a run, which some packages keep as globals of a module."""
    for name in dir(module):
        if name.startswith(prefix):
            delattr(module, name)


def main() -> None:
    """Answer {"do": METHOD, "with": [ARGUMENT, ...]} by {"value": ...} or {"broke": WHY} until the input ends."""
    # A copy of the standard output; the original then goes to the standard error.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package prints must not end up among the replies
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    backend = importlib.import_module(sys.argv[1])
    episode: Any = None
    backend.__dict__["ask"] = Asker(requests, replies)
    for line in requests:
        request = json.loads(line)
        try:
            # While an episode runs, requests are its methods; before it, the functions of the backend.
            method: Any = getattr(episode or backend, request["do"], _DEFAULTS.get(request["do"]))
            value: Any = method(*request["with"])
            if request["do"] == "tasks":
                value = list(value)
            elif request["do"] == "start":
                episode, value = value, None
            elif request["do"] == "close":
                episode = None
            reply = {"value": value}
        except Exception as error:
            traceback.print_exc()
            reply = {"broke": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply, default=str) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
