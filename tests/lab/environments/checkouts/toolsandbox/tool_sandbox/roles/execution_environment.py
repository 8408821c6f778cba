"""A stand-in of hepm's own, not ToolSandbox: see ../../../README.md."""

from tool_sandbox.common.execution_context import RoleType, get_current_context
from tool_sandbox.common.message_conversion import Message
from tool_sandbox.roles.base_role import TOOLS, BaseRole


class ExecutionEnvironment(BaseRole):
    """Runs the code of the last message, and of system messages at the start."""

    role_type = RoleType.EXECUTION_ENVIRONMENT

    def respond(self, ending_index: int | None = None) -> None:
        context = get_current_context()
        asked = self.get_messages()[-1 if ending_index is None else ending_index]
        if asked.sender == RoleType.SYSTEM:
            context.ready = True
            return
        assert context.ready, "the tools were not imported"
        failed = None
        try:
            text = repr(eval(asked.content, dict(TOOLS)))
            context.trace.append(asked.content.partition("(")[0])
        except Exception as error:
            text = failed = f"{type(error).__name__}: {error}"
        about = {"tool_call_exception": failed, "conversation_active": context.active}
        self.add_messages([Message(RoleType.EXECUTION_ENVIRONMENT, asked.sender, text, **about)])
