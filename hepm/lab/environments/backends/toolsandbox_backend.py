"""ToolSandbox in its authors' checkout: their scenarios, databases, tools, milestones and simulated user."""

from __future__ import annotations

import copy
import datetime
import importlib
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

Object = dict[str, Any]

# The scenarios are set from now on: the clock stands still before they are made, so that runs are equal on any day.
importlib.import_module("time_machine").travel(
    datetime.datetime(2024, 8, 1, 12, tzinfo=datetime.UTC), tick=False
).start()
_context = importlib.import_module("tool_sandbox.common.execution_context")
_messages = importlib.import_module("tool_sandbox.common.message_conversion")
_convert = importlib.import_module("tool_sandbox.common.tool_conversion").convert_to_openai_tools
_execution = importlib.import_module("tool_sandbox.roles.execution_environment")
_base = importlib.import_module("tool_sandbox.roles.base_role")
_user = importlib.import_module("tool_sandbox.roles.openai_api_user")
Role: Any = _context.RoleType
Database: Any = _context.DatabaseNamespace

ask: Any = None
"""Asks the model that plays the user: `serve.py` sets it."""
_ONLINE = {
    "search_lat_lon", "search_location_around_lat_lon", "search_weather_around_lat_lon", "search_stock",
    "convert_currency",
}  # fmt: skip
"""Tools that ask a paid service."""
_VARIANT = re.compile(r"_(?:all|\d+_distraction)_tools.*")


class _Agent(_base.BaseRole):
    """The agent, whose messages hepm gives."""

    role_type = Role.AGENT


class _PlayedUser(_user.OpenAIAPIUser):
    """The authors' user, whose model hepm asks."""

    def __init__(self) -> None: ...

    def model_inference(self, openai_messages: list[Any], openai_tools: Any) -> Any:
        body: Object = {"messages": openai_messages}
        if isinstance(openai_tools, list):  # else OpenAI's mark for "not given"
            body["tools"] = openai_tools
        message = ask(body)["choices"][0]["message"]
        calls = [_tool_call(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
        reply = SimpleNamespace(content=message.get("content") or "", tool_calls=calls or None)
        return SimpleNamespace(choices=[SimpleNamespace(message=reply)])


def _tool_call(id: str, function: Object) -> Any:
    """A call as the authors' code reads it; they make a variable of its id."""
    return SimpleNamespace(id=re.sub(r"\W", "_", f"id_{id}"), function=SimpleNamespace(**function))


@cache
def _scenarios() -> Object:
    """Those whose own tools need no paid service, by name."""
    random.seed(0)  # the order of tools is shuffled
    backend = importlib.import_module("tool_sandbox.common.tool_discovery").ToolBackend.DEFAULT
    made = importlib.import_module("tool_sandbox.scenarios").named_scenarios(backend)
    offline: Object = {}
    for name, scenario in made.items():
        # By the original: variants that only offer a tool of a paid service as a distraction do not need it.
        original = made[_VARIANT.sub("", name)]
        if not set(original.starting_context.tool_allow_list) & _ONLINE:
            offline[name] = scenario
    return offline


def tasks(part: str) -> Iterator[Object]:
    """The scenarios; a model plays the user of all."""
    del part
    for name, scenario in _scenarios().items():
        context = scenario.starting_context
        family = _VARIANT.sub("", name)
        yield {
            "id": name,
            "request": _texts(context, Role.USER, Role.AGENT)[-1],
            "system": "\n".join(_texts(context, Role.SYSTEM, Role.AGENT)),
            "family": family,
            # A fifth is tested, about 200 of 1,032 scenarios as in H-EPM 5.1, which says no more; variants as one.
            "split": "test" if random.Random(f"0 {family}").random() < 0.2 else "train",
        }


def _texts(context: Any, sender: Any, recipient: Any) -> list[str]:
    """Texts of one role to another, without the examples that only the user's model sees."""
    return [
        row["content"]
        for row in context.get_database(Database.SANDBOX, get_all_history_snapshots=True).to_dicts()
        if row["sender"] == sender and row["recipient"] == recipient and row["visible_to"] != [Role.USER]
    ]


class ToolSandboxEpisode:
    """A run: the context of a scenario, which the authors' roles read and write."""

    def __init__(self, part: str, task: str, seed: int) -> None:
        del part, seed  # the seed is sent to the model that plays the user, by hepm
        self._scenario = scenario = _scenarios()[task]
        self._calls = 0
        self._user = _PlayedUser()
        self._context = copy.deepcopy(scenario.starting_context)
        _context.set_current_context(self._context)
        self._environment = _execution.ExecutionEnvironment()
        for row in self._context.get_database(
            Database.SANDBOX, drop_sandbox_message_index=False, get_all_history_snapshots=True
        ).to_dicts():
            if row["sender"] == Role.SYSTEM and row["recipient"] == Role.EXECUTION_ENVIRONMENT:
                self._environment.respond(ending_index=row["sandbox_message_index"])

    def tools(self) -> list[Object]:
        """Those that the scenario allows the agent."""
        return [tool["function"] for tool in _convert(_Agent.get_available_tools())]

    def call(self, tool: str, arguments: Object) -> tuple[str, bool]:
        """Run a call in the authors' execution environment."""
        self._calls += 1
        known = set(_Agent.get_available_tools())
        made = _tool_call(str(self._calls), {"name": tool, "arguments": json.dumps(arguments)})
        code = _messages.openai_tool_call_to_python_code(
            made, known, execution_facing_tool_name=self._context.get_execution_facing_tool_name(tool)
        )
        self._say(Role.EXECUTION_ENVIRONMENT, code, openai_tool_call_id=made.id, openai_function_name=tool)
        self._environment.respond()
        result = self._last()
        return result.content, result.tool_call_exception is not None

    def _say(self, recipient: Any, text: str, **about: Any) -> None:
        _Agent.add_messages([_messages.Message(sender=Role.AGENT, recipient=recipient, content=text, **about)])

    def _last(self) -> Any:
        return _Agent.get_messages()[-1]

    def answer(self, text: str) -> str | None:
        """What the played user says, who may call tools before."""
        self._say(Role.USER, text)
        while self._last().recipient != Role.AGENT:
            if self._last().recipient == Role.EXECUTION_ENVIRONMENT:
                self._environment.respond()
                if not self._last().conversation_active:
                    return None
            else:
                self._user.respond()
        return self._last().content

    def reward(self) -> float:
        """The mean similarity of milestones, 0 if a minefield was touched."""
        judged = self._scenario.evaluation.evaluate(
            execution_context=self._context, max_turn_count=self._scenario.max_messages
        )
        return float(judged.similarity)


start = ToolSandboxEpisode
