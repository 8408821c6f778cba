"""The query in the numbers of the call matrix."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls import ORDER
from hepm.graph.delta import flags_of
from hepm.graph.store import FloatArray
from hepm.policy.query import Query
from hepm.types import StateSummary, ToolName

if TYPE_CHECKING:
    from hepm.policy.hybrid.fitted import FittedMemory

MOST_COMPARED: Final = 2048
"""The latest calls after the last tool, of successful and failed runs, whose states are compared."""


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """A query in the numbers of the call matrix.

    Attributes:
        before: Numbers of the last calls, latest first; -1 where there is none or memory does not know it.
        called: How often the run called each tool that memory knows.
        distance: How many calls ago it last called each of them, 1 for the last call.
        flags: What happened since the last call, in bits.
        after_N: Rows of the calls after its last tool, ascending; after parallel ones, of the turn after one with it.
        compared_N: The latest of these whose states are compared.
        states_ND: Vectors of those states, copied once for all comparisons; none without a state.
    """

    before: tuple[int, ...]
    called: Counter[int]
    distance: dict[int, int]
    flags: int
    state_D: FloatArray | None
    said_D: FloatArray | None
    summary: StateSummary
    after_N: NDArray[np.intp]
    compared_N: NDArray[np.intp]
    states_ND: FloatArray


def encode_query(query: Query, fitted: FittedMemory, last: ToolName) -> EncodedQuery:
    """Translate a query, with `last` of the last turn's tools as the last call. Tools never seen become -1."""
    names = list(query.history)
    if last in names:
        # Its latest call comes last, the others of its turn just before.
        at = len(names) - 1 - names[::-1].index(last)
        names.append(names.pop(at))
    known = [fitted.number.get(name, -1) for name in names]
    before = (*(fitted.start, *known)[: -ORDER - 1 : -1], *(-1,) * ORDER)[:ORDER]
    called = [tool for tool in known if tool >= 0]
    summary = query.state or StateSummary()
    calls = fitted.calls
    after = fitted.after(before[0], parallel=len(set(query.after)) > 1)
    compared = after[calls.state_N[after] >= 0][-MOST_COMPARED:]
    return EncodedQuery(
        before=before,
        called=Counter(called),
        distance={tool: len(known) - at for at, tool in enumerate(known) if tool >= 0},
        flags=flags_of(summary),
        state_D=query.vector,
        said_D=query.said_vector,
        summary=summary,
        after_N=after,
        compared_N=compared,
        states_ND=calls.states_SD.take(calls.state_N[compared[: None if query.vector is not None else 0]], axis=0),
    )
