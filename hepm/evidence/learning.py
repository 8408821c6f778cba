"""Learn the evidence from labelled runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Final

import numpy as np

from hepm.evidence.chance import FEWEST_ASKED, MOST_ASKED, Chance, HeldOutHint, is_right
from hepm.evidence.decisions import CallPlace, Decision, FactNumbers, LabelledRun
from hepm.evidence.engine import Learned, ToolCodes, stems_of
from hepm.evidence.nearest import Requests
from hepm.evidence.place import PlaceEvidence, RowsAt, grow
from hepm.evidence.values import back_up, judge_ends
from hepm.graph.delta import ADVISED, numbers_of
from hepm.graph.rows import spread_over
from hepm.types import END, ToolName

FAMILIES: Final = 8
"""Families of a memory, from which on each is one case to a new request, however many runs it has."""
MOST_DECISIONS: Final = 1_000
"""Of one place that are learned from, half of them the latest."""


def learn(
    runs: Sequence[LabelledRun], numbers: FactNumbers, *, whole: bool = True, chance: Chance | None = None
) -> Learned:
    """Learn from runs, in order of arrival.

    Args:
        whole: Whether these are all that the memory has.
        chance: How often hints are right; None to measure it.
    """
    set_cases(runs)
    requests = Requests.of(runs)
    run_number = {run.id: number for number, run in enumerate(runs)}
    tools = ToolCodes()
    called_3P = tools.counts([run.calls for run in runs])
    base = float(requests.won_R.sum() + 1) / (len(runs) + 2)
    support, failures = Counter[ToolName](), Counter[ToolName]()
    decisions_at: dict[CallPlace, list[Decision]] = defaultdict(list)
    ends_at: dict[CallPlace, list[Decision]] = defaultdict(list)
    for run in runs:
        (support if run.won else failures).update(set(run.calls))
        for decision in run.decisions:
            decisions_at[decision.place].append(decision)
        if run.end is not None:
            ends_at[run.end.place].append(run.end)
    rows_at = {place: spread(decisions, MOST_DECISIONS) for place, decisions in decisions_at.items()}
    places: dict[CallPlace, PlaceEvidence] = {}
    for place, rows in rows_at.items():
        run_N = np.array([run_number[decision.run.id] for decision in rows])
        last_N4 = np.array([tools.last(decision.past) for decision in rows], dtype=np.int32)
        places[place] = grow(rows, numbers, seen=len(decisions_at[place]), run_N=run_N, last_N4=last_N4)
    # Where no run went on, there is nothing to compare an end with.
    ends_at = {place: spread(ends_at[place], MOST_DECISIONS) for place in places}
    for place, ends in ends_at.items():
        places[place] = places[place].with_ends(ends, [run_number[end.run.id] for end in ends], numbers)
        judge_ends(ends, places[place], requests.family_R, base)
    ceiling = back_up(rows_at, places, requests.family_R, base)
    evidence = Learned(
        places,
        requests,
        tools,
        base,
        ceiling,
        support,
        failures,
        called_3P,
        tools.lasts([run.calls for run in runs]),
        stems_of(tools),
        whole=whole,
    )
    return replace(evidence, chance=chance or _measure(evidence, rows_at))


def set_cases(runs: Sequence[LabelledRun]) -> None:
    """Set the family and the case of each run.

    The family is its task; where no other run has that, or it has no name, its request's words. Names and numbers in a
    request are not what runs of a kind have in common, and ids may be of one run each. The family is the case; but of
    few families nothing can be said, and each run is a case. So is each run of a family whose requests have other
    numbers or ids, or, without a task, whose first call gave other results, as forms and scheduled jobs have one
    wording for all: it is a kind of task, and no task run again.
    """
    runs_of_task = Counter(run.task_key for run in runs)
    runs_of: defaultdict[str, list[LabelledRun]] = defaultdict(list)
    for run in runs:
        run.family = " ".join(sorted(run.words))
        if run.task and (runs_of_task[run.task_key] > 1 or not run.family):
            run.family = run.task_key
        runs_of[run.family].append(run)
    for family, of_family in runs_of.items():
        is_kind = len(runs_of) < FAMILIES or _differ([numbers_of(run.request) for run in of_family])
        if not is_kind and family != of_family[0].task_key:
            first, _ = Counter(run.calls[:1] for run in of_family).most_common(1)[0]
            is_kind = _differ([run.met for run in of_family if run.calls[:1] == first])
        for run in of_family:
            run.case = run.id if is_kind else family


def _differ(of_runs: Sequence[object]) -> bool:
    """Whether most runs of a family have their own; of fewer than three it cannot be said."""
    return 2 * len(set(of_runs)) > len(of_runs) >= 3


def _measure(evidence: Learned, rows_at: RowsAt) -> Chance:
    """Ask what would have been said at decisions of successful runs that no hint came before."""
    row_of: dict[Decision, int] = {}
    for rows in rows_at.values():
        row_of.update(zip(rows, count()))
    asked = [decision for decision in row_of if decision.run.won and not decision.flags & ADVISED]
    asked = spread(sorted(asked, key=lambda decision: (decision.run.seq, decision.at)), MOST_ASKED)
    runs_of = Counter({decision.run.id: decision.run.case for decision in asked}.values())
    per_family = Counter((decision.run.case, not decision.at) for decision in asked)
    hints: tuple[list[HeldOutHint], list[HeldOutHint]] = [], []  # after a call, and before the first
    likeness: list[float] = []
    for decision in asked:
        place, case, first = evidence.places[decision.place], decision.run.case, not decision.at
        weight = min(1.0, 5 / per_family[case, first])  # a family counts as five decisions at most
        for known in (False, True):
            if known and runs_of[case] < 2:
                continue
            seen = evidence.held_out(place, row_of[decision], decision.past, known=known)
            if not known:
                likeness.append(seen.vote.likeness)
            signs = seen.signs(sorted(seen.likely() - {END}), decision.again, {})
            parts = {tool: of_tool.nearest if known else of_tool.share for tool, of_tool in signs.items()}
            # Of equal ways, what was done here is never ahead without its own run: all count that are nearly as likely.
            likely = max(parts.values(), default=0.0) / 2
            for tool, of_tool in signs.items():
                right = is_right(decision, tool, seen.share)
                hints[first].append(HeldOutHint(of_tool, not known, right, weight, parts[tool] >= likely))
    return Chance.measure(*hints, likeness, measured=len(asked) >= FEWEST_ASKED)


def spread(decisions: Sequence[Decision], most: int) -> list[Decision]:
    """The latest half, and as many that are evenly spread over those before."""
    if len(decisions) <= most:
        return list(decisions)
    earlier = len(decisions) - most // 2
    chosen = [decisions[place] for place in spread_over(earlier, most - most // 2)]
    return [*chosen, *decisions[earlier:]]
