"""A model that plays all parts of the papers' tables at the loopback endpoint, and takes more turns than the authors."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from hepm.lab.bench.models import tokens_of
from hepm.types import SUMMARY_TOOL
from tests.loopback import Reply, Request, completion
from tests.loopback.replies import example

TURNS: Final = 5
"""Calls or searches of a run, before it answers."""

_ROLES: Final = {
    "the record of an agent": "distiller",
    "You compare rules": "matcher",
    "failed at a task": "reflection",
    "You decide whether a draft": "judge",
    "You play a user": "user",
}
"""Words of system prompts by role; the others are found by the form of the request."""
_STEPS: Final = {
    "WrittenExperience": "experience",
    "WrittenPrinciple": "principle",
    "RewordedExperience": "operator",
    "Sameness": "matcher",
    "SimulatedTurn": "user",
    "PlainTurn": "user",
    "JudgedDraft": "judge",
    "RewrittenNotes": "reflection",
    "RelevantLines": "recall",
    "BankItems": "digest",
}
"""Roles by the name of the form that an answer has."""


def role_of(request: Request) -> str:
    """What a request is for."""
    body = request.body
    form = (body.get("response_format") or {}).get("json_schema") or {}
    title = form.get("name", "")
    properties = set((form.get("schema") or {}).get("properties", ()))
    for name, role in _BY_FIELDS.items():
        if name in properties:
            return role
    if body["model"] == "customer":
        return "user"
    if any(tool["function"]["name"].startswith("experience") for tool in body.get("tools", ())):
        return "choice"
    if body.get("tool_choice") == "none":
        return "summary"
    if title:
        return title
    return "agent"


_BY_FIELDS: Final = {
    "outcome": "experience",
    "principle": "principle",
    "action": "operator",
    "same": "matcher",
    "checks": "user",
    "message": "user",
    "correct": "judge",
    "items": "digest",
}


def played(request: Request) -> Reply:
    """An obliging answer, with a usage of seven tenths of our own count."""
    reply = _answer(request)
    body: Any = reply.body
    text = json.dumps(body["choices"][0]["message"])
    sent, said = round(0.7 * tokens_of(request.body["messages"])), len(text) // 4
    body["usage"] |= {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
    return reply


def _answer(request: Request) -> Reply:
    body = request.body
    messages = body["messages"]
    text = str(messages[-1]["content"])
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    if schema:
        return completion(json.dumps(_formed(schema, text)))
    tools = [tool["function"] for tool in body.get("tools", ())]
    if role_of(request) == "choice":
        return completion(None, tool_calls=[(tools[0]["name"], {})])
    if body["model"] == "customer":
        return completion("STOP" if len(messages) > 2 else str(messages[0]["content"]))
    if body.get("tool_choice") == "none":
        return completion("Yes" if "Yes" in text else "The customer waits; nothing was done yet.")
    if "<search_knowledge>" in str(messages[0]["content"]):
        said = sum(message["role"] == "assistant" for message in messages)
        kind = "experience" if "<search_experience>" in str(messages[0]["content"]) and said == 0 else "knowledge"
        if said < TURNS:
            return completion(f"<think>Not yet.</think><search_{kind}>island {said}</search_{kind}>")
        return completion("<think>Enough.</think><answer>Canberra</answer>")
    if tools:
        called = sum(len(message.get("tool_calls") or ()) for message in messages)
        names = [tool for tool in tools if tool["name"] != SUMMARY_TOOL]
        if called < TURNS:
            tool = names[called % len(names)]
            return completion(None, tool_calls=[(tool["name"], example(tool["parameters"]))])
        return completion("Done.")
    return completion("yes. First look, then act.")


def _formed(schema: dict[str, Any], text: str) -> Any:
    """The plainest value of a form, in words of the question; a user is content with the third reply."""
    value = example(schema)
    replies = len(re.findall(r"^agent:", text, re.MULTILINE | re.IGNORECASE)) or text.count("agent")
    if "done" in value:
        value |= {"message": "" if replies > 2 else "And then?", "draft": "42", "done": replies > 2}
    if "checks" in value:
        value["checks"] = [{"preference": number, "reason": "kept", "violated": False} for number in (1, 2, 3)]
        value["enforced"] = []
    words = text.split()
    for name, part in value.items():
        if part == "text":
            value[name] = " ".join(words[len(words) // 2 :][:20])
    return value
