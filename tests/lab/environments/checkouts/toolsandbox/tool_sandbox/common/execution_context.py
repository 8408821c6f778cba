"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from tool_sandbox.common.scenario import Frame


class RoleType(StrEnum):
    SYSTEM = "system"
    USER = "user"
    AGENT = "agent"
    EXECUTION_ENVIRONMENT = "execution"


class DatabaseNamespace(StrEnum):
    SANDBOX = "sandbox"
    SETTING = "setting"


class ScenarioCategories(StrEnum):
    SINGLE_USER_TURN = "single"
    MULTIPLE_USER_TURN = "multiple"
    TOOL_NAME_SCRAMBLED = "scrambled"


class ExecutionContext:
    """The messages and the settings of a run, and its tools."""

    def __init__(self, messages: list[dict[str, Any]], tools: list[str], scrambled: dict[str, str]) -> None:
        self.messages, self.tool_allow_list, self.scrambled = messages, tools, scrambled
        self.setting, self.active, self.trace = {"wifi": False}, True, list[str]()

    def get_database(self, namespace: Any, **about: bool) -> Frame:
        if namespace == DatabaseNamespace.SETTING:
            return Frame([self.setting])
        number = not about.get("drop_sandbox_message_index", True)
        return Frame(
            [{**row, **({"sandbox_message_index": at} if number else {})} for at, row in enumerate(self.messages)]
        )

    def get_execution_facing_tool_name(self, name: str) -> str:
        return {shown: real for real, shown in self.scrambled.items()}.get(name, name)


_current: list[ExecutionContext] = []


def set_current_context(context: ExecutionContext) -> None:
    _current[:] = [context]


def get_current_context() -> ExecutionContext:
    return _current[0]
