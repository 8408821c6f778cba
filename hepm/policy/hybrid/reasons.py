"""Why a tool was suggested, in one line: what spoke for it most."""

from __future__ import annotations

from typing import Final

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES
from hepm.policy.query import Query, count_runs, place_of

# Two features correct others for how common a tool is; they never are a reason by themselves.
_SAID: Final = {
    "in_this_moment": "it came {place} at moments like this one",
    "seen": "this run has not called it yet",
    "times": "this run has called it before, and runs call it again",
    "recency": "it was called lately, and such calls are often repeated",
    "remaining": "runs with similar requests call it, and this one has not as often",
    "nearest": "an agent that knew something similar called it (cosine {nearest:.2f})",
    "vote": "most agents that knew something similar {place} called it",
    "ridge": "what is known now usually goes with calling it",
    "named_by_user": "what was said names it",
    "named_by_agent": "the agent's own words name it",
    "contrast": "runs that knew almost the same went on with it {place} and succeeded",
    "odds": "runs that knew something similar succeeded with it more than with others",
}
_COLUMNS: Final = (*NAMES, "odds")


_ENOUGH: Final = 0.1
_SHOWN: Final = 2


def _sayable(query: Query, here: int) -> set[str]:
    """What can be said: of a tool that never came right here, and where no state was given, less."""
    if query.vector is None:
        return set()
    names = set(_SAID)
    if not here:
        names -= {"in_this_moment", "vote", "contrast"}
    return names if query.said_vector is not None else names - {"remaining"}


def reason(query: Query, row: FloatArray, spoke: FloatArray, *, here: int, failures: int, anywhere: int) -> str:
    """What spoke for a tool most, against the other candidates, and how many runs took this way.

    Args:
        row: The tool's features, and the odds of success with it.
        spoke: What each adds to its score, above the mean of the candidates.
        here: Successful runs that called it right after the last tools.
        failures: Failed ones that did.
        anywhere: Successful runs that called it at all.
    """
    place = place_of(query)
    nearest = float(row[NAMES.index("nearest")])
    sayable = _sayable(query, here)
    strongest = sorted(range(len(_COLUMNS)), key=lambda feature: (-float(spoke[feature]), feature))
    said = [
        _SAID[_COLUMNS[feature]].format(place=place, nearest=nearest)
        for feature in strongest
        if spoke[feature] > _ENOUGH and _COLUMNS[feature] in sayable
    ]
    why = "; ".join(said[:_SHOWN]) or "no single sign stands out"
    failed = f" and {failures} failed" if failures else ""
    if here:
        counts = f"{here} successful{failed} {'run' if here + failures == 1 else 'runs'} called it {place}"
    else:
        missed = f", where {failures} failed {'run' if failures == 1 else 'runs'} did" if failures else ""
        counts = f"{count_runs(anywhere)} called it, none right {place}{missed}"
    return f"{why}; {counts}" if query.vector is not None else counts
