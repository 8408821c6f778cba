"""The default policy: what the evidence of a memory says is worth saying to an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from hepm.evidence.chance import UNMEASURED, Chance
from hepm.evidence.decisions import Scores, Situation
from hepm.evidence.engine import KNOWN, NEAR_FROM, Findings, Learned
from hepm.evidence.place import Counted, PlaceEvidence, bounds
from hepm.evidence.upkeep import live_evidence
from hepm.evidence.values import Way
from hepm.graph.delta import said_text
from hepm.graph.drift import Drift
from hepm.graph.mirror.namespace_mirror import EVIDENCE_RUNS, NamespaceMirror
from hepm.policy.query import Floors, Query, content_words, nothing_known, place_of
from hepm.text import count_of, percent
from hepm.types import (
    END,
    RESULTS_OF,
    SAID,
    SAID_LAST,
    START,
    USER,
    Evidence,
    FailedWay,
    StateSummary,
    Suggestion,
    Suggestions,
    ToolName,
)

if TYPE_CHECKING:
    from hepm.policy.query import TrainedRanker

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
WAITED: Final = 0.9
"""Share of the calls of a tool at a place that a message of the user came before, from which on it waits for one."""
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
        return Spoken(_shares(found.rank), warned, instead)
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
        likely = _likely(tool, found) * works.get(tool, 1.0)
        if tool in situation.again and not _is_repeated(tool, found):
            silence = silence or "again"
            continue
        # What all runs of the same request did is right, whatever works for others.
        may_differ = not named and floors.chance > OF_SURE and not _is_sure(tool, found, chance)
        if may_differ and _better(tool, found, allows):
            silence = silence or "differ"
            break
        if not named and likely < _floor(tool, found, chance, floors):
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
    usual = _shares({tool: counted.won for tool, counted in found.everywhere.items()})
    return {tool: part + USUAL * usual.get(tool, 0.0) for tool, part in _shares(found.rank).items()}


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


def _mostly_ends(found: Findings) -> bool:
    """Whether most runs that succeeded under these conditions made no further call, whatever the user has written."""
    if found.place is None:
        return False
    went_on = sum(counted.won for counted in found.counted.values())
    return found.place.ended(found.leaf).won > went_on


def _waits(tool: ToolName, found: Findings, situation: Situation, floors: Floors) -> bool:
    """Whether the user has not written since the last call, as before nearly all calls of a tool at this place.

    Agents that weigh hints ask all the same.
    """
    place = found.place
    if place is None or tool not in place.tools or found.asked or floors.chance <= OF_SURE:
        return False
    # Who passes no messages does not say whether the user wrote; nor has a first call one before it.
    if situation.place.tool not in situation.facts:
        return False
    asked_X = place.asked_N[place.called_NK[:, place.tools.index(tool)]]
    return len(asked_X) >= FEWEST_FAILING and int(asked_X.sum()) >= WAITED * len(asked_X)


def _likely(tool: ToolName, found: Findings) -> float:
    """The chance of a tool, which is lower if runs fail after it: in proportion, and of a sure one its odds."""
    likely, achieved = found.chance.get(tool, 0.0), _achieved(tool, found)
    odds = likely / max(1 - likely, 1e-9) * achieved**6
    # Most failures are of later calls.
    if achieved >= UNFAILED and odds / (1 + odds) >= 0.93:
        return odds / (1 + odds)
    return likely * achieved


def _goes_on(found: Findings, allows: Callable[[ToolName], bool]) -> bool:
    """Whether known facts say that runs like this one are not done here: those that stopped failed, or none did."""
    if _better_than_stopping(found, allows):
        return True
    stops_known = found.place is not None and len(found.place.end_won_E) > 0 and not found.asked
    went_on = sum(way.won for way in found.went_on.values())
    return stops_known and bool(found.conditions) and not found.stopped.tried and went_on >= FEWEST_FAILING


def _better_than_stopping(found: Findings, allows: Callable[[ToolName], bool]) -> ToolName:
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


def _surely_done(found: Findings, situation: Situation, query: Query, floors: Floors) -> float:
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


def _shares(rank: Scores) -> Scores:
    """The scores of a rank, so that they sum to 1."""
    total = sum(rank.values()) or 1.0
    return {tool: score / total for tool, score in rank.items()}


def _fork(found: Findings, allows: Callable[[ToolName], bool]) -> tuple[list[Way], Way | None, float]:
    """The ways that clearly fail, or clearly more than the best one; and the one that stands out, with its chance."""
    ways = _tried(found)
    failing = {tool for tool in found.counted if _fails(tool, found)}
    best = _best(way for way in ways if way.tool not in failing)
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


def _best(ways: Iterable[Way]) -> Way | None:
    """The way with the highest lower bound; None without any."""
    return max(ways, key=lambda way: (way.bounds[0], way.tool), default=None)


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
    shown = any(_is_said(tool, found) for tool in avoided)
    return floors.chance <= OF_SURE or (shown and not _mostly_ends(found))


def _chance_beside(avoided: Set[ToolName], way: Way, found: Findings) -> float:
    """The chance of a way where those to avoid are left out: low where like runs rather made a third call.

    1 if nearly all that worked in such situations is this way.
    """
    if found.share.get(way.tool, 0.0) >= ALIKE:
        return 1.0
    left = 1 - sum(found.chance.get(tool, 0.0) for tool in avoided)
    return min(found.chance.get(way.tool, 0.0) / max(left, _LEAST_LEFT), 1.0)


def _better(tool: ToolName, found: Findings, allows: Callable[[ToolName], bool]) -> ToolName:
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


def _floor(tool: ToolName, found: Findings, chance: Chance, floors: Floors) -> float:
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
    return _parted_by_result(found) and found.share.get(way.tool, 0.0) >= MOSTLY and way.bounds[0] >= ACHIEVES


def _parted_by_result(found: Findings) -> bool:
    """Whether the last condition here is about a result. Words of a new request may be chance."""
    return bool(found.conditions) and not found.conditions[-1].source.startswith("<")


def _may_hide_a_branch(way: Way, share: float, place: PlaceEvidence | None) -> bool:
    """Whether no known fact separates the decisions at a place, and they do not say that none could."""
    if place is None or place.small.test_M[0] >= 0 or place.seen >= BRANCHES:
        return place is None
    return place.seen < AGREED or share < ALONE or way.worked < UNFAILED * way.tried


class _Answer(NamedTuple):
    """A query, and all that was found for it."""

    mirror: NamespaceMirror
    query: Query
    evidence: Learned
    situation: Situation
    found: Findings
    spoken: Spoken
    drifts: Mapping[ToolName, Drift]
    floors: Floors


class Hybrid:
    """Names what works in situations like this one, and warns of what fails there.

    *Evidence* (`hepm.evidence`): what came of each call in situations like this one, what the runs of the likeliest
    requests did, and one chance that a hint is right, measured on held-out decisions of this memory. *What to say*
    (`spoken`): where some way is warned of and one stands out, that one; else the first of the rank, if its chance
    reaches `Floors.chance`. With a state, no tool is named that the run has called since the user last wrote, unless
    like runs repeated it. The chance of a tool that has begun to fail counts as far as the tool still works
    (`hepm.graph.drift`). The log-chances of a trained `ranker` are added to the rank, where a state is given.

    Ours; not in the papers.
    """

    def __init__(self, *, floors: Floors = Floors(), ranker: TrainedRanker | None = None) -> None:  # frozen
        self._floors = floors
        self._ranker = ranker

    @property
    def compares_texts(self) -> bool:
        """Whether it needs vectors: only a trained ranker does."""
        return self._ranker is not None

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        """At most k tools, surest first, ties by name; with warnings of those that failed from here."""
        floors = self._floors
        situation = Situation.of(query.after, query.history, query.state or StateSummary())
        evidence = live_evidence(mirror).at(situation.place)
        # Of parallel calls one may be known.
        unknown = len(query.after) > 1 and evidence.stems.keys().isdisjoint(query.after)
        if floors.support and unknown:
            return nothing_known(mirror, query, floors)
        allowed = evidence.support.keys() - query.names.retired
        if query.tools is not None:
            allowed = allowed & query.tools
        witness = self._witness(mirror, query, sorted(allowed))
        # Without facts no test has an answer, and none would not be "no".
        blind = query.state is None or not query.state.facts
        found = evidence.at(situation, blind=blind, allowed=allowed, witness=witness)
        if floors.support and situation.place not in evidence.places:
            if situation.place.failed and any(place.tool == situation.place.tool for place in evidence.places):
                why = f"what works {place_of(query)} is not known: no run met such an error there"
                return Suggestions(abstained=why)
            done = _surely_done(found, situation, query, floors)
            return replace(nothing_known(mirror, query, floors), done=done)
        if floors.chance and _says_nothing(situation, query, evidence, found):
            why = "the request is unlike all known ones: no word that says what is wanted is theirs"
            return Suggestions(abstained=why)
        drifts = mirror.drifts([tool for tool, likely in found.chance.items() if likely >= CHECKED])
        works = {tool: drift.works for tool, drift in drifts.items()}
        said = spoken(found, situation, evidence.chance, floors, allows=query.allows, works=works)
        return _suggestions(_Answer(mirror, query, evidence, situation, found, said, drifts, floors))

    def _witness(self, mirror: NamespaceMirror, query: Query, tools: Sequence[ToolName]) -> Scores:
        """Log-odds that a trained ranker adds."""
        if self._ranker is None or query.vector is None or not tools:
            return {}
        chances = self._ranker.log_chances(mirror, query, tools)
        # A weight chosen by benchmarks/rank.py.
        return {tool: 0.2 * likely for tool, likely in zip(tools, chances.tolist(), strict=True)}


def _says_nothing(situation: Situation, query: Query, evidence: Learned, found: Findings) -> bool:
    """Whether a first message has no word of what any known request wants, and is in the words of none."""
    # A known request may say as little of what is wanted: "please help".
    if situation.place.tool != START or query.state is None or found.vote.likeness >= 0.7:
        return False
    wanted = set(content_words(said_text(query.state)).split())
    return not evidence.requests.knows(wanted)


def _suggestions(answer: _Answer) -> Suggestions:
    """What was found, in words."""
    query, found, said, floors = answer.query, answer.found, answer.spoken, answer.floors
    ways = [way for way in found.ways.values() if query.allows(way.tool)]
    chances = _shares(found.rank)
    if floors.support and floors.chance and _all_failed(ways) and said.instead is None:
        why = f"every known way {place_of(query)} failed in runs like this one"
        return Suggestions(abstained=why, warnings=_warnings(answer), chances=chances)
    warnings = _warnings(answer)
    if not found.rank and not warnings:
        return nothing_known(answer.mirror, query, floors)
    if not said.named:
        done = 0.0
        if said.silence == "done":
            done = _surely_done(found, answer.situation, query, floors)
        return Suggestions(abstained=_why_silent(answer), warnings=warnings, chances=chances, done=done)
    places = list(said.named.items())[: query.k]
    # What a fork says is what came of the way, and no share of hints.
    states = bool(floors.chance) and not said.fork
    ranked: list[Suggestion] = []
    for tool, score in places:
        suggestion = _suggestion(answer, tool, score, states=states)
        if suggestion.support >= floors.support:
            ranked.append(suggestion)
    if not ranked:
        return nothing_known(answer.mirror, query, floors)
    return Suggestions(tuple(ranked), warnings=warnings, chances=chances)


def _all_failed(ways: Sequence[Way]) -> bool:
    failed = sum(way.failed for way in ways)
    worked = sum(way.worked for way in ways)
    return failed >= 3 and worked * 10 <= failed


def _warnings(answer: _Answer) -> tuple[FailedWay, ...]:
    """The tools to avoid: those that failed in such situations, then those that fail everywhere now."""
    warnings: list[FailedWay] = []
    for way in answer.spoken.warned:
        # It is avoided all the same where the decisions under the same conditions are too few to be said.
        if _is_said(way.tool, answer.found):
            warnings.append(_failed(answer, way.tool))
    if not answer.spoken.named and answer.spoken.silence not in ("done", "user", "strange", "strayed", "waits"):
        warnings += _stopping_fails(answer)
    warned = {warning.tool for warning in warnings}
    for tool, drift in answer.drifts.items():
        if drift.broken and tool not in warned:
            warnings.append(FailedWay(tool, drift.failures, drift.runs, drift.before))
    return tuple(warnings)


def _is_said(tool: ToolName, found: Findings) -> bool:
    """Whether the runs under the same conditions show that a tool fails."""
    counted = found.counted.get(tool, Counted(0, 0))
    return counted.failed >= FEWEST_COUNTED and counted.failed > counted.won


def _stopping_fails(answer: _Answer) -> Iterator[FailedWay]:
    """A warning of making no further call, where runs that stopped clearly achieved less than one of the calls."""
    found, stopped = answer.found, answer.found.stopped
    best = _better_than_stopping(found, answer.query.allows)
    # Of a request that is unlike all others, nothing is known.
    if not best or found.vote.likeness < NEAR_FROM:
        return
    # All runs of one task that stopped are one case; and a new request may be of those that end here.
    may_end = found.ended.share >= PLAUSIBLE and not _parted_by_result(found)
    if found.is_new and (found.stopped_in < FEWEST_STOPPED or may_end):
        return
    others = sum(way.won for way in found.went_on.values())
    runs = answer.evidence.runs_of(found, END, won=False)
    warning = FailedWay(END, stopped.failed, stopped.tried, others=others, failed_runs=runs)
    tried, won, _ = found.went_on[best]
    if won >= OUTSTANDING * others:
        worked = answer.evidence.runs_of(found, best, won=True)
        warning = replace(warning, instead=best, worked=won, tried=tried, worked_runs=worked)
    yield warning


def _failed(answer: _Answer, tool: ToolName) -> FailedWay:
    """A warning in decisions that were made: those under the same conditions; for what worked, else those made here."""
    found, instead = answer.found, answer.spoken.instead
    of_tool = found.counted[tool]
    others = sum(counted.won for other, counted in found.counted.items() if other != tool)
    runs = answer.evidence.runs_of(found, tool, won=False)
    warning = FailedWay(tool, of_tool.failed, of_tool.tried, others=others, failed_runs=runs)
    if instead is None or not answer.query.allows(instead.tool):
        return warning
    for counted in (found.counted.get(instead.tool), found.everywhere.get(instead.tool)):
        if counted is not None and counted.won >= FEWEST_COUNTED and counted.won > counted.failed:
            others = max(others, counted.won)
            runs = answer.evidence.runs_of(found, instead.tool, won=True)
            better = {"instead": instead.tool, "worked": counted.won, "tried": counted.tried}
            return replace(warning, others=others, worked_runs=runs, **better)
    return warning


def _why_silent(answer: _Answer) -> str:
    """Why no tool is named."""
    found, query = answer.found, answer.query
    first = next(iter(found.rank), "")
    shown = query.names.shown(first)
    failed = f"what is known {place_of(query)} mostly failed in runs like this one"
    if not first:
        return failed
    after = ", ".join(map(query.names.shown, query.after))
    strange = query.names.shown(found.strange.removeprefix(RESULTS_OF))
    silences = {
        "user": f"what works {place_of(query)} depends on who the user is",
        "done": "runs like this one were done here",
        "failed": failed,
        "strange": f"hardly any known result of {strange} was like this one",
        "strayed": f"successful runs with such a request hardly ever called {after}",
        "waits": "runs like this one waited for the user here",
        "again": f"the likeliest next call is {shown} again",
        "few": f"too few runs like this one are known to be sure of {shown}",
    }
    if answer.spoken.silence in silences:
        return silences[answer.spoken.silence]
    if answer.spoken.silence == "differ":
        return _differ(answer, [_better(first, found, query.allows), first])
    return _why_unsure(answer, first)


def _why_unsure(answer: _Answer, first: ToolName) -> str:
    """What the first tool of the rank lacks."""
    found, evidence = answer.found, answer.evidence
    shown = answer.query.names.shown(first)
    most = sorted(found.counted, key=lambda tool: (-found.counted[tool].won, tool))[:2]
    if len(most) == 2 and found.counted[most[1]].won * 2 > found.counted[most[0]].won:
        return _differ(answer, most)
    likely = _likely(first, found)
    if first in answer.drifts:
        likely *= answer.drifts[first].works
    if likely < CHECKED:
        return "no tool is sure enough"
    if not evidence.chance.measured:
        return f"no tool is sure enough (best {shown}, whose chance is not measured yet)"
    needed = min(_floor(first, found, evidence.chance, answer.floors), answer.floors.chance)
    is_right = f"right in {int(100 * likely)} % of such cases"
    return f"no tool is sure enough (best {shown}: {is_right}, and {percent(needed)} are needed)"


def _differ(answer: _Answer, tools: Sequence[ToolName]) -> str:
    ways: list[str] = []
    for tool in tools:
        counted = answer.found.counted[tool]
        ways.append(f"{counted.won} of {counted.tried} succeeded with {answer.query.names.shown(tool)}")
    return f"runs like this one differ: {', '.join(ways)}"


def _suggestion(answer: _Answer, tool: ToolName, chance: float, *, states: bool) -> Suggestion:
    """One tool with its reason, and with what a prompt `states` of it."""
    query, mirror, evidence = answer.query, answer.mirror, answer.evidence
    successes, failures = mirror.counts(query.after, tool)
    reasons = _reasons(answer, tool)
    counted = answer.found.counted.get(tool, Counted(0, 0))
    if not counted.won or (counted.won, counted.tried) != (successes, successes + failures):  # else it is said already
        reasons.append(_called_in_words(answer, tool, successes, failures))
    if not successes:
        successes, failures = evidence.support[tool], evidence.failures[tool]
    if tool in answer.drifts:
        reasons.append(f"it {answer.drifts[tool]}")
    share = failures / max(successes + failures, 1)
    look_up = partial(_runs_behind, mirror, evidence, query.after, tool)
    likeness = None
    if answer.situation.words:
        likeness = answer.found.vote.likeness
    measured = states and evidence.chance.measured
    stated = ""
    if states and not measured and counted.won:
        stated = f"{counted.won} of {counted.tried} such runs succeeded"
    return Suggestion(tool, chance, successes, share, likeness, "; ".join(reasons), look_up, measured, stated)


def _reasons(answer: _Answer, tool: ToolName) -> list[str]:
    """The conditions that decide, with what came of this and the other tools under them; and what like requests did."""
    found, facts = answer.found, answer.situation.facts
    reasons: list[str] = []
    counted = found.counted.get(tool)
    if counted is not None and counted.won:
        outcomes = [f"{counted.won} of {counted.tried} such runs succeeded with it"]
        for way in answer.spoken.warned:
            other = found.counted.get(way.tool)
            if other is not None:
                outcomes.append(f"{other.won} of {other.tried} with {answer.query.names.shown(way.tool)}")
        # "The user is not bob" would give one user's name to another; what a tool that was not called does not say,
        # and a word that is missing, explain nothing.
        readable: list[str] = []
        for test in found.conditions:
            missing = test.source == USER or (test.source in (SAID, SAID_LAST) and "~" in test.fact)
            explains = (bool(test.weights) or not missing) and test.asks_about_called(facts)
            if test.readable and (test.holds(facts) or explains):
                readable.append(test.sentence(facts))
        reason = ", ".join(outcomes)
        if readable:
            reason = f"{' and '.join(dict.fromkeys(readable[-3:]))} ({reason})"
        reasons.append(reason)
    vote = found.vote.share.get(tool, 0.0)
    if vote >= REPEATED and found.vote.likeness >= ALIKE:
        same = "the same request"
        if found.vote.elsewhere:
            same = "a request in the same words"
        reasons.append(f"runs with {same} did so")
    return reasons


def _called_in_words(answer: _Answer, tool: ToolName, successes: int, failures: int) -> str:
    """How many runs called a tool from here, as a clause."""
    place = place_of(answer.query)
    if successes and failures:  # others than the runs that are like this one
        return f"of all {successes + failures} runs that called it {place}, {successes} succeeded"
    if successes:
        return f"{count_of(successes, 'successful run')} called it {place}"
    # Of a large memory a part of the runs is read: then these are the least there are.
    clause = f"{count_of(answer.evidence.support[tool], 'successful run')} called it, none right {place}"
    if not answer.evidence.whole:
        clause = f"at least {clause}"
    if failures:
        clause += f", where {count_of(failures, 'failed run')} did"
    return clause


def _runs_behind(
    mirror: NamespaceMirror, evidence: Learned, after: tuple[ToolName, ...], tool: ToolName, summaries: bool
) -> Evidence:
    """Runs that took this way; where none did, the latest successful ones that called the tool at all."""
    behind = mirror.evidence(after, tool, summaries)
    if behind.runs:
        return behind
    requests = evidence.requests
    latest = zip(reversed(requests.runs), reversed(requests.won_R.tolist()), strict=True)
    called = (run.id for run, won in latest if won and tool in run.calls)
    return Evidence(tuple(islice(called, EVIDENCE_RUNS)))
