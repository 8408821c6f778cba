"""The ablations of H-EPM, table 4, as methods that are measured beside the others.

Recorded agents called no summary tool, so that they do not tell when H-EPM would have recalled which memory. What its
parts are worth in predicting the next tool can be measured all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hepm.errors import InputError

ABLATIONS: Final = {
    "weight": ("episodic", "similarity-hashed"),
    "state": ("procedural", "h-epm-c1"),
    "efficiency": ("procedural-c0", "h-epm-c0"),
    "adaptation": ("episodic-else-procedural", "similarity"),
}
"""What is taken away (4 A ii, A iii, B ii, C i), and the method that is left: a policy of hepm, or the baseline that
stands in where the policy is not there. Without adaptation states are compared wherever there are any, and every event
carries one."""

KS: Final = (1, 2, 3)
"""Table 4 D, asked for as "k": rescue and harm of hints with so many tools."""


def methods_without(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The methods to measure for these ablations; "k" is none.

    Raises:
        InputError: there is no such ablation.
    """
    unknown = [name for name in names if name not in ABLATIONS and name != "k"]
    if unknown:
        raise InputError(f"no ablation is called {', '.join(unknown)}. There are: {', '.join(ABLATIONS)}, k.")
    chosen = [ABLATIONS[name] for name in names if name != "k"]
    return [next(method for method in candidates if method in known) for candidates in chosen]
