"""Why a tool was suggested, in one line: what spoke for it most."""

from __future__ import annotations

from typing import Final

from hepm.graph.store import FloatArray
from hepm.policy.hybrid.features import NAMES
from hepm.policy.query import Query, place_of

_SAID: Final = {
    "often": "it is called often",
    "after_last": "it often comes {place}",
    "after_last_three": "it came after the same last three calls",
    "in_this_moment": "it came at moments like this one, with the same speaker and result",
    "success": "runs that took it succeeded more often",
    "seen": "this run has not called it yet",
    "times": "this run has called it seldom",
    "recency": "this run called it a while ago",
    "remaining": "runs with similar requests called it oftener than this one so far",
    "nearest_here": "an agent that knew something similar {place} called it (cosine {here:.2f})",
    "nearest_anywhere": "an agent that knew something similar elsewhere called it (cosine {anywhere:.2f})",
    "vote": "most agents that knew something similar {place} called it",
    "ridge": "over all runs, knowing this went with calling it",
    "named_by_user": "the user's words name it",
    "named_by_agent": "the agent's own words name it",
    "named_by_agent_plainly": "the agent's own words name it",
}

_ENOUGH: Final = 0.1
_SHOWN: Final = 2


def reason(query: Query, support: int, failures: int, row: FloatArray, spoke: FloatArray) -> str:
    """What spoke for a tool most, against the other candidates, and how many runs took this way."""
    place = place_of(query)
    here, anywhere = (float(row[NAMES.index(name)]) for name in ("nearest_here", "nearest_anywhere"))
    strongest = sorted(range(len(NAMES)), key=lambda feature: (-float(spoke[feature]), feature))
    said = dict.fromkeys(
        _SAID[NAMES[feature]].format(place=place, here=here, anywhere=anywhere)
        for feature in strongest
        if spoke[feature] > _ENOUGH
    )
    why = "; ".join(list(said)[:_SHOWN]) or "nothing speaks against it"
    failed = f", {failures} failed ones too" if failures else ""
    return f"{why}; {support} successful runs called it {place}{failed}"
