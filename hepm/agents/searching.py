"""An agent with tools that searches memory by a tool: EvolveR's search of principles without its action format.

Beside `hepm.agents.tagged.TaggedAgent`, with search and without, it tells what memory brings from what tags do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hepm.agents.loop import Agent, Conversation, LoopStep, Strategy
from hepm.agents.tagged import NO_FLOOR, NO_PRINCIPLE, principles_text
from hepm.agents.toolbox import Toolbox
from hepm.agents.wire import Object

_SEARCH: Final = "search_experience"


def search_experience(query: str) -> str:
    """Search the principles that earlier runs taught, by what you want to know: what led to success or failed."""
    return query  # the conversation answers it, as it knows the session


@dataclass(frozen=True, kw_only=True)
class SearchingAgent(Agent):
    """An `Agent` that has `search_experience` among its tools, and is shown nothing else of memory.

    A search gives three principles (k_e, EvolveR, A.2), which are credited with the outcome of the run.
    """

    strategy: Strategy = "off"

    @property
    def conversation(self) -> type[Conversation]:
        """What a run is made by."""
        return _SearchingConversation

    def toolbox(self) -> Toolbox:
        """The tools that can be called now, and the search."""
        tools = self.tools() if callable(self.tools) else self.tools
        return Toolbox([*tools, search_experience], self.execute)


class _SearchingConversation(Conversation):
    def _step(self) -> tuple[str, list[Object]]:
        text, calls = super()._step()
        if not text and any(call["function"]["name"] == _SEARCH for call in calls):
            with self.metered():
                self.session.say("assistant", "")  # the turn that the principles are noted in
        return text, calls

    def _call(self, id: str, function: Object, *, together: bool) -> None:
        if function["name"] != _SEARCH:
            return super()._call(id, function, together=together)
        arguments, result, failed = self.tools.call(_SEARCH, function["arguments"])
        with self.metered():
            if not failed:
                principles = self.session.search_principles(result, floor=NO_FLOOR)
                shown = principles_text(principles, self.agent.prompt_options)
                self.steps[-1] = LoopStep(shown)
                result = shown or NO_PRINCIPLE
            self.session.record(_SEARCH, arguments, result, error=failed, together=together)
        # Our own words, with their frame: only what others wrote is disarmed.
        self.messages.append({"role": "tool", "tool_call_id": id, "content": result})
        return None
