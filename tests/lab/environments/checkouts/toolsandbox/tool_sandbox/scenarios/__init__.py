"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from __future__ import annotations

import json
from typing import Any

from tool_sandbox.common.evaluation import Evaluation, SnapshotConstraint
from tool_sandbox.common.execution_context import DatabaseNamespace, ExecutionContext, RoleType, ScenarioCategories
from tool_sandbox.common.scenario import Frame, Scenario


def _scenario(
    request: str, *wanted: dict[str, Any], tools: list[str], single: bool, scrambled: bool = False
) -> Scenario:
    roles = RoleType.SYSTEM, RoleType.USER, RoleType.AGENT, RoleType.EXECUTION_ENVIRONMENT
    system, user, agent, execution = roles
    sent = [
        (system, execution, "import tools", None), (system, agent, "Ask if in doubt.", None),
        (user, agent, "An example that the agent never sees.", [user]), (user, agent, request, None),
    ]  # fmt: skip
    messages = [{"sender": s, "recipient": r, "content": text, "visible_to": v} for s, r, text, v in sent]
    names = {tool: f"{tool[0]}_1" for tool in tools} if scrambled else {}
    place = {True: DatabaseNamespace.SETTING, False: DatabaseNamespace.SANDBOX}
    kind = ScenarioCategories.SINGLE_USER_TURN if single else ScenarioCategories.MULTIPLE_USER_TURN
    return Scenario(
        ExecutionContext(messages, [*tools, "end_conversation"], names),
        Evaluation(*(SnapshotConstraint(place["wifi" in row], Frame([row])) for row in wanted)),
        [kind, *([ScenarioCategories.TOOL_NAME_SCRAMBLED] if scrambled else [])],
    )


def named_scenarios(backend: Any) -> dict[str, Scenario]:
    """Four scenarios and one that would need a paid service."""
    assert backend
    told = {"sender": RoleType.AGENT, "recipient": RoleType.USER}
    on, done = {"wifi": True}, {**told, "content": "Wifi is on"}
    looked = {"tool_trace": json.dumps({"tool_name": "get_wifi_status", "arguments": {}})}
    off = {**told, "content": "Wifi is off"}
    switch, look = ["set_wifi_status"], ["get_wifi_status"]
    return {
        "wifi_on": _scenario("Turn on wifi", on, done, tools=switch, single=True),
        "wifi_on_3_distraction_tools": _scenario("Turn on wifi", on, done, tools=switch + look, single=True),
        "wifi_on_3_distraction_tools_tool_name_scrambled": _scenario(
            "Turn on wifi", on, done, tools=switch, single=True, scrambled=True
        ),
        "get_wifi": _scenario("Is my wifi on?", looked, off, tools=look, single=True),
        "wifi_talk": _scenario("My phone does not work", on, tools=switch, single=False),
        "find_stock": _scenario("How is the stock?", done, tools=["search_stock"], single=True),
    }
