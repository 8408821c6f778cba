"""One plain sentence: would memory have helped these agents, by how much, on which tools, or not at all?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hepm.evals.metrics import Interval
from hepm.evals.report import Difference
from hepm.evals.rescue import RescueAndHarm
from hepm.text import count_of

FEWEST_EVENTS = 30
FEWEST_FAMILIES = 5
FEWEST_DIVERGENCES = 10
_NAMED_TOOLS = 3
_GROUPED = " Task ids hardly repeat in these runs: requests were grouped by likeness."
# Fixed: the best is known only afterwards.
_JUDGED = ("hybrid", "adaptive", "episodic", "procedural", "second-order+similarity", "similarity", "first-order")


def judged(measured: Iterable[str]) -> str:
    """Whose hints the verdict is about, of the methods that were measured: the first, unless one of ours is there."""
    names = list(measured)
    return next((name for name in _JUDGED if name in names), names[0])


@dataclass(frozen=True)
class Findings:
    """What the sentence rests on.

    Attributes:
        method: Whose hints are judged.
        hit: Share of events whose tool was among its first k.
        k: How many tools a hint holds.
        plain: The method it is compared with, and that method's share.
        ahead: By how much it beats the plain method; None where there is nothing to compare with.
        rescue: With the families out of memory; None where divergences were not looked for.
        seen: With the failed run alone out of memory; None where that was not measured.
        apart: Whether the tested families were unknown to memory.
        grouped: Whether families of some runs are groups of like requests.
    """

    method: str
    events: int
    families: int
    hit: float
    k: int
    plain: tuple[str, float]
    ahead: Difference | None
    rescue: RescueAndHarm | None
    seen: RescueAndHarm | None = None
    apart: bool = True
    grouped: bool = False


def verdict(findings: Findings) -> str:
    """The sentence. It claims what an interval excludes from chance, and says so when there is too little data."""
    return _sentence(findings) + (_GROUPED if findings.grouped else "")


def _sentence(findings: Findings) -> str:
    if findings.events < FEWEST_EVENTS or findings.families < FEWEST_FAMILIES:
        return (
            f"Too little data to say whether memory would have helped: {count_of(findings.events, 'call')} of "
            f"{count_of(findings.families, 'task family', 'task families')} could be predicted, and below "
            f"{FEWEST_EVENTS} calls of {FEWEST_FAMILIES} families chance decides."
        )
    cases = [
        (rescue, memory)
        for rescue, memory in (
            (findings.seen, "with other runs of the task in memory"),
            (findings.rescue, "without"),
        )
        if rescue is not None and rescue.divergences >= FEWEST_DIVERGENCES and rescue.families >= FEWEST_FAMILIES
    ]
    if not cases:
        return _by_prediction(findings)
    if len(cases) == 1:
        cases = [(rescue, "with other runs of their task families out of memory") for rescue, _ in cases]
    first = cases[0][0]
    told = ", and ".join(_case(rescue, memory) for rescue, memory in cases)
    harm = " and ".join(f"{rescue.harm:.0%}" for rescue, _ in cases)
    return (
        f"{_opening([_sign(rescue.interval['gain']) for rescue, _ in cases])}: at {first.divergences} points where a "
        f"failed run left the way of a successful one, hints of {findings.method} (at most "
        f"{count_of(first.k, 'tool')}) held the better tool and not the chosen one {told}{_tools(first)}; in "
        f"successful runs they lacked the tool called next in {harm}."
    )


_WOULD_HAVE: Final = {
    1: "would have helped these agents",
    0: "would not have helped these agents measurably",
    -1: "would have confirmed these agents in their wrong turns rather than put them right",
}


def _opening(signs: Sequence[int]) -> str:
    seen, *others = (_WOULD_HAVE[sign] for sign in signs)
    unseen = others[0].replace("these agents", "them") if len(set(signs)) > 1 else ""
    return f"Memory {seen}" + (
        f" where it holds other runs of the task, and {unseen} where it does not" if unseen else ""
    )


def _sign(gain: Interval) -> int:
    """Of the gain, 0 where chance cannot be excluded."""
    return int(gain.low > 0) - int(gain.high < 0)


def _case(found: RescueAndHarm, memory: str) -> str:
    gain = found.interval["gain"]
    return (
        f"in {found.rescue:.0%} and the reverse in {found.misled:.0%} {memory} "
        f"({_points(found.gain)} points, 95 % interval {_points(gain.low)} to {_points(gain.high)})"
    )


def _points(share: float) -> str:
    """In percent, signed; what rounds to nothing is no minus."""
    return f"{round(100 * share):+d}"


def _tools(found: RescueAndHarm) -> str:
    """Where hints helped or misled most; nothing where they did neither measurably."""
    sign = _sign(found.interval["gain"])
    names = list(found.rescued_by if sign > 0 else found.misled_by)[:_NAMED_TOOLS] if sign else []
    return f", mostly on {', '.join(names)}" if names else ""


def _by_prediction(findings: Findings) -> str:
    ahead = findings.ahead
    if ahead is not None and ahead.interval.low <= 0:
        return (
            f"Memory would not have helped these agents as far as can be seen: {_prediction(findings)}, and "
            f"{_too_few(findings)}."
        )
    return (
        f"Memory would have known what comes next, but whether that helps these agents cannot be told: "
        f"{_prediction(findings)}, and {_too_few(findings)}."
    )


def _too_few(findings: Findings) -> str:
    if findings.rescue is None:
        why = "" if findings.apart else ", as memory held runs of their tasks"
        return f"whether it would have put failed runs right was not looked at{why}"
    if not findings.rescue.divergences:
        return "no failed run was found to leave the way of a successful one"
    number = count_of(findings.rescue.divergences, "failed run")
    return f"only {number} left the way of a successful one, which is too few to judge"


def _prediction(findings: Findings) -> str:
    plain, hit = findings.plain
    tasks = "unseen tasks" if findings.apart else "the tested runs"
    said = f"on {tasks} its top {findings.k} held the next tool in {findings.hit:.0%}"
    if findings.ahead is None:
        return said
    interval = findings.ahead.interval
    return (
        f"{said} against {hit:.0%} for {plain} ({_points(findings.ahead.value)} points, "
        f"{_points(interval.low)} to {_points(interval.high)})"
    )
