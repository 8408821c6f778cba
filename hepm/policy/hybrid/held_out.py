"""What the hybrid policy would have said at calls of the past, in a memory that lacks some runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import IN_TURN, CallMatrix
from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE, words_of
from hepm.policy.hybrid.chance import HeldOutHint, HonestChance
from hepm.policy.hybrid.evidence import WeighedTools
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.known_facts import known_before
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.types import StateSummary


def measured(fitted: FittedMemory) -> HonestChance:
    """The honest chances of a memory."""
    return HonestChance.measure(fitted.calls, fitted.families, ask, usual=fitted.nearest_runs.usual())


def ask(left: CallMatrix, calls: CallMatrix, rows: NDArray[np.intp]) -> list[HeldOutHint | None]:
    """The first tool that would have been named at some calls, and whether it was called; None where none would."""
    fitted = FittedMemory(left)
    return [_ask(fitted, calls, row) for row in rows.tolist()]


def _ask(fitted: FittedMemory, calls: CallMatrix, row: int) -> HeldOutHint | None:
    encoded = encoded_call(fitted, calls, row)
    tools = fitted.candidates_of([encoded])
    if not len(tools) or not fitted.knows_number(encoded.before[0]):
        return None
    ended = OutcomesHere(fitted.odds, [encoded], tools, fitted.numbers)
    if ended.all_failed():
        return None
    evidence = WeighedTools.of(fitted, [encoded], tools, ended)
    warned = {fitted.number[way.tool] for way in evidence.warnings(fitted.names)}
    named = evidence.nameable(encoded.again, warned)
    if evidence.done or not named:
        return None
    likeness = 0.0 if encoded.vote is None else encoded.vote.likeness
    return HeldOutHint(evidence.score(named[0]), int(tools[named[0]]) in _turn_of(calls, row), likeness)


def encoded_call(fitted: FittedMemory, calls: CallMatrix, row: int) -> EncodedQuery:
    """The query of an agent before a call of the matrix. Of its words the vectors are known, not the texts."""
    position = int(calls.position_N[row])
    past: list[int] = calls.next_N[row - position : row].tolist()
    before = int(calls.before_NK[row, 0])
    flags = int(calls.flags_N[row]) & (USER_SPOKE | AGENT_SPOKE | FAILED)
    spoke = np.flatnonzero(calls.flags_N[row - position : row + 1] & USER_SPOKE)
    earlier = int(spoke[-1]) if len(spoke) else 0
    return fitted.encoded(
        past,
        frozenset([fitted.names[before]]),
        flags=flags,
        state_D=np.asarray(calls.states_SD[calls.state_N[row]], dtype=np.float32),
        said_D=calls.said_RD[calls.run_N[row]],
        words=words_of(calls.request_R[calls.run_N[row]]),
        summary=StateSummary(earlier=earlier, facts=known_before(calls, row)),
    )


def _turn_of(calls: CallMatrix, row: int) -> set[int]:
    """The tools of the turn that begins with a call."""
    tools = {int(calls.next_N[row])}
    for later in range(row + 1, len(calls.next_N)):
        if calls.run_N[later] != calls.run_N[row] or not calls.flags_N[later] & IN_TURN:
            break
        tools.add(int(calls.next_N[later]))
    return tools
