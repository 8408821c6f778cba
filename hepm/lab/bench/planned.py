"""GNN4Plan on the tool graph of a memory (H-EPM table 4 C ii; Wu et al. 2024, arXiv:2405.19119): plan, compare, walk.

A model writes the steps of a plan. Each step takes the tool whose text is most like it among those that follow the tool
of the step before. Tools' texts are smoothed along the graph, without training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.embed import Embedder
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import Float32Array
from hepm.llm import Question, prompt_of
from hepm.policy.query import Query
from hepm.rank.calls import unit
from hepm.rank.situations import tool_vectors
from hepm.types import START, Suggestion, Suggestions, ToolName

# Steps of a plan; longer ones are cut.
MOST_STEPS: Final = 12
# "1. ", "Step 3: ", "- ".
_NUMBER: Final = re.compile(r"^\W*(?:step\s*)?\d*\W*", re.IGNORECASE)


def plan_of(task: str, request: str, system: str) -> Question[str]:
    """What a model is asked for the steps of a task, in our own words."""
    plan = (
        f"Split the user's request into the steps that solve it, at most {MOST_STEPS}, in order. Write one step a "
        "line, in a few words that say what is done. Do not name tools."
    )
    return Question("plan", task, prompt_of(f"{system}\n\n{plan}".strip(), request), str)


def steps_in(plan: str) -> list[str]:
    """The steps of a plan, one a line, without numbers and bullets."""
    lines = [_NUMBER.sub("", line).strip() for line in plan.splitlines()]
    return [line for line in lines if line][:MOST_STEPS]


def walked(scores_ST: Float32Array, follows: Mapping[int, Sequence[int]]) -> list[int]:
    """The tools of a plan's steps: the best one of all, then of those that follow the one before (all if none does).

    Args:
        scores_ST: Of each tool for each step, shape (S, T); of equal ones the first is taken.
        follows: The numbers of the tools that follow each.
    """
    path: list[int] = []
    for scores_T in scores_ST:
        candidates: Sequence[int] = ()
        if path:
            candidates = follows.get(path[-1], ())
        among = np.array(sorted(candidates or range(len(scores_T))), dtype=np.intp)
        path.append(int(among[np.argmax(scores_T[among])]))
    return path


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """The tools of a plan, in order, as a policy: those that were not reached yet."""

    path: tuple[ToolName, ...]

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """The next k tools of the path behind the calls so far; other calls may lie between."""
        del mirror
        # Matched in order: a call that the plan does not have next is passed over.
        reached = 0
        for tool in query.history:
            if reached < len(self.path) and tool == self.path[reached]:
                reached += 1
        ahead = [tool for tool in dict.fromkeys(self.path[reached:]) if query.allows(tool)]
        suggestions = [Suggestion(tool, 1.0, 0, 0.0, None, "plan") for tool in ahead[: query.k]]
        if not suggestions:
            return Suggestions(abstained="the plan is at its end")
        return Suggestions(tuple(suggestions))


def smoothed(vectors_TD: Float32Array, ends_2E: NDArray[np.int64], *, alpha: float = 0.5) -> Float32Array:
    """Vectors of tools with those of their neighbours in either direction, unit length, shape (T, D).

    As in SGC (Wu et al. 2019, arXiv:1902.07153), x' = α · x + (1 − α) · mean of its neighbours; a tool without
    neighbours keeps its own vector.

    Args:
        ends_2E: Numbers of the two tools of each edge.
        alpha: The weight of a tool's own vector, beside that of its neighbours; with 1 the graph smooths nothing.
    """
    sums_TD, count_T = np.zeros_like(vectors_TD), np.zeros(len(vectors_TD), dtype=np.float32)
    for ends, neighbours in (ends_2E, ends_2E[::-1]):  # along the edges, then against them
        np.add.at(sums_TD, ends, vectors_TD[neighbours])
        count_T += np.bincount(ends, minlength=len(vectors_TD))
    mean_TD = np.where(count_T[:, None] > 0, sums_TD / np.maximum(count_T, 1)[:, None], vectors_TD)
    return unit((alpha * vectors_TD + (1 - alpha) * mean_TD).astype(np.float32))


class PlanGraph:
    """The tool graph of a memory with a vector for each tool, on which plans are walked."""

    def __init__(self, mirror: NamespaceMirror, embedder: Embedder) -> None:
        self.names = sorted(mirror.called() - {START})
        number_of = {name: number for number, name in enumerate(self.names)}
        self.follows: dict[int, list[int]] = {}
        for source in sorted(mirror.all_rows()):
            if source in number_of:  # START is none of the tools
                self.follows[number_of[source]] = [
                    number_of[edge.tool] for edge in mirror.successors(source) if edge.support
                ]
        self._embedder = embedder
        vectors_TD = tool_vectors(self.names, mirror.store.tools(namespace=mirror.name), embedder)
        pairs = [(source, target) for source, targets in self.follows.items() for target in targets]
        self._tools_TD = smoothed(vectors_TD, np.array(pairs, dtype=np.int64).reshape(-1, 2).T)

    def path(self, steps: Sequence[str]) -> PlannedPath:
        """The tools for the steps of a plan."""
        if not (steps and self.names):
            return PlannedPath(())
        path = walked(self._embedder.embed(list(steps)) @ self._tools_TD.T, self.follows)
        return PlannedPath(tuple(self.names[number] for number in path))
