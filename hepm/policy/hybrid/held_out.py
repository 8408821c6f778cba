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


def measure_chance(fitted: FittedMemory) -> HonestChance:
    """The honest chances of a memory."""
    return HonestChance.measure(fitted.calls, fitted.families, held_out_hints, usual=fitted.nearest_runs.usual())


def held_out_hints(left: CallMatrix, calls: CallMatrix, rows: NDArray[np.intp]) -> list[HeldOutHint | None]:
    """The first tool that would have been named at some calls, and whether it was called; None where none would."""
    fitted = FittedMemory(left)
    return [_held_out_hint(fitted, calls, row) for row in rows.tolist()]


def _held_out_hint(fitted: FittedMemory, calls: CallMatrix, row: int) -> HeldOutHint | None:
    encoded = encoded_call(fitted, calls, row)
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
    right = int(tools[first]) in _turn_of(calls, row)
    likeness = 0.0
    if encoded.vote is not None:
        likeness = encoded.vote.likeness
    return HeldOutHint(evidence.score(first), right, likeness)


def encoded_call(fitted: FittedMemory, calls: CallMatrix, row: int) -> EncodedQuery:
    """The query of an agent before a call of the matrix. Of its words the vectors are known, not the texts."""
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
        summary=StateSummary(earlier=earlier, facts=known_before(calls, row)),
    )


def _turn_of(calls: CallMatrix, row: int) -> set[int]:
    """The tools of the turn that begins with a call."""
    tools = {int(calls.next_N[row])}
    for later in range(row + 1, len(calls.next_N)):
        same_run = calls.run_N[later] == calls.run_N[row]
        # IN_TURN marks each call but the first of a turn with parallel calls.
        if not same_run or not calls.flags_N[later] & IN_TURN:
            break
        tools.add(int(calls.next_N[later]))
    return tools
