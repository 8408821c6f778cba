"""The default policy: what `hepm.policy.speech` finds worth saying, in words and with its reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hepm.evidence.decisions import Scores, Situation
from hepm.evidence.engine import NEAR_FROM, Findings, Learned
from hepm.evidence.upkeep import live_evidence
from hepm.evidence.values import Way
from hepm.graph.delta import said_text
from hepm.graph.drift import Drift
from hepm.graph.mirror.namespace_mirror import EVIDENCE_RUNS, NamespaceMirror
from hepm.policy.query import Floors, Query, content_words, nothing_known, place_of
from hepm.policy.speech import (
    ALIKE,
    CHECKED,
    FEWEST_COUNTED,
    FEWEST_STOPPED,
    OUTSTANDING,
    PLAUSIBLE,
    REPEATED,
    Spoken,
    better_than_stopping,
    better_tool,
    floor_of,
    is_shown_to_fail,
    likely_of,
    parted_by_result,
    parts_of,
    spoken,
    surely_done,
)
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
            done = surely_done(found, situation, query, floors)
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
    chances = parts_of(found.rank)
    if floors.support and floors.chance and _all_failed(ways) and said.instead is None:
        why = f"every known way {place_of(query)} failed in runs like this one"
        return Suggestions(abstained=why, warnings=_warnings(answer), chances=chances)
    warnings = _warnings(answer)
    if not found.rank and not warnings:
        return nothing_known(answer.mirror, query, floors)
    if not said.named:
        done = 0.0
        if said.silence == "done":
            done = surely_done(found, answer.situation, query, floors)
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
        if is_shown_to_fail(way.tool, answer.found):
            warnings.append(_failed(answer, way.tool))
    if not answer.spoken.named and answer.spoken.silence not in ("done", "user", "strange", "strayed", "waits"):
        warnings += _stopping_fails(answer)
    warned = {warning.tool for warning in warnings}
    for tool, drift in answer.drifts.items():
        if drift.broken and tool not in warned:
            warnings.append(FailedWay(tool, drift.failures, drift.runs, drift.before))
    return tuple(warnings)


def _stopping_fails(answer: _Answer) -> Iterator[FailedWay]:
    """A warning of making no further call, where runs that stopped clearly achieved less than one of the calls."""
    found, stopped = answer.found, answer.found.stopped
    best = better_than_stopping(found, answer.query.allows)
    # Of a request that is unlike all others, nothing is known.
    if not best or found.vote.likeness < NEAR_FROM:
        return
    # All runs of one task that stopped are one case; and a new request may be of those that end here.
    may_end = found.ended.share >= PLAUSIBLE and not parted_by_result(found)
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
        return _differ(answer, [better_tool(first, found, query.allows), first])
    return _why_unsure(answer, first)


def _why_unsure(answer: _Answer, first: ToolName) -> str:
    """What the first tool of the rank lacks."""
    found, evidence = answer.found, answer.evidence
    shown = answer.query.names.shown(first)
    most = sorted(found.counted, key=lambda tool: (-found.counted[tool].won, tool))[:2]
    if len(most) == 2 and found.counted[most[1]].won * 2 > found.counted[most[0]].won:
        return _differ(answer, most)
    likely = likely_of(first, found)
    if first in answer.drifts:
        likely *= answer.drifts[first].works
    if likely < CHECKED:
        return "no tool is sure enough"
    if not evidence.chance.measured:
        return f"no tool is sure enough (best {shown}, whose chance is not measured yet)"
    needed = min(floor_of(first, found, evidence.chance, answer.floors), answer.floors.chance)
    is_right = f"{int(100 * likely)} % of such successful runs did so"
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
    why = partial(_reason, answer, tool, successes, failures)
    if not successes:
        successes, failures = evidence.support[tool], evidence.failures[tool]
    share = failures / max(successes + failures, 1)
    look_up = partial(_runs_behind, mirror, evidence, query.after, tool)
    likeness = None
    if answer.situation.words:
        likeness = answer.found.vote.likeness
    measured = states and evidence.chance.measured
    stated = ""
    counted = answer.found.counted.get(tool)
    if states and not measured and counted is not None and counted.won:
        stated = f"{counted.won} of {counted.tried} such runs succeeded"
    return Suggestion(tool, chance, successes, share, likeness, why, look_up, measured, stated)


def _reason(answer: _Answer, tool: ToolName, successes: int, failures: int) -> str:
    """The conditions that decide, with what came of this and the other tools under them; what like requests did, and
    how many runs called it from here."""
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
    # Else it is said already.
    if counted is None or not counted.won or (counted.won, counted.tried) != (successes, successes + failures):
        reasons.append(_called_in_words(answer, tool, successes, failures))
    if tool in answer.drifts:
        reasons.append(f"it {answer.drifts[tool]}")
    return "; ".join(reasons)


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
