"""What the hybrid policy would have said at calls of the past, in a memory that lacks some runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import IN_TURN, CallMatrix
from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE, words_of
from hepm.graph.rows import Float32Array
from hepm.policy.hybrid.chance import HeldOutHint, HonestChance
from hepm.policy.hybrid.evidence import WeighedTools
from hepm.policy.hybrid.fitted import FittedMemory
from hepm.policy.hybrid.known_facts import known_before
from hepm.policy.hybrid.odds import EncodedQuery
from hepm.policy.hybrid.outcomes import OutcomesHere
from hepm.types import Facts, StateSummary

MOST_DETOURS: Final = 2
"""Calls that a run may make before the one that was named, so that the hint was right all the same."""
RARE: Final = 0.2
"""Share of the successful runs here that make a call, below which it is a detour: a step that most make is none."""


def measure_chance(fitted: FittedMemory) -> HonestChance:
    """The honest chances of a memory."""
    return HonestChance.measure(fitted.calls, fitted.families, held_out_hints, usual=fitted.nearest_runs.usual())


def held_out_hints(left: CallMatrix, calls: CallMatrix, rows: NDArray[np.intp]) -> list[HeldOutHint | None]:
    """The first tool that would have been named at some calls, and whether it was called; None where none would."""
    fitted = FittedMemory(left)
    hints: list[HeldOutHint | None] = []
    for row, facts in zip(rows.tolist(), known_before(calls, rows), strict=True):
        hints.append(_held_out_hint(fitted, calls, row, facts))
    return hints


def _held_out_hint(fitted: FittedMemory, calls: CallMatrix, row: int, facts: Facts) -> HeldOutHint | None:
    encoded = encoded_call(fitted, calls, row, facts)
    tools = fitted.candidates_of([encoded])
    if not len(tools) or not fitted.knows_number(encoded.before[0]):
        return None
    outcomes = OutcomesHere(fitted.odds, [encoded], tools, fitted.numbers)
    if outcomes.all_failed():
        return None
    evidence = WeighedTools.of(fitted, [encoded], tools, outcomes)
    warned = {fitted.number[way.tool] for way in evidence.warnings(fitted.names)}
    named = evidence.nameable(encoded.again, warned)
    if evidence.done or not named:
        return None
    first = named[0]
    right = is_right(int(tools[first]), _turns_ahead(calls, row), fitted.shares_of(encoded))
    likeness = 0.0
    if encoded.vote is not None:
        likeness = encoded.vote.likeness
    return HeldOutHint(evidence.score(first), right, likeness)


def encoded_call(fitted: FittedMemory, calls: CallMatrix, row: int, facts: Facts) -> EncodedQuery:
    """The query of an agent before a call of the matrix, which knew these facts. Of its words the vectors are known."""
    # Calls of a run lie side by side, so that its first one is `position` rows above.
    first = row - int(calls.position_N[row])
    past: list[int] = calls.next_N[first:row].tolist()
    before = int(calls.before_NK[row, 0])
    flags = int(calls.flags_N[row]) & (USER_SPOKE | AGENT_SPOKE | FAILED)
    spoke = np.flatnonzero(calls.flags_N[first : row + 1] & USER_SPOKE)
    # Calls made before the user's last message.
    earlier = int(spoke.max(initial=0))
    return fitted.encoded(
        past,
        frozenset([fitted.names[before]]),
        flags=flags,
        state_D=np.asarray(calls.states_SD[calls.state_N[row]], dtype=np.float32),
        said_D=calls.said_RD[calls.run_N[row]],
        words=words_of(calls.request_R[calls.run_N[row]]),
        summary=StateSummary(earlier=earlier, facts=facts),
    )


def is_right(tool: int, ahead: Iterable[AbstractSet[int]], share_T: Float32Array) -> bool:
    """Whether a hint was right: the tool was called next, or after no more than rare detours.

    Args:
        ahead: Of each turn with calls from here on, the tools called, until the user speaks or the run ends.
        share_T: How likely each tool is to be called here by a run that succeeds.
    """
    detours = 0
    for turn in ahead:
        if tool in turn:
            return True
        detours += len(turn)
        if detours > MOST_DETOURS or any(share_T[other] >= RARE for other in turn):
            return False
    return False


def _turns_ahead(calls: CallMatrix, row: int) -> Iterator[set[int]]:
    """The tools of each turn, from the one that begins with a call on, until the user speaks or the run ends."""
    turn: set[int] = set()
    for later in range(row, len(calls.next_N)):
        # IN_TURN marks each call but the first of a turn with parallel calls.
        if turn and not calls.flags_N[later] & IN_TURN:
            yield turn
            turn = set()
            if calls.run_N[later] != calls.run_N[row] or calls.flags_N[later] & USER_SPOKE:
                return
        turn.add(int(calls.next_N[later]))
    yield turn
