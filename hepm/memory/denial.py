"""Whether a call is to be denied: one that failed in nearly all like situations, where another worked.

What decides are the warnings of the default policy (`hepm.types.FailedWay.nearly_always`), at a place whose failures
more than one source reports. Ours; not in the papers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hepm.graph.delta import Names
from hepm.ingest.inner_tools import called_name
from hepm.ingest.transitions import AgentState
from hepm.text import tool_in_prompt
from hepm.types import DENIED, Arguments, FailedWay, ToolName, Turn

if TYPE_CHECKING:
    from hepm.memory.memory import Memory


class Denial(NamedTuple):
    """Why a call does not run.

    Attributes:
        way: What came of it, and of the alternative.
        calls: How many calls the run had made.
    """

    way: FailedWay
    calls: int

    @property
    def text(self) -> str:
        """What the agent reads instead of a result."""
        runs = map(tool_in_prompt, self.way.worked_runs[:3])
        instead = tool_in_prompt(self.way.instead)
        return (
            f"{DENIED}{self.way.named} ({', '.join(runs)}). The call did not run. Call {instead} instead, unless "
            "something here is different: the same call is not denied again."
        )


def denial_of(
    memory: Memory,
    turns: Sequence[Turn],
    tool: ToolName,
    arguments: Arguments,
    *,
    tools: Iterable[object] | None,
    user: str,
    namespace: str,
) -> Denial | None:
    """The denial of a call that is about to be made, or that is the last turn's and has no result yet; None if it runs.

    At most one in a run at one place, by the tools called last.

    Args:
        tools, user: As for `Memory.suggest`.
    """
    tool = called_name(tool, arguments)
    now = AgentState()
    places = set[Names]()
    for turn in turns:
        if any(call.denied for call in turn.calls):
            places.add(now.last)
        waits = [call for call in turn.ran if call.name == tool and call.result is None and call.error is None]
        if turn is turns[-1] and waits:
            break
        now.add(turn)
    if now.last in places:
        return None
    found = memory.suggest(
        now.last, history=now.history, state=now.state(), tools=tools, user=user, namespace=namespace
    )
    if not found:
        return None
    for way in found.warnings:
        failed = way.tool == tool and way.nearly_always
        worked = way.instead == found[0].tool and way.worked_runs
        if failed and worked and not _one_source(memory, way, namespace):
            return Denial(way, len(now.history))
    return None


def _one_source(memory: Memory, way: FailedWay, namespace: str) -> bool:
    """Whether the runs of one token alone failed, where several record: no token decides what others may do."""
    runs = memory.evidence(namespace).latest().requests.run_ids
    tokens = memory.store.tokens_of(runs, namespace=namespace)
    reporting = {tokens.get(run, "") for run in way.failed_runs}
    return len(reporting) == 1 and reporting != {""} and len(set(tokens.values())) > 1
