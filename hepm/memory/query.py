"""From what a caller knows of a run to the query that a policy answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hepm.graph.tool_life import ToolNames
from hepm.ingest.facts import facts_of_message
from hepm.policy import Query
from hepm.types import SAID, SAID_LAST, START, USER, Facts, LastTools, StateSummary, ToolName, normal

if TYPE_CHECKING:
    from hepm.embed.embedder import Float32Array
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror


def query_of(
    mirror: NamespaceMirror,
    after: LastTools,
    history: Sequence[ToolName],
    state: StateSummary | None,
    available: Sequence[ToolName] | None,
    *,
    embed: Callable[[list[str]], Float32Array] | None,
    k: int,
) -> Query:
    """The query of one suggestion, with tools by the names that the memory has them under.

    Args:
        available: Names of the agent's tools; None for all.
        embed: Vectors of texts, shape (N, D); None where the policy compares no texts.
    """
    if isinstance(after, str):
        last = (after,)
    else:
        # A list is one turn with parallel calls; without any call the run begins.
        last = tuple(after or history[-1:]) or (START,)
    names = ToolNames.of(mirror.marks, map(normal, (*history, *last)), available or ())
    last = tuple(map(names.own, last))
    past = tuple(map(names.own, history))
    if state is not None and names.aliases:
        facts = {names.own(source): of_source for source, of_source in state.facts.items()}
        state = replace(state, tools=tuple(map(names.own, state.tools)), facts=facts)

    if state is not None and not state.facts.keys() - {USER}:
        state = replace(state, facts={**state.facts, **_facts_of_text(state)})
    vector = None
    if embed is not None and state is not None and state.text.strip():
        (vector,) = embed([state.text])

    # Callers may give the last turn alone, or leave it out of the history.
    called = tuple(tool for tool in last if tool != START)
    if set(past[len(past) - len(called) :]) != set(called):
        past += called
    tools = None
    if available is not None:
        # "cancel" may be the memory's name of what this agent has as "cancel_order".
        tools = names.offered
        # With what is called through them: "execute-tool weather/forecast" for "execute-tool".
        inner = [tool for tool in mirror.called() if " " in tool and tool.partition(" ")[0] in tools]
        tools = tools.union(inner)
    return Query(
        after=last,
        history=past,
        state=state,
        vector=vector,
        tools=tools,
        k=k,
        names=names,
    )


def _facts_of_text(state: StateSummary) -> Facts:
    """What a state says that was given as text: the agent's own summary, or what the user wrote."""
    texts = (state.own,) if state.own else state.said
    said: dict[str, float] = {}
    last: Mapping[str, float] = {}
    for text in texts:
        last = facts_of_message(text)
        said |= last
    return {SAID: said, SAID_LAST: last} if texts else {}
