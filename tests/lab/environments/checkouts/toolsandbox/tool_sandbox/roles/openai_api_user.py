"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from typing import Any

from tool_sandbox.common.execution_context import RoleType
from tool_sandbox.common.message_conversion import Message, openai_tool_call_to_python_code
from tool_sandbox.common.tool_conversion import convert_to_openai_tools
from tool_sandbox.roles.base_role import BaseRole


class OpenAIAPIUser(BaseRole):
    """A user whose texts a model gives."""

    role_type = RoleType.USER

    def respond(self) -> None:
        said = [
            {"role": "user", "content": one.content} for one in self.get_messages() if one.recipient == RoleType.USER
        ]
        tools = self.get_available_tools()
        message = (
            self.model_inference(openai_messages=said, openai_tools=convert_to_openai_tools(tools)).choices[0].message
        )
        if message.tool_calls is None:
            self.add_messages([Message(RoleType.USER, RoleType.AGENT, message.content)])
        for call in message.tool_calls or ():
            code = openai_tool_call_to_python_code(call, set(tools), execution_facing_tool_name=None)
            self.add_messages([Message(RoleType.USER, RoleType.EXECUTION_ENVIRONMENT, code)])

    def model_inference(self, openai_messages: list[Any], openai_tools: Any) -> Any:
        raise NotImplementedError
