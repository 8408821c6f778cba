"""A model that plays all parts of the papers' tables at the loopback, and takes more turns than the authors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hepm.lab.bench.models import tokens_of
from hepm.types import SUMMARY_TOOL
from tests.loopback import Reply, Request, completion
from tests.loopback.replies import example

TURNS: Final = 5
"""Calls or searches of a run, before it answers."""

_BY_FIELDS: Final = {
    "outcome": "experience",
    "principle": "principle",
    "action": "operator",
    "same": "matcher",
    "checks": "user",
    "message": "user",
    "correct": "judge",
    "items": "digest",
    "notes": "reflection",
}
"""Roles by a field of the form that an answer has."""


def role_of(request: Request) -> str:
    """What a request is for."""
    body = request.body
    form = (body.get("response_format") or {}).get("json_schema") or {}
    fields = (form.get("schema") or {}).get("properties", {})
    for name, role in _BY_FIELDS.items():
        if name in fields:
            return role
    if body["model"] == "customer":
        return "user"
    if "The tools below are experiences" in str(body["messages"][0]["content"]):
        return "choice"
    if body.get("tool_choice") == "none":
        return "summary"
    return form.get("name") or "agent"


def played(request: Request, *, content_after: int = 3) -> Reply:
    """An obliging answer, with a usage of seven tenths of our own count; users are content after so many replies."""
    reply = _answer(request, content_after)
    body: Any = reply.body
    text = json.dumps(body["choices"][0]["message"])
    sent, said = round(0.7 * tokens_of(request.body["messages"])), len(text) // 4
    body["usage"] |= {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
    return reply


def _answer(request: Request, content_after: int) -> Reply:
    body = request.body
    system, text = (str(body["messages"][number]["content"]) for number in (0, -1))
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    if schema:
        return completion(json.dumps(_formed(schema, text, content_after)))
    role = role_of(request)
    if role == "choice":
        return completion(None, tool_calls=[(body["tools"][0]["function"]["name"], {})])
    if role == "agent" and body.get("tools"):
        return _called(body)
    said = "yes. First look, then act."
    if role == "user":
        said = _said_by_user(body["messages"])
    elif role == "summary":
        said = "Yes" if "Yes" in text else "The customer waits; nothing was done yet."
    elif "<search_knowledge>" in system:
        said = _in_tags(body["messages"], system)
    elif "<answer>" in system:
        said = f"<think>{said}</think><answer>yes</answer>"
    return completion(said)


def _said_by_user(messages: Sequence[Mapping[str, Any]]) -> str:
    """Of a desk's customer, who ends after a second text, or of a user with a problem."""
    problem = re.search(r'The user: (.*)\n+The problem: "(.*)"', str(messages[-1]["content"]))
    if problem:
        return f"{problem[1]} needs help: {problem[2]}"
    return "STOP" if len(messages) > 2 else str(messages[0]["content"])


def _in_tags(messages: Sequence[Mapping[str, Any]], system: str) -> str:
    said = sum(message["role"] == "assistant" for message in messages)
    kind = "experience" if "<search_experience>" in system and said == 0 else "knowledge"
    if said < TURNS:
        return f"<think>Not yet.</think><search_{kind}>island {said}</search_{kind}>"
    return "<think>Enough.</think><answer>Canberra</answer>"


def _called(body: Mapping[str, Any]) -> Reply:
    called = sum(len(message.get("tool_calls") or ()) for message in body["messages"])
    tools = [tool["function"] for tool in body["tools"] if tool["function"]["name"] != SUMMARY_TOOL]
    if called == TURNS:
        return completion("Done.")
    tool = tools[called % len(tools)]
    return completion(None, tool_calls=[(tool["name"], example(tool["parameters"]))])


def _formed(schema: dict[str, Any], text: str, content_after: int) -> Any:
    """The plainest value of a form, in words of the question; a user enforces once."""
    value = example(schema)
    replies = text.count("\nagent:\n") - 1  # the greeting is none
    if "done" in value:
        done = replies >= content_after
        value |= {"message": "" if done else f"And then? {text[-40:]}", "draft": "42", "done": done}
    if "checks" in value:
        wanting = [1] if replies == 1 else []
        value["checks"] = [{"preference": one, "reason": "so", "violated": one in wanting} for one in (1, 2, 3)]
        value["enforced"] = wanting
    said = re.search(r'user said "(.*)"', text)
    words = said[1] if said else " ".join(text.split()[-20:])
    for name, part in value.items():
        if part == "text":
            value[name] = words
    return value
