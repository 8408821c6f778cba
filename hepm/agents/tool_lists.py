"""Shortened lists of tools in the proxy's requests, and the answers to `more_tools`, which the client never sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hepm.agents.live_run import LiveRun
from hepm.agents.replies import Api, Reply, after_denial
from hepm.agents.runs import LiveRuns
from hepm.agents.wire import messages_of, name_of, objects, text_of
from hepm.errors import InputError
from hepm.memory.shortlist import MORE_TOOLS, described, more_tools, needed_here
from hepm.types import Object, Objects

ROUNDS: Final = 3
"""Calls of `more_tools` in a row that are answered; after them a request goes out with all tools."""


@dataclass(frozen=True)
class ToolLists:
    """The lists of tools in requests.

    `_k` is how many tools the words of a request choose (see `hepm.Memory.shortlist`); 0 leaves all lists whole.
    """

    _runs: LiveRuns
    _k: int

    def shorten(self, api: Api, run: LiveRun, body: Object) -> Object:
        """A request with the tools of the run's list and `more_tools`; `body` itself where all are sent."""
        if not self._k or api == "gemini":
            return body
        tools = objects(body.get("tools"))
        names = list(map(name_of, tools))
        if MORE_TOOLS in names:
            return body
        choice = body.get("tool_choice")
        with run.lock:  # the record of a reply may take names out meanwhile
            if run.unlisted is None:
                try:
                    chosen = self._runs.memory.shortlist(
                        messages_of(api, body), tools, k=self._k, tool_choice=choice, namespace=run.namespace
                    )
                except InputError:  # what is no tool for hepm may be one for the endpoint
                    return body
                run.unlisted = set(chosen.left_out)
                run.sends_all = bool(chosen.off) or run.session.is_control or run.session.is_shadow
            elif run.unlisted:
                run.unlisted -= needed_here(run.session.so_far.turns, run.unlisted, choice).keys()
            if run.sends_all or body.get("stream") or run.unlisted.isdisjoint(names):
                return body
            return {**body, "tools": self._shortened(api, run, tools)}

    def answer(self, api: Api, run: LiveRun, tools: Sequence[Object], sent: Object, reply: Reply, place: int) -> Object:
        """The request that answers a reply's call of `more_tools`.

        Args:
            tools: All of the client's.
            sent: The request as it went out.
            place: Which call of the reply this is, from 0.
        """
        query = text_of(reply.calls[place].arguments.get("query"))
        with run.lock:
            after = after_denial(api, sent, reply, place, self._found(run, tools, query))
            return {**after, "tools": self._shortened(api, run, tools)}

    def _found(self, run: LiveRun, tools: Sequence[Object], query: str) -> str:
        """The tools that fit a query, which are in the run's list from now on; for an empty one the names of all."""
        run.missed = True
        unlisted = run.unlisted or set()
        if not query.strip():
            return "\n".join(name for name in map(name_of, tools) if name in unlisted)
        # Among all tools, whose index is known.
        ranked = self._runs.memory.shortlists.find(query, tools, k=len(tools), namespace=run.namespace)
        found = [one for one in ranked if one.name in unlisted][:10]
        run.unlisted = unlisted.difference([one.name for one in found])
        return described(found)

    def _shortened(self, api: Api, run: LiveRun, tools: Sequence[Object]) -> Objects:
        """The client's tools in the run's list, and `more_tools`."""
        listed: Objects = []
        own = _own_tool(api)
        for tool in tools:
            if name_of(tool) not in (run.unlisted or ()):
                listed.append(tool)
            elif "cache_control" in tool:  # of Anthropic: all up to here is cached
                own = {**own, "cache_control": tool["cache_control"]}
        return [*listed, own]


def _own_tool(api: Api) -> Object:
    tool = more_tools()
    if api == "chat":
        return tool
    inner: Any = tool["function"]
    if api == "messages":
        return {"name": inner["name"], "description": inner["description"], "input_schema": inner["parameters"]}
    return {"type": "function", **inner}
