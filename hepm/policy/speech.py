"""What is worth saying of what was found in a situation: which tools to name, which to warn of, or why neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from hepm.evidence.chance import UNMEASURED, Chance
from hepm.evidence.decisions import WAITED, Scores, Situation
from hepm.evidence.engine import KNOWN, Findings
from hepm.evidence.place import Counted, PlaceEvidence, bounds
from hepm.evidence.values import Way
from hepm.policy.query import Floors, Query
from hepm.types import END, ToolName

CHECKED: Final = 0.1
"""Chance from which on it is looked up whether a tool has begun to fail."""
FEWEST_FAILED: Final = 1.0
"""Failures by which a tool is warned of, in effective decisions,"""
FEWEST_WORKED: Final = 1.2
"""and successes with the way that did better;"""
FEWEST_COUNTED: Final = 2
"""as many decisions of each at least, since these are what a warning says."""
FEWEST_FAILING: Final = 4
"""Failures under the same conditions, by which a tool is warned of though no single way is known to work,"""
FAILING: Final = 0.5
"""if all others together do better, and it may achieve so small a part of what the best call at the place does."""
OUTSTANDING: Final = 0.55
"""Part of the successes that no warning is of, from which on a fork speaks for a tool,"""
PROMISING: Final = 0.5
"""if the lower bound of what it achieves is this much,"""
PLAUSIBLE: Final = 0.1
"""and its share of what worked: among runs of several kinds it may be what those of another kind do. So is
stopping where such a share of the successful runs with like requests ended, unless a result says otherwise."""
ELSEWHERE: Final = 0.5
"""The chance of a way that worked for the nearest requests in other situations only, as a part of what it achieved;
and what that of a fork's way, times how likely the call is where the ways that fail are left out, must exceed."""
BACKED: Final = 2.0
"""Effective decisions that worked, behind a tool that is named where the request is new,"""
FITTING: Final = 0.6
"""and its share of what worked in such situations, as where a request is known for sure."""
BRANCHES: Final = 30
"""Decisions at a place, from which on a way that a fifth of them ask for would have shown: in fewer, what all did is
no evidence for the next one, unless a known fact separates the decisions there,"""
AGREED: Final = 16
"""or they are so many, and agree:"""
ALONE: Final = 0.95
"""this way has such a share of what worked,"""
UNFAILED: Final = 0.7
"""and worked in such a share of its own decisions. Where some ask for another way, that one works or this one fails."""
USUAL: Final = 0.6
"""Weight of the successes at a place, whatever the situation, beside the rank, for further tools;"""
PART: Final = 0.3
"""and the part of the first tool's score from which on one is named."""
REPEATED: Final = 0.5
"""Share of the nearest runs' vote from which on a tool may be named that was called since the user wrote."""
ALIKE: Final = 0.9
"""Likeness of the nearest request, and share of its vote, from which on a request is known for sure."""
OF_SURE: Final = 0.5
"""The floor of such a tool's chance."""
DONE: Final = 0.5
"""Share of the nearest runs' vote that ended here, from which on nothing is named,"""
ENDED: Final = 0.75
"""and of all successful runs with like requests: where fewer ended, a fact may say that this run goes on."""
DONE_SURELY: Final = 0.9
"""This share, with one run more that mostly ended, and the part of the nearest runs' vote that ended here, from which
on an agent is told so, if eight successful runs ended here, whatever their requests."""
STRAYED: Final = 1 / 3
"""`Findings.came` below which nothing is named: this call does not belong to such requests."""
REACHED: Final = 0.9
"""Part of `Findings.ceiling`: a way after which fewer runs succeed has a lower chance."""
MOSTLY: Final = 0.8
"""Part of what worked, and of what ways achieve elsewhere, that a clear way has."""
PARTED: Final = 0.8
"""The floor of a chance where a fact of a result parts the decisions, `MOSTLY` this way worked,"""
ACHIEVES: Final = 0.6
"""and the lower bound of what it achieves is this much."""
FEWEST_STOPPED: Final = 3
"""Tasks whose runs stopped and failed, by which an agent with a new request is warned of stopping."""
SOMETIMES: Final = 0.15
"""Share of successful runs with a way that fewer runs take, from which on it is not warned of: it may be right where
nothing known says so."""
SOME: Final = 0.125
"""Successes with another way, as a part of those with a tool, from which on it is no mere detour."""
MOST_WARNINGS: Final = 3
_NEVER: Final = 0.5  # decisions that worked, below which nothing is known to work
_LEAST_LEFT: Final = 0.05  # keeps the chance beside tools to avoid, whose chances may sum to 1, finite


@dataclass(frozen=True, slots=True)
class Spoken:
    """What there is to say.

    Attributes:
        named: Tools with their chances, the first one first.
        warned: Ways to avoid, most failures first.
        instead: The way that worked where these failed; None if none stands out.
        fork: Whether the first is named since others fail here.
        silence: If no tool is named: "user", "strange", "strayed", "waits", "done", "failed", "again", "differ", "few"
            or "unsure".
    """

    named: Scores
    warned: Sequence[Way]
    instead: Way | None = None
    fork: bool = False
    silence: str = ""


def spoken(
    found: Findings,
    situation: Situation,
    chance: Chance,
    floors: Floors,
    *,
    allows: Callable[[ToolName], bool] = lambda tool: True,
    works: Scores | None = None,
) -> Spoken:
    """What to say of what was found.

    Args:
        allows: Whether the agent can call a tool.
        works: Share of calls that still work, of tools that have begun to fail.
    """
    warned, instead, likely = _fork(found, allows)
    if not floors.chance:
        return Spoken(parts_of(found.rank), warned, instead)
    silence = _foreseen(found, allows)
    if silence:
        return Spoken({}, [], silence=silence)
    avoided = {way.tool for way in warned}
    # What stands out in like situations may be called again.
    again = situation.again - found.counted.keys()
    if instead is not None and instead.tool not in again and allows(instead.tool):
        stands_out = _is_fork(avoided, instead, likely, found, floors)
        if stands_out and _waits(instead.tool, found, situation, floors):
            return Spoken({}, warned, instead, silence="waits")
        if stands_out:
            return Spoken({instead.tool: likely}, warned, instead, fork=True)
    ended_alike = found.vote.share.get(END, 0.0) >= DONE and found.vote.likeness >= ALIKE
    if ended_alike and not found.new_wish and not _goes_on(found, allows):
        return Spoken({}, warned, instead, silence="done")
    named, silence = _named(found, situation, chance, floors, avoided, works or {}, allows)
    return Spoken(named, warned, instead, silence=silence)


def _tried(found: Findings) -> list[Way]:
    """The ways that were tried in such situations."""
    ways = [way for way in found.ways.values() if way.tried >= _NEVER]
    if any(way.worked >= _NEVER for way in ways):
        return ways
    # Nothing is known to work in such situations: what like requests did here in others is the best there is.
    tried = {way.tool for way in ways}
    for tool, way in found.wider.items():
        if tool not in tried and found.vote.share.get(tool, 0.0) >= 0.5:
            ways.append(way)
    return ways


def _named(
    found: Findings,
    situation: Situation,
    chance: Chance,
    floors: Floors,
    avoided: Set[ToolName],
    works: Scores,
    allows: Callable[[ToolName], bool],
) -> tuple[Scores, str]:
    """The first tools of the rank with their chances; if there are none, why."""
    named: dict[ToolName, float] = {}
    silence = ""
    beside = _beside(found)
    for tool in found.rank:
        if tool in avoided:
            silence = silence or "failed"
            continue
        likely = likely_of(tool, found) * works.get(tool, 1.0)
        if tool in situation.again and not _is_repeated(tool, found):
            silence = silence or "again"
            continue
        # What all runs of the same request did is right, whatever works for others.
        may_differ = not named and floors.chance > OF_SURE and not _is_sure(tool, found, chance)
        if may_differ and better_tool(tool, found, allows):
            silence = silence or "differ"
            break
        if not named and likely < floor_of(tool, found, chance, floors):
            if likely >= floors.chance:
                silence = silence or "few"
            break
        if _waits(tool, found, situation, floors):
            silence = silence or "waits"
            break
        if named and (likely < floors.further or beside[tool] < PART * beside[next(iter(named))]):
            continue
        named[tool] = likely
    if named:
        first, *further = named
        return {tool: named[tool] for tool in (first, *sorted(further, key=lambda tool: -beside[tool]))}, ""
    return {}, silence or "unsure"


def _beside(found: Findings) -> Scores:
    """The parts of the tools in the rank, and of all successes at this place: what is usual is named beside the first.

    What sets this situation apart may be chance where a request is new.
    """
    usual = parts_of({tool: counted.won for tool, counted in found.everywhere.items()})
    return {tool: part + USUAL * usual.get(tool, 0.0) for tool, part in parts_of(found.rank).items()}


def _foreseen(found: Findings, allows: Callable[[ToolName], bool]) -> str:
    """Why nothing can be said here, whatever was counted; "" else."""
    if found.by_user:
        return "user"
    if found.strange:
        return "strange"
    if found.came < STRAYED:
        return "strayed"
    if found.ended.share >= ENDED and not _goes_on(found, allows):
        return "done"
    return ""


def _is_answered(found: Findings) -> bool:
    """Whether most successful runs made no further call under these conditions, where the user has written since."""
    if found.place is None or not found.asked:
        return False
    went_on = sum(counted.won for counted in found.counted.values())
    return found.place.ended(found.leaf).won > went_on


def _waits(tool: ToolName, found: Findings, situation: Situation, floors: Floors) -> bool:
    """Whether the user has not written since the last call, as before nearly all calls of a tool that were right here.

    Agents that weigh hints ask all the same.
    """
    place = found.place
    if place is None or tool not in place.tools or found.asked or floors.chance <= OF_SURE:
        return False
    # Who passes no messages does not say whether the user wrote; nor has a first call one before it.
    if situation.place.tool not in situation.facts:
        return False
    won_N = place.called_NK[:, place.tools.index(tool)] & (place.value_N == 1)
    for here_N in (won_N & found.leaf_N, won_N):
        asked_X = place.asked_N[here_N]
        if len(asked_X) >= FEWEST_FAILING:
            return int(asked_X.sum()) >= WAITED * len(asked_X)
    return False


def likely_of(tool: ToolName, found: Findings) -> float:
    """The chance of a tool, which is lower if runs fail after it: in proportion, and of a sure one its odds."""
    likely, achieved = found.chance.get(tool, 0.0), _achieved(tool, found)
    odds = likely / max(1 - likely, 1e-9) * achieved**6
    # Most failures are of later calls.
    if achieved >= UNFAILED and odds / (1 + odds) >= 0.93:
        return odds / (1 + odds)
    return likely * achieved


def _goes_on(found: Findings, allows: Callable[[ToolName], bool]) -> bool:
    """Whether known facts say that runs like this one are not done here: those that stopped failed, or none did."""
    if better_than_stopping(found, allows):
        return True
    stops_known = found.place is not None and len(found.place.end_won_E) > 0 and not found.asked
    went_on = sum(way.won for way in found.went_on.values())
    return stops_known and bool(found.conditions) and not found.stopped.tried and went_on >= FEWEST_FAILING


def better_than_stopping(found: Findings, allows: Callable[[ToolName], bool]) -> ToolName:
    """The call that surely achieved more under these conditions than runs that stopped; "" if there is none."""
    stopped = found.stopped
    if stopped.failed < FEWEST_COUNTED or _works_at_times(stopped):
        return ""
    most = bounds(stopped.won, stopped.tried, found.base)[1]
    lows: list[tuple[float, ToolName]] = []
    for tool, way in found.went_on.items():
        low = bounds(way.won, way.tried, found.base)[0]
        if allows(tool) and way.won >= FEWEST_COUNTED and low > most:
            lows.append((low, tool))
    return max(lows, default=(0.0, ""))[1]


def surely_done(found: Findings, situation: Situation, query: Query, floors: Floors) -> float:
    """The share of like successful runs that ended here, if nearly all did, and the nearest ones, too; else 0.

    Not where the user has written between the calls, this run lacks a call of nearly all, or most that ended here
    failed; nor for an agent that asks about some of its tools: it may have others to call.
    """
    ended = found.ended
    share = (ended.share * ended.like + ENDED) / (ended.like + 1)
    if ended.runs < 8 or min(share, found.vote.share.get(END, 0.0)) < max(DONE_SURELY, floors.chance):
        return 0.0
    whole = ended.complete and situation.wish == situation.words and query.allows(situation.place.tool)
    if not whole or ended.succeeded < FAILING:
        return 0.0
    return share


def _achieved(tool: ToolName, found: Findings) -> float:
    """1 for a tool after which runs succeed as often as after the best ones, less where more fail for no known reason.

    Held-out successes do not show that: something unknown may decide here.
    """
    way = found.ways.get(tool)
    if way is None:
        return 1.0
    usual = REACHED * found.ceiling
    return min((way.cleared + usual) / (way.tried + 1) / usual, _reach(tool, found) / REACHED, 1.0)


def _reach(tool: ToolName, found: Findings) -> float:
    """The most that a tool may achieve under these conditions, as a part of what the best one at this place does."""
    counted = found.counted.get(tool)
    if counted is None or not found.usual:
        return 1.0
    return counted.bounds(found.usual)[1] / found.usual


def parts_of(rank: Scores) -> Scores:
    """The scores of a rank, so that they sum to 1."""
    total = sum(rank.values()) or 1.0
    return {tool: score / total for tool, score in rank.items()}


def _fork(found: Findings, allows: Callable[[ToolName], bool]) -> tuple[list[Way], Way | None, float]:
    """The ways that clearly fail, or clearly more than the best one; and the one that stands out, with its chance."""
    ways = _tried(found)
    failing = {tool for tool in found.counted if _fails(tool, found)}
    working = (way for way in ways if way.tool not in failing)
    best = max(working, key=lambda way: (way.bounds[0], way.tool), default=None)
    if best is not None and best.worked < FEWEST_WORKED:
        best = None
    worse = [way for way in ways if way.tool in failing or _is_worse(way, best, found)]
    worse.sort(key=lambda way: (-way.failed, way.tool))
    warned = [way for way in worse if allows(way.tool)][:MOST_WARNINGS]
    if not warned:
        return [], None, 0.0
    left = [way for way in ways if way not in worse]
    if any(way.tool in failing for way in warned):
        instead, likely = _best_counted(found, failing | {way.tool for way in warned})
        if instead is not None:
            return warned, instead, likely
    if best is None or not _is_borne_out(best.tool, found):
        return warned, None, 0.0
    share = best.worked / sum(way.worked for way in left)
    if share < OUTSTANDING or best.bounds[0] < PROMISING:
        return warned, None, 0.0
    seen = best is found.ways.get(best.tool)
    return warned, best, min(share, best.mean) * (1.0 if seen else ELSEWHERE)


def _best_counted(found: Findings, avoided: Set[ToolName]) -> tuple[Way | None, float]:
    """The way that stands out among the decisions under these conditions alone, with its chance."""
    left = {tool: counted for tool, counted in found.counted.items() if tool not in avoided}
    tool = max(left, key=lambda tool: (left[tool].won, tool), default="")
    if not tool or left[tool].won < FEWEST_COUNTED:
        return None, 0.0
    tried, won, cleared = left[tool]
    best = Way(tool, won, tried - cleared, cleared, found.base)
    share = won / sum(counted.won for counted in left.values())
    needed = FITTING if won == FEWEST_COUNTED else OUTSTANDING
    if share < needed or best.bounds[0] < PROMISING:
        return None, 0.0
    return best, min(share, best.mean)


def _fails(tool: ToolName, found: Findings) -> bool:
    """Whether a tool mostly fails under these conditions, while the others together clearly do better."""
    counted = found.counted.get(tool)
    if counted is None or not found.conditions or counted.failed < FEWEST_FAILING or _works_at_times(counted):
        return False
    others = Counted(0, 0)
    for other in found.counted.values():
        if other is not counted:
            others = Counted(others.tried + other.tried, others.won + other.won, others.cleared + other.cleared)
    # Where all calls fail, the request may be too hard.
    if others.won < FEWEST_COUNTED or counted.bounds(found.base)[1] >= others.bounds(found.base)[0]:
        return False
    # What others explain of a failure speaks for a call here: a warning takes it away from agents.
    return bounds(counted.cleared, counted.tried, found.usual)[1] < FAILING * found.usual


def _works_at_times(counted: Counted) -> bool:
    """Whether a call that fails mostly worked in some runs: it may be right where nothing known says so."""
    return counted.won >= max(FEWEST_COUNTED, SOMETIMES * counted.tried)


def _is_worse(way: Way, best: Way | None, found: Findings) -> bool:
    """Whether the upper bound of a way lies below the lower bound of the best other one, if one is known to work."""
    if best is None or way is best:
        return False
    counted = found.counted.get(way.tool, Counted(FEWEST_COUNTED, 0))
    if way.failed < FEWEST_FAILED or counted.failed < FEWEST_COUNTED or way.bounds[1] >= best.bounds[0]:
        return False
    return way.tried >= best.tried or not _works_at_times(counted)


def _is_fork(avoided: Set[ToolName], way: Way, likely: float, found: Findings, floors: Floors) -> bool:
    """Whether a way with such a chance is named where others fail."""
    # What worked in other situations only is no more likely than `ELSEWHERE`.
    if likely < floors.chance and likely * _chance_beside(avoided, way, found) <= ELSEWHERE:
        return False
    # Who weighs hints may hear of a failure that is not shown, and of the way of another request.
    shown = any(is_shown_to_fail(tool, found) for tool in avoided)
    return floors.chance <= OF_SURE or (shown and not _is_answered(found))


def _chance_beside(avoided: Set[ToolName], way: Way, found: Findings) -> float:
    """The chance of a way where those to avoid are left out: low where like runs rather made a third call.

    1 if nearly all that worked in such situations is this way.
    """
    if found.share.get(way.tool, 0.0) >= ALIKE:
        return 1.0
    left = 1 - sum(found.chance.get(tool, 0.0) for tool in avoided)
    return min(found.chance.get(way.tool, 0.0) / max(left, _LEAST_LEFT), 1.0)


def is_shown_to_fail(tool: ToolName, found: Findings) -> bool:
    """Whether the runs under the same conditions show that a tool fails."""
    counted = found.counted.get(tool, Counted(0, 0))
    return counted.failed >= FEWEST_COUNTED and counted.failed > counted.won


def better_tool(tool: ToolName, found: Findings, allows: Callable[[ToolName], bool]) -> ToolName:
    """A tool at hand that clearly succeeded oftener under the same conditions, in `SOME` as many runs; "" if none."""
    counted = found.counted.get(tool)
    if counted is None:
        return ""
    least, most = max(FEWEST_COUNTED, SOME * counted.won), bounds(counted.won, counted.tried, found.base)[1]
    for other, of_other in found.counted.items():
        if allows(other) and of_other.won >= least and bounds(of_other.won, of_other.tried, found.base)[0] > most:
            return other
    return ""


def _is_borne_out(tool: ToolName, found: Findings) -> bool:
    """Whether enough decisions under these conditions worked by it; two are enough if hardly another way worked."""
    counted = found.counted.get(tool)
    if counted is None:
        return True
    least = FITTING if counted.won == FEWEST_COUNTED else PLAUSIBLE
    return counted.won >= FEWEST_COUNTED and found.share.get(tool, 0.0) >= least


def _is_repeated(tool: ToolName, found: Findings) -> bool:
    """Whether like runs called a tool again: agents repeat a call without being reminded."""
    return found.vote.likeness >= ALIKE and found.vote.share.get(tool, 0.0) >= REPEATED


def floor_of(tool: ToolName, found: Findings, chance: Chance, floors: Floors) -> float:
    """The chance that a first tool needs; above 1 if too few cases stand behind it."""
    way = found.ways.get(tool)
    backed = way is not None and way.worked >= BACKED
    if _is_sure(tool, found, chance):
        least = OF_SURE
        if backed and not chance.measured:
            least = UNMEASURED
        return min(floors.chance, floors.known, least)
    if floors.chance <= OF_SURE:  # for agents that weigh what is stated
        return floors.chance
    if way is not None and backed and _is_parted(way, found):
        return min(floors.chance, PARTED)
    if chance.known(found.vote.known) >= KNOWN and not found.new_wish:
        return min(floors.chance, floors.known)
    fits = found.share.get(tool, 0.0) >= FITTING
    if way is None or not (backed and fits) or _may_hide_a_branch(way, found.share[tool], found.place):
        return 2.0
    return floors.chance


def _is_sure(tool: ToolName, found: Findings, chance: Chance) -> bool:
    """Whether the request is known for sure, and nearly all runs of it called a tool."""
    vote = found.vote
    # Rounding must not decide.
    if found.new_wish or not (ALIKE <= vote.known > chance.sure + 1e-6 and vote.share.get(tool, 0.0) >= ALIKE):
        return False
    return found.share.get(tool, 0.0) >= FITTING and _achieved(tool, found) >= MOSTLY


def _is_parted(way: Way, found: Findings) -> bool:
    """Whether a fact of a result parts the decisions at a place, and this way clearly is the one here."""
    return parted_by_result(found) and found.share.get(way.tool, 0.0) >= MOSTLY and way.bounds[0] >= ACHIEVES


def parted_by_result(found: Findings) -> bool:
    """Whether the last condition here is about a result. Words of a new request may be chance."""
    return bool(found.conditions) and not found.conditions[-1].source.startswith("<")


def _may_hide_a_branch(way: Way, share: float, place: PlaceEvidence | None) -> bool:
    """Whether no known fact separates the decisions at a place, and they do not say that none could."""
    if place is None or place.small.test_M[0] >= 0 or place.seen >= BRANCHES:
        return place is None
    return place.seen < AGREED or share < ALONE or way.worked < UNFAILED * way.tried
