"""What an agent reads instead of a result where its call never ran: programs write it as if the tool had failed."""

from __future__ import annotations

import re
from typing import Final

from hepm.types import DENIED

_WHO: Final = r"(?:the )?(?:user|human|operator)"
_NOT_RUN: Final = r"(?:rejected|refused|denied|declined|cancell?ed|aborted|interrupted|skipped|not approved)"
# "The order was cancelled by the user" is a result of a shop: only what a client calls a call is meant.
_CALL: Final = (
    r"(?:(?:this |the |your )?(?:(?:specific )?tool(?: use| call| execution)?|mcp tool call|(?:exec |shell )?command"
    r"|patch|(?:file )?edit|execution|operation|action)\b)"
)
_REFUSALS: Final = re.compile(
    "|".join((
        re.escape(DENIED.strip()),
        # Claude Code
        rf"{_WHO} doesn.t want to (?:proceed with|take) this",
        r"\[request interrupted by user",
        r"permission to use .{1,300}? (?:has been|was) denied",
        r"permission for this (?:action|command|tool use) (?:has been|was) denied",
        r"claude requested permissions? to .{1,400}?, but you haven.t granted",
        r"\w+ is in a directory that is denied by your permission settings",
        r"(?:pretooluse|permissionrequest)(?::\S+)? hook (?:error|blocked|denied|stopped)",
        r"(?:execution |operation )?(?:stopped|blocked|denied) by (?:a |the )?(?:pretooluse |permissionrequest )?hook",
        r"cancelled: parallel tool call",
        # Codex, Gemini CLI, opencode, LangChain, OpenAI Agents, pydantic-ai, Vercel and others, in their many wordings
        r"aborted(?: by user\b.*)?\s*(?:<|\Z)",
        r"\[operation cancelled\]",
        rf"{_WHO} (?:has |have )?(?:{_NOT_RUN}|did not (?:allow|approve)|chose to skip) "
        rf"(?:(?:permission )?to (?:use|run) )?{_CALL}",
        rf"{_WHO} has specified a rule which prevents",
        rf"{_CALL}(?: .{{0,200}}?)? (?:was |were |has been )?{_NOT_RUN} by (?:the )?"
        r"(?:user|human|operator|permission|policy|hook|approval)",
        r"rejected by user",
        r"(?:the )?tool (?:call|execution|use) (?:was |has been )?(?:denied|rejected|not approved|declined|refused)\b",
    )),
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip


def is_refusal(text: str) -> bool:
    """Whether a result says that its call was refused, cancelled, interrupted or blocked."""
    # It stands at the start of a result; the rest may quote one.
    said = re.sub(r"(?i)^(?:\s|<\w+>|(?:tool )?error:)*", "", text[:600])
    return _REFUSALS.match(said) is not None
